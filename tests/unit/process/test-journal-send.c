/*
 * One entry for the journal. A socket of the test's own replaces journald's: what comes to it,
 * and what is said where it is gone, full, or the entry too large for a datagram.
 */
#include "base-test.h"
#include "groups.h"

#include <endian.h>
#include <errno.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "log.h"

#define JOURNAL_SOCKET "/run/systemd/journal/socket"
#define MANY 20000u      /* entries: more than any socket holds */
#define PATIENCE_SEC 60u /* a send that waits would wait for ever */

static char folder[] = "/tmp/nc-test-journal-send.XXXXXX";
static struct sockaddr_un address = {.sun_family = AF_UNIX};
static int journald = -1;

/* In the place of libc's: what is meant for journald goes to the test's socket. */
ssize_t sendto(int fd, const void *data, size_t n, int flags, const struct sockaddr *to,
               socklen_t size) {
    const struct sockaddr_un *asked = (const struct sockaddr_un *)to;

    assert_int_equal(size, sizeof(*asked));
    assert_int_equal(asked->sun_family, AF_UNIX);
    assert_string_equal(asked->sun_path, JOURNAL_SOCKET);
    return syscall(SYS_sendto, fd, data, n, flags, &address, sizeof(address));
}

static int make_folder(void **state) {
    (void)state;
    (void)alarm(PATIENCE_SEC);
    if (!mkdtemp(folder))
        return -1;
    (void)snprintf(address.sun_path, sizeof(address.sun_path), "%s/socket", folder);
    return 0;
}

static int remove_folder(void **state) {
    (void)state;
    return rmdir(folder);
}

static void start(void) {
    journald = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    assert_true(journald >= 0);
    assert_int_equal(bind(journald, (const struct sockaddr *)&address, sizeof(address)), 0);
}

/* It ends, and its socket stays in the file system. */
static void die(void) {
    assert_int_equal(close(journald), 0);
    journald = -1;
}

static void start_again(void) {
    assert_int_equal(unlink(address.sun_path), 0);
    start();
}

static int begin(void **state) {
    (void)state;
    start();
    return 0;
}

static int end(void **state) {
    (void)state;
    if (journald >= 0)
        (void)close(journald);
    journald = -1;
    (void)unlink(address.sun_path);
    return 0;
}

/* The datagram that came first; false where there is none. */
static bool take(struct nc_buf *entry) {
    char data[4096];
    const ssize_t n = recv(journald, data, sizeof(data), MSG_TRUNC);

    nc_buf_clear(entry);
    if (n < 0)
        assert_int_equal(errno, EAGAIN);
    else
        assert_true((size_t)n <= sizeof(data) && nc_buf_add(entry, data, (size_t)n) == 0);
    return n >= 0;
}

static void assert_next(const char *expected) {
    nc_cleanup(nc_buf_done) struct nc_buf entry = NC_BUF_INIT;

    assert_true(take(&entry));
    assert_int_equal(entry.len, strlen(expected));
    assert_string_equal(entry.data, expected);
}

static void assert_nothing_more(void) {
    nc_cleanup(nc_buf_done) struct nc_buf entry = NC_BUF_INIT;

    assert_false(take(&entry));
}

static void assert_missing(unsigned n) {
    nc_auto_free char *expected =
        nc_asprintf("MESSAGE=%u lines are missing here: journald did not read\n"
                    "PRIORITY=4\n"
                    "SYSLOG_IDENTIFIER=test-program\n",
                    n);

    assert_next(expected);
}

static int send_text(const char *text) {
    nc_cleanup(nc_buf_done) struct nc_buf entry = NC_BUF_INIT;

    nc_journal_add_field(&entry, "MESSAGE", text);
    return nc_journal_send(&entry, "test-program");
}

/* Sends until the socket is full and some more are lost; how many were taken. */
static unsigned fill(void) {
    nc_cleanup(nc_buf_done) struct nc_buf entry = NC_BUF_INIT;
    unsigned n = 0;

    for (unsigned i = 0; i < MANY; i++)
        assert_int_equal(send_text("one of many"), 0);
    while (take(&entry)) {
        assert_string_equal(entry.data, "MESSAGE=one of many\n");
        n++;
    }
    assert_in_range(n, 1, MANY - 1);
    return n;
}

/* --- fields */

static void test_fields(void **state) {
    static const struct {
        const char *value, *expected;
    } rows[] = {
        {"all is well", "F=all is well\n"},
        {"", "F=\n"},
        {"a=b", "F=a=b\n"},
    };

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++) {
        nc_cleanup(nc_buf_done) struct nc_buf entry = NC_BUF_INIT;
        nc_journal_add_field(&entry, "F", rows[i].value);
        assert_string_equal(entry.data, rows[i].expected);
    }
}

/* Else the second line would be a field of its own: whoever words the first could forge it. */
static void test_lines(void **state) {
    static const char value[] = "first\nPRIORITY=0";
    nc_cleanup(nc_buf_done) struct nc_buf entry = NC_BUF_INIT;
    uint64_t n;

    (void)state;
    nc_journal_add_field(&entry, "BEFORE", "x");
    nc_journal_add_field(&entry, "MESSAGE", value);
    nc_journal_add_field(&entry, "AFTER", "y");
    const char *at = entry.data;
    assert_memory_equal(at, "BEFORE=x\nMESSAGE\n", 17);
    memcpy(&n, at + 17, sizeof(n));
    assert_int_equal(le64toh(n), strlen(value));
    assert_memory_equal(at + 25, value, strlen(value));
    assert_string_equal(at + 25 + strlen(value), "\nAFTER=y\n");
}

/* --- one entry */

static void test_one_datagram(void **state) {
    nc_cleanup(nc_buf_done) struct nc_buf entry = NC_BUF_INIT;
    nc_cleanup(nc_buf_done) struct nc_buf got = NC_BUF_INIT;

    (void)state;
    nc_journal_add_field(&entry, "MESSAGE", "two\nlines");
    nc_journal_add_field(&entry, "PRIORITY", "6");
    assert_int_equal(nc_journal_send(&entry, "test-program"), 0);
    assert_true(take(&got));
    assert_int_equal(got.len, entry.len); /* the length has bytes of 0 */
    assert_memory_equal(got.data, entry.data, entry.len);
    assert_nothing_more();
}

static void test_gone(void **state) {
    (void)state;
    assert_int_equal(send_text("before"), 0);
    assert_next("MESSAGE=before\n");
    die();
    assert_int_equal(send_text("nobody reads this"), -ECONNREFUSED);
    assert_int_equal(unlink(address.sun_path), 0);
    assert_int_equal(send_text("nor this"), -ENOENT);
    start();
    assert_nothing_more();
    assert_int_equal(send_text("after"), 0);
    assert_next("MESSAGE=after\n"); /* whoever was told of a failure has it elsewhere */
    assert_nothing_more();
}

/* As where it is gone: the caller says it elsewhere, so that it is not counted as lost. */
static void test_too_large(void **state) {
    nc_cleanup(nc_buf_done) struct nc_buf text = NC_BUF_INIT;
    socklen_t size = sizeof(int);
    int room = 0;

    (void)state;
    assert_int_equal(getsockopt(journald, SOL_SOCKET, SO_SNDBUF, &room, &size), 0);
    for (int i = 0; i < room; i++)
        assert_int_equal(nc_buf_putc(&text, 'x'), 0);
    assert_int_equal(send_text(text.data), -EMSGSIZE);
    assert_nothing_more();
    assert_int_equal(send_text("small"), 0);
    assert_next("MESSAGE=small\n");
    assert_nothing_more();
}

/* --- a journald that does not read */

static void test_full(void **state) {
    (void)state;
    const unsigned lost = MANY - fill();
    assert_int_equal(send_text("it reads again"), 0);
    assert_missing(lost);
    assert_next("MESSAGE=it reads again\n");
    assert_int_equal(send_text("and goes on"), 0);
    assert_next("MESSAGE=and goes on\n");
    assert_nothing_more();
}

/* What says how many were lost takes the only place: the entry behind it is the first of the next
 * ones. */
static void test_full_again(void **state) {
    nc_cleanup(nc_buf_done) struct nc_buf entry = NC_BUF_INIT;
    unsigned missing, said = 0, taken = 0;

    (void)state;
    for (unsigned i = 0; i < MANY; i++)
        assert_int_equal(send_text("one of many"), 0);
    assert_true(take(&entry));
    assert_int_equal(send_text("there was one place"), 0);
    while (take(&entry)) {
        taken++;
        if (sscanf(entry.data, "MESSAGE=%u lines are missing", &missing) == 1)
            said = missing;
        else
            assert_string_equal(entry.data, "MESSAGE=one of many\n");
    }
    assert_int_equal(said, MANY - taken);
    assert_int_equal(send_text("it reads again"), 0);
    assert_missing(1);
    assert_next("MESSAGE=it reads again\n");
    assert_nothing_more();
}

/* The count outlives a restart: what was lost before it is missing there, too. */
static void test_full_and_gone(void **state) {
    (void)state;
    const unsigned lost = MANY - fill();
    die();
    assert_int_equal(send_text("nobody reads this"), -ECONNREFUSED);
    start_again();
    assert_int_equal(send_text("after"), 0);
    assert_missing(lost);
    assert_next("MESSAGE=after\n");
    assert_nothing_more();
}

TEST_GROUP() {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fields),
        cmocka_unit_test(test_lines),
        cmocka_unit_test_setup_teardown(test_one_datagram, begin, end),
        cmocka_unit_test_setup_teardown(test_gone, begin, end),
        cmocka_unit_test_setup_teardown(test_too_large, begin, end),
        cmocka_unit_test_setup_teardown(test_full, begin, end),
        cmocka_unit_test_setup_teardown(test_full_again, begin, end),
        cmocka_unit_test_setup_teardown(test_full_and_gone, begin, end),
    };

    return run_group(tests, make_folder, remove_folder);
}
