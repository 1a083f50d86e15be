/*
 * User data: peels base64 and gzip off, takes MIME apart, and transfers every part.
 *
 * The order is nodeadm's, but that base64 and gzip may be in one another: base64 of everything if
 * it decodes, gzip by its magic, then MIME or plain; the same again for each part that is ours. All
 * sizes are capped before anything is allocated: 16 KiB as EC2 delivers it, 1 MiB for everything
 * that comes out, together.
 */
#include "nc/userdata.h"

#include <errno.h>
#include <stdbool.h>

#include "mime.h"
#include "nc/encode.h"
#include "nc/str.h"

#define MAX_NESTING 8U
#define MIN_BASE64 ((size_t)64) /* shorter text that is no base64 is nobody's broken base64 */

static const char our_types[] = "application/node.eks.aws\0application/vnd.nodeclaimd+yaml\0";

void nc_userdata_done(struct nc_userdata *u) {
    for (size_t i = 0; i < u->n; i++) {
        free(u->parts[i].name);
        free(u->parts[i].content_type);
        explicit_bzero(u->parts[i].data, u->parts[i].n);
        free(u->parts[i].data);
    }
    for (size_t i = 0; i < u->n_lost; i++)
        free(u->lost[i].message);
    free(u->parts);
    free(u->lost);
    *u = (struct nc_userdata)NC_USERDATA_INIT;
}

static bool is_base64_char(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '+'
           || c == '/' || c == '=';
}

/* How many characters of base64 the text holds; 0 where it holds anything else but white space. */
static size_t base64_length(const char *data, size_t n) {
    size_t count = 0;

    for (size_t i = 0; i < n; i++) {
        if (is_base64_char(data[i]))
            count++;
        else if (data[i] != '\n' && data[i] != '\r' && data[i] != ' ' && data[i] != '\t')
            return 0;
    }
    return count;
}

bool nc_userdata_is_base64(const char *data, size_t n) {
    return base64_length(data, n) >= MIN_BASE64;
}

/* 1: data was base64, decoded into out. 0: it is not base64. Error: it is, but damaged. */
static int peel_base64(const char *data, size_t n, struct nc_buf *out, struct nc_err *err) {
    size_t length = base64_length(data, n);

    if (length == 0)
        return 0;
    if (length % 4 == 0 && nc_base64_decode(data, n, out) == 0 && out->len > 0)
        return 1;
    nc_buf_clear(out);
    if (length < MIN_BASE64)
        return 0;
    return nc_err_set(err, NC_ERR_CONFIG, EBADMSG,
                      "looks like base64, but is cut off or damaged after %zu characters", length);
}

struct walk {
    struct nc_userdata *result;
    size_t budget; /* bytes that gzip may still produce */
    struct nc_err *err;
};

/* Takes one layer off: 1, and the text is what was in it, of line 1, in `room`. 0: there is none.
 */
static int peel_one(struct walk *w, struct nc_text *text, struct nc_buf *room) {
    nc_cleanup(nc_buf_done_secret) struct nc_buf out = NC_BUF_INIT_MAX(text->n + 1);
    int r = peel_base64(text->data, text->n, &out, w->err);

    if (r == 0 && nc_is_gzip(text->data, text->n)) {
        out.max = w->budget > 0 ? w->budget : 1;
        if (nc_gunzip(text->data, text->n, &out, w->err) < 0)
            return -EBADMSG;
        w->budget -= out.len;
        r = 1;
    }
    if (r <= 0)
        return r;
    nc_buf_done_secret(room);
    *room = out;
    out = (struct nc_buf)NC_BUF_INIT;
    *text = (struct nc_text){.data = room->data ? room->data : "", .n = room->len, .line = 1};
    return 1;
}

/* base64, gzip and a byte order mark, as far as they are there. */
static int peel(struct walk *w, struct nc_text *text, struct nc_buf *room) {
    int r = 1;

    for (unsigned depth = 0; r > 0; depth++) {
        if (depth > MAX_NESTING)
            return nc_err_set(w->err, NC_ERR_CONFIG, E2BIG,
                              "base64 or gzip within one another more than %u deep", MAX_NESTING);
        *text = nc_skip_mark(*text);
        r = peel_one(w, text, room);
    }
    return r;
}

static void push(struct walk *w, const char *name, const char *type, struct nc_text text) {
    struct nc_userdata_part *p = nc_append(&w->result->parts, &w->result->n);

    p->name = nc_strdup(name);
    p->content_type = nc_strdup(type);
    p->data = nc_malloc(text.n + 1);
    if (text.n > 0)
        memcpy(p->data, text.data, text.n);
    p->data[text.n] = '\0';
    p->n = text.n;
    p->line = text.line;
}

static int walk_part(struct walk *w, const struct nc_mime_header *h, struct nc_text body,
                     const char *label, unsigned depth);

/* What two closing lines leave behind the first: neither we nor cloud-init read it. */
static void note_lost(struct walk *w, struct nc_mime_cursor *cursor) {
    struct nc_text rest = {0};

    while (w->result->n_lost < NC_USERDATA_MAX_PARTS && nc_mime_next_lost(cursor, &rest)) {
        nc_cleanup(nc_mime_header_done) struct nc_mime_header h = NC_MIME_HEADER_INIT;
        nc_auto_free char *quoted = nc_quote_string(cursor->boundary);
        const bool is_typed = nc_mime_header_parse(rest, false, &h, NULL) == 0 && h.type[0];
        struct nc_lost_part *lost = nc_append(&w->result->lost, &w->result->n_lost);

        lost->line = rest.line;
        lost->message =
            nc_asprintf("%s%s is lost: the closing line of boundary %s stands before it",
                        is_typed ? "a part of type " : "text", is_typed ? h.type : "", quoted);
    }
}

/* Every part of a multipart body. `label` is "" for the outermost one, "2" for what is inside of
 * its part 2. */
static int walk_multipart(struct walk *w, const char *boundary, struct nc_text body,
                          const char *label, unsigned depth) {
    struct nc_mime_cursor cursor = {.text = body, .boundary = boundary};
    struct nc_text part = {0};
    int r = 0;

    if (depth > MAX_NESTING)
        return nc_err_set(w->err, NC_ERR_CONFIG, E2BIG,
                          "multipart within multipart more than %u deep", MAX_NESTING);
    while ((r = nc_mime_next(&cursor, &part, w->err)) > 0) {
        nc_cleanup(nc_mime_header_done) struct nc_mime_header h = NC_MIME_HEADER_INIT;
        nc_auto_free char *inner = nc_asprintf("%s%s%u", label, label[0] ? "." : "", cursor.parts);

        r = nc_mime_header_parse(part, true, &h, w->err);
        if (r >= 0 && h.is_open && part.n > 0)
            r = nc_err_set(w->err, NC_ERR_CONFIG, EBADMSG, "line %u: no empty line ends its header",
                           part.line);
        if (r >= 0)
            r = walk_part(w, &h, nc_mime_body(part, &h), inner, depth + 1);
        if (r < 0) {
            nc_err_wrap(w->err, "part %s", inner);
            return r;
        }
    }
    if (r == 0)
        note_lost(w, &cursor);
    return r;
}

static int transfer_failed(struct walk *w, const char *encoding, int r) {
    nc_auto_free char *quoted = nc_quote_string(encoding);

    if (r == -ENOTSUP)
        return nc_err_set(w->err, NC_ERR_CONFIG, ENOTSUP,
                          "Content-Transfer-Encoding %s is not known: use 7bit, 8bit, binary, "
                          "base64 or quoted-printable",
                          quoted);
    return nc_err_set(w->err, NC_ERR_CONFIG, EBADMSG,
                      "its body is not valid %s: cut off or damaged", quoted);
}

static int walk_part(struct walk *w, const struct nc_mime_header *h, struct nc_text body,
                     const char *label, unsigned depth) {
    nc_cleanup(nc_buf_done_secret) struct nc_buf plain =
        NC_BUF_INIT_MAX(body.n + 1); /* no transfer encoding expands */
    nc_cleanup(nc_buf_done_secret) struct nc_buf peeled = NC_BUF_INIT;
    const char *type = h->type[0] ? h->type : "text/plain";
    bool is_multipart = nc_starts_with(type, "multipart/");
    nc_auto_free char *name = nc_asprintf("part %s (%s)", label, type);
    int r = 0;

    if (w->result->n >= NC_USERDATA_MAX_PARTS)
        return nc_err_set(w->err, NC_ERR_CONFIG, E2BIG, "more than %d parts",
                          NC_USERDATA_MAX_PARTS);
    if (!is_multipart && !nc_is_one_of(type, our_types)) {
        push(w, name, type, body);
        return 0;
    }
    /* A multipart is read as it stands, whatever its header says: RFC 2045 6.4 lets it have no
     * encoding that changes anything, and neither Go nor Python undoes one. */
    r = nc_mime_transfer_decode(h->encoding, body.data, is_multipart ? 0 : body.n, &plain);
    if (r < 0)
        return transfer_failed(w, h->encoding, r);
    if (is_multipart) {
        if (!h->boundary || !h->boundary[0] || strlen(h->boundary) > NC_MIME_MAX_BOUNDARY)
            return nc_err_set(w->err, NC_ERR_CONFIG, EBADMSG, "%s without a usable boundary", type);
        return walk_multipart(w, h->boundary, body, depth == 0 ? "" : label, depth);
    }
    if (plain.len != body.n || (body.n > 0 && memcmp(plain.data, body.data, body.n) != 0))
        body.line = 1;
    body.data = plain.data ? plain.data : "";
    body.n = plain.len;
    r = peel(w, &body, &peeled);
    if (r < 0)
        return r;
    push(w, name, type, body);
    return 0;
}

/* Leading empty lines belong to nobody: here-documents of scripts that write user data leave them.
 */
static struct nc_text skip_empty_lines(struct nc_text t) {
    while (t.n > 0 && (t.data[0] == '\n' || (t.n > 1 && t.data[0] == '\r' && t.data[1] == '\n'))) {
        const size_t n = t.data[0] == '\r' ? 2 : 1;
        t = (struct nc_text){.data = t.data + n, .n = t.n - n, .line = t.line + 1};
    }
    return t;
}

static int decode(struct walk *w, const char *data, size_t n) {
    nc_cleanup(nc_buf_done_secret) struct nc_buf peeled = NC_BUF_INIT;
    nc_cleanup(nc_mime_header_done) struct nc_mime_header h = NC_MIME_HEADER_INIT;
    struct nc_text all = {.data = data, .n = n, .line = 1}, text;
    int r = peel(w, &all, &peeled);

    if (r < 0)
        return r;
    text = skip_empty_lines(all);
    r = nc_mime_header_parse(text, false, &h, w->err);
    if (r < 0)
        return r;
    if (!h.is_mime) {
        push(w, "", "", all);
        return 0;
    }
    if (h.is_open)
        return nc_err_set(w->err, NC_ERR_CONFIG, EBADMSG,
                          "MIME, cut off inside its header: no empty line ends it");
    return walk_part(w, &h, nc_mime_body(text, &h), "1", 0);
}

int nc_userdata_decode(const char *data, size_t n, struct nc_userdata *ret, struct nc_err *err) {
    nc_cleanup(nc_userdata_done) struct nc_userdata result = NC_USERDATA_INIT;
    struct walk w = {.result = &result, .budget = NC_USERDATA_MAX_INFLATED, .err = err};
    int r = 0;

    if (n > NC_USERDATA_MAX_RAW) {
        r = nc_err_set(err, NC_ERR_CONFIG, EFBIG, "%zu bytes of user data, EC2 allows %zu", n,
                       NC_USERDATA_MAX_RAW);
        nc_err_remedy(err, "shorten it, or compress it with gzip");
        return r;
    }
    r = n > 0 ? decode(&w, data, n) : 0;
    if (r < 0) {
        nc_err_remedy(
            err, "check what the launch template or the EC2NodeClass really sends as user data");
        return r;
    }
    *ret = result;
    result = (struct nc_userdata)NC_USERDATA_INIT;
    return 0;
}

/* The first words of what cloud-init takes for itself. */
static const struct {
    char start[16], what[26];
} foreign_starts[] = {
    {"#!", "a shell script"},
    {"#cloud-config", "a cloud-config"},
    {"#cloud-boothook", "a cloud-init boot hook"},
    {"#include", "a cloud-init include list"},
    {"#part-handler", "a cloud-init part handler"},
    {"## template:", "a cloud-init template"},
    {"[settings", "settings of Bottlerocket"},
    {"<powershell>", "a PowerShell script"},
};

static const char *after_mark(const char *text) {
    return nc_starts_with(text, NC_BYTE_ORDER_MARK) ? text + strlen(NC_BYTE_ORDER_MARK) : text;
}

static const char *first_token(const struct nc_userdata_part *p) {
    const char *text = after_mark(p->data);

    return text + strspn(text, " \t\r\n");
}

static const char *foreign_start(const struct nc_userdata_part *p) {
    const char *s = first_token(p);

    for (size_t i = 0; i < NC_ARRAY_SIZE(foreign_starts); i++)
        if (nc_starts_with(s, foreign_starts[i].start))
            return foreign_starts[i].what;
    return NULL;
}

/* Does any line begin with "key:", plain or quoted? */
static bool has_key(const char *text, const char *key) {
    size_t n = strlen(key);

    for (const char *line = text; line; line = strchr(line, '\n')) {
        if (*line == '\n')
            line++;

        const char *p = line + strspn(line, "{ \t\"'");

        if (strncmp(p, key, n) == 0 && p[n + strspn(p + n, "\"' \t")] == ':')
            return true;
    }
    return false;
}

int nc_userdata_part_is_ours(const struct nc_userdata_part *p) {
    if (p->content_type[0])
        return nc_is_one_of(p->content_type, our_types);
    if (!nc_is_text(p->data, p->n) || foreign_start(p))
        return 0;
    /* One line of JSON has its keys in any order. */
    if (*first_token(p) == '{')
        return strstr(p->data, "\"apiVersion\"") != NULL;
    return has_key(after_mark(p->data), "apiVersion");
}

int nc_userdata_part_is_script(const struct nc_userdata_part *p) {
    if (p->content_type[0] && !nc_streq(p->content_type, "text/plain"))
        return nc_starts_with(p->content_type, "text/x-shellscript");
    return nc_is_text(p->data, p->n) && nc_starts_with(first_token(p), "#!");
}

bool nc_userdata_part_is_mistyped(const struct nc_userdata_part *p) {
    return p->content_type[0] && !nc_is_one_of(p->content_type, our_types)
           && !nc_userdata_part_is_script(p) && nc_is_text(p->data, p->n) && !foreign_start(p)
           && has_key(after_mark(p->data), "apiVersion")
           && (strstr(p->data, "nodeclaimd.io/v1") || strstr(p->data, "node.eks.aws/v1"));
}

char *nc_userdata_describe(const struct nc_userdata_part *p) {
    const char *what = foreign_start(p);

    if (p->n == 0)
        return nc_strdup("nothing");
    if (!what && !nc_is_text(p->data, p->n))
        return nc_asprintf("%zu bytes of binary data", p->n);
    if (p->content_type[0])
        return what ? nc_asprintf("%s of type %s", what, p->content_type)
                    : nc_asprintf("a part of type %s", p->content_type);
    return nc_strdup(what ? what : "text without an apiVersion");
}
