// TOML: the published test suite, each of its cases for TOML 1.0, and the readers that containerd has.

package readers

import (
	"context"
	"encoding/hex"
	"fmt"
	"io/fs"
	"strings"
	"testing"

	pelletier1 "github.com/pelletier/go-toml"
	pelletier2 "github.com/pelletier/go-toml/v2"
	tomltest "github.com/toml-lang/toml-test/v2"
)

// What our reader does not take, though the suite says that it is valid, and how the refusal must read. No text of ours may hold a NUL, and
// neither may a path, an environment or an argument that containerd would make of it.
var tomlRefused = map[string]string{
	"key/quoted-unicode":    "line 2, column 2: a NUL character in a string",
	"string/quoted-unicode": "line 2, column 19: a NUL character in a string",
	"string/unicode-escape": "line 6, column 12: a NUL character in a string",
}

// A decoder is our reader as the suite wants it: from TOML to JSON with types.
type decoder struct{ t *testing.T }

func (d decoder) Cmd() []string { return []string{"reader-differ", "toml"} }

// answer gives the JSON of what was read and the TOML that our writer makes of it, or the refusal.
func (d decoder) answer(text string) (json, toml string, ok bool) {
	answer := reader{name: "toml"}.ask(d.t, []string{text})[0]
	if refused(answer) {
		return answer, "", false
	}
	var fields [2]string
	for i, field := range strings.Fields(answer)[1:] {
		b, err := hex.DecodeString(field)
		if err != nil {
			d.t.Error(err)
		}
		fields[i] = string(b)
	}
	return fields[0], fields[1], true
}

func (d decoder) Run(_ context.Context, text string) (int, string, bool, error) {
	json, _, ok := d.answer(text)
	return 0, json, !ok, nil
}

// A secondDecoder reads what our writer made of the text.
type secondDecoder struct{ decoder }

func (d secondDecoder) Run(_ context.Context, text string) (int, string, bool, error) {
	json, toml, ok := d.answer(text)
	if ok {
		json, _, ok = d.answer(toml)
	}
	return 0, json, !ok, nil
}

// An encoder is our writer: from the JSON of a case to TOML, which the suite's own reader reads. Our program is given the TOML of the case.
type encoder struct {
	decoder
	tomlOf map[string]string // by JSON
}

func (e encoder) Run(_ context.Context, json string) (int, string, bool, error) {
	text, has := e.tomlOf[json]
	if !has {
		return 0, "", false, fmt.Errorf("no case has this JSON")
	}
	refusal, toml, ok := e.answer(text)
	if !ok {
		return 0, refusal, true, nil
	}
	return 0, toml + "\n", false, nil // the suite takes no text at all for no answer
}

// validCases gives the TOML of each case that is valid by its JSON.
func validCases(t *testing.T, files fs.FS) map[string]string {
	cases := map[string]string{}
	names, err := fs.ReadFile(files, "files-toml-1.0.0")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range strings.Fields(string(names)) {
		if stem, is := strings.CutSuffix(name, ".json"); is {
			json, errJSON := fs.ReadFile(files, name)
			toml, errTOML := fs.ReadFile(files, stem+".toml")
			if errJSON != nil || errTOML != nil {
				t.Fatal(errJSON, errTOML)
			}
			cases[string(json)] = string(toml)
		}
	}
	return cases
}

func isUnread(err error) bool {
	for message := range tomlUnread {
		if strings.Contains(err.Error(), message) {
			return true
		}
	}
	return false
}

func TestTOMLTestSuite(t *testing.T) {
	files := tomltest.TestCases()
	d := decoder{t}
	for name, r := range map[string]tomltest.Runner{
		"read":           {Decoder: d},
		"write and read": {Decoder: secondDecoder{d}},
		"write":          {Decoder: d, Encoder: encoder{d, validCases(t, files)}},
	} {
		r.Files, r.Version, r.Parallel = files, "1.0", 2
		tests, err := tomltest.NewRunner(r).Run()
		if err != nil {
			t.Fatal(err)
		}
		passed, refusals := 0, 0
		for _, test := range tests.Tests {
			_, stem, _ := strings.Cut(test.Path, "/")
			wanted, is := tomlRefused[stem]
			switch {
			case is && !test.Invalid() && strings.Contains(test.Output, wanted):
				refusals++
			case is && !test.Invalid():
				t.Errorf("%s: %s is not refused with %q: %s", name, test.Path, wanted, test.Output)
			case test.Failed():
				t.Errorf("%s: %s: %s\n%s", name, test.Path, test.Failure, test.Output)
			default:
				passed++
			}
			if test.Invalid() && !strings.HasPrefix(test.Output, "refused line ") {
				t.Errorf("%s: %s: no line in %q", name, test.Path, test.Output)
			}
		}
		t.Logf("%s: %d cases passed, %d are refused for their NUL", name, passed, refusals)
		if passed < 600 {
			t.Errorf("%s: only %d cases", name, passed)
		}
	}
}

// What go-toml 1 cannot read, though it is valid: its message, and why that is.
var tomlUnread = map[string]string{
	"invalid bare key character: ":                 "it ends a quoted key at the first quote, and takes no escape there",
	"incorrect date/time separation character: \n": "it wants a comment or a time behind a date, and no end of the line",
}

// What we write means the same to the reader of containerd 1.7 (go-toml 1) and of containerd 2 (go-toml 2) as what we read.
func TestTOMLIsReadByContainerd(t *testing.T) {
	for name, read := range map[string]func([]byte, any) error{
		"go-toml 1": func(text []byte, v any) error { return pelletier1.Unmarshal(text, v) },
		"go-toml 2": pelletier2.Unmarshal,
	} {
		same, unread := 0, 0
		for _, text := range validCases(t, tomltest.TestCases()) {
			var theirs, ours map[string]any
			_, toml, ok := decoder{t}.answer(text)
			if !ok || read([]byte(text), &theirs) != nil {
				unread++
				continue
			}
			if err := read([]byte(toml), &ours); err != nil && name == "go-toml 1" && isUnread(err) {
				unread++
			} else if err != nil {
				t.Errorf("%s: %v in\n%s\nfrom\n%s", name, err, toml, text)
			} else if fmt.Sprint(ours) != fmt.Sprint(theirs) {
				t.Errorf("%s: %v, not %v, in\n%s\nfrom\n%s", name, ours, theirs, toml, text)
			} else {
				same++
			}
		}
		t.Logf("%s: %d texts are the same, %d are not read", name, same, unread)
		if same < 100 {
			t.Errorf("%s: only %d texts", name, same)
		}
	}
}
