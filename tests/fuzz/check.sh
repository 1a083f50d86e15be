#!/bin/sh
# Every reader that a header declares stands in tests/fuzz/README.md, with a harness that calls it, and every harness has a corpus. TAP.
set -u
cd "${NC_SRCDIR:-$(dirname "$0")/../..}" || exit 99
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

table=tests/fuzz/README.md
rows=$(sed -n 's/^| `\([a-z0-9-]*\)` | \(parser\|step\) | [0-9]* | .*/\1/p' "$table")
readers='\bnc_[a-z0-9_]*(parse|read|decode|gunzip|judge|load|split|evaluate|find)[a-z0-9_]*\('
names=$(cat include/nc/*.h src/*/*.h | grep -oE "$readers" | tr -d '(' | sort -u)
public=$(cat include/nc/*.h | grep -oE "$readers" | tr -d '(' | sort -u)

complaints=""
for name in $names; do
    grep -qE "^(\| .*|\* )\`$name\`" "$table" || complaints="$complaints
$name is in no row of $table, and not among what is no reader"
done
verdict "each of the $(echo "$names" | wc -w) readers of the headers has its harness" "$complaints"

complaints=""
for name in $public; do
    harness=$(sed -n "s/^| \`\([a-z0-9-]*\)\` | .*\`$name\`.*/\1/p" "$table")
    [ -n "$harness" ] || continue
    grep -qE "and through it .*\`$name\`|as \`$name\`|of what \`$name\`" "$table" && continue
    grep -qw "$name" "tests/fuzz/fuzz-$harness.c" || [ "$name" = nc_file_read ] || [ "$name" = nc_instance_type_find ] ||
        complaints="$complaints
$name is not called in fuzz-$harness.c"
done
verdict "and is called there" "$complaints"

complaints=""
for row in $rows; do
    [ -f "tests/fuzz/fuzz-$row.c" ] || complaints="$complaints
there is no tests/fuzz/fuzz-$row.c"
    [ -n "$(ls "tests/fuzz/corpus/$row" 2>/dev/null)" ] || complaints="$complaints
$row has no corpus"
done
for harness in tests/fuzz/fuzz-*.c; do
    row=${harness##*/fuzz-}
    row=${row%.c}
    echo "$rows" | grep -qx "$row" || complaints="$complaints
$row has no row"
    grep -q "^fuzz_programs += tests/fuzz/fuzz-$row\$" tests/fuzz/Makemodule.am || complaints="$complaints
$row is not built"
done
verdict "each of the $(echo "$rows" | wc -w) harnesses has a row, a corpus and is built" "$complaints"

complaints=""
for file in $(sed -n 's/^| `.*| \([^|]*\) |$/\1/p' "$table"); do
    [ -f "src/$file" ] || complaints="$complaints
there is no src/$file"
done
verdict "the files of the table exist" "$complaints"
echo "1..$n"
exit $bad
