// Our reading of disruption budgets against Karpenter's own, on random NodePools. No cluster is needed: `../run` builds
// budget-differ and names it in CONFORMANCE_BUDGETS.

package budgets

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/robfig/cron/v3"
	clock "k8s.io/utils/clock/testing"
	v1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

const cases = 20000

// The patterns of the resource definition: what the API server would not store need not mean the same to both, as
// long as we allow nothing.
var (
	nodesPattern    = regexp.MustCompile(`^((100|[0-9]{1,2})%|[0-9]+)$`)
	schedulePattern = regexp.MustCompile(`^(@(annually|yearly|monthly|weekly|daily|midnight|hourly))|((.+)\s(.+)\s(.+)\s(.+)\s(.+))$`)
	durationPattern = regexp.MustCompile(`^((([0-9]+(h|m))|([0-9]+h[0-9]+m))(0s)?)$`)
)

type budget map[string]any

type example struct {
	budgets any // nil: the field is absent
	reason  string
	nodes   int
	now     time.Time
}

func pick[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

// One element of a list in a cron field; now and then nonsense.
func element(r *rand.Rand, low, high int, names []string) string {
	value := func() string {
		if len(names) > 0 && r.IntN(4) == 0 {
			return pick(r, strings.ToUpper, strings.ToLower)(names[r.IntN(len(names))])
		}
		return strconv.Itoa(low + r.IntN(high-low+1))
	}
	step := func() string { return strconv.Itoa(1 + r.IntN(high-low+3)) }
	switch r.IntN(40) {
	case 0, 1, 2, 3, 4, 5, 6, 7:
		return "*"
	case 8, 9:
		return "?"
	case 10, 11, 12, 13:
		return "*/" + step()
	case 14, 15, 16:
		return value() + "/" + step()
	case 17, 18, 19, 20, 21, 22:
		a, b := low+r.IntN(high-low+1), low+r.IntN(high-low+1)
		return fmt.Sprintf("%d-%d", min(a, b), max(a, b))
	case 23, 24:
		a, b := low+r.IntN(high-low+1), low+r.IntN(high-low+1)
		return fmt.Sprintf("%d-%d/%s", min(a, b), max(a, b), step())
	case 25:
		return "*-" + value()
	case 26:
		return pick(r, "", "+1", "007", "*/1", "?/2", "*-x", "1-2-3", "*/0", "-1", "5-1", "*/+2", "60", "7", "13", "32", "0", "x", "monday", "**", "1.5", "*/99999999999999999999", "*/9223372036854775807", "99999999999999999999")
	default:
		return value()
	}
}

func field(r *rand.Rand, low, high int, names []string) string {
	var list []string
	for range pick(r, 1, 1, 1, 1, 2, 3) {
		list = append(list, element(r, low, high, names))
	}
	return strings.Join(list, ",")
}

var (
	months = []string{"jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"}
	days   = []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}
)

func schedule(r *rand.Rand) string {
	if r.IntN(8) == 0 {
		return pick(r, "@annually", "@yearly", "@monthly", "@weekly", "@daily", "@midnight", "@hourly", "@daily ", "@every 1h", "@Daily", "@daily x",
			"TZ=UTC 0 0 * * *", "CRON_TZ=Asia/Tokyo 0 0 * * *", "* * * *", "0 * * * * *", "0 0 31 2 *", "0 0 29 2 *", " 0\t0  1 1 * ")
	}
	fields := []string{field(r, 0, 59, nil), field(r, 0, 23, nil), field(r, 1, 31, nil), field(r, 1, 12, months), field(r, 0, 6, days)}
	if r.IntN(2) == 0 { // most schedules of the world name few fields
		fields[2+r.IntN(2)] = "*"
		fields[pick(r, 3, 4)] = "*"
	}
	return strings.Join(fields, pick(r, " ", " ", " ", "  ", "\t"))
}

func oneBudget(r *rand.Rand) budget {
	b := budget{}
	switch r.IntN(10) {
	case 0:
	case 1, 2, 3, 4:
		b["nodes"] = strconv.Itoa(r.IntN(pick(r, 2, 20, 1000000000)))
	default:
		b["nodes"] = strconv.Itoa(r.IntN(101)) + "%"
	}
	if r.IntN(200) == 0 {
		b["nodes"] = pick(r, "101%", "-1", "", "x", "%", "1.5%", "+3")
	}
	switch r.IntN(6) {
	case 0:
		b["reasons"] = []string{}
	case 1, 2:
		b["reasons"] = []string{pick(r, "Empty", "Drifted", "Underutilized")}
	case 3:
		b["reasons"] = []string{pick(r, "Empty", "Drifted"), "Underutilized"}
	}
	if r.IntN(4) > 0 {
		b["schedule"] = schedule(r)
		b["duration"] = pick(r, "0m", "1m", "5m", "59m", "1h", "8h", "8h0s", "8h30m", "24h", "100h", "744h", "9000h", "100000h", fmt.Sprintf("%dm", r.IntN(100000)))
	}
	if r.IntN(200) == 0 {
		b["duration"] = pick(r, "-1h", "1d", "", "1h")
	}
	return b
}

// A moment that tells: somewhere, or close to where a window opens or closes.
func moment(r *rand.Rand, budgets []budget) time.Time {
	now := time.UnixMicro(int64(2*365*86400*1e6) + r.Int64N(int64(130*365*86400*1e6))).UTC()
	if len(budgets) == 0 || r.IntN(3) == 0 {
		return now
	}
	b := budgets[r.IntN(len(budgets))]
	text, _ := b["schedule"].(string)
	parsed, err := cron.ParseStandard("TZ=UTC " + text)
	if err != nil {
		return now
	}
	hit := parsed.Next(now)
	if hit.IsZero() {
		return now
	}
	if r.IntN(2) == 0 {
		length, _ := time.ParseDuration(b["duration"].(string))
		hit = hit.Add(length)
	}
	return hit.Add(pick(r, 0, 0, time.Microsecond, -time.Microsecond, time.Second, -time.Second, time.Minute, -time.Minute))
}

func random(r *rand.Rand) example {
	e := example{reason: pick(r, "Empty", "Drifted", "Underutilized"), nodes: r.IntN(pick(r, 2, 30, 100000))}
	if r.IntN(50) == 0 {
		e.now = moment(r, nil)
		return e
	}
	list := []budget{}
	for range pick(r, 0, 1, 1, 1, 2, 3) {
		list = append(list, oneBudget(r))
	}
	e.budgets, e.now = list, moment(r, list)
	return e
}

func (e example) text(t *testing.T) string {
	disruption := map[string]any{}
	if e.budgets != nil {
		disruption["budgets"] = e.budgets
	}
	text, err := json.Marshal(map[string]any{"spec": map[string]any{"disruption": disruption}})
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Would the API server store it?
func (e example) isValid() bool {
	list, _ := e.budgets.([]budget)
	for _, b := range list {
		nodes, hasNodes := b["nodes"].(string)
		schedule, hasSchedule := b["schedule"].(string)
		duration, hasDuration := b["duration"].(string)
		if hasSchedule != hasDuration || hasNodes && !nodesPattern.MatchString(nodes) ||
			hasSchedule && !schedulePattern.MatchString(schedule) || hasDuration && !durationPattern.MatchString(duration) {
			return false
		}
	}
	return true
}

// What Karpenter allows, of what the API server makes of the NodePool: its defaults are filled in.
func (e example) karpenters(t *testing.T) string {
	filled := example{budgets: []budget{{"nodes": "10%"}}}
	if list, ok := e.budgets.([]budget); ok {
		with := []budget{}
		for _, b := range list {
			full := budget{"nodes": "10%"}
			for k, v := range b {
				full[k] = v
			}
			with = append(with, full)
		}
		filled.budgets = with
	}
	var pool v1.NodePool
	if err := json.Unmarshal([]byte(filled.text(t)), &pool); err != nil {
		return "error"
	}
	n, err := pool.GetAllowedDisruptionsByReason(clock.NewFakeClock(e.now), e.nodes, v1.DisruptionReason(e.reason))
	switch {
	case err != nil:
		return "error"
	case n == math.MaxInt32:
		return "unlimited"
	}
	return strconv.Itoa(n)
}

func ours(t *testing.T, examples []example) []string {
	program := os.Getenv("CONFORMANCE_BUDGETS")
	if program == "" {
		t.Fatal("start this test with tests/conformance/run, or name budget-differ in CONFORMANCE_BUDGETS")
	}
	var input bytes.Buffer
	for _, e := range examples {
		fmt.Fprintf(&input, "%s\t%s\t%d\t%d\n", e.text(t), e.reason, e.nodes, e.now.UnixMicro())
	}
	command := exec.Command(program)
	command.Stdin, command.Stderr = &input, os.Stderr
	output, err := command.Output()
	if err != nil {
		t.Fatalf("%s: %v", program, err)
	}
	return strings.Fields(string(output))
}

func TestBudgetsAgreeWithKarpenter(t *testing.T) {
	seed := uint64(1)
	if text := os.Getenv("CONFORMANCE_SEED"); text != "" {
		seed, _ = strconv.ParseUint(text, 10, 64)
	}
	r := rand.New(rand.NewPCG(seed, 0))
	examples := make([]example, cases)
	for i := range examples {
		examples[i] = random(r)
	}
	answers := ours(t, examples)
	if len(answers) != len(examples) {
		t.Fatalf("%d answers to %d questions", len(answers), len(examples))
	}
	kinds := map[string]int{}
	different := 0
	for i, e := range examples {
		theirs := e.karpenters(t)
		kind := theirs
		if _, err := strconv.Atoi(theirs); err == nil {
			kind = "a number"
		}
		kinds[kind]++
		if answers[i] == theirs || !e.isValid() && answers[i] == "error" {
			continue
		}
		if different++; different <= 10 {
			t.Errorf("%s, %s of %d at %s: Karpenter %s, we %s", e.text(t), e.reason, e.nodes, e.now.Format(time.RFC3339Nano), theirs, answers[i])
		}
	}
	t.Logf("seed %d, %d cases, %d different; Karpenter's answers: %v", seed, len(examples), different, kinds)
	for _, kind := range []string{"a number", "unlimited", "error"} {
		if kinds[kind] < cases/50 {
			t.Errorf("only %d cases end in %s: this compares too little", kinds[kind], kind)
		}
	}
}
