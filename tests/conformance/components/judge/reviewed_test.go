package judge

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// reviewed reads what we refuse although kubelet's validation accepts it: a pattern of our message, a tab, and the stage that refuses it
// later, or the reason.
func reviewed(t *testing.T) []*regexp.Regexp {
	text, err := os.ReadFile("reviewed.tsv")
	if err != nil {
		t.Fatal(err)
	}
	var patterns []*regexp.Regexp
	for _, line := range strings.Split(string(text), "\n") {
		pattern, _, ok := strings.Cut(line, "\t")
		if ok && !strings.HasPrefix(line, "#") {
			patterns = append(patterns, regexp.MustCompile(pattern))
		}
	}
	return patterns
}

func matches(patterns []*regexp.Regexp, message string) bool {
	for _, p := range patterns {
		if p.MatchString(message) {
			return true
		}
	}
	return false
}
