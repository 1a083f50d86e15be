/*
 * Many questions at once: sent side by side, told together; one-shot programs wait for them.
 *
 * An answer that came is kept when another one failed: a retry asks only for the rest. Of several
 * failures the one that matters most is reported: what the user must change before what may pass.
 */
#include <errno.h>

#include "imds-priv.h"
#include "nc/str.h"

struct batch_item {
    struct nc_imds_batch *batch;
    enum nc_imds_item item;
};

struct nc_imds_batch {
    struct nc_imds *i;
    struct nc_imds_batch_call call;
    struct batch_item items[_NC_IMDS_ITEM_MAX];
    unsigned pending;
};

static int worst(const struct nc_imds_answer answers[], unsigned items, struct nc_err *err);

static void on_fetched(void *userdata, const struct nc_imds_answer *answer) {
    const struct batch_item *f = userdata;
    struct nc_imds_batch *b = f->batch;
    const struct nc_imds_batch_call call = b->call;
    struct nc_imds_answer *to = &call.answers[f->item];
    struct nc_err err = NC_ERR_INIT;

    to->status = answer->status;
    to->err = answer->err;
    to->body.max = answer->body.len;
    if (answer->body.data)
        (void)nc_buf_add(&to->body, answer->body.data, answer->body.len);
    if (--b->pending > 0)
        return;
    free(b);
    (void)worst(call.answers, call.items, &err);
    call.done(call.userdata, &err);
}

int nc_imds_path(enum nc_imds_item item, const char *argument, char **ret, struct nc_err *err) {
    const char *path = nc_imds_questions[item].path;
    const char *at = strstr(path, "%s");

    if (!at) {
        *ret = nc_strdup(path);
        return 0;
    }
    if (!argument)
        return nc_err_set(err, NC_ERR_BUG, EINVAL, "imds: %s was requested without its argument",
                          path);
    if (!nc_is_alnum_or(argument, item == NC_IMDS_METADATA ? "+=,.@_:-/" : "+=,.@_:-",
                        NC_IMDS_MAX_ARGUMENT)) {
        nc_auto_free char *quoted = nc_quote_string(argument);
        return nc_err_protocol(err, "imds: %s cannot be part of the path %s", quoted, path);
    }
    *ret = nc_asprintf("%.*s%s%s", (int)(at - path), path, argument, at + 2);
    return 0;
}

static int start_item(struct nc_imds_batch *b, enum nc_imds_item item, struct nc_err *err) {
    nc_auto_free char *path = NULL;
    int r = nc_imds_path(item, b->call.args ? b->call.args[item] : NULL, &path, err);
    const struct nc_imds_call call = {.path = path,
                                      .max_bytes = nc_imds_questions[item].max_bytes,
                                      .timeout_usec = b->call.timeout_usec,
                                      .done = on_fetched,
                                      .userdata = &b->items[item]};

    b->items[item] = (struct batch_item){b, item};
    if (r == 0)
        r = nc_imds_get(b->i, &call, err);
    if (r == 0)
        b->pending++;
    return r;
}

/* Which failure of several is told. */
static const int weights[_NC_ERR_CLASS_MAX] = {
    [NC_ERR_TRANSIENT] = 1, [NC_ERR_HOST] = 2, [NC_ERR_BUG] = 3,
    [NC_ERR_PROTOCOL] = 4,  [NC_ERR_AUTH] = 5, [NC_ERR_CONFIG] = 6,
};

static int worst(const struct nc_imds_answer answers[], unsigned items, struct nc_err *err) {
    const struct nc_err *found = NULL;

    for (unsigned k = 0; k < _NC_IMDS_ITEM_MAX; k++)
        if ((items & 1u << k) && answers[k].status == 0
            && (!found || weights[answers[k].err.class] > weights[found->class]))
            found = &answers[k].err;
    if (!found)
        return 0;
    if (err)
        *err = *found;
    return found->code < 0 ? found->code : -found->code;
}

struct nc_imds_batch *nc_imds_batch_cancel(struct nc_imds_batch *b) {
    if (b)
        for (unsigned k = 0; k < _NC_IMDS_ITEM_MAX; k++)
            nc_imds_forget(b->i, &b->items[k]);
    free(b);
    return NULL;
}

int nc_imds_batch_start(struct nc_imds *i, const struct nc_imds_batch_call *call,
                        struct nc_imds_batch **ret, struct nc_err *err) {
    struct nc_imds_batch *b = nc_calloc(1, sizeof(*b));

    b->i = i;
    b->call = *call;
    for (unsigned k = 0; k < _NC_IMDS_ITEM_MAX; k++) {
        if (!(call->items & 1u << k))
            continue;
        nc_imds_answer_done(&call->answers[k]);
        (void)start_item(b, (enum nc_imds_item)k, &call->answers[k].err);
    }
    if (b->pending > 0) {
        *ret = b;
        return 0;
    }
    free(b);
    return worst(call->answers, call->items, err);
}

/* --- for one-shot programs */

static void on_waited(void *userdata, const struct nc_err *err) {
    *(bool *)userdata = true;
}

int nc_imds_wait(struct nc_imds *i, const bool *done, struct nc_err *err) {
    const int r = nc_http_wait(i->http, done, err);

    if (r < 0)
        nc_err_wrap(err, "imds");
    return r;
}

int nc_imds_fetch(struct nc_imds *i, struct nc_imds_batch_call call, struct nc_err *err) {
    bool is_done = false;
    struct nc_imds_batch *b = NULL;
    int r;

    call.done = on_waited;
    call.userdata = &is_done;
    r = nc_imds_batch_start(i, &call, &b, err);
    if (r < 0 || !b)
        return r;
    r = nc_imds_wait(i, &is_done, err);
    if (r < 0) {
        if (!is_done)
            nc_imds_batch_cancel(b);
        return r;
    }
    return worst(call.answers, call.items, err);
}
