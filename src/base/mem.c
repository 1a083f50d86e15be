/*
 * Memory that is there or the process is not, the byte buffer, and the string array.
 *
 * A buffer never leaves its old bytes behind when it grows, because it may hold a token: the old
 * block is wiped before it is freed. No function here returns NULL where the header does not say
 * so.
 */
#include "nc/mem.h"

#include <errno.h>
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>

#define BUF_FIRST_ROOM 64

static _Noreturn void out_of_memory(void) {
    fputs("out of memory\n", stderr);
    abort();
}

static void *must(void *p) {
    if (!p)
        out_of_memory();
    return p;
}

void *nc_malloc(size_t n) {
    return must(malloc(n ? n : 1));
}

void *nc_calloc(size_t n, size_t size) {
    return must(calloc(n ? n : 1, size ? size : 1));
}

void *nc_realloc_array(void *p, size_t n, size_t size) {
    return must(reallocarray(p, n ? n : 1, size ? size : 1));
}

void nc_free_texts(void *of, const unsigned short *offsets, size_t n) {
    for (size_t i = 0; i < n; i++)
        free(*(char **)((char *)of + offsets[i]));
}

char *nc_strdup(const char *s) {
    return s ? must(strdup(s)) : NULL;
}

void nc_replace_text(char **to, const char *text) {
    char *was = *to;

    *to = nc_strdup(text);
    free(was);
}

/* Not strndup(): s is a slice more often than a string, and the strict checks of a sanitizer want a
 * NUL in that. */
char *nc_strndup(const char *s, size_t n) {
    const char *end = n ? memchr(s, '\0', n) : NULL;
    const size_t length = end ? (size_t)(end - s) : n;
    char *copy = nc_malloc(length + 1);

    if (length)
        memcpy(copy, s, length);
    copy[length] = '\0';
    return copy;
}

char *nc_vasprintf(const char *format, va_list ap) {
    char *s;

    if (vasprintf(&s, format, ap) < 0)
        out_of_memory();
    return s;
}

char *nc_asprintf(const char *format, ...) {
    va_list ap;

    va_start(ap, format);
    char *s = nc_vasprintf(format, ap);
    va_end(ap);
    return s;
}

void *nc_grow(void *p, size_t n, size_t size) {
    if ((n & (n - 1)) != 0) /* neither 0 nor a power of two: there is room left */
        return p;
    if (n > SIZE_MAX / 2)
        out_of_memory();
    return nc_realloc_array(p, n ? 2 * n : 1, size);
}

/* Pointers of all types come here, so the one at p is copied as bytes. */
void *nc_append_zeroed(void *p, size_t *n, size_t size) {
    char *array;

    memcpy(&array, p, sizeof(array));
    array = nc_grow(array, *n, size);
    memcpy(p, &array, sizeof(array));
    return memset(array + (*n)++ * size, 0, size);
}

/* Room for n more bytes and the NUL, or -EFBIG. */
static int buf_reserve(struct nc_buf *b, size_t n) {
    const size_t cap = b->max ? b->max : NC_BUF_DEFAULT_MAX;

    if (b->len > cap || n > cap - b->len || cap == SIZE_MAX)
        return -EFBIG;
    const size_t need = b->len + n + 1;
    if (need <= b->room)
        return 0;
    size_t room = b->room ? b->room : BUF_FIRST_ROOM;
    while (room < need)
        room = room > SIZE_MAX / 2 ? need : 2 * room;
    if (room > cap + 1)
        room = cap + 1;
    char *data = nc_malloc(room);
    if (b->data) {
        memcpy(data, b->data, b->len);
        explicit_bzero(b->data, b->room);
        free(b->data);
    }
    b->data = data;
    b->room = room;
    return 0;
}

int nc_buf_add(struct nc_buf *b, const void *data, size_t n) {
    const int r = buf_reserve(b, n);

    if (r < 0)
        return r;
    if (n)
        memcpy(b->data + b->len, data, n);
    b->len += n;
    b->data[b->len] = '\0';
    return 0;
}

int nc_buf_puts(struct nc_buf *b, const char *s) {
    return nc_buf_add(b, s, strlen(s));
}

int nc_buf_putc(struct nc_buf *b, char c) {
    return nc_buf_add(b, &c, 1);
}

int nc_buf_printf(struct nc_buf *b, const char *format, ...) {
    va_list ap;

    va_start(ap, format);
    char *s = nc_vasprintf(format, ap);
    va_end(ap);
    const size_t n = strlen(s);
    const int r = nc_buf_add(b, s, n);
    explicit_bzero(s, n);
    free(s);
    return r;
}

void nc_buf_clear(struct nc_buf *b) {
    b->len = 0;
    if (b->data)
        b->data[0] = '\0';
}

void nc_buf_done(struct nc_buf *b) {
    free(b->data);
    b->data = NULL;
    b->len = b->room = 0;
}

void nc_buf_done_secret(struct nc_buf *b) {
    if (b->data)
        explicit_bzero(b->data, b->room);
    nc_buf_done(b);
}

char *nc_buf_steal(struct nc_buf *b) {
    char *data = b->data ? b->data : nc_strdup("");

    b->data = NULL;
    b->len = b->room = 0;
    return data;
}

void nc_secret_free(char *s) {
    if (s)
        explicit_bzero(s, strlen(s));
    free(s);
}

void nc_free_wiped(void *p) {
    if (p)
        explicit_bzero(p, malloc_usable_size(p));
    free(p);
}

/* libc's own may move a block and leave the old one as it is. */
void *nc_realloc_wiped(void *p, size_t size) {
    const size_t old = p ? malloc_usable_size(p) : 0;
    void *q = malloc(size);

    if (!q)
        return NULL;
    if (p)
        memcpy(q, p, old < size ? old : size);
    nc_free_wiped(p);
    return q;
}

void nc_strv_push(struct nc_strv *s, char *text) {
    s->v = nc_grow(s->v, s->n + 1, sizeof(*s->v));
    s->v[s->n++] = text;
    s->v[s->n] = NULL;
}

void nc_strv_add(struct nc_strv *s, const char *text) {
    nc_strv_push(s, nc_strdup(text));
}

void nc_strv_add_once(struct nc_strv *s, const char *text) {
    if (!nc_strv_contains(s, text))
        nc_strv_add(s, text);
}

void nc_strv_addf(struct nc_strv *s, const char *format, ...) {
    va_list ap;

    va_start(ap, format);
    nc_strv_push(s, nc_vasprintf(format, ap));
    va_end(ap);
}

int nc_strv_contains(const struct nc_strv *s, const char *text) {
    for (size_t i = 0; i < s->n; i++)
        if (strcmp(s->v[i], text) == 0)
            return 1;
    return 0;
}

void nc_strv_done(struct nc_strv *s) {
    for (size_t i = 0; i < s->n; i++)
        free(s->v[i]);
    free(s->v);
    s->v = NULL;
    s->n = 0;
}
