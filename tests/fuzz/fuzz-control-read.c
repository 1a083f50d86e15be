/*
 * Objects as the controller reads them: the first byte says of which kind they are and who else is
 * there. Twice the same text changes nothing; what people are shown of it is bounded printable
 * text. The same text is read as a drain-status, as a report that `status` was given, and as
 * what replacement first reads.
 */
#include <stdint.h>

#include "nc/control.h"
#include "nc/replacement.h"
#include "nc/standalone.h"
#include "nc/str.h"

#include "parse.h"

#define NOW_USEC UINT64_C(1767323045000000)
#define SHOWN_MAX_BYTES ((size_t)1 << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void must(bool is_so) {
    if (!is_so)
        abort();
}

static void step(struct nc_control *c, struct nc_control_event e) {
    struct nc_control_actions out = {0};

    e.now_usec = NOW_USEC;
    nc_control_step(c, &e, &out);
    for (size_t i = 0; i < out.n; i++)
        must(out.v[i].name && out.v[i].uid && nc_is_text(out.v[i].name, strlen(out.v[i].name)));
    nc_control_actions_done(&out);
    must(nc_control_next(c, NOW_USEC) >= NOW_USEC);
}

static void check_shown(const struct nc_value *report) {
    nc_cleanup(nc_buf_done) struct nc_buf out = NC_BUF_INIT;

    nc_control_text(report, 80, &out);
    must(out.len > 0 && out.len <= SHOWN_MAX_BYTES && out.data[out.len - 1] == '\n');
    for (size_t i = 0; i < out.len; i++)
        must((out.data[i] >= ' ' && out.data[i] <= '~') || out.data[i] == '\n');
}

static void see(uint8_t how, const struct nc_value *object) {
    const enum nc_control_kind kind = (enum nc_control_kind)(how % _NC_CONTROL_KIND_MAX);
    const struct nc_control_rules rules = {.margin_usec = 15000000,
                                           .order = NC_CONTROL_BOTH,
                                           .max_in_flight = 4,
                                           .terminates = true,
                                           .completes_actions = true,
                                           .out_of_service = how & 0x80};
    struct nc_control *c = nc_control_new(&nc_standalone);
    nc_auto_value struct nc_value *report = NULL;
    nc_cleanup(nc_buf_done) struct nc_buf metrics = NC_BUF_INIT;
    struct nc_control_counts once, twice;

    step(c, (struct nc_control_event){.kind = NC_CONTROL_RULES, .rules = &rules});
    step(c, (struct nc_control_event){.kind = NC_CONTROL_MODE,
                                      .mode = how & 0x40 ? NC_CONTROL_KARPENTER
                                                         : NC_CONTROL_STANDALONE});
    step(c, (struct nc_control_event){.kind = NC_CONTROL_LEAD, .leads = true});
    step(c, (struct nc_control_event){.kind = NC_CONTROL_SEEN, .what = kind, .object = object});
    nc_control_count(c, NOW_USEC, &once);
    step(c, (struct nc_control_event){.kind = NC_CONTROL_SEEN, .what = kind, .object = object});
    nc_control_count(c, NOW_USEC, &twice);
    must(once.objects[kind] == twice.objects[kind] && once.objects[kind] <= 1);
    must(once.objects[kind] + once.unreadable[kind] >= 1);
    for (int k = 0; k < _NC_CONTROL_KIND_MAX; k++)
        step(c,
             (struct nc_control_event){.kind = NC_CONTROL_SYNCED, .what = (enum nc_control_kind)k});
    report = nc_control_report(c, NOW_USEC);
    check_shown(report);
    nc_control_metrics(c, NOW_USEC, &metrics);
    must(metrics.len > 0 && nc_is_text(metrics.data, metrics.len));
    nc_control_free(c);
}

static void check_status(const char *text) {
    struct control_drain_status *w = nc_control_drain_status_read(text);

    if (!w)
        return;
    must(strlen(text) <= CONTROL_DRAIN_STATUS_MAX && w->phase < _CONTROL_PHASE_MAX);
    must(strnlen(w->id, sizeof(w->id)) < sizeof(w->id) && nc_is_text(w->id, strlen(w->id)));
    must(!w->blocked || nc_is_text(w->blocked, strlen(w->blocked)));
    must(w->total >= -1 && w->remaining >= -1);
    nc_control_drain_status_free(w);
}

static void check_provider_id(const char *text) {
    struct nc_control_instance i = {0};

    if (nc_control_parse_provider_id(text, &i) < 0)
        return;
    must(nc_is_made_of(i.region, NC_LOWER NC_DIGITS "-", sizeof(i.region) - 1));
    must(nc_is_made_of(i.id, NC_LOWER NC_DIGITS "-", sizeof(i.id) - 1));
}

/* The same as a pod, as a ReplicaSet and as a Deployment. */
static void check_replacement(const struct nc_value *object) {
    const char *uid = nc_value_string(nc_value_path(object, "metadata.uid"));
    const struct nc_replacement_case judged = {object, uid ? uid : "u", NOW_USEC - 1, NOW_USEC};
    nc_auto_value struct nc_value *patch = NULL;
    struct nc_replacement_owner owner = {0};
    struct nc_replaced_pod pod = {0};
    const char *why = NULL;

    if (nc_replacement_read_pod(object, "web", &pod))
        must(pod.name && pod.uid && !pod.set == !pod.set_uid && !strchr(pod.name, '/')
             && !(pod.set && strchr(pod.set, '/')));
    nc_replaced_pod_done(&pod);
    if (nc_replacement_read_owner(object, uid ? uid : "u", &owner))
        must(owner.name && owner.uid && !strchr(owner.name, '/'));
    nc_replacement_owner_done(&owner);
    must((nc_replacement_judge(&judged, &why, &patch) == NC_REPLACEMENT_RESTART)
         == (patch != NULL));
    must(!patch || !why);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    nc_auto_value struct nc_value *object = NULL;
    nc_auto_free char *text = NULL;

    if (n == 0)
        return 0;
    text = nc_strndup((const char *)data + 1, n - 1);
    check_status(text);
    check_provider_id(text);
    if (nc_json_parse((const char *)data + 1, n - 1, &object, NULL) < 0)
        return 0;
    check_shown(object);
    check_replacement(object);
    see(data[0], object);
    return 0;
}
