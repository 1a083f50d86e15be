/*
 * MIME framing: see mime.h. Written against RFC 2045 and 2046, and lenient where Go's
 * mime/multipart is, because that is what nodeadm reads with.
 */
#include "mime.h"

#include <errno.h>
#include <stdint.h>

#include "nc/encode.h"
#include "nc/str.h"

void nc_mime_header_done(struct nc_mime_header *h) {
    free(h->type);
    free(h->boundary);
    free(h->encoding);
    *h = (struct nc_mime_header)NC_MIME_HEADER_INIT;
}

static bool is_token(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9')
           || (c != '\0' && strchr("!#$%&'*+-.^_`|~", c));
}

static void lower(char *s) {
    for (; *s; s++)
        if (*s >= 'A' && *s <= 'Z')
            *s = (char)(*s - 'A' + 'a');
}

/* The line at data[at]: its length without the line end, and the offset of the next one. */
static size_t line_at(const char *data, size_t n, size_t at, size_t *ret_next) {
    const char *newline = memchr(data + at, '\n', n - at);
    size_t end = newline ? (size_t)(newline - data) : n;

    *ret_next = newline ? end + 1 : n;
    if (end > at && data[end - 1] == '\r')
        end--;
    return end - at;
}

/* "Name: value" -> length of the name; 0 where the line is no header line. A name is what RFC 5322
 * takes for one, as Go and Python do: more than a token. */
static size_t header_name(const char *line, size_t n) {
    size_t i = 0;

    while (i < n && line[i] > ' ' && line[i] < '\x7f' && line[i] != ':')
        i++;
    return i < n && line[i] == ':' ? i : 0;
}

static bool name_is(const char *line, size_t n, const char *name) {
    return n == strlen(name) && strncasecmp(line, name, n) == 0;
}

/* One parameter "name=value" at *p, quoted or not. Returns its value (owned) if it is `wanted`, and
 * moves *p behind it. */
static char *parameter(const char **p, const char *wanted) {
    nc_cleanup(nc_buf_done) struct nc_buf value = NC_BUF_INIT;
    const char *name = *p + strspn(*p, "; \t");
    size_t n = 0;

    while (is_token(name[n]))
        n++;
    *p = name + n;
    *p += strspn(*p, " \t");
    if (n == 0 || **p != '=') {
        *p += strcspn(*p, ";");
        return NULL;
    }
    *p += 1 + strspn(*p + 1, " \t");
    if (**p == '"') {
        for ((*p)++; **p && **p != '"'; (*p)++) {
            if (**p == '\\' && (*p)[1])
                (*p)++;
            (void)nc_buf_putc(&value, **p);
        }
        if (**p == '"')
            (*p)++;
    } else {
        size_t length = strcspn(*p, "; \t");

        (void)nc_buf_add(&value, *p, length);
        *p += length;
    }
    return name_is(name, n, wanted) ? nc_buf_steal(&value) : NULL;
}

static bool is_media_type(const char *s) {
    const char *slash = strchr(s, '/');

    if (!slash || slash == s || slash[1] == '\0' || strlen(s) > 127)
        return false;
    for (; *s; s++)
        if (s != slash && !is_token(*s))
            return false;
    return true;
}

/* "multipart/mixed; boundary=…" into type and boundary. */
static int content_type(const char *value, unsigned line, struct nc_mime_header *h,
                        struct nc_err *err) {
    nc_auto_free char *type = nc_strndup(value, strcspn(value, ";"));
    const char *p = value + strlen(type);

    nc_trim(type);
    lower(type);
    if (!is_media_type(type)) {
        nc_auto_free char *quoted = nc_quote_string(value);

        return nc_err_set(err, NC_ERR_CONFIG, EBADMSG,
                          "line %u: Content-Type: %s is not a media type", line, quoted);
    }
    free(h->type);
    h->type = nc_steal(&type);
    while (*p && !h->boundary)
        h->boundary = parameter(&p, "boundary");
    return 0;
}

/* One header, its folded lines joined. Only the first of several equal ones counts, as in Go. */
static int read_mime_header(const char *header, size_t name_n, unsigned line,
                            struct nc_mime_header *h, struct nc_err *err) {
    nc_auto_free char *value = nc_strdup(header + name_n + 1);

    nc_trim(value);
    if (name_is(header, name_n, "MIME-Version"))
        h->is_mime = true;
    if (name_is(header, name_n, "Content-Type") && !h->type) {
        h->is_mime = true;
        return content_type(value, line, h, err);
    }
    if (name_is(header, name_n, "Content-Transfer-Encoding") && !h->encoding) {
        lower(value);
        h->encoding = nc_steal(&value);
    }
    return 0;
}

/* Not quoted: it may be the first line of a script. */
static int bad_line(unsigned line, struct nc_err *err) {
    return nc_err_set(
        err, NC_ERR_CONFIG, EBADMSG,
        "line %u is not a MIME header line (an empty line must stand between header and body)",
        line);
}

struct nc_text nc_mime_body(struct nc_text text, const struct nc_mime_header *h) {
    return (struct nc_text){
        .data = text.data + h->body, .n = text.n - h->body, .line = text.line + h->lines};
}

int nc_mime_header_parse(struct nc_text text, bool strict, struct nc_mime_header *ret,
                         struct nc_err *err) {
    nc_cleanup(nc_mime_header_done) struct nc_mime_header h = {.is_open = true};
    const char *const data = text.data;
    const size_t n = text.n;
    size_t at = 0;

    while (at < n && h.is_open) {
        nc_cleanup(nc_buf_done) struct nc_buf header = NC_BUF_INIT;
        size_t next = 0;
        size_t length = line_at(data, n, at, &next);
        size_t name = header_name(data + at, length);
        unsigned line = text.line + h.lines;

        h.lines++;
        if (length == 0) {
            h.is_open = false;
            h.body = next;
            break;
        }
        if (name == 0 || memchr(data + at, '\0', length)) {
            if (strict || h.is_mime)
                return bad_line(line, err);
            break;
        }
        (void)nc_buf_add(&header, data + at, length);
        for (at = next; at < n && (data[at] == ' ' || data[at] == '\t'); at = next) {
            length = line_at(data, n, at, &next);
            (void)nc_buf_add(&header, data + at, length);
            h.lines++;
        }
        if (read_mime_header(header.data, name, line, &h, err) < 0)
            return -EBADMSG;
    }
    if (h.is_open)
        h.body = n;
    if (!h.type)
        h.type = nc_strdup("");
    if (!h.encoding)
        h.encoding = nc_strdup("");
    *ret = h;
    h = (struct nc_mime_header)NC_MIME_HEADER_INIT;
    return 0;
}

enum delimiter { NOT_ONE, BETWEEN, CLOSING };

static enum delimiter delimiter_of(const char *line, size_t n, const char *boundary) {
    size_t length = strlen(boundary);
    bool is_closing = false;

    if (n < length + 2 || memcmp(line, "--", 2) != 0 || memcmp(line + 2, boundary, length) != 0)
        return NOT_ONE;
    line += length + 2;
    n -= length + 2;
    if (n >= 2 && memcmp(line, "--", 2) == 0) {
        is_closing = true;
        line += 2;
        n -= 2;
    }
    for (; n > 0; n--, line++)
        if (*line != ' ' && *line != '\t')
            return NOT_ONE;
    return is_closing ? CLOSING : BETWEEN;
}

static bool is_blank(const char *data, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (!strchr(" \t\r\n", data[i]) || data[i] == '\0')
            return false;
    return true;
}

/* Moves the cursor behind the next delimiter; *ret_end is where the text before it ends. */
static enum delimiter skip_to_delimiter(struct nc_mime_cursor *c, size_t *ret_end) {
    size_t end = c->at;

    while (c->at < c->text.n) {
        size_t next = 0;
        size_t length = line_at(c->text.data, c->text.n, c->at, &next);
        enum delimiter d = delimiter_of(c->text.data + c->at, length, c->boundary);

        if (d != NOT_ONE)
            *ret_end = end;
        end = c->at + length;
        c->at = next;
        c->text.line++;
        if (d != NOT_ONE)
            return d;
    }
    return NOT_ONE;
}

int nc_mime_next(struct nc_mime_cursor *c, struct nc_text *ret, struct nc_err *err) {
    nc_auto_free char *quoted = nc_quote_string(c->boundary);
    size_t start = 0;
    size_t end = 0;
    unsigned line = 0;
    enum delimiter d = NOT_ONE;

    if (!c->is_inside) {
        d = skip_to_delimiter(c, &end);
        if (d == NOT_ONE)
            return nc_err_set(err, NC_ERR_CONFIG, EBADMSG,
                              "cut off or damaged: no line begins a part of boundary %s", quoted);
        if (d == CLOSING && !is_blank(c->text.data, end))
            return nc_err_set(err, NC_ERR_CONFIG, EBADMSG,
                              "cut off or damaged: text stands before the closing line of boundary "
                              "%s, but no line begins a part",
                              quoted);
        c->is_inside = true;
        c->is_closed = d == CLOSING;
    }
    if (c->is_closed)
        return 0;
    start = c->at;
    line = c->text.line;
    d = skip_to_delimiter(c, &end);
    if (d == NOT_ONE) {
        c->is_closed = true;
        if (c->parts > 0 && is_blank(c->text.data + start, c->text.n - start))
            return 0;
        return nc_err_set(err, NC_ERR_CONFIG, EBADMSG,
                          "cut off in part %u, which begins at line %u: the closing line of "
                          "boundary %s is missing",
                          c->parts + 1, line, quoted);
    }
    c->is_closed = d == CLOSING;
    c->parts++;
    *ret = (struct nc_text){
        .data = c->text.data + start, .n = end > start ? end - start : 0, .line = line};
    return 1;
}

bool nc_mime_next_lost(struct nc_mime_cursor *c, struct nc_text *ret) {
    const struct nc_mime_cursor before = *c;
    const struct nc_mime_cursor *from = NULL;
    enum delimiter d = NOT_ONE;
    size_t end = 0;

    if (is_blank(c->text.data + c->at, c->text.n - c->at))
        return false;
    do
        d = skip_to_delimiter(c, &end);
    while (d == CLOSING);
    if (d == NOT_ONE && !before.is_inside)
        return false;
    from = d == NOT_ONE ? &before : c;
    *ret = (struct nc_text){
        .data = from->text.data + from->at, .n = from->text.n - from->at, .line = from->text.line};
    c->is_inside = false;
    return true;
}

/* RFC 2045 6.7: "=XX", a soft line break "=\n"; white space before a line end is no data. A line
 * end stays as it is written. */
static int quoted_printable(const char *data, size_t n, struct nc_buf *out) {
    for (size_t at = 0; at < n;) {
        size_t next = 0;
        size_t length = line_at(data, n, at, &next);
        const size_t end = at + length;
        size_t i = 0;
        bool is_soft = false;

        while (length > 0 && (data[at + length - 1] == ' ' || data[at + length - 1] == '\t'))
            length--;
        for (i = 0; i < length; i++) {
            char c = data[at + i];

            if (c == '=' && i + 1 == length) {
                is_soft = true;
                break;
            }
            if (c == '=') {
                int high = nc_hex_digit(data[at + i + 1]);
                int low = i + 2 < length ? nc_hex_digit(data[at + i + 2]) : -1;

                if (high < 0 || low < 0)
                    return -EINVAL;
                c = (char)(high * 16 + low);
                i += 2;
            }
            if (nc_buf_putc(out, c) < 0)
                return -EFBIG;
        }
        if (!is_soft && nc_buf_add(out, data + end, next - end) < 0)
            return -EFBIG;
        at = next;
    }
    return 0;
}

int nc_mime_transfer_decode(const char *encoding, const char *data, size_t n, struct nc_buf *out) {
    if (nc_streq(encoding, "") || nc_streq(encoding, "7bit") || nc_streq(encoding, "8bit")
        || nc_streq(encoding, "binary"))
        return nc_buf_add(out, data, n);
    if (nc_streq(encoding, "base64"))
        return nc_base64_decode(data, n, out);
    if (nc_streq(encoding, "quoted-printable"))
        return quoted_printable(data, n, out);
    return -ENOTSUP;
}
