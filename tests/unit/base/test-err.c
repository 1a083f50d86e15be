/*
 * Errors as values: codes and classes, wrapping, cutting, the exit codes of docs/commands.md.
 */
#include "base-test.h"
#include "groups.h"

#include <errno.h>
#include <stdbool.h>

#include "nc/err.h"

static void set_normalises_the_code(void **state) {
    static const struct {
        int code;
        int returned;
        int stored;
    } rows[] = {
        {EINVAL, -EINVAL, -EINVAL}, {-EIO, -EIO, -EIO}, {0, -EINVAL, -EINVAL},
        {503, -503, 503},           {-404, -404, 404},
    };
    (void)state;

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct nc_err err = NC_ERR_INIT;
        assert_int_equal(nc_err_set(&err, NC_ERR_AUTH, rows[i].code, "no %s", "way"),
                         rows[i].returned);
        assert_int_equal(err.code, rows[i].stored);
        assert_int_equal(err.class, NC_ERR_AUTH);
        assert_string_equal(err.msg, "no way");
        assert_string_equal(err.remedy, "");
        assert_int_equal(nc_err_set(NULL, NC_ERR_AUTH, rows[i].code, "x"), rows[i].returned);
    }
}

static void wrap_reads_outside_in(void **state) {
    struct nc_err err = NC_ERR_INIT;
    (void)state;

    nc_err_set(&err, NC_ERR_TRANSIENT, 503, "HTTP %d after %d tries", 503, 10);
    nc_err_remedy(&err, "wait %d s", 3);
    nc_err_wrap(&err, "/latest/%s", "x");
    nc_err_wrap(&err, "imds");
    assert_string_equal(err.msg, "imds: /latest/x: HTTP 503 after 10 tries");
    assert_string_equal(err.remedy, "wait 3 s");
    assert_int_equal(err.class, NC_ERR_TRANSIENT);
    assert_int_equal(err.code, 503);
    nc_err_wrap(NULL, "x");
    nc_err_remedy(NULL, "x");
}

static void what_the_machine_refuses(void **state) {
    static const int codes[] = {ENOENT, -ENOENT};
    (void)state;

    for (size_t i = 0; i < 2; i++) {
        struct nc_err err = NC_ERR_INIT;
        assert_int_equal(nc_err_host(&err, codes[i], "open %s", "/x"), -ENOENT);
        assert_string_equal(err.msg, "open /x: No such file or directory");
        assert_int_equal(err.class, NC_ERR_HOST);
        assert_int_equal(err.code, -ENOENT);
    }
    assert_int_equal(nc_err_host(NULL, EIO, "disk"), -EIO);
}

static void a_message_may_quote_the_one_it_replaces(void **state) {
    struct nc_err err = NC_ERR_INIT;
    (void)state;

    nc_err_set(&err, NC_ERR_HOST, EIO, "disk");
    nc_err_set(&err, NC_ERR_CONFIG, EINVAL, "first: %s", err.msg);
    assert_string_equal(err.msg, "first: disk");
    nc_err_remedy(&err, "see %s", err.msg);
    assert_string_equal(err.remedy, "see first: disk");
}

static void long_messages_are_cut_between_characters(void **state) {
    char text[1024];
    (void)state;

    for (size_t lead = 0; lead < 4; lead++) {
        struct nc_err err = NC_ERR_INIT;
        memset(text, 'a', lead);
        for (size_t i = lead; i + 3 < sizeof(text); i += 3)
            memcpy(text + i, "\xe2\x82\xac", 4); /* euro signs */
        nc_err_set(&err, NC_ERR_BUG, 0, "%s", text);
        assert_true(strlen(err.msg) < sizeof(err.msg));
        assert_true(strlen(err.msg) >= sizeof(err.msg) - 3);
        assert_int_equal((strlen(err.msg) - lead) % 3, 0);
        nc_err_wrap(&err, "%s", "prefix");
        assert_true(strlen(err.msg) < sizeof(err.msg));
        assert_memory_equal(err.msg, "prefix: ", 8);
        assert_int_equal((strlen(err.msg) - lead - 8) % 3, 0);
        nc_err_remedy(&err, "%s", text);
        assert_true(strlen(err.remedy) < sizeof(err.remedy));
        nc_err_wrap(&err, "%s", text);
        assert_memory_equal(err.msg, text, 300);
    }
}

static void classes_have_names_and_exit_codes(void **state) {
    static const struct {
        enum nc_err_class class;
        const char *name;
        int exit_code;
    } rows[] = {
        {NC_ERR_NONE, "none", 0}, {NC_ERR_TRANSIENT, "transient", 1}, {NC_ERR_CONFIG, "config", 3},
        {NC_ERR_AUTH, "auth", 4}, {NC_ERR_PROTOCOL, "protocol", 5},   {NC_ERR_HOST, "host", 6},
        {NC_ERR_BUG, "bug", 7},   {_NC_ERR_CLASS_MAX, "bug", 7},
    };
    (void)state;

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        assert_string_equal(nc_err_class_name(rows[i].class), rows[i].name);
        assert_int_equal(nc_err_exit_code(rows[i].class), rows[i].exit_code);
    }
    assert_int_equal(sizeof(rows) / sizeof(rows[0]), _NC_ERR_CLASS_MAX + 1);
}

TEST_GROUP() {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(set_normalises_the_code),
        cmocka_unit_test(wrap_reads_outside_in),
        cmocka_unit_test(what_the_machine_refuses),
        cmocka_unit_test(a_message_may_quote_the_one_it_replaces),
        cmocka_unit_test(long_messages_are_cut_between_characters),
        cmocka_unit_test(classes_have_names_and_exit_codes),
    };
    return run_group(tests, NULL, NULL);
}
