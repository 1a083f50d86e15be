/*
 * reader-differ READER: our half of a comparison with an independent reader of the same texts.
 *
 * Reads lines of tab-separated fields in hexadecimal and answers each with one line (differ.h). The
 * other halves are tests/conformance/components/readers (Go, botocore), components/judge (kubelet),
 * components/nodeclass (Karpenter), tests/integration/test_json_differ.py and test_mime_differ.py
 * (Python).
 */
#include <stdio.h>
#include <string.h>

#include "differ.h"

static const struct {
    const char *name;
    differ_reader *read;
    unsigned fields;
} readers[] = {
    {"quantity", differ_quantity, 1},
    {"milli", differ_milli, 1},
    {"bytes", differ_bytes, 1},
    {"duration", differ_duration, 1},
    {"microseconds", differ_microseconds, 1},
    {"time", differ_time, 1},
    {"base64", differ_base64, 1},
    {"gzip", differ_gzip, 1},
    {"label", differ_label, 2},
    {"node-labels", differ_node_labels, 1},
    {"taints", differ_taints, 1},
    {"json", differ_json, 1},
    {"thin", differ_thin, 2},
    {"yaml", differ_yaml, 1},
    {"toml", differ_toml, 1},
    {"mime", differ_mime, 1},
    {"presign", differ_presign, 12},
    {"headers", differ_headers, 12},
    {"kubelet", differ_kubelet, 4},
    {"containerd", differ_containerd, 4},
    {"node-class", differ_node_class, 2},
};

void differ_put_hex(struct nc_buf *out, const char *data, size_t n) {
    static const char digits[] = "0123456789abcdef";

    for (size_t i = 0; i < n; i++) {
        (void)nc_buf_putc(out, digits[(unsigned char)data[i] >> 4]);
        (void)nc_buf_putc(out, digits[(unsigned char)data[i] & 15]);
    }
}

void differ_refuse(struct nc_buf *out, const struct nc_err *err) {
    (void)nc_buf_printf(out, "refused %s", err->msg);
}

static int digit(char c) {
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* In place; -1 where it is no hexadecimal. */
static int decode(char *text, struct differ_field *ret) {
    const size_t n = strlen(text);

    *ret = (struct differ_field){.text = NULL};
    if (strcmp(text, "-") == 0)
        return 0;
    for (size_t i = 0; i < n; i += 2) {
        const int high = digit(text[i]), low = digit(text[i + 1]);
        if (high < 0 || low < 0)
            return -1;
        text[i / 2] = (char)(high * 16 + low);
    }
    text[n / 2] = '\0';
    *ret = (struct differ_field){.text = text, .n = n / 2};
    return 0;
}

/* The fields of a line; -1 where there are not so many. */
static int split(char *line, unsigned fields, struct differ_field ret[static DIFFER_MAX_FIELDS]) {
    char *rest = line;

    line[strcspn(line, "\n")] = '\0';
    for (unsigned i = 0; i < fields; i++) {
        char *field = strsep(&rest, "\t");
        if (!field || decode(field, &ret[i]) < 0)
            return -1;
    }
    return rest ? -1 : 0;
}

/* A message may quote anything but must stay on its line. */
static void answer(struct nc_buf *out) {
    for (size_t i = 0; i < out->len; i++)
        if ((unsigned char)out->data[i] < 0x20)
            out->data[i] = ' ';
    puts(out->data ? out->data : "");
}

int main(int argc, char **argv) {
    nc_cleanup(nc_buf_done) struct nc_buf out = NC_BUF_INIT;
    nc_auto_free char *line = NULL;
    struct differ_field fields[DIFFER_MAX_FIELDS];
    size_t room = 0, r = 0;

    while (r < NC_ARRAY_SIZE(readers) && (argc != 2 || strcmp(argv[1], readers[r].name) != 0))
        r++;
    if (r == NC_ARRAY_SIZE(readers)) {
        fprintf(stderr, "usage: reader-differ READER\n");
        return 2;
    }
    while (getline(&line, &room, stdin) > 0) {
        if (split(line, readers[r].fields, fields) < 0) {
            fprintf(stderr, "reader-differ: a line cannot be read\n");
            return 2;
        }
        nc_buf_clear(&out);
        readers[r].read(fields, &out);
        answer(&out);
    }
    return 0;
}
