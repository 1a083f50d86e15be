/*
 * EC2 and the role's credentials for it. Never on the way to a node that needs neither.
 */
#include "gather.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "nc/backoff.h"
#include "nc/ec2.h"
#include "nc/mem.h"
#include "nc/role.h"
#include "nc/sigv4.h"

#define EC2_TIMEOUT_USEC 5000000u
#define TYPE_TRIES 4

static const struct nc_backoff retries = {.first_usec = 200000, .max_usec = 1000000};

int nc_gather_credentials(struct nc_imds *imds, struct nc_credentials *c, struct nc_err *err) {
    const struct nc_node_token_call call = {.credentials = c};

    return nc_node_token_make(imds, &call, NULL, NULL, err);
}

/* Those of every AWS SDK, and so of nodeadm; its own environment is a NodeConfig's to give. */
static const char *const variables[] = {"AWS_ENDPOINT_URL_EC2", "AWS_ENDPOINT_URL"};

char *nc_gather_ec2_endpoint(const struct nc_gather *g) {
    const struct nc_config *c = &g->config;
    nc_auto_free char *host =
        nc_aws_host("ec2", g->facts.region, c->domain ? c->domain : g->facts.domain);
    const char *named = c->ec2_endpoint;

    for (size_t i = 0; !(named && *named) && i < NC_ARRAY_SIZE(variables); i++)
        named = getenv(variables[i]);
    return named && *named ? nc_strdup(named) : nc_asprintf("https://%s", host);
}

static int prepare_ec2(struct nc_gather *g, char **ret_endpoint, struct nc_err *err) {
    int r = nc_gather_credentials(g->imds, &g->credentials, err);

    if (r >= 0 && !g->http)
        r = nc_http_new(g->app->event, 0, &g->http, err);
    if (r < 0)
        return r;
    *ret_endpoint = nc_gather_ec2_endpoint(g);
    return 0;
}

static bool is_worth_another(const struct nc_err *err) {
    return err->class == NC_ERR_TRANSIENT
           && (err->code >= 100 || err->code == -ECONNRESET || err->code == -ECONNREFUSED);
}

static void describe_type(struct nc_gather *g, const struct nc_ec2 *ec2) {
    struct nc_err err = NC_ERR_INIT;
    int r;

    /* EC2 throttles while a complete group of instances starts, a connection breaks, and a wrong
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
    nc_strv_addf(&g->warnings, "EC2 did not describe instance type %s: %s%s%s",
                 g->facts.instance_type, err.msg, *err.remedy ? "; " : "", err.remedy);
}

int nc_gather_ec2(struct nc_gather *g, bool needs_type, struct nc_err *err) {
    const bool needs_name =
        !g->facts.private_dns_name && nc_plan_needs_private_dns_name(&g->facts, &g->config);
    nc_auto_free char *endpoint = NULL;
    struct nc_err own = NC_ERR_INIT;
    int r;

    if ((!needs_name && !needs_type) || !g->imds)
        return 0;
    g->is_type_requested |= needs_type;
    r = prepare_ec2(g, &endpoint, &own);
    if (r < 0 && !needs_name) {
        nc_strv_addf(&g->warnings, "EC2 was not queried for instance type %s: %s",
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
