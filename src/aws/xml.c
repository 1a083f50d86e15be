/*
 * What EC2 and STS answer, through libexpat: the path and the text of each element that ends.
 *
 * libexpat checks form and encoding. The caps and the refusal of a document type are here.
 */
#include "xml.h"

#include <errno.h>
#include <expat.h>
#include <limits.h>

struct reader {
    XML_Parser parser;
    nc_xml_fn element;
    void *user;
    struct nc_err *err;
    struct nc_buf path, text;
    unsigned depth;
    int r; /* negative: the reading was stopped */
};

static void stop(struct reader *x, int r) {
    x->r = r;
    (void)XML_StopParser(x->parser, XML_FALSE);
}

static int refuse(struct reader *x, const char *what) {
    const XML_Index at = XML_GetCurrentByteIndex(x->parser); /* negative: nothing was read */

    return nc_err_protocol(x->err, "XML: byte %lld: %s", at < 0 ? 0LL : (long long)at, what);
}

static void on_start(void *user, const char *name, const char **attributes) {
    struct reader *x = user;

    nc_buf_clear(&x->text);
    if (strlen(name) > NC_XML_MAX_NAME) {
        stop(x, refuse(x, "the name of an element is too long"));
        return;
    }
    if (x->depth == NC_XML_MAX_DEPTH) {
        stop(x, refuse(x, "elements nested too deeply"));
        return;
    }
    nc_buf_printf(&x->path, "%s%s", x->depth++ > 0 ? "/" : "", name);
}

static void on_text(void *user, const char *s, int n) {
    struct reader *x = user;

    if (nc_buf_add(&x->text, s, (size_t)n) < 0)
        stop(x, refuse(x, "too much text in one element"));
}

static void on_end(void *user, const char *name) {
    struct reader *x = user;
    const struct nc_xml element = {x->path.data, x->text.data ? x->text.data : ""};

    if (x->r < 0) /* "<a/>": its end is still reported where its start was refused */
        return;
    const int r = x->element(x->user, &element, x->err);
    if (r < 0)
        stop(x, r);
    x->path.len -= strlen(name) + (--x->depth > 0 ? 1 : 0);
    x->path.data[x->path.len] = '\0';
    nc_buf_clear(&x->text);
}

static void on_doctype(void *user, const char *name, const char *system_id, const char *public_id,
                       int has_internal) {
    struct reader *x = user;
    (void)name, (void)system_id, (void)public_id, (void)has_internal;

    stop(x, refuse(x, "a document type"));
}

int nc_xml_read(const char *data, size_t n, nc_xml_fn element, void *user, struct nc_err *err) {
    static const XML_Memory_Handling_Suite memory = {malloc, nc_realloc_wiped, nc_free_wiped};
    struct reader x = {
        .parser = XML_ParserCreate_MM("UTF-8", &memory, NULL),
        .element = element,
        .user = user,
        .err = err,
        .path = {.max = NC_XML_MAX_DEPTH * (NC_XML_MAX_NAME + 1)},
        .text = {.max = NC_XML_MAX_TEXT},
    };

    if (!x.parser)
        abort();
    XML_SetUserData(x.parser, &x);
    XML_SetElementHandler(x.parser, on_start, on_end);
    XML_SetCharacterDataHandler(x.parser, on_text);
    XML_SetStartDoctypeDeclHandler(x.parser, on_doctype);
    if (n > INT_MAX)
        x.r = refuse(&x, "too long");
    else if (XML_Parse(x.parser, data, (int)n, XML_TRUE) != XML_STATUS_OK && x.r == 0)
        x.r = refuse(&x, XML_ErrorString(XML_GetErrorCode(x.parser)));
    XML_ParserFree(x.parser);
    nc_buf_done(&x.path);
    nc_buf_done_secret(&x.text);
    return x.r;
}
