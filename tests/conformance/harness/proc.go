// Processes: a program that is started, watched for its early death, logged to a file and stopped by its id.
//
// Everything runs in namespaces of its own (see ../in-namespaces), so whatever survives a test dies with them.
// This file knows nothing of Kubernetes.

package harness

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Proc is a running program. Its output is in Log.
type Proc struct {
	Name string
	Log  string
	cmd  *exec.Cmd
	done chan struct{}
	err  error
}

// Start runs argv with stdout and stderr appended to dir/name.log, in a process group of its own.
func Start(dir, name string, env []string, argv ...string) (*Proc, error) {
	logPath := filepath.Join(dir, name+".log")
	out, err := os.OpenFile(logPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.Env = append(os.Environ(), env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	p := &Proc{Name: name, Log: logPath, cmd: cmd, done: make(chan struct{})}
	go func() {
		p.err = cmd.Wait()
		close(p.done)
	}()
	return p, nil
}

// Pid is the id of the program.
func (p *Proc) Pid() int { return p.cmd.Process.Pid }

// CPU is what the program itself has used so far.
func (p *Proc) CPU() (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.Pid()))
	if err != nil {
		return 0, err
	}
	words := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	if len(words) < 13 {
		return 0, fmt.Errorf("%s", text)
	}
	user, err := strconv.ParseInt(words[11], 10, 64)
	if err != nil {
		return 0, err
	}
	system, err := strconv.ParseInt(words[12], 10, 64)
	return time.Duration(user+system) * (time.Second / 100), err // USER_HZ is 100 wherever Linux runs
}

// Done is closed once the program has ended.
func (p *Proc) Done() <-chan struct{} { return p.done }

// ExitCode waits for the end and gives the exit code, -1 for an end by signal.
func (p *Proc) ExitCode(ctx context.Context) (int, error) {
	select {
	case <-p.done:
		return p.cmd.ProcessState.ExitCode(), nil
	case <-ctx.Done():
		return -1, fmt.Errorf("%s still runs: %w", p.Name, ctx.Err())
	}
}

// Stop asks the process group to end and kills it after five seconds.
func (p *Proc) Stop() {
	if p == nil {
		return
	}
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		_ = syscall.Kill(-p.Pid(), sig)
		select {
		case <-p.done:
			return
		case <-time.After(5 * time.Second):
		}
	}
}

// Kill ends the process group at once and waits for it.
func (p *Proc) Kill() {
	if p == nil {
		return
	}
	_ = syscall.Kill(-p.Pid(), syscall.SIGKILL)
	<-p.done
}

// Tail gives the last n lines of a file, for the text of a failure.
func Tail(path string, n int) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimRight(string(data), "\n"), "\n")
	if len(lines) > n {
		lines = lines[len(lines)-n:]
	}
	return strings.Join(lines, "\n")
}

// Poll calls check about every 50 ms until it returns nil; at the deadline of ctx the last complaint is the error.
// A process that ends in the meantime ends the wait, after one more look.
func Poll(ctx context.Context, what string, procs []*Proc, check func() error) error {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		ended := endedOf(procs)
		last := check()
		if last == nil {
			return nil
		}
		if ended != nil {
			return errors.Join(fmt.Errorf("%s: %s ended (%v)\n%s", what, ended.Name, ended.err, Tail(ended.Log, 25)), last)
		}
		select {
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("waited in vain: %s", what), last)
		case <-tick.C:
		}
	}
}

func endedOf(procs []*Proc) *Proc {
	for _, p := range procs {
		select {
		case <-p.done:
			return p
		default:
		}
	}
	return nil
}
