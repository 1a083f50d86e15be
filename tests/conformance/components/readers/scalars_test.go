// Quantities, durations, times, base64 and gzip.

package readers

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"math"
	"math/big"
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
)

func digits(r *rand.Rand, most int) string {
	b := make([]byte, 1+r.IntN(most))
	for i := range b {
		b[i] = "0123456789"[r.IntN(10)]
		if r.IntN(4) == 0 {
			b[i] = pick(r, byte('0'), '9')
		}
	}
	return string(b)
}

func decimal(r *rand.Rand) string {
	whole := digits(r, pick(r, 1, 3, 6, 12, 20, 30))
	switch r.IntN(8) {
	case 0:
		return whole + "."
	case 1:
		return "." + whole
	case 2, 3:
		return whole + "." + digits(r, pick(r, 2, 4, 10, 30))
	}
	return whole
}

// An exponent of more digits is a number that only costs time, theirs most of all.
var noExponent = regexp.MustCompile(`[eE][+-]?[0-9]+$`)
var longExponent = regexp.MustCompile(`[eE][+-]?[0-9]{4,}`)

func quantity(r *rand.Rand) string {
	return longExponent.ReplaceAllString(anyQuantity(r), "e999")
}

func anyQuantity(r *rand.Rand) string {
	text := pick(r, "", "", "", "", "-", "+") + decimal(r) +
		pick(r, "", "", "n", "u", "m", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei", "e3", "E3", "e-3", "E+2", "e", "ki", "K")
	if r.IntN(12) == 0 {
		text += pick(r, "e", "E", "e-", "e+") + digits(r, 3)
	}
	if r.IntN(4) == 0 {
		return mutated(r, text, "0123456789.eE+-numkMGTPKi _xµ")
	}
	return text
}

// The number that a quantity's text says, times a power of ten, rounded away from zero.
func scaled(q resource.Quantity, shift int32) *big.Int {
	d := q.AsDec()
	scale := int32(d.Scale()) - shift
	n := new(big.Int).Set(d.UnscaledBig())
	power := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(max(scale, -scale))), nil)
	if scale <= 0 {
		return n.Mul(n, power)
	}
	rest := new(big.Int)
	n.QuoRem(n, power, rest)
	return n.Add(n, big.NewInt(int64(rest.Sign())))
}

var inexact = regexp.MustCompile(`-?[0-9]+, and exactly `)

// MilliValue and Value, and range where the exact number is not an int64: there both of them return anything.
func theirQuantity(text string) string {
	q, err := resource.ParseQuantity(text)
	if err != nil {
		return "refused"
	}
	said := func(shift int32, said int64) string {
		exact := scaled(q.DeepCopy(), shift)
		if !exact.IsInt64() {
			return "range"
		}
		if exact.Int64() != said {
			return fmt.Sprintf("%d, and exactly %s", said, exact)
		}
		return strconv.FormatInt(said, 10)
	}
	return fmt.Sprintf("is milli=%s value=%s", said(3, q.MilliValue()), said(0, q.Value()))
}

// apimachinery makes 2^63-1 of everything that is larger; a number that no machine has is refused by us instead.
func isCapped(text, ours, theirs string) bool {
	return strings.HasPrefix(theirs, "is milli=range ") && strings.HasSuffix(strings.TrimPrefix(theirs, "is milli=range "), "="+strconv.Itoa(math.MaxInt64)) &&
		ours == "is milli=range value=range" ||
		strings.HasSuffix(theirs, "value=-"+strconv.Itoa(math.MaxInt64)) && ours == "is milli=range value=range"
}

func TestQuantitiesAgreeWithApimachinery(t *testing.T) {
	reader{name: "quantity", text: quantity, theirs: theirQuantity, wanted: []deliberate{
		{"beyond 2^63-1", "they cap it, we refuse the number where it is used", isCapped},
		{"no digit", "they take it for 0; it is a slip of somebody's hand", func(text, ours, theirs string) bool {
			return ours == "refused" && !strings.ContainsAny(noExponent.ReplaceAllString(text, ""), "0123456789")
		}},
		{"below 0", "their rounding adds 1 to what was cut off, and wraps around; ours is exact, and no amount here may be negative",
			func(text, ours, theirs string) bool {
				return strings.HasPrefix(text, "-") && ours == inexact.ReplaceAllString(theirs, "")
			}},
	}}.compare(t)
}

func someNumber(r *rand.Rand) string {
	n := r.Int64N(math.MaxInt64) >> r.IntN(63)
	for range r.IntN(4) {
		if f := pick[int64](r, 1000, 1024, 1000000, 1<<20, 1<<30); n < math.MaxInt64/f {
			n *= f
		}
	}
	return pick(r, "", "", "", "-") + strconv.FormatInt(n, 10)
}

func TestCanonicalQuantitiesAgreeWithApimachinery(t *testing.T) {
	milli := func(text string) string {
		n, _ := strconv.ParseInt(text, 10, 64)
		return "is " + resource.NewMilliQuantity(n, resource.DecimalSI).String()
	}
	bytes := func(text string) string {
		n, _ := strconv.ParseInt(text, 10, 64)
		return "is " + resource.NewQuantity(n, resource.BinarySI).String()
	}
	reader{name: "milli", text: someNumber, theirs: milli}.compare(t)
	reader{name: "bytes", text: someNumber, theirs: bytes}.compare(t)
}

func duration(r *rand.Rand) string {
	text := ""
	for range pick(r, 1, 1, 2, 2, 3) {
		n := pick(r, digits(r, 2), digits(r, 4), decimal(r))
		text += n + pick(r, "h", "m", "s", "ms", "us", "µs", "μs", "ns")
	}
	text = pick(r, "", "", "", "", "", "+", "-") + text
	switch r.IntN(20) {
	case 0:
		return pick(r, "0", "+0", "-0", "", "0s", "-0s", ".s", "1", "+", "-", "1d", "1w", " 1s", "1s ", "1 s", "9223372036854775807ns", "9223372036854775808ns",
			"2562047h47m16.854775807s", "2562047h47m16.854775808s", "-2562047h47m16.854775808s", "00", "0.0", "1h0", "0h0")
	case 1, 2, 3:
		return mutated(r, text, "0123456789.hmsuµnd+- x")
	}
	return text
}

func theirDuration(text string) string {
	d, err := time.ParseDuration(text)
	if err != nil {
		return "refused"
	}
	if d < 0 {
		return fmt.Sprintf("is -%d", -d.Microseconds())
	}
	return fmt.Sprintf("is %d", d.Microseconds())
}

func TestDurationsAgreeWithGo(t *testing.T) {
	reader{name: "duration", text: duration, theirs: theirDuration, wanted: []deliberate{
		{"negative", "nothing here lasts less than no time", func(text, ours, theirs string) bool {
			return ours == "refused" && strings.HasPrefix(text, "-") && strings.HasPrefix(theirs, "is ")
		}},
	}}.compare(t)
}

func TestCanonicalDurationsAgreeWithGo(t *testing.T) {
	text := func(r *rand.Rand) string {
		n := r.Int64N(math.MaxInt64/1000) >> r.IntN(53)
		for range r.IntN(3) {
			if f := pick[int64](r, 10, 60, 1000, 3600); n < math.MaxInt64/1000/f {
				n *= f
			}
		}
		return strconv.FormatInt(n, 10)
	}
	reader{name: "microseconds", text: text, theirs: func(text string) string {
		n, _ := strconv.ParseInt(text, 10, 64)
		return "is " + (time.Duration(n) * time.Microsecond).String()
	}}.compare(t)
}

func moment(r *rand.Rand) string {
	at := time.UnixMicro(r.Int64N(253402300799999999) >> pick(r, 0, 0, 3, 7, 20))
	zone := time.FixedZone("", pick(r, 0, 0, 0, 3600, -3600, 19800, 45900, -34200, r.IntN(86400)/60*60))
	text := at.In(zone).Format(pick(r, time.RFC3339, time.RFC3339, time.RFC3339Nano, "2006-01-02T15:04:05.000000Z07:00", "2006-01-02T15:04:05Z07:00"))
	switch r.IntN(12) {
	case 0:
		return mutated(r, text, "0123456789.,:-+TZtz ")
	case 1:
		return fmt.Sprintf("%04d-%02d-%02dT%02d:%02d:%02d%s", pick(r, 1970, 2024, 2023, 1900, 2000, 2100, 9999), r.IntN(14), r.IntN(33), r.IntN(26), r.IntN(62), r.IntN(62),
			pick(r, "Z", "+24:00", "+23:59", "+23:60", "-12:00", "", "z"))
	case 2:
		return pick(r, "", "1969-12-31T23:59:59Z", "1970-01-01T00:00:00Z", "1970-01-01T00:00:00+00:01", "0000-01-01T00:00:00Z", "2024-02-29T00:00:00Z",
			"2023-02-29T00:00:00Z", "2024-01-01T0:00:00Z", "2024-01-01T00:00:00,5Z", "2024-01-01T00:00:00.Z", "2024-01-01 00:00:00Z", "2016-12-31T23:59:60Z", "2024-01-01T24:00:00Z")
	}
	return text
}

func theirTime(text string) string {
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return "refused"
	}
	return fmt.Sprintf("is %d", at.Unix()*1000000)
}

func TestTimesAgreeWithGo(t *testing.T) {
	reader{name: "time", text: moment, theirs: theirTime, wanted: []deliberate{
		{"before 1970", "nothing that a node is told lies there", func(_, ours, theirs string) bool {
			return refused(ours) && strings.HasPrefix(theirs, "is -")
		}},
		{"no RFC 3339", "Go also takes an hour of one digit, a comma before the fraction, and offsets of 24 hours or 60 minutes; nobody writes them",
			func(text, ours, theirs string) bool {
				t := strings.IndexByte(text, 'T')
				return refused(ours) && t > 0 && (strings.Contains(text, ",") || len(text) > t+2 && text[t+2] == ':' || len(text) > 5 &&
					(strings.HasPrefix(text[len(text)-5:], "24:") || strings.HasSuffix(text, ":60")))
			}},
	}}.compare(t)
}

func base64Text(r *rand.Rand) string {
	plain := make([]byte, r.IntN(40))
	for i := range plain {
		plain[i] = byte(r.IntN(256))
	}
	text := pick(r, base64.StdEncoding, base64.StdEncoding, base64.RawStdEncoding, base64.URLEncoding).EncodeToString(plain)
	for range pick(r, 0, 0, 1, 3) {
		at := r.IntN(len(text) + 1)
		text = text[:at] + pick(r, "\n", "\r\n") + text[at:]
	}
	if r.IntN(3) == 0 {
		return mutated(r, text, "AZaz09+/=-_ \n\r\t\x00")
	}
	return text
}

func theirBase64(text string) string {
	for _, e := range []*base64.Encoding{base64.StdEncoding, base64.RawStdEncoding} {
		if plain, err := e.Strict().DecodeString(text); err == nil {
			return "is " + hex.EncodeToString(plain)
		}
	}
	return "refused"
}

func TestBase64AgreesWithGo(t *testing.T) {
	reader{name: "base64", text: base64Text, theirs: theirBase64}.compare(t)
}

// A writer costs a megabyte; these are used again and again.
var writers = func() (list []*gzip.Writer) {
	for _, level := range []int{gzip.NoCompression, gzip.BestSpeed, gzip.BestCompression, gzip.HuffmanOnly} {
		w, _ := gzip.NewWriterLevel(io.Discard, level)
		list = append(list, w)
	}
	return list
}()

func gzipText(r *rand.Rand) string {
	var b bytes.Buffer
	for range pick(r, 1, 1, 1, 2) {
		w := pick(r, writers...)
		w.Reset(&b)
		w.Name = pick(r, "", "", "user-data")
		w.Comment = pick(r, "", "", "x")
		if r.IntN(4) == 0 {
			w.Extra = []byte("extra")
		}
		fmt.Fprint(w, strings.Repeat(pick(r, "a", "apiVersion: v1\n", digits(r, 30)), r.IntN(60)))
		w.Close()
	}
	if r.IntN(3) == 0 {
		return mutated(r, b.String(), b.String()+"\x00\xff\x1f\x8b")
	}
	if r.IntN(10) == 0 {
		return b.String()[:r.IntN(b.Len()+1)]
	}
	return b.String()
}

func theirGzip(text string) string {
	z, err := gzip.NewReader(strings.NewReader(text))
	if err != nil {
		return "refused"
	}
	plain, err := io.ReadAll(io.LimitReader(z, 1<<16+1))
	if err != nil || len(plain) > 1<<16 {
		return "refused"
	}
	return "is " + hex.EncodeToString(plain)
}

func TestGzipAgreesWithGo(t *testing.T) {
	reader{name: "gzip", text: gzipText, theirs: theirGzip, wanted: []deliberate{
		refusal("reserved flags", "RFC 1952 says that a reader must refuse them; Go does not look", "unknown header flags"),
	}}.compare(t)
}
