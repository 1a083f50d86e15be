/*
 * The only place that writes a log. One call, three forms; which one is decided once, by
 * --log-format or by JOURNAL_STREAM.
 */
#include "log.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "nc/mem.h"
#include "nc/str.h"
#include "nc/time.h"
#include "nc/value.h"

#include "process.h"

static const char *program = "nodeclaimd";

void nc_program_set(const char *name) {
    program = name;
}

const char *nc_program(void) {
    return program;
}

static enum nc_log_format format_in_force;
static enum nc_log_level level_in_force = NC_LOG_INFO;

static const char message_ids[_NC_MILESTONE_MAX][33] = {
    [NC_MILESTONE_BOOTSTRAP_STARTED] = "637f881e0e714affbf5bd451016e166e",
    [NC_MILESTONE_KUBELET_STARTED] = "422367f8255946d28edadad0df7f1772",
    [NC_MILESTONE_REGISTERED] = "523410c576e54377b7a7fc2f7a4e96a8",
    [NC_MILESTONE_BOOTSTRAP_SUCCEEDED] = "07aafda20e8a423787e4d8d30c34bb49",
    [NC_MILESTONE_BOOTSTRAP_FAILED] = "de4668bc55bb435db84e31be27bdb275",
    [NC_MILESTONE_DAEMON_STARTED] = "3e4d5d80443c46a2af176af9ff10d6da",
    [NC_MILESTONE_NOTICED] = "7f1be5afdea748de8c8e9daaf274ca51",
    [NC_MILESTONE_WITHDRAWN] = "3e43f67be03e4b2f8a8b789637584c65",
    [NC_MILESTONE_CORDONED] = "270236a9fed44a7f97d610788fa3edc4",
    [NC_MILESTONE_DRAINING] = "a13d32073ba04dd0818f9e72add456b7",
    [NC_MILESTONE_INCOMPLETE] = "c396910f77ad488d849f30362743f9ea",
    [NC_MILESTONE_BLOCKED] = "517e660edf344b6684474a116985c428",
    [NC_MILESTONE_FORCING] = "f698053a4f614e5aad8b59396f980c70",
    [NC_MILESTONE_DRAINED] = "d4cfa2d788394d079c875855afb71a65",
    [NC_MILESTONE_DRAIN_FAILED] = "f02dcee469bb45d8aefc288fc27b3258",
    [NC_MILESTONE_RELEASED] = "efed88177ab441c08210965908212ec0",
    [NC_MILESTONE_POD_EVICTED] = "d7e418ea43054239a8450a3124a2b5ff",
    [NC_MILESTONE_POD_REFUSED] = "5f37cc9ef6cd460fb587d9611ba48283",
    [NC_MILESTONE_POD_FORCED] = "8e964451144342f698be1f4bd0be70df",
    [NC_MILESTONE_POD_GONE] = "4b9db44f909e435ba9c0c8a0a9637fe0",
};

const char *nc_log_message_id(enum nc_milestone m) {
    return message_ids[m][0] ? message_ids[m] : NULL;
}

int nc_log_set_format(const char *word) {
    if (nc_streq(word, "text"))
        format_in_force = NC_LOG_TEXT;
    else if (nc_streq(word, "json"))
        format_in_force = NC_LOG_JSON;
    else if (nc_streq(word, "journal"))
        format_in_force = NC_LOG_JOURNAL;
    else
        return -EINVAL;
    return 0;
}

int nc_log_set_level(const char *word) {
    static const struct {
        char word[8];
        enum nc_log_level level;
    } words[] = {{"error", NC_LOG_ERROR},
                 {"warning", NC_LOG_WARNING},
                 {"info", NC_LOG_INFO},
                 {"debug", NC_LOG_DEBUG}};

    for (size_t i = 0; i < NC_ARRAY_SIZE(words); i++)
        if (nc_streq(word, words[i].word)) {
            level_in_force = words[i].level;
            return 0;
        }
    return -EINVAL;
}

/* Is stderr the journal's? The variable is inherited by whoever was started below us, with stderr
 * turned elsewhere or not: systemd.exec(5). */
static bool is_journal(void) {
    const char *given = getenv("JOURNAL_STREAM");
    nc_auto_free char *ours = NULL;
    struct stat st;

    if (!given || fstat(STDERR_FILENO, &st) < 0)
        return false;
    ours = nc_asprintf("%" PRIuMAX ":%" PRIuMAX, (uintmax_t)st.st_dev, (uintmax_t)st.st_ino);
    return nc_streq(given, ours);
}

static enum nc_log_format format_of_run(void) {
    if (format_in_force == NC_LOG_AUTO)
        format_in_force = is_journal() ? NC_LOG_JOURNAL : NC_LOG_TEXT;
    return format_in_force;
}

static void add_field(struct nc_buf *entry, const char *name, const char *value) {
    if (value && *value)
        nc_journal_add_field(entry, name, value);
}

/* What a program may read beside the message: its names in the journal and in JSON. */
static const struct {
    char journal[15], json[15];
    unsigned short at;
} texts[] = {
    {"POD_NAMESPACE", "pod-namespace", offsetof(struct nc_log_fields, pod_namespace)},
    {"POD_NAME", "pod-name", offsetof(struct nc_log_fields, pod_name)},
    {"PHASE", "drain-phase", offsetof(struct nc_log_fields, drain_phase)},
    {"SOURCE", "source", offsetof(struct nc_log_fields, source)},
    {"NC_PHASE", "phase", offsetof(struct nc_log_fields, phase)},
    {"NC_ERR_CLASS", "class", offsetof(struct nc_log_fields, error_class)},
    {"NC_REASON", "reason", offsetof(struct nc_log_fields, reason)},
    {"NC_INSTANCE_ID", "instance-id", offsetof(struct nc_log_fields, instance)},
    {"NC_NODE", "node", offsetof(struct nc_log_fields, node)},
    {"NC_NODECLAIM", "nodeclaim", offsetof(struct nc_log_fields, nodeclaim)},
};

static const char *text_of(const struct nc_log_fields *in, size_t i) {
    return *(const char *const *)((const char *)in + texts[i].at);
}

static int to_journal(enum nc_log_level level, const struct nc_log_fields *in,
                      const char *message) {
    nc_cleanup(nc_buf_done) struct nc_buf entry = NC_BUF_INIT;
    char number[24], time[32];

    (void)snprintf(number, sizeof(number), "%d", (int)level);
    add_field(&entry, "MESSAGE", message);
    add_field(&entry, "PRIORITY", number);
    add_field(&entry, "SYSLOG_IDENTIFIER", nc_program());
    add_field(&entry, "MESSAGE_ID", nc_log_message_id(in->milestone));
    for (size_t i = 0; i < NC_ARRAY_SIZE(texts); i++)
        add_field(&entry, texts[i].journal, text_of(in, i));
    if (in->deadline_usec > 0) {
        nc_time_format(in->deadline_usec, time);
        add_field(&entry, "DEADLINE", time);
    }
    if (in->duration_usec > 0) {
        (void)snprintf(number, sizeof(number), "%" PRIu64, in->duration_usec);
        add_field(&entry, "NC_DURATION_USEC", number);
    }
    return nc_journal_send(&entry, nc_program());
}

static void to_json(enum nc_log_level level, const struct nc_log_fields *in, const char *message) {
    nc_auto_value struct nc_value *map = nc_value_new_map();
    nc_cleanup(nc_buf_done) struct nc_buf line = NC_BUF_INIT;
    struct timespec ts;
    char timestamp[32], whole[48];

    (void)clock_gettime(CLOCK_REALTIME, &ts);
    nc_time_format((uint64_t)ts.tv_sec * 1000000, timestamp);
    timestamp[strlen(timestamp) - 1] = '\0'; /* the Z comes after the milliseconds */
    (void)snprintf(whole, sizeof(whole), "%s.%03ldZ", timestamp, ts.tv_nsec / 1000000);
    nc_value_set_string(map, "level",
                        level == NC_LOG_ERROR     ? "ERROR"
                        : level == NC_LOG_WARNING ? "WARN"
                        : level == NC_LOG_INFO    ? "INFO"
                                                  : "DEBUG");
    nc_value_set_string(map, "time", whole);
    nc_value_set_string(map, "logger", nc_program());
    nc_value_set_string(map, "message", message);
    for (size_t i = 0; i < NC_ARRAY_SIZE(texts); i++)
        if (text_of(in, i))
            nc_value_set_string(map, texts[i].json, text_of(in, i));
    if (in->deadline_usec > 0) {
        nc_time_format(in->deadline_usec, whole);
        nc_value_set_string(map, "deadline", whole);
    }
    if (in->duration_usec > 0)
        nc_value_set_int(map, "duration_usec", (int64_t)in->duration_usec);
    nc_json_write(&line, map, 0);
    (void)fprintf(stderr, "%s\n", line.data);
}

__attribute__((format(printf, 3, 0))) static void log_formatted(enum nc_log_level level,
                                                                const struct nc_log_fields *fields,
                                                                const char *format, va_list ap) {
    nc_auto_free char *message = NULL;

    if (level > level_in_force)
        return;
    message = nc_vasprintf(format, ap);
    switch (format_of_run()) {
    case NC_LOG_JSON:
        to_json(level, fields, message);
        return;
    case NC_LOG_JOURNAL:
        if (to_journal(level, fields, message) >= 0)
            return;
        /* journald is unavailable: stderr with a priority that whoever reads it understands */
        (void)fprintf(stderr, "<%d>%s\n", (int)level, message);
        return;
    case NC_LOG_AUTO:
    case NC_LOG_TEXT:
        (void)fprintf(stderr, "%s%s\n",
                      level == NC_LOG_ERROR     ? "error: "
                      : level == NC_LOG_WARNING ? "warning: "
                                                : "",
                      message);
        return;
    }
}

void nc_log(enum nc_log_level level, const struct nc_log_fields *fields, const char *format, ...) {
    static const struct nc_log_fields none = {.milestone = NC_MILESTONE_NONE};
    va_list ap;

    va_start(ap, format);
    log_formatted(level, fields ? fields : &none, format, ap);
    va_end(ap);
}

void nc_log_node(enum nc_log_level level, const char *node, const char *format, ...) {
    const struct nc_log_fields fields = {.node = node};
    va_list ap;

    va_start(ap, format);
    log_formatted(level, &fields, format, ap);
    va_end(ap);
}
