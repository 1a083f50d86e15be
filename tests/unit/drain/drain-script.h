/*
 * A drain told as a script, and what it did as a trace: one command a line, times in seconds.
 *
 *   rules t=100 max=2 replaced=S watch taint karpenter all-last cordon=S
 *                                in force from now on; nothing given: no deadline
 *   see NAME tier=1 grace=30 …   a pod; never, keep=S, del=END/GRACE, daemon, mirror, ended,
 *                                tolerates, waits, first, last, odd (an unknown order), created=S,
 *                                of=UID (its controller), finalizer
 *   gone NAME                    the watch says so
 *   at S                         the clock; what is due is done: "S: evict a, delete b 30"
 *   answer VERB NAME KIND        of the last question of this kind; retry=S and budget=NAME too
 *   next                         "next S" or "next never"
 *   sum                          the counts that are not 0
 *   lines                        what nc_drain_lines says
 *   why                          the verdicts: "NAME REASON: VERB S", without S where it is due
 *   tried                        each pod was evicted, and nobody answered
 *   restart
 *   listed                       all pods were seen
 */
#ifndef NC_DRAIN_SCRIPT_H
#define NC_DRAIN_SCRIPT_H

#include "base-test.h"

#include <inttypes.h>

#include "nc/backoff.h"
#include "nc/drain.h"
#include "nc/mem.h"

#define SCRIPT_EPOCH_USEC (1000000ull * 1000000) /* second 0 of a script */

struct script {
    struct nc_drain *drain;
    struct nc_drain_rules rules;
    uint64_t now_usec;
    struct nc_buf trace;
};

static uint64_t script_time(const char *s) {
    const double sec = strtod(s, NULL);

    return SCRIPT_EPOCH_USEC + (uint64_t)(int64_t)(sec * 1e6 + (sec < 0 ? -0.5 : 0.5));
}

/* "12" or "-12.25", as scripts write it. */
static void script_put_time(struct nc_buf *b, uint64_t usec) {
    const bool is_before = usec < SCRIPT_EPOCH_USEC;
    const uint64_t since = is_before ? SCRIPT_EPOCH_USEC - usec : usec - SCRIPT_EPOCH_USEC;
    char text[32];
    size_t n = (size_t)snprintf(text, sizeof(text), "%" PRIu64 ".%06" PRIu64, since / 1000000,
                                since % 1000000);

    while (text[n - 1] == '0')
        text[--n] = '\0';
    if (text[n - 1] == '.')
        text[--n] = '\0';
    (void)nc_buf_printf(b, "%s%s", is_before ? "-" : "", text);
}

/* The value of "key=value" among the words, NULL where it is not there; "" for a bare "key". */
static const char *script_status(char *const *words, const char *key) {
    const size_t n = strlen(key);

    for (; *words; words++)
        if (strncmp(*words, key, n) == 0 && ((*words)[n] == '=' || (*words)[n] == '\0'))
            return *words + n + ((*words)[n] == '=');
    return NULL;
}

static uint64_t script_number(char *const *words, const char *key, uint64_t unset) {
    const char *s = script_status(words, key);

    return s ? strtoull(s, NULL, 10) : unset;
}

static struct nc_pod script_pod(const char *name, char *const *words) {
    const char *keep = script_status(words, "keep"), *del = script_status(words, "del");
    const char *slash = del ? strchr(del, '/') : NULL;
    const bool is_last = script_status(words, "last"), is_first = script_status(words, "first");
    const enum nc_tier tier = is_last    ? NC_TIER_LAST
                              : is_first ? NC_TIER_PLAIN
                                         : (enum nc_tier)script_number(words, "tier", 0);

    return (struct nc_pod){
        .namespace = nc_strdup(script_status(words, "ns") ? script_status(words, "ns") : "ns"),
        .name = nc_strdup(name),
        .uid = nc_asprintf("uid-%s", name),
        .tier = tier,
        .order = is_last                       ? NC_POD_ORDER_LAST
                 : is_first                    ? NC_POD_ORDER_FIRST
                 : script_status(words, "odd") ? NC_POD_ORDER_UNKNOWN
                                               : NC_POD_ORDER_NONE,
        .created_usec =
            script_status(words, "created") ? script_time(script_status(words, "created")) : 1,
        .grace_sec = script_number(words, "grace", 30),
        .never_disrupt = script_status(words, "never") != NULL,
        .keep_until_usec = keep ? script_time(keep) : 0,
        .deletion_usec = del ? script_time(del) : 0,
        .deletion_grace_sec = slash ? strtoull(slash + 1, NULL, 10) : 0,
        .is_replacement_first = script_status(words, "waits") != NULL,
        .is_daemon = script_status(words, "daemon") != NULL,
        .is_mirror = script_status(words, "mirror") != NULL,
        .has_finalizer = script_status(words, "finalizer") != NULL,
        .is_terminal = script_status(words, "ended") != NULL,
        .tolerates_disrupted = script_status(words, "tolerates") != NULL,
        .tolerates_cordon = script_status(words, "tolerates") != NULL,
        .controller = script_status(words, "of") ? nc_backoff_seed(script_status(words, "of")) : 0,
    };
}

static void script_step(struct script *s) {
    struct nc_drain_action actions[3]; /* small, so that scripts call again */
    const char *comma = "";
    size_t n;

    script_put_time(&s->trace, s->now_usec);
    (void)nc_buf_puts(&s->trace, ":");
    do {
        n = nc_drain_step(s->drain, &s->rules, s->now_usec, actions, NC_ARRAY_SIZE(actions));
        for (size_t i = 0; i < n; i++) {
            (void)nc_buf_printf(&s->trace, "%s %s %s", comma, nc_drain_verb_name(actions[i].verb),
                                actions[i].pod->name);
            if (actions[i].attempt > 1)
                (void)nc_buf_printf(&s->trace, "#%u", actions[i].attempt);
            if (actions[i].verb == NC_DRAIN_DELETE || actions[i].grace_sec)
                (void)nc_buf_printf(&s->trace, " %" PRIu64, actions[i].grace_sec);
            comma = ",";
        }
    } while (n == NC_ARRAY_SIZE(actions));
    (void)nc_buf_puts(&s->trace, "\n");
    assert_true(nc_drain_next(s->drain, &s->rules, s->now_usec) > s->now_usec);
}

static void script_answer(struct script *s, char *const *words) {
    struct nc_pod_answer a = {.retry_after_usec = script_number(words, "retry", 0) * 1000000};
    const char *budget = script_status(words + 3, "budget");
    nc_auto_free char *uid = nc_asprintf("uid-%s", words[1]);
    enum nc_drain_verb verb = NC_DRAIN_EVICT;

    while (strcmp(nc_drain_verb_name(verb), words[0]) != 0)
        verb++;
    for (a.kind = NC_ANSWER_ACCEPTED; strcmp(nc_pod_answer_name(a.kind), words[2]) != 0;)
        a.kind++;
    (void)snprintf(a.budget, sizeof(a.budget), "%s", budget && *budget ? budget : "");
    (void)snprintf(a.message, sizeof(a.message), "'%s'", words[2]);
    nc_drain_answer(s->drain, &(struct nc_drain_reply){uid, verb, &a, s->rules.seed, s->now_usec});
}

static void script_sum(struct script *s) {
    struct nc_drain_summary sum;

    nc_drain_summarize(s->drain, &s->rules, s->now_usec, &sum);
    const struct {
        const char *word;
        size_t n;
    } counts[] = {{"total", sum.total},
                  {"remaining", sum.remaining},
                  {"leaving", sum.leaving},
                  {"kept", sum.kept},
                  {"blocked", sum.blocked},
                  {"waiting", sum.waiting},
                  {"evicted", sum.evicted},
                  {"deleted", sum.deleted},
                  {"terminal", sum.excluded[NC_POD_REASON_TERMINAL]},
                  {"mirror", sum.excluded[NC_POD_REASON_MIRROR]},
                  {"tolerating", sum.excluded[NC_POD_REASON_TOLERATES]},
                  {"daemonset", sum.excluded[NC_POD_REASON_DAEMON]},
                  {"put-back", sum.excluded[NC_POD_REASON_PUT_BACK]},
                  {"stuck", sum.excluded[NC_POD_REASON_STUCK]}};

    (void)nc_buf_puts(&s->trace, "sum");
    for (size_t i = 0; i < NC_ARRAY_SIZE(counts); i++)
        if (counts[i].n)
            (void)nc_buf_printf(&s->trace, " %s=%zu", counts[i].word, counts[i].n);
    if (sum.last_progress_usec) {
        (void)nc_buf_puts(&s->trace, " progress=");
        script_put_time(&s->trace, sum.last_progress_usec);
    }
    (void)nc_buf_puts(&s->trace, sum.is_forcing ? " forcing\n" : "\n");
    assert_int_equal(sum.excluded[NC_POD_REASON_NONE], 0);
}

static void script_lines(struct script *s) {
    size_t n;
    nc_auto_free struct nc_drain_line *lines = nc_drain_lines(s->drain, &s->rules, s->now_usec, &n);

    assert_int_equal(n, nc_drain_count(s->drain));
    for (size_t i = 0; i < n; i++) {
        (void)nc_buf_printf(&s->trace, "%s%s", i ? ", " : "", lines[i].pod->name);
        const enum nc_pod_reason reason = lines[i].verdict.reason;
        const enum nc_reason_kind kind = nc_pod_reason_kind(reason);
        if (kind == NC_REASON_KIND_EXCLUDED)
            (void)nc_buf_printf(&s->trace, " %s", nc_pod_reason_name(reason));
        if (lines[i].force_delete_at_usec) {
            (void)nc_buf_puts(&s->trace, " last=");
            script_put_time(&s->trace, lines[i].force_delete_at_usec);
        }
        (void)nc_buf_puts(&s->trace, kind == NC_REASON_KIND_KEPT      ? " kept"
                                     : kind == NC_REASON_KIND_LEAVING ? " leaving"
                                     : kind == NC_REASON_KIND_BLOCKED ? " blocked"
                                     : kind == NC_REASON_KIND_WAITING ? " waiting"
                                                                      : "");
        if (*lines[i].message)
            (void)nc_buf_printf(&s->trace, " [%s] %s", lines[i].budget, lines[i].message);
    }
    (void)nc_buf_puts(&s->trace, "\n");
}

/* Why each is not evicted, and what is requested next. */
static void script_why(struct script *s) {
    size_t n;
    nc_auto_free struct nc_drain_line *lines = nc_drain_lines(s->drain, &s->rules, s->now_usec, &n);

    for (size_t i = 0; i < n; i++) {
        const struct nc_verdict *v = &lines[i].verdict;
        (void)nc_buf_printf(&s->trace, "%s%s %s", i ? ", " : "", lines[i].pod->name,
                            nc_pod_reason_name(v->reason));
        if (v->verb)
            (void)nc_buf_printf(&s->trace, ": %s", nc_drain_verb_name(v->verb));
        if (v->verb && v->at_usec > s->now_usec) {
            (void)nc_buf_puts(&s->trace, " ");
            script_put_time(&s->trace, v->at_usec);
        }
    }
    (void)nc_buf_puts(&s->trace, "\n");
}

static void script_next(struct script *s) {
    const uint64_t next = nc_drain_next(s->drain, &s->rules, s->now_usec);

    (void)nc_buf_puts(&s->trace, "next ");
    if (next == UINT64_MAX)
        (void)nc_buf_puts(&s->trace, "never");
    else if (next <= s->now_usec)
        (void)nc_buf_puts(&s->trace, "now");
    else
        script_put_time(&s->trace, next);
    (void)nc_buf_puts(&s->trace, "\n");
}

static void script_rules(struct script *s, char *const *words) {
    const char *t = script_status(words, "t"), *replaced = script_status(words, "replaced");

    s->rules.t_usec = t ? script_time(t) : 0;
    s->rules.replaced_by_usec = replaced ? script_time(replaced) : 0;
    s->rules.may_evict = script_status(words, "watch") == NULL;
    s->rules.has_disrupted_taint = script_status(words, "taint") != NULL;
    s->rules.karpenter_drains = script_status(words, "karpenter") != NULL;
    s->rules.tolerating_last = script_status(words, "all-last") != NULL;
    s->rules.cordoned_usec =
        script_status(words, "cordon") ? script_time(script_status(words, "cordon")) : 0;
    s->rules.max_in_flight = (unsigned)script_number(words, "max", 100);
}

/* Each pod was evicted before, and nobody answered: as if every force-delete time had come. */
static void script_tried(struct script *s) {
    const struct nc_pod_answer away = {.kind = NC_ANSWER_UNAVAILABLE};
    const struct nc_drain_rules rules = {.t_usec = s->now_usec, .max_in_flight = 100};
    struct nc_drain_action actions[16];
    const size_t n = nc_drain_step(s->drain, &rules, s->now_usec, actions, 16);

    for (size_t i = 0; i < n; i++) {
        nc_auto_free char *uid = nc_strdup(actions[i].pod->uid);
        assert_int_equal(actions[i].verb, NC_DRAIN_EVICT);
        nc_drain_answer(s->drain, &(struct nc_drain_reply){uid, NC_DRAIN_EVICT, &away,
                                                           s->rules.seed, s->now_usec});
    }
}

static void script_command(struct script *s, char *const *words) {
    if (strcmp(words[0], "rules") == 0) {
        script_rules(s, words + 1);
    } else if (strcmp(words[0], "see") == 0) {
        struct nc_pod pod = script_pod(words[1], words + 2);
        assert_int_equal(nc_drain_see(s->drain, &pod, s->now_usec), 0);
    } else if (strcmp(words[0], "gone") == 0) {
        nc_auto_free char *uid = nc_asprintf("uid-%s", words[1]);
        nc_drain_gone(s->drain, uid, s->now_usec);
    } else if (strcmp(words[0], "at") == 0) {
        s->now_usec = script_time(words[1]);
        script_step(s);
    } else if (strcmp(words[0], "answer") == 0) {
        script_answer(s, words + 1);
    } else if (strcmp(words[0], "tried") == 0) {
        script_tried(s);
    } else if (strcmp(words[0], "next") == 0) {
        script_next(s);
    } else if (strcmp(words[0], "sum") == 0) {
        script_sum(s);
    } else if (strcmp(words[0], "lines") == 0) {
        script_lines(s);
    } else if (strcmp(words[0], "why") == 0) {
        script_why(s);
    } else if (strcmp(words[0], "restart") == 0) {
        nc_drain_restart(s->drain);
    } else if (strcmp(words[0], "listed") == 0) {
        nc_drain_listed(s->drain);
    } else {
        fail_msg("no such command: %s", words[0]);
    }
}

/* Runs it; what comes of it is owned by the caller. */
static struct script script_run(const char *text) {
    struct script s = {.drain = nc_drain_new(),
                       .rules = {.may_evict = true, .max_in_flight = 100, .seed = 7},
                       .now_usec = SCRIPT_EPOCH_USEC};
    nc_auto_free char *copy = nc_strdup(text);
    char *rest = copy, *line;

    while ((line = strsep(&rest, "\n"))) {
        char *words[16] = {NULL};
        size_t n = 0;
        for (char *word; (word = strsep(&line, " "));)
            if (*word && n < 15)
                words[n++] = word;
        if (n > 0)
            script_command(&s, words);
    }
    return s;
}

static void script_done(struct script *s) {
    nc_drain_free(s->drain);
    nc_buf_done(&s->trace);
}

struct script_row {
    const char *name, *script, *trace;
};

static inline void script_check(const struct script_row *rows, size_t n) {
    for (size_t i = 0; i < n; i++) {
        struct script s = script_run(rows[i].script);
        const char *trace = s.trace.data ? s.trace.data : "";
        if (strcmp(trace, rows[i].trace) != 0)
            print_message("# %s\n", rows[i].name);
        assert_string_equal(trace, rows[i].trace);
        script_done(&s);
    }
}

#endif
