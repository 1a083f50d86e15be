#!/bin/sh
# Both programs as they were linked: position independent, full RELRO, no executable stack, stack protector, and nothing linked that is not
# in ARCHITECTURE.md; made with the flags of configure.ac, and without a trace of where. TAP over readelf.
#
#     check-hardening.sh [LIBRARY]    of a library only what its distribution's flags give
set -u
n=0
bad=0
is() {
    n=$((n + 1))
    if [ "$2" = yes ]; then echo "ok $n - $name: $1"; else bad=1; echo "not ok $n - $name: $1"; [ -z "${3-}" ] || echo "# $3"; fi
}
# functions BINDING FILE...: the names of ours that are in it. What others may call is GLOBAL in an archive, and LOCAL in a program.
functions() {
    binding=$1
    shift
    LC_ALL=C readelf -sW "$@" 2>/dev/null | awk -v binding="$binding" '$4 == "FUNC" && $5 == binding && $7 != "UND" && $8 ~ /^nc_/ {print $8}' | sort -u
}
[ $# -gt 0 ] || set -- "${NC_BUILDDIR:-.}/nodeclaimd" "${NC_BUILDDIR:-.}/nodeclaim-controller"
for program; do
    name=${program##*/}
    [ -x "$program" ] || { echo "Bail out! there is no $program"; exit 99; }
    header=$(LC_ALL=C readelf -hW "$program")
    segments=$(LC_ALL=C readelf -lW "$program")
    dynamic=$(LC_ALL=C readelf -dW "$program")
    symbols=$(LC_ALL=C readelf --dyn-syms -W "$program")
    sanitized=no
    case $dynamic in *libasan*) sanitized=yes ;; esac

    is "position independent" "$(echo "$header" | grep -q 'Type: *DYN' && echo yes || echo no)"
    is "GNU_RELRO" "$(echo "$segments" | grep -q GNU_RELRO && echo yes || echo no)"
    is "BIND_NOW" "$(echo "$dynamic" | grep -qE 'BIND_NOW|FLAGS.*NOW' && echo yes || echo no)"
    is "no text relocations" "$(echo "$dynamic" | grep -q TEXTREL && echo no || echo yes)"
    is "no executable stack" "$(echo "$segments" | grep GNU_STACK | grep -q 'RWE' && echo no || echo yes)"
    is "no segment both writable and executable" "$(echo "$segments" | grep LOAD | grep -q 'RWE' && echo no || echo yes)"
    is "stack protector" "$(echo "$symbols" | grep -q __stack_chk_fail && echo yes || echo no)"
    plain=no
    [ "$sanitized" = yes ] || LC_ALL=C readelf -sW "$program" | grep -q __gcov || plain=yes
    if [ "$plain" = yes ]; then
        is "fortified calls" "$(echo "$symbols" | grep -qE '__[a-z]+_chk' && echo yes || echo no)"
    fi
    is "no RPATH or RUNPATH" "$(echo "$dynamic" | grep -qE 'RPATH|RUNPATH' && echo no || echo yes)"
    case $name in lib*) echo "1..$n"; exit $bad ;; esac
    [ "$plain" = no ] || is "no path of the machine that built it" "$(grep -qaE "(^|[^.])$NC_SRCDIR/" "$program" && echo no || echo yes)"
    # GCC notes in the debug information how it was called; it has this flag, and level 3 of fortification, since 12.
    producers=$(LC_ALL=C readelf --debug-dump=info --dwarf-depth=1 -W "$program" 2>/dev/null | sed -n 's/.*DW_AT_producer.*: \(GNU C[0-9]* [0-9].*\)/\1/p')
    version=$(echo "$producers" | sed -n '1s/^GNU C[0-9]* \([0-9]*\).*/\1/p')
    if [ "${version:-0}" -ge 12 ]; then
        without=$(echo "$producers" | grep -cv -e -ftrivial-auto-var-init=zero)
        is "variables begin as zero" "$(if [ "$without" = 0 ]; then echo yes; else echo no; fi)" "$without files were compiled without -ftrivial-auto-var-init=zero"
        if [ "$plain" = yes ]; then # a copy into what was just allocated: only level 3 knows its size
            copies=$(find "${NC_BUILDDIR:-.}/src/base" -name '*mem.o' -exec readelf -rW {} +)
            is "fortified at level 3" "$(echo "$copies" | grep -q __memcpy_chk && echo yes || echo no)"
        fi
    fi
    foreign=$(echo "$dynamic" | sed -n 's/.*NEEDED.*\[\(.*\)\]/\1/p' |
        grep -vE '^(libcurl\.so|libsystemd\.so|libcrypto\.so|libssl\.so|libcjson\.so|libyaml-0\.so|libexpat\.so|libz\.so|libc\.so|libm\.so|ld-linux|libasan\.so|libubsan\.so|libgcc_s\.so)')
    is "links only what ARCHITECTURE.md names" "$(if [ -z "$foreign" ]; then echo yes; else echo no; fi)" "$foreign"
    # Of the rooms that are the other program's not one function is there.
    case $name in
        nodeclaimd) others='control control/standalone controller' ;;
        *) others='bootstrap daemon commands host' ;;
    esac
    theirs=$(for room in $others; do functions GLOBAL "${NC_BUILDDIR:-.}/src/$room"/*.a; done | sort -u)
    ours=$(functions LOCAL "$program")
    shared=$(printf '%s\n' "$theirs" "$ours" | sort | uniq -d | head -n 5 | tr '\n' ' ')
    is "nothing of $others" "$([ -n "$theirs" ] && [ -n "$ours" ] && [ -z "$shared" ] && echo yes || echo no)" "$shared"
    # Amazon Linux 2023 has glibc 2.34. A newer build host gives some functions newer versions by itself: only up to 2.36 is it our doing.
    host=$(getconf GNU_LIBC_VERSION 2>/dev/null | sed -n 's/^glibc 2\.\([0-9]*\).*/\1/p')
    if [ "$sanitized" = no ] && [ "${host:-99}" -le 36 ]; then
        newer=$(LC_ALL=C readelf -VW "$program" | grep -oE 'GLIBC_2\.(3[5-9]|[4-9][0-9])' | sort -u | tr '\n' ' ')
        is "no symbol newer than glibc 2.34 (Amazon Linux 2023)" "$(if [ -z "$newer" ]; then echo yes; else echo no; fi)" "$newer"
    fi
done
# The start files of a distribution may carry no marks for control-flow enforcement, and then the linker drops them: each object of ours
# has to have them, so that the program has them wherever the distribution's do too.
case $header in
*X86-64*)
    name=objects
    unmarked=$(find "${NC_BUILDDIR:-.}/src" -name '*.o' | while read -r object; do
        LC_ALL=C readelf -nW "$object" | grep -q 'x86 feature:.*IBT.*SHSTK' || echo "${object##*/}"
    done | tr '\n' ' ')
    is "marked for IBT and SHSTK" "$(if [ -z "$unmarked" ]; then echo yes; else echo no; fi)" "$unmarked"
    ;;
esac
echo "1..$n"
exit $bad
