/*
 * What the API server's answer to an eviction, a mark or a deletion means
 * (pkg/registry/core/pod/storage/eviction.go), and which budget it names.
 *
 * Pure; the texts are hostile: they are read up to a bound and shown quoted.
 */
#include <stdio.h>
#include <string.h>

#include "nc/pod.h"
#include "nc/str.h"

#define MAX_MESSAGE_BYTES 4096
#define MAX_BUDGET_BYTES 253

#define BUDGET_TEXT "The disruption budget "
#define BUDGETS_TEXT "more than one PodDisruptionBudget"

/* Evictions below one budget all write its status. After 20 conflicts, 500 ms apart, the API server
 * passes the last one on (EvictionsRetry, RetryOnConflict): a 409 that reports nothing of the pod.
 */
static bool is_other_uid(const char *message) {
    return strstr(message, "the UID in the precondition") || strstr(message, "UID in precondition");
}

/* Priority and fairness answers with plain text and Retry-After, a proxy before the API server with
 * its words in a Status; whoever else says that there are too many requests means this one. */
static enum nc_pod_answer_kind kind_of_too_many(const struct nc_pod_response *r,
                                                const char *message) {
    if (nc_streq(r->cause, "DisruptionBudget"))
        return NC_ANSWER_BUDGET;
    return r->retry_after_usec || !r->reason || !*r->reason || strstr(message, "Too many requests")
               ? NC_ANSWER_BUSY
               : NC_ANSWER_REFUSED;
}

static enum nc_pod_answer_kind kind_of(const struct nc_pod_response *r, const char *message) {
    const int http = r->http;

    if (http >= 200 && http <= 299)
        return NC_ANSWER_ACCEPTED;
    if (http >= 400 && nc_is_denied_by_admission(message))
        return NC_ANSWER_REFUSED;
    if (http == 404) /* a proxy's page reports nothing of the pod */
        return nc_streq(r->reason, "NotFound") ? NC_ANSWER_GONE : NC_ANSWER_FAILED;
    if (http == 409)
        return is_other_uid(message) ? NC_ANSWER_GONE : NC_ANSWER_BUSY;
    if (http == 429)
        return kind_of_too_many(r, message);
    if (http == 500 && *message) /* else it is a proxy's page */
        return strstr(message, BUDGETS_TEXT) ? NC_ANSWER_BUDGETS : NC_ANSWER_FAILED;
    if (http == 403 && nc_streq(r->cause, "NamespaceTerminating"))
        return NC_ANSWER_NAMESPACE;
    if (http >= 400 && http <= 499 && http != 401 && http != 408)
        return NC_ANSWER_REFUSED;
    return NC_ANSWER_UNAVAILABLE;
}

static bool is_name_char(char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.';
}

/* Copies n bytes, or as many complete characters as there is room for and then "…". */
static void copy_cut(char *to, size_t size, const char *from, size_t n) {
    static const char more[] = "…";

    if (n < size) {
        memcpy(to, from, n);
        to[n] = '\0';
        return;
    }
    n = size - sizeof(more);
    while (n > 0 && ((unsigned char)from[n] & 0xc0) == 0x80)
        n--;
    memcpy(to, from, n);
    memcpy(to + n, more, sizeof(more));
}

/* "The disruption budget X needs N healthy pods and has M currently", or "… X is still being
 * processed by the server". Returns the sentence, NULL where there is none. */
static const char *read_budget(const char *message, char *ret, size_t size) {
    const char *sentence = strstr(message, BUDGET_TEXT);
    const char *name = sentence ? sentence + strlen(BUDGET_TEXT) : "";
    size_t n = 0;

    while (n <= MAX_BUDGET_BYTES && is_name_char(name[n]))
        n++;
    if (n == 0 || n > MAX_BUDGET_BYTES
        || (!nc_starts_with(name + n, " needs ") && !nc_starts_with(name + n, " is still ")))
        return NULL;
    copy_cut(ret, size, name, n);
    return sentence;
}

static void set_message(struct nc_pod_answer *ret, const char *text) {
    nc_auto_free char *quoted = nc_quote_most(text, strlen(text), sizeof(ret->message));

    copy_cut(ret->message, sizeof(ret->message), quoted, strlen(quoted));
}

void nc_pod_answer_read(const struct nc_pod_response *r, struct nc_pod_answer *ret) {
    nc_auto_free char *text =
        r->message ? nc_strndup(r->message, strnlen(r->message, MAX_MESSAGE_BYTES)) : nc_strdup("");
    const char *sentence = NULL;

    *ret =
        (struct nc_pod_answer){.kind = kind_of(r, text), .retry_after_usec = r->retry_after_usec};
    if (ret->kind == NC_ANSWER_ACCEPTED)
        return;
    /* User "X" cannot create resource "pods/eviction" in API group "" … */
    ret->is_unauthorized = ret->kind == NC_ANSWER_REFUSED && r->http == 403
                           && !nc_is_denied_by_admission(text) && strstr(text, "\" cannot ");
    if (ret->kind == NC_ANSWER_BUDGET)
        sentence = read_budget(text, ret->budget, sizeof(ret->budget));
    if (sentence)
        set_message(ret, sentence);
    else if (*text)
        set_message(ret, text);
    else if (r->reason && *r->reason)
        set_message(ret, r->reason);
    else if (r->http)
        (void)snprintf(ret->message, sizeof(ret->message), "HTTP %d", r->http);
    else
        nc_copy_text(ret->message, sizeof(ret->message), "no answer");
}

const char *nc_pod_answer_name(enum nc_pod_answer_kind k) {
    static const char names[_NC_ANSWER_MAX][12] = {
        [NC_ANSWER_ACCEPTED] = "accepted", [NC_ANSWER_GONE] = "gone",
        [NC_ANSWER_BUDGET] = "budget",     [NC_ANSWER_BUDGETS] = "budgets",
        [NC_ANSWER_BUSY] = "busy",         [NC_ANSWER_NAMESPACE] = "namespace",
        [NC_ANSWER_REFUSED] = "refused",   [NC_ANSWER_FAILED] = "failed",
        [NC_ANSWER_UNAVAILABLE] = "away",  [NC_ANSWER_UNSENT] = "unsent",
    };

    return (unsigned)k < _NC_ANSWER_MAX && *names[k] ? names[k] : "unknown";
}
