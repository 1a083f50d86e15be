/*
 * What an answer means: metav1.Status read strictly, HTTP statuses mapped to error classes and
 * remedies.
 *
 * Two kinds of 429 must stay apart: an eviction that a budget forbids carries the cause
 * DisruptionBudget and often no time to wait, while API priority and fairness answers with plain
 * text and Retry-After. Pure.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nc/mem.h"
#include "nc/str.h"

#include "wire.h"

#define MAX_RETRY_AFTER_SEC 86400

static void copy_printable_field(const struct nc_value *v, const char *key, char *to, size_t size) {
    const char *s = nc_value_get_string(v, key);

    if (s)
        nc_kube_printable(to, size, s, strlen(s));
}

/* The cause's sentence names what the message does not: the budget that forbids an eviction. */
static void read_causes(const struct nc_value *causes, struct nc_kube_status *ret) {
    const struct nc_value *first = nc_value_item(causes, 0);
    const char *sentence = nc_value_get_string(first, "message");
    const size_t n = strlen(ret->message);

    copy_printable_field(first, "reason", ret->cause, sizeof(ret->cause));
    if (!sentence || !*sentence || n + 8 > sizeof(ret->message) || strstr(ret->message, sentence))
        return;
    if (n > 0)
        memcpy(ret->message + n, ": ", 3);
    nc_kube_printable(ret->message + n + (n ? 2 : 0), sizeof(ret->message) - n - 2, sentence,
                      strlen(sentence));
}

bool nc_kube_status_read(const struct nc_value *object, struct nc_kube_status *ret) {
    const int64_t code = nc_value_get_int(object, "code", 0);
    const int64_t wait_sec = nc_value_int(nc_value_path(object, "details.retryAfterSeconds"), 0);

    if (!nc_value_says(object, "kind", "Status") || !nc_value_says(object, "apiVersion", "v1"))
        return false;
    copy_printable_field(object, "reason", ret->reason, sizeof(ret->reason));
    copy_printable_field(object, "message", ret->message, sizeof(ret->message));
    read_causes(nc_value_path(object, "details.causes"), ret);
    if (ret->http == 0 && code >= 100 && code <= 599)
        ret->http = (int)code;
    if (ret->retry_after_usec == 0 && wait_sec > 0 && wait_sec <= MAX_RETRY_AFTER_SEC)
        ret->retry_after_usec = (uint64_t)wait_sec * 1000000u;
    return true;
}

static enum nc_err_class class_of(int http) {
    if (http == 401 || http == 403)
        return NC_ERR_AUTH;
    if (http == 408 || http == 425 || http == 429 || http >= 500)
        return NC_ERR_TRANSIENT;
    return NC_ERR_PROTOCOL;
}

/* Its words (v1.34): "the UID in the precondition (…) does not match the UID in record (…)" of a
 * deletion, with 409; "metadata.uid: Invalid value: …: field is immutable" of a patch, with 422. No
 * name can hold them. */
bool nc_kube_is_about_uid(const struct nc_kube_status *s) {
    return (s->http == 409 && strstr(s->message, "the UID in the precondition"))
           || (s->http == 422 && strstr(s->message, "metadata.uid: Invalid value"));
}

bool nc_kube_is_refusal(const struct nc_kube_status *s) {
    return (s->http == 403 || s->http == 404 || s->http == 422) && !nc_kube_is_about_uid(s);
}

long long nc_kube_ahead_sec(const struct nc_kube_status *s) {
    return s->date_usec && s->received_usec
               ? ((long long)s->received_usec - (long long)s->date_usec) / 1000000
               : 0;
}

char *nc_kube_clock_text(const struct nc_kube_status *s) {
    const long long ahead = nc_kube_ahead_sec(s);

    return nc_asprintf("the clock of this machine is %lld s %s the API server's: %s", llabs(ahead),
                       ahead > 0 ? "ahead of" : "behind", NC_KUBE_SET_CLOCK);
}

/* nodes "NAME" is forbidden: User "system:node:NAME" cannot … */
static bool is_own_node(const char *message) {
    static const char as_node[] = "User \"system:node:";
    const char *node = strchr(message, '"'), *user = strstr(message, as_node);

    return node && user
           && strncmp(node + 1, user + strlen(as_node), strcspn(node + 1, "\"") + 1) == 0;
}

int nc_kube_refused(const struct nc_kube_status *s, const char *what, struct nc_err *err) {
    nc_auto_free char *clock = nc_kube_clock_text(s);
    const char *message = nc_streq(s->message, s->reason) ? "" : s->message;
    const int r = nc_err_set(err, class_of(s->http), s->http, "%s: HTTP %d%s%s%s%s", what, s->http,
                             s->reason[0] ? " " : "", s->reason, *message ? ": " : "", message);

    /* A token of another time is refused like one of a role that nobody has mapped. */
    if (s->http == 401 && llabs(nc_kube_ahead_sec(s)) >= NC_KUBE_SKEW_REFUSED_SEC)
        nc_err_remedy(err, "%s; then check the role's mapping", clock);
    else if (s->http == 401)
        nc_err_remedy(err,
                      "the API server does not know this credential, or it has expired: check "
                      "the cluster's name and the certificate's end, then let the node's role or "
                      "certificate in (EKS: an access entry of type EC2_LINUX, or aws-auth)%s",
                      s->date_usec ? "" : "; check the clock");
    else if (s->http == 403 && strstr(s->message, "resource \"events\""))
        nc_err_remedy(err, "allow this identity to create and patch events");
    else if (s->http == 403 && is_own_node(s->message))
        nc_err_remedy(err, "the identity is the right one: allow it this request for its own Node "
                           "(RBAC, the node authorizer, or an admission policy)");
    else if (s->http == 403)
        nc_err_remedy(err, "the API server knows this identity but does not allow the request: it "
                           "must be system:node:NAME with the node's name, in group "
                           "system:nodes, and no admission plugin or policy may refuse it");
    else if (s->http >= 500)
        nc_err_remedy(err, "see how the API server is, or what it asks and what stands before it "
                           "(etcd, a webhook, a proxy); it is tried again");
    return r;
}

void nc_kube_advise(const struct nc_kube *k, const struct nc_kube_status *s, struct nc_err *err) {
    const char *remedy = nc_is_denied_by_admission(s->message)
                             ? "a webhook or policy denies it: exempt this client there"
                         : s->http == 401                            ? k->role->remedies[0]
                         : s->http == 403                            ? k->role->remedies[1]
                         : s->http == 0 && err->class == NC_ERR_AUTH ? k->role->remedies[2]
                                                                     : NULL;

    if (remedy)
        nc_err_remedy(err, "%s", remedy);
}

/* Where an answer is no Status (priority and fairness), its first line is all there is to say; that
 * of a proxy's page is for nobody. */
static void read_refusal(const struct nc_http_result *r, struct nc_kube_status *ret) {
    struct nc_value *object = NULL;

    if (nc_json_parse(r->body ? r->body : "", r->n, &object, NULL) < 0
        || !nc_kube_status_read(object, ret)) {
        const size_t n = r->body && r->n > 0 && *r->body != '<' ? r->n : 0;
        const char *end = n > 0 ? memchr(r->body, '\n', n) : NULL;
        nc_kube_printable(ret->message, sizeof(ret->message), n > 0 ? r->body : "",
                          end ? (size_t)(end - r->body) : n);
    }
    nc_value_free(object);
}

static int parse_object(const struct nc_http_result *r, const char *what, struct nc_value **ret,
                        struct nc_err *err) {
    struct nc_value *object = NULL;
    int e;

    if (r->n == 0)
        return nc_err_protocol(err, "%s: HTTP %d: the answer is empty", what, r->status);
    e = nc_json_parse(r->body, r->n, &object, err);
    if (e < 0) {
        if (err)
            err->class = NC_ERR_PROTOCOL;
        nc_err_wrap(err, "%s: HTTP %d", what, r->status);
        return e;
    }
    if (object->type != NC_VALUE_MAP) {
        nc_value_free(object);
        return nc_err_protocol(err, "%s: HTTP %d: the answer is JSON but no object", what,
                               r->status);
    }
    *ret = object;
    return 0;
}

/* What the connection to an API server needs, where that has failed. */
static void advise(const struct nc_http_result *r, struct nc_err *err) {
    static const char network[] = "the subnet's route table, security groups and network ACLs",
                      server[] = "the API server's endpoint and its health";
    /* Without a route there is none, and the outcome is the same. */
    const bool is_answer = nc_starts_with(r->message, "connection refused");

    switch (r->outcome) {
    case NC_HTTP_UNRESOLVED:
        nc_err_remedy(err,
                      "check the API server's endpoint in the configuration, and the node's DNS "
                      "(a private endpoint resolves only inside its VPC)");
        break;
    case NC_HTTP_REFUSED:
    case NC_HTTP_TIMEOUT:
        nc_err_remedy(err, "check %s, then %s", is_answer ? server : network,
                      is_answer ? network : server);
        break;
    case NC_HTTP_TLS:
        nc_err_remedy(err,
                      "check that the certificate authority in the configuration is this "
                      "cluster's (NodeConfig: spec.cluster.certificateAuthority)%s",
                      strstr(r->message, "expired") || strstr(r->message, "not yet valid")
                          ? ", and the clock of the node"
                          : "");
        break;
    case NC_HTTP_LOCAL:
        if (strstr(r->message, "certificate") || strstr(r->message, "private key"))
            nc_err_remedy(err, "check that the client certificate and its key, which the "
                               "kubeconfig names, can be read and belong together");
        break;
    case NC_HTTP_ANSWERED:
    case NC_HTTP_BROKEN:
    case NC_HTTP_TOO_LARGE:
        break;
    }
}

/* Its first bytes: an object that begins with what every object of the API has. An API server
 * writes the kind first; nobody promises that it does. */
static bool is_object(const char *head) {
    static const char space[] = " \t\r\n";
    static const struct {
        char key[16];
        char begins, from, to; /* the value, and what comes then */
    } first[] = {{"\"kind\"", '"', 'A', 'Z'},
                 {"\"apiVersion\"", '"', 'a', 'z'},
                 {"\"metadata\"", '{', ' ', '~'}};
    const char *at = head + 1;

    if (*head != '{')
        return false;
    at += strspn(at, space);
    for (size_t i = 0; i < NC_ARRAY_SIZE(first); i++) {
        if (!nc_starts_with(at, first[i].key))
            continue;
        const char *value = at + strlen(first[i].key);
        value += strspn(value, space);
        if (*value != ':')
            return false;
        value += 1 + strspn(value + 1, space);
        return *value == first[i].begins && value[1] >= first[i].from && value[1] <= first[i].to;
    }
    return false;
}

int nc_kube_judge_head(const struct nc_http_result *r, const char *what, const char *head,
                       struct nc_kube_status *ret_status, struct nc_err *err) {
    const bool is_success = r->outcome == NC_HTTP_ANSWERED && r->status >= 200 && r->status <= 299;
    struct nc_http_result whole = *r;

    if (is_success) { /* judge the rest of it as if this had been all */
        whole.body = "{}";
        whole.n = 2;
    }
    const int e = nc_kube_judge(&whole, what, NULL, ret_status, err);
    if (e < 0 || is_object(head))
        return e;
    return nc_err_protocol(err, "%s: HTTP %d: invalid answer: not an object", what, r->status);
}

int nc_kube_judge(const struct nc_http_result *r, const char *what, struct nc_value **ret_object,
                  struct nc_kube_status *ret_status, struct nc_err *err) {
    struct nc_value *object = NULL;
    int e;

    memset(ret_status, 0, sizeof(*ret_status));
    if (r->outcome != NC_HTTP_ANSWERED) {
        e = nc_http_error(r, what, err);
        advise(r, err);
        return e;
    }
    ret_status->http = r->status;
    ret_status->retry_after_usec = r->retry_after_usec;
    ret_status->date_usec = r->date_usec;
    ret_status->received_usec = r->received_usec;
    if (r->status < 200 || r->status > 299) {
        read_refusal(r, ret_status);
        return nc_kube_refused(ret_status, what, err);
    }
    e = parse_object(r, what, &object, err);
    if (e < 0)
        return e;
    if (ret_object)
        *ret_object = object;
    else
        nc_value_free(object);
    return 0;
}

int nc_kube_bare(const char *what, const struct nc_kube_status *s, struct nc_err *err) {
    return nc_err_protocol(err, "%s: HTTP %d without an object", what, s->http);
}
