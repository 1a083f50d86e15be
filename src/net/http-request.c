/*
 * One request: what libcurl is told, and what is taken from the peer.
 *
 * Knows the rules that hold for every request of the program: http and https only, no redirect, no
 * credentials in a URL, no proxy but https_proxy for https, roots exactly as given, TLS 1.2 or
 * later, caps before bytes are kept, the status before the body. Headers and bodies that were sent
 * are wiped, because they may carry a token.
 */
#include "http-priv.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <strings.h>
#include <sys/socket.h>

#include "config.h"
#include "nc/clock.h"
#include "nc/str.h"
#include "nc/time.h"
#include "nc/version.h"

#define MAX_RETRY_AFTER_SEC 86400
/* A peer that is gone without a word: noticed by the kernel after so long, with bytes in flight or
 * without. */
#define SILENT_SERVER_USEC 10000000u
#define KEEPALIVE_IDLE_SEC 15
#define KEEPALIVE_INTERVAL_SEC 5
/* What a stream may take in one loop turn. libcurl reads for as long as bytes come, which can be as
 * long as a large list streams in: nothing else would have its turn. */
#define TURN_MAX_BYTES ((size_t)256 << 10)
/* How long a stream without any limit of its own may take to be connected. */
#define CONNECT_TIMEOUT_USEC 30000000u
/* A deadline may fire so much later: the loop can then serve several at once. */
#define DEADLINE_ACCURACY_USEC 5000

/* One process, one program: set once at its start. */
static char user_agent[64] = "nodeclaimd";

void nc_http_set_program(const char *program, const char *command) {
    (void)snprintf(user_agent, sizeof(user_agent), command ? "%s/%s (%s)" : "%s/%s", program,
                   nc_version, command);
}

const char *nc_http_user_agent(void) {
    return user_agent;
}

static void free_secret_list(struct curl_slist *list) {
    for (struct curl_slist *next; list; list = next) {
        next = list->next;
        nc_secret_free(list->data);
        free(list);
    }
}

/* libcurl's list of strings in memory of ours, so that it can be wiped. */
static void add_header(struct curl_slist **list, char *text) {
    struct curl_slist *item = nc_calloc(1, sizeof(*item));

    item->data = text;
    while (*list)
        list = &(*list)->next;
    *list = item;
}

void nc_http_request_free(struct nc_http_req *r) {
    if (!r)
        return;
    curl_easy_cleanup(r->easy);
    free_secret_list(r->headers);
    curl_slist_free_all(r->connect_to);
    if (r->sent_body)
        explicit_bzero(r->sent_body, r->sent_body_n);
    free(r->sent_body);
    free(r->name);
    free(r->server);
    sd_event_source_disable_unref(r->deadline);
    if (r->secret)
        nc_buf_done_secret(&r->body);
    else
        nc_buf_done(&r->body);
    free(r);
}

/* A body longer than its cap is an error of the peer's; one of an answer that is no success is only
 * cut. */
static size_t receive_error_body(struct nc_http_req *r, const char *data, size_t n) {
    const size_t keep = NC_HTTP_ERROR_KEEP_BYTES - r->body.len;

    r->error_bytes += n;
    if (r->error_bytes > NC_HTTP_ERROR_MAX_BYTES) {
        r->abort = ABORT_LARGE_FAILURE;
        return 0;
    }
    (void)nc_buf_add(&r->body, data, n < keep ? n : keep);
    return n;
}

static bool is_unwanted(const struct nc_http_req *r) {
    return r->state != REQUEST_RUNNING || r->h->doomed;
}

/* When the request has taken too long, in all or since the last byte, which came now. Counted on
 * the clock itself: the loop's own idea of now is as old as its turn. 0 = never. */
static uint64_t deadline_of(const struct nc_http_req *r) {
    const uint64_t overall = r->timeout_usec ? r->start_usec + r->timeout_usec : UINT64_MAX;
    const uint64_t silence = nc_http_silence_usec(r);
    const uint64_t idle = silence ? nc_mono_usec() + silence : UINT64_MAX;
    const uint64_t first = idle < overall ? idle : overall;

    return first == UINT64_MAX ? 0 : first;
}

static size_t receive_part(struct nc_http_req *r, const char *data, size_t n) {
    long status = 0;

    if (is_unwanted(r))
        return 0;
    (void)curl_easy_getinfo(r->easy, CURLINFO_RESPONSE_CODE, &status);
    if (r->idle_timeout_usec)
        (void)sd_event_source_set_time(r->deadline, deadline_of(r));
    if (status < 200 || status > 299)
        return receive_error_body(r, data, n);
    if (!r->on_data) {
        if (n > r->max_body_bytes || r->body.len > r->max_body_bytes - n) {
            r->abort = ABORT_LARGE_BODY;
            return 0;
        }
        (void)nc_buf_add(&r->body, data, n);
        return n;
    }
    if (r->on_data(r->userdata, data, n) < 0) {
        r->abort = ABORT_CALLBACK;
        return 0;
    }
    return is_unwanted(r) ? 0 : n;
}

/* An HTTP/2 peer may refuse before it has read our body (a limit, an expired token). What libcurl
 * makes of that depends on its version: 7.88 waits until the body is sent; 8.14 resets the stream
 * and takes that for an error of the peer's, or waits for what does not come any more. So a refusal
 * that is all there by its length ends the request here. */
static void finish_where_refused(struct nc_http_req *r) {
    long version = 0, status = 0;

    if (r->sent_body_n == 0 || r->come != r->length)
        return;
    (void)curl_easy_getinfo(r->easy, CURLINFO_HTTP_VERSION, &version);
    (void)curl_easy_getinfo(r->easy, CURLINFO_RESPONSE_CODE, &status);
    if (version != CURL_HTTP_VERSION_2_0 || (status >= 200 && status <= 299))
        return;
    r->is_refused = true;
    nc_http_request_finish(r, CURLE_OK);
}

static size_t receive_body(char *data, size_t size, size_t n, void *userdata) {
    struct nc_http_req *r = userdata;
    size_t taken;

    n *= size;
    r->h->received += n;
    if (r->is_refused)
        return n;
    if (r->on_data && r->turn_bytes >= TURN_MAX_BYTES && !is_unwanted(r)) {
        nc_http_request_pause(r);
        return CURL_WRITEFUNC_PAUSE;
    }
    r->turn_bytes += n;
    taken = receive_part(r, data, n);
    r->come += taken;
    if (taken == n)
        finish_where_refused(r);
    return taken;
}

/* The value of "Name: value\r\n" as a string in `value` if it is this header and fits. */
static bool header_value(const char *line, size_t n, const char *name, char *value, size_t size) {
    const size_t name_n = strlen(name);

    if (n <= name_n || strncasecmp(line, name, name_n) != 0 || line[name_n] != ':'
        || n - name_n - 1 >= size)
        return false;
    memcpy(value, line + name_n + 1, n - name_n - 1);
    value[n - name_n - 1] = '\0';
    nc_trim(value);
    return true;
}

/* "HTTP/1.1 200 OK", "HTTP/2 200" */
static bool is_success(const char *line, size_t n) {
    const char *space = memchr(line, ' ', n);

    return space && space + 1 < line + n && space[1] == '2';
}

static size_t receive_header(char *line, size_t size, size_t n, void *userdata) {
    struct nc_http_req *r = userdata;
    char value[128];
    uint64_t number;

    n *= size;
    r->h->received += n;
    if (r->is_refused)
        return n;
    if (is_unwanted(r))
        return 0;
    r->header_bytes += n;
    if (r->header_bytes > NC_HTTP_MAX_HEADER_BYTES) {
        r->abort = ABORT_LARGE_HEAD;
        return 0;
    }
    if (n >= 5 && memcmp(line, "HTTP/", 5) == 0) {
        /* A new answer: what a 1xx said before it does not count. */
        r->retry_after_usec = r->date_usec = r->token_ttl_sec = 0;
        r->length = UINT64_MAX;
        r->received_usec = nc_now_usec();
        if (r->head_timeout_usec)
            (void)sd_event_source_set_time(r->deadline, deadline_of(r));
        if (r->on_head && is_success(line, n))
            r->on_head(r->userdata);
    } else if (header_value(line, n, "Date", value, sizeof(value))) {
        (void)nc_time_parse_http(value, &r->date_usec);
    } else if (header_value(line, n, "Content-Length", value, sizeof(value))) {
        (void)nc_parse_u64(value, &r->length);
    } else if (header_value(line, n, "Retry-After", value, sizeof(value))) {
        if (nc_parse_u64(value, &number) == 0)
            r->retry_after_usec =
                (number < MAX_RETRY_AFTER_SEC ? number : MAX_RETRY_AFTER_SEC) * 1000000;
    } else if (header_value(line, n, "X-Aws-Ec2-Metadata-Token-Ttl-Seconds", value,
                            sizeof(value))) {
        (void)nc_parse_u64(value, &r->token_ttl_sec);
    }
    if (n == 2 && line[0] == '\r')
        finish_where_refused(r);
    return n;
}

/* Sockets that no program executed later inherits; and why there is none, which libcurl does not
 * tell. */
static curl_socket_t open_socket(void *userdata, curlsocktype purpose,
                                 struct curl_sockaddr *address) {
    struct nc_http_req *r = userdata;
    const int fd = socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
    const unsigned silent_ms = SILENT_SERVER_USEC / 1000;

    if (fd < 0 && errno != EAFNOSUPPORT) /* without IPv6, IPv4 is tried */
        r->socket_errno = errno;
    if (fd >= 0)
        (void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &silent_ms, sizeof(silent_ms));
    return fd;
}

static int on_deadline(sd_event_source *source, uint64_t usec, void *userdata) {
    struct nc_http_req *r = userdata;

    r->abort = r->timeout_usec == 0 || nc_mono_usec() - r->start_usec < r->timeout_usec
                   ? ABORT_IDLE
                   : ABORT_DEADLINE;
    nc_http_suspect_connection(r);
    nc_http_request_finish(r, CURLE_OPERATION_TIMEDOUT);
    return 0;
}

int nc_http_request_arm(struct nc_http_req *r, struct nc_err *err) {
    int k;

    r->start_usec = nc_mono_usec();
    if (deadline_of(r) == 0)
        return 0;
    if (r->deadline) {
        (void)sd_event_source_set_time(r->deadline, deadline_of(r));
        (void)sd_event_source_set_enabled(r->deadline, SD_EVENT_ONESHOT);
        return 0;
    }
    k = sd_event_add_time(r->h->event, &r->deadline, CLOCK_MONOTONIC, deadline_of(r),
                          DEADLINE_ACCURACY_USEC, on_deadline, r);
    return k < 0 ? nc_err_host(err, k, "%s: no timer", r->name) : 0;
}

static long milliseconds(uint64_t usec) {
    const uint64_t ms = usec / 1000;

    return ms == 0 ? 1 : ms > 86400000 ? 86400000 : (long)ms;
}

static void set_pem(CURL *c, CURLoption option, const char *pem) {
    struct curl_blob blob = {
        .data = (void *)(uintptr_t)pem, .len = strlen(pem), .flags = CURL_BLOB_NOCOPY};

    curl_easy_setopt(c, option, &blob);
}

static void set_tls(CURL *c, const struct nc_http_tls *tls) {
    curl_easy_setopt(c, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
    curl_easy_setopt(c, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_2TLS);
    curl_easy_setopt(c, CURLOPT_PIPEWAIT, 1L);
    if (!tls)
        return;
    if (tls->ca_pem) {
        set_pem(c, CURLOPT_CAINFO_BLOB, tls->ca_pem);
        /* The blob stands beside the built-in folder, not instead of it. */
        curl_easy_setopt(c, CURLOPT_CAINFO, NULL);
        curl_easy_setopt(c, CURLOPT_CAPATH, NULL);
    }
    if (tls->client_cert_pem && tls->client_key_pem) {
        set_pem(c, CURLOPT_SSLCERT_BLOB, tls->client_cert_pem);
        set_pem(c, CURLOPT_SSLKEY_BLOB, tls->client_key_pem);
    } else if (tls->client_cert_file && tls->client_key_file) {
        curl_easy_setopt(c, CURLOPT_SSLCERT, tls->client_cert_file);
        curl_easy_setopt(c, CURLOPT_SSLKEY, tls->client_key_file);
    }
}

static void set_method(struct nc_http_req *r, const struct nc_http_options *o) {
    const char *method = o->method ? o->method : "GET";
    CURL *c = r->easy;

    if (nc_streq(method, "HEAD")) {
        curl_easy_setopt(c, CURLOPT_NOBODY, 1L);
        return;
    }
    if (o->body) {
        r->sent_body_n = o->body_n;
        r->sent_body = nc_malloc(o->body_n);
        memcpy(r->sent_body, o->body, o->body_n);
        curl_easy_setopt(c, CURLOPT_POST, 1L);
        curl_easy_setopt(c, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)o->body_n);
        curl_easy_setopt(c, CURLOPT_POSTFIELDS, r->sent_body);
        /* Of what is sent, a hundred may be in flight at once: the least that libcurl can do with,
         * where its own choice is 80 KiB each. */
        curl_easy_setopt(c, CURLOPT_UPLOAD_BUFFERSIZE, 16384L);
        curl_easy_setopt(c, CURLOPT_BUFFERSIZE, 4096L);
    }
    if (!nc_streq(method, o->body ? "POST" : "GET"))
        curl_easy_setopt(c, CURLOPT_CUSTOMREQUEST, method);
}

static void set_rules(struct nc_http_req *r, const struct nc_http_options *o) {
    CURL *c = r->easy;

    curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, r->is_https ? "https" : "http");
    curl_easy_setopt(c, CURLOPT_FOLLOWLOCATION, 0L);
    curl_easy_setopt(c, CURLOPT_DISALLOW_USERNAME_IN_URL, 1L);
    curl_easy_setopt(c, CURLOPT_NETRC, (long)CURL_NETRC_IGNORED);
    curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(c, CURLOPT_TCP_KEEPALIVE, 1L);
    curl_easy_setopt(c, CURLOPT_TCP_KEEPIDLE, (long)KEEPALIVE_IDLE_SEC);
    curl_easy_setopt(c, CURLOPT_TCP_KEEPINTVL, (long)KEEPALIVE_INTERVAL_SEC);
    curl_easy_setopt(c, CURLOPT_USERAGENT, nc_http_user_agent());
    curl_easy_setopt(c, CURLOPT_CONNECTTIMEOUT_MS, milliseconds(r->connect_timeout_usec));
    if (o->no_proxy || !r->is_https) {
        curl_easy_setopt(c, CURLOPT_PROXY, "");
        curl_easy_setopt(c, CURLOPT_NOPROXY, "*");
    }
    if (r->is_https)
        set_tls(c, o->tls);
    else
        curl_easy_setopt(c, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    curl_easy_setopt(c, CURLOPT_PRIVATE, r);
    curl_easy_setopt(c, CURLOPT_ERRORBUFFER, r->error);
    curl_easy_setopt(c, CURLOPT_OPENSOCKETFUNCTION, open_socket);
    curl_easy_setopt(c, CURLOPT_OPENSOCKETDATA, r);
    curl_easy_setopt(c, CURLOPT_HEADERFUNCTION, receive_header);
    curl_easy_setopt(c, CURLOPT_HEADERDATA, r);
    curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, receive_body);
    curl_easy_setopt(c, CURLOPT_WRITEDATA, r);
}

static int refuse_url(const struct nc_http_options *o, const char *why, struct nc_err *err) {
    nc_auto_free char *quoted = nc_quote_string(o->url);

    return nc_err_config(err, "%s: %s is not a usable URL: %s", o->name, quoted, why);
}

/* A kubeconfig's tls-server-name: libcurl takes the name for SNI and the certificate from the URL,
 * so the URL gets it and the connection goes where the URL pointed. */
static void set_server_name(struct nc_http_req *r, CURLU *u, const char *server_name) {
    nc_auto_free char *to = nc_asprintf("::%s", r->server);

    add_header(&r->headers, nc_asprintf("Host: %s", r->server));
    r->connect_to = curl_slist_append(NULL, to);
    curl_easy_setopt(r->easy, CURLOPT_CONNECT_TO, r->connect_to);
    curl_url_set(u, CURLUPART_HOST, server_name, 0);
}

static int set_url(struct nc_http_req *r, const struct nc_http_options *o, struct nc_err *err) {
    CURLU *u = curl_url();
    char *scheme = NULL, *host = NULL, *port = NULL, *user = NULL, *whole = NULL;
    CURLUcode code = curl_url_set(u, CURLUPART_URL, o->url, 0);
    int k = 0;

    if (code == CURLUE_OK)
        code = curl_url_get(u, CURLUPART_SCHEME, &scheme, 0);
    if (code == CURLUE_OK)
        code = curl_url_get(u, CURLUPART_HOST, &host, 0);
    if (code == CURLUE_OK)
        code = curl_url_get(u, CURLUPART_PORT, &port, CURLU_DEFAULT_PORT);
    if (code != CURLUE_OK)
        k = refuse_url(o, curl_url_strerror(code), err);
    else if (!nc_streq(scheme, "http") && !nc_streq(scheme, "https"))
        k = refuse_url(o, "it must be http or https", err);
    else if (curl_url_get(u, CURLUPART_USER, &user, 0) == CURLUE_OK)
        k = refuse_url(o, "it must not carry a user name", err);
    if (k == 0) {
        r->is_https = nc_streq(scheme, "https");
        r->server = nc_asprintf("%s:%s", host, port);
        if (o->tls && o->tls->server_name && r->is_https)
            set_server_name(r, u, o->tls->server_name);
        if (curl_url_get(u, CURLUPART_URL, &whole, 0) != CURLUE_OK)
            k = refuse_url(o, "its parts do not make one", err);
        else
            curl_easy_setopt(r->easy, CURLOPT_URL, whole);
    }
    curl_free(scheme);
    curl_free(host);
    curl_free(port);
    curl_free(user);
    curl_free(whole);
    curl_url_cleanup(u);
    return k;
}

/* A line break in a header would be a second header. */
static int set_headers(struct nc_http_req *r, const struct nc_http_options *o, struct nc_err *err) {
    bool expect = false;

    for (const char *const *h = o->headers; h && *h; h++) {
        if (strpbrk(*h, "\r\n"))
            return nc_err_set(err, NC_ERR_BUG, EINVAL, "%s: a header contains a line break",
                              o->name);
        expect = expect || strncasecmp(*h, "Expect:", 7) == 0;
        add_header(&r->headers, nc_strdup(*h));
    }
    if (!expect)
        add_header(&r->headers, nc_strdup("Expect:"));
    curl_easy_setopt(r->easy, CURLOPT_HTTPHEADER, r->headers);
    return 0;
}

void nc_http_request_renew(struct nc_http_req *r, uint64_t timeout_usec) {
    r->header_bytes = r->error_bytes = r->turn_bytes = 0;
    r->is_paused = r->is_refused = false;
    r->length = UINT64_MAX;
    r->come = 0;
    r->retry_after_usec = r->date_usec = r->received_usec = r->token_ttl_sec = 0;
    r->abort = ABORT_NONE;
    r->socket_errno = 0;
    r->code = CURLE_OK;
    r->error[0] = '\0';
    if (timeout_usec == r->timeout_usec)
        return;
    r->timeout_usec = r->connect_timeout_usec = timeout_usec;
    curl_easy_setopt(r->easy, CURLOPT_CONNECTTIMEOUT_MS, milliseconds(timeout_usec));
}

int nc_http_request_new(struct nc_http *h, const struct nc_http_options *o,
                        struct nc_http_req **ret, struct nc_err *err) {
    struct nc_http_req *r;
    int k;

    if (!o->name || !o->url || !o->on_done
        || (!o->on_data && (!o->timeout_usec || !o->max_body_bytes)))
        return nc_err_set(err, NC_ERR_BUG, EINVAL,
                          "%s: a request needs a name, a URL, a deadline and a cap",
                          o->name ? o->name : "?");
    r = nc_calloc(1, sizeof(*r));
    r->h = h;
    r->length = UINT64_MAX;
    r->name = nc_strdup(o->name);
    r->easy = curl_easy_init();
    r->max_body_bytes = o->max_body_bytes;
    r->body.max =
        o->max_body_bytes > NC_HTTP_ERROR_KEEP_BYTES ? o->max_body_bytes : NC_HTTP_ERROR_KEEP_BYTES;
    r->timeout_usec = o->timeout_usec;
    r->connect_timeout_usec = o->connect_timeout_usec ? o->connect_timeout_usec : o->timeout_usec;
    if (r->connect_timeout_usec == 0)
        r->connect_timeout_usec =
            o->idle_timeout_usec ? o->idle_timeout_usec : CONNECT_TIMEOUT_USEC;
    r->idle_timeout_usec = o->on_data ? o->idle_timeout_usec : 0;
    r->head_timeout_usec = r->idle_timeout_usec ? o->head_timeout_usec : 0;
    r->secret = o->secret;
    r->is_kept = o->is_kept;
    r->on_data = o->on_data;
    r->on_head = o->on_data ? o->on_head : NULL;
    r->on_done = o->on_done;
    r->userdata = o->userdata;
    k = r->easy ? set_url(r, o, err)
                : nc_err_set(err, NC_ERR_HOST, ENOMEM, "%s: libcurl gives no handle", o->name);
    if (k == 0)
        k = set_headers(r, o, err);
    if (k == 0 && r->is_https)
        k = nc_http_names_check(r, err);
    if (k < 0) {
        nc_http_request_free(r);
        return k;
    }
    set_method(r, o);
    set_rules(r, o);
    *ret = r;
    return 0;
}
