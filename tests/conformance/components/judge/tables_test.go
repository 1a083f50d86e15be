package judge

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/component-base/version"
	"k8s.io/kubernetes/cmd/kubelet/app/options"
	"k8s.io/kubernetes/pkg/kubelet/apis/config"
)

const data = "../../../../data/"

// rows reads those of a table of the sources that hold for this release.
func rows(t *testing.T, name string) map[string][]string {
	text, err := os.ReadFile(data + name)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string][]string{}
	for _, line := range strings.Split(strings.TrimSpace(string(text)), "\n") {
		row := strings.Split(line, "\t")
		if !strings.HasPrefix(line, "#") && since(row[1]) && (row[2] == "-" || !since(row[2]) || row[2] == minor()) {
			found[row[0]] = row
		}
	}
	return found
}

func minor() string { return strings.TrimPrefix(version.DefaultKubeBinaryVersion, "1.") }

// since tells whether this release is of the minor or a later one.
func since(first string) bool {
	of, err := strconv.Atoi(first)
	own, _ := strconv.Atoi(minor())
	return err == nil && own >= of
}

func names[T any](m map[string]T) []string {
	var list []string
	for name := range m {
		list = append(list, name)
	}
	slices.Sort(list)
	return list
}

func compareNames(t *testing.T, what string, ours, theirs []string) {
	for _, name := range theirs {
		if !slices.Contains(ours, name) {
			t.Errorf("kubelet %s knows %s %s, the table does not: run data/update-kubelet-tables", release, what, name)
		}
	}
	for _, name := range ours {
		if !slices.Contains(theirs, name) {
			t.Errorf("the table has %s %s, kubelet %s does not", what, name, release)
		}
	}
	t.Logf("kubelet %s: %d of %s, %d in the table", release, len(theirs), what, len(ours))
}

func TestTableOfGates(t *testing.T) {
	if _, err := newKubelet(); err != nil {
		t.Fatal(err)
	}
	table := rows(t, "kubelet-gates.tsv")
	theirs, needed := map[string]bool{}, map[string]bool{}
	for _, row := range table {
		for _, need := range strings.Split(strings.Join(row[7:], ""), ",") {
			name, from, _ := strings.Cut(need, ":")
			needed[name] = needed[name] || since(from)
		}
	}
	for name, spec := range utilfeature.DefaultMutableFeatureGate.GetAll() {
		theirs[string(name)] = true
		row := table[string(name)]
		if row == nil {
			continue
		}
		// The table says since when it has been on; that it was on for some minors before counts where another gate needs it.
		wasOn := spec.Default && !since(row[3]) && !needed[string(name)]
		if since(row[3]) != spec.Default && !wasOn || since(row[4]) != spec.LockToDefault {
			t.Errorf("%s: kubelet %s: default %t, locked %t; the table says %v", name, release, spec.Default, spec.LockToDefault, row)
		}
	}
	compareNames(t, "gate", names(table), names(theirs))
}

func TestTableOfFlags(t *testing.T) {
	if _, err := newKubelet(); err != nil {
		t.Fatal(err)
	}
	c, err := options.NewKubeletConfiguration()
	if err != nil {
		t.Fatal(err)
	}
	theirs := map[string]bool{"help": true}
	flagSet(options.NewKubeletFlags(), c).VisitAll(func(f *pflag.Flag) { theirs[f.Name] = true })
	compareNames(t, "flag", slices.DeleteFunc(names(rows(t, "kubelet-flags.tsv")), isValue), names(theirs))
}

func isValue(name string) bool { return strings.Contains(name, "=") }

// Options of the managers have no list that is exported: each of the table is tried with all gates on.
func TestTableOfValues(t *testing.T) {
	ours := slices.DeleteFunc(names(rows(t, "kubelet-flags.tsv")), func(name string) bool { return !isValue(name) })
	var suites []string
	for _, name := range cliflag.TLSCipherPossibleValues() {
		suites = append(suites, "tlsCipherSuites="+name)
	}
	for _, name := range ours {
		c := &config.KubeletConfiguration{CPUManagerPolicy: "static", FeatureGates: map[string]bool{"AllAlpha": true, "AllBeta": true}}
		field, option, _ := strings.Cut(name, "=")
		value := map[string]string{option: "true"}
		if strings.HasPrefix(option, "max-") {
			value[option] = "8"
		}
		switch field {
		case "cpuManagerPolicyOptions":
			c.CPUManagerPolicyOptions = value
		case "topologyManagerPolicyOptions":
			c.TopologyManagerPolicyOptions = value
		}
		if err := start(c); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	compareNames(t, "cipher suite", slices.DeleteFunc(ours, func(name string) bool { return !strings.HasPrefix(name, "tls") }), suites)
}
