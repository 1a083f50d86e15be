/*
 * `render` and `explain`: bootstrap's own steps, offline. Nothing is retried and nothing outside
 * --out is touched.
 */
#include <errno.h>
#include <stdio.h>

#include "commands.h"
#include "gather.h"
#include "nc/str.h"

#define CORRECT "correct the document; nodeclaimd check names all that is wrong"

static int gather_all(struct nc_gather *g, struct nc_app *app, bool is_policy, struct nc_err *err) {
    int r = nc_gather_open(g, app, err);

    if (r >= 0 && (!is_policy || nc_gather_wants_user_data(app)))
        r = nc_gather_imds(g, err);
    if (r < 0 && !app->opts.facts && err->class == NC_ERR_TRANSIENT) /* nothing answers */
        nc_err_remedy(err, "on a machine that is no instance: %s",
                      is_policy ? "--source PATH"
                                : "--facts DIR, which render --save-facts DIR records on one");
    if (r >= 0)
        r = nc_gather_documents(g, err);
    if (r >= 0)
        r = is_policy ? nc_config_policies(&g->documents, &g->config, err)
                      : nc_gather_config(g, err);
    if (r >= 0 && !is_policy)
        r = nc_gather_plan(g, NULL, err);
    return r < 0 || is_policy ? r : nc_gather_render(g, err);
}

/* Both are tried again without what they refuse, so that each of it is named. */
static int try_plan(struct nc_gather *g, struct nc_err *err) {
    const int r = nc_gather_config(g, err);

    return r < 0 ? r : nc_gather_plan(g, NULL, err);
}

static void print_warnings(const struct nc_gather *g) {
    nc_cleanup(nc_buf_done) struct nc_buf text = NC_BUF_INIT;
    const struct nc_strv *lists[] = {&g->ignored, &g->config.warnings, &g->warnings,
                                     &g->plan.warnings, &g->plan.less};

    nc_documents_print(&g->documents, nc_documents_errors(&g->documents) > 1, &text);
    if (text.len > 0)
        (void)fputs(text.data, stderr);
    for (size_t l = 0; l < NC_ARRAY_SIZE(lists); l++)
        for (size_t i = 0; i < lists[l]->n; i++)
            (void)fprintf(stderr, "warning: %s\n", lists[l]->v[i]);
}

/* Facts are recorded where a step failed, too: then they are needed most. r: what the steps came
 * to. */
static int save(struct nc_gather *g, int r, struct nc_err *err) {
    struct nc_err own = NC_ERR_INIT;

    if (!g->facts.instance_id)
        return r;
    if (r < 0)
        (void)nc_gather_host(g, NULL); /* it may be what failed */
    if (nc_gather_save(g, g->app->opts.save_facts, &own) >= 0)
        return r;
    if (r < 0) {
        (void)fprintf(stderr, "warning: %s\n", own.msg);
        return r;
    }
    *err = own;
    return -EIO;
}

int nc_command_render(struct nc_app *app) {
    nc_cleanup(nc_gather_done) struct nc_gather g = {0};
    const struct nc_apply_call call = {.root = app->opts.out, .files = &g.files};
    struct nc_apply_result result = {0};
    struct nc_err err = NC_ERR_INIT;
    int r;

    if (!app->opts.out && !app->opts.save_facts) {
        (void)fprintf(stderr,
                      "nodeclaimd render: --out DIR is required: the tree is written there\n");
        return NC_EXIT_USAGE;
    }
    r = gather_all(&g, app, false, &err);
    if (r < 0 && err.class == NC_ERR_CONFIG && g.documents.n_docs > 0) {
        struct nc_err last = NC_ERR_INIT;
        (void)nc_try_each_rule(&g, false, try_plan, &last);
        nc_documents_sort(&g.documents);
        if (nc_documents_errors(&g.documents) > 1) {
            (void)nc_documents_first_error(&g.documents, &err);
            nc_err_remedy(&err, CORRECT);
        }
    }
    print_warnings(&g);
    if (app->opts.save_facts)
        r = save(&g, r, &err);
    if (r >= 0 && app->opts.out)
        r = nc_apply_all(&call, &result, &err);
    if (r < 0)
        return nc_app_fail(app, &err);
    if (app->opts.out)
        (void)printf("%s: %u files written, %u unchanged, %u removed\n", app->opts.out,
                     result.written, result.unchanged, result.removed);
    return 0;
}

/* The names that a field answers to (see is_asked): itself, the objects that it is in, the ends of
 * its path. */
static void add_names(struct nc_buf *names, const char *field) {
    (void)nc_buf_add(names, field, strlen(field) + 1);
    for (const char *dot = strchr(field, '.'); dot; dot = strchr(dot + 1, '.')) {
        (void)nc_buf_add(names, dot + 1, strlen(dot));
        (void)nc_buf_add(names, field, (size_t)(dot - field));
        (void)nc_buf_putc(names, '\0');
    }
}

static int refuse_field(const struct nc_app *app, const struct nc_plan *p) {
    nc_cleanup(nc_buf_done) struct nc_buf names = NC_BUF_INIT;
    const char *asked = app->opts.n_args > 0 ? app->opts.args[0] : "anything", *near;

    for (size_t i = 0; i < p->n_origins; i++)
        add_names(&names, p->origins[i].field);
    /* itself, or the end of a path of a document, such as spec.kubelet.config.maxPods */
    near = nc_nearest(asked, names.data);
    for (const char *dot = asked; !near && (dot = strchr(dot, '.'));)
        near = nc_nearest(++dot, names.data);
    (void)fprintf(stderr, "nodeclaimd explain: no final value is named %s%s%s%s\n", asked,
                  near ? ", did you mean " : "", near ? near : "", near ? "?" : "");
    return nc_err_exit_code(NC_ERR_CONFIG);
}

/* The field itself, what is below it, or the end of its path; a path of a document may be without
 * its "spec.". */
static bool is_named(const char *field, const char *asked) {
    const size_t n = strlen(asked), whole = strlen(field);

    if (nc_streq(asked, field))
        return true;
    if (n == 0 || n >= whole)
        return false;
    return (nc_starts_with(field, asked) && strchr(".[", field[n]))
           || (nc_ends_with(field, asked) && field[whole - n - 1] == '.');
}

static bool is_asked(const struct nc_app *app, const char *field) {
    static const char spec[] = "spec.";
    const char *asked = app->opts.n_args > 0 ? app->opts.args[0] : NULL;

    return !asked || is_named(field, asked)
           || (nc_starts_with(field, spec) && is_named(field + strlen(spec), asked));
}

static struct nc_value *origin_json(const struct nc_origin *o) {
    struct nc_value *one = nc_value_new_map();

    nc_value_set_string(one, "field", o->field);
    nc_value_set_string(one, "value", o->value);
    nc_value_set_string(one, "from", o->from);
    nc_value_set_string(one, "overrode", o->overrode);
    return one;
}

/* How many fields answer to what is asked; is_printed: and each of them. */
static size_t explain(const struct nc_app *app, const struct nc_plan *p, bool is_printed) {
    nc_auto_value struct nc_value *list = nc_value_new_list();
    size_t n = 0;

    for (size_t i = 0; i < p->n_origins; i++) {
        const struct nc_origin *o = &p->origins[i];
        if (!is_asked(app, o->field))
            continue;
        n++;
        if (app->opts.json)
            nc_value_push(list, origin_json(o));
        else if (is_printed) {
            (void)printf("%s = %s\n    from %s\n", o->field, o->value, o->from);
            if (*o->overrode)
                (void)printf("    overrode %s\n", o->overrode);
        }
    }
    if (is_printed && app->opts.json)
        nc_print_json(list);
    return n;
}

/* Policies of the daemon, of which the documents alone decide; a misspelled one, too. */
static bool asks_for_policy(const struct nc_app *app) {
    static const char spec[] = "spec.";
    const char *asked = app->opts.n_args > 0 ? app->opts.args[0] : "";
    const char *field = asked + (nc_starts_with(asked, spec) ? strlen(spec) : 0);
    nc_auto_free char *object = nc_strndup(field, strcspn(field, "."));

    return nc_nearest(object, "drain\0interruption\0");
}

int nc_command_explain(struct nc_app *app) {
    nc_cleanup(nc_gather_done) struct nc_gather g = {0};
    nc_cleanup(nc_plan_done) struct nc_plan policies = NC_PLAN_INIT;
    const bool is_policy = asks_for_policy(app);
    struct nc_plan *among = &policies;
    struct nc_err err = NC_ERR_INIT;

    /* Each policy has a name and a default: nothing has to be read to refuse another one. */
    nc_explain_policies(&policies, &g.documents, &g.config);
    if (!is_policy || explain(app, &policies, false) > 0) {
        if (gather_all(&g, app, is_policy, &err) < 0)
            return nc_app_fail(app, &err);
        among = &g.plan;
        nc_explain_policies(among, &g.documents, &g.config);
        print_warnings(&g);
        if (explain(app, among, true) > 0)
            return 0;
    }
    return refuse_field(app, among);
}
