// The audit log: who asked kube-apiserver for what, when, and what the answer was. It is the only proof of "what was sent".

package harness

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"time"
)

// AuditLog is read anew for every question.
type AuditLog struct{ Path string }

// AuditEntry is one finished request.
type AuditEntry struct {
	Stage      string
	RequestURI string
	Verb       string
	UserAgent  string
	User       struct {
		Username string
		Groups   []string
	}
	ObjectRef struct {
		Resource, Subresource, Namespace, Name, APIGroup string
	}
	ResponseStatus struct {
		Code    int
		Message string
	}
	RequestObject            json.RawMessage // the body, of what a node writes
	RequestReceivedTimestamp time.Time
	StageTimestamp           time.Time
}

// What names the kind of a request: "create pods/eviction".
func (e AuditEntry) What() string {
	what := e.Verb + " " + e.ObjectRef.Resource
	if e.ObjectRef.Subresource != "" {
		what += "/" + e.ObjectRef.Subresource
	}
	return what
}

// String is for the text of a failure.
func (e AuditEntry) String() string {
	return fmt.Sprintf("%s %s %s by %s: %d %s", e.RequestReceivedTimestamp.Format("15:04:05.000"), e.Verb, e.RequestURI,
		e.User.Username, e.ResponseStatus.Code, e.ResponseStatus.Message)
}

// Entries gives the finished requests that match, oldest first.
func (a *AuditLog) Entries(match func(AuditEntry) bool) ([]AuditEntry, error) {
	f, err := os.Open(a.Path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var found []AuditEntry
	lines := bufio.NewScanner(f)
	lines.Buffer(make([]byte, 1<<20), 1<<20)
	for lines.Scan() {
		var e AuditEntry
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			continue // the last line may be half written
		}
		if e.Stage == "ResponseComplete" && match(e) {
			found = append(found, e)
		}
	}
	return found, lines.Err()
}

// Refused gives the requests of a user that were answered with 401 or 403.
func (a *AuditLog) Refused(user string) ([]AuditEntry, error) {
	return a.Entries(func(e AuditEntry) bool {
		return e.User.Username == user && (e.ResponseStatus.Code == 401 || e.ResponseStatus.Code == 403)
	})
}
