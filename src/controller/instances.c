/*
 * TerminateInstances and DescribeInstances, and what Auto Scaling is asked: one instance a request,
 * a few at once; credentials first, once for all that wait.
 *
 * What fails is answered, not tried again: when to ask again is the step's to say.
 */
#include "controller.h"

#include <errno.h>
#include <stdio.h>

#include "nc/clock.h"
#include "nc/ec2.h"
#include "nc/role.h"
#include "nc/sigv4.h"
#include "nc/str.h"

#define MAX_IN_FLIGHT 8u
#define MAX_WAITING 4096u
#define CALL_USEC 20000000u

struct order {
    struct nc_instances *all;
    struct order *next;
    uint64_t id;
    enum nc_control_verb verb;
    struct nc_control_instance instance;
    char *group; /* of a lifecycle action */
    bool is_sent;
    struct nc_ec2_call call;
    struct nc_autoscaling_call group_call;
};

struct nc_instances {
    struct nc_instances_options o;
    struct nc_http *http;
    struct nc_role *role;
    sd_event_source *defer; /* what is asked is begun with the next turn */
    struct order *orders;   /* oldest first */
    unsigned n, n_sent;
    bool is_fetching;
};

static void forget(struct nc_instances *i, struct order *o) {
    struct order **at = &i->orders;

    while (*at != o)
        at = &(*at)->next;
    *at = o->next;
    i->n--;
    i->n_sent -= o->is_sent;
    free(o->group);
    free(o);
}

/* What EC2 says against the request for a state is said of this one instance: a node chose its id,
 * and must not hold up the questions about others. */
static enum nc_control_answer answer_of(const struct order *o, const struct nc_err *err) {
    switch (err->class) {
    case NC_ERR_NONE:
        return o->call.is_unknown || o->group_call.is_unknown ? NC_CONTROL_MISSING
                                                              : NC_CONTROL_DONE;
    case NC_ERR_TRANSIENT:
    case NC_ERR_HOST:
    case NC_ERR_PROTOCOL:
        return NC_CONTROL_UNAVAILABLE;
    case NC_ERR_CONFIG:
        return o->verb == NC_CONTROL_INSTANCE_STATE ? NC_CONTROL_MISSING : NC_CONTROL_REFUSED;
    case NC_ERR_AUTH:
    case NC_ERR_BUG:
    case _NC_ERR_CLASS_MAX:
        break;
    }
    return NC_CONTROL_REFUSED;
}

/* May be the last thing that happens to `i`. What the texts of an answer point to is not the
 * order's. */
static void answer(struct nc_instances *i, struct order *o, const struct nc_err *err) {
    const struct nc_instances_answer a = {
        .id = o->id,
        .answer = answer_of(o, err),
        .refusal = o->group_call.is_refused    ? NC_CONTROL_REFUSAL_HOOK
                   : err->class == NC_ERR_AUTH ? NC_CONTROL_REFUSAL_DENIED
                                               : NC_CONTROL_REFUSAL_OTHER,
        .name = o->call.private_dns_name,
        .instance_state =
            o->verb == NC_CONTROL_INSTANCE_STATE ? nc_ec2_state_name(o->call.state) : NULL,
        .group = o->group_call.group,
        .state = o->group_call.state,
    };

    forget(i, o);
    i->o.done(i->o.userdata, &a, err);
}

static void wake(struct nc_instances *i) {
    (void)sd_event_source_set_enabled(i->defer, i->n > 0 ? SD_EVENT_ONESHOT : SD_EVENT_OFF);
}

static void on_answer(struct nc_ec2_call *call, const struct nc_err *err) {
    struct order *o = call->userdata;

    wake(o->all);
    answer(o->all, o, err);
}

static void on_group_answer(struct nc_autoscaling_call *call, const struct nc_err *err) {
    struct order *o = call->userdata;

    wake(o->all);
    answer(o->all, o, err);
}

static bool is_of_group(enum nc_control_verb verb) {
    return verb == NC_CONTROL_DESCRIBE_LIFECYCLE || verb == NC_CONTROL_RECORD_HEARTBEAT
           || verb == NC_CONTROL_COMPLETE_ACTION;
}

static int send_to_group(struct nc_instances *i, struct order *o, const struct nc_ec2 *e,
                         struct nc_err *err) {
    const struct nc_autoscaling_action action = {.instance_id = o->instance.id,
                                                 .group = o->group,
                                                 .hook = i->o.settings->lifecycle_hook,
                                                 .completes =
                                                     o->verb == NC_CONTROL_COMPLETE_ACTION};

    o->group_call.done = on_group_answer;
    o->group_call.userdata = o;
    return o->verb == NC_CONTROL_DESCRIBE_LIFECYCLE
               ? nc_autoscaling_describe_start(e, o->instance.id, &o->group_call, err)
               : nc_autoscaling_action_start(e, &action, &o->group_call, err);
}

static int send_order(struct nc_instances *i, struct order *o, struct nc_err *err) {
    const bool is_of_ec2 = !is_of_group(o->verb);
    const char *endpoint =
        is_of_ec2 ? i->o.settings->ec2_endpoint : i->o.settings->autoscaling_endpoint;
    nc_auto_free char *host =
        nc_aws_host(is_of_ec2 ? "ec2" : "autoscaling", o->instance.region, NULL);
    nc_auto_free char *url =
        endpoint ? nc_strdup(endpoint) : nc_asprintf("https://%s", host ? host : "");
    const uint64_t now = nc_now_usec();
    const struct nc_ec2 e = {.http = i->http,
                             .endpoint = url,
                             .region = o->instance.region,
                             .credentials = nc_role_current(i->role, now),
                             .time_usec = now,
                             .timeout_usec = CALL_USEC};

    if (!is_of_ec2)
        return send_to_group(i, o, &e, err);
    o->call.done = on_answer;
    o->call.userdata = o;
    if (o->verb == NC_CONTROL_END_INSTANCE)
        return nc_ec2_end_start(&e, o->instance.id, &o->call, err);
    return o->verb == NC_CONTROL_INSTANCE_STATE
               ? nc_ec2_state_start(&e, o->instance.id, &o->call, err)
               : nc_ec2_describe_start(&e, o->instance.id, &o->call, err);
}

/* All that wait fail alike where there are no credentials. Their answers may request new orders:
 * those are at the end, and wait for the next turn. */
static void fail_all(struct nc_instances *i, const struct nc_err *err) {
    for (unsigned left = i->n; left > 0 && i->orders; left--) {
        struct order *o = i->orders;
        while (o && o->is_sent)
            o = o->next;
        if (!o)
            return;
        answer(i, o, err);
    }
}

static void on_credentials(void *userdata, const struct nc_err *err) {
    struct nc_instances *i = userdata;

    i->is_fetching = false;
    if (err->class != NC_ERR_NONE)
        fail_all(i, err);
    wake(i);
}

static void fetch(struct nc_instances *i) {
    struct nc_err err = NC_ERR_INIT;

    i->is_fetching =
        nc_role_fetch(i->role, i->orders->instance.region, on_credentials, i, &err) >= 0;
    if (!i->is_fetching)
        fail_all(i, &err);
}

static int on_turn(sd_event_source *source, void *userdata) {
    struct nc_instances *i = userdata;

    if (i->n == i->n_sent || i->is_fetching)
        return 0;
    if (!nc_role_current(i->role, nc_now_usec())) {
        fetch(i);
        return 0;
    }
    for (struct order *o = i->orders; o && i->n_sent < MAX_IN_FLIGHT; o = o->next) {
        struct nc_err err = NC_ERR_INIT;
        if (o->is_sent)
            continue;
        if (send_order(i, o, &err) < 0) {
            wake(i);
            answer(i, o, &err);
            return 0;
        }
        o->is_sent = true;
        i->n_sent++;
    }
    return 0;
}

/* EC2 of another region knows no such instance, which would be taken for its end. */
static int check_region(const struct nc_instances *i, const struct order *o, struct nc_err *err) {
    if (!i->o.settings->region || nc_streq(i->o.settings->region, o->instance.region))
        return 0;
    nc_err_config(err, "%s is in %s, not in %s: it is not %s", o->instance.id, o->instance.region,
                  i->o.settings->region,
                  o->verb == NC_CONTROL_END_INSTANCE ? "ended" : "asked for");
    nc_err_remedy(err, "correct or leave out --region (AWS_REGION)");
    return -EINVAL;
}

int nc_instances_call(struct nc_instances *i, const struct nc_control_action *a,
                      struct nc_err *err) {
    struct order *o = nc_calloc(1, sizeof(*o));
    struct order **at = &i->orders;
    nc_auto_free char *quoted =
        nc_quote(a->provider_id ? a->provider_id : "", a->provider_id ? strlen(a->provider_id) : 0);
    int r = 0;

    o->verb = a->verb;
    if (i->n >= MAX_WAITING)
        r = nc_err_set(err, NC_ERR_PROTOCOL, EINVAL, "too many instances wait for EC2: %s", quoted);
    else if (nc_control_parse_provider_id(a->provider_id, &o->instance) < 0)
        r = nc_err_set(err, NC_ERR_PROTOCOL, EINVAL, "invalid provider ID: %s", quoted);
    else
        r = check_region(i, o, err);
    if (r < 0) {
        free(o);
        return r;
    }
    o->all = i;
    o->id = a->id;
    o->group = a->group ? nc_strdup(a->group) : NULL;
    while (*at)
        at = &(*at)->next;
    *at = o;
    i->n++;
    wake(i);
    return 0;
}

int nc_instances_new(sd_event *event, const struct nc_instances_options *o,
                     struct nc_instances **ret, struct nc_err *err) {
    const struct nc_role_options role = {
        .access_key_id = getenv("AWS_ACCESS_KEY_ID"),
        .secret_access_key = getenv("AWS_SECRET_ACCESS_KEY"),
        .session_token = getenv("AWS_SESSION_TOKEN"),
        .web_identity_token_file = getenv("AWS_WEB_IDENTITY_TOKEN_FILE"),
        .role_arn = getenv("AWS_ROLE_ARN"),
        .session_name = getenv("AWS_ROLE_SESSION_NAME"),
        .container_uri = getenv("AWS_CONTAINER_CREDENTIALS_FULL_URI"),
        .container_token_file = getenv("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"),
        .sts_endpoint = o->settings->sts_endpoint,
        .imds = o->settings->imds,
    };
    struct nc_instances *i = nc_calloc(1, sizeof(*i));
    int r;

    i->o = *o;
    r = nc_http_new(event, MAX_IN_FLIGHT, &i->http, err);
    if (r >= 0)
        r = nc_role_new(event, i->http, &role, &i->role, err);
    if (r >= 0) {
        r = sd_event_add_defer(event, &i->defer, on_turn, i);
        if (r >= 0)
            r = sd_event_source_set_enabled(i->defer, SD_EVENT_OFF);
        if (r < 0)
            (void)nc_err_host(err, r, "event loop");
    }
    if (r < 0) {
        nc_instances_free(i);
        return r;
    }
    *ret = i;
    return 0;
}

void nc_instances_drop(struct nc_instances *i) {
    while (i->orders) {
        nc_ec2_call_cancel(&i->orders->call);
        nc_autoscaling_call_cancel(&i->orders->group_call);
        forget(i, i->orders);
    }
}

struct nc_instances *nc_instances_free(struct nc_instances *i) {
    if (!i)
        return NULL;
    nc_instances_drop(i);
    sd_event_source_disable_unref(i->defer);
    nc_role_free(i->role);
    nc_http_free(i->http);
    free(i);
    return NULL;
}
