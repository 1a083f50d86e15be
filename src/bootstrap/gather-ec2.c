/*
 * EC2 and the role's credentials for it. Never on the way to a node that needs neither.
 */
#include "gather.h"

#include <errno.h>
#include <stdio.h>

#include "nc/backoff.h"
#include "nc/ec2.h"
#include "nc/sigv4.h"
#include "nc/str.h"

#define EC2_TIMEOUT_USEC 5000000u
#define TYPE_TRIES 4
#define CREDENTIALS_TIMEOUT_USEC 1000000u
#define CREDENTIALS_MARGIN_USEC (5ull * 60 * 1000000)

static const struct nc_backoff retries = {.first_usec = 200000, .max_usec = 1000000};

static int role_error(const struct nc_imds_answer *answer, struct nc_err *err) {
    int r;

    if (answer->status == 0)
        return nc_err_set(err, answer->err.class ? answer->err.class : NC_ERR_TRANSIENT,
                          answer->err.code, "%s", answer->err.msg);
    r = nc_err_set(
        err, NC_ERR_TRANSIENT, 404,
        "imds: no role credentials (HTTP 404): the instance has no role, or it is not there yet");
    nc_err_remedy(err, "attach an instance profile with the node role to the instance");
    return r;
}

int nc_gather_credentials(struct nc_imds *imds, struct nc_credentials *c, struct nc_err *err) {
    struct nc_imds_answer answers[_NC_IMDS_ITEM_MAX] = {0};
    const char *args[_NC_IMDS_ITEM_MAX] = {0};
    nc_auto_free char *role = NULL;
    int r;

    if (c->access_key_id
        && (c->expiration_usec == 0
            || nc_now_usec() + CREDENTIALS_MARGIN_USEC < c->expiration_usec))
        return 0;
    if (!imds)
        return nc_err_set(err, NC_ERR_CONFIG, ENOTSUP,
                          "role credentials are needed, and recorded facts hold none");
    nc_credentials_done(c);
    r = nc_imds_fetch(imds, 1u << NC_IMDS_ROLE, args,
                      nc_imds_timeout(imds, CREDENTIALS_TIMEOUT_USEC), answers, err);
    if (r >= 0 && answers[NC_IMDS_ROLE].status != 200)
        r = role_error(&answers[NC_IMDS_ROLE], err);
    if (r >= 0) {
        struct nc_facts facts = NC_FACTS_INIT;
        r = nc_facts_take_imds(&facts, NC_IMDS_ROLE, answers[NC_IMDS_ROLE].body.data,
                               answers[NC_IMDS_ROLE].body.len, err);
        role = nc_steal(&facts.role);
        nc_facts_done(&facts);
    }
    if (r >= 0) {
        args[NC_IMDS_CREDENTIALS] = role;
        r = nc_imds_fetch(imds, 1u << NC_IMDS_CREDENTIALS, args,
                          nc_imds_timeout(imds, CREDENTIALS_TIMEOUT_USEC), answers, err);
    }
    if (r >= 0 && answers[NC_IMDS_CREDENTIALS].status != 200)
        r = role_error(&answers[NC_IMDS_CREDENTIALS], err);
    if (r >= 0)
        r = nc_credentials_parse(answers[NC_IMDS_CREDENTIALS].body.data,
                                 answers[NC_IMDS_CREDENTIALS].body.len, c, err);
    nc_imds_answer_done(&answers[NC_IMDS_ROLE]);
    nc_imds_answer_done(&answers[NC_IMDS_CREDENTIALS]);
    return r;
}

static int prepare_ec2(struct nc_gather *g, char **ret_endpoint, struct nc_err *err) {
    int r = nc_gather_credentials(g->imds, &g->credentials, err);

    if (r >= 0 && !g->http)
        r = nc_http_new(g->app->event, 0, &g->http, err);
    if (r < 0)
        return r;
    if (g->config.ec2_endpoint) {
        *ret_endpoint = nc_strdup(g->config.ec2_endpoint);
        return 0;
    }
    nc_auto_free char *host =
        nc_aws_host("ec2", g->facts.region, g->config.domain ? g->config.domain : g->facts.domain);
    *ret_endpoint = nc_asprintf("https://%s", host);
    return 0;
}

static bool is_worth_another(const struct nc_err *err) {
    return err->class == NC_ERR_TRANSIENT
           && (err->code >= 100 || err->code == -ECONNRESET || err->code == -ECONNREFUSED);
}

static void describe_type(struct nc_gather *g, const struct nc_ec2 *ec2) {
    struct nc_err err = NC_ERR_INIT;
    int r;

    /* EC2 throttles while a whole group of instances starts, a connection breaks, and a wrong
     * number of pods stays. Where nothing answers at all (a cluster without a way to EC2), that is
     * not waited for again. */
    for (unsigned attempt = 1;; attempt++) {
        err = (struct nc_err)NC_ERR_INIT;
        r = nc_ec2_instance_type(ec2, g->facts.instance_type, &g->facts.described_type, &err);
        if (r >= 0)
            return;
        if (!is_worth_another(&err) || attempt == TYPE_TRIES
            || nc_app_pause(g->app, nc_app_left(g->app, nc_backoff_pause(&retries, attempt, 0)))
                   < 0)
            break;
    }
    g->facts.described_type.name[0] = '\0';
    nc_strv_addf(&g->warnings, "EC2 did not say what an instance of type %s is: %s%s%s",
                 g->facts.instance_type, err.msg, *err.remedy ? "; " : "", err.remedy);
}

int nc_gather_ec2(struct nc_gather *g, bool wants_type, struct nc_err *err) {
    const struct nc_plan_input in = nc_gather_input(g, NULL);
    const bool needs_name =
        !g->facts.private_dns_name && nc_plan_needs_private_dns_name(&g->facts, &g->config);
    const bool needs_type = wants_type && !g->is_type_requested && nc_plan_needs_instance_type(&in);
    nc_auto_free char *endpoint = NULL;
    struct nc_err own = NC_ERR_INIT;
    int r;

    if ((!needs_name && !needs_type) || !g->imds)
        return 0;
    g->is_type_requested |= needs_type;
    r = prepare_ec2(g, &endpoint, &own);
    if (r < 0 && !needs_name) {
        nc_strv_addf(&g->warnings, "EC2 was not asked what an instance of type %s is: %s",
                     g->facts.instance_type, own.msg);
        return 0;
    }
    if (r < 0) {
        if (err)
            *err = own;
        return r;
    }
    const struct nc_ec2 ec2 = {.http = g->http,
                               .endpoint = endpoint,
                               .region = g->facts.region,
                               .credentials = &g->credentials,
                               .time_usec = nc_now_usec(),
                               .timeout_usec = nc_app_timeout(g->app, EC2_TIMEOUT_USEC)};
    if (needs_type)
        describe_type(g, &ec2);
    return needs_name ? nc_ec2_private_dns_name(&ec2, g->facts.instance_id,
                                                &g->facts.private_dns_name, err)
                      : 0;
}
