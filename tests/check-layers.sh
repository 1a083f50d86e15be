#!/bin/sh
# Each layer includes only what ARCHITECTURE.md lets it include. TAP.
#
# Reads #include lines; the archives are checked by the linker (units of the core link nothing above it).
set -u
cd "${NC_SRCDIR:-$(dirname "$0")/..}" || exit 99
n=0
bad=0

# check TITLE FILES FORBIDDEN-REGEX: no include line of the files matches.
check() {
    n=$((n + 1))
    # shellcheck disable=SC2086
    found=$(grep -nE "^#include +[<\"]($3)" $2 /dev/null)
    if [ -z "$found" ]; then
        echo "ok $n - $1"
    else
        bad=1
        echo "not ok $n - $1"
        echo "$found" | sed 's/^/# /'
    fi
}

upper='nc/(http|imds|sigv4|ec2|role|kube|kube-drain|kube-self|kube-control|kubeconfig|host|login)\.h'
core_types='nc/(facts|userdata|config|quantity|plan|fileset|report|backoff|notice|pod|drain|lifecycle|self-signal|drain-report|control|control-alone|budget|lease)\.h'
libraries='curl/|systemd/|openssl/|cjson/|yaml\.h|zlib\.h'

check "base knows no layer above it" "src/base/*.[ch]" "$core_types|$upper"
check "base: no network, systemd or OpenSSL" "src/base/*.[ch]" "curl/|systemd/|openssl/"
check "core knows base only" "src/core/*.[ch]" "$upper"
check "core uses no library" "src/core/*.[ch]" "$libraries|cJSON\.h"
check "core is pure: no clock, descriptor or environment" "src/core/*.[ch]" "nc/clock\.h|time\.h|unistd\.h|fcntl\.h|sys/(stat|socket|time)\.h|signal\.h|poll\.h"
check "net knows no API" "src/net/*.[ch]" "nc/(imds|sigv4|ec2|role|kube|kube-drain|kube-self|kube-control|kubeconfig|host|login|plan|config|report|lifecycle|drain)\.h"
check "aws knows neither kube nor host" "src/aws/*.[ch]" "nc/(kube|kube-drain|kube-self|kube-control|kubeconfig|host|login)\.h|curl/"
check "kube knows neither aws nor host" "src/kube/*.[ch]" "nc/(imds|sigv4|ec2|role|host|login)\.h|curl/|openssl/"
check "host knows neither aws nor kube" "src/host/*.[ch]" "nc/(imds|sigv4|ec2|role|kube|kube-drain|kube-self|kube-control|kubeconfig|http)\.h|curl/|openssl/"
below="$(echo src/base/*.[ch] src/core/*.[ch] src/net/*.[ch] src/aws/*.[ch] src/kube/*.[ch] src/host/*.[ch])"
front=$(cd src/front && echo *.h | sed 's/\./\\./g; s/ /|/g')
agent=$(cd src/agent && echo *.h | sed 's/\./\\./g; s/ /|/g')
controller=$(cd src/controller && echo *.h | sed 's/\./\\./g; s/ /|/g')
check "only the programs log" "$below" "syslog\.h|$front"
check "front knows neither program" "src/front/*.[ch]" "nc/(imds|sigv4|ec2|role|kube|kube-drain|kube-self|kube-control|kubeconfig|host|login)\.h|$agent|$controller"
check "the controller knows neither host nor agent nor pods" "src/controller/*.[ch]" "nc/(host|login|pod|drain|lifecycle|kube-drain|kube-self)\.h|$agent"
check "the agent does not know the controller" "src/agent/*.[ch]" "$controller"

# one CONDITION TITLE: exactly these files include that header.
only() {
    n=$((n + 1))
    found=$(grep -lE "^#include +[<\"]$2" src/*/*.c src/*/*.h include/nc/*.h | tr '\n' ' ')
    if [ "$found" = "$3 " ]; then
        echo "ok $n - $1"
    else
        bad=1
        echo "not ok $n - $1"
        echo "# $found"
    fi
}
only "one file includes cJSON" '(cjson/)?cJSON\.h' src/base/json.c
only "one file includes zlib" 'zlib\.h' src/base/zip.c

n=$((n + 1))
found=$(grep -nE '\b(f?printf|puts|perror|syslog|sd_journal_[a-z]+)\(' src/base/*.c src/core/*.c src/net/*.c src/aws/*.c src/kube/*.c src/host/*.c |
    grep -vE 'nc_buf_printf|snprintf|vsnprintf|asprintf|sd_journal_(open|close|seek_tail|previous|get_data|add_match)')
if [ -z "$found" ]; then
    echo "ok $n - nothing below the programs prints"
else
    bad=1
    echo "not ok $n - nothing below the programs prints"
    echo "$found" | sed 's/^/# /'
fi

n=$((n + 1))
missing=""
for header in include/nc/*.h; do
    printf '#include "%s"\n' "${header#include/}" | ${CC:-cc} -std=gnu11 -D_GNU_SOURCE -Iinclude -fsyntax-only -Wall -Werror -x c - 2>/dev/null || missing="$missing $header"
done
if [ -z "$missing" ]; then
    echo "ok $n - every header compiles alone"
else
    bad=1
    echo "not ok $n - every header compiles alone"
    echo "# $missing"
fi
echo "1..$n"
exit $bad
