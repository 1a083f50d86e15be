#!/bin/sh
# Each room, which is a folder, includes only what is listed here: a header that nobody listed fails. The archives are checked by the linker (a room's units
# link that room and what it may use). TAP.
set -u
cd "${NC_SRCDIR:-$(dirname "$0")/..}" || exit 99
n=0
bad=0

# verdict TITLE COMPLAINTS: fine where there are none.
verdict() {
    n=$((n + 1))
    if [ -z "$2" ]; then
        echo "ok $n - $1"
    else
        bad=1
        echo "not ok $n - $1"
        printf '%s\n' "$2" | sed '/^$/d; s/^/# /'
    fi
}

# "owns": the headers of include/nc that are a room's. "room": what it may include beside its own folder: other rooms, a header of
# another room's folder, libraries. "pure" is the C library without clock, descriptor or environment; "system" is all of it.
rules='
owns base backoff clock drain-settings encode err file fit-settings json-filter marks mem names prometheus quantity sources str time value version
owns config config userdata
owns plan containerd facts fileset plan
owns drain drain drain-report fit hint hooks lifecycle notice pod
owns report report daemon-metrics
owns control control lease replacement
owns standalone standalone budget
owns net http
owns aws ec2 imds role sigv4
owns kube kube kube-control kube-drain kubeconfig
owns host host image
room base system cjson/cJSON.h yaml.h zlib.h
room config pure base fnmatch.h
room plan pure base config regex.h
room drain pure base config
room report pure base config plan drain
room control pure base drain
room standalone pure base drain control
room net system base curl/curl.h systemd/sd-event.h openssl/ssl.h openssl/x509v3.h
room aws system base plan net expat.h openssl/evp.h openssl/params.h openssl/core_names.h openssl/crypto.h systemd/sd-event.h
room kube system base config drain control net systemd/sd-event.h
room host system base plan drain linux/openat2.h systemd/sd-id128.h systemd/sd-bus.h systemd/sd-event.h systemd/sd-journal.h
room process system base cjson/cJSON.h curl/curl.h systemd/sd-daemon.h systemd/sd-event.h systemd/sd-id128.h openssl/ssl.h openssl/crypto.h
room bootstrap system base config plan report aws kube host process systemd/sd-event.h systemd/sd-journal.h
room daemon system base plan drain report net host aws kube process bootstrap systemd/sd-daemon.h systemd/sd-event.h systemd/sd-bus.h
room commands system base config plan drain report net aws kube host process bootstrap daemon systemd/sd-event.h systemd/sd-journal.h
room controller system base control standalone net aws kube process systemd/sd-event.h systemd/sd-daemon.h
pure arpa/inet.h sys/types.h assert.h ctype.h errno.h inttypes.h limits.h math.h stdarg.h stdbool.h stddef.h stdint.h stdio.h stdlib.h string.h strings.h endian.h
'
found=$(find src include/nc -name '*.[ch]' | sort | while read -r file; do grep -HnE '^#include ' "$file"; done |
    { awk -v rules="$(echo "$rules" | tr '\n' ';')" '
    BEGIN {
        lines = split(rules, line, ";")
        for (i = 1; i <= lines; i++) {
            words = split(line[i], word, " ")
            for (j = 3; j <= words; j++) {
                if (word[1] == "owns") owner["nc/" word[j] ".h"] = word[2]
                if (word[1] == "room") may[word[2], word[j]] = 1
            }
            for (j = 2; j <= words; j++) if (word[1] == "pure") pure[word[j]] = 1
            if (word[1] == "room") known[word[2]] = 1
        }
        while (("find src -name \"*.h\"" | getline path) > 0) {
            depth = split(path, part, "/")
            name = part[depth]
            if (name in owner) print path ": there are two headers of this name"
            owner[name] = part[depth - 1]
        }
    }
    {
        split($0, part, ":")
        path = part[1]
        depth = split(path, folder, "/")
        if (folder[1] == "include") { name = path; sub(/^include\//, "", name); room = owner[name] } else room = folder[depth - 1]
        header = $0; sub(/^[^<"]*[<"]/, "", header); sub(/[>"].*$/, "", header)
        if (!(room in known)) { print path ": no room has this file"; next }
        if (header in owner) { if (owner[header] != room && !((room, owner[header]) in may)) print path " includes " header " of " owner[header] }
        else if (header == "config.h" || header == "instance-table.h" || header == "build-version.h" || (room, header) in may) next
        else if ((room, "system") in may && header !~ /^(cjson|curl|systemd|openssl)\/|yaml|zlib|expat/) next
        else if ((room, "pure") in may && header in pure) next
        else print path " includes " header
    }' || echo 'this check itself failed'; } | sort -u)
verdict "each room includes what is listed for it" "$found"
verdict "no room uses, in the end, itself" "$(echo "$rules" | awk '
    $1 == "room" {room[$2] = 1; uses[$2] = $0}
    END {for (r in room) {n = split(uses[r], word, " "); for (i = 3; i <= n; i++) if (word[i] in room) print r, word[i]}}' | tsort 2>&1 >/dev/null)"

# one CONDITION HEADER FILE: exactly this file includes that header.
only() {
    files=$(grep -lE "^#include +[<\"]$2" src/*/*.[ch] src/*/*/*.[ch] include/nc/*.h)
    [ "$files" = "$3" ] && files=
    verdict "$1" "$files"
}
only "one file uses cJSON, one tells its version" 'cjson/cJSON\.h' 'src/base/json.c
src/process/version.c'
only "one file includes zlib" 'zlib\.h' src/base/zip.c
only "one file includes libexpat" 'expat\.h' src/aws/xml.c

verdict "nothing below the programs prints" "$(grep -nE '\b(f?printf|puts|perror|syslog|sd_journal_[a-z]+)\(' src/*/*.c src/*/*/*.c |
    grep -vE '^src/(process|bootstrap|daemon|commands|controller)/' |
    grep -vE 'nc_buf_printf|snprintf|vsnprintf|asprintf|sd_journal_(open|close|seek_tail|previous|get_data|add_match)')"

# What the lists leave out is missing from a release's tarball, and no build beside the sources notices.
lists=$(find src include tests -name '*.am')
verdict "each source is in a list, and what is listed exists" "$({ find src include -name '*.[ch]'
    grep -hoE '\b(src|include)/[A-Za-z0-9_/.-]+\.[ch]\b' $lists | sort -u; } | sort | uniq -u |
    grep -vxE "src/plan/instance-table.h|src/base/build-version.h")" # are generated

missing=""
for header in include/nc/*.h; do
    printf '#include "%s"\n' "${header#include/}" | ${CC:-cc} -std=gnu11 -D_GNU_SOURCE -Iinclude -fsyntax-only -Wall -Werror -x c - 2>/dev/null || missing="$missing $header"
done
verdict "every header compiles alone" "$missing"
echo "1..$n"
exit $bad
