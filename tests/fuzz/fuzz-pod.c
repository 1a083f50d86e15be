/*
 * A pod object, and the same bytes as an answer about a pod: whatever they hold, names stay names,
 * texts fit, and what is known adds up.
 */
#include <stdint.h>

#include "nc/drain.h"
#include "nc/fit.h"
#include "nc/str.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void check_name(const char *s) {
    if (!s || !*s || strlen(s) > 253 || strpbrk(s, "/%?# \n") || nc_streq(s, "..")
        || !nc_is_text(s, strlen(s)))
        abort();
}

static void check_pod(const struct nc_pod *p) {
    check_name(p->namespace);
    check_name(p->name);
    check_name(p->uid);
    if ((unsigned)p->tier >= _NC_TIER_MAX || p->claims.n > 256 || p->grace_sec > INT64_MAX
        || (p->is_shutdown_left && !p->is_terminal) || (p->is_job && !p->controller)
        || (p->tier == NC_TIER_LAST) != (p->order == NC_POD_ORDER_LAST)
        || (p->order == NC_POD_ORDER_FIRST && p->tier != NC_TIER_PLAIN)
        || ((p->order == NC_POD_ORDER_NONE || p->order == NC_POD_ORDER_UNKNOWN)
            && p->is_daemon
                   != (p->tier == NC_TIER_PLAIN_DAEMON || p->tier == NC_TIER_CRITICAL_DAEMON)))
        abort();
    for (int i = 0; i < 16; i++) {
        const struct nc_drain_rules r = {.has_disrupted_taint = i & 1,
                                         .karpenter_drains = i & 2,
                                         .tolerating_last = i & 4,
                                         .cordoned_usec = i & 8 ? p->created_usec : 0};
        if ((unsigned)nc_pod_excluded(p, &r, p->keep_until_usec) >= _NC_POD_REASON_EXCLUDED_MAX
            || (unsigned)nc_pod_turn(p, &r) >= _NC_TIER_MAX)
            abort();
    }
    if (nc_pod_is_kept(p, UINT64_MAX) != p->never_disrupt)
        abort();
}

/* Which answer it is follows from the length. */
static void check_answer(const char *text, size_t n) {
    static const int statuses[] = {0, 200, 403, 404, 429, 500};
    static const char *const causes[] = {NULL, "DisruptionBudget", "NamespaceTerminating"};
    struct nc_pod_answer a;
    const size_t i = n % (NC_ARRAY_SIZE(statuses) * NC_ARRAY_SIZE(causes));

    nc_pod_answer_read(&(struct nc_pod_response){statuses[i / 3], text, causes[i % 3], text, i},
                       &a);
    if (a.kind < NC_ANSWER_ACCEPTED || a.kind >= _NC_ANSWER_MAX
        || strnlen(a.message, sizeof(a.message)) == sizeof(a.message)
        || strnlen(a.budget, sizeof(a.budget)) == sizeof(a.budget)
        || !nc_is_text(a.message, strlen(a.message)) || !nc_is_text(a.budget, strlen(a.budget))
        || (a.budget[0] && a.kind != NC_ANSWER_BUDGET)
        || (a.kind == NC_ANSWER_ACCEPTED) != (a.message[0] == '\0'))
        abort();
}

/* The same object as a pod, a Node and a CSINode of the startup gate: one that is fit lacks
 * nothing, and one whose kubelet has not reported this boot is never fit. */
static void check_fit(const struct nc_value *object) {
    char name[] = "a", *names[] = {name, NULL};
    struct nc_fit_settings settings = {.is_set = true};
    const struct nc_fit_boot boot = {.id = "b", .began_usec = 1};
    struct nc_fit_seen seen = {.has_pods = true};
    struct nc_fit_verdict v;

    for (size_t i = 0; i < _NC_FIT_KIND_MAX; i++)
        settings.wanted[i] = (struct nc_strv){names, 1};
    nc_fit_see_pod(&seen, &settings, object, &boot, 1);
    nc_fit_see_node(&seen, &settings, object, &boot);
    nc_fit_see_csi(&seen, object);
    nc_fit_judge(&settings, &seen, &(struct nc_fit_moment){.since_usec = 1, .now_usec = 2}, &v);
    if (!v.message || (v.is_fit && (v.missing.n > 0 || !seen.is_reported)))
        abort();
    nc_fit_verdict_done(&v);
    nc_fit_seen_done(&seen);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    nc_auto_free char *text = nc_strndup((const char *)data, n);
    nc_auto_value struct nc_value *object = NULL;
    struct nc_pod pod = {0};

    check_answer(text, n);
    if (nc_json_parse((const char *)data, n, &object, NULL) < 0)
        return 0;
    check_fit(object);
    if (nc_pod_read(object, &pod, NULL) >= 0)
        check_pod(&pod);
    else if (pod.uid)
        abort();
    nc_pod_done(&pod);
    return 0;
}
