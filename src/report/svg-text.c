/*
 * Text in an SVG: escaping, widths, lines, durations, grid, colours.
 */
#include "timeline-model.h"

#include <inttypes.h>
#include <string.h>

#define SEC ((uint64_t)1000000)

/* U+FFFE and U+FFFF may not stand in XML at all. */
static bool is_forbidden(const char *text, size_t n) {
    return n > 2 && (unsigned char)text[0] == 0xef && (unsigned char)text[1] == 0xbf
           && (unsigned char)text[2] >= 0xbe;
}

void nc_svg_put(struct nc_buf *out, const char *text, size_t n) {
    static const struct {
        char c;
        const char *instead;
    } escapes[] = {{'&', "&amp;"}, {'<', "&lt;"}, {'>', "&gt;"}, {'"', "&quot;"}, {'\'', "&#39;"}};

    for (size_t i = 0; i < n; i++) {
        const char *instead = NULL;
        for (size_t k = 0; k < NC_ARRAY_SIZE(escapes); k++)
            if (escapes[k].c == text[i])
                instead = escapes[k].instead;
        if (instead) {
            (void)nc_buf_puts(out, instead);
        } else if (is_forbidden(text + i, n - i)) {
            (void)nc_buf_putc(out, ' ');
            i += 2;
        } else {
            (void)nc_buf_putc(out, text[i]);
        }
    }
}

/* --- lines */

static bool is_begin(char c) {
    return ((unsigned char)c & 0xc0) != 0x80;
}

/* In hundredths of the font's size. */
static unsigned advance_of(char c) {
    if (!is_begin(c))
        return 0;
    if ((unsigned char)c >= 0x80 || strchr("mwMW@%", c))
        return 100;
    if (strchr(" ijltfrI.,:;'|!()[]/-", c))
        return 42;
    return (c >= 'A' && c <= 'Z') || strchr("+=<>~^#&", c) ? 84 : 65;
}

unsigned nc_svg_width(const char *text, size_t n, unsigned font_px) {
    unsigned hundredths = 0;

    for (size_t i = 0; i < n; i++)
        hundredths += advance_of(text[i]);
    return (hundredths * font_px + 99) / 100;
}

size_t nc_svg_fit(const char *text, unsigned font_px, unsigned width_px) {
    unsigned hundredths = 0;
    size_t blank = 0, word = 0, i;

    for (i = 0; text[i]; i++) {
        hundredths += advance_of(text[i]);
        if (i > 0 && is_begin(text[i]) && hundredths * font_px > width_px * 100)
            return blank ? blank : i;
        if (text[i] != ' ')
            continue;
        if (!strchr("+0123456789", text[word])) /* "+11.5 s" stays together */
            blank = i;
        word = i + 1;
    }
    return i;
}

/* --- durations */

/* N thousandths as "N.NNN", without zeros at the end. */
static void put_thousandths(struct nc_buf *out, uint64_t n) {
    unsigned rest = (unsigned)(n % 1000), digits = 3;

    (void)nc_buf_printf(out, "%" PRIu64, n / 1000);
    for (; digits > 0 && rest % 10 == 0; digits--)
        rest /= 10;
    if (digits > 0)
        (void)nc_buf_printf(out, ".%0*u", (int)digits, rest);
}

void nc_svg_duration(struct nc_buf *out, uint64_t usec) {
    static const struct {
        uint64_t usec;
        const char *unit;
    } units[] = {{86400 * SEC, "d"}, {3600 * SEC, "h"}, {60 * SEC, "min"}};
    const char *blank = "";
    uint64_t step = 1;

    while (step < SEC && usec / step >= 1000)
        step *= 10;
    usec = (usec + step / 2) / step * step;
    if (usec < SEC && usec > 0) {
        put_thousandths(out, usec);
        (void)nc_buf_puts(out, " ms");
        return;
    }
    for (size_t i = 0; i < NC_ARRAY_SIZE(units); i++) {
        if (usec < units[i].usec)
            continue;
        (void)nc_buf_printf(out, "%s%" PRIu64 " %s", blank, usec / units[i].usec, units[i].unit);
        usec %= units[i].usec;
        blank = " ";
    }
    if (usec == 0 && *blank)
        return;
    (void)nc_buf_puts(out, blank);
    put_thousandths(out, usec / 1000);
    (void)nc_buf_puts(out, " s");
}

uint64_t nc_svg_step(uint64_t span_usec, unsigned most) {
    static const struct {
        uint64_t unit;
        uint16_t counts[10];
    } rows[] = {{1, {1, 2, 5, 10, 20, 50, 100, 200, 500}},
                {1000, {1, 2, 5, 10, 20, 50, 100, 200, 500}},
                {SEC, {1, 2, 5, 10, 15, 30}},
                {60 * SEC, {1, 2, 5, 10, 15, 30}},
                {3600 * SEC, {1, 2, 3, 6, 12}},
                {86400 * SEC, {1, 2, 5, 10, 20, 50, 100}}};
    uint64_t step = 1;

    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++)
        for (const uint16_t *count = rows[i].counts; *count; count++) {
            step = rows[i].unit * *count;
            if (span_usec / step < most)
                return step;
        }
    return step;
}

/* --- colours */

static void put_colours(struct nc_buf *out, bool is_dark) {
    /* Fills are of bars and text, strokes of lines; a text's stroke keeps it apart from lines. */
    static const struct {
        const char *rule;
        char light[8], dark[8];
    } rows[] = {
        {".paper,.inside{fill:", "#fff", "#14191f"},
        {".time,.error,.remedy{stroke:", "#fff", "#14191f"},
        {"text,.end.deadline{fill:", "#1c2733", "#e4e9ee"},
        {".time,.tick,.remedy,.end.force-delete{fill:", "#56626f", "#9aa7b4"},
        {".axis,.deadline,.force-delete{stroke:", "#56626f", "#9aa7b4"},
        {".grid{stroke:", "#e1e6eb", "#2c3540"},
        {".succeeded{fill:", "#3a9d6e", "#4db584"},
        {".running{fill:", "#2f7ec2", "#5aa2e0"},
        {".failed,.error{fill:", "#c8323e", "#f0717a"},
        {".skipped{fill:", "#b4bcc6", "#55616e"},
        {".phase{fill:", "#4f83c4", "#6d9fdd"},
        {".kept{fill:", "#c77700", "#eba43a"},
        {".notice{stroke:", "#00829b", "#35bccf"},
        {".end.notice{fill:", "#00829b", "#35bccf"},
        {".cordon,.gate{stroke:", "#8445a8", "#be86de"},
        {".end.cordon,.end.gate{fill:", "#8445a8", "#be86de"},
    };

    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++)
        (void)nc_buf_printf(out, "%s%s}", rows[i].rule, is_dark ? rows[i].dark : rows[i].light);
}

void nc_svg_style(struct nc_buf *out) {
    (void)nc_buf_puts(
        out, "<style>:root{color-scheme:light dark}"
             "text{font:12px system-ui,'Segoe UI','DejaVu Sans',sans-serif}"
             ".title{font-size:16px;font-weight:600}.tick{font-size:11px}path{fill:none}"
             ".time,.error,.remedy{paint-order:stroke;stroke-width:4px}"
             ".notice,.cordon,.gate,.force-delete,.deadline{stroke-width:1.5}.end{stroke:none}"
             ".force-delete:not(.end){stroke-dasharray:4 3}");
    put_colours(out, false);
    (void)nc_buf_puts(out, "@media(prefers-color-scheme:dark){");
    put_colours(out, true);
    (void)nc_buf_puts(out, "}</style>\n");
}
