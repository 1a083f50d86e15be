// Our readers of small texts against the ones that Kubernetes, Go and botocore have, on random and nearly valid texts. No cluster is
// needed: `../../run` builds reader-differ and names it in CONFORMANCE_READERS.
//
// CONFORMANCE_CASES is how many texts each reader is given (20000), CONFORMANCE_SEED where the random numbers begin (1): the same seed
// gives the same texts.
package readers

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"sort"
	"strconv"
	"strings"
	"testing"
)

const (
	chunk    = 20000
	mostSaid = 10
)

// A deliberate is a difference that is wanted. It is looked at only where the two answers differ.
type deliberate struct {
	name, why string
	is        func(text, ours, theirs string) bool
}

// A reader is a comparison: texts, what the other reader makes of one (an answer as reader-differ gives it), and which differences are
// wanted.
type reader struct {
	name   string
	text   func(r *rand.Rand) string
	fields func(text string) []string // nil: the text is the only field
	theirs func(text string) string
	same   func(ours, theirs string) bool // nil: equal, or both refused
	show   func(answer string) string     // nil: as it is
	wanted []deliberate
}

func number(t *testing.T, name string, otherwise uint64) uint64 {
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

func pick[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

func refused(answer string) bool { return strings.HasPrefix(answer, "refused") }

// refusal is a deliberate difference that our message names.
func refusal(name, why string, messages ...string) deliberate {
	return deliberate{name, why, func(_, ours, theirs string) bool {
		if !refused(ours) || refused(theirs) {
			return false
		}
		for _, m := range messages {
			if strings.Contains(ours, m) {
				return true
			}
		}
		return false
	}}
}

// mutated changes a few bytes of a text: takes out, puts in, doubles, swaps.
func mutated(r *rand.Rand, text, alphabet string) string {
	b := []byte(text)
	for range pick(r, 1, 1, 1, 2, 3) {
		at := r.IntN(len(b) + 1)
		c := alphabet[r.IntN(len(alphabet))]
		switch {
		case at == len(b) || r.IntN(3) == 0:
			b = append(b[:at:at], append([]byte{c}, b[at:]...)...)
		case r.IntN(3) == 0:
			b = append(b[:at:at], b[at+1:]...)
		case r.IntN(3) == 0:
			end := min(len(b), at+1+r.IntN(4))
			b = append(b[:end:end], b[at:]...)
		default:
			b[at] = c
		}
	}
	return string(b)
}

// ask gives our answers, one a text.
func (d reader) ask(t *testing.T, texts []string) []string {
	program := os.Getenv("CONFORMANCE_READERS")
	if program == "" {
		t.Fatal("start this test with tests/conformance/run, or name reader-differ in CONFORMANCE_READERS")
	}
	var input, output bytes.Buffer
	for _, text := range texts {
		fields := []string{text}
		if d.fields != nil {
			fields = d.fields(text)
		}
		for i, f := range fields {
			if i > 0 {
				input.WriteByte('\t')
			}
			input.WriteString(hex.EncodeToString([]byte(f)))
		}
		input.WriteByte('\n')
	}
	command := exec.Command(program, d.name)
	command.Stdin, command.Stdout, command.Stderr = &input, &output, os.Stderr
	if err := command.Run(); err != nil {
		t.Fatalf("%s %s: %v", program, d.name, err)
	}
	var answers []string
	for lines := bufio.NewReader(&output); ; {
		line, err := lines.ReadString('\n')
		if err != nil {
			break
		}
		answers = append(answers, strings.TrimSuffix(line, "\n"))
	}
	if len(answers) != len(texts) {
		t.Fatalf("%d answers to %d questions", len(answers), len(texts))
	}
	return answers
}

// verdict names how two answers go together; "" where they should not differ.
func (d reader) verdict(text, ours, theirs string) string {
	if refused(ours) && refused(theirs) {
		return "refused by both"
	}
	if refused(ours) == refused(theirs) {
		if d.same == nil && ours == theirs || d.same != nil && d.same(ours, theirs) {
			return "read by both"
		}
	}
	for _, w := range d.wanted {
		if w.is(text, ours, theirs) {
			return w.name
		}
	}
	return ""
}

func (d reader) shown(text string) string {
	if d.show != nil {
		text = d.show(text)
	}
	if len(text) > 600 {
		return text[:600] + "…"
	}
	return text
}

func (d reader) compare(t *testing.T) {
	seed, cases := number(t, "CONFORMANCE_SEED", 1), number(t, "CONFORMANCE_CASES", 20000)
	r := rand.New(rand.NewPCG(seed, 0))
	verdicts := map[string]int{}
	different := 0
	for left := int(cases); left > 0; left -= chunk {
		texts := make([]string, min(left, chunk))
		for i := range texts {
			texts[i] = d.text(r)
		}
		for i, ours := range d.ask(t, texts) {
			theirs := d.theirs(texts[i])
			v := d.verdict(texts[i], ours, theirs)
			verdicts[v]++
			if v != "" {
				continue
			}
			if different++; different <= mostSaid {
				t.Errorf("%q:\n  they %s\n  we   %s", texts[i], d.shown(theirs), d.shown(ours))
			}
		}
	}
	delete(verdicts, "")
	var said []string
	for name, n := range verdicts {
		said = append(said, fmt.Sprintf("%s %d", name, n))
	}
	sort.Strings(said)
	t.Logf("%s: seed %d, %d cases, %d different; %s", d.name, seed, cases, different, strings.Join(said, ", "))
	if uint64(verdicts["read by both"]) < cases/3 {
		t.Errorf("only %d texts are read by both: this compares too little", verdicts["read by both"])
	}
}
