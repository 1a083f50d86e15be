#!/bin/sh
# The tests that docs/threat-model.md and docs/drain-rules.md name exist, by file and name; so does what the documents link to, and each path that
# ARCHITECTURE.md names: below the root, src or include. TAP.
set -u
cd "${NC_SRCDIR:-$(dirname "$0")/..}" || exit 99
n=0
bad=0
names=$(grep -ohE '`[A-Za-z_/-]+\.(py|c|go|sh): [A-Za-z_]+`' docs/threat-model.md docs/drain-rules.md | tr -d '`' | sort -u | sed 's/: /:/')
for one in $names; do
    n=$((n + 1))
    file=${one%%:*}
    name=${one#*:}
    if find tests -path "*/$file" -not -path '*/corpus/*' -exec grep -qw "$name" {} \; -print | grep -q .; then
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
missing=$(grep -oE '`[a-z][a-zA-Z0-9._-]*/[a-zA-Z0-9._/-]+`' ARCHITECTURE.md | tr -d '`' | while read -r path; do
    [ -e "$path" ] || [ -e "src/$path" ] || [ -e "include/$path" ] || echo "# ARCHITECTURE.md: $path"
done
tests/check-links *.md docs/*.md docs/*/*.md deploy/*.md deploy/*/*.md image/*.md userdata/*.md tests/*/*.md | sed 's/^/# /')
# The picture of two boots shows a row of a table.
row=$(sed -nE 's|.*<text x="[0-9.]+" y="[0-9]+">([0-9.]+ s)</text>|\1|p' docs/machine-kubelet.svg | paste -sd'|' | sed 's/|/ | /g')
n=$((n + 1))
if [ -n "$row" ] && grep -qF "| the program's start to kubelet executed | $row |" docs/development/figures.md; then
    echo "ok $n - the picture of two boots agrees with its table"
else
    bad=1
    echo "not ok $n - the picture of two boots agrees with its table"
fi
n=$((n + 1))
silent=$(for picture in docs/*.svg; do grep -q '^<svg .*role="img"' "$picture" && grep -q '^<title.*>..*</title>' "$picture" || echo "# $picture"; done)
if [ -z "$silent" ]; then echo "ok $n - every picture has a title for who does not see it"; else bad=1; printf 'not ok %s - every picture has a title for who does not see it\n%s\n' "$n" "$silent"; fi
n=$((n + 1))
if [ -z "$missing" ]; then echo "ok $n - every path exists"; else bad=1; printf 'not ok %s - every path exists\n%s\n' "$n" "$missing"; fi
echo "1..$n"
exit $bad
