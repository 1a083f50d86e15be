/*
 * What users write for containerd: TOML, merged key by key.
 *
 * containerd's own `imports` would replace a complete section of a plugin, and with it what a node
 * needs. A text says for which version of the configuration it is by its "version", or by the
 * plugins that it names: version 3 splits io.containerd.grpc.v1.cri into images and runtime.
 */
#include "planner.h"

#include <errno.h>

#include "nc/str.h"
#include "nc/value.h"

static const char v3_plugins[][32] = {"io.containerd.cri.v1.images",
                                      "io.containerd.cri.v1.runtime"};
#define V2_PLUGIN "io.containerd.grpc.v1.cri"

void nc_containerd_user_done(struct nc_containerd_user *u) {
    u->tree = nc_value_free(u->tree);
    u->version = 0;
}

/* Where the text is that a document of this source has; the source alone where it has none. */
static struct nc_mark place_of_text(const struct nc_planner *s, unsigned source) {
    const struct nc_host_config *host = &s->config->host;

    for (size_t i = 0; i < host->containerd.n_texts; i++)
        if (host->containerd.texts[i].mark.source == source)
            return host->containerd.texts[i].mark;
    return (struct nc_mark){.source = source};
}

int nc_containerd_refuse(struct nc_planner *s, const struct nc_value *v, const char *what) {
    nc_auto_free char *line = NULL;
    const struct nc_value place = {
        .mark = nc_mark_inside(place_of_text(s, v->mark.source), v->mark, &line)};

    return nc_origin_error(s->err, s->docs, &place, NC_CONTAINERD_FIELD ": %s%s", line, what);
}

void nc_containerd_warn(struct nc_planner *s, struct nc_mark inside, bool is_unknown,
                        const char *message) {
    nc_auto_free char *line = NULL;
    const struct nc_mark mark = nc_mark_inside(place_of_text(s, inside.source), inside, &line);
    struct nc_plan *p = &s->plan;
    nc_auto_free char *place = nc_origin_mark(s->docs, mark);

    nc_strv_addf(&p->warnings, "%s: " NC_CONTAINERD_FIELD ": %s%s", place, line, message);
    if (is_unknown)
        nc_origin_certain(p, mark, NC_CONTAINERD_FIELD,
                          strlen(place) + strlen(": " NC_CONTAINERD_FIELD ": "));
}

static void set_source(struct nc_value *v, unsigned source) {
    v->mark.source = source;
    for (size_t i = 0; i < v->n; i++)
        set_source(v->type == NC_VALUE_MAP ? v->members[i].value : v->items[i], source);
}

/* 0 = either, 2, 3, 4, or a refusal. */
static int version_of(struct nc_planner *s, const struct nc_value *tree) {
    const struct nc_value *plugins = nc_value_get(tree, "plugins");
    const struct nc_value *version = nc_value_get(tree, "version");
    int by_name = nc_value_get(plugins, V2_PLUGIN) ? 2 : 0;

    for (size_t i = 0; i < NC_ARRAY_SIZE(v3_plugins); i++)
        if (nc_value_get(plugins, v3_plugins[i]))
            by_name = 3;
    if (!version)
        return by_name;
    if (version->type != NC_VALUE_INT || version->integer < 2 || version->integer > 4)
        return nc_containerd_refuse(s, version, "version must be 2, 3 or 4");
    if (version->integer == 2 && by_name == 3)
        return nc_containerd_refuse(s, version,
                                    "version is 2, but the plugins io.containerd.cri.v1.images and "
                                    "io.containerd.cri.v1.runtime are of version 3");
    return (int)version->integer;
}

/* Two tables agree, two other values agree; `path` is where they stand. */
static int check_shapes(struct nc_planner *s, const struct nc_value *is, const struct nc_value *new,
                        const char *path) {
    if ((is->type == NC_VALUE_MAP) != (new->type == NC_VALUE_MAP)) {
        nc_auto_free char *quoted = nc_quote_string(path);
        nc_auto_free char *what =
            nc_asprintf("%s is %s", quoted,
                        is->type == NC_VALUE_MAP ? "a table, not a value" : "a value, not a table");
        return nc_containerd_refuse(s, new, what);
    }
    for (size_t i = 0; is->type == NC_VALUE_MAP && i < new->n; i++) {
        const struct nc_member *m = &new->members[i];
        const struct nc_value *old = nc_value_get(is, m->key);
        nc_auto_free char *below = nc_asprintf("%s%s%s", path, *path ? "." : "", m->key);
        const int r = old ? check_shapes(s, old, m->value, below) : 0;
        if (r < 0)
            return r;
    }
    return 0;
}

int nc_containerd_user_merge(struct nc_planner *s, const struct nc_containerd_user *u,
                             struct nc_value *config) {
    const int r = u->tree ? check_shapes(s, config, u->tree, "") : 0;

    if (r >= 0 && u->tree)
        nc_value_merge(config, nc_value_copy(u->tree));
    return r;
}

/* One more text over those before it. */
static int add_text(struct nc_planner *s, const struct nc_containerd_text *t,
                    struct nc_containerd_user *u) {
    const struct nc_value place = {.mark = t->mark};
    struct nc_err wrong = NC_ERR_INIT;
    nc_auto_value struct nc_value *tree = NULL;
    int r = nc_toml_parse((struct nc_text){t->toml, strlen(t->toml), t->line, t->indent}, &tree,
                          &wrong);

    if (r < 0) {
        struct nc_value at = {.mark = wrong.mark};
        at.mark.source = t->mark.source;
        return nc_containerd_refuse(s, &at, wrong.msg);
    }
    set_source(tree, t->mark.source);
    r = version_of(s, tree);
    if (r > 0 && u->version > 0 && r != (int)u->version)
        r = nc_origin_error(s->err, s->docs, &place,
                            NC_CONTAINERD_FIELD ": is of version %d, that of an earlier document "
                                                "of version %u",
                            r, u->version);
    if (r < 0)
        return r;
    u->version = r > 0 ? (unsigned)r : u->version;
    const struct nc_containerd_user one = {.tree = tree};
    if (u->tree)
        return nc_containerd_user_merge(s, &one, u->tree);
    u->tree = nc_steal(&tree);
    return 0;
}

int nc_containerd_user_read(struct nc_planner *s, struct nc_containerd_user *ret) {
    const struct nc_host_config *host = &s->config->host;

    for (size_t i = 0; i < host->containerd.n_texts; i++) {
        const int r = add_text(s, &host->containerd.texts[i], ret);
        if (r < 0) {
            nc_containerd_user_done(ret);
            nc_err_remedy(s->err, "correct the TOML text of " NC_CONTAINERD_FIELD);
            return r;
        }
    }
    return 0;
}
