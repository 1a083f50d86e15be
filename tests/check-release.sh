#!/usr/bin/env bash
# What a release says is missing from a tree, and which packages it takes: a small repository, in which one thing after the other is made
# wrong; where no image can be made. No file of the project names the host of a package mirror. And tests/check-commits, of such a repository. TAP.
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

is() {
    n=$((n + 1))
    if [ "$2" = "$3" ]; then
        echo "ok $n - $1"
    else
        bad=1
        printf 'not ok %s - %s\n# got: %s\n# wanted: %s\n' "$n" "$1" "$2" "$3"
    fi
}

# Which mirror serves the packages is the machine's own choice.
hosts='(deb|security|snapshot|archive|ports|ftp[.a-z]*|httpredir|cloudfront)\.(debian\.(org|net)|ubuntu\.com)|(dl|mirrors|download)\.fedoraproject\.org|cdn\.amazonlinux\.com|dl-cdn\.alpinelinux'
is "no file names a package mirror" "$(git -C "$top" grep -nIE "$hosts")" ""
is "one that did would be seen" "$(printf '%s\n' {deb,security,snapshot}.debian{.,-}org {us.archive,ports}.ubuntu.com | grep -cE "$hosts")" 5

# pip takes what has the hash of a line, and nothing for which there is none.
is "no entry of the changelog occurs twice" "$(cd "$top" && release/run "$(cat VERSION)" --dry-run --tree 2>&1 | grep 'occurs twice')" ""
is "pip installs by hashes alone" "$(grep -E 'pip.* install' "$top/release/run" | grep -v -- ' --require-hashes ')" ""
is "which each package has" "$(grep -cE '^[a-z0-9.-]+==[0-9.]+( --hash=sha256:[0-9a-f]{64})+$' "$top/release/spdx-tools.lock")" \
    "$(grep -c '^[^#]' "$top/release/spdx-tools.lock")"

is "what only tries that programs start says so" "$(grep -c "^Restrictions: superficial" "$top/debian/tests/control")" 1

# sbom EPOCH: what an SBOM of an empty tarball says first.
sbom() {
    tar -cf "$work/a-1.tar.xz" -T /dev/null && SOURCE_DATE_EPOCH=$1 /usr/bin/python3 "$top/release/sbom.py" "$work/a-1.tar.xz" 2>&1 | head -n 2 | paste -sd ' '
}
is "an SBOM needs a time" "$(sbom '')" "sbom.py: SOURCE_DATE_EPOCH, the time of the document in seconds, is not set"
is "and an artifact with a version" "$(SOURCE_DATE_EPOCH=0 /usr/bin/python3 "$top/release/sbom.py" "$work/chart.tgz" 2>&1)" \
    "sbom.py: chart.tgz: wanted is NAME-VERSION.tar.xz, NAME-VERSION.tgz, or a .deb, .rpm or .oci.tar"
is "and is made with both" "$(sbom 0)" '{  "spdxVersion": "SPDX-2.3",'
cp "$work/a-1.tar.xz" "$work/a_1~dev.2.tar.xz"
is "also of a source package" "$(SOURCE_DATE_EPOCH=0 /usr/bin/python3 "$top/release/sbom.py" "$work/a_1~dev.2.tar.xz" | grep -o '"versionInfo": .*')" '"versionInfo": "1~dev.2",'

# image: an OCI archive of one layer, which has the entries of the program's package and of another
image() {
    mkdir -p layer/usr/lib layer/var/lib/dpkg/status.d oci/blobs/sha256 && printf 'ID=debian\nVERSION_ID=12\nNAME=Debian\n' >layer/usr/lib/os-release || return 1
    for name in libc6 nodeclaim-controller; do
        printf 'Package: %s\nVersion: 1\nArchitecture: all\n' "$name" >"layer/var/lib/dpkg/status.d/$name"
    done
    tar -C layer -cf oci/blobs/sha256/1 . && echo '{"layers": [{"digest": "sha256:1"}]}' >oci/blobs/sha256/2 &&
        echo '{"manifests": [{"digest": "sha256:2"}]}' >oci/index.json && tar -C oci -cf a-1-all.oci.tar .
}
(cd "$work" && image)
is "the image's says the licence of the project's own package" \
    "$(SOURCE_DATE_EPOCH=0 /usr/bin/python3 "$top/release/sbom.py" "$work/a-1-all.oci.tar" | sed -nE 's/^  +"(name|licenseDeclared)": "(.*)",/\2/p' | paste -sd ' ')" \
    "a-1-all.oci.tar Apache-2.0 libc6 NOASSERTION nodeclaim-controller Apache-2.0"

# purl: the references of the libraries of an SBOM on standard input
purl() {
    grep -oE '"(supplier|referenceLocator)": .*' | sort -u | sed 's/distro=.*/distro/; s/Organization: [^n].*/Organization/'
}
# An RPM, and a database that has who provides its library.
printf '%s\n' 'Name: a' 'Version: 1' 'Release: 2' 'Summary: a' 'License: a' 'Provides: libc.so.6()(64bit)' %description a \
    %install 'install -D /bin/true %{buildroot}/a' %files /a >"$work/a.spec"
mkdir "$work/home" && echo "%_dbpath $work/db" >"$work/home/.rpmmacros"
HOME=$work/home rpmbuild -bb --quiet --define "_topdir $work/rpm" --define '__os_install_post %{nil}' "$work/a.spec" >"$work/said" 2>&1
HOME=$work/home rpm -i --justdb --nodeps "$work"/rpm/RPMS/*/a-1-2.*.rpm >"$work/said" 2>&1
is "an RPM's names a library as rpm does" \
    "$(HOME=$work/home SOURCE_DATE_EPOCH=0 /usr/bin/python3 "$top/release/sbom.py" "$work"/rpm/RPMS/*/a-1-2.*.rpm | grep -o -e '"./a"' -e 'document: [^.]*')" \
    'document: a 1-2
"./a"'
system=$(. /etc/os-release && echo "$ID")
is "whose package and supplier it says, too" \
    "$(HOME=$work/home SOURCE_DATE_EPOCH=0 /usr/bin/python3 "$top/release/sbom.py" "$work"/rpm/RPMS/*/a-1-2.*.rpm | purl)" \
    "\"referenceLocator\": \"pkg:rpm/$system/a@1-2?arch=$(uname -m)&distro
\"supplier\": \"Organization
\"supplier\": \"Organization: nodeclaimd\","
is "everybody builds the RPM for Amazon Linux 2023 in the same way" \
    "$(grep -lE '^ *release/amazon-linux |[0-9a-f]{64} release/amazon-linux ' "$top"/{README.md,docs/install.md,.github/workflows/{ci,release}.yml} | wc -l) $(cd "$top" && git grep -l 'rpmbuild -t[b]')" "4 release/amazon-linux"

# The documentation of the packages: no link leads out of it, and each that has where to lead stays.
(cd "$top" && release/doc-pages "$work/pages")
is "the packaged pages link to nothing that is not packaged" "$(cd "$work/pages" && find . -name '*.md' -exec "$top/tests/check-links" {} +)" ""
# kept: the links of the pages to pages and pictures, wherever such a file is packaged
kept() {
    (cd "$1" && grep -oE '\]\((\.\./)?((docs/)?[a-z-]+\.(md|svg)|README\.md|SECURITY\.md|userdata/[A-Za-z0-9.-]+)[)#]' README.md SECURITY.md docs/*.md)
}
is "and keep every other link" "$(kept "$work/pages")" "$(kept "$top")"
is "and every packaged picture has a page that shows or links it" \
    "$(cd "$work/pages/docs" && for file in *.svg; do grep -qF "$file)" ../README.md ./*.md || echo "$file"; done)" ""
is "of which there are many" "$(($(kept "$top" | wc -l) > 100))" 1

# versions: the lower bounds in these lines
versions() {
    grep -oE '>= [0-9][0-9.]*' | sort -u | paste -sd ' '
}
demanded=$(grep PKG_CHECK_MODULES "$top/configure.ac" | versions)
is "Debian's packages demand the versions that configure does" "$(sed -n '/^Build-Depends/,/^$/p' "$top/debian/control" | versions)" "$demanded"
is "and so do the RPMs" "$(grep ^BuildRequires "$top/nodeclaimd.spec" | versions)" "$demanded"
is "which have the same names" "$(rpmspec -q --load "$top/release/rpm-macros" --qf '%{NAME}\n' "$top/nodeclaimd.spec" | sort)" "$(sed -n 's/^Package: //p' "$top/debian/control" | sort)"

# archive NAME: the sum of the chart's archive, made of a copy with the times and the rights of now
archive() {
    mkdir -p "$work/$1/release" "$work/$1/deploy" "$work/$1/debian" && cp -R "$top/deploy/chart" "$work/$1/deploy" && cp "$top/VERSION" "$top/LICENSE" "$work/$1" && echo 0 >"$work/$1/COMMIT" &&
        cp "$top/debian/changelog" "$work/$1/debian" && cp "$top"/release/{chart,cut-links,version} "$work/$1/release" &&
        mkdir "$work/$1/tests" && cp "$top/tests/check-links" "$work/$1/tests" &&
        SOURCE_DATE_EPOCH=1000000000 "$work/$1/release/chart" "$work/$1.tgz" && sha256sum <"$work/$1.tgz"
}
is "the chart's archive is the same to the byte elsewhere, of other times and rights" "$(umask 077 && archive a)" "$(sleep 1; umask 002 && archive b/c)"
is "and has the files of the chart and the licence" "$(tar -tf "$work/a.tgz" | sed -n 's|^nodeclaim-controller/\(.*[^/]\)$|\1|p' | sort)" \
    "$({ echo LICENSE; cd "$top/deploy/chart" && find . -type f | cut -c 3-; } | sort)"
tar -xf "$work/a.tgz" -C "$work"
is "whose README links to nothing else" "$("$top/tests/check-links" "$work/nodeclaim-controller/README.md")" ""
is "and differs by nothing but that" "$(diff -r "$top/deploy/chart" "$work/nodeclaim-controller" | sed -n 's/^> //p')" \
    "$(diff -r "$top/deploy/chart" "$work/nodeclaim-controller" | sed -nE 's/^< //p' | sed -E 's~\[([^][]*)\]\(\.\./[^)]*\)~\1~g')"
cp "$work/a.tgz" "$work/a-1.2.3-dev.4.gf.tgz"
is "of which there is an SBOM, too" "$(SOURCE_DATE_EPOCH=0 /usr/bin/python3 "$top/release/sbom.py" "$work/a-1.2.3-dev.4.gf.tgz" | grep -oE '"versionInfo": .*|"./nodeclaim-controller/Chart.yaml"')" \
    '"versionInfo": "1.2.3-dev.4.gf",
"./nodeclaim-controller/Chart.yaml"'

# usage PROGRAM ARGUMENT...: its exit code, whether it says the comment at its head, and what it leaves where it is called
usage() {
    rm -rf "$work/empty" && mkdir "$work/empty" && cd "$work/empty" || return 1
    "$top/$@" >said 2>&1
    echo "$? $(grep -cE "^# +([a-z]+/)?${1##*/} " said) $(ls)"
}
for call in "release/amazon-linux" "release/chart --help" "release/chart" "release/chart a b" "release/version --help" "release/version none" "release/version --time a" \
    "deploy/render --help" "deploy/render chart"; do
    # shellcheck disable=SC2086
    is "$call says how it is called, and does nothing" "$(usage $call | sed 's/ [1-9][0-9]* / N /')" "2 N said"
done
is "without helm it is said where one is" "$(HELM=$work/none usage deploy/render) $(cat "$work/empty/said")" \
    "1 0 said deploy/render: $work/none is missing: \$HELM is the helm to run, Helm 3"

mkdir -p "$work/tree/release" "$work/tree/debian" "$work/tree/deploy/chart" && cd "$work/tree" && git init -q . || exit 1
cp "$top"/release/{run,chart,version,spdx-tools.lock} release/
printf 'version: 0.1.0\nappVersion: 0.1.0\n' >deploy/chart/Chart.yaml
echo untrusted >release/nodeclaimd.pub
echo 0.1.0 >VERSION
printf '## [Unreleased]\n\n## [0.1.0] - 2026-11-23\n\n### Added\n\n- All.\n' >CHANGELOG.md
printf 'nodeclaimd (0.1.0) unstable; urgency=medium\n\n  * All.\n\n -- A <a@example>  Mon, 23 Nov 2026 12:00:00 +0000\n' >debian/changelog
printf 'Maintainer: A <a@example.org>\nVcs-Browser: https://git.example.org/n\n' >debian/control
printf '## How to report\n\nTo a@example.org.\n\n## What is promised\n' >SECURITY.md
printf 'Version:        0.1.0\n%%changelog\n* Mon Nov 23 2026 A <a@example> - 0.1.0-1\n- All\n' >nodeclaimd.spec
echo >release/sbom.py
mkdir -p .github/workflows
printf '    docker run debian:12@sha256:0 x\n    - uses: actions/checkout@11bd71901bbe5b1630ceea73d27597364c9af683 # v4.2.2\n' >.github/workflows/a.yml
git add . && git commit -q -m good && git tag good

missing "" true
missing "VERSION is 0.1.1, not 0.1.0" sed -i s/0.1.0/0.1.1/ VERSION
missing "VERSION is 0x1.0, not 0.1.0" sed -i s/0.1.0/0x1.0/ VERSION
missing 'CHANGELOG.md has no section "## [0.1.0] - YYYY-MM-DD" with an entry' sed -i '/^- /d' CHANGELOG.md
missing "CHANGELOG.md: entries are left under Unreleased, 2" sed -i 's/^## .Unreleased./&\n\n### Fixed\n\n- It.\n- That./' CHANGELOG.md
missing "CHANGELOG.md: an entry occurs twice: - All, and more" sed -i 's/^- All.$/- All,\n  and more.\n\n### Changed\n\n- All, and\n  more./' CHANGELOG.md
missing "CHANGELOG.md, debian/changelog and nodeclaimd.spec have different days: 2026-11-24, 2026-11-23" sed -i s/-23/-24/ CHANGELOG.md
missing "debian/changelog begins with nodeclaimd (0.1.0) UNRELEASED" sed -i s/unstable/UNRELEASED/ debian/changelog
missing "debian/changelog begins with nodeclaimd (0.1.0-1) unstable; urgency=medium, not nodeclaimd (0.1.0)" sed -i s/0.1.0/0.1.0-1/ debian/changelog
missing "nodeclaimd.spec: Version is 0.2.0, not 0.1.0" sed -i '1s/0.1.0/0.2.0/' nodeclaimd.spec
missing "nodeclaimd.spec: the newest entry" sed -i s/0.1.0-1/0.0.9-1/ nodeclaimd.spec
missing "deploy/chart/Chart.yaml is of another version" sed -i '1s/0.1.0/0.0.9/' deploy/chart/Chart.yaml
missing "debian/control: lines with an address that is a placeholder: 1" sed -i s/a@example.org/a@nodeclaimd.example/ debian/control
missing "debian/control has no Vcs-Browser" sed -i /^Vcs/d debian/control
missing "nodeclaimd.spec: lines with an address that is a placeholder: 1" sed -i 's|- All|- https://nodeclaimd.io|' nodeclaimd.spec
missing "deploy/chart/Chart.yaml: lines with an address that is a placeholder: 2" sed -i '1i home: https://nodeclaimd.io\n# http://www.nodeclaimd.io/docs' deploy/chart/Chart.yaml
missing "release/sbom.py: lines with an address that is a placeholder: 1" sed -i 's|^|https://nodeclaimd.io/spdx|' release/sbom.py
missing "" sed -i 's|^|nodeclaimd.io/drain: a name|' release/sbom.py
missing "SECURITY.md: lines with an address that is a placeholder: 1" sed -i s/@example.org/@nodeclaimd.io/ SECURITY.md
missing 'SECURITY.md: "How to report" has no address' sed -i s/a@example.org/us/ SECURITY.md
missing "SECURITY.md:3: a placeholder: Nobody answers yet, not a@example.org." sed -i 's/To a/Nobody answers yet, not a/' SECURITY.md
missing "CHANGELOG.md:7: a placeholder: - Built from source: nobody publishes it." sed -i 's/All/Built from source: nobody publishes it/' CHANGELOG.md
missing ".github/workflows/a.yml:1: a tag, which may be moved, and no digest: docker run debian:12" sed -i s/@sha256:0// .github/workflows/a.yml
missing ".github/workflows/a.yml:2: a tag, which may be moved, and no digest: - uses: actions/checkout@v4" sed -i 's/@1.*/@v4/' .github/workflows/a.yml
missing "release/nodeclaimd.pub" git rm -q release/nodeclaimd.pub
missing "the tag v0.1.0 is another commit" git tag v0.1.0 good
git tag -d v0.1.0 >/dev/null
missing "the tree has changes" touch uncommitted
release/run 0.1.0 >/dev/null 2>&1
is "nothing was built" "$?$(ls -d build 2>/dev/null)" 1
is "which a tree alone is not, either" "$(release/run 0.1.0 --tree --dry-run --unsigned >/dev/null 2>&1; echo $?; ls -d build 2>/dev/null)" 0
git checkout -q --detach good
sed -i s/example.org/nodeclaimd.example/ debian/control && sed -i 's/@1.*/@v4/' .github/workflows/a.yml && git commit -q -a -m both
is "all placeholders are named at once" "$(release/run 0.1.0 2>&1 | grep -c -e ' a placeholder: 1$' -e ': a tag, ')" 2

# With programs that do nothing but leave files: packages are taken where their tarball is the same and lies beside them.
git checkout -q --detach good
mkdir -p tests/package bin && cp "$top/release/cut-links" release/ && cp "$top/tests/check-links" tests/ && touch LICENSE deploy/chart/README.md
printf 'build\n' >.gitignore
printf '#!/bin/sh\ncd "$(dirname "$0")" && mkdir -p build/dist && git tag --points-at HEAD >build/dist/nodeclaimd-0.1.0.tar.xz\n' >dev
printf '#!/bin/sh\nmkdir -p "$2/deb" "$2/rpm" && echo new >"$2/deb/a.deb" && echo new | tee "$2/rpm/a.rpm" >"$2/rpm/a.src.rpm"\n' >tests/package/run
printf '#!/bin/sh\nfor file; do :; done\n[ "$1" != -S ] || echo >"$file.minisig"\n' >bin/minisign
chmod +x dev tests/package/run bin/minisign
git add . && git commit -q -m programs
# took [OPTION]: which packages a release of these has
took() {
    rm -rf build/release-dry-run
    XDG_CACHE_HOME=$work/cache PATH=$PWD/bin:$PATH release/run 0.1.0 --dry-run "$@" >"$work/said" 2>&1
    cat build/release-dry-run/*.deb && (cd build/release-dry-run && ls *.rpm)
}
tools=$work/cache/nodeclaimd/spdx-tools-$(sha256sum <release/spdx-tools.lock | cut -c 1-16)
mkdir -p "$tools" build/package/deb
touch "$tools/complete"
echo old >build/package/deb/a.deb
is "packages that nobody has tested are made anew, and of RPMs the source is a release's" "$(took)" "new
a.src.rpm"
echo old >build/package/deb/a.deb
echo v0.1.0 >build/package/nodeclaimd-0.1.0.tar.xz
is "tested packages of the same tarball, which is that of the tag, are taken" "$(took)" "old
a.src.rpm"
echo other >build/package/nodeclaimd-0.1.0.tar.xz
is "those of another tarball are not" "$(took)" "new
a.src.rpm"
is "the chart has the release's name" "$(cd build/release-dry-run && echo *.tgz)" nodeclaim-controller-0.1.0.tgz
is "what is of one architecture has its name" "$(cd build/release-dry-run && echo PROV*)" "PROVENANCE-dry-run-$(dpkg --print-architecture).txt"
is "and says that it is of a dry run" "$(head -n 1 build/release-dry-run/PROV*)" "nodeclaimd 0.1.0: of a dry run, not of a release"
is "so does the line before the last" "$(tail -n 2 "$work/said" | sed 's/[0-9][0-9]*/N/g')" "dry run: N missing, not a release
N passed, N failed"
is "with how many things were" "$(tail -n 2 "$work/said" | sed -n 's/^dry run: \([0-9]*\) .*/\1/p')" "$(grep -c '^missing: ' "$work/said")"
is "each step says when it begins, and how long it took" "$(sed -nE 's/^(-- chart|ok [0-9]+ - chart, [0-9]+ s)$/\1/p' "$work/said" | sed 's/[0-9][0-9]*/N/g')" "-- chart
ok N - chart, N s"
is "the signature was tried, and is deleted" "$(grep -c "^ok .* - checksums and signature" "$work/said") $(cd build/release-dry-run && echo SHA*)" "1 SHA256SUMS"
read -r -a again <<<"$(sed -n 's|.*/dev release 0.1.0 --dry-run *||p' build/release-dry-run/PROV*)"
took "${again[@]}" >/dev/null
is "as its origin says that it is repeated, no key is missing" "$(grep 'there is no key' "$work/said")" ""
took --key "$work/a.spec" >/dev/null
is "so is that of a release's key" "$(cd build/release-dry-run && echo SHA*)" SHA256SUMS
# released [OPTION]: the signature, and the first line about its origin, of what is no dry run; on this machine as on Debian 12
released() {
    sed -i 's|VERSION_CODENAME=bookworm. /etc/os-release|ID=. /etc/os-release|' release/run && git commit -q -a --allow-empty -m release
    XDG_CACHE_HOME=$work/cache PATH=$PWD/bin:$PATH release/run 0.1.0 "$@" >"$work/said" 2>&1
    (cd build/release && echo SHA* && head -n 1 PROVENANCE-*.txt && grep -c 'dry run:' "$work/said")
}
is "a release has one, in another folder" "$(released --key "$work/a.spec")" "SHA256SUMS SHA256SUMS.minisig
nodeclaimd 0.1.0
0"
is "where another machine signs there is none, and no key is missing" "$(released --unsigned) $(grep 'there is no key' "$work/said")" "SHA256SUMS
nodeclaimd 0.1.0
0 "

# The image is refused at once where buildah cannot work, as in a container without more capabilities than Docker's own.
printf '#!/bin/sh\necho "Error during unshare(CLONE_NEWUSER): Operation not permitted" >&2\nexit 1\n' >bin/buildah
chmod +x bin/buildah
mkdir -p deb/DEBIAN
for name in nodeclaimd nodeclaim-controller; do
    printf 'Package: %s\nVersion: 1\nArchitecture: %s\nMaintainer: a\nDescription: a\n' "$name" "$(dpkg --print-architecture)" >deb/DEBIAN/control
    dpkg-deb -b deb "$name.deb" >/dev/null
done
is "an image of another package is refused" "$(PATH=$PWD/bin:$PATH "$top/release/controller-image" nodeclaimd.deb a.tar 2>&1; echo $?)" \
    "controller-image: nodeclaimd.deb is the package nodeclaimd: the image is made of nodeclaim-controller_VERSION_ARCH.deb
1"
is "an image is refused before anything is fetched or compiled" \
    "$(XDG_CACHE_HOME=$work/cache PATH=$PWD/bin:$PATH "$top/release/controller-image" --mirror "file://$work/none" nodeclaim-controller.deb a.tar 2>&1 | grep -o -e '^Error.*' -e '[^ ]* --privileged' -e 'cannot fetch')" \
    "Error during unshare(CLONE_NEWUSER): Operation not permitted
run --privileged"
# Its libcurl is compiled for it: the image is made only where that is hardened.
printf '#include <stdio.h>\n#include <string.h>\nint f(const char *s, size_t n) { char t[64]; memcpy(t, s, n); return puts(t); }\n' >f.c
hardening() {
    gcc -O2 -shared -fPIC "$@" f.c -o libf.so && "$top/tests/check-hardening.sh" libf.so | sed -n 's/^not ok .*: //p'
    echo "${PIPESTATUS[0]}"
}
is "a library without hardening" "$(hardening -fno-stack-protector -U_FORTIFY_SOURCE -Wl,-z,norelro,-z,lazy | paste -sd ,)" \
    "GNU_RELRO,BIND_NOW,stack protector,fortified calls,1"
is "a library with it" "$(hardening -fstack-protector-strong -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2 -Wl,-z,relro,-z,now)" 0

# Subjects of commits count from the one on that brings the rule.
cp "$top/tests/check-commits" tests/
git add . && git commit -q -m "tests: check subjects"
for subject in "drain: keep a verdict" "tests/bench: keep it" "Keep a verdict" "drain:keep it" "drain: $(printf 'x%.0s' {1..66})"; do
    git commit -q --allow-empty -m "$subject"
done
is "subjects without a room, and longer ones" "$(tests/check-commits | sed 's/^failed: [0-9a-f]*/failed:/')" "failed: drain: $(printf 'x%.0s' {1..66})
failed: drain:keep it
failed: Keep a verdict
3 passed, 3 failed"

# Packages between releases: of the project's own files, at commits of a repository that holds nothing else.
git init -q "$work/versions" && cd "$work/versions" && mkdir -p release deploy/chart && cp -R "$top"/{VERSION,debian,nodeclaimd.spec,kubectl} . || exit 1
cp "$top/release/version" release/
cp -R "$top/deploy/chart" deploy/
version=$(cat VERSION)
git add . && git commit -q -m 1
# versions: of Debian's packages, of the RPMs, and of the newest entry of their changelog
versions() {
    rm -rf dist && mkdir dist && cp -R VERSION debian nodeclaimd.spec release deploy kubectl dist && release/version dist
    (cd dist && dpkg-parsechangelog -S Version && rpmspec -q --srpm --undefine dist --qf '%{VERSION}-%{RELEASE}\n%{CHANGELOGNAME}\n' nodeclaimd.spec) |
        sed 's/^.* - //' | paste -sd ' '
}
# upgrades OLDER NEWER: both package managers take the second of what versions printed for an upgrade.
upgrades() {
    local older newer
    read -r -a older <<<"$1"
    read -r -a newer <<<"$2"
    dpkg --compare-versions "${older[0]}" lt "${newer[0]}" && rpm --eval "%{lua: print(rpm.vercmp('${older[1]}.amzn2023', '${newer[1]}.amzn2023'))}"
}
# commits COUNT BUILD DEB RPM: what the tree with one more commit, the COUNTth, calls itself, where G stands for COUNT.gCOMMIT
commits() {
    local next build
    git commit -q --allow-empty -m "$1"
    build=$1.g$(git rev-parse HEAD | cut -c 1-8)
    set -- "${@//G/$build}"
    next=$(versions)
    is "the packages name the commit" "$next" "$3 $4 $4"
    is "and so does a build, here and of the tarball" "$(release/version) $(dist/release/version)" "$2 $2"
    is "whose commit it is" "$(dist/release/version --commit)" "$(git rev-parse HEAD)"
    is "and whose time" "$(dist/release/version --time)" "$(git log -1 --format=%ct)"
    is "and the chart" "$(sed -nE 's/^(version|appVersion): //p' dist/deploy/chart/Chart.yaml | paste -sd ' ')" "$2 $2"
    is "and the plugin" "$(dist/kubectl/kubectl-nodeclaim version)" "kubectl-nodeclaim $2"
    is "and the archive of which an RPM is made" "$(rpmspec -q --srpm --qf '[%{SOURCE}]\n' dist/nodeclaimd.spec) $(rpmspec -P dist/nodeclaimd.spec | grep -c "^cd 'nodeclaimd-$2'")" "nodeclaimd-$2.tar.xz 1"
    is "and they upgrade those before them" "$(upgrades "$last" "$next")" -1
    last=$next
}
last="0.0.1 0.0.1-1"
for count in {2..8}; do git commit -q --allow-empty -m "$count"; done
for count in 9 10; do commits "$count" "$version-dev.G" "$version~dev.G" "$version~dev.G-1"; done
git commit -q --allow-empty -m 11 && git tag "v$version"
is "at the tag of the release a build has its version" "$(release/version)" "$version"
is "and its time is that of debian/changelog" "$(release/version --time)" "$(dpkg-parsechangelog -S Timestamp)"
is "and so have the packages" "$(versions)" "$version $version-1 $version-1"
is "which upgrade those before the release" "$(upgrades "$last" "$(versions)")" -1
# links: the addresses in alerts, dashboard and chart that a copy of these sources has
links() {
    versions >/dev/null && (cd dist/deploy/chart && grep -ohE '[^ ":]*(://)?[^ "]*(/|RUNBOOKS/)docs/runbooks[.]md|replace "[^"]*/"' files/* templates/monitoring.yaml | sed 's/replace "//; s/"$//; s|docs/runbooks.md||' | sort -u)
}
is "while it has no home, links have no address" "$(links)" RUNBOOKS/
is "and neither has anything else" "$(versions >/dev/null && grep -rlE '^(Homepage|Vcs-[A-Z][a-z]*|URL|home|sources):' dist)" ""
sed -i '1a Vcs-Browser: https://example.org/a-b/n' debian/control
is "else they open the pages of the tag" "$(links)" "https://example.org/a-b/n/blob/v$version/"
is "and so do packages and chart" "$(cd dist && grep -hE '^(Homepage|Vcs-[A-Z][a-z]*|URL|home|sources): .*https://example.org/a-b/n]?$' debian/control nodeclaimd.spec deploy/chart/Chart.yaml | wc -l)" 6
last=$(versions)
is "and between releases none" "$(git commit -q --allow-empty -m 12 && links)" RUNBOOKS/
git reset -q --hard HEAD^
for count in 12 13; do commits "$count" "$version+G" "$version+G" "$version-1.G"; done
is "and after it, until the next release" "$(upgrades "$last" "$version.1 $version.1-1")" -1
git clone -q --depth 1 "file://$PWD" "$work/shallow" && cd "$work/shallow" || exit 1
build=dev.0.g$(git rev-parse HEAD | cut -c 1-8)
is "where not every commit is there it is said, and none upgrades another" "$(versions 2>&1 | sed 's/.*git fetch/git fetch/')" \
    "git fetch --unshallow
$version~$build $version~$build-1 $version~$build-1"
echo "1..$n"
exit "$bad"
