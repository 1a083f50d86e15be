# Turns data/instance-types.tsv into the C tables of src/plan/instance-types.c: fixed-width records without a pointer
# in them, so that they stay in the read-only pages of the program and need neither parsing nor relocation. Types of
# which the same is known share a shape.
# 0 (255 for branch interfaces) stands for "not known". Plain POSIX awk.

function number(text, unknown) {
    if (text == "-") return unknown
    if (text !~ /^[0-9]+$/) fail("'" text "' is no number")
    return text + 0
}

function fail(what) {
    printf "%s:%d: %s\n", FILENAME, FNR, what > "/dev/stderr"
    failed = 1
    exit 1
}

BEGIN { FS = "\t"; families = sizes = shapes = types = 0; last = ""
    arch["-"] = 0; arch["amd64"] = 1; arch["arm64"] = 2
    hyper["-"] = 0; hyper["nitro"] = 1; hyper["xen"] = 2; hyper["metal"] = 3 }

/^#/ || /^[ \t]*$/ || $1 == "type" { next }

{
    if (NF != 8) fail("8 columns expected")
    if (!($4 in arch) || !($8 in hyper)) fail("unknown architecture or hypervisor")
    dot = index($1, ".")
    if (dot == 0) fail("no family in '" $1 "'")
    if ($1 "" <= last "") fail("'" $1 "' is not in order")
    last = $1
    family = substr($1, 1, dot); size = substr($1, dot + 1)
    if (length(family) > 13 || length(size) > 11) fail("name too long")
    if (family != current) {
        current = family
        if (family in seen) fail("family '" family "' is in two places")
        seen[family] = 1
        family_rows = family_rows sprintf("    {\"%s\", %d},\n", family, types)
        families++
    }
    if (!(size in size_index)) {
        size_index[size] = sizes++
        size_rows = size_rows sprintf("    \"%s\",\n", size)
    }
    shape = sprintf("{%d, %d, %d, %d, %d, %d}", number($3, 0), number($2, 0), number($5, 0), number($6, 0),
        number($7, 255), arch[$4] + 4 * hyper[$8])
    if (!(shape in shape_index)) {
        shape_index[shape] = shapes++
        shape_rows = shape_rows sprintf("    %s,\n", shape)
    }
    if (sizes > 256 || shapes > 65536) fail("too many sizes or shapes")
    type_sizes = type_sizes sprintf("    %d,\n", size_index[size])
    type_shapes = type_shapes sprintf("    %d,\n", shape_index[shape])
    types++
}

END {
    if (failed) exit 1
    if (types == 0) { print "no instance types" > "/dev/stderr"; exit 1 }
    print "/* Made from data/instance-types.tsv: do not edit. */"
    printf "static const struct family families[] = {\n%s    {\"\", %d},\n};\n", family_rows, types
    printf "static const char sizes[][12] = {\n%s};\n", size_rows
    printf "static const struct shape shapes[] = {\n%s};\n", shape_rows
    printf "static const uint8_t type_sizes[] = {\n%s};\n", type_sizes
    printf "static const uint16_t type_shapes[] = {\n%s};\n", type_shapes
}
