#!/usr/bin/env bash
# What ./dev and tests/integration/run.py make of the programs that they run: the last line counts, the lines before it name what failed
# and what was not run. TAP.
set -u
source "${NC_SRCDIR:-.}/dev"
unset UNIT_TITLE # of the run that this is a test in
BUILD=$(mktemp -d)
trap 'rm -rf "$BUILD"' EXIT
n=0
bad=0
is() {
    n=$((n + 1))
    if [ "$2" = "$3" ]; then
        echo "ok $n - $1"
    else
        bad=1
        echo "not ok $n - $1"
        printf '# got:    %s\n# wanted: %s\n' "$2" "$3"
    fi
}

ends() { # ends OUTPUT CODE TITLE: a program that says OUTPUT
    printf '%s\n' "$1" >"$BUILD/said"
    run_counted "$3" 10 sh -c "cat '$BUILD/said'; exit $2"
}

shown=$(ends $'1..2\nok 1 - a\nnot ok 2 - b: why\n1 passed, 1 failed' 1 golden | sed -E 's/, [0-9]+ s$//')
is "what passed is not shown, what failed is" "$shown" $'== golden\nnot ok 2 - b: why\n   1 passed, 1 failed\n   golden: exit code 1'

{
    ends $'1..2\nok 1 - a\nnot ok 2 - b: why\n1 passed, 1 failed' 1 golden
    ends $'  test_x: not run: CAP_SYS_ADMIN is missing (mounts)\nfailed: test_x.C.test_b\n7 passed, 1 failed' 1 integration
    ends $'  test_y: not run: CAP_SYS_ADMIN is missing (mounts)\n  test_y: not run: no network\n2 passed, 0 failed' 0 more
    ends $'  MISSED  a limit\n4 passed, 1 failed' 1 cost
    ends 'Segmentation fault' 139 crash
    ends 'not run: is a word, too' 0 silent
    ends $'3 not run: a program is missing\n0 passed, 0 failed' 77 part
    ends $'flaky: test_x.C.test_a\n2 passed, 0 failed' 0 integration
} >/dev/null
is "the last lines" "$(finish | sed -E 's/, [0-9]+ s$//')" "2 not run: CAP_SYS_ADMIN is missing (mounts)
1 not run: a program is missing
1 not run: is a word, too
1 not run: no network
flaky: integration: test_x.C.test_a
failed: golden: b: why
failed: integration: test_x.C.test_b
failed: cost: a limit
failed: crash: exit code 139
1 flaky
17 passed, 4 failed"
finish >/dev/null
is "its exit code" $? 1

passed=0 failed=0 failures=() not_run=() flaky=()
finish >/dev/null
is "nothing that passed is no success" $? 1
ends 'not run: a program is missing' 77 part >/dev/null
finish >/dev/null
is "nothing that could be run is neither" $? 77
ends '3 passed, 0 failed' 0 good >/dev/null
is "all passed" "$(finish | tail -n 1)" "3 passed, 0 failed"

# Units: one test fails beside the others, and passes once it runs alone. What `make check` writes is as automake has it.
mkdir -p "$BUILD/busy/tests"
cat >"$BUILD/busy/Makefile" <<'MAKE'
check:
	@[ '$(TESTS)' != all ] || { printf 'ok 1 - room: test_a\nPASS: tests/room 1 - room: test_a\nnot ok 2 - room: test_b\nFAIL: tests/room 2 - room: test_b\n# 3 != 4\n# test-room.c:5: error: Failure!\n' >tests/room.log; \
	printf 'PASS: tests/room 1 - room: test_a\nFAIL: tests/room 2 - room: test_b\n# PASS:  1\n# FAIL:  1\n# ERROR: 0\n'; exit 1; }
recheck:
	@printf '# PASS:  2\n# FAIL:  0\n# ERROR: 0\n'; exit $(AGAIN)
MAKE
passed=0 failed=0 failures=() not_run=() flaky=()
unit_tests busy 10 TESTS=all AGAIN=0 >"$BUILD/said"
is "a unit that failed once shows what failed, and that it runs again" "$(sed 's/, [0-9]* s$//' "$BUILD/said")" "== units (busy)
   failed beside the others:
   tests/room:
     not ok 2 - room: test_b
     # 3 != 4
     # test-room.c:5: error: Failure!
   these run once more, one by one
   2 passed, 0 failed"
is "and is flaky" "${flaky[*]}" "units (busy): tests/room 2 - room: test_b"

# Packages: what cannot be built says why, and where the rest of it is.
mkdir "$BUILD/package"
is "a package that cannot be built" "$(export CCACHE_DIR=$BUILD; tarball=$BUILD/none kinds=(deb); make_packages "$(dpkg --print-architecture)" "$BUILD/package" 2>&1 | sed "s|$BUILD|BUILD|g; s|-[a-z0-9]*\.log|-ARCH.log|" | tail -n 2)" \
    "tar: Error is not recoverable: exiting now
dev: the packages cannot be built (all of it: BUILD/package/deb-ARCH.log)"
# kinds ARGUMENT...: which of them dev_package makes
kinds() {
    (need() { :; }; dist() { :; }; list_files() { :; }; make_packages() { echo "kinds: ${kinds[*]}"; }; dev_package "$@") | sed -n 's/^kinds: //p'
}
is "packages are Debian's" "$(kinds)" deb
is "and RPMs where they are wanted" "$(kinds --rpm)" "deb rpm"
# packages FUNCTIONS ARGUMENT...: what dev_package says last, with these functions in place of its own, and what is in build/package
packages() {
    (need() { :; }; dist() { tarball=none; }; list_files() { :; }; eval "$1"; dev_package "${@:2}" 2>&1) | tail -n 1
    ls "$BUILD/package"
}
rm -rf "$BUILD/package" && mkdir "$BUILD/package" && touch "$BUILD/package/former"
is "an unknown architecture is refused before anything is installed" "$(packages 'need() { say "need $*"; }' --arch foo)" "dev: no such architecture here: foo (arm64)
former"
is "packages stay where others cannot be built" "$(packages 'make_packages() { touch "$2/half" && die no; }')" "dev: no
former"
is "or do not pass" "$(packages 'run_counted() { touch "$new/half" && return 1; }; finish() { say failed; }' --check)" "failed
former"
is "and are replaced by what can" "$(packages 'make_packages() { touch "$2/new"; }' | sed 's/^[0-9]* s/N s/')" "N s
new"
is "only what runs here is checked" "$(dev_package --check --arch all 2>&1)" \
    "dev: --check runs what it makes: only packages of this machine's architecture"

is "what a release lacks is said before its packages are installed" "$(need() { say "need $*"; }; (dev_release 0.0.0 --unsigned 2>&1) | grep '^need')" "need git"
is "what a dry run lacks is said once" "$(mkdir -p "$BUILD/dry/release" && cd "$BUILD/dry" && printf '#!/bin/sh\necho missing\n' >release/run && chmod +x release/run &&
    (need() { :; }; dev_release 0.0.0 --dry-run))" missing

is "each command that the usage names is there, and no other" "$(usage | sed -n 's/^  \([a-z][a-z]*\) .*/\1/p' | sort)" \
    "$(declare -F | sed -n 's/^declare -f dev_//p' | sort)"

is "a command that is not there" "$(./dev bogus 2>&1; echo $?)" "dev: no such command: bogus; see ./dev help
2"
for command in test lint dist package nightly format; do
    is "an option that $command has not" "$(need() { say need; }; ("dev_$command" --nonsense 2>&1); echo $?)" "dev: $command has no option --nonsense; see ./dev help
2"
done
is "a demo that is not there is refused before the build" "$(need() { say need; }; { (dev_demo --fail foo 2>&1); echo $?; } | grep -oE "need|invalid choice: 'foo'|^2$")" "invalid choice: 'foo'
2"
is "no command" "$(./dev 2>&1 >/dev/null | head -n 1; ./dev >/dev/null 2>&1; echo $?)" "usage: ./dev COMMAND [OPTION...]
2"

# One program that fails twice, and one beside it.
cp tests/integration/run.py "$BUILD/run.py"
cat >"$BUILD/bad" <<'PY'
import unittest


class Bad(unittest.TestCase):
    def test_good(self):
        pass

    def test_bad(self):
        for what in ("first", "second"):
            with self.subTest(what):
                self.fail(what)

    @unittest.skip("CAP_SYS_ADMIN is missing (mounts)")
    def test_mounts(self):
        pass


if __name__ == "__main__":
    unittest.main()
PY
cp "$BUILD/bad" "$BUILD/test_bad.py"
sed -e s/Bad/Fine/ -e '/self.fail/s/fail/assertTrue/' "$BUILD/bad" >"$BUILD/test_fine.py"
"$PYTHON" "$BUILD/run.py" --agent /bin/true >"$BUILD/said"
is "a test that failed shows what failed, each time" "$(grep -c "^FAIL: test_bad" "$BUILD/said") $(grep -c test_good "$BUILD/said")" "4 0"
is "and that it runs again" "$(grep -c "test_bad.Bad.test_bad: runs once more" "$BUILD/said")" 1
is "its last lines" "$(grep 'not run' "$BUILD/said" | sort; tail -n 2 "$BUILD/said")" "  test_bad: not run: CAP_SYS_ADMIN is missing (mounts)
  test_fine: not run: CAP_SYS_ADMIN is missing (mounts)
failed: test_bad.Bad.test_bad
3 passed, 1 failed"

# One whose process ends in its midst, and a file that cannot be read.
sed -e 's/class Bad/class Dies/' -e "s/self.fail(what)/__import__('os').abort()/" "$BUILD/bad" >"$BUILD/test_dies.py"
echo 'import nothing_like_it' >"$BUILD/test_unread.py"
rm "$BUILD/test_bad.py"
"$PYTHON" "$BUILD/run.py" --agent /bin/true >"$BUILD/said"
is "one that dies and one that cannot be read" "$(grep -oE '(test_dies.Dies.test_bad did not come to its end: Aborted|No module named .*)$' "$BUILD/said" | sort -u
    tail -n 3 "$BUILD/said")" "No module named 'nothing_like_it'
test_dies.Dies.test_bad did not come to its end: Aborted
failed: test_dies.Dies.test_bad
failed: unittest.loader._FailedTest.test_unread
3 passed, 2 failed"
rm "$BUILD/test_dies.py" "$BUILD/test_unread.py"

# One that fails only the first time.
sed -e 's/class Bad/class Unsteady/' -e "s|self.fail(what)|self.assertTrue(__import__('os').path.exists('$BUILD/tried') or open('$BUILD/tried', 'w').close())|" \
    "$BUILD/bad" >"$BUILD/test_unsteady.py"
"$PYTHON" "$BUILD/run.py" --agent /bin/true >"$BUILD/said"
is "one that passes at its second try is said to be flaky" "$(grep '^flaky' "$BUILD/said"; tail -n 1 "$BUILD/said")" "flaky: test_unsteady.Unsteady.test_bad
4 passed, 0 failed"
echo "1..$n"
exit "$bad"
