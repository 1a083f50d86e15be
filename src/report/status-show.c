/*
 * Words out of a value that nobody vouches for: cleaned, bounded, with something in place of what
 * is missing.
 */
#include "status-show.h"

#define MAX_MOMENT_USEC (253402300800ull * 1000000) /* the year 10000 */

#include "nc/marks.h"
#include "nc/report.h"
#include "nc/str.h"
#include "nc/time.h"

size_t nc_show_at_most(size_t n, size_t most) {
    return n < most ? n : most;
}

void nc_show_put(struct nc_buf *out, const char *text) {
    const size_t n = nc_cut(text, NC_SHOW_MAX_TEXT_BYTES);

    for (size_t i = 0; i < n;) {
        uint32_t c = 0;
        const size_t length = nc_utf8_next(text + i, n - i, &c);
        const bool is_shown = nc_is_shown(c);
        (void)nc_buf_add(out, is_shown ? text + i : " ", is_shown ? length : 1);
        i += length ? length : 1;
    }
}

void nc_show_title(struct nc_buf *out, const char *title) {
    (void)nc_buf_printf(out, "%-12s ", title);
}

void nc_show_line(struct nc_buf *out, const char *title, const char *text) {
    nc_show_title(out, title);
    nc_show_put(out, text);
    (void)nc_buf_putc(out, '\n');
}

void nc_show_remedy(struct nc_buf *out, const char *remedy) {
    if (!remedy)
        return;
    (void)nc_buf_puts(out, NC_SHOW_INDENT "remedy: ");
    nc_show_put(out, remedy);
    (void)nc_buf_putc(out, '\n');
}

void nc_show_marked(struct nc_buf *out, const char *mark, const char *text) {
    (void)nc_buf_puts(out, mark);
    nc_show_put(out, text);
    (void)nc_buf_puts(out, NC_MARK_END);
}

void nc_show_outcome(struct nc_buf *out, const char *word) {
    static const struct {
        char word[10], mark[2];
    } rows[] = {{"succeeded", NC_MARK_GOOD},  {"drained", NC_MARK_GOOD},
                {"ok", NC_MARK_GOOD},         {"failed", NC_MARK_BAD},
                {"failing", NC_MARK_BAD},     {"running", NC_MARK_NOTICE},
                {"evicting", NC_MARK_NOTICE}, {"cordoned", NC_MARK_NOTICE}};

    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++)
        if (nc_streq(word, rows[i].word)) {
            nc_show_marked(out, rows[i].mark, word);
            return;
        }
    nc_show_put(out, word);
}

const char *nc_show_text(const struct nc_value *map, const char *key, const char *otherwise) {
    const char *text = nc_value_get_string(map, key);

    return text && *text ? text : otherwise;
}

uint64_t nc_show_number(const struct nc_value *map, const char *path, uint64_t most) {
    const int64_t n = nc_value_int(nc_value_path(map, path), 0);

    if (n <= 0)
        return 0;
    return (uint64_t)n < most ? (uint64_t)n : most;
}

const struct nc_value *nc_show_list(const struct nc_value *map, const char *path) {
    const struct nc_value *v = nc_value_path(map, path);

    return v && v->type == NC_VALUE_LIST ? v : NULL;
}

const struct nc_value *nc_show_item(const struct nc_value *list, size_t i, size_t most) {
    return i < most ? nc_value_item(list, i) : NULL;
}

size_t nc_show_phases(const struct nc_value *status,
                      const struct nc_value *ret[static NC_SHOW_MAX_PHASES]) {
    const struct nc_value *list = nc_show_list(status, "phases");
    const size_t n = list ? nc_show_at_most(list->n, NC_SHOW_MAX_PHASES) : 0;
    size_t plan = n;

    for (size_t i = 0; i < n; i++) {
        const char *name = nc_show_text(list->items[i], "name", "");
        ret[i] = list->items[i];
        if (nc_streq(name, nc_phase_name(NC_PHASE_PLAN)))
            plan = i;
        if (!nc_streq(name, nc_phase_name(NC_PHASE_PREFLIGHT)) || plan > i)
            continue;
        memmove(&ret[plan + 1], &ret[plan], (i - plan) * sizeof(*ret));
        ret[plan] = list->items[i];
    }
    return n;
}

uint64_t nc_show_moment(const struct nc_value *entry) {
    const uint64_t usec = nc_show_number(entry, "atUsec", MAX_MOMENT_USEC);

    return usec ? usec : nc_show_time(entry, "at");
}

uint64_t nc_show_time(const struct nc_value *map, const char *key) {
    const char *text = nc_value_get_string(map, key);
    uint64_t usec;

    return text && nc_time_parse(text, &usec) == 0 ? usec : 0;
}
