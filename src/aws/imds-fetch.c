/*
 * Many questions at once, for one-shot programs: asked side by side, waited for together.
 *
 * An answer that came is kept when another one failed: a retry asks only for the rest. Of several
 * failures the one that matters most is reported: what the user must change before what may pass.
 */
#include <errno.h>

#include "imds-priv.h"
#include "nc/str.h"

struct fetch {
    struct nc_imds_answer *answers;
    unsigned pending;
    bool done;
};

struct fetch_item {
    struct fetch *fetch;
    enum nc_imds_item item;
};

static void on_fetched(void *userdata, const struct nc_imds_answer *answer) {
    const struct fetch_item *f = userdata;
    struct nc_imds_answer *to = &f->fetch->answers[f->item];

    to->status = answer->status;
    to->err = answer->err;
    to->body.max = answer->body.len;
    if (answer->body.data)
        (void)nc_buf_add(&to->body, answer->body.data, answer->body.len);
    f->fetch->done = --f->fetch->pending == 0;
}

static bool is_argument(const char *s) {
    if (!s || !*s || strlen(s) > 128)
        return false;
    for (; *s; s++) {
        const bool letter =
            (*s >= 'a' && *s <= 'z') || (*s >= 'A' && *s <= 'Z') || (*s >= '0' && *s <= '9');
        if (!letter && !strchr("+=,.@_:-", *s))
            return false;
    }
    return true;
}

/* The path of an item with its argument in place. */
static int make_path(enum nc_imds_item item, const char *argument, char **ret, struct nc_err *err) {
    const char *path = nc_imds_questions[item].path;
    const char *at = strstr(path, "%s");

    if (!at) {
        *ret = nc_strdup(path);
        return 0;
    }
    if (!argument)
        return nc_err_set(err, NC_ERR_BUG, EINVAL, "imds: %s was asked for without its argument",
                          path);
    if (!is_argument(argument)) {
        nc_auto_free char *quoted = nc_quote(argument, strlen(argument));
        return nc_err_set(err, NC_ERR_PROTOCOL, EBADMSG, "imds: %s cannot be part of the path %s",
                          quoted, path);
    }
    *ret = nc_asprintf("%.*s%s%s", (int)(at - path), path, argument, at + 2);
    return 0;
}

static int ask(struct nc_imds *i, struct fetch_item *f, const char *argument, uint64_t timeout_usec,
               struct nc_err *err) {
    nc_auto_free char *path = NULL;
    int r = make_path(f->item, argument, &path, err);
    const struct nc_imds_call call = {.path = path,
                                      .max_bytes = nc_imds_questions[f->item].max,
                                      .timeout_usec = timeout_usec,
                                      .done = on_fetched,
                                      .userdata = f};

    if (r == 0)
        r = nc_imds_get(i, &call, err);
    if (r == 0)
        f->fetch->pending++;
    return r;
}

static int weight(enum nc_err_class class) {
    switch (class) {
    case NC_ERR_CONFIG:
        return 6;
    case NC_ERR_AUTH:
        return 5;
    case NC_ERR_PROTOCOL:
        return 4;
    case NC_ERR_BUG:
        return 3;
    case NC_ERR_HOST:
        return 2;
    case NC_ERR_TRANSIENT:
        return 1;
    case NC_ERR_NONE:
    case _NC_ERR_CLASS_MAX:
        break;
    }
    return 0;
}

static int worst(const struct nc_imds_answer answers[], unsigned items, struct nc_err *err) {
    const struct nc_err *found = NULL;

    for (unsigned k = 0; k < _NC_IMDS_ITEM_MAX; k++)
        if ((items & 1u << k) && answers[k].status == 0
            && (!found || weight(answers[k].err.class) > weight(found->class)))
            found = &answers[k].err;
    if (!found)
        return 0;
    if (err)
        *err = *found;
    return found->code < 0 ? found->code : -found->code;
}

int nc_imds_fetch(struct nc_imds *i, unsigned items, const char *const args[_NC_IMDS_ITEM_MAX],
                  uint64_t timeout_usec, struct nc_imds_answer answers[_NC_IMDS_ITEM_MAX],
                  struct nc_err *err) {
    struct fetch fetch = {.answers = answers};
    struct fetch_item asked[_NC_IMDS_ITEM_MAX];

    for (unsigned k = 0; k < _NC_IMDS_ITEM_MAX; k++) {
        if (!(items & 1u << k))
            continue;
        nc_imds_answer_done(&answers[k]);
        asked[k] = (struct fetch_item){&fetch, (enum nc_imds_item)k};
        (void)ask(i, &asked[k], args ? args[k] : NULL, timeout_usec, &answers[k].err);
    }
    if (fetch.pending > 0) {
        const int r = nc_http_wait(i->http, &fetch.done, err);
        if (r < 0) {
            nc_imds_forget(i, on_fetched);
            nc_err_wrap(err, "imds");
            return r;
        }
    }
    return worst(answers, items, err);
}
