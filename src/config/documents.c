/*
 * Documents: from bytes to checked trees.
 *
 * Knows which kinds are ours, splits a stream, runs the schema and the rules of each kind, and
 * collects every complaint. A document of another kind is always an error here: whoever hands a
 * file or a part of our own type to this program means it to be read. What other parts of user data
 * hold is remembered for the message of a boot that found nothing.
 */
#include <errno.h>
#include <stdio.h>

#include "config-priv.h"
#include "mime.h"
#include "nc/str.h"
#include "schema.h"

#define MAX_DOCUMENTS ((size_t)64)
#define MAX_SOURCES ((size_t)128)
#define MAX_BYTES ((size_t)1 << 20)
#define MAX_MEMBERS ((size_t)1024) /* of one map: what follows may check each pair of them */
#define MAX_ITEMS ((size_t)8192)

/* --- what is refused, set aside */

static bool is_at(struct nc_mark a, struct nc_mark b) {
    return a.source == b.source && a.line == b.line && a.column == b.column;
}

/* Does the path end with this key? Then it is the key that is wrong, and not the map that begins
 * with it, at the same place. */
static bool is_key(const struct nc_member *m, const char *path) {
    return nc_ends_with(path, m->key) || nc_ends_with(path, "']");
}

static bool is_whole(const struct nc_value *v, struct nc_mark mark, const char *path) {
    return is_at(v->mark, mark)
           && !(v->type == NC_VALUE_MAP && v->n > 0 && is_at(v->members[0].mark, mark)
                && is_key(&v->members[0], path));
}

/* Is the place a line of this literal block? */
static bool is_inside(const struct nc_value *v, struct nc_mark mark) {
    unsigned last = v->mark.line + 1;

    if (!v->mark.indent || v->mark.source != mark.source || mark.line <= v->mark.line)
        return false;
    for (const char *p = v->text; (p = strchr(p, '\n')); p++)
        last++;
    return mark.line <= last;
}

static bool remove_item(struct nc_value *list, size_t i) {
    nc_value_free(list->items[i]);
    list->n--;
    memmove(&list->items[i], &list->items[i + 1], (list->n - i) * sizeof(struct nc_value *));
    return true;
}

/* *ret_key: the place of its key, where it has one. An object of a list goes as a whole: a taint
 * without its key is none. */
static bool remove_at(struct nc_value *v, struct nc_mark mark, const char *path,
                      struct nc_mark *ret_key) {
    for (size_t i = 0; i < v->n; i++) {
        const bool is_map = v->type == NC_VALUE_MAP;
        struct nc_value *child = is_map ? v->members[i].value : v->items[i];

        if (remove_at(child, mark, path, ret_key))
            return is_map || child->type != NC_VALUE_MAP || remove_item(v, i);
        if (!is_whole(child, mark, path)
            && !(is_map && (is_at(v->members[i].mark, mark) || is_inside(child, mark))
                 && is_key(&v->members[i], path)))
            continue;
        if (!is_map)
            return remove_item(v, i);
        *ret_key = v->members[i].mark;
        return nc_value_remove(v, v->members[i].key);
    }
    return false;
}

/* The document that has lost it; NULL: none had it. */
static const struct nc_document *remove_from_all(struct nc_documents *d, struct nc_mark mark,
                                                 const char *path, struct nc_mark *ret_key) {
    for (size_t i = 0; mark.line > 0 && i < d->n_docs; i++)
        if (remove_at(d->docs[i].tree, mark, path, ret_key))
            return &d->docs[i];
    return NULL;
}

void nc_documents_set_aside_errors(struct nc_documents *d) {
    struct nc_mark key;

    if (nc_documents_errors(d) >= NC_DIAGS_MAX) /* there may be more, that nobody has named */
        return;
    d->n_aside += d->n_whole;
    for (size_t i = 0; i < d->n_diags; i++)
        if (d->diags[i].is_error)
            d->n_aside += remove_from_all(d, d->diags[i].mark, d->diags[i].path, &key) != NULL;
}

bool nc_documents_refuse(const struct nc_documents *d, const char *path) {
    for (size_t i = 0; i < d->n_diags; i++) {
        const char *above = d->diags[i].path;
        const size_t n = strlen(above);

        if (d->diags[i].is_error && n > 0 && nc_starts_with(path, above)
            && strchr(".[", path[n])) /* or its end */
            return true;
    }
    return false;
}

static bool is_refused_at(const struct nc_documents *d, struct nc_mark mark) {
    for (size_t i = 0; mark.line > 0 && i < d->n_diags; i++)
        if (d->diags[i].is_error && is_at(d->diags[i].mark, mark))
            return true;
    return false;
}

/* A warning of the same field says it already, or as much of it: it becomes the error. */
static bool is_warned(struct nc_documents *d, const struct nc_err *err, struct nc_mark key) {
    for (size_t i = 0; i < d->n_diags; i++) {
        struct nc_diagnostic *g = &d->diags[i];
        const bool is_unsupported = g->kind == NC_DIAGNOSTIC_UNSUPPORTED;
        char *was = g->message; /* of a warning, until now */

        if (g->is_error || !is_at(g->mark, is_unsupported ? err->mark : key))
            continue;
        if (is_unsupported) {
            g->message = nc_asprintf("%s; %s", was, err->remedy);
            free(was);
        }
        g->kind = NC_DIAGNOSTIC_PLAIN;
        g->is_error = true;
        return true;
    }
    return false;
}

int nc_documents_set_aside(struct nc_documents *d, const struct nc_err *err) {
    nc_auto_free char *place = nc_mark_location(d, err->mark), *path = NULL;
    const char *text = nc_starts_with(err->msg, place) ? err->msg + strlen(place) + 2 : err->msg;
    static const char config[] = "spec.kubelet.config."; /* of a NodeClass: spec.kubelet. */
    const size_t n = strcspn(text, " ");
    struct nc_mark key = {0};

    if (n > 1 && text[n] && text[n - 1] == ':') { /* "PATH: message" */
        path = nc_strndup(text, n - 1);
        text += n + 1;
    }
    if (d->n_aside >= NC_DIAGS_MAX)
        return -E2BIG;
    if (err->code == -NC_CONFIG_MISSING && nc_documents_refuse(d, path))
        return 0;
    if (err->code != -NC_CONFIG_MISSING) {
        const struct nc_document *of = remove_from_all(d, err->mark, path ? path : "", &key);
        if (!of)
            return is_refused_at(d, err->mark) ? 0 : -ENOENT;
        if (path && nc_starts_with(path, config) && of->kind == NC_DOCUMENT_NODE_CLASS)
            memmove(path + strlen("spec.kubelet."), path + strlen(config),
                    strlen(path + strlen(config)) + 1);
    }
    d->n_aside++;
    if (is_warned(d, err, key))
        return 1;
    struct nc_diagnostic *diag = nc_diag(d, true, err->mark, path ? path : "", "%s%s%s", text,
                                         err->remedy[0] ? "; " : "", err->remedy);
    if (diag && err->code == -NC_CONFIG_MISSING)
        diag->kind = NC_DIAGNOSTIC_MISSING;
    return 1;
}

void nc_documents_done(struct nc_documents *d) {
    for (size_t i = 0; i < d->n_sources; i++)
        free(d->sources[i].name);
    for (size_t i = 0; i < d->n_docs; i++) {
        nc_config_wipe_token(d->docs[i].tree);
        nc_value_free(d->docs[i].tree);
    }
    for (size_t i = 0; i < d->n_diags; i++) {
        free(d->diags[i].path);
        free(d->diags[i].message);
    }
    free(d->sources);
    free(d->docs);
    free(d->diags);
    free(d->for_cloud_init);
    nc_strv_done(&d->found);
    *d = (struct nc_documents)NC_DOCUMENTS_INIT;
}

/* 0 is never given out: marks that are zero mean "no document". */
unsigned nc_documents_add_source(struct nc_documents *d, const char *name) {
    if (d->n_sources == 0)
        nc_append(&d->sources, &d->n_sources)->name = nc_strdup("built-in default");
    *nc_append(&d->sources, &d->n_sources) =
        (struct nc_document_source){.name = nc_strdup(name), .n_file = strlen(name)};
    return (unsigned)(d->n_sources - 1);
}

void nc_documents_set_file(struct nc_documents *d, size_t first, size_t n, bool has_own_lines) {
    for (; first < d->n_sources; first++) {
        d->sources[first].n_file = n;
        d->sources[first].has_own_lines = has_own_lines;
    }
}

/* What was said since then is of what becomes no document. */
static int refuse_whole(struct nc_documents *d, size_t errors_before) {
    d->n_whole += nc_documents_errors(d) - errors_before;
    return 0;
}

void nc_documents_add_error(struct nc_documents *d, const char *source, const char *message) {
    const size_t before = nc_documents_errors(d);

    nc_diag(d, true, (struct nc_mark){.source = nc_documents_add_source(d, source)}, "", "%s",
            message);
    (void)refuse_whole(d, before);
}

/* The first map or list below v that is too large to work on. */
static const struct nc_value *oversized(const struct nc_value *v) {
    const struct nc_value *found = NULL;

    if (v->type == NC_VALUE_MAP) {
        if (v->n > MAX_MEMBERS)
            return v;
        for (size_t i = 0; !found && i < v->n; i++)
            found = oversized(v->members[i].value);
    }
    if (v->type == NC_VALUE_LIST) {
        if (v->n > MAX_ITEMS)
            return v;
        for (size_t i = 0; !found && i < v->n; i++)
            found = oversized(v->items[i]);
    }
    return found;
}

struct known_kind {
    char kind[13];
    char group[14]; /* "": any */
    char version[9];
    enum nc_document_kind is;
    const struct nc_schema *schema;
};

static const struct known_kind known_kinds[] = {
    {"NodeConfig", "node.eks.aws", "v1alpha1", NC_DOCUMENT_NODE_CONFIG, &nc_schema_node_config},
    {"AgentConfig", "nodeclaimd.io", "v1alpha1", NC_DOCUMENT_AGENT_CONFIG, &nc_schema_agent_config},
    {"NodeClaim", "karpenter.sh", "v1", NC_DOCUMENT_NODE_CLAIM, &nc_schema_node_claim},
    {"NodeClaim", "karpenter.sh", "v1beta1", NC_DOCUMENT_NODE_CLAIM, &nc_schema_node_claim_beta},
    {"EC2NodeClass", "", "v1", NC_DOCUMENT_NODE_CLASS, &nc_schema_ec2_node_class},
    {"EC2NodeClass", "", "v1beta1", NC_DOCUMENT_NODE_CLASS, &nc_schema_node_class},
    {"NodeClass", "", "v1", NC_DOCUMENT_NODE_CLASS, &nc_schema_node_class},
    {"NodeClass", "", "v1beta1", NC_DOCUMENT_NODE_CLASS, &nc_schema_node_class},
};

static const char kind_names[] = "NodeConfig\0AgentConfig\0NodeClaim\0EC2NodeClass\0NodeClass\0";

static bool is_api_version(const struct known_kind *k, const char *api_version) {
    const char *slash = strchr(api_version, '/');

    if (!slash || !nc_streq(slash + 1, k->version))
        return false;
    return !*k->group
           || (strlen(k->group) == (size_t)(slash - api_version)
               && nc_starts_with(api_version, k->group));
}

/* The apiVersions that go with a kind: "karpenter.sh/v1 or karpenter.sh/v1beta1". Owned; NULL where
 * the kind is not ours. */
static char *versions_of(const char *kind) {
    nc_cleanup(nc_buf_done) struct nc_buf b = NC_BUF_INIT;

    for (size_t i = 0; i < NC_ARRAY_SIZE(known_kinds); i++)
        if (nc_streq(kind, known_kinds[i].kind))
            (void)nc_buf_printf(&b, "%s%s/%s", b.len ? " or " : "",
                                *known_kinds[i].group ? known_kinds[i].group : "GROUP",
                                known_kinds[i].version);
    return b.len ? nc_buf_steal(&b) : NULL;
}

static void unknown_kind(struct nc_documents *d, const struct nc_value *kind,
                         const struct nc_value *api_version) {
    nc_auto_free char *name = nc_quote_string(kind->text);
    nc_auto_free char *version = nc_quote_string(api_version->text);
    nc_auto_free char *versions = versions_of(kind->text);
    const char *near = versions ? NULL : nc_nearest(kind->text, kind_names);
    nc_auto_free char *near_versions = near ? versions_of(near) : NULL;

    if (versions)
        nc_diag(d, true, api_version->mark, "apiVersion", "%s is not known for %s: use %s", version,
                name, versions);
    else if (nc_streq(kind->text, "NodePool"))
        nc_strv_addf(&d->found,
                     "%s" NC_FOUND_NODE_POOL
                     ", which no node reads: name its EC2NodeClass, or user data",
                     d->sources[kind->mark.source].name);
    else if (near)
        nc_diag(d, true, kind->mark, "kind", "%s is not known, did you mean \"%s\" of %s?", name,
                near, near_versions);
    else
        nc_diag(d, true, kind->mark, "kind",
                "%s of %s is nothing that a node reads: NodeConfig, AgentConfig, NodeClaim, "
                "EC2NodeClass and NodeClass are",
                name, version);
}

/* Which kind is it? NULL, with a diagnostic, where it is none of ours. */
static const struct known_kind *identify(struct nc_documents *d, const struct nc_value *tree) {
    const struct nc_value *kind = nc_value_get(tree, "kind");
    const char *name = nc_value_string(kind);
    const char *api_version = nc_value_get_string(tree, "apiVersion");

    if (tree->type != NC_VALUE_MAP) {
        nc_diag(d, true, tree->mark, "", "a document must be a map with apiVersion, kind and spec");
        return NULL;
    }
    if (!name || !api_version) {
        const char *key = name ? "apiVersion" : "kind";
        const struct nc_value *v = nc_value_get(tree, key);

        nc_diag(d, true, v ? v->mark : tree->mark, "",
                v ? "\"%s\" must be a string" : "\"%s\" is missing", key);
        return NULL;
    }
    for (size_t i = 0; i < NC_ARRAY_SIZE(known_kinds); i++)
        if (nc_streq(name, known_kinds[i].kind) && is_api_version(&known_kinds[i], api_version))
            return &known_kinds[i];
    unknown_kind(d, kind, nc_value_get(tree, "apiVersion"));
    return NULL;
}

/* "line L, column C: message" of a parser as a diagnostic. */
static void diagnose(struct nc_documents *d, unsigned source, const struct nc_err *e) {
    struct nc_mark mark = {.source = source};
    const char *message = e->msg;
    int used = 0;

    if (sscanf(message, "line %9u, column %9u: %n", &mark.line, &mark.column, &used) == 2
        && used > 0) {
        message += used;
    } else {
        mark.line = mark.column = 0;
    }
    nc_diag(d, true, mark, "", "%s", message);
}

/* What only shows when a well-formed NodeClaim is read: times, and the kubelet block inside an
 * annotation. */
static void check_claim(struct nc_documents *d, const struct nc_value *tree) {
    nc_cleanup(nc_claim_done) struct nc_claim claim = {0};
    struct nc_err e = NC_ERR_INIT;

    if (nc_claim_parse(tree, &claim, &e) < 0)
        diagnose(d, tree->mark.source, &e);
    else if (claim.kubelet && !nc_value_path(tree, "spec.kubelet"))
        nc_schema_check(d, &nc_schema_kubelet_beta, claim.kubelet, "metadata.annotations");
}

/* What only Karpenter reads of an EC2NodeClass does not keep a node from its boot: `check` alone
 * refuses what the API server would. */
static void leave_to_check(struct nc_documents *d, size_t first) {
    for (size_t i = first; i < d->n_diags; i++) {
        struct nc_diagnostic *diag = &d->diags[i];
        if (!diag->is_error || !nc_starts_with(diag->path, "spec.")
            || nc_starts_with(diag->path, "spec.kubelet"))
            continue;
        diag->is_error = false;
        diag->kind = NC_DIAGNOSTIC_REFUSED;
    }
}

static void check(struct nc_documents *d, const struct known_kind *kind,
                  const struct nc_value *tree) {
    const struct nc_value *taints = nc_value_path(tree, "spec.node.taints");
    size_t before = nc_documents_errors(d);
    const size_t first = d->n_diags;

    nc_schema_check(d, kind->schema, tree, "");
    if (kind->schema == &nc_schema_ec2_node_class)
        leave_to_check(d, first);
    if (kind->is == NC_DOCUMENT_NODE_CLAIM)
        nc_rules_node_claim(d, tree);
    if (kind->is == NC_DOCUMENT_NODE_CLAIM && nc_documents_errors(d) == before)
        check_claim(d, tree);
    if (kind->is == NC_DOCUMENT_NODE_CONFIG)
        nc_rules_node_config(d, tree);
    if (kind->is == NC_DOCUMENT_NODE_CLASS)
        nc_rules_node_class(d, tree);
    if (kind->is == NC_DOCUMENT_AGENT_CONFIG)
        nc_rules_taints(d, taints, NULL, "spec.node.taints", "");
}

static int adopt(struct nc_documents *d, unsigned source, struct nc_value **tree,
                 struct nc_err *err) {
    const size_t before = nc_documents_errors(d);
    const struct known_kind *kind = NULL;
    const struct nc_value *large = NULL;
    struct nc_document *doc = NULL;

    large = oversized(*tree);
    if (large) {
        nc_diag(d, true, large->mark, "", "%zu entries in one %s, at most %zu are accepted",
                large->n, large->type == NC_VALUE_MAP ? "map" : "list",
                large->type == NC_VALUE_MAP ? MAX_MEMBERS : MAX_ITEMS);
        return refuse_whole(d, before);
    }
    kind = identify(d, *tree);
    if (!kind)
        return refuse_whole(d, before);
    if (d->n_docs >= MAX_DOCUMENTS)
        return nc_err_set(err, NC_ERR_CONFIG, E2BIG, "%s: more than %zu documents",
                          d->sources[source].name, MAX_DOCUMENTS);
    check(d, kind, *tree);
    doc = nc_append(&d->docs, &d->n_docs);
    doc->kind = kind->is;
    doc->is_beta = nc_streq(kind->version, "v1beta1");
    doc->source = source;
    doc->tree = nc_steal(tree);
    return 0;
}

int nc_documents_add(struct nc_documents *d, const char *source, struct nc_text text,
                     struct nc_err *err) {
    struct nc_err parse_error = NC_ERR_INIT;
    nc_cleanup(nc_values_done) struct nc_values trees = {0};
    const size_t before = nc_documents_errors(d);
    unsigned index = 0;
    int r = 0;

    if (d->n_sources >= MAX_SOURCES)
        return nc_err_set(err, NC_ERR_CONFIG, E2BIG, "%s: more than %zu sources", source,
                          MAX_SOURCES);
    if (text.n > MAX_BYTES)
        return nc_err_set(err, NC_ERR_CONFIG, EFBIG, "%s: %zu bytes, at most %zu are read", source,
                          text.n, MAX_BYTES);
    index = nc_documents_add_source(d, source);
    if (nc_yaml_parse(text, index, &trees, &parse_error) < 0) {
        diagnose(d, index, &parse_error);
        return refuse_whole(d, before);
    }
    if (trees.n == 0)
        nc_strv_addf(&d->found, "%s" NC_FOUND_NOTHING, source);
    for (size_t i = 0; r >= 0 && i < trees.n; i++)
        r = adopt(d, index, &trees.v[i], err);
    return r;
}

/* `first`: the line that the first one of the user data is. */
static void note_lost(struct nc_documents *d, const char *source, unsigned first,
                      const struct nc_userdata *u) {
    const unsigned index = nc_documents_add_source(d, source);

    for (size_t i = 0; i < u->n_lost; i++)
        nc_diag(d, false,
                (struct nc_mark){.source = index, .line = u->lost[i].line + first - 1, .column = 1},
                "", "%s", u->lost[i].message);
}

/* Karpenter takes user data that is no MIME for a NodeConfig where it is a YAML map. */
static bool is_mistaken(struct nc_documents *d, const char *name, unsigned line,
                        const struct nc_userdata_part *p) {
    nc_auto_free char *what = nc_userdata_describe(p);
    const size_t before = nc_documents_errors(d);
    struct nc_mark mark = {.line = line, .column = 1};

    if (!p->content_type[0] || !nc_starts_with(p->data, "#cloud-config")
        || strstr(p->data, "apiVersion"))
        return false;
    mark.source = nc_documents_add_source(d, name);
    nc_diag(d, true, mark, "",
            "%s is no document: Karpenter makes one of user data that is a YAML map and no MIME; "
            "write a MIME part of type text/cloud-config into spec.userData of the EC2NodeClass",
            what);
    return refuse_whole(d, before) == 0;
}

static void note_mistyped(struct nc_documents *d, const char *name, unsigned line,
                          const struct nc_userdata_part *p) {
    d->mistyped =
        (struct nc_mark){.source = nc_documents_add_source(d, name), .line = line, .column = 1};
    nc_diag(d, false, d->mistyped, "", "%s, not %s", NC_MISTYPED, p->content_type);
}

int nc_documents_add_userdata(struct nc_documents *d, const char *source, struct nc_text text,
                              struct nc_err *err) {
    nc_cleanup(nc_userdata_done) struct nc_userdata u = NC_USERDATA_INIT;
    const unsigned first = text.line > 0 ? text.line : 1;
    const size_t before = d->n_sources;
    struct nc_err decode_error = NC_ERR_INIT;
    int r = nc_userdata_decode(text.data, text.n, &u, &decode_error);

    if (r < 0) {
        nc_documents_add_error(d, source, decode_error.msg);
        return 0;
    }
    if (u.n == 0)
        nc_strv_addf(&d->found, "%s is empty", source);
    if (u.n_lost > 0)
        note_lost(d, source, first, &u);
    for (size_t i = 0; i < u.n; i++) {
        const struct nc_userdata_part *p = &u.parts[i];
        nc_auto_free char *name = nc_asprintf("%s%s%s", source, p->name[0] ? " " : "", p->name);
        nc_auto_free char *what = NULL;
        const char *of = text.indent ? source : name; /* whose lines are counted */
        const unsigned line = p->line + first - 1;

        const bool is_mistyped = nc_userdata_part_is_mistyped(p);
        if (is_mistyped)
            note_mistyped(d, of, line, p);
        if (!nc_userdata_part_is_ours(p)) {
            what = is_mistyped ? nc_strdup(NC_MISTYPED) : nc_userdata_describe(p);
            nc_strv_addf(&d->found, "%s is %s", name, what);
            if (is_mistyped) { /* named first: what is missing is most likely in it */
                char *other = d->found.v[0];
                d->found.v[0] = d->found.v[d->found.n - 1];
                d->found.v[d->found.n - 1] = other;
            }
            if (!d->for_cloud_init && p->n > 0)
                d->for_cloud_init = nc_asprintf("%s is %s", name, what);
            d->may_bring_documents |= p->n > 0 && !nc_userdata_part_is_script(p);
            continue;
        }
        if (is_mistaken(d, of, line, p))
            continue;
        r = nc_documents_add(d, of, (struct nc_text){p->data, p->n, line, text.indent}, err);
        if (r < 0)
            return r;
    }
    nc_documents_set_file(d, before, strlen(source), false);
    return 0;
}

enum nc_cloud_init_wait nc_documents_wait_for_cloud_init(const struct nc_documents *d) {
    enum nc_cloud_init_wait wait = NC_CLOUD_INIT_AUTO;

    for (size_t i = 0; i < d->n_docs; i++) {
        const struct nc_value *v =
            nc_value_path(d->docs[i].tree, "spec.bootstrap.waitForCloudInit");
        const int k = nc_which_of(nc_value_string(v), nc_cloud_init_wait_names);

        if (d->docs[i].kind == NC_DOCUMENT_AGENT_CONFIG && k >= 0)
            wait = (enum nc_cloud_init_wait)(k + 1);
    }
    return wait;
}
