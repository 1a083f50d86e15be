/*
 * Text in an SVG: what may not stand in XML is escaped, and lines end where their box does.
 *
 * A drawing does not know the font that it is shown in. Widths are those of DejaVu Sans, which is
 * wider than what most systems have: a line that fits there fits everywhere.
 */
#ifndef NC_REPORT_SVG_TEXT_H
#define NC_REPORT_SVG_TEXT_H

#include "nc/str.h"

/* Appends n bytes of UTF-8 without control characters. */
void nc_svg_put(struct nc_buf *out, const char *text, size_t n);
/* In pixels. */
unsigned nc_svg_width(const char *text, size_t n, unsigned font_px);
/* How many bytes make the first line of a box: up to a blank if there is one, at least one
 * character. */
size_t nc_svg_fit(const char *text, unsigned font_px, unsigned width_px);
/* "41.000 s", "3.042 ms", "1 h 2 min 3.000 s". For an axis `is_short`: "41 s", "3 ms", "1 h". */
void nc_svg_duration(struct nc_buf *out, uint64_t usec, bool is_short);
/* The distance of grid lines at which at most `most` fit into the span. */
uint64_t nc_svg_step(uint64_t span_usec, unsigned most);

#endif
