#!/usr/bin/env bash
# What a release says is missing from a tree: a small repository, in which one thing after the other is made wrong. TAP.
set -u
top=$(cd "${NC_SRCDIR:-$(dirname "$0")/..}" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_SYSTEM=/dev/null GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@example GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@example
unset NODECLAIMD_RELEASE_KEY
n=0
bad=0

# missing WANTED COMMAND...: what COMMAND, done to a tree that lacks only the key, makes missing; beginnings of the lines.
missing() {
    local wanted=$1 said
    shift
    git checkout -q --detach good
    "$@"
    git commit -q -a --allow-empty -m changed
    said=$(release/run 0.1.0 2>&1 | sed -n 's/^missing: //p' | grep -v -e '^there is no key' -e 'this machine is another$')
    n=$((n + 1))
    if [ "${said:0:${#wanted}}" = "$wanted" ] && [ "${wanted:+some}" = "${said:+some}" ] && [ "$(wc -l <<<"$said")" = 1 ]; then
        echo "ok $n - ${wanted:-nothing}"
    else
        bad=1
        printf 'not ok %s - %s\n# got: %s\n' "$n" "${wanted:-nothing}" "$said"
    fi
}

mkdir -p "$work/tree/release" "$work/tree/debian" && cd "$work/tree" && git init -q . || exit 1
cp "$top/release/run" release/
echo untrusted >release/nodeclaimd.pub
echo 0.1.0 >VERSION
printf '## [Unreleased]\n\n## [0.1.0] - 2026-11-23\n\n### Added\n\n- All.\n' >CHANGELOG.md
printf 'nodeclaimd (0.1.0) unstable; urgency=medium\n\n  * All.\n\n -- A <a@example>  Mon, 23 Nov 2026 12:00:00 +0000\n' >debian/changelog
printf 'Version:        0.1.0\n%%changelog\n* Mon Nov 23 2026 A <a@example> - 0.1.0-1\n- All\n' >nodeclaimd.spec
git add . && git commit -q -m good && git tag good

missing "" true
missing "VERSION is 0.1.1" sed -i s/0.1.0/0.1.1/ VERSION
missing "VERSION is 0x1.0" sed -i s/0.1.0/0x1.0/ VERSION
missing 'CHANGELOG.md has no section "## [0.1.0] - YYYY-MM-DD" with an entry' sed -i '/^- /d' CHANGELOG.md
missing "CHANGELOG.md: entries are left" sed -i 's/^## .Unreleased./&\n\n### Fixed\n\n- It./' CHANGELOG.md
missing "CHANGELOG.md, debian/changelog and nodeclaimd.spec have different days: 2026-11-24, 2026-11-23" sed -i s/-23/-24/ CHANGELOG.md
missing "debian/changelog begins with nodeclaimd (0.1.0) UNRELEASED" sed -i s/unstable/UNRELEASED/ debian/changelog
missing "debian/changelog begins with nodeclaimd (0.1.0-1)" sed -i s/0.1.0/0.1.0-1/ debian/changelog
missing "nodeclaimd.spec: Version is 0.2.0" sed -i '1s/0.1.0/0.2.0/' nodeclaimd.spec
missing "nodeclaimd.spec: the newest entry" sed -i s/0.1.0-1/0.0.9-1/ nodeclaimd.spec
missing "release/nodeclaimd.pub" git rm -q release/nodeclaimd.pub
missing "the tag v0.1.0 is another commit" git tag v0.1.0 good
git tag -d v0.1.0 >/dev/null
missing "the tree has changes" touch uncommitted
n=$((n + 1))
release/run 0.1.0 >/dev/null 2>&1
if [ "$?" = 1 ] && [ ! -e build ]; then echo "ok $n - nothing was built"; else bad=1; echo "not ok $n - something was built"; fi
echo "1..$n"
exit "$bad"
