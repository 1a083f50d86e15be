#!/bin/sh
# data/update-instance-types: what EC2 answers becomes rows; what it does not answer stays; awk takes the result.
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
: "${NC_SRCDIR:=.}"
cp "$NC_SRCDIR/data/instance-types.tsv" "$dir/table"
tab=$(printf '\t')
number=0

check() { # NAME COMMAND...
    name=$1
    shift
    number=$((number + 1))
    if "$@" >>"$dir/log" 2>&1; then
        echo "ok $number - $name"
    else
        echo "not ok $number - $name"
        sed 's/^/# /' "$dir/log"
    fi
}

update() {
    python3 -B "$NC_SRCDIR/data/update-instance-types" --table "$dir/table" "$@"
}

row() {
    grep -qxF "$(printf '%s' "$1" | tr ' ' "$tab")" "$dir/table"
}

fails() {
    ! "$@"
}

rows() {
    grep -vc '^#' "$dir/table"
}

is_taken() {
    LC_ALL=C awk -F "$tab" '/^#/ || $1 == "type" { next } NF != 8 || $1 "" <= last "" { exit 1 } { last = $1 }' "$dir/table"
}

cat >"$dir/same.json" <<'END'
{"InstanceTypes": [{"InstanceType": "m5.large", "VCpuInfo": {"DefaultVCpus": 2}, "MemoryInfo": {"SizeInMiB": 8192},
  "BareMetal": false, "Hypervisor": "nitro", "ProcessorInfo": {"SupportedArchitectures": ["x86_64"]},
  "NetworkInfo": {"MaximumNetworkInterfaces": 3, "Ipv4AddressesPerInterface": 10, "DefaultNetworkCardIndex": 0,
   "NetworkCards": [{"NetworkCardIndex": 0, "MaximumNetworkInterfaces": 3}]}}]}
END
cat >"$dir/new.json" <<'END'
{"InstanceTypes": [
 {"InstanceType": "zz9.large", "VCpuInfo": {"DefaultVCpus": 7}, "MemoryInfo": {"SizeInMiB": 1234}, "Hypervisor": "nitro",
  "ProcessorInfo": {"SupportedArchitectures": ["arm64"]},
  "NetworkInfo": {"MaximumNetworkInterfaces": 99, "Ipv4AddressesPerInterface": 6, "DefaultNetworkCardIndex": 1,
   "NetworkCards": [{"NetworkCardIndex": 0, "MaximumNetworkInterfaces": 9}, {"NetworkCardIndex": 1, "MaximumNetworkInterfaces": 5}]}},
 {"InstanceType": "m5.metal", "VCpuInfo": {"DefaultVCpus": 95}, "MemoryInfo": {"SizeInMiB": 393216}, "BareMetal": true,
  "ProcessorInfo": {"SupportedArchitectures": ["i386", "x86_64"]},
  "NetworkInfo": {"MaximumNetworkInterfaces": 15, "Ipv4AddressesPerInterface": 50}}]}
END

echo 1..8
before=$(rows)
check "the same answer changes nothing" update --check "$dir/same.json"
check "another answer would" fails update --check "$dir/new.json"
check "both are taken" update "$dir/same.json" "$dir/new.json"
check "a new type has its default card's interfaces" row "zz9.large 7 1234 arm64 5 6 - nitro"
check "a known one keeps its branch interfaces" row "m5.metal 95 393216 amd64 15 50 $(awk -F"$tab" '$1 == "m5.metal" {print $7}' "$NC_SRCDIR/data/instance-types.tsv") metal"
check "the rest stays" test "$(rows)" = "$((before + 1))"
check "each row is complete, and they are in order" is_taken
sed -i 's/^zz9.large.*/zz9.large\t7/' "$dir/table"
check "a broken row is refused" fails is_taken
