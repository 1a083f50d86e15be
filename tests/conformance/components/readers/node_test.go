// Labels and taints, as kubelet reads its flags.

package readers

import (
	"math/rand/v2"
	"sort"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"
	cliflag "k8s.io/component-base/cli/flag"
	kubeletapis "k8s.io/kubelet/pkg/apis"
	"k8s.io/kubernetes/pkg/util/taints"
)

func word(r *rand.Rand, most int) string {
	b := make([]byte, 1+r.IntN(most))
	for i := range b {
		b[i] = "abcxyzABZ0189"[r.IntN(13)]
		if i > 0 && i+1 < len(b) && r.IntN(6) == 0 {
			b[i] = "-_."[r.IntN(3)]
		}
	}
	return string(b)
}

func domain(r *rand.Rand) string {
	if r.IntN(3) > 0 {
		return pick(r, "", "", "", "node.", "kubelet.", "x.", "topology.", "beta.", "failure-domain.beta.", "x.node.", "mynode.", "my") +
			pick(r, "kubernetes.io", "kubernetes.io", "k8s.io", "karpenter.sh", "karpenter.k8s.aws", "example.com")
	}
	return strings.ToLower(word(r, pick(r, 5, 20, 63, 64, 254)))
}

func key(r *rand.Rand) string {
	name := pick(r, word(r, 12), word(r, 12), word(r, 12), word(r, 65), "zone", "region", "hostname", "instance-type", "os", "arch", "role", "nodepool")
	if r.IntN(3) > 0 {
		return domain(r) + "/" + name
	}
	return name
}

func value(r *rand.Rand) string { return pick(r, "", word(r, 10), word(r, 10), word(r, 66)) }

const nodeBytes = "abzAZ09-_./=:, \t\x7fé"

func labelText(r *rand.Rand) string {
	text := key(r) + "=" + pick(r, value(r), value(r), domain(r))
	if r.IntN(3) == 0 {
		return mutated(r, text, nodeBytes)
	}
	return text
}

// A label and its value are two fields.
func labelFields(text string) []string {
	k, v, _ := strings.Cut(text, "=")
	return []string{k, v}
}

func isLabel(k, v string) bool {
	return len(validation.IsQualifiedName(k)) == 0 && len(validation.IsValidLabelValue(v)) == 0
}

func theirLabel(text string) string {
	f := labelFields(text)
	switch {
	case !isLabel(f[0], f[1]):
		return "refused"
	case len(validation.IsDNS1123Subdomain(f[1])) == 0:
		return "is subdomain"
	}
	return "is valid"
}

func TestLabelsAgreeWithApimachinery(t *testing.T) {
	reader{name: "label", text: labelText, fields: labelFields, theirs: theirLabel}.compare(t)
}

func list(r *rand.Rand, one func(r *rand.Rand) string) string {
	var items []string
	for range pick(r, 0, 1, 1, 2, 2, 3, 5) {
		item := one(r)
		if len(items) > 0 && r.IntN(20) == 0 {
			item = items[0]
		}
		items = append(items, item)
	}
	text := strings.Join(items, ",")
	if r.IntN(4) == 0 {
		return mutated(r, text, nodeBytes)
	}
	return text
}

func nodeLabels(r *rand.Rand) string {
	return list(r, func(r *rand.Rand) string {
		return pick(r, "", "", "", "", " ") + key(r) + pick(r, "=", "=", "=", "=", " = ", "") + value(r)
	})
}

// kubelet ends where a label is in one of Kubernetes' own domains and not among those it may set.
func endsKubelet(k string) bool {
	domain, _, has := strings.Cut(k, "/")
	in := func(of string) bool { return domain == of || strings.HasSuffix(domain, "."+of) }
	return has && (in("kubernetes.io") || in("k8s.io")) && !kubeletapis.IsKubeletLabel(k)
}

func theirNodeLabels(text string) string {
	labels := cliflag.ConfigurationMap{}
	if err := labels.Set(text); err != nil {
		return "refused"
	}
	var keys []string
	for k, v := range labels {
		if !isLabel(k, v) {
			return "refused"
		}
		keys = append(keys, k)
	}
	sort.Strings(keys)
	answer := "is"
	for _, k := range keys {
		mark := " "
		if endsKubelet(k) {
			mark = " !"
		}
		answer += mark + k + "=" + labels[k]
	}
	return answer
}

func TestNodeLabelsAgreeWithKubelet(t *testing.T) {
	reader{name: "node-labels", text: nodeLabels, theirs: theirNodeLabels}.compare(t)
}

// Several items make one text: each of them is rarely too long.
func shortKey(r *rand.Rand) string {
	if r.IntN(10) == 0 {
		return key(r)
	}
	return pick(r, "", domain(r)[:1]+".", "example.com/", "node.kubernetes.io/") + word(r, 8)
}

func taintList(r *rand.Rand) string {
	return list(r, func(r *rand.Rand) string {
		return shortKey(r) + pick(r, "", "=", "="+value(r), "="+value(r), "="+value(r)) +
			pick(r, ":", ":", ":", ":", ":", ":", ":", ":", ":", ":", ":", ":", ":", ":", ":", ":", ":", "", "::", ": ") +
			pick(r, "NoSchedule", "NoSchedule", "NoSchedule", "NoExecute", "NoExecute", "PreferNoSchedule", "PreferNoSchedule", "PreferNoSchedule",
				"NoExecute", "NoSchedule", "NoExecute", "NoSchedule", "NoExecute", "NoSchedule", "NoExecute", "NoSchedule", "noSchedule", "NoSchedule-", "NoExecute=", "NoSchedule=x", "")
	})
}

func theirTaints(text string) string {
	if text == "" {
		return "is"
	}
	add, _, err := taints.ParseTaints(strings.Split(text, ","))
	if err != nil {
		return "refused " + err.Error()
	}
	answer := "is"
	for _, t := range add {
		answer += " " + t.Key + "=" + t.Value + ":" + string(t.Effect)
	}
	return answer
}

// isSlip puts a list of taints in order and looks whether kubelet reads it then.
func isSlip(text string) bool {
	last := map[string]string{}
	for item := range strings.SplitSeq(text, ",") {
		item = strings.Trim(item, " \t\r\n")
		if item == "" {
			continue
		}
		kv, effect, _ := strings.Cut(item, ":")
		k, _, _ := strings.Cut(kv, "=")
		last[k+":"+effect] = item
	}
	var items []string
	for _, item := range last {
		items = append(items, item)
	}
	joined := strings.Join(items, ",")
	return joined != text && !refused(theirTaints(joined))
}

func TestTaintsAgreeWithKubelet(t *testing.T) {
	reader{name: "taints", text: taintList, theirs: theirTaints, wanted: []deliberate{
		{"a removal", "a new node has nothing to be taken away", func(text, ours, theirs string) bool {
			return refused(ours) && !refused(theirs) && strings.Contains(text+",", "-,")
		}},
		{"a slip that ends kubelet", "spaces around a taint, no taint between two commas, the same taint twice: the taints are written into kubelet's configuration in order",
			func(text, ours, theirs string) bool { return refused(theirs) && !refused(ours) && isSlip(text) }},
	}}.compare(t)
}
