/*
 * What announces an ending: any bytes either become a notice whose texts end and print, or are
 * refused as the peer's fault with the notice untouched. The first byte chooses the reader.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "nc/notice.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static int read_body(uint8_t which, const char *body, size_t n, struct nc_notice *ret,
                     struct nc_err *err) {
    static const enum nc_source polled[] = {NC_SOURCE_SPOT, NC_SOURCE_REBALANCE,
                                            NC_SOURCE_MAINTENANCE, NC_SOURCE_AUTOSCALING};

    static const struct nc_drain_settings rules = {
        .policy = {[NC_SOURCE_MAINTENANCE] = NC_POLICY_DRAIN}};

    switch (which % 6) {
    default:
        return nc_notice_read(
            &(struct nc_notice_answer){.source = polled[which % 6],
                                       .body = &(struct nc_buf){.data = (char *)body, .len = n},
                                       .now_usec = 1767323045000000,
                                       .rules = &rules},
            ret, err);
    case 4:
        return nc_notice_read_request(body, n, NC_SOURCE_REQUEST, ret, err);
    case 5:
        return nc_notice_read_request(body, n, NC_SOURCE_OPERATOR, ret, err);
    }
}

static void check_text(const char *text, size_t size) {
    const size_t n = strnlen(text, size);

    if (n == size)
        abort();
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)text[i] < 0x20 || text[i] == 0x7f)
            abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    struct nc_notice notice = {.id = "untouched"};
    struct nc_err err = NC_ERR_INIT;

    if (n == 0)
        return 0;
    const int r = read_body(data[0], (const char *)data + 1, n - 1, &notice, &err);
    if (r > 1 || (r < 0 && err.class != NC_ERR_PROTOCOL))
        abort();
    if (r <= 0 && strcmp(notice.id, "untouched") != 0)
        abort();
    if (r == 1
        && (!notice.id[0] || (notice.deadline_usec && notice.begin_usec > notice.deadline_usec)))
        abort();
    check_text(notice.id, sizeof(notice.id));
    check_text(notice.action, sizeof(notice.action));
    if (data[0] % 6 < 4)
        check_text(notice.reason, sizeof(notice.reason));
    return 0;
}
