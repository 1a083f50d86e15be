#!/bin/sh
# Each test that docs/threat-model.md names is there, by file and name. TAP.
set -u
cd "${NC_SRCDIR:-$(dirname "$0")/..}" || exit 99
n=0
bad=0
names=$(grep -oE '`[A-Za-z_/-]+\.(py|c|go|sh): [A-Za-z_]+`' docs/threat-model.md | tr -d '`' | sort -u | sed 's/: /:/')
for one in $names; do
    n=$((n + 1))
    file=${one%%:*}
    name=${one#*:}
    path=$(find tests -path "*/$file" -not -path '*/corpus/*' | head -n 1)
    if [ -n "$path" ] && grep -qw "$name" "$path"; then
        echo "ok $n - $file: $name"
    else
        bad=1
        echo "not ok $n - $file: $name"
    fi
done
n=$((n + 1))
rows=$(grep -cE '^\| [a-z].* \|' docs/threat-model.md)
named=$(grep -cE '^\| [a-z].* \| .*`.*` *(, .*)?\|$' docs/threat-model.md)
heads=$(grep -c '| shown by |' docs/threat-model.md)
if [ $((rows - heads)) -eq "$named" ]; then echo "ok $n - every row names a test"; else bad=1; echo "not ok $n - every row names a test"; fi
echo "1..$n"
exit $bad
