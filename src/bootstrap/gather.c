/*
 * The steps from bytes to files. Effects at the edges: IMDS, recorded facts, files of
 * configuration; the decisions are the planner's.
 */
#include "gather.h"

#include <errno.h>
#include <sys/stat.h>

#include "nc/file.h"
#include "nc/str.h"

#define IMDS_TIMEOUT_USEC                                                                          \
    1000000u /* one answer takes about a millisecond; a silent peer is named after one second */
#define HOST_MAX_BYTES ((size_t)1 << 20)
#define TYPES_MAX_BYTES ((size_t)1 << 20)
#define NAME_FACTS "name a folder that render --save-facts DIR wrote"
#define KUBELET "/usr/bin/kubelet" /* where no configuration names another */

void nc_gather_done(struct nc_gather *g) {
    for (size_t i = 0; i < NC_ARRAY_SIZE(g->answers); i++)
        nc_imds_answer_done(&g->answers[i]);
    nc_imds_free(g->imds);
    nc_http_free(g->http);
    nc_credentials_done(&g->credentials);
    nc_fileset_done(&g->files);
    nc_plan_done(&g->plan);
    nc_config_done(&g->config);
    nc_documents_done(&g->documents);
    nc_facts_done(&g->facts);
    nc_buf_done(&g->types);
    nc_buf_done(&g->gates);
    nc_buf_done(&g->flags);
    nc_buf_done(&g->keys);
    nc_strv_done(&g->warnings);
    nc_strv_done(&g->ignored);
}

int nc_gather_open(struct nc_gather *g, struct nc_app *app, struct nc_err *err) {
    const char *facts = app->opts.facts;

    g->app = app;
    if (facts && !nc_starts_with(facts, "http://")) {
        struct stat st;
        if (stat(facts, &st) < 0 || !S_ISDIR(st.st_mode)) {
            const int r = nc_err_set(err, NC_ERR_CONFIG, ENOTDIR,
                                     "--facts %s: neither a folder of recorded facts nor an "
                                     "http:// URL",
                                     facts);
            nc_err_remedy(err, NAME_FACTS);
            return r;
        }
        g->folder = facts;
        return 0;
    }
    const int r = nc_app_loop(app, err);
    return r < 0 ? r : nc_imds_new(app->event, facts ? facts : app->opts.imds, &g->imds, err);
}

/* --- answers */

static int read_recorded(struct nc_gather *g, enum nc_imds_item item, const char *arg,
                         struct nc_err *err) {
    struct nc_imds_answer *a = &g->answers[item];
    nc_auto_free char *relative = NULL, *path = NULL;
    int r = nc_imds_path(item, arg, &relative, err);

    if (r < 0)
        return r;
    path = nc_asprintf("%s/imds%s", g->folder, relative);
    r = nc_file_read(path, nc_imds_questions[item].max_bytes, &a->body, NULL);
    if (r == -ENOENT) {
        a->status = 404;
        return 0;
    }
    if (r < 0)
        return nc_err_host(err, r, "facts: %s", path);
    a->status = 200;
    return 0;
}

int nc_gather_answers(struct nc_gather *g, unsigned items,
                      const char *const args[_NC_IMDS_ITEM_MAX], struct nc_err *err) {
    unsigned missing = 0;

    for (unsigned i = 0; i < _NC_IMDS_ITEM_MAX; i++)
        if ((items & (1u << i)) && g->answers[i].status == 0)
            missing |= 1u << i;
    if (missing == 0)
        return 0;
    if (g->imds)
        return nc_imds_fetch(
            g->imds,
            (struct nc_imds_batch_call){
                .items = missing,
                .args = args,
                .timeout_usec = nc_app_timeout(g->app, nc_imds_timeout(g->imds, IMDS_TIMEOUT_USEC)),
                .answers = g->answers,
            },
            err);
    for (unsigned i = 0; i < _NC_IMDS_ITEM_MAX; i++)
        if (missing & (1u << i)) {
            const int r = read_recorded(g, (enum nc_imds_item)i, args ? args[i] : NULL, err);
            if (r < 0)
                return r;
        }
    return 0;
}

/* One answer becomes facts. One that makes no sense is forgotten, so that the next attempt asks
 * again. */
static int parse_answer(struct nc_gather *g, enum nc_imds_item item, struct nc_err *err) {
    struct nc_imds_answer *a = &g->answers[item];
    const char *path = nc_imds_questions[item].path;
    int r;

    if (a->status == 404 && nc_imds_questions[item].required) {
        nc_imds_answer_done(a);
        r = nc_err_set(err, NC_ERR_PROTOCOL, 404, "imds: %s: HTTP 404, every instance has one",
                       path);
        if (g->imds)
            nc_imds_advise_another(g->imds, err);
        else
            nc_err_remedy(err, NAME_FACTS);
        return r;
    }
    if (a->status != 200)
        return 0;
    r = nc_facts_parse_imds(&g->facts, item, a->body.data, a->body.len, err);
    if (r < 0) {
        nc_imds_answer_done(a);
        nc_err_wrap(err, "imds");
        if (err && !*err->remedy && g->imds)
            nc_imds_advise_another(g->imds, err);
        else if (err && !*err->remedy)
            nc_err_remedy(err, NAME_FACTS);
    }
    return r;
}

static const enum nc_imds_item facts_items[] = {NC_IMDS_IDENTITY,   NC_IMDS_MAC,
                                                NC_IMDS_LOCAL_IPV4, NC_IMDS_LOCAL_HOSTNAME,
                                                NC_IMDS_AZ_ID,      NC_IMDS_PURCHASE_OPTION,
                                                NC_IMDS_DOMAIN,     NC_IMDS_TARGET_STATE};

unsigned nc_gather_items(const struct nc_app *app) {
    unsigned items = nc_gather_wants_user_data(app) ? 1u << NC_IMDS_USER_DATA : 0;

    for (size_t i = 0; i < NC_ARRAY_SIZE(facts_items); i++)
        items |= 1u << facts_items[i];
    return items;
}

int nc_gather_imds(struct nc_gather *g, struct nc_err *err) {
    return nc_gather_facts(g, nc_gather_answers(g, nc_gather_items(g->app), NULL, err), err);
}

int nc_gather_facts(struct nc_gather *g, int r, struct nc_err *err) {
    if (r < 0) {
        const struct nc_imds_answer *user_data = &g->answers[NC_IMDS_USER_DATA];
        /* EC2 takes no more than 16 KiB; more than the cap is somebody's mistake, not a passing
         * fault. */
        if (user_data->status == 0 && user_data->err.code == -EFBIG
            && g->answers[NC_IMDS_IDENTITY].status != 0 && err) /* and not the token of all */
            err->class = NC_ERR_CONFIG;
        return r;
    }
    for (size_t i = 0; i < NC_ARRAY_SIZE(facts_items); i++) {
        r = parse_answer(g, facts_items[i], err);
        if (r < 0)
            return r;
    }
    for (size_t i = 0; i < g->facts.unusual.n; i++)
        nc_strv_add_once(&g->warnings, g->facts.unusual.v[i]);
    return 0;
}

/* --- configuration and plan */

/* What all services get we are to have, too: the API server and EC2 may be behind a proxy. (IMDS is
 * never asked through one.) kubelet inherits it as a process. */
static void adopt_environment(const struct nc_host_config *h) {
    for (size_t i = 0; i < h->n_environment; i++)
        for (size_t j = 0; j < h->environment[i].n; j++)
            if (nc_streq(h->environment[i].service, NC_ENVIRONMENT_DEFAULT))
                (void)setenv(h->environment[i].variables[j].name,
                             h->environment[i].variables[j].value, 1);
}

int nc_gather_config(struct nc_gather *g, struct nc_err *err) {
    nc_config_done(&g->config);
    g->has_config = false;

    const int r = nc_config_build(&g->documents, &g->config, err);
    if (r < 0)
        return r;
    g->has_config = true;
    adopt_environment(&g->config.host);
    if (g->app->opts.node_name) {
        free(g->config.name_override);
        g->config.name_override = nc_strdup(g->app->opts.node_name);
    }
    return 0;
}

int nc_gather_aside(struct nc_gather *g, int (*attempt)(struct nc_gather *g, struct nc_err *err),
                    struct nc_err *err) {
    int r;

    nc_documents_set_aside_errors(&g->documents);
    do
        r = attempt(g, err);
    while (r < 0 && nc_documents_set_aside(&g->documents, err) > 0);
    return r;
}

static bool is_ipv6_cluster(const struct nc_config *c) {
    const struct nc_value *dns = nc_value_get(c->kubelet, "clusterDNS");
    const char *address = c->cidr;

    if (!address && dns && dns->type == NC_VALUE_LIST && dns->n > 0)
        address = nc_value_string(dns->items[0]);
    return address && strchr(address, ':');
}

static int fetch_ipv6(struct nc_gather *g, struct nc_err *err) {
    const char *args[_NC_IMDS_ITEM_MAX] = {[NC_IMDS_IPV6S] = g->facts.mac};
    int r;

    if (!g->facts.mac || g->facts.ipv6 || (!is_ipv6_cluster(&g->config) && g->facts.local_ipv4))
        return 0;
    r = nc_gather_answers(g, 1u << NC_IMDS_IPV6S, args, err);
    return r < 0 ? r : parse_answer(g, NC_IMDS_IPV6S, err);
}

/* What labels are made of is requested where a document names it, one after the other. */
static int fetch_metadata(struct nc_gather *g, struct nc_err *err) {
    struct nc_imds_answer *a = &g->answers[NC_IMDS_METADATA];

    for (size_t i = 0; i < g->config.n_labels_from; i++) {
        const char *path = g->config.labels_from[i].value;
        const char *args[_NC_IMDS_ITEM_MAX] = {[NC_IMDS_METADATA] = path};
        int r;

        if (nc_facts_find_metadata(&g->facts, path))
            continue;
        r = nc_gather_answers(g, 1u << NC_IMDS_METADATA, args, err);
        if (r >= 0)
            r = nc_facts_add_metadata(&g->facts, path, a->status == 200 ? a->body.data : NULL,
                                      a->body.len, err);
        nc_imds_answer_done(a);
        if (r < 0)
            return r;
    }
    return 0;
}

static int read_recorded_host(struct nc_gather *g, struct nc_err *err) {
    nc_cleanup(nc_buf_done) struct nc_buf text = NC_BUF_INIT;
    nc_auto_free char *path = nc_asprintf("%s/host.json", g->folder);
    const int r = nc_file_read(path, HOST_MAX_BYTES, &text, err);

    if (r == -ENOENT)
        return 0;
    return r < 0 ? r : nc_facts_parse_host_json(&g->facts, text.data, text.len, err);
}

/* otherwise: what counts where the file cannot be read. */
static void read_table(struct nc_gather *g, const char *file, const char *otherwise,
                       struct nc_buf *ret) {
    nc_auto_free char *path = nc_app_path(g->app, file);
    struct nc_buf text = NC_BUF_INIT;
    struct nc_err err = NC_ERR_INIT;
    const int r = ret->len > 0 ? 0 : nc_file_read(path, TYPES_MAX_BYTES, &text, &err);

    if (r < 0 && r != -ENOENT)
        nc_strv_addf(&g->warnings, "%s, %s", err.msg, otherwise);
    if (r >= 0 && text.len > 0)
        *ret = text;
    else
        nc_buf_done(&text);
}

void nc_gather_tables(struct nc_gather *g) {
    if (!g->app->opts.image)
        read_table(g, NC_INSTANCE_TYPES_FILE, "the built-in table of instance types counts",
                   &g->types);
    read_table(g, NC_DATADIR "/kubelet-gates.tsv", "gates are not checked", &g->gates);
    read_table(g, NC_DATADIR "/kubelet-flags.tsv", "flags are not checked", &g->flags);
    read_table(g, NC_DATADIR "/containerd-keys.tsv", "containerd's keys are not checked", &g->keys);
}

void nc_gather_forget_host(struct nc_gather *g) {
    char **const versions[] = {&g->facts.kubelet_version, &g->facts.containerd_version};

    for (size_t i = 0; i < NC_ARRAY_SIZE(versions); i++) {
        free(*versions[i]);
        *versions[i] = NULL;
    }
    nc_buf_done(&g->types);
}

int nc_gather_host(struct nc_gather *g, struct nc_err *err) {
    const char *version = g->app->opts.kubelet_version;
    const int r = g->folder ? read_recorded_host(g, err) : 0;

    if (r >= 0 && version) {
        free(g->facts.kubelet_version);
        g->facts.kubelet_version = nc_strdup(version);
    }
    if (r < 0 || g->folder)
        return r;
    return nc_probe_host(g->app->opts.root, g->has_config ? g->config.kubelet_path : KUBELET,
                         &g->facts, err);
}

struct nc_plan_input nc_gather_input(const struct nc_gather *g, const struct nc_claim *claim) {
    return (struct nc_plan_input){.facts = &g->facts,
                                  .config = &g->config,
                                  .docs = &g->documents,
                                  .claim = claim,
                                  .types = g->types.len > 0 ? g->types.data : NULL,
                                  .n_types = g->types.len,
                                  .gates = g->gates.len > 0 ? g->gates.data : NULL,
                                  .flags = g->flags.len > 0 ? g->flags.data : NULL,
                                  .containerd_keys = g->keys.len > 0 ? g->keys.data : NULL};
}

int nc_gather_plan_again(const struct nc_gather *g, const struct nc_claim *claim,
                         struct nc_plan *ret, struct nc_err *err) {
    const struct nc_plan_input in = nc_gather_input(g, claim);

    return nc_plan_make(&in, ret, err);
}

/* What a plan is made from, but for what only EC2 knows. */
static int gather_input(struct nc_gather *g, struct nc_err *err) {
    int r = nc_gather_host(g, err);

    if (r >= 0)
        r = fetch_ipv6(g, err);
    if (r >= 0)
        r = fetch_metadata(g, err);
    if (r < 0)
        return r;
    nc_gather_tables(g);
    return 0;
}

static bool needs_instance_type(const struct nc_gather *g) {
    const struct nc_plan_input in = nc_gather_input(g, NULL);

    return nc_plan_needs_instance_type(&in);
}

int nc_gather_plan(struct nc_gather *g, const struct nc_claim *claim, struct nc_err *err) {
    int r = gather_input(g, err);

    if (r >= 0)
        r = nc_gather_ec2(g, !g->is_type_requested && needs_instance_type(g), err);
    return r < 0 ? r : nc_gather_plan_again(g, claim, &g->plan, err);
}

int nc_gather_try_plan(struct nc_gather *g, struct nc_err *err) {
    nc_cleanup(nc_plan_done) struct nc_plan plan = NC_PLAN_INIT;
    struct nc_err own = NC_ERR_INIT;
    int r = gather_input(g, err);

    if (r < 0)
        return r;
    if (nc_plan_needs_private_dns_name(&g->facts, &g->config) || needs_instance_type(g))
        return 0;
    r = nc_gather_plan_again(g, NULL, &plan, &own);
    if (r >= 0 || own.class != NC_ERR_CONFIG)
        return 0;
    *err = own;
    return r;
}

int nc_gather_name(struct nc_gather *g, struct nc_err *err) {
    int r = g->config.naming == NC_NAMING_HOSTNAME ? nc_gather_host(g, err) : 0;

    if (r >= 0)
        r = nc_gather_ec2(g, false, err);
    if (r < 0)
        return r;
    const struct nc_plan_input in = nc_gather_input(g, NULL);
    return nc_plan_identify(&in, &g->plan, err);
}

int nc_gather_render(struct nc_gather *g, struct nc_err *err) {
    const char *imds = g->app->opts.imds;
    const struct nc_render_input in = {
        .facts = &g->facts,
        .config = &g->config,
        .plan = &g->plan,
        .program = NC_SBINDIR "/nodeclaimd",
        .imds_endpoint = imds && !nc_streq(imds, NC_IMDS_ENDPOINT) ? imds : NULL,
    };

    nc_fileset_done(&g->files);
    return nc_render(&in, &g->files, err);
}

/* --- recording */

int nc_gather_save(const struct nc_gather *g, const char *folder, struct nc_err *err) {
    nc_cleanup(nc_buf_done) struct nc_buf host = NC_BUF_INIT;
    nc_auto_free char *host_path = nc_asprintf("%s/host.json", folder);

    for (unsigned i = 0; i < _NC_IMDS_ITEM_MAX; i++) {
        const struct nc_imds_answer *a = &g->answers[i];
        nc_auto_free char *relative = NULL, *path = NULL;
        int r;
        if (a->status != 200 || i == NC_IMDS_CREDENTIALS || i == NC_IMDS_ROLE)
            continue;
        r = nc_imds_path((enum nc_imds_item)i, g->facts.mac, &relative, err);
        if (r < 0)
            return r;
        path = nc_asprintf("%s/imds%s", folder, relative);
        r = nc_file_write(path, a->body.data, a->body.len, i == NC_IMDS_USER_DATA ? 0600 : 0644,
                          err);
        if (r < 0)
            return r;
    }
    for (size_t i = 0; i < g->facts.n_metadata; i++) {
        const struct nc_metadata *m = &g->facts.metadata[i];
        nc_auto_free char *path = nc_asprintf("%s/imds/latest/meta-data/%s", folder, m->path);
        const int r = m->text ? nc_file_write(path, m->text, strlen(m->text), 0644, err) : 0;

        if (r < 0)
            return r;
    }
    nc_facts_write_host_json(&g->facts, &host);
    const int r = nc_file_write(host_path, host.data, host.len, 0644, err);
    return r < 0 ? r : 0;
}
