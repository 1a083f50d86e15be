/*
 * What the daemon must know before it can act on its own: which instance this is, what its user
 * wants, and under which name the cluster knows it.
 *
 * The same steps as bootstrap's, in a struct of their own; only facts, policies and names are kept:
 * the documents with their secrets are gone at the end. Nothing here waits, or stops the daemon.
 */
#include <errno.h>

#include "daemon.h"
#include "log.h"
#include "nc/backoff.h"
#include "nc/ec2.h"
#include "nc/mem.h"
#include "nc/role.h"

#define SECOND 1000000ull
#define EC2_TIMEOUT_USEC (5 * SECOND)

static void make_rules(struct nc_daemon *d) {
    const char *id = d->gather.facts.instance_id;

    d->rules = (struct nc_lifecycle_rules){.drain = d->gather.config.drain,
                                           .max_in_flight = NC_DRAIN_MAX_IN_FLIGHT,
                                           .seed = nc_backoff_seed(id ? id : "")};
}

void nc_daemon_defaults(struct nc_daemon *d) {
    nc_config_done(&d->gather.config);
    nc_config_set_defaults(&d->gather.config);
    d->gather.has_config = false;
    make_rules(d);
}

/* The policies and what the daemon is to be found by; not the documents, and no secret. */
static void keep_config(struct nc_daemon *d, struct nc_config *c) {
    nc_config_done(&d->gather.config);
    d->gather.config = (struct nc_config){
        .auth = c->auth,
        .kubeconfig = nc_steal(&c->kubeconfig),
        .drain = c->drain,
        .fit = c->fit,
        .report_console = c->report_console,
        .report_events = c->report_events,
        .report_node = c->report_node,
        .claim_lookup = c->claim_lookup,
    };
    c->fit = (struct nc_fit_settings){0};
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
static int read_config(struct nc_gather *g, bool *ret_is_complete, struct nc_err *err) {
    struct nc_err own = NC_ERR_INIT;
    int r = nc_gather_documents(g, err);

    *ret_is_complete = false;
    if (r < 0 || g->documents.n_docs == 0)
        return r;
    *ret_is_complete = nc_gather_config(g, &own) >= 0;
    if (*ret_is_complete)
        return 0;
    r = nc_config_policies(&g->documents, &g->config, err);
    if (r < 0)
        return r;
    nc_log(NC_LOG_INFO, NULL, "%s: its policies are applied nevertheless", own.msg);
    g->has_config = true;
    return 0;
}

/* A field that nobody knows is not in force, whatever it was meant for: it is told before what is
 * only worth a word. */
static void note_warnings(struct nc_daemon *d, const struct nc_documents *of) {
    bool has_unknown = false;

    for (size_t i = 0; i < of->n_diags; i++) {
        const bool is_unknown = of->diags[i].kind == NC_DIAGNOSTIC_UNKNOWN;
        nc_auto_free char *text = nc_gather_warning(of, &of->diags[i]);
        if (!text)
            continue;
        nc_log(NC_LOG_WARNING, NULL, "%s", text);
        if (d->not_in_force && (has_unknown || !is_unknown))
            continue;
        has_unknown = is_unknown;
        free(d->not_in_force);
        d->not_in_force = nc_steal(&text);
    }
    nc_daemon_tell_not_in_force(d);
}

/* The former policies stay, but for a mode that does less: a document that is refused does not keep
 * the "off" of another one out of force. */
static bool apply_lesser_mode(struct nc_daemon *d, const struct nc_config *rest) {
    struct nc_drain_settings *former = &d->gather.config.drain;

    if (nc_drain_mode_cap(rest->drain.mode) >= nc_drain_mode_cap(former->mode))
        return false;
    former->mode = rest->drain.mode;
    make_rules(d);
    return true;
}

/* What is refused does not take the rest with it. */
static bool read_the_rest(struct nc_gather *g) {
    struct nc_err err = NC_ERR_INIT;

    nc_documents_set_aside_errors(&g->documents);
    return g->documents.n_docs > 0 && nc_config_policies(&g->documents, &g->config, &err) >= 0;
}

/* What is tried again is told once: `was` is what was not in force before. */
static void note_refused(struct nc_daemon *d, const struct nc_err *err, const char *whose,
                         const char *was) {
    d->not_in_force = nc_asprintf("%s; the %s policies are in force until %s%s%s", err->msg, whose,
                                  err->class == NC_ERR_HOST ? "it can be read" : "a reload",
                                  *err->remedy ? "; " : "", err->remedy);
    d->counters.is_config_refused = true;
    if (err->class == NC_ERR_HOST && was && nc_streq(was, d->not_in_force))
        return;
    nc_log(NC_LOG_WARNING,
           &(struct nc_log_fields){.phase = "config", .error_class = nc_err_class_name(err->class)},
           "%s", d->not_in_force);
    nc_daemon_tell_not_in_force(d);
}

/* --- the steps */

struct nc_daemon_gathering {
    struct nc_daemon *d;
    struct nc_gather g;
    struct nc_imds_batch *batch;
    struct nc_node_token *credentials;
    struct nc_ec2_call name; /* of DescribeInstances */
    bool has_facts;
};

void nc_daemon_gather_cancel(struct nc_daemon *d) {
    struct nc_daemon_gathering *it = d->gathering;

    d->gathering = NULL;
    if (!it)
        return;
    nc_imds_batch_cancel(it->batch);
    nc_node_token_cancel(it->credentials);
    nc_ec2_call_cancel(&it->name);
    nc_gather_done(&it->g);
    free(it);
}

static void finish(struct nc_daemon_gathering *it, const struct nc_err *err) {
    struct nc_daemon *d = it->d;
    const struct nc_err own = *err;

    for (size_t i = 0; own.class == NC_ERR_NONE && i < it->g.ignored.n; i++)
        nc_log(NC_LOG_WARNING, NULL, "%s", it->g.ignored.v[i]);
    if (it->has_facts) {
        keep_facts(d, &it->g.facts);
        make_rules(d);
        d->is_status_due = true;
    }
    nc_daemon_gather_cancel(d);
    nc_daemon_gathered(d, &own);
}

/* Only the name may be missing where err reports it: it is worth another try where EC2 may answer
 * later. */
static void use_config(struct nc_daemon_gathering *it, const struct nc_err *err) {
    struct nc_daemon *d = it->d;
    struct nc_err own = *err;

    keep_config(d, &it->g.config);
    make_rules(d);
    if (own.class == NC_ERR_NONE) {
        finish(it, &own);
        return;
    }
    nc_log(NC_LOG_WARNING, &(struct nc_log_fields){.error_class = nc_err_class_name(own.class)},
           "%s; the API server will be queried for the node name", own.msg);
    if (own.class != NC_ERR_TRANSIENT && own.class != NC_ERR_AUTH)
        own = (struct nc_err)NC_ERR_INIT;
    finish(it, &own);
}

static void find_name(struct nc_daemon_gathering *it) {
    struct nc_err err = NC_ERR_INIT;

    if (nc_gather_name(&it->g, &err) >= 0)
        keep_name(it->d, &it->g.plan);
    use_config(it, &err);
}

static void on_name(struct nc_ec2_call *call, const struct nc_err *err) {
    struct nc_daemon_gathering *it = call->userdata;
    struct nc_err own = *err;

    if (own.class == NC_ERR_NONE && !call->private_dns_name)
        (void)nc_err_set(&own, NC_ERR_TRANSIENT, ENOENT,
                         "ec2: DescribeInstances: %s is not known there yet", call->instance_id);
    if (own.class != NC_ERR_NONE) {
        use_config(it, &own);
        return;
    }
    it->g.facts.private_dns_name = nc_strdup(call->private_dns_name);
    find_name(it);
}

static void on_credentials(void *userdata, char *token, uint64_t until_usec,
                           const struct nc_err *err) {
    struct nc_daemon_gathering *it = userdata;
    struct nc_gather *g = &it->g;
    nc_auto_free char *endpoint = NULL;
    struct nc_err own = *err;

    (void)token; /* only the credentials were wanted */
    it->credentials = NULL;
    if (own.class == NC_ERR_NONE && !g->http)
        (void)nc_http_new(g->app->event, 0, &g->http, &own);
    if (own.class == NC_ERR_NONE) {
        endpoint = nc_gather_ec2_endpoint(g);
        const struct nc_ec2 ec2 = {.http = g->http,
                                   .endpoint = endpoint,
                                   .region = g->facts.region,
                                   .credentials = &g->credentials,
                                   .time_usec = nc_now_usec(),
                                   .timeout_usec = EC2_TIMEOUT_USEC};
        it->name = (struct nc_ec2_call){.done = on_name, .userdata = it};
        if (nc_ec2_describe_start(&ec2, g->facts.instance_id, &it->name, &own) >= 0)
            return;
    }
    use_config(it, &own);
}

/* EC2 is requested the name where the configuration wants that one. */
static bool needs_ec2(const struct nc_daemon_gathering *it) {
    const struct nc_gather *g = &it->g;

    return g->imds && !g->facts.private_dns_name
           && nc_plan_needs_private_dns_name(&g->facts, &g->config);
}

static void request_instance(struct nc_daemon_gathering *it) {
    const struct nc_node_token_call call = {
        .credentials = &it->g.credentials, .done = on_credentials, .userdata = it};
    struct nc_err err = NC_ERR_INIT;

    if (nc_node_token_start(it->g.imds, &call, &it->credentials, &err) < 0)
        use_config(it, &err);
}

/* What a person must correct is not tried again by itself; what was good before stays. A document
 * that this machine could not read (a disk that fails, descriptors that ran out) is. */
static void apply_answers(struct nc_daemon_gathering *it) {
    struct nc_daemon *d = it->d;
    struct nc_err err = NC_ERR_INIT;
    bool is_whole, is_rest = false;

    it->has_facts = true;
    const bool was_refused = d->counters.is_config_refused;
    nc_auto_free char *was = nc_steal(&d->not_in_force);
    d->counters.is_config_refused = false;
    const int r = read_config(&it->g, &is_whole, &err);
    if (r >= 0 && was_refused)
        nc_daemon_tell_config_accepted(d);
    if (r >= 0)
        note_warnings(d, &it->g.documents);
    if (r < 0) {
        is_rest = read_the_rest(&it->g);
        if (!d->gather.has_config)
            note_refused(d, &err, is_rest ? "other" : "built-in", was);
        else if (is_rest && apply_lesser_mode(d, &it->g.config))
            note_refused(d, &err, "former (but for drain.mode)", was);
        else
            note_refused(d, &err, "former", was);
        if (is_rest && !d->gather.has_config) {
            keep_config(d, &it->g.config);
            make_rules(d);
        }
        if (err.class != NC_ERR_HOST)
            err = (struct nc_err)NC_ERR_INIT;
        finish(it, &err);
    } else if (!it->g.has_config) {
        nc_log(NC_LOG_INFO, NULL, "no configuration was found: the built-in policies are in force");
        nc_daemon_defaults(d);
        finish(it, &err);
    } else if (!is_whole || (d->node_name && d->app->opts.node_name)) {
        use_config(it, &err);
    } else if (needs_ec2(it)) {
        request_instance(it);
    } else {
        find_name(it);
    }
}

/* Until IMDS answers, the documents of this machine alone count: an "off" may be among them. */
static void use_local(struct nc_daemon_gathering *it) {
    struct nc_daemon *d = it->d;

    if (d->gather.has_config)
        return;
    (void)nc_gather_documents(&it->g, NULL);
    if (!read_the_rest(&it->g))
        return;
    nc_log(NC_LOG_INFO, NULL, "the documents of this machine are in force, without the user data");
    keep_config(d, &it->g.config);
    make_rules(d);
}

static void on_answers(void *userdata, const struct nc_err *err) {
    struct nc_daemon_gathering *it = userdata;
    struct nc_err own = *err;

    it->batch = NULL;
    if (nc_gather_facts(&it->g, own.class == NC_ERR_NONE ? 0 : -EIO, &own) >= 0) {
        apply_answers(it);
        return;
    }
    use_local(it);
    finish(it, &own);
}

static int start(struct nc_daemon_gathering *it, struct nc_err *err) {
    struct nc_gather *g = &it->g;
    int r = nc_gather_open(g, it->d->app, err);

    if (r < 0 || !g->imds)
        return r;
    nc_imds_set_pace(g->imds, it->d->imds);
    const struct nc_imds_batch_call call = {.items = nc_gather_items(it->d->app),
                                            .timeout_usec = nc_imds_timeout(g->imds, SECOND),
                                            .answers = g->answers,
                                            .done = on_answers,
                                            .userdata = it};
    return nc_imds_batch_start(g->imds, &call, &it->batch, err);
}

void nc_daemon_gather_start(struct nc_daemon *d) {
    struct nc_daemon_gathering *it = nc_calloc(1, sizeof(*it));
    struct nc_err err = NC_ERR_INIT;

    nc_daemon_gather_cancel(d);
    if (d->gather_timer)
        (void)sd_event_source_set_enabled(d->gather_timer, SD_EVENT_OFF);
    it->d = d;
    d->gathering = it;
    if (start(it, &err) < 0)
        finish(it, &err);
    else if (it->g.imds)
        return;
    else if (nc_gather_imds(&it->g, &err) >= 0) /* recorded facts are there at once */
        apply_answers(it);
    else
        finish(it, &err);
}
