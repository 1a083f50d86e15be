/*
 * The floor: a program that loads the libraries that nodeclaimd loads, and makes requests.
 *
 *     baseline http://ADDRESS:PORT [PATH MILLISECONDS]
 *
 * Asks IMDS for a token and exits with 0 if it got one; with PATH it goes on to ask for that, each
 * so many milliseconds on one connection, until it is ended. What nodeclaimd needs beyond this is
 * its own work; it knows nothing and reads nothing else. Each library is touched once, so that the
 * linker keeps it.
 */
#include <cjson/cJSON.h>
#include <curl/curl.h>
#include <expat.h>
#include <openssl/crypto.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <systemd/sd-daemon.h>
#include <time.h>
#include <yaml.h>
#include <zlib.h>

struct answer {
    char text[256];
    size_t n;
};

static size_t keep_answer(char *data, size_t size, size_t n, void *userdata) {
    struct answer *a = userdata;
    size_t room = sizeof a->text - 1 - a->n, kept = size * n < room ? size * n : room;
    memcpy(a->text + a->n, data, kept);
    a->text[a->n += kept] = '\0';
    return size * n;
}

static int touch_libraries(void) {
    bool all = yaml_get_version_string() && zlibVersion() && OpenSSL_version_num()
               && XML_ExpatVersion() && cJSON_Version();
    return all && sd_booted() >= 0 ? 0 : -1;
}

/* The status, or 0 without an answer. */
static long ask(CURL *curl, const char *method, const char *header, struct answer *ret) {
    long status = 0;
    struct curl_slist *headers = curl_slist_append(NULL, header);
    ret->n = 0;
    curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, method);
    curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, ret);
    if (curl_easy_perform(curl) == CURLE_OK)
        curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
    curl_slist_free_all(headers);
    return status;
}

static void poll_forever(CURL *curl, const char *token, long msec) {
    char header[512];
    struct answer answer = {0};
    struct timespec pause = {msec / 1000, msec % 1000 * 1000000};
    snprintf(header, sizeof header, "X-aws-ec2-metadata-token: %s", token);
    while (ask(curl, "GET", header, &answer) > 0)
        nanosleep(&pause, NULL);
}

int main(int argc, char **argv) {
    char url[512];
    struct answer token = {0};
    if ((argc != 2 && argc != 4) || touch_libraries() < 0)
        return 2;
    curl_global_init(CURL_GLOBAL_DEFAULT);
    CURL *curl = curl_easy_init();
    snprintf(url, sizeof url, "%s/latest/api/token", argv[1]);
    curl_easy_setopt(curl, CURLOPT_URL, url);
    curl_easy_setopt(curl, CURLOPT_PROXY, "");
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, keep_answer);
    const char *header = argc == 2 ? "X-aws-ec2-metadata-token-ttl-seconds: 60"
                                   : "X-aws-ec2-metadata-token-ttl-seconds: 21600";
    bool is_given = ask(curl, "PUT", header, &token) == 200 && token.n > 0;
    if (is_given && argc == 4) {
        snprintf(url, sizeof url, "%s%s", argv[1], argv[2]);
        curl_easy_setopt(curl, CURLOPT_URL, url);
        poll_forever(curl, token.text, atol(argv[3]));
    }
    curl_easy_cleanup(curl);
    curl_global_cleanup();
    return is_given && argc == 2 ? 0 : 1;
}
