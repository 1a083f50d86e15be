// containerd's own loader and the CRI plugin's own validation as the judge of what `render` writes for it: what we accept may neither
// keep the CRI plugin from loading nor be ignored without a word. `../run` makes the module file of each version (its module is called as
// if it were containerd's: Go gives internal packages to such a one only), builds reader-differ and names it in CONFORMANCE_READERS, and
// the version in CONFORMANCE_CONTAINERD.
//
// CONFORMANCE_TEXTS is how many texts are made (1000), CONFORMANCE_SEED where the random numbers begin (1).
package judge

import (
	"bufio"
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
)

const document = `apiVersion: node.eks.aws/v1alpha1
kind: NodeConfig
spec:
  cluster:
    name: demo
    apiServerEndpoint: https://example.com
    certificateAuthority: LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCkFBQUEKLS0tLS1FTkQgQ0VSVElGSUNBVEUtLS0tLQo=
    cidr: 10.100.0.0/16
  featureGates: {FastImagePull: %t}
  containerd:
    config: %q
`

type host struct{ nvidia, soci bool }

// One host and a user's text.
type question struct {
	text string
	host
}

// What we write without a text, for a host and a version.
type plain map[host]map[int64][]byte

type answer struct {
	refused  string
	config   []byte
	warnings []string
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

func installed(t *testing.T) string {
	version := os.Getenv("CONFORMANCE_CONTAINERD")
	if version == "" {
		t.Fatal("start this test with tests/conformance/run, or name the version in CONFORMANCE_CONTAINERD")
	}
	return version
}

func unhex(t *testing.T, text string) []byte {
	raw, err := hex.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// ask gives our answers, one a question.
func ask(t *testing.T, questions []question) []answer {
	var input, output bytes.Buffer
	table, err := os.ReadFile("../../../data/containerd-keys.tsv")
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range questions {
		nvidia := "-"
		if q.nvidia {
			nvidia = hex.EncodeToString([]byte("nvidia"))
		}
		fmt.Fprintf(&input, "%x\t%x\t%s\t%x\n", installed(t), fmt.Sprintf(document, q.soci, q.text), nvidia, table)
	}
	command := exec.Command(os.Getenv("CONFORMANCE_READERS"), "containerd")
	command.Stdin, command.Stdout, command.Stderr = &input, &output, os.Stderr
	if err := command.Run(); err != nil {
		t.Fatalf("reader-differ containerd: %v", err)
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
		a := answer{config: unhex(t, parts[1])}
		for _, w := range parts[2:] {
			a.warnings = append(a.warnings, string(unhex(t, w)))
		}
		answers = append(answers, a)
	}
	if len(answers) != len(questions) {
		t.Fatalf("%d answers to %d questions", len(answers), len(questions))
	}
	return answers
}

// copied is a value with nothing shared: defaults are maps and pointers.
func copied(of any) any {
	if of == nil {
		return nil
	}
	return deep(reflect.ValueOf(of)).Interface()
}

func deep(v reflect.Value) reflect.Value {
	made := reflect.New(v.Type()).Elem()
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() {
			return v
		}
		inner := deep(v.Elem())
		if v.Kind() == reflect.Interface {
			made.Set(inner)
			return made
		}
		made.Set(reflect.New(v.Type().Elem()))
		made.Elem().Set(inner)
	case reflect.Struct:
		made.Set(v)
		for i := range v.NumField() {
			if made.Field(i).CanSet() {
				made.Field(i).Set(deep(v.Field(i)))
			}
		}
	case reflect.Map:
		if v.IsNil() {
			return v
		}
		made.Set(reflect.MakeMap(v.Type()))
		for _, key := range v.MapKeys() {
			made.SetMapIndex(key, deep(v.MapIndex(key)))
		}
	case reflect.Slice:
		if v.IsNil() {
			return v
		}
		made.Set(reflect.MakeSlice(v.Type(), v.Len(), v.Len()))
		for i := range v.Len() {
			made.Index(i).Set(deep(v.Index(i)))
		}
	default:
		return v
	}
	return made
}

// What containerd makes of a file.
type verdict struct {
	err     error
	ignored []string // keys and plugins
	path    string   // taken for one folder by the transfer service
	dump    string
}

// load is what `containerd config dump` does with a file, and what the CRI plugin does then.
func load(file string) (v verdict) {
	defer func() {
		if p := recover(); p != nil {
			v.err = fmt.Errorf("panic: %v", p)
		}
	}()
	logrus.SetOutput(io.Discard)
	configs := reset()
	err := dump(file, configs, &v)
	if err == nil {
		err = validate(context.Background(), configs)
	}
	v.err = err
	if err == nil {
		if is, path := transfers(context.Background(), configs); is && strings.Contains(path, ":") {
			v.path = path
		}
	}
	return v
}

// judge also tells which plugins the file has settings for, and this containerd has not.
func judge(t *testing.T, folder string, config []byte) verdict {
	file := filepath.Join(folder, "config.toml")
	if err := os.WriteFile(file, config, 0o600); err != nil {
		t.Fatal(err)
	}
	v := load(file)
	tree := map[string]any{}
	if err := parse(config, &tree); err != nil {
		v.err = err
		return v
	}
	if v.err == nil {
		v.err = starts(tree)
	}
	plugins, _ := tree["plugins"].(map[string]any)
	for name := range plugins {
		if !slices.Contains(known(), name) {
			v.ignored = append(v.ignored, name)
		}
	}
	return v
}

// starts is what keeps containerd from starting, or kubelet from it, with a configuration that loads.
func starts(tree map[string]any) error {
	disabled, _ := tree["disabled_plugins"].([]any)
	for _, name := range disabled {
		if name == cri || name == images || name == runtime {
			return fmt.Errorf("kubelet has nothing to talk to")
		}
	}
	required, _ := tree["required_plugins"].([]any)
	for _, name := range required {
		if !slices.Contains(known(), fmt.Sprint(name)) || slices.Contains(disabled, name) {
			return fmt.Errorf("required plugin %v not included", name)
		}
	}
	timeouts, _ := tree["timeouts"].(map[string]any)
	for _, text := range timeouts {
		if _, err := time.ParseDuration(fmt.Sprint(text)); err != nil {
			return fmt.Errorf("unable to parse %v into a time duration", text)
		}
	}
	return nil
}

func known() []string {
	// Of version 2, which 2.x converts.
	names := []string{cri, "io.containerd.internal.v1.restart", "io.containerd.monitor.v1.cgroups"}
	for _, r := range registrations {
		names = append(names, r.URI())
	}
	return names
}

func merge(into, from map[string]any) map[string]any {
	for key, value := range from {
		below, isMap := value.(map[string]any)
		if old, ok := into[key].(map[string]any); ok && isMap {
			value = merge(old, below)
		}
		into[key] = value
	}
	return into
}

// theirs is the verdict on what we refused: the text over what we write without it.
func theirs(t *testing.T, folder, text string, plain map[int64][]byte) verdict {
	user, all := map[string]any{}, map[string]any{}
	if err := parse([]byte(text), &user); err != nil {
		return verdict{err: err}
	}
	version, ok := user["version"].(int64)
	if !ok || plain[version] == nil {
		return verdict{err: fmt.Errorf("version %v", user["version"])}
	}
	if err := parse(plain[version], &all); err != nil {
		t.Fatal(err)
	}
	merged, err := marshal(merge(all, user))
	if err != nil {
		return verdict{err: err}
	}
	return judge(t, folder, merged)
}

var detail = regexp.MustCompile(`"[^"]*"|'[^']*'|[0-9]+`)

type kinds map[string]struct {
	n       int
	example string
}

func (k kinds) add(name, example string) {
	name = detail.ReplaceAllString(name, "…")
	k[name] = struct {
		n       int
		example string
	}{k[name].n + 1, example}
}

func (k kinds) String() string {
	var lines []string
	for name, v := range k {
		lines = append(lines, fmt.Sprintf("%6d %s\n%s", v.n, name, v.example))
	}
	sort.Sort(sort.Reverse(sort.StringSlice(lines)))
	return strings.Join(lines, "\n")
}

// reviewed is what we refuse although containerd would load it, with the reason.
var reviewed = map[string]*regexp.Regexp{
	"Go reads a negative duration, which ends each pull and stream at once, and the CRI plugin none": regexp.MustCompile("must be a duration"),
	"in version 4 nothing reads it":                                         regexp.MustCompile("and the text of version 4"),
	"a hosts.toml is made of it":                                            regexp.MustCompile("registry.mirrors of .*: an endpoint must be a URL"),
	"two versions in one text: which one is meant, nobody knows":            regexp.MustCompile("version is 2, but the plugins"),
	"2.4 drops it from a file of version 2, whatever it is":                 regexp.MustCompile("grpc.v1.cri enable_cdi must be"),
	"another runtime's options are of no such names":                        regexp.MustCompile("runtime.*options.* must be"),
	"runtime.v1.linux takes it, which knows no control groups of version 2": regexp.MustCompile("must be left out"),
	"it names no plugin":                                                    regexp.MustCompile("a plugin is named"),
}

func isReviewed(message string) bool {
	for _, pattern := range reviewed {
		if pattern.MatchString(message) {
			return true
		}
	}
	return false
}

// isAbout tells whether a warning of ours names the key, or a table that it is in.
func isAbout(warning, key string) bool {
	_, ours, ok := strings.Cut(warning, " ignores \"")
	if !ok {
		return strings.Contains(warning, key)
	}
	if strings.HasPrefix(ours, key+"\"") { // a plugin
		return true
	}
	words := strings.FieldsFunc(strings.SplitN(ours, "\"", 2)[0], func(r rune) bool { return r == ' ' || r == '.' })
	return slices.Contains(strings.Fields(key), words[len(words)-1])
}

func named(warnings []string, key string) bool {
	return slices.ContainsFunc(warnings, func(w string) bool { return isAbout(w, key) })
}

func compare(t *testing.T, questions []question) {
	folder := t.TempDir()
	without := ours()
	answers := ask(t, append(questions, without...))
	bare := plain{}
	for i, q := range without {
		if bare[q.host] == nil {
			bare[q.host] = map[int64][]byte{}
		}
		bare[q.host][int64(2+i/4)] = answers[len(questions)+i].config
	}
	missed, silent, wrong, stricter := kinds{}, kinds{}, kinds{}, kinds{}
	var both, neither, explained int
	for i, q := range questions {
		a := answers[i]
		shown := fmt.Sprintf("%s\n   (nvidia %t, soci %t)", q.text, q.nvidia, q.soci)
		if a.refused != "" {
			v := theirs(t, folder, q.text, bare[q.host])
			switch {
			case v.err != nil || len(v.ignored) > 0:
				neither++
			case isReviewed(a.refused):
				explained++
			default:
				stricter.add(a.refused, shown+": "+a.refused)
			}
			continue
		}
		v := judge(t, folder, a.config)
		if v.err != nil {
			missed.add(v.err.Error(), shown+": "+v.err.Error())
			continue
		}
		both++
		for _, key := range v.ignored {
			if !named(a.warnings, key) {
				silent.add(key, shown)
			}
		}
		for _, w := range a.warnings {
			if strings.Contains(w, " ignores \"") && !slices.ContainsFunc(v.ignored, func(key string) bool { return isAbout(w, key) }) {
				wrong.add(w, shown)
			}
		}
		if v.path != "" && !named(a.warnings, "config_path") {
			silent.add("config_path of two folders", shown)
		}
	}
	t.Logf("containerd %s: seed %d, %d texts; both accept %d, both refuse %d, we alone refuse %d (reviewed) and %d, accepted by us and refused by containerd %d",
		installed(t), number(t, "CONFORMANCE_SEED", 1), len(questions), both, neither, explained, len(stricter), len(missed))
	if len(missed) > 0 {
		t.Errorf("accepted, and containerd refuses:\n%s", missed)
	}
	if len(silent) > 0 {
		t.Errorf("written, and containerd ignores it:\n%s", silent)
	}
	if len(wrong) > 0 {
		t.Errorf("named as ignored, and containerd does not say so:\n%s", wrong)
	}
	if len(stricter) > 0 {
		t.Errorf("refused, and containerd takes it:\n%s", stricter)
	}
}

// ours is what is written for each host without a user's text: four of a version.
func ours() (questions []question) {
	for v := range newest - 1 {
		for hosts := range 4 {
			questions = append(questions, question{fmt.Sprintf("version = %d", v+2), host{hosts&1 > 0, hosts&2 > 0}})
		}
	}
	return questions
}

// The table has each plugin that this containerd registers.
func TestTableOfPlugins(t *testing.T) {
	var questions []question
	for _, name := range known() {
		questions = append(questions, question{text: fmt.Sprintf("[plugins.%q]\n", name)})
	}
	for i, a := range ask(t, questions) {
		if a.refused == "" && named(a.warnings, known()[i]) {
			t.Errorf("the table does not have %s: run data/update-containerd-keys", known()[i])
		}
	}
}

func TestContainerdJudgesOurs(t *testing.T) {
	compare(t, append(ours(), question{}))
}

// What we mean is what containerd reads, of version 2 when it has converted it, too.
func TestContainerdReadsItsConfiguration(t *testing.T) {
	want := []string{
		"root = '/var/lib/containerd'", "address = '/run/containerd/containerd.sock'", "default_runtime_name = 'runc'",
		"config_path = '/etc/containerd/certs.d:/etc/docker/certs.d'", "runtime_type = 'io.containerd.runc.v2'",
		"base_runtime_spec = '/etc/containerd/base-runtime-spec.json'", "BinaryName = '/usr/sbin/runc'", "SystemdCgroup = true",
		"conf_dir = '/etc/cni/net.d'", "discard_unpacked_layers = true", "X-Test = ['a']",
	}
	if newest > 2 {
		want = append(want, "sandbox = 'localhost/kubernetes/pause:latest'")
	} else {
		want = append(want, "sandbox_image = 'localhost/kubernetes/pause:latest'")
	}
	var questions []question
	for version := 2; version <= newest; version++ {
		plugin := images
		if version == 2 {
			plugin = cri
		}
		text := fmt.Sprintf("version = %d\n[plugins.%q.registry.headers]\nX-Test = [\"a\"]\n", version, plugin)
		questions = append(questions, question{text: text})
	}
	for i, a := range ask(t, questions) {
		v := judge(t, t.TempDir(), a.config)
		if a.refused != "" || v.err != nil {
			t.Errorf("%s: %s %v", questions[i].text, a.refused, v.err)
			continue
		}
		folder := "bin_dir = '/opt/cni/bin'"
		if strings.Contains(v.dump, "bin_dirs") { // which it has from 2.1 on
			folder = "bin_dirs = ['/opt/cni/bin']"
		}
		for _, line := range append(want, folder) {
			if !regexp.MustCompile(`(?m)^\s*` + regexp.QuoteMeta(line) + `$`).MatchString(v.dump) {
				t.Errorf("%sno line %s in\n%s", questions[i].text, line, v.dump)
			}
		}
	}
}

func TestContainerdJudgesTexts(t *testing.T) {
	m := newMaker(number(t, "CONFORMANCE_SEED", 1))
	questions := make([]question, number(t, "CONFORMANCE_TEXTS", 1000))
	for i := range questions {
		questions[i] = question{m.text(), host{m.one(4), m.one(4)}}
	}
	compare(t, questions)
}
