// What Karpenter makes of the expressions in spec.kubelet of an EC2NodeClass, by its own code (karpenter-provider-aws pkg/cel), beside
// what our plan makes of them, over the types of data/instance-types.tsv. `../../run` builds reader-differ and names it in
// CONFORMANCE_READERS; the module file is that of ../../provider.
//
// CONFORMANCE_CASES is how many random expressions are made (2000), CONFORMANCE_SEED where the random numbers begin (1).
package nodeclass

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/aws/karpenter-provider-aws/pkg/cel"
	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

const table = "../../../../data/instance-types.tsv"

// A class is the part of spec.kubelet that may have expressions.
type class struct {
	MaxPods        any               `json:"maxPods,omitempty"`
	PodsPerCore    int64             `json:"podsPerCore,omitempty"`
	KubeReserved   map[string]string `json:"kubeReserved,omitempty"`
	SystemReserved map[string]string `json:"systemReserved,omitempty"`
}

type question struct {
	class class
	vars  cel.InstanceTypeVars
}

// What reaches the node; refused: no node is launched.
type answer struct {
	refused      string
	maxPods      int64
	kube, system map[string]string
	compiles     bool // each of its expressions, where it is refused
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

// types are those of the table of which all is known.
func types(t *testing.T) (all []cel.InstanceTypeVars) {
	text, err := os.ReadFile(table)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range strings.Split(string(text), "\n") {
		fields := strings.Split(line, "\t")
		numbers, known := make([]int64, len(fields)), true
		for _, i := range []int{1, 2, 4, 5} {
			if len(fields) < 8 {
				known = false
				break
			}
			if numbers[i], err = strconv.ParseInt(fields[i], 10, 64); err != nil {
				known = false
			}
		}
		if known {
			v := cel.InstanceTypeVars{InstanceType: fields[0], VCPUs: numbers[1], MemoryMiB: numbers[2], DefaultENIs: numbers[4], IPsPerENI: numbers[5]}
			v.MaxPods = v.DefaultENIs*(v.IPsPerENI-1) + 2
			all = append(all, v)
		}
	}
	return all
}

func atCore(pods int64, q question) int64 {
	if q.class.PodsPerCore > 0 {
		return min(q.class.PodsPerCore*q.vars.VCPUs, pods)
	}
	return pods
}

// theirs is what resolveMaxPods, ResolveResourceMap and the launch template resolver come to.
func theirs(ctx context.Context, env *cel.CELEnvironment, q question) (a answer) {
	a.compiles = true
	check := func(text string) {
		if err := env.ValidateExpression(text); err != nil {
			a.compiles, a.refused = false, err.Error()
		}
	}
	vars := q.vars
	vars.MaxPods = atCore(vars.MaxPods, q)
	a.maxPods = vars.MaxPods
	switch pods := q.class.MaxPods.(type) {
	case int64:
		a.maxPods = pods
	case string:
		check(pods)
		result, err := env.EvaluateExpression(pods, vars)
		if err == nil && (result < 0 || result > math.MaxInt32) {
			err = fmt.Errorf("maxPods of %d", result)
		}
		if err != nil {
			a.refused = err.Error()
		}
		a.maxPods = result
	}
	given := a.maxPods
	vars.MaxPods = atCore(given, q)
	var err error
	resolve := func(m map[string]string) map[string]string {
		for _, text := range m {
			if _, err := resource.ParseQuantity(text); err != nil {
				check(text)
			}
		}
		resolved, e := env.ResolveResourceMap(ctx, m, func() (cel.InstanceTypeVars, error) { return vars, nil })
		if e != nil {
			err = e
		}
		return resolved
	}
	a.kube, a.system = resolve(q.class.KubeReserved), resolve(q.class.SystemReserved)
	if err != nil {
		a.refused = err.Error()
	}
	return a
}

func ours(t *testing.T, questions []question) (answers []answer) {
	program := os.Getenv("CONFORMANCE_READERS")
	if program == "" {
		t.Fatal("start this test with tests/conformance/run, or name reader-differ in CONFORMANCE_READERS")
	}
	var input, output bytes.Buffer
	for _, q := range questions {
		kubelet, err := json.Marshal(q.class)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&input, "%x\t%x\n", q.vars.InstanceType, kubelet)
	}
	command := exec.Command(program, "node-class")
	command.Stdin, command.Stdout, command.Stderr = &input, &output, os.Stderr
	if err := command.Run(); err != nil {
		t.Fatalf("%s node-class: %v", program, err)
	}
	for _, line := range strings.Split(strings.TrimSuffix(output.String(), "\n"), "\n") {
		if refused, is := strings.CutPrefix(line, "refused "); is {
			answers = append(answers, answer{refused: refused})
			continue
		}
		raw, err := hex.DecodeString(strings.TrimPrefix(line, "is "))
		if err != nil {
			t.Fatal(err)
		}
		var kubelet struct {
			MaxPods                      int64
			KubeReserved, SystemReserved map[string]string
		}
		if err := json.Unmarshal(raw, &kubelet); err != nil {
			t.Fatal(err)
		}
		answers = append(answers, answer{maxPods: kubelet.MaxPods, kube: kubelet.KubeReserved, system: kubelet.SystemReserved})
	}
	if len(answers) != len(questions) {
		t.Fatalf("%d answers to %d questions", len(answers), len(questions))
	}
	return answers
}

// What we refuse and pkg/cel evaluates: each is named in nodeclaimd.yaml(5) as not among what is known; but for a text that begins with a
// minus, which Karpenter's own validation of spec.kubelet refuses, too (pkg/apis/v1/kubeletconfiguration_validation.go), and for an amount
// that is no int64 in bytes, or negative.
var reviewed = []string{"not the string '-", ": too large", ": cannot be reserved", "make a pattern here", "this escape in a text is not known", "comparisons cannot be chained", "nested too deeply"}

func compare(t *testing.T, questions []question) {
	env, err := cel.NewEnvironment()
	if err != nil {
		t.Fatal(err)
	}
	ctx := log.IntoContext(context.Background(), logr.Discard())
	answers := ours(t, questions)
	refused, dropped, wrong := 0, 0, 0
	for i, q := range questions {
		want, have := theirs(ctx, env, q), answers[i]
		text, _ := json.Marshal(q.class)
		if want.refused != "" && have.refused != "" {
			refused++
			continue
		}
		bad := ""
		switch {
		case have.refused != "":
			known := false
			for _, words := range reviewed {
				known = known || strings.Contains(have.refused, words)
			}
			if !known {
				bad = "we refuse: " + have.refused
			}
			refused++
		case want.refused != "":
			bad = "Karpenter refuses: " + want.refused
		case want.maxPods != have.maxPods && q.class.MaxPods != nil:
			bad = fmt.Sprintf("maxPods %d, Karpenter's %d", have.maxPods, want.maxPods)
		default:
			for name, both := range map[string][2]map[string]string{"kubeReserved": {want.kube, have.kube}, "systemReserved": {want.system, have.system}} {
				if len(both[0]) != len(both[1]) || fmt.Sprint(both[0]) != fmt.Sprint(both[1]) {
					bad = fmt.Sprintf("%s %v, Karpenter's %v", name, both[1], both[0])
				}
			}
			dropped += len(q.class.KubeReserved) + len(q.class.SystemReserved) - len(want.kube) - len(want.system)
		}
		if bad != "" {
			if wrong++; wrong <= 10 {
				t.Errorf("%s: %s: %s", q.vars.InstanceType, text, bad)
			}
		}
	}
	t.Logf("%d comparisons: %d differ; %d refused, %d values left out", len(questions), wrong, refused, dropped)
}

// One class a row, each over every type.
var classes = []class{
	{MaxPods: "min(110, max_pods)", KubeReserved: map[string]string{"cpu": "max(60, vcpus * 30)", "memory": "11 * max_pods + 255"}},
	{MaxPods: "((default_enis - 1) * (ips_per_eni - 1)) + 2", SystemReserved: map[string]string{"memory": "memory_mib / 100", "pid": "vcpus * 1000"}},
	{MaxPods: "vcpus > 30 ? 250 : 110", PodsPerCore: 10, KubeReserved: map[string]string{"memory": "11 * max_pods + 255", "ephemeral-storage": "1 + vcpus / 16"}},
	{MaxPods: `instance_type.startsWith("m") ? 58 : int(double(max_pods) * 0.9)`, KubeReserved: map[string]string{"cpu": "double(vcpus) * 12.5 + 0.5"}},
	{MaxPods: `instance_type in ["m5.large", "c5.xlarge"] ? 20 : min(max_pods, 300)`, KubeReserved: map[string]string{"cpu": "100m", "memory": `instance_type.matches("metal|24xlarge") ? 4096 : 512`}},
	{MaxPods: int64(58), KubeReserved: map[string]string{"cpu": "vcpus * 10 - 100", "memory": "100 / (vcpus - 2)"}, SystemReserved: map[string]string{"cpu": "max_pods", "memory": "max(0.5, double(memory_mib) * 0.01)"}},
	{PodsPerCore: 3, KubeReserved: map[string]string{"memory": "max_pods", "cpu": "size(instance_type) * 7"}},
	{MaxPods: "max_pods - 30", KubeReserved: map[string]string{"memory": `instance_type.endsWith(".metal") || instance_type.contains("flex") ? 1000 : memory_mib % 1000`}},
}

func TestNodeClassOverTypes(t *testing.T) {
	var questions []question
	for _, c := range classes {
		for _, v := range types(t) {
			questions = append(questions, question{c, v})
		}
	}
	compare(t, questions)
}

// generator of expressions, of which one in some is wrong on purpose.
type generator struct{ r *rand.Rand }

func (g generator) pick(of ...string) string { return of[g.r.IntN(len(of))] }

func (g generator) text(depth int) string {
	if depth > 0 && g.r.IntN(5) == 0 {
		return "(" + g.text(depth-1) + " + " + g.text(depth-1) + ")"
	}
	return g.pick("instance_type", "instance_type", `"m5"`, `'c'`, `""`, `r"a\.b"`, `".large"`, `"\\"`, `'"'`, `"metal"`)
}

func (g generator) truth(depth int) string {
	if depth == 0 {
		return g.pick("true", "false")
	}
	switch g.r.IntN(9) {
	case 0:
		return g.integer(depth-1) + g.pick(" < ", " <= ", " > ", " >= ", " == ", " != ") + g.integer(depth-1)
	case 1:
		return g.fraction(depth-1) + g.pick(" < ", " <= ", " > ", " >= ", " == ", " != ") + g.fraction(depth-1)
	case 2:
		return g.text(depth-1) + g.pick(" < ", " <= ", " > ", " >= ", " == ", " != ") + g.text(depth-1)
	case 3:
		return "(" + g.truth(depth-1) + g.pick(" && ", " || ") + g.truth(depth-1) + ")"
	case 4:
		return "!(" + g.truth(depth-1) + ")"
	case 5:
		return g.text(depth-1) + g.pick(".contains(", ".startsWith(", ".endsWith(") + g.text(depth-1) + ")"
	case 6:
		return g.text(depth-1) + ".matches(" + g.pick(`"^m5"`, `"[cm][0-9]+"`, `"large$|metal"`, `r"\.x?large"`, `"a*b+c?"`, `"(m|c)5.*"`, `"(?i)M"`, `"[^a-z]"`) + ")"
	case 7:
		return g.text(depth-1) + " in [" + g.text(depth-1) + ", " + g.text(0) + "]"
	}
	return g.integer(depth-1) + " in [" + g.integer(0) + ", " + g.integer(depth-1) + "]"
}

func (g generator) integer(depth int) string {
	if depth == 0 {
		return g.pick("vcpus", "memory_mib", "default_enis", "ips_per_eni", "max_pods", "0", "1", "2", "7", "100", "0x1f", "9223372036854775807")
	}
	switch g.r.IntN(9) {
	case 0, 1, 2:
		return "(" + g.integer(depth-1) + g.pick(" + ", " - ", " * ", " / ", " % ") + g.integer(depth-1) + ")"
	case 3:
		return g.pick("min", "max") + "(" + g.integer(depth-1) + ", " + g.integer(depth-1) + ")"
	case 4:
		return "(" + g.truth(depth-1) + " ? " + g.integer(depth-1) + " : " + g.integer(depth-1) + ")"
	case 5:
		return "int(" + g.fraction(depth-1) + ")"
	case 6:
		return "-" + g.integer(depth-1)
	case 7:
		return g.pick("size("+g.text(depth-1)+")", g.text(depth-1)+".size()")
	}
	return g.integer(depth - 1)
}

func (g generator) fraction(depth int) string {
	if depth == 0 {
		return g.pick("0.0", "0.5", "1.5", "60.5", "1e3", ".25", "1e300")
	}
	switch g.r.IntN(6) {
	case 0, 1:
		return "(" + g.fraction(depth-1) + g.pick(" + ", " - ", " * ", " / ") + g.fraction(depth-1) + ")"
	case 2:
		return "double(" + g.integer(depth-1) + ")"
	case 3:
		return g.pick("min", "max") + "(" + g.integer(depth-1) + ", " + g.fraction(depth-1) + ")"
	case 4:
		return "(" + g.truth(depth-1) + " ? " + g.fraction(depth-1) + " : " + g.fraction(depth-1) + ")"
	}
	return "-" + g.fraction(depth-1)
}

func (g generator) expression() string {
	switch g.r.IntN(12) {
	case 0:
		return g.text(2) // no number
	case 1:
		return g.truth(2)
	case 2:
		return g.integer(1) + g.pick(" + ", " < ", " == ") + g.fraction(1) // of two kinds
	case 3:
		return g.integer(2) + g.pick(" +", ")", " 5", ".size()", " ? 1", " // comment", "\n", "u")
	case 4, 5:
		return g.fraction(3)
	}
	return g.integer(1 + g.r.IntN(4))
}

func TestNodeClassAtRandom(t *testing.T) {
	seed := number(t, "CONFORMANCE_SEED", 1)
	g := generator{rand.New(rand.NewPCG(seed, 0))}
	all := types(t)
	var questions []question
	for range number(t, "CONFORMANCE_CASES", 2000) {
		c := class{KubeReserved: map[string]string{g.pick("cpu", "memory", "ephemeral-storage", "pid"): g.expression()}}
		if g.r.IntN(3) == 0 {
			c.MaxPods = g.expression()
		}
		for range 5 {
			questions = append(questions, question{c, all[g.r.IntN(len(all))]})
		}
	}
	compare(t, questions)
}
