/*
 * kubelet's flags: a line of kubelet.env is taken apart and put together again without a change;
 * the user's flags become a configuration or a refusal, and so do the networks and addresses in
 * them.
 */
#include <stdint.h>

#include "nc/fileset.h"
#include "nc/str.h"

#include "../unit/plan/systemd-env.h"
#include "fileset-priv.h"
#include "kubelet.h"
#include "numbers.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void must(bool is_so) {
    if (!is_so)
        abort();
}

static void join(const struct nc_strv *words) {
    const struct nc_strv *const lists[] = {words};
    nc_cleanup(nc_strv_done) struct nc_strv back = NC_STRV_INIT;
    nc_cleanup(nc_buf_done) struct nc_buf line = NC_BUF_INIT;
    struct nc_err err = NC_ERR_INIT;

    if (nc_env_join(lists, 1, &line, &err) < 0) {
        must(err.class == NC_ERR_CONFIG && err.msg[0]);
        return;
    }
    must(systemd_env_split(line.data ? line.data : "", &back, &err) >= 0 && back.n == words->n);
    for (size_t i = 0; i < back.n; i++)
        must(nc_streq(back.v[i], words->v[i]));
}

static void flags(const struct nc_strv *items) {
    struct nc_flags f = NC_FLAGS_INIT;
    nc_auto_value struct nc_value *tree = NULL;
    nc_auto_value struct nc_value *config = nc_value_new_map();
    struct nc_err err = NC_ERR_INIT;

    if (nc_flags_parse(items, NULL, &f, &err) < 0) {
        must(err.class == NC_ERR_CONFIG && err.msg[0] && !f.v && f.n == 0);
        return;
    }
    for (size_t i = 0; i < f.n; i++)
        must(f.v[i].argument && (!f.v[i].name || nc_flags_find(&f, f.v[i].name)));
    if (nc_flags_tree(&f, &tree, &err) < 0) {
        must(err.class == NC_ERR_CONFIG && err.msg[0] && !tree);
    } else {
        must(tree && tree->type == NC_VALUE_MAP);
        nc_flags_apply(config, tree);
        nc_flags_apply(config, tree);
    }
    nc_flags_done(&f);
}

static void network(const char *text) {
    char dns[46] = "untouched", again[46];

    if (nc_cidr_dns(text, dns, sizeof(dns)) < 0)
        must(nc_streq(dns, "untouched"));
    else
        must(nc_address_family(dns) != 0 && nc_address_family(text) == nc_address_family(dns)
             && nc_cidr_dns(dns, again, sizeof(again)) < 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    nc_auto_free char *text = nc_strndup((const char *)data, n);
    nc_cleanup(nc_strv_done) struct nc_strv words = NC_STRV_INIT;
    nc_cleanup(nc_strv_done) struct nc_strv one = NC_STRV_INIT;
    struct nc_err err = NC_ERR_INIT;

    if (systemd_env_split(text, &words, &err) < 0)
        must(err.class == NC_ERR_HOST && err.msg[0]);
    else
        join(&words);
    nc_strv_add(&one, text);
    flags(&one);
    network(text);
    return 0;
}
