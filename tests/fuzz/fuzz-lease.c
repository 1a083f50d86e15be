/*
 * Leadership: lines of JSON are what the API server answers, one question after the other. The
 * first byte of a line says how much time passes, what the status is, and whether the answer comes.
 * We lead only where an answer named us as the holder, and never longer than a renewal lasts.
 * The whole text is also read as the Leases of Karpenter, and as a discovery list.
 */
#include <stdint.h>

#include "nc/lease.h"
#include "nc/str.h"

#include "karpenter.h"

#define SEC UINT64_C(1000000)
#define ME "me"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void must(bool is_so) {
    if (!is_so)
        abort();
}

static void ask(struct nc_lease *l, uint8_t how, const struct nc_value *object, uint64_t *mono) {
    static const int statuses[] = {200, 201, 404, 409, 0, 500};
    const int status = statuses[how % NC_ARRAY_SIZE(statuses)];
    const bool led = nc_lease_leads(l, *mono);
    const enum nc_lease_verb verb = nc_lease_next(l, *mono);
    const char *holder = nc_value_string(nc_value_path(object, "spec.holderIdentity"));

    if (verb == NC_LEASE_WAIT) {
        must(l->next_usec > *mono);
        *mono = l->next_usec;
        return;
    }
    if (verb != NC_LEASE_GET)
        nc_value_free(nc_lease_body(l, "ns", "name", how & 0x80, 1767323045000000));
    *mono += (how >> 4 & 7) * SEC;
    nc_lease_answer(l, verb, object, status, *mono);
    if (nc_lease_leads(l, *mono))
        must(led || (verb != NC_LEASE_GET && status / 100 == 2 && nc_streq(holder, ME)));
    must(!nc_lease_leads(l, nc_lease_until(l)));
    must(strnlen(l->holder, sizeof(l->holder)) < sizeof(l->holder));
}

static void scan_for_karpenter(const char *data, size_t n) {
    nc_auto_value struct nc_value *list = NULL;
    struct nc_karpenter_seen seen = {0};

    if (nc_json_parse(data, n, &list, NULL) < 0)
        return;
    for (uint64_t mono = SEC; mono < 400 * SEC; mono += 90 * SEC) {
        const enum nc_control_mode mode =
            nc_karpenter_judge(&seen, list, 1767323045000000 + mono, mono);
        must(mode == NC_CONTROL_KARPENTER || mode == NC_CONTROL_STANDALONE
             || mode == NC_CONTROL_MODE_UNKNOWN);
        must(nc_is_text(seen.holder, strnlen(seen.holder, sizeof(seen.holder) - 1)));
    }
}

/* What is served stands there, as the name of a resource: nothing else makes it so. */
static void check_kinds(const char *data, size_t n) {
    static const char *const kinds[] = {"nodeclaims", "nodepools", "ec2nodeclasses", "nodeclasses"};
    nc_auto_value struct nc_value *list = NULL;
    nc_cleanup(nc_buf_done) struct nc_buf text = NC_BUF_INIT;

    if (nc_json_parse(data, n, &list, NULL) < 0)
        return;
    nc_json_write(&text, list, 0);
    for (size_t i = 0; i < NC_ARRAY_SIZE(kinds); i++) {
        nc_auto_free char *name = nc_asprintf("\"name\":\"%s\"", kinds[i]);
        if (nc_karpenter_serves(list, kinds[i]))
            must(strstr(text.data, "\"resources\":[") && strstr(text.data, name));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    const struct nc_lease_rules rules = {ME, NC_LEASE_DURATION_USEC, NC_LEASE_RENEW_USEC,
                                         NC_LEASE_RETRY_USEC};
    const char *at = (const char *)data, *end = at + n;
    uint64_t mono = 1000 * SEC;
    struct nc_lease l;

    nc_lease_init(&l, &rules);
    for (unsigned i = 0; at < end && i < 64; i++) {
        const char *lf = memchr(at, '\n', (size_t)(end - at));
        const char *stop = lf ? lf : end;
        nc_auto_value struct nc_value *object = NULL;
        if (stop > at) {
            (void)nc_json_parse(at + 1, (size_t)(stop - at) - 1, &object, NULL);
            ask(&l, (uint8_t)*at, object, &mono);
        }
        at = stop + 1;
    }
    scan_for_karpenter((const char *)data, n);
    check_kinds((const char *)data, n);
    return 0;
}
