// The audit log: who asked kube-apiserver for what, when, and what the answer was. It is the only proof of "what was sent".

package harness

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// AuditLog remembers what it has read; each question reads what has come since.
type AuditLog struct {
	Path string

	mu      sync.Mutex
	offset  int64
	entries []AuditEntry
}

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

// Entries gives the finished requests that match, in the order in which they were finished.
func (a *AuditLog) Entries(match func(AuditEntry) bool) ([]AuditEntry, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.readOn(); err != nil {
		return nil, err
	}
	var found []AuditEntry
	for _, e := range a.entries {
		if match(e) {
			found = append(found, e)
		}
	}
	return found, nil
}

// readOn takes in the lines that are complete; the last may be half written.
func (a *AuditLog) readOn() error {
	f, err := os.Open(a.Path)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.Seek(a.offset, io.SeekStart); err != nil {
		return err
	}
	lines := bufio.NewReaderSize(f, 1<<20)
	for {
		line, err := lines.ReadBytes('\n')
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		a.offset += int64(len(line))
		var e AuditEntry
		if json.Unmarshal(line, &e) == nil && e.Stage == "ResponseComplete" { // an API server that was killed leaves half a line
			a.entries = append(a.entries, e)
		}
	}
}

// Refused gives the requests of a user that were answered with 401 or 403.
func (a *AuditLog) Refused(user string) ([]AuditEntry, error) {
	return a.Entries(func(e AuditEntry) bool {
		return e.User.Username == user && (e.ResponseStatus.Code == 401 || e.ResponseStatus.Code == 403)
	})
}
