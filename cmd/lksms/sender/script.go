package sender

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
	"unicode"

	"lksms/client"
	"lksms/internal/platform/characters"
	"lksms/internal/platform/config"
)

// These exit statuses of a script do not mean that the message failed.
const (
	exitRetry         = 75  // EX_TEMPFAIL of sysexits.h
	exitNotExecutable = 126 // a shell cannot execute the program
	exitNotFound      = 127 // a shell does not find the program
)

// script is the program that sends messages.
type script struct {
	path string
	args []string
}

// findProgram returns the path of a program. It returns an error that names the missing interpreter of a script. Without this check, the error of the operating
// system would say that the script is missing.
func findProgram(name string) (string, error) {
	path, err := exec.LookPath(name)
	if errors.Is(err, exec.ErrNotFound) && !strings.ContainsRune(name, filepath.Separator) {
		if _, failed := os.Stat(name); failed == nil {
			return "", fmt.Errorf("%w: write ./%s for the program in this folder", err, name)
		}
	}
	if err != nil {
		return "", err
	}
	file, err := os.Open(path) //nolint:gosec // the operator chooses the script
	if err != nil {
		return path, nil // a program is not always readable
	}
	defer file.Close()                                                     //nolint:errcheck // the file was only read
	head, _ := bufio.NewReader(io.LimitReader(file, 256)).ReadString('\n') // the program can be shorter
	line, isScript := strings.CutPrefix(strings.TrimSuffix(head, "\n"), "#!")
	if !isScript {
		return path, nil
	}
	interpreter := strings.TrimLeft(line, " \t")
	if end := strings.IndexAny(interpreter, " \t"); end >= 0 {
		interpreter = interpreter[:end]
	}
	if _, err := os.Stat(interpreter); !errors.Is(err, fs.ErrNotExist) {
		return path, nil
	}
	if strings.HasSuffix(interpreter, "\r") {
		return "", fmt.Errorf("the lines of %s end with CRLF as on Windows, so the system looks for %q: convert the line ends, for example with sed -i 's/\\r$//'", path, interpreter)
	}
	return "", fmt.Errorf("the first line of %s names the program %q, which is missing", path, interpreter)
}

// outcome is the result of a run of the script for its message.
type outcome struct {
	isSent    bool
	mayRetry  bool
	isUnclear bool // the script started and was killed: the message was perhaps sent
	remark    string
	trouble   error // the script does not work for any message
}

// ScriptTask is the JSON that the script gets on standard input.
type ScriptTask struct {
	TaskID      string     `json:"task_id"`
	PhoneNumber string     `json:"phone_number"`
	Content     string     `json:"content"`
	Attempt     int16      `json:"attempt"`
	LeaseUntil  time.Time  `json:"lease_until"`
	ExpiresAt   *time.Time `json:"expires_at,omitempty"`
	Traceparent *string    `json:"traceparent,omitempty"`
}

// run runs the script for a message. When ctx ends, it kills the script with all processes of its group. The script gets the message in the environment and on
// standard input, but not in the arguments, because all users of the machine can list these.
func (s script) run(ctx context.Context, task client.ClaimedTask) outcome {
	input, err := json.Marshal(ScriptTask{
		TaskID: task.TaskID, PhoneNumber: task.PhoneNumber, Content: task.Content, Attempt: task.Attempt, LeaseUntil: task.LeaseUntil,
		ExpiresAt: task.ExpiresAt, Traceparent: task.Traceparent,
	})
	if err != nil {
		return outcome{mayRetry: true, trouble: fmt.Errorf("encode the message: %w", err)}
	}
	var out lastLine
	cmd := exec.CommandContext(ctx, s.path, s.args...) //nolint:gosec // the operator chooses the script
	cmd.Stdin = bytes.NewReader(input)
	cmd.Stdout, cmd.Stderr = &out, &out // standard output and standard error share one pipe, so that out contains the last line of either
	cmd.Env = append(config.WithoutSecrets(),
		"LKSMS_TASK_ID="+task.TaskID, "LKSMS_PHONE_NUMBER="+task.PhoneNumber, "LKSMS_CONTENT="+task.Content,
		"LKSMS_ATTEMPT="+strconv.Itoa(int(task.Attempt)), "LKSMS_LEASE_UNTIL="+task.LeaseUntil.Format(time.RFC3339))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C must not reach the script, so that running messages finish
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 2 * time.Second // allows time for child processes that still have the output open
	if err := cmd.Start(); err != nil {
		if ctx.Err() != nil {
			return outcome{mayRetry: true, remark: "the script was not started: its time limit was over"}
		}
		trouble := fmt.Errorf("start the script: %w", err)
		if errors.Is(err, syscall.ENOEXEC) {
			trouble = fmt.Errorf("%w: a script begins with a line such as #!/bin/sh", trouble)
		}
		return outcome{mayRetry: true, remark: "the script did not start", trouble: trouble}
	}
	err = cmd.Wait()
	if errors.Is(err, exec.ErrWaitDelay) {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // child processes still run, so the number of the group was not reused
	}
	return judge(ctx, cmd.ProcessState.ExitCode(), out.String())
}

// judge converts an exit status to an outcome. The status of a killed script is -1.
func judge(ctx context.Context, status int, remark string) outcome {
	switch {
	case status == 0:
		return outcome{isSent: true, remark: remark}
	case ctx.Err() != nil && status < 0:
		return outcome{isUnclear: true, remark: "the time limit was over, or a second signal came"}
	case status < 0:
		return outcome{isUnclear: true, remark: "by a signal from another process"}
	case status == exitRetry:
		return outcome{mayRetry: true, remark: orElse(remark, "the script asks for another attempt")}
	case status == exitNotExecutable, status == exitNotFound:
		trouble := fmt.Errorf("the script ended with %d: %s", status, remark)
		return outcome{mayRetry: true, remark: orElse(remark, "the script does not work"), trouble: trouble}
	}
	return outcome{remark: orElse(remark, fmt.Sprintf("the script ended with %d", status))}
}

func orElse(text, other string) string {
	if text == "" {
		return other
	}
	return text
}

// lastLine stores the end of an output.
type lastLine struct {
	mu   sync.Mutex // needed because a child process can write while the line is read
	tail []byte
}

const (
	// tailSize is large enough for remarkLimit characters of UTF-8.
	tailSize    = 4 << 10
	remarkLimit = 500
)

func (l *lastLine) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := len(p)
	if len(p) > tailSize {
		p = p[len(p)-tailSize:]
	}
	l.tail = append(l.tail, p...)
	if over := len(l.tail) - tailSize; over > 0 {
		l.tail = slices.Delete(l.tail, 0, over)
	}
	return n, nil
}

// String returns the last line that is not empty, without the characters that the server rejects.
func (l *lastLine) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	lines := strings.Split(strings.ToValidUTF8(string(l.tail), "�"), "\n")
	for _, line := range slices.Backward(lines) {
		line = strings.TrimSpace(strings.Map(func(r rune) rune {
			if unicode.IsControl(r) {
				return ' '
			}
			return r
		}, line))
		if line == "" {
			continue
		}
		return characters.First(line, remarkLimit)
	}
	return ""
}
