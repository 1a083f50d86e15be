/*
 * Which name a TLS peer may show: one of its subjectAltName.
 *
 * libcurl takes a certificate's common name where there is no other name. A CA may sign that for
 * whoever asks, who is then every host of that name; Go, and with it every other client of the API
 * server, refuses it.
 */
#include <errno.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include "http-priv.h"

/* A DNS name or an address: with either libcurl no longer checks the common name. */
static bool has_alternative_name(const X509 *cert) {
    GENERAL_NAMES *names = X509_get_ext_d2i(cert, NID_subject_alt_name, NULL, NULL);
    bool found = false;

    for (int i = 0; i < sk_GENERAL_NAME_num(names); i++) {
        const int type = sk_GENERAL_NAME_value(names, i)->type;
        found = found || type == GEN_DNS || type == GEN_IPADD;
    }
    GENERAL_NAMES_free(names);
    return found;
}

static int verify(int is_good, X509_STORE_CTX *ctx) {
    if (!is_good || X509_STORE_CTX_get_error_depth(ctx) > 0
        || has_alternative_name(X509_STORE_CTX_get_current_cert(ctx)))
        return is_good;
    X509_STORE_CTX_set_error(ctx, X509_V_ERR_HOSTNAME_MISMATCH);
    return 0;
}

static CURLcode prepare(CURL *easy, void *ssl_ctx, void *userdata) {
    SSL_CTX_set_verify(ssl_ctx, SSL_CTX_get_verify_mode(ssl_ctx), verify);
    return CURLE_OK;
}

int nc_http_names_check(struct nc_http_req *r, struct nc_err *err) {
    if (curl_easy_setopt(r->easy, CURLOPT_SSL_CTX_FUNCTION, prepare) == CURLE_OK)
        return 0;
    return nc_err_set(
        err, NC_ERR_HOST, ENOTSUP,
        "%s: libcurl does TLS with %s here: it must be one that is built with OpenSSL", r->name,
        curl_version_info(CURLVERSION_NOW)->ssl_version);
}

bool nc_http_names_are_missing(const char *error) {
    return strstr(error, X509_verify_cert_error_string(X509_V_ERR_HOSTNAME_MISMATCH)) != NULL;
}
