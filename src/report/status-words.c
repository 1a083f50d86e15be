/*
 * Words out of a value that nobody vouches for: cleaned, bounded, with something in place of what
 * is missing.
 */
#include "status-words.h"

#define MAX_MOMENT_USEC (253402300800ull * 1000000) /* the year 10000 */

#include "nc/str.h"

size_t nc_words_at_most(size_t n, size_t most) {
    return n < most ? n : most;
}

void nc_words_put(struct nc_buf *out, const char *text) {
    for (size_t i = 0; text[i]; i++) {
        const unsigned char c = (unsigned char)text[i];
        if (i >= NC_WORDS_MAX_TEXT_BYTES && (c & 0xc0) != 0x80)
            return;
        const bool is_c1 = c == 0xc2 && (unsigned char)text[i + 1] < 0xa0 && text[i + 1];
        (void)nc_buf_putc(out, c < 0x20 || c == 0x7f || is_c1 ? ' ' : text[i]);
        i += is_c1;
    }
}

void nc_words_title(struct nc_buf *out, const char *title) {
    (void)nc_buf_printf(out, "%-12s ", title);
}

void nc_words_line(struct nc_buf *out, const char *title, const char *text) {
    nc_words_title(out, title);
    nc_words_put(out, text);
    (void)nc_buf_putc(out, '\n');
}

const char *nc_words_text(const struct nc_value *map, const char *key, const char *otherwise) {
    const char *text = nc_value_get_string(map, key);

    return text && *text ? text : otherwise;
}

uint64_t nc_words_number(const struct nc_value *map, const char *path, uint64_t most) {
    const struct nc_value *v = nc_value_path(map, path);

    if (!v || v->type != NC_VALUE_INT || v->integer <= 0)
        return 0;
    return (uint64_t)v->integer < most ? (uint64_t)v->integer : most;
}

const struct nc_value *nc_words_list(const struct nc_value *map, const char *path) {
    const struct nc_value *v = nc_value_path(map, path);

    return v && v->type == NC_VALUE_LIST ? v : NULL;
}

uint64_t nc_words_moment(const struct nc_value *entry) {
    const uint64_t usec = nc_words_number(entry, "at_usec", MAX_MOMENT_USEC);

    return usec ? usec : nc_words_time(entry, "at");
}

uint64_t nc_words_time(const struct nc_value *map, const char *key) {
    const char *text = nc_value_get_string(map, key);
    uint64_t usec;

    return text && nc_time_parse(text, &usec) == 0 ? usec : 0;
}
