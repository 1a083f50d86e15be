// Kubelet's own loader, flags and validation as the judge of what `render` writes for it: nothing that we accept may be refused by
// kubelet. `../../run` builds reader-differ and names it in CONFORMANCE_READERS. The Kubernetes version is that of the module file with
// which the test is built: ../../run makes one for each minor.
//
// CONFORMANCE_MAPS is how many maps are made (5000), CONFORMANCE_SEED where the random numbers begin (1): the same seed gives the same
// maps.
package judge

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"sort"
	"strconv"
	"strings"
	"testing"

	"k8s.io/component-base/version"
)

const document = `apiVersion: node.eks.aws/v1alpha1
kind: NodeConfig
spec:
  cluster:
    name: demo
    apiServerEndpoint: https://example.com
    certificateAuthority: LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCkFBQUEKLS0tLS1FTkQgQ0VSVElGSUNBVEUtLS0tLQo=
    cidr: 10.100.0.0/16
  kubelet:
    config: %s
    flags: %s
`

// What our half makes of one kubelet block.
type answer struct {
	refused      string
	base, dropin []byte
	args         []string
}

type question struct {
	config []byte
	flags  []string
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

// release is that of the Kubernetes that this program is made of.
const release = "v" + version.DefaultKubeBinaryVersion + ".0"

func unhex(t *testing.T, text string) []byte {
	if text == "-" {
		return nil
	}
	raw, err := hex.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// ask gives our answers, one a question.
func ask(t *testing.T, questions []question) []answer {
	program := os.Getenv("CONFORMANCE_READERS")
	if program == "" {
		t.Fatal("start this test with tests/conformance/run, or name reader-differ in CONFORMANCE_READERS")
	}
	var input, output bytes.Buffer
	tables := [2]string{}
	for i, name := range []string{"kubelet-gates.tsv", "kubelet-flags.tsv"} {
		text, err := os.ReadFile(data + name)
		if err != nil {
			t.Fatal(err)
		}
		tables[i] = fmt.Sprintf("%x", text)
	}
	for _, q := range questions {
		flags, _ := json.Marshal(q.flags)
		fmt.Fprintf(&input, "%x\t%x\t%s\t%s\n", release, fmt.Sprintf(document, q.config, flags), tables[0], tables[1])
	}
	command := exec.Command(program, "kubelet")
	command.Stdin, command.Stdout, command.Stderr = &input, &output, os.Stderr
	if err := command.Run(); err != nil {
		t.Fatalf("%s kubelet: %v", program, err)
	}
	var answers []answer
	lines := bufio.NewScanner(&output)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		parts := strings.Split(lines.Text(), " ")
		if parts[0] == "refused" {
			answers = append(answers, answer{refused: strings.TrimPrefix(lines.Text(), "refused ")})
			continue
		}
		a := answer{base: unhex(t, parts[1]), dropin: unhex(t, parts[2])}
		for _, arg := range parts[3:] {
			a.args = append(a.args, string(unhex(t, arg)))
		}
		answers = append(answers, a)
	}
	if len(answers) != len(questions) {
		t.Fatalf("%d answers to %d questions", len(answers), len(questions))
	}
	return answers
}

var detail = regexp.MustCompile(`"[^"]*"|'[^']*'|-?[0-9][0-9A-Za-z.µ]*|\[[^\]]*\]|user data:[0-9:]+ `)

// kind is a message without what differs from case to case.
func kind(message string) string {
	message = detail.ReplaceAllString(message, "…")
	if len(message) > 160 {
		message = message[:160]
	}
	return message
}

type kinds map[string]*struct {
	n       int
	example string
}

func (k kinds) add(name, example string) {
	if k[name] == nil {
		k[name] = &struct {
			n       int
			example string
		}{example: example}
	}
	k[name].n++
}

func (k kinds) String() string {
	var lines []string
	for name, v := range k {
		lines = append(lines, fmt.Sprintf("%6d %s\n         %s", v.n, name, v.example))
	}
	sort.Sort(sort.Reverse(sort.StringSlice(lines)))
	return strings.Join(lines, "\n")
}

// compare says how many are accepted by both, and fails where kubelet refuses what we accept, or where we refuse without a reason that
// was reviewed.
func compare(t *testing.T, questions []question) {
	k, err := newKubelet()
	if err != nil {
		t.Fatal(err)
	}
	missed, stricter := kinds{}, kinds{}
	known := reviewed(t)
	var both, neither, explained int
	answers := ask(t, append(questions, question{config: []byte("{}")}))
	plain := answers[len(questions)]
	for i, q := range questions {
		ours := answers[i]
		shown := fmt.Sprintf("%s %q", q.config, q.flags)
		switch {
		case ours.refused == "":
			if _, err := k.judge(ours.base, ours.dropin, ours.args); err != nil {
				missed.add(kind(err.Error()), shown+": "+err.Error())
			} else {
				both++
			}
		case k.accepts(plain, q):
			if matches(known, ours.refused) {
				explained++
			} else {
				stricter.add(kind(ours.refused), shown+": "+ours.refused)
			}
		default:
			neither++
		}
	}
	sum := func(k kinds) (n int) {
		for _, v := range k {
			n += v.n
		}
		return n
	}
	t.Logf("kubelet %s: seed %d, %d maps; both accept %d, both refuse %d, we alone refuse %d (%d of them for a reviewed reason), accepted by us and refused by kubelet %d",
		release, number(t, "CONFORMANCE_SEED", 1), len(questions), both, neither, explained+sum(stricter), explained, sum(missed))
	if len(missed) > 0 {
		t.Errorf("accepted, and kubelet refuses:\n%s", missed)
	}
	if len(stricter) > 0 {
		t.Errorf("refused, and kubelet's validation accepts; no later stage that would refuse it is in reviewed:\n%s", stricter)
	}
	if both < len(questions)/5 {
		t.Errorf("only %d of %d are accepted: this compares too little", both, len(questions))
	}
}

// accepts is kubelet's verdict on what we refused: laid over what we write without it.
func (k *kubelet) accepts(plain answer, q question) bool {
	dropin := map[string]any{"kind": "KubeletConfiguration", "apiVersion": "kubelet.config.k8s.io/v1beta1"}
	if err := json.Unmarshal(q.config, &dropin); err != nil {
		return false
	}
	text, err := json.Marshal(dropin)
	if err != nil {
		return false
	}
	_, err = k.judge(plain.base, text, append(plain.args, q.flags...))
	return err == nil
}

func TestKubeletJudgesMaps(t *testing.T) {
	m := newMaker(number(t, "CONFORMANCE_SEED", 1))
	questions := make([]question, number(t, "CONFORMANCE_MAPS", 5000))
	for i := range questions {
		questions[i].config = m.kubelet()
	}
	compare(t, questions)
}

func TestKubeletJudgesFlags(t *testing.T) {
	m := newMaker(number(t, "CONFORMANCE_SEED", 1))
	questions := make([]question, number(t, "CONFORMANCE_MAPS", 5000)/10)
	for i := range questions {
		questions[i].config = []byte("{}")
		for range 1 + m.r.IntN(2) {
			questions[i].flags = append(questions[i].flags, m.flag())
		}
	}
	compare(t, questions)
}
