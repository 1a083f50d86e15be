/*
 * What the daemon must know before it can act on its own: which instance this is, what its user
 * wants, and under which name the cluster knows it.
 *
 * The same steps as bootstrap's, in a struct of their own; only facts, policies and names are kept:
 * the documents with their secrets are gone when this returns. Nothing here stops the daemon.
 */
#include <errno.h>

#include "daemon.h"
#include "log.h"
#include "nc/backoff.h"
#include "nc/str.h"

#define SECOND 1000000ull

static void make_rules(struct nc_daemon *d) {
    const char *id = d->gather.facts.instance_id;

    nc_life_rules_from(&d->gather.config, nc_backoff_seed(id ? id : ""), &d->rules);
}

void nc_daemon_defaults(struct nc_daemon *d) {
    nc_config_done(&d->gather.config);
    d->gather.config = nc_config_defaults;
    d->gather.has_config = false;
    make_rules(d);
}

/* The policies and what the daemon is to be found by; not the documents, and no secret. */
static void keep_config(struct nc_daemon *d, struct nc_config *c) {
    nc_config_done(&d->gather.config);
    d->gather.config = (struct nc_config){
        .auth = c->auth,
        .kubeconfig = nc_steal(&c->kubeconfig),
        .autoscaling_deadline_usec = c->autoscaling_deadline_usec,
        .drain_mode = c->drain_mode,
        .drain_margin_usec = c->drain_margin_usec,
        .drain_linger_usec = c->drain_linger_usec,
        .report_console = c->report_console,
        .report_events = c->report_events,
        .report_node = c->report_node,
        .claim_lookup = c->claim_lookup,
    };
    memcpy(d->gather.config.policy, c->policy, sizeof(c->policy));
    d->gather.has_config = true;
}

static void keep_facts(struct nc_daemon *d, struct nc_facts *f) {
    nc_facts_done(&d->gather.facts);
    d->gather.facts = *f;
    *f = (struct nc_facts)NC_FACTS_INIT;
    d->has_facts = true;
    if (!d->provider_id && d->gather.facts.az && d->gather.facts.instance_id)
        d->provider_id =
            nc_asprintf("aws:///%s/%s", d->gather.facts.az, d->gather.facts.instance_id);
}

static void keep_name(struct nc_daemon *d, struct nc_plan *p) {
    if (p->provider_id) {
        free(d->provider_id);
        d->provider_id = nc_steal(&p->provider_id);
    }
    if (p->node_name && !d->is_name_used) {
        free(d->node_name);
        d->node_name = nc_steal(&p->node_name);
    }
}

/* A node that somebody else brought into the cluster may have nothing but policies of ours: those
 * count, and who we are the API server knows. */
static int read_config(struct nc_gather *g, bool *ret_is_whole, struct nc_err *err) {
    struct nc_err own = NC_ERR_INIT;
    int r = nc_gather_documents(g, err);

    if (r < 0 || g->documents.n_docs == 0)
        return r;
    *ret_is_whole = nc_gather_config(g, &own) >= 0;
    if (*ret_is_whole)
        return 0;
    r = nc_config_policies(&g->documents, &g->config, err);
    if (r < 0)
        return r;
    nc_log(NC_LOG_INFO, NULL, "%s: its policies are taken all the same", own.msg);
    g->has_config = true;
    return 0;
}

/* Only the name may still be missing where this fails: EC2 was to be asked for it. */
static int find_name(struct nc_daemon *d, struct nc_gather *g, struct nc_err *err) {
    int r;

    if (d->node_name && d->app->opts.node_name)
        return 0;
    r = nc_gather_name(g, err);
    if (r >= 0)
        keep_name(d, &g->plan);
    return r;
}

static void say_unusable(const struct nc_daemon *d, const struct nc_err *err) {
    const struct nc_log_fields fields = {.phase = "config",
                                         .error_class = nc_err_class_name(err->class)};

    nc_log(NC_LOG_WARNING, &fields, "%s; the %s policies are in force until a reload%s%s", err->msg,
           d->gather.has_config ? "former" : "built-in", *err->remedy ? "; " : "", err->remedy);
}

/* What a person must correct is not tried again by itself; what was good before stays. A document
 * that this machine could not read (a disk that fails, descriptors that ran out) is. */
static int take_config(struct nc_daemon *d, struct nc_gather *g, struct nc_err *err) {
    struct nc_err own = NC_ERR_INIT;
    bool is_whole = false;
    int r = read_config(g, &is_whole, &own);

    if (r < 0 && own.class == NC_ERR_HOST) {
        if (err)
            *err = own;
        return r;
    }
    if (r < 0) {
        say_unusable(d, &own);
        return 0;
    }
    if (!g->has_config) {
        nc_log(NC_LOG_INFO, NULL,
               "there is no configuration of ours: the built-in policies are in force");
        nc_daemon_defaults(d);
        return 0;
    }
    r = is_whole ? find_name(d, g, &own) : 0;
    keep_config(d, &g->config);
    make_rules(d);
    if (r >= 0)
        return 0;
    nc_log(NC_LOG_WARNING, &(struct nc_log_fields){.error_class = nc_err_class_name(own.class)},
           "%s; the API server will be asked who we are", own.msg);
    if (own.class != NC_ERR_TRANSIENT && own.class != NC_ERR_AUTH)
        return 0;
    if (err)
        *err = own;
    return r;
}

int nc_daemon_gather(struct nc_daemon *d, struct nc_err *err) {
    nc_cleanup(nc_gather_done) struct nc_gather g = {0};
    int r = nc_gather_open(&g, d->app, err);

    if (r >= 0 && g.imds && d->imds)
        nc_imds_set_pace(g.imds, d->imds);
    if (r >= 0)
        r = nc_gather_imds(&g, err);
    if (r < 0)
        return r;
    r = take_config(d, &g, err);
    for (size_t i = 0; r >= 0 && i < g.ignored.n; i++)
        nc_log(NC_LOG_WARNING, NULL, "%s", g.ignored.v[i]);
    keep_facts(d, &g.facts);
    make_rules(d);
    d->is_status_due = true;
    return r;
}
