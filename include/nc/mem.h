/*
 * Memory: allocation that never returns NULL, cleanup attributes, and a growable byte buffer with a
 * cap.
 *
 * Running out of memory aborts: every external input is capped before anything is allocated for it,
 * and all state can be derived again after a restart, so a restart by systemd is the safe answer.
 */
#ifndef NC_MEM_H
#define NC_MEM_H

#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

void *nc_malloc(size_t n) __attribute__((malloc));
void *nc_calloc(size_t n, size_t size) __attribute__((malloc));
void *nc_realloc_array(void *p, size_t n, size_t size); /* overflow of n * size aborts */
char *nc_strdup(const char *s);                         /* NULL in, NULL out */
/* *to, owned, becomes a copy of `text`, which may be a part of it; NULL = none. */
void nc_replace_text(char **to, const char *text);
char *nc_strndup(const char *s, size_t n);
char *nc_asprintf(const char *format, ...) __attribute__((format(printf, 1, 2)));
char *nc_vasprintf(const char *format, va_list ap) __attribute__((format(printf, 1, 0)));

/* Inlined whatever the compiler thinks of it: a local whose address is taken could be no register.
 */
__attribute__((always_inline)) static inline void nc_freep(void *p) {
    free(*(void **)p);
}

/* Frees the n texts that a struct has at these offsets. */
void nc_free_texts(void *of, const unsigned short *offsets, size_t n);

/* An owning local: freed at the end of its scope. Transfer with nc_steal(). */
#define nc_auto_free __attribute__((cleanup(nc_freep)))
#define nc_cleanup(f) __attribute__((cleanup(f)))
#define nc_steal(p)                                                                                \
    ({                                                                                             \
        __typeof__(*(p)) *_pp = (p);                                                               \
        __typeof__(*(p)) _v = *_pp;                                                                \
        *_pp = NULL;                                                                               \
        _v;                                                                                        \
    })
#define NC_ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

/* Appends one element's room to a growing array of `*n` elements and returns the zeroed element.
 * Growth is geometric by powers of two of n; the array is realloc'ed. `p` is the address of the
 * array pointer. */
#define nc_append(p, n) ((__typeof__(*(p)))nc_append_zeroed((p), (n), sizeof(**(p))))
void *nc_append_zeroed(void *p, size_t *n, size_t size);
void *nc_grow(void *p, size_t n, size_t size);

/* A growable byte buffer. data is always NUL-terminated after the first append (the NUL is not
 * counted in len). max is a hard cap in bytes: 0 means NC_BUF_DEFAULT_MAX. */
struct nc_buf {
    char *data;
    size_t len;
    size_t room;
    size_t max;
};

#define NC_BUF_INIT                                                                                \
    { 0 }
#define NC_BUF_INIT_MAX(m)                                                                         \
    { .max = (m) }
#define NC_BUF_DEFAULT_MAX ((size_t)64 << 20)

/* All return 0, or -EFBIG where the cap would be passed: the buffer then keeps what it had. */
int nc_buf_add(struct nc_buf *b, const void *data, size_t n);
int nc_buf_puts(struct nc_buf *b, const char *s);
int nc_buf_putc(struct nc_buf *b, char c);
int nc_buf_printf(struct nc_buf *b, const char *format, ...) __attribute__((format(printf, 2, 3)));
void nc_buf_clear(struct nc_buf *b);       /* keeps the room */
void nc_buf_done(struct nc_buf *b);        /* frees; the buffer can be used again */
void nc_buf_done_secret(struct nc_buf *b); /* wipes all of the room, then frees */
char *nc_buf_steal(struct nc_buf *b);      /* never NULL: an empty buffer gives "" */

/* Wipes and frees a NUL-terminated secret. NULL is allowed. */
void nc_secret_free(char *s);
static inline void nc_secret_freep(char **s) {
    nc_secret_free(*s);
}

/* For a library that wipes nothing of its own: free() and realloc() that leave no old bytes behind.
 * The second returns NULL where memory has run out. */
void nc_free_wiped(void *p);
void *nc_realloc_wiped(void *p, size_t size);

/* An array of owned strings, NULL-terminated after the first append. */
struct nc_strv {
    char **v;
    size_t n;
};

#define NC_STRV_INIT                                                                               \
    { 0 }
void nc_strv_add(struct nc_strv *s, const char *text);
void nc_strv_add_once(struct nc_strv *s, const char *text); /* unless it is there */
void nc_strv_push(struct nc_strv *s, char *text);           /* takes ownership */
void nc_strv_addf(struct nc_strv *s, const char *format, ...) __attribute__((format(printf, 2, 3)));
int nc_strv_contains(const struct nc_strv *s, const char *text);
void nc_strv_done(struct nc_strv *s);

#endif
