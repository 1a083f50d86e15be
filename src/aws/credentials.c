/*
 * Role credentials as IMDS writes them: read strictly, wiped always. Pure.
 *
 * The document is a secret: no message quotes a byte of it but the service's own failure code.
 */
#include <errno.h>
#include <stdint.h>

#include "nc/imds.h"
#include "nc/str.h"
#include "nc/time.h"
#include "nc/value.h"

#define MAX_KEY 128
#define MAX_SECRET 512
#define MAX_SESSION_TOKEN 8192

void nc_credentials_done(struct nc_credentials *c) {
    if (!c)
        return;
    nc_secret_free(c->access_key_id);
    nc_secret_free(c->secret_access_key);
    nc_secret_free(c->session_token);
    free(c->role);
    *c = (struct nc_credentials){0};
}

static void free_secret_value(struct nc_value **v) {
    nc_value_wipe(*v);
    nc_value_free(*v);
}

static int read_credential(const struct nc_value *v, const char *key, size_t max, char **ret,
                           struct nc_err *err) {
    const char *text = nc_value_get_string(v, key);
    const size_t n = text ? strlen(text) : 0;

    if (n == 0 || n > max || !nc_is_visible(text, n))
        return nc_err_protocol(err, "role credentials: %s is missing or no key", key);
    *ret = nc_strdup(text);
    return 0;
}

static int check_code(const struct nc_value *v, struct nc_err *err) {
    const char *code = nc_value_get_string(v, "Code");
    nc_auto_free char *quoted = NULL;
    int r;

    if (!code)
        return nc_err_protocol(err, "role credentials: the document has no Code");
    if (nc_streq(code, "Success"))
        return 0;
    quoted = nc_quote_string(code);
    r = nc_err_set(err, NC_ERR_AUTH, EACCES, "role credentials: the service answered %s", quoted);
    nc_err_remedy(err, "check that the instance profile's role exists and that its trust policy "
                       "lets ec2.amazonaws.com "
                       "assume it");
    return r;
}

static int parse(const char *data, size_t n, bool has_code, struct nc_credentials *ret,
                 struct nc_err *err) {
    nc_cleanup(free_secret_value) struct nc_value *v = NULL;
    nc_cleanup(nc_credentials_done) struct nc_credentials c = {0};
    const char *expiration;
    int r = nc_json_parse(data, n, &v, err);

    if (r < 0) {
        nc_err_wrap(err, "role credentials");
        return r;
    }
    r = has_code ? check_code(v, err) : 0;
    if (r == 0)
        r = read_credential(v, "AccessKeyId", MAX_KEY, &c.access_key_id, err);
    if (r == 0)
        r = read_credential(v, "SecretAccessKey", MAX_SECRET, &c.secret_access_key, err);
    if (r == 0 && nc_value_get(v, "Token"))
        r = read_credential(v, "Token", MAX_SESSION_TOKEN, &c.session_token, err);
    if (r < 0)
        return r;
    expiration = nc_value_get_string(v, "Expiration");
    if (nc_value_get(v, "Expiration")
        && (!expiration || nc_time_parse(expiration, &c.expiration_usec) < 0))
        return nc_err_protocol(err, "role credentials: invalid time in Expiration");
    *ret = c;
    c = (struct nc_credentials){0};
    return 0;
}

int nc_credentials_parse(const char *data, size_t n, struct nc_credentials *ret,
                         struct nc_err *err) {
    return parse(data, n, true, ret, err);
}

int nc_credentials_parse_container(const char *data, size_t n, struct nc_credentials *ret,
                                   struct nc_err *err) {
    return parse(data, n, false, ret, err);
}
