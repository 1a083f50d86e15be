/*
 * `check`: would a bootstrap accept these documents? Reads files, folders and user data as
 * bootstrap reads them.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "commands.h"
#include "gather.h"
#include "nc/file.h"
#include "nc/str.h"
#include "nc/userdata.h"

#define MAX_BYTES ((size_t)1 << 20)
#define STDIN "standard input"
#define NODEADM "remove what calls nodeadm: docs/migrate-from-nodeadm.md"

/* --- what is no document, but has some in it */

/* A file that a cloud-config writes into our folder. */
static int add_written(struct nc_gather *g, const char *source, const struct nc_value *file,
                       size_t *ret_found, struct nc_err *err) {
    const char *path = nc_value_get_string(file, "path");
    const struct nc_value *content = nc_value_get(file, "content");
    nc_auto_free char *name = NULL;

    if (!path || !nc_value_string(content) || !nc_starts_with(path, NC_CONF_DIR "/")
        || nc_value_get(file, "encoding"))
        return 0;
    ++*ret_found;
    name = content->mark.indent ? nc_strdup(source) : nc_asprintf("%s %s", source, path);
    return nc_documents_add(&g->documents, name, nc_value_text(content), err);
}

static int add_cloud_config(struct nc_gather *g, const char *source, struct nc_text text,
                            struct nc_err *err) {
    nc_cleanup(nc_values_done) struct nc_values trees = {0};
    size_t found = 0;
    int r = nc_yaml_parse(text, 0, &trees, err);

    if (r < 0) {
        nc_err_wrap(err, "%s: cloud-config", source);
        return r;
    }
    for (size_t i = 0; r >= 0 && i < trees.n; i++) {
        const struct nc_value *files = nc_value_get(trees.v[i], "write_files"), *file;
        for (size_t k = 0; r >= 0 && (file = nc_value_item(files, k)); k++)
            r = add_written(g, source, file, &found, err);
    }
    if (r >= 0 && found == 0 && !text.line)
        (void)fprintf(stderr, "%s is a cloud-config that writes no document into " NC_CONF_DIR "\n",
                      source);
    return r < 0 ? r : 0;
}

/* What cloud-init runs or reads, told by its first line. 1: it is none of that. A part of user data
 * has a line; what a bootstrap passes over in it as well is not worth a word. */
static int add_for_cloud_init(struct nc_gather *g, const char *path, struct nc_text text,
                              struct nc_err *err) {
    static const struct {
        const char *text, *what;
    } calls[] = {{"bootstrap.sh", "what this script gives to bootstrap.sh has to be in a "
                                  "NodeConfig: docs/migrate-from-bootstrap-sh.md"},
                 {"nodeadm init", NODEADM},
                 {"bin/nodeadm", NODEADM}};

    if (nc_starts_with(text.data, "#cloud-config"))
        return add_cloud_config(g, path, text, err);
    if (!nc_starts_with(text.data, "#!"))
        return 1;
    for (size_t i = 0; i < NC_ARRAY_SIZE(calls); i++) {
        const char *at = strstr(text.data, calls[i].text);
        struct nc_mark mark = {.line = text.line ? text.line : 1, .column = text.indent + 1};
        if (!at)
            continue;
        mark.source = nc_documents_add_source(&g->documents, path);
        for (const char *p = text.data; p < at; p++)
            mark.line += *p == '\n';
        nc_documents_warn(&g->documents, mark, "", calls[i].what);
        return 0;
    }
    if (!text.line)
        (void)fprintf(stderr,
                      "%s is a script: cloud-init runs it, nodeclaimd does not read it; check the "
                      "documents that it writes by themselves\n",
                      path);
    return 0;
}

static int add_parts_for_cloud_init(struct nc_gather *g, const char *source, struct nc_text text,
                                    struct nc_err *err) {
    nc_cleanup(nc_userdata_done) struct nc_userdata u = NC_USERDATA_INIT;
    struct nc_documents *d = &g->documents;
    const size_t before = d->n_sources;
    int r = 0;

    if (nc_userdata_decode(text.data, text.n, &u, NULL) < 0)
        return 0; /* which was told */
    for (size_t i = 0; r >= 0 && i < u.n; i++) {
        const struct nc_userdata_part *p = &u.parts[i];
        nc_auto_free char *name = nc_asprintf("%s %s", source, p->name);
        if (!nc_userdata_part_is_ours(p))
            r = add_for_cloud_init(
                g, text.indent ? source : name,
                (struct nc_text){p->data, p->n, p->line + text.line - 1, text.indent}, err);
        for (size_t k = before; k < d->n_sources; k++) /* but for what has lines of its own */
            if (nc_streq(d->sources[k].name, name))
                d->sources[k].n_file = strlen(source);
    }
    return r < 0 ? r : 0;
}

/* --- a drop-in by itself */

/* A field of the cluster, as documents have it by themselves, or all of it: without it they are
 * drop-ins for conf.d. */
static bool has_field(const struct nc_documents *d, const char *path) {
    for (size_t i = 0; i < d->n_docs; i++) {
        const struct nc_value *v = nc_value_path(d->docs[i].tree, path);
        if (v && v->type != NC_VALUE_NULL && !nc_streq(nc_value_string(v), ""))
            return true;
    }
    return false;
}

/* One more document, which has what the others lack of the cluster: all of it, because it is
 * another document's to say it, or was told to be missing; else what was refused. */
static int add_any_cluster(struct nc_documents *d, bool all, struct nc_err *err) {
    static const char paths[] = "spec.cluster.name\0spec.cluster.apiServerEndpoint\0"
                                "spec.cluster.certificateAuthority\0spec.cluster.cidr\0";
    static const char *const values[] = {
        "any", "https://192.0.2.1",
        /* a PEM file of a certificate that nobody reads */
        "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCllXNTUKLS0tLS1FTkQgQ0VSVElGSUNBVEUtLS0tLQo=",
        "10.100.0.0/16"};
    nc_cleanup(nc_buf_done) struct nc_buf text = NC_BUF_INIT;
    const char *path = paths;

    for (size_t i = 0; *path; i++, path = nc_next_name(path))
        if (!has_field(d, path) && (all || nc_documents_refuse(d, path)))
            (void)nc_buf_printf(&text, "    %s: %s\n", path + strlen("spec.cluster."), values[i]);
    if (text.len == 0)
        return 0;
    nc_auto_free char *document = nc_asprintf(
        "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec:\n  cluster:\n%s", text.data);
    return nc_documents_add(d, "any cluster", nc_text(document), err);
}

/* A machine on which everything fits: what is refused for it is refused everywhere. */
static void assume_any_instance(struct nc_facts *f) {
    f->instance_id = nc_strdup("i-00000000000000000");
    f->instance_type = nc_strdup("u7i-12tb.224xlarge");
    f->region = nc_strdup("us-west-2");
    f->az = nc_strdup("us-west-2a");
    f->local_ipv4 = nc_strdup("192.0.2.1");
    f->ipv6 = nc_strdup("2001:db8::1");
    f->local_hostname = nc_strdup("ip-192-0-2-1.us-west-2.compute.internal");
    f->private_dns_name = nc_strdup(f->local_hostname);
    f->hostname = nc_strdup(f->local_hostname);
    f->ecr_credential_provider_dir = nc_strdup("/etc/eks/image-credential-provider");
    f->has_soci_snapshotter = f->has_ecr_credential_provider = true;
    f->cpus = 896;
    f->mem_total_bytes = (int64_t)12 << 40;
    f->root_fs_bytes = (int64_t)16 << 40;
}

/* The one that is named, else the one that is installed, else `assumed`. */
static void set_version(char **to, const char *named, const char *assumed) {
    if (named || !*to) {
        free(*to);
        *to = nc_strdup(named ? named : assumed);
    }
}

/* Those of the image, where one is checked, else those below --root; without it a containerd counts
 * beside a kubelet alone: else it is some other machine's, such as a runner of tests. Where none is
 * known, the newest. */
static void find_versions(struct nc_gather *g) {
    const struct nc_options *o = &g->app->opts;
    const char *path = g->config.kubelet_path;
    char **kubelet = &g->facts.kubelet_version, **containerd = &g->facts.containerd_version;

    free(*kubelet);
    free(*containerd);
    *kubelet = *containerd = NULL;
    if (o->image) {
        *kubelet = nc_image_version(o->image, path);
        *containerd = nc_image_version(o->image, NULL);
    } else if (nc_kubelet_version(o->root, path, kubelet, NULL) == 0 || *o->root) {
        (void)nc_containerd_version(o->root, containerd, NULL);
    }
    set_version(kubelet, o->kubelet_version,
                "v" NC_KUBELET_MINOR(NC_KUBELET_LAST_MINOR) ".0" NC_ASSUMED);
    set_version(containerd, o->containerd_version, "2.4.2" NC_ASSUMED);
}

/* What does not hold on every node. Where no containerd is known, what any other one refuses is a
 * warning: a node may have it. Then an instance of a common size, with the memory that Karpenter
 * expects it to have: what does not depend on the instance, but is less than Karpenter counts on,
 * shows on it. */
static void try_others(struct nc_gather *g) {
    nc_cleanup(nc_plan_done) struct nc_plan plan = NC_PLAN_INIT;
    struct nc_facts *f = &g->facts;
    char *const assumed = f->containerd_version;
    const struct nc_strv less = g->plan.less;

    for (const char *v = nc_ends_with(assumed, NC_ASSUMED) ? "2.3.0\0"
                                                             "2.2.0\0"
                                                             "2.1.0\0"
                                                             "2.0.0\0"
                                                             "1.7.0\0"
                                                           : "";
         *v; v = nc_next_name(v)) {
        struct nc_err err = NC_ERR_INIT;
        const char *what;

        f->containerd_version = (char *)v;
        if (nc_gather_plan_again(g, NULL, &plan, &err) < 0
            && (what = strstr(err.msg, NC_CONTAINERD_FIELD ": "))) {
            nc_auto_free char *message =
                nc_asprintf("containerd %s%s; --containerd-version names that of your nodes", v,
                            what + strlen(NC_CONTAINERD_FIELD));
            nc_documents_warn(&g->documents, err.mark, NC_CONTAINERD_FIELD, message);
        }
    }
    f->containerd_version = assumed;

    free(f->instance_type);
    f->instance_type = nc_strdup("m5.2xlarge");
    f->cpus = 8;
    f->mem_total_bytes = (int64_t)((32 << 10) - 2458) << 20; /* 32 GiB, and 7.5 % of it less */
    f->root_fs_bytes = (int64_t)20 << 30;
    if (nc_gather_plan_again(g, NULL, &plan, NULL) < 0)
        return; /* too small for it */
    g->plan.less = plan.less;
    plan.less = less;
}

/* What only shows when everything is put together: rules between kubelet's fields, names, taints,
 * what the kubelet knows. */
static int try_plan(struct nc_gather *g, struct nc_err *err) {
    find_versions(g);

    const int r = nc_gather_plan_again(g, NULL, &g->plan, err);
    if (r == 0)
        try_others(g);
    return r;
}

/* 1: it is cloud-init's. */
static int add_one(struct nc_gather *g, const char *what, struct nc_err *err) {
    nc_cleanup(nc_buf_done_secret) struct nc_buf data = NC_BUF_INIT;
    const bool is_stdin = nc_is_one_of(what, "-\0/dev/stdin\0");
    const char *name = is_stdin ? STDIN : what;
    struct nc_text text;
    int r = 0;

    if (is_stdin)
        r = nc_file_read_all(STDIN_FILENO, MAX_BYTES, &data);
    if (r < 0)
        return nc_err_set(err, NC_ERR_CONFIG, -r, STDIN ": %s", strerror(-r));
    if (!is_stdin && !strstr(what, "://"))
        (void)nc_file_read(what, MAX_BYTES, &data, NULL); /* what fails is told when it is added */
    text = (struct nc_text){.data = data.data, .n = data.len};
    r = text.data ? add_for_cloud_init(g, name, text, err) : 1;
    if (r <= 0)
        return r < 0 ? r : 1;
    r = is_stdin ? nc_gather_add_text(g, STDIN, &data, err) : nc_gather_add(g, what, err);
    text.line = 1;
    if (r >= 0 && text.data)
        r = add_parts_for_cloud_init(g, name, text, err);
    return r < 0 ? r : 0;
}

/* Karpenter lays its own part over the user data of a NodeClass: what that brings is judged, too.
 */
static int add_userdata_of_classes(struct nc_gather *g, struct nc_err *err) {
    struct nc_documents *d = &g->documents;
    const size_t n = d->n_docs;
    int r = 0;

    for (size_t i = 0; r >= 0 && i < n; i++) {
        const struct nc_value *v = d->docs[i].kind == NC_DOCUMENT_NODE_CLASS
                                       ? nc_value_path(d->docs[i].tree, "spec.userData")
                                       : NULL;
        if (!nc_value_string(v))
            continue;
        struct nc_text text = nc_value_text(v);
        if (nc_userdata_is_base64(text.data, text.n))
            text = (struct nc_text){.data = text.data, .n = text.n, .line = 1};
        const struct nc_document_source of = d->sources[d->docs[i].source];
        const size_t before = d->n_sources;
        nc_auto_free char *name = nc_asprintf("%s%s", of.name, text.indent ? "" : " spec.userData");
        r = nc_documents_add_userdata(d, name, text, err);
        if (r >= 0)
            r = add_parts_for_cloud_init(g, name, text, err);
        nc_documents_set_file(d, before, of.n_file, !text.indent);
    }
    return r;
}

/* What cannot be read does not keep the others from being read. */
static void note_unread(struct nc_documents *d, const char *what, const struct nc_err *err) {
    const char *at = strstr(err->msg, what);
    const char *end = at ? at + strlen(what) : "";
    const char *text = nc_starts_with(end, ": ") ? end + 2 : err->msg;
    nc_auto_free char *message = nc_asprintf("%s%s%s", text, *err->remedy ? "; " : "", err->remedy);

    nc_documents_add_error(d, what, message);
}

/* Reads what is named. *ret_foreign: how many are cloud-init's. */
static int add_all(struct nc_gather *g, size_t *ret_foreign, struct nc_err *err) {
    for (int i = 0; i < g->app->opts.n_args; i++) {
        const int r = add_one(g, g->app->opts.args[i], err);
        if (r < 0 && err->class != NC_ERR_CONFIG)
            return r;
        if (r < 0) {
            note_unread(&g->documents, g->app->opts.args[i], err);
            *err = (struct nc_err)NC_ERR_INIT;
        }
        *ret_foreign += r > 0;
    }
    return add_userdata_of_classes(g, err);
}

static int try_bootstrap(struct nc_gather *g, struct nc_err *err) {
    int r;

    nc_config_done(&g->config);
    r = nc_config_build(&g->documents, &g->config, err);
    if (r >= 0)
        r = try_plan(g, err);
    return r;
}

/* A kubelet whose fields are all known ignores the others. */
static void settle_kubelets(struct nc_gather *g) {
    const char *known = g->facts.kubelet_version;
    const char *version = known ? known : g->app->opts.kubelet_version;
    unsigned minor = 0;
    const bool is_newer =
        nc_kubelet_version_parse(version, &minor, NULL) == 0 && minor > NC_KUBELET_LAST_MINOR;

    for (size_t i = 0; i < g->documents.n_diags; i++) {
        struct nc_diagnostic *diag = &g->documents.diags[i];
        nc_auto_free char *was = NULL;
        if (diag->kind != NC_DIAGNOSTIC_KUBELETS)
            continue;
        if (!is_newer) {
            diag->kind = NC_DIAGNOSTIC_UNKNOWN;
            continue;
        }
        was = diag->message;
        diag->message = nc_asprintf("%s; passed to kubelet, which may not know it", was);
    }
}

int nc_try_each_rule(struct nc_gather *g, bool is_drop_in,
                     int (*attempt)(struct nc_gather *g, struct nc_err *err), struct nc_err *err) {
    struct nc_documents *d = &g->documents;
    bool all = is_drop_in; /* what the cluster needs is not asked for */
    int r, aside = 0;

    nc_documents_set_aside_errors(d);
    do {
        r = add_any_cluster(d, all, err);
        if (r >= 0)
            r = attempt(g, err);
        all |= r < 0 && err->code == -NC_CONFIG_MISSING;
    } while (r < 0 && (aside = nc_documents_set_aside(d, err)) > 0);
    if (r >= 0 || aside == 0)
        err->class = NC_ERR_NONE;
    return r;
}

int nc_check_each_rule(struct nc_gather *g, bool is_drop_in, struct nc_err *err) {
    struct nc_documents *d = &g->documents;

    assume_any_instance(&g->facts);
    nc_gather_tables(g);
    const int r = nc_try_each_rule(g, is_drop_in, try_bootstrap, err);
    for (size_t i = 0; i < g->plan.n_certain; i++)
        nc_documents_warn(d, g->plan.certain[i].mark, g->plan.certain[i].path,
                          g->plan.certain[i].message);
    settle_kubelets(g);
    nc_documents_sort(d);
    return r;
}

/* What no schema has, and yet is of one field alone. */
static int try_policies(struct nc_gather *g, struct nc_err *err) {
    nc_config_done(&g->config);
    return nc_config_policies(&g->documents, &g->config, err);
}

/* r, err: what a bootstrap would come to. The errors among the diagnostics are printed with their
 * place; err has a class where it is not among them. */
static int print_end(struct nc_gather *g, int r, struct nc_err *err) {
    for (size_t i = 0; i < g->documents.n_diags; i++)
        g->documents.diags[i].is_error |=
            g->app->opts.strict || g->documents.diags[i].kind == NC_DIAGNOSTIC_REFUSED;
    if (g->app->opts.json) {
        nc_check_print_json(g, err);
    } else {
        nc_check_print(g);
        if (r < 0 && g->documents.n_docs > 0)
            (void)printf("note: %s\n", NC_REST_NOT_CHECKED);
    }
    if (r < 0 && err->class != NC_ERR_NONE)
        return nc_app_fail(g->app, err);
    if (nc_documents_errors(&g->documents) > 0)
        return nc_err_exit_code(NC_ERR_CONFIG);
    return 0;
}

/* What somebody wrote in an unknown field has no effect: said in the last line, too. */
static void print_accepted(const struct nc_gather *g, size_t n_docs, bool is_drop_in) {
    const struct nc_documents *d = &g->documents;
    const bool one = n_docs == 1, fragment = g->app->opts.fragment;
    const char *containerd = g->facts.containerd_version; /* NULL: nothing was planned */
    size_t unknown = 0;

    for (size_t i = 0; i < d->n_diags; i++)
        unknown += d->diags[i].kind == NC_DIAGNOSTIC_UNKNOWN;
    (void)printf("%zu document%s: %s %s%s", n_docs, one ? "" : "s",
                 fragment ? "no field is wrong in" : "a bootstrap would accept",
                 one ? "it" : "them",
                 fragment     ? "; kubelet's flags, feature gates and rules are not checked"
                 : is_drop_in ? " beside a document that names the cluster"
                              : "");
    if (g->config.host.containerd.n_texts && nc_ends_with(containerd, NC_ASSUMED))
        (void)printf(" with containerd %s", containerd);
    if (unknown)
        (void)printf("; %zu unknown field%s ignored", unknown, unknown == 1 ? " is" : "s are");
    (void)printf("\n");
    for (size_t i = 0; i < d->found.n; i++) {
        const char *name = d->found.v[i], *at = strstr(name, NC_FOUND_NODE_POOL);
        if (at)
            (void)printf("note: %.*s" NC_FOUND_NODE_POOL ": it is not checked\n", (int)(at - name),
                         name);
        else if (nc_ends_with(name, NC_FOUND_NOTHING))
            (void)printf("note: %s\n", name);
    }
}

int nc_command_check(struct nc_app *app) {
    nc_cleanup(nc_gather_done) struct nc_gather g = {.app = app};
    struct nc_err err = NC_ERR_INIT;
    size_t n_docs, n_foreign = 0;
    bool is_drop_in;
    int r;

    if (app->opts.n_args == 0) {
        (void)fprintf(stderr,
                      "nodeclaimd check: name the files to check; on a node: imds://user-data\n");
        return NC_EXIT_USAGE;
    }
    r = add_all(&g, &n_foreign, &err);
    n_docs = g.documents.n_docs;
    if (r >= 0 && n_docs == 0 && n_foreign > 0 && nc_documents_errors(&g.documents) == 0) {
        r = print_end(&g, 0, &err); /* what they are was reported */
        if (!app->opts.json && g.documents.n_diags > 0)
            (void)printf("0 documents: a node boots only where " NC_CONF_DIR
                         " of its image names the cluster\n");
        return r;
    }
    is_drop_in = r >= 0 && n_docs > 0 && !has_field(&g.documents, "spec.cluster");
    /* Of a part each field is judged by itself: other documents have the rest, or another value. */
    if (r >= 0 && n_docs == 0 && nc_documents_errors(&g.documents) > 0)
        err.class = NC_ERR_NONE; /* none of them is a document */
    else if (r >= 0 && app->opts.fragment && n_docs > 0) {
        (void)nc_gather_aside(&g, try_policies, &err);
        err = (struct nc_err)NC_ERR_INIT;
        settle_kubelets(&g);
        nc_documents_sort(&g.documents);
    } else if (r >= 0)
        r = nc_check_each_rule(&g, is_drop_in, &err);
    if (err.code == -ENODATA && g.documents.found.n > 0
        && nc_ends_with(g.documents.found.v[0], NC_FOUND_NOTHING))
        nc_err_remedy(&err, "name a file, or a folder of *.yaml, *.yml and *.json files");
    r = print_end(&g, r, &err);
    if (r == 0 && !app->opts.json)
        print_accepted(&g, n_docs, is_drop_in);
    return r;
}
