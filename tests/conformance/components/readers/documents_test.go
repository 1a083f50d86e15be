// JSON and YAML.

package readers

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"math/big"
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
	goyaml "sigs.k8s.io/yaml/goyaml.v2"
)

// tree decodes what reader-differ or the other reader wrote as JSON, with numbers as they are written.
func tree(text []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, fmt.Errorf("more text after the value")
	}
	return v, nil
}

// Two numbers are the same where they are the same whole number, or else the same float64: who reads a fraction reads a float64.
func sameNumber(a, b json.Number) bool {
	if x, ok := new(big.Int).SetString(a.String(), 10); ok {
		if y, ok := new(big.Int).SetString(b.String(), 10); ok {
			return x.Cmp(y) == 0
		}
	}
	x, errX := strconv.ParseFloat(a.String(), 64)
	y, errY := strconv.ParseFloat(b.String(), 64)
	return errX == nil && errY == nil && x == y
}

func sameTree(a, b any) bool {
	switch a := a.(type) {
	case json.Number:
		b, ok := b.(json.Number)
		return ok && sameNumber(a, b)
	case map[string]any:
		b, ok := b.(map[string]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for k, v := range a {
			w, has := b[k]
			if !has || !sameTree(v, w) {
				return false
			}
		}
		return true
	case []any:
		b, ok := b.([]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for i := range a {
			if !sameTree(a[i], b[i]) {
				return false
			}
		}
		return true
	}
	return a == b
}

// The trees of an answer: "is HEX HEX…".
func treesOf(answer string) ([]any, error) {
	var trees []any
	for _, field := range strings.Fields(answer)[1:] {
		text, err := hex.DecodeString(field)
		if err != nil {
			return nil, err
		}
		v, err := tree(text)
		if err != nil {
			return nil, fmt.Errorf("%q: %w", text, err)
		}
		trees = append(trees, v)
	}
	return trees, nil
}

func sameTrees(ours, theirs string) bool {
	a, errA := treesOf(ours)
	b, errB := treesOf(theirs)
	return errA == nil && errB == nil && sameTree(a, b)
}

func readable(answer string) string {
	if refused(answer) {
		return answer
	}
	var said []string
	for _, field := range strings.Fields(answer)[1:] {
		text, _ := hex.DecodeString(field)
		said = append(said, string(text))
	}
	return strings.Join(said, "\n       ")
}

var jsonScalars = []string{"null", "true", "false", "0", "-0", "1", "-1", "1.5", "1e3", "1E-3", "0.0", "9007199254740992", "9007199254740991", "-9007199254740993",
	"9223372036854775807", "18446744073709551616", "1e308", "1e400", "1e-400", "0.1e1", "123456789012345678901234567890", "1.0", "100e-2", "01", "+1", ".5", "5.", "1e", "-",
	"NaN", "Infinity", "nul", "True", `""`, `"a"`, `"\u0000"`, `"\u00e9"`, `"é"`, `"\ud83d\ude00"`, `"\ud83d"`, `"\ude00\ud83d"`, `"\ud83dx"`, `"\n\t\\\/\""`, `"\x"`,
	"\"\xff\"", "\"\xc0\x80\"", "\"\xed\xa0\x80\"", "\"\x00\"", "\"\n\"", "\"\x7f\"", `"\u12"`, `"\u12G4"`, `"\uABcd"`, "'a'", "\"\xf4\x90\x80\x80\"", "\"\u2028\"", "\ufeff1"}

func jsonSpace(r *rand.Rand) string {
	return pick(r, "", "", "", "", "", "", " ", "\n", "\t", "\r\n", "  ")
}

func jsonKey(r *rand.Rand) string {
	return pick(r, `"a"`, `"b"`, `"c"`, `"d"`, `"e"`, `"f"`, `"g"`, `"metadata"`, `"name"`, `"items"`, `""`, `"\u0061"`, `"A"`, `"é"`, "\"x\xff\"", `"a\u0000"`, `"b.c"`, `"h"`, `"i"`, `"j"`,
		`"k"`, `"l"`, `"m"`, `"n"`)
}

func jsonText(r *rand.Rand, depth int) string {
	var b strings.Builder
	b.WriteString(jsonSpace(r))
	switch n := r.IntN(10); {
	case depth > 0 && n < 4:
		b.WriteString("{")
		for i := range r.IntN(4) {
			if i > 0 {
				b.WriteString(",")
			}
			b.WriteString(jsonSpace(r) + jsonKey(r) + jsonSpace(r) + ":" + jsonText(r, depth-1))
		}
		b.WriteString(jsonSpace(r) + "}")
	case depth > 0 && n < 6:
		b.WriteString("[")
		for i := range r.IntN(4) {
			if i > 0 {
				b.WriteString(",")
			}
			b.WriteString(jsonText(r, depth-1))
		}
		b.WriteString(jsonSpace(r) + "]")
	case n < 7:
		b.WriteString(pick(r, jsonScalars...))
	default:
		b.WriteString(pick(r, "null", "true", "1", "-12", `"a"`, `"é"`, "1.5", `"x\ny"`, "4294967296"))
	}
	b.WriteString(jsonSpace(r))
	return b.String()
}

func jsonDocument(r *rand.Rand) string {
	text := jsonText(r, 4)
	if r.IntN(100) == 0 {
		n := pick(r, 60, 63, 64, 65, 100)
		text = strings.Repeat("[", n) + text + strings.Repeat("]", n)
	}
	if r.IntN(4) == 0 {
		return mutated(r, text, "{}[],:\"\\u0019aetrns.-+ \n\x00\xff\xc3")
	}
	return text
}

func theirJSON(text string) string {
	v, err := tree([]byte(text))
	if err != nil {
		return "refused " + err.Error()
	}
	out, err := json.Marshal(v)
	if err != nil {
		return "refused " + err.Error()
	}
	return "is " + hex.EncodeToString(out)
}

var jsonRefusals = []deliberate{
	refusal("invalid UTF-8", "Go puts U+FFFD there: two different texts would be one", "invalid UTF-8"),
	refusal("NUL", "no text of ours may hold one", `\u0000`),
	refusal("duplicate key", "Go takes the last one, others the first", "duplicate key"),
	refusal("integer beyond 2^53", "not every reader has it exactly", "beyond 2^53"),
	refusal("number out of range", "no float64", "out of range", "number is too long"),
	refusal("nested too deep", "64 levels, Go has 10000", "nested too deep"),
	refusal("half a surrogate pair", "Go puts U+FFFD there", "half of a pair of surrogates"),
}

func TestJSONAgreesWithGo(t *testing.T) {
	reader{name: "json", text: jsonDocument, theirs: theirJSON, same: sameTrees, show: readable, wanted: jsonRefusals}.compare(t)
}

var yamlScalars = []string{"", "~", "null", "Null", "NULL", "nULL", "true", "True", "TRUE", "tRUE", "false", "yes", "Yes", "no", "NO", "on", "off", "Off", "y", "n", "Y", "N", "0", "-0", "+0", "1",
	"-1", "+1", "007", "08", "0o17", "0x1F", "0X1f", "-0x1f", "0b101", "-0b1", "1_000", "_1", "1_", "0x_1", "1.5", ".5", "5.", "-.5", "1e3", "1E+3", "1e-3", "1.e3", "1e400", ".inf", "-.inf", "+.Inf", ".nan",
	".NaN", "9223372036854775807", "9223372036854775808", "-9223372036854775808", "-9223372036854775809", "18446744073709551615", "18446744073709551616", "0xFFFFFFFFFFFFFFFF", "12:30:45", "2024-01-01", "2024-01-01T00:00:00Z", "2024-01-01 00:00:00",
	"a", "abc def", "a: b", "a:b", "a #b", "a#b", "http://x/y", "-", "--", "---", "...", "- a", "?", "? a", ":", "=", "<<", "*a", "&a", "&a b", "!t", "!!str 1", "!!int \"1\"", "%x", "@x", "`x",
	"'a'", "'it''s'", "''", `""`, `"a\nb"`, `"\x41"`, `"\u00e9"`, `"\U0001F600"`, `"\e"`, `"\q"`, `"\0"`, `"a`, `'a`, `"a\
  b"`, "|\n  a\n  b\n", "|-\n  a\n", "|+\n  a\n\n", ">\n  a\n  b\n\n  c\n", "|2\n   a\n", "> # c\n  a\n", "|x\n  a\n", "é", "\u00a0", "\ufeff", "\x07", "\x7f", "\u2028", "\u0085", "\xff", "{a: 1}", "{a: 1, b: [2]}", "[1, 2]", "[a, ]", "{}", "[]", "{a}", "[a", "{a: }", "{a:1}", `{"a":1}`,
	"[a: b]", "{? a : b}", "100m", "1Gi", "1930m", "50%", "1.0", "1.10", "0.", "1e", "0x", "0b", "0b2", "1__0", "+", "-_1", "0o8", "0777", "0888", "1.5.5", "\t", "a\tb", "a ", "1,000", "685_230.15", "+.5", "nan", "inf", ".", "..", "_", "-.1e5", "1e+", "0e0", "00", "-00", "01.5", "-012", "+012", "0_7"}

func yamlScalar(r *rand.Rand) string {
	if r.IntN(3) == 0 {
		return mutated(r, pick(r, yamlScalars...), "0123456789abcdefxnotyNOT_+-.:eE~")
	}
	return pick(r, yamlScalars...)
}

func plainValue(r *rand.Rand) string {
	return pick(r, "1", "a", "true", "x-y", "1.5", "'q'", `"d"`, "100m", "null", "some text", "[a, b]", "{a: b}", "[]", "yes", "0755", "http://a.b/c?d=e#f", "-5", "|\n        x\n        y")
}

func yamlKey(r *rand.Rand) string {
	if r.IntN(12) == 0 {
		return pick(r, "1", "true", "y", "~", "null", "<<", "'<<'", "1.5", "0x1", "a b", "'1'", `"y"`, "[a]", "{a: b}", "&a b", "!t x", "*a", "a:b", "? a", "-", "", "é", "2024-01-01", "a.b/c", "on")
	}
	return pick(r, "a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "apiVersion", "kind", "spec", "x/y", "'q'", `"dq"`)
}

// A block or flow of YAML at an indentation, without its own first indentation.
func yamlBlock(r *rand.Rand, indent string, depth int) string {
	more := indent + pick(r, "  ", "  ", "  ", "    ", " ")
	comment := func() string { return pick(r, "", "", "", "", "", "", "", " # c", "\n"+indent+"# c", "\n") }
	switch n := r.IntN(12); {
	case depth > 0 && n < 5:
		var lines []string
		for range 1 + r.IntN(3) {
			if r.IntN(8) == 0 {
				lines = append(lines, "<<: "+pick(r, "*a", "*b", "{c: 1, d: 2}", "[*a, *b]", "[*b, {c: &b 2}]", "[{a: 1}, {a: &a {b: 2}}]", "[]"))
				continue
			}
			lines = append(lines, yamlKey(r)+":"+child(r, indent, more, depth)+comment())
		}
		return strings.Join(lines, "\n"+indent)
	case depth > 0 && n < 8:
		var lines []string
		for range 1 + r.IntN(3) {
			lines = append(lines, "- "+yamlBlock(r, indent+"  ", depth-1)+comment())
		}
		return strings.Join(lines, "\n"+indent)
	case n < 9:
		return yamlScalar(r)
	}
	return plainValue(r)
}

func child(r *rand.Rand, indent, more string, depth int) string {
	switch r.IntN(16) {
	case 0:
		return pick(r, " *a", " *b", " [*a, *b]", " {c: *a}")
	case 1, 2, 3:
		return pick(r, " &a ", " &b ") + pick(r, "{a: 1, b: {c: 2}}", "{c: 3}", "x", "[1, {d: 4}]", "\n"+more+yamlBlock(r, more, depth-1))
	}
	if r.IntN(2) == 0 {
		return " " + pick(r, plainValue(r), plainValue(r), plainValue(r), yamlScalar(r))
	}
	return "\n" + more + yamlBlock(r, more, depth-1)
}

func yamlDocument(r *rand.Rand) string {
	text := pick(r, "", "", "", "", "---\n", "--- ", "# c\n", "%YAML 1.1\n---\n", "\n") + yamlBlock(r, "", 3) + pick(r, "\n", "\n", "\n", "", "\n...\n", "\n# c", "\n---\n", "\n---\nb: 2\n")
	if r.IntN(30) == 0 {
		text = jsonText(r, 3)
	}
	switch r.IntN(8) {
	case 0, 1:
		return mutated(r, text, " \t\n:-#,[]{}'\"|>&*!%?~ab01\r\\.")
	case 2:
		return strings.ReplaceAll(text, "\n", "\r\n")
	}
	return text
}

// Strict alone refuses equal keys, but also a merged key that is written, too: who reads a NodeConfig is not strict.
func theirYAML(text string) string {
	out, err := yaml.YAMLToJSONStrict([]byte(text))
	if err != nil && strings.Contains(err.Error(), "already set in map") && strings.Contains(text, "<<") {
		out, err = yaml.YAMLToJSON([]byte(text))
	}
	if err != nil {
		return "refused " + err.Error()
	}
	return "is " + hex.EncodeToString(out)
}

// Their reader sees the first document alone; ours leaves out the empty ones.
func sameFirst(ours, theirs string) bool {
	if theirs == "is "+hex.EncodeToString([]byte("null")) && len(strings.Fields(ours)) == 1 {
		return true
	}
	a, errA := treesOf(ours)
	b, errB := treesOf(theirs)
	if errA != nil || errB != nil || len(a) == 0 {
		return false
	}
	return sameTree(a[0], b[0]) || len(a) > 0 && b[0] == nil
}

var flowMark = regexp.MustCompile(`[{\[](?s:.*)[?:]`)

var signedBinary = regexp.MustCompile(`0b_*[+-]_*[01]`)

// Is the text broken behind its first document? Their reader never comes there.
func isBrokenLater(text, ours, theirs string) bool {
	d := goyaml.NewDecoder(strings.NewReader(text))
	d.SetStrict(true)
	for n := 0; refused(ours) && !refused(theirs); n++ {
		var v any
		if err := d.Decode(&v); err != nil {
			return err != io.EOF && n > 0
		}
	}
	return false
}

func TestYAMLAgreesWithSigsYAML(t *testing.T) {
	reader{name: "yaml", text: yamlDocument, theirs: theirYAML, same: sameFirst, show: readable, wanted: []deliberate{
		refusal("key twice beside a merge", "one of them is a mistake", "stands here a second time"),
		refusal("tag", "quotes make text, nothing else is needed", "tags are not", "did not find expected tag URI", "did not find expected whitespace or line break"),
		refusal("key that is no text", "they make text of it: yes becomes true", "key is not text"),
		refusal("infinity or NaN", "no JSON has it", "infinity and NaN"),
		refusal("NUL", "no text of ours may hold one", "NUL character"),
		{"a byte order mark at the start of a line", "libyaml skips it, for them it is text", func(text, _, _ string) bool {
			return strings.Contains(text, "\ufeff")
		}},
		{`\/`, "YAML 1.2 and JSON have it, their YAML has not", func(text, ours, theirs string) bool {
			return !refused(ours) && strings.Contains(theirs, "unknown escape") && strings.Contains(text, `\/`)
		}},
		refusal(`\'`, "no YAML has it", "unknown escape"),
		{"a sign behind 0b", "0b-1 is text; that it is a number for them is a slip of their reader", func(text, _, _ string) bool {
			return signedBinary.MatchString(text)
		}},
		{"a colon or question mark inside a flow", "only one of the parsers takes it: {a:}, {? x? a}", func(text, ours, theirs string) bool {
			return refused(ours) != refused(theirs) && flowMark.MatchString(text)
		}},
		{"broken behind the first document", "they read one document alone", isBrokenLater},
	}}.compare(t)
}
