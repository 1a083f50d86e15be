/*
 * Leadership by a Lease: when to read it, when to take it, when it is ours no more.
 *
 * Knows client-go's rules (tools/leaderelection, v0.35: tryAcquireOrRenew) and the form of a Lease.
 * Two things are stricter than there: leading counts from when the renewal was requested, and ends
 * at once where somebody else is seen as the holder. Must not trust a clock but our own.
 */
#include "nc/lease.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "nc/str.h"
#include "nc/time.h"

#define USEC_PER_SEC ((uint64_t)1000000)

void nc_lease_init(struct nc_lease *l, const struct nc_lease_rules *r) {
    *l = (struct nc_lease){.rules = *r};
}

uint64_t nc_lease_until(const struct nc_lease *l) {
    return l->leads ? l->renewed_usec + l->rules.renew_usec : UINT64_MAX;
}

bool nc_lease_leads(const struct nc_lease *l, uint64_t mono_usec) {
    return l->leads && mono_usec < nc_lease_until(l);
}

static bool is_ours(const struct nc_lease *l) {
    return l->exists && nc_streq(l->holder, l->rules.identity);
}

/* Nobody has it, we have it, or whoever has it has not responded for as long as it said. */
static bool may_acquire(const struct nc_lease *l, uint64_t mono_usec) {
    return !l->exists || l->holder[0] == '\0' || is_ours(l)
           || mono_usec - l->observed_usec >= l->holder_duration_usec;
}

static enum nc_lease_verb choose(const struct nc_lease *l, uint64_t mono_usec) {
    if (!l->was_read)
        return NC_LEASE_GET;
    if (!may_acquire(l, mono_usec))
        return NC_LEASE_GET;
    return l->exists ? NC_LEASE_UPDATE : NC_LEASE_CREATE;
}

enum nc_lease_verb nc_lease_next(struct nc_lease *l, uint64_t mono_usec) {
    if (l->leads && !nc_lease_leads(l, mono_usec)) {
        l->leads = false;
        l->was_read = false;
    }
    if (l->requested != NC_LEASE_WAIT || mono_usec < l->next_usec)
        return NC_LEASE_WAIT;
    l->requested = choose(l, mono_usec);
    l->asked_usec = mono_usec;
    return l->requested;
}

/* "2026-01-02T03:04:05.000006Z" */
static void format_micro_time(uint64_t usec, char ret[static 40]) {
    char text[32];

    nc_time_format(usec, text);
    (void)snprintf(ret, 40, "%.19s.%06" PRIu64 "Z", text, usec % USEC_PER_SEC);
}

static struct nc_value *body_spec(const struct nc_lease *l, bool release, uint64_t now_usec) {
    const bool keeps = is_ours(l) && !release;
    int64_t transitions = l->exists ? l->transitions : 0;
    struct nc_value *spec = nc_value_new_map();
    char now[40];

    format_micro_time(now_usec, now);
    if (l->exists && !is_ours(l) && transitions < INT32_MAX)
        transitions++;
    nc_value_set_string(spec, "holderIdentity", release ? "" : l->rules.identity);
    nc_value_set_int(spec, "leaseDurationSeconds",
                     release ? 1 : (int64_t)(l->rules.duration_usec / USEC_PER_SEC));
    nc_value_set_string(spec, "acquireTime", keeps && l->acquire_time[0] ? l->acquire_time : now);
    nc_value_set_string(spec, "renewTime", now);
    nc_value_set_int(spec, "leaseTransitions", transitions);
    return spec;
}

struct nc_value *nc_lease_body(const struct nc_lease *l, const char *namespace, const char *name,
                               bool release, uint64_t now_usec) {
    struct nc_value *body = nc_value_new_map();
    struct nc_value *metadata = nc_value_new_map();

    nc_value_set_string(metadata, "name", name);
    nc_value_set_string(metadata, "namespace", namespace);
    if (l->exists)
        nc_value_set_string(metadata, "resourceVersion", l->resource_version);
    nc_value_set_string(body, "apiVersion", "coordination.k8s.io/v1");
    nc_value_set_string(body, "kind", "Lease");
    nc_value_set(body, "metadata", metadata);
    nc_value_set(body, "spec", body_spec(l, release, now_usec));
    return body;
}

/* What is read of a Lease, before any of it is trusted. */
struct seen {
    const char *holder, *resource_version, *acquire_time, *renew_time;
    int64_t duration_sec, transitions;
};

/* A text that may be absent or null; false where it is of another type or too long. */
static bool parse_lease_string(const struct nc_value *map, const char *key, size_t max,
                               const char **ret) {
    const struct nc_value *v = nc_value_get(map, key);

    *ret = "";
    if (!v || v->type == NC_VALUE_NULL)
        return true;
    if (v->type != NC_VALUE_STRING || strlen(v->text) > max)
        return false;
    *ret = v->text;
    return true;
}

static bool parse_lease_int32(const struct nc_value *map, const char *key, int64_t *ret) {
    const struct nc_value *v = nc_value_get(map, key);

    *ret = 0;
    if (!v || v->type == NC_VALUE_NULL)
        return true;
    if (v->type != NC_VALUE_INT || v->integer < 0 || v->integer > INT32_MAX)
        return false;
    *ret = v->integer;
    return true;
}

static bool read_lease(const struct nc_lease *l, const struct nc_value *object, struct seen *ret) {
    const struct nc_value *kind = nc_value_get(object, "kind");
    const struct nc_value *metadata = nc_value_get(object, "metadata");
    const struct nc_value *spec = nc_value_get(object, "spec");

    if (kind && !nc_streq(nc_value_string(kind), "Lease"))
        return false;
    if (spec && spec->type != NC_VALUE_MAP && spec->type != NC_VALUE_NULL)
        return false;
    return parse_lease_string(metadata, "resourceVersion", sizeof(l->resource_version) - 1,
                              &ret->resource_version)
           && ret->resource_version[0]
           && parse_lease_string(spec, "holderIdentity", sizeof(l->holder) - 1, &ret->holder)
           && parse_lease_string(spec, "acquireTime", sizeof(l->acquire_time) - 1,
                                 &ret->acquire_time)
           && parse_lease_string(spec, "renewTime", sizeof(l->acquire_time) - 1, &ret->renew_time)
           && parse_lease_int32(spec, "leaseDurationSeconds", &ret->duration_sec)
           && parse_lease_int32(spec, "leaseTransitions", &ret->transitions);
}

static void keep(struct nc_lease *l, const struct seen *s, uint64_t mono_usec) {
    char record[sizeof(l->record)];

    (void)snprintf(record, sizeof(record), "%s|%s|%s|%" PRId64 "|%" PRId64, s->acquire_time,
                   s->renew_time, s->holder, s->duration_sec, s->transitions);
    if (!l->exists || strcmp(record, l->record) != 0)
        l->observed_usec = mono_usec;
    memcpy(l->record, record, sizeof(record));
    nc_copy_text(l->holder, sizeof(l->holder), s->holder);
    nc_copy_text(l->resource_version, sizeof(l->resource_version), s->resource_version);
    nc_copy_text(l->acquire_time, sizeof(l->acquire_time), s->acquire_time);
    l->holder_duration_usec = (uint64_t)s->duration_sec * USEC_PER_SEC;
    l->transitions = s->transitions;
    l->exists = l->was_read = true;
    if (!is_ours(l))
        l->leads = false;
}

static void forget(struct nc_lease *l) {
    l->exists = false;
    l->holder[0] = l->record[0] = l->resource_version[0] = l->acquire_time[0] = '\0';
    l->transitions = 0;
    l->was_read = true;
}

/* An attempt has ended without success: the next one begins after the pause. */
static void pause_then(struct nc_lease *l, uint64_t mono_usec) {
    l->was_read = false;
    l->has_failed = false;
    l->next_usec = mono_usec + l->rules.retry_usec;
}

/* Read: what may be taken is taken at once, unless that has just failed. */
static void go_on(struct nc_lease *l, uint64_t mono_usec) {
    if (may_acquire(l, mono_usec))
        l->next_usec = mono_usec;
    else
        pause_then(l, mono_usec);
}

static void answer_write(struct nc_lease *l, const struct seen *s, uint64_t mono_usec) {
    const bool is_first_failure = l->leads && !l->has_failed;

    if (s && nc_streq(s->holder, l->rules.identity)) {
        keep(l, s, mono_usec);
        l->leads = true;
        l->has_failed = false;
        l->renewed_usec = l->asked_usec;
        l->next_usec = mono_usec + l->rules.retry_usec;
        return;
    }
    pause_then(l, mono_usec);
    if (is_first_failure) { /* what we know of it is old: look, and try once more */
        l->has_failed = true;
        l->next_usec = mono_usec;
    }
}

void nc_lease_answer(struct nc_lease *l, enum nc_lease_verb requested,
                     const struct nc_value *object, int http_status, uint64_t mono_usec) {
    struct seen s = {0};
    const bool is_good =
        object && http_status >= 200 && http_status < 300 && read_lease(l, object, &s);

    if (requested == NC_LEASE_WAIT || requested != l->requested)
        return; /* nothing that we wait for */
    l->requested = NC_LEASE_WAIT;
    if (requested != NC_LEASE_GET) {
        answer_write(l, is_good ? &s : NULL, mono_usec);
    } else if (is_good) {
        keep(l, &s, mono_usec);
        go_on(l, mono_usec);
    } else if (http_status == 404) {
        forget(l);
        go_on(l, mono_usec);
    } else {
        pause_then(l, mono_usec);
    }
}
