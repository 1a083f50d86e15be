/*
 * The `version` command of both programs. Only the libraries are named whose version decides how a
 * connection behaves, and how what came over it is read.
 */
#include <cjson/cJSON.h>
#include <curl/curl.h>
#include <openssl/crypto.h>
#include <stdio.h>

#include "nc/mem.h"
#include "nc/value.h"
#include "nc/version.h"

#include "process.h"

void nc_print_json(const struct nc_value *v) {
    nc_cleanup(nc_buf_done) struct nc_buf text = NC_BUF_INIT;

    nc_json_write(&text, v, 2);
    (void)printf("%s\n", text.data);
}

int nc_version_print(const char *program, bool is_json) {
    nc_auto_value struct nc_value *map = NULL;

    if (!is_json) {
        (void)printf("%s %s\ncommit %s\n%s\n%s\ncJSON %s\n", program, nc_version, nc_commit,
                     curl_version(), OpenSSL_version(OPENSSL_VERSION), cJSON_Version());
        return 0;
    }
    map = nc_value_new_map();
    nc_value_set_string(map, "version", nc_version);
    nc_value_set_string(map, "commit", nc_commit);
    nc_value_set_string(map, "libcurl", curl_version_info(CURLVERSION_NOW)->version);
    nc_value_set_string(map, "openssl", OpenSSL_version(OPENSSL_VERSION_STRING));
    nc_value_set_string(map, "cjson", cJSON_Version());
    nc_print_json(map);
    return 0;
}
