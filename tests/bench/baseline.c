/*
 * The floor: a program that loads the libraries that nodeclaimd loads, and makes one request.
 *
 *     baseline http://ADDRESS:PORT
 *
 * Asks IMDS for a token and exits with 0 if it got one. What nodeclaimd needs beyond this is its
 * own work; it knows nothing and reads nothing else. Each library is touched once, so that the
 * linker keeps it.
 */
#include <cjson/cJSON.h>
#include <curl/curl.h>
#include <expat.h>
#include <openssl/crypto.h>
#include <stdbool.h>
#include <stdio.h>
#include <systemd/sd-daemon.h>
#include <yaml.h>
#include <zlib.h>

static size_t count_bytes(char *data, size_t size, size_t n, void *userdata) {
    (void)data;
    *(size_t *)userdata += size * n;
    return size * n;
}

static int touch_libraries(void) {
    bool all = yaml_get_version_string() && zlibVersion() && OpenSSL_version_num()
               && XML_ExpatVersion() && cJSON_Version();
    return all && sd_booted() >= 0 ? 0 : -1;
}

static long ask_token(const char *endpoint, size_t *ret_bytes) {
    char url[512];
    long status = 0;
    CURL *curl = curl_easy_init();
    struct curl_slist *headers =
        curl_slist_append(NULL, "X-aws-ec2-metadata-token-ttl-seconds: 60");
    snprintf(url, sizeof url, "%s/latest/api/token", endpoint);
    curl_easy_setopt(curl, CURLOPT_URL, url);
    curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, "PUT");
    curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(curl, CURLOPT_PROXY, "");
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, count_bytes);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, ret_bytes);
    if (curl_easy_perform(curl) == CURLE_OK)
        curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
    curl_slist_free_all(headers);
    curl_easy_cleanup(curl);
    return status;
}

int main(int argc, char **argv) {
    size_t bytes = 0;
    if (argc != 2 || touch_libraries() < 0)
        return 2;
    curl_global_init(CURL_GLOBAL_DEFAULT);
    long status = ask_token(argv[1], &bytes);
    curl_global_cleanup();
    return status == 200 && bytes > 0 ? 0 : 1;
}
