// User data of MIME, as a node that is set up by nodeadm reads it: Go's net/mail and mime/multipart, one level deep, of which only the
// parts that are ours count. tests/integration/test_mime_differ.py compares all parts with Python's email.

package readers

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"io"
	"math/rand/v2"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	"net/mail"
	"regexp"
	"strings"
	"testing"
)

const nodeConfigType = "application/node.eks.aws"

func mimeBody(r *rand.Rand, mark string) string {
	lines := []string{"apiVersion: node.eks.aws/v1alpha1"}
	for range r.IntN(5) {
		lines = append(lines, pick(r, "kind: NodeConfig", "spec: {}", "", "  a: é", "x=y", "trailing  ", "=", "--", "--"+mark+"x", " --"+mark, strings.Repeat(".", 80)))
	}
	return strings.Join(lines, "\n") + pick(r, "", "\n", "\n\n")
}

func mimeField(r *rand.Rand, name, value string) string {
	return pick(r, name, strings.ToLower(name), strings.ToUpper(name)) + ":" + pick(r, " ", " ", "", "\t") + value + "\n"
}

func mimePart(r *rand.Rand, mark string) string {
	body := mimeBody(r, mark)
	encoding := pick(r, "", "", "", "7bit", "8bit", "base64", "base64", "quoted-printable", "quoted-printable", "Quoted-Printable")
	switch strings.ToLower(encoding) {
	case "base64":
		body = base64.StdEncoding.EncodeToString([]byte(body))
		for at := 76; at < len(body); at += 77 {
			body = body[:at] + "\n" + body[at:]
		}
	case "quoted-printable":
		var b bytes.Buffer
		w := quotedprintable.NewWriter(&b)
		io.WriteString(w, body)
		w.Close()
		body = strings.ReplaceAll(b.String(), "\r\n", "\n")
	}
	fields := []string{mimeField(r, "Content-Type", pick(r, nodeConfigType, nodeConfigType, nodeConfigType, strings.ToUpper(nodeConfigType), "text/x-shellscript")+
		pick(r, "", "", "; charset=utf-8", `; charset="us-ascii"`, ";charset=x;\n name=\"y\""))}
	if encoding != "" {
		fields = append(fields, mimeField(r, "Content-Transfer-Encoding", encoding))
	}
	if r.IntN(3) == 0 {
		fields = append(fields, "MIME-Version: 1.0\n")
	}
	r.Shuffle(len(fields), func(i, j int) { fields[i], fields[j] = fields[j], fields[i] })
	return strings.Join(fields, "") + "\n" + body
}

func mimeText(r *rand.Rand) string {
	mark := pick(r, "B", "BB", "//", "===============123==", "a b", "B--", strings.Repeat("x", 70))
	quoted := `"` + mark + `"`
	if regexp.MustCompile(`^[A-Za-z0-9-]+$`).MatchString(mark) && r.IntN(2) == 0 {
		quoted = mark
	}
	text := pick(r, "MIME-Version: 1.0\n", "", "MIME-Version: 1.0\nSubject: x\n y\n") + mimeField(r, "Content-Type", pick(r, "multipart/mixed", "Multipart/Mixed")+
		pick(r, ";", "; ", ";\n ")+"boundary="+quoted) + "\n" + pick(r, "", "", "\n", "a preamble\n")
	for range 1 + r.IntN(3) {
		text += "--" + mark + pick(r, "\n", "\n", "\n", " \n") + mimePart(r, mark) + "\n"
	}
	text += "--" + mark + pick(r, "--", "--", "--", "--", "--", "") + pick(r, "\n", "", "\nan epilogue\n")
	if r.IntN(4) == 0 {
		text = strings.ReplaceAll(text, "\n", "\r\n")
	}
	if r.IntN(4) == 0 {
		return mutated(r, text, "\n\r =-;:\"ABx0/\x80")
	}
	return text
}

// The parts of our type, and what stopped the reading.
func nodeadmParts(text string) ([]string, error) {
	message, err := mail.ReadMessage(strings.NewReader(text))
	if err != nil {
		return nil, err
	}
	kind, params, err := mime.ParseMediaType(message.Header.Get("Content-Type"))
	if err != nil || !strings.HasPrefix(kind, "multipart/") {
		return nil, err
	}
	var parts []string
	for reader := multipart.NewReader(message.Body, params["boundary"]); ; {
		part, err := reader.NextPart()
		if err == io.EOF {
			return parts, nil
		}
		if err != nil {
			return nil, err
		}
		kind, _, err := mime.ParseMediaType(part.Header.Get("Content-Type"))
		if err != nil && part.Header.Get("Content-Type") != "" {
			return nil, err
		}
		data, err := io.ReadAll(part)
		if err != nil {
			return nil, err
		}
		if kind == nodeConfigType {
			if plain, err := base64.StdEncoding.DecodeString(string(data)); err == nil && len(plain) > 0 {
				data = plain
			}
			parts = append(parts, string(data))
		}
	}
}

func theirMIME(text string) string {
	parts, err := nodeadmParts(text)
	if err != nil {
		return "refused " + err.Error()
	}
	answer := "is"
	for _, p := range parts {
		answer += " " + hex.EncodeToString([]byte(nodeConfigType)) + ":" + hex.EncodeToString([]byte(p))
	}
	return answer
}

// Only the parts that are ours.
func ourParts(answer string) []string {
	var parts []string
	for _, field := range strings.Fields(answer)[1:] {
		if kind, data, _ := strings.Cut(field, ":"); kind == hex.EncodeToString([]byte(nodeConfigType)) {
			parts = append(parts, data)
		}
	}
	return parts
}

func readableParts(answer string) string {
	if refused(answer) {
		return answer
	}
	said := ""
	for _, p := range ourParts(answer) {
		text, _ := hex.DecodeString(p)
		said += "\n       " + strings.ReplaceAll(string(text), "\n", `\n`)
	}
	return said
}

// unpadded: the parts are the same but for base64 that ends without its padding or with bits that no encoder sets.
func unpadded(theirs, ours []string) bool {
	if len(theirs) != len(ours) {
		return false
	}
	for i := range ours {
		text, _ := hex.DecodeString(theirs[i])
		clean := strings.NewReplacer("\n", "", "\r", "", "=", "").Replace(string(text))
		if plain, err := base64.RawStdEncoding.DecodeString(clean); ours[i] != theirs[i] && (err != nil || hex.EncodeToString(plain) != ours[i]) {
			return false
		}
	}
	return true
}

var (
	bareNewline = regexp.MustCompile(`(^|[^\r])\n`)
	headerLine  = regexp.MustCompile(`^[!-9;-~]+:`)
)

var loneReturn = regexp.MustCompile(`\r([^\n]|$)`)

// theirRefusal is a deliberate difference that their message names.
func theirRefusal(name, why string, messages ...string) deliberate {
	turned := refusal(name, why, messages...)
	return deliberate{name, why, func(text, ours, theirs string) bool { return turned.is(text, theirs, ours) }}
}

func TestUserDataAgreesWithGo(t *testing.T) {
	reader{name: "mime", text: mimeText, theirs: theirMIME, show: readableParts,
		same: func(ours, theirs string) bool {
			return strings.Join(ourParts(ours), " ") == strings.Join(ourParts(theirs), " ")
		},
		wanted: []deliberate{
			refusal("a damaged body", "they hand the text on as it is", "its body is not valid", "looks like base64, but"),
			refusal("a transfer encoding that nobody has", "they hand the text on as it is", "is not known: use 7bit"),
			refusal("no media type", "they look for a document without MIME in it", "is not a media type"),
			refusal("no header line", "they take any printable name", "is not a MIME header line"),
			refusal("no part", "only the closing delimiter is left: or the part before it never ends: they leave it out", "stands before the closing line", "cut off in part"),
			refusal("no end of the header", "they read a part of nothing", "no empty line ends its header"),
			{"a CR without its LF", "for us it ends no line and stands in no field", func(text, _, _ string) bool { return loneReturn.MatchString(text) }},
			{"line ends of two kinds", "they go by the first one", func(text, _, _ string) bool {
				return strings.Contains(text, "\r\n") && bareNewline.MatchString(text)
			}},
			{"a blank or an odd byte in the first name", "it is no header line for us, so it is no MIME", func(text, ours, _ string) bool {
				return ours == "is :"+hex.EncodeToString([]byte(text)) && !headerLine.MatchString(text)
			}},
			{"base64 without its padding", "the header says base64, so it is read", func(_, ours, theirs string) bool {
				return !refused(ours) && !refused(theirs) && unpadded(ourParts(theirs), ourParts(ours))
			}},
			theirRefusal("a damaged delimiter or end", "email reads on too; a cut that loses a part of ours is refused by us as well", "expecting a new Part", "unexpected EOF"),
			theirRefusal("a part of somebody else", "we do not look into it", "quotedprintable:"),
			theirRefusal("the last delimiter has neither dashes nor a line end", "email reads it too", "NextPart: EOF"),
			theirRefusal("a damaged parameter", "no parameter counts but the boundary", "invalid media parameter", "duplicate parameter name"),
			theirRefusal("no Content-Type", "then it is no multipart, and we have nothing of it", "no media type", "boundary is empty"),
			theirRefusal("a damaged header line", "of no field of ours, or before any field of MIME", "malformed"),
		}}.compare(t)
}
