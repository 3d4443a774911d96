// Package remote contains the commands that use a server.
package remote

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"golang.org/x/term"

	"lksms/client"
	"lksms/internal/platform/build"
	"lksms/internal/platform/config"
)

// Remote contains the flags that select a server and the format of the output.
type Remote struct {
	Server  string        `placeholder:"URL" help:"URL of the server, with the credentials of the environment. Default: LKSMS_URL, or that of the profile."`
	Profile string        `placeholder:"NAME" completion:"profile" help:"Profile of lksms login. Default: LKSMS_PROFILE, or the one in use."`
	Output  string        `short:"o" enum:"table,json" default:"table" help:"table, or json: the data of the API."`
	Timeout time.Duration `placeholder:"1m" help:"Give up after this time: exit status 3. Default: a minute, and no limit for commands that follow."`
}

// caller calls a server for one command, and prints the results.
type caller struct {
	*client.Client
	output
	Address string
}

// ErrUsage is a mistake on the command line. The exit status is 2.
var ErrUsage = errors.New("wrong use")

// Usage returns an error that wraps ErrUsage, with a text.
func Usage(format string, values ...any) error {
	return fmt.Errorf("%w: %w", ErrUsage, fmt.Errorf(format, values...))
}

// errMessage is the error of a message that was not sent. The exit status is 1.
var errMessage = errors.New("the message was not sent")

// PlainLimit is the default time limit of commands that do not wait for a task, a batch or events.
const PlainLimit = time.Minute

// open returns the caller, and ctx with the time limit of a command that does not wait for a task, a batch or events.
func (r *Remote) open(ctx context.Context, env config.Remote, more ...client.Option) (*caller, context.Context, context.CancelFunc, error) {
	c, err := r.Caller(env, more...)
	if err != nil {
		return nil, nil, nil, err
	}
	limit := r.Timeout
	if limit == 0 {
		limit = PlainLimit
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	return c, ctx, cancel, nil
}

// follow works like open for a command that waits for a task, a batch or events. It has no default time limit.
func (r *Remote) follow(ctx context.Context, env config.Remote, more ...client.Option) (*caller, context.Context, context.CancelFunc, error) {
	c, err := r.Caller(env, more...)
	if err != nil {
		return nil, nil, nil, err
	}
	cancel := func() {}
	if r.Timeout != 0 {
		ctx, cancel = context.WithTimeout(ctx, r.Timeout)
	}
	return c, ctx, cancel, nil
}

// Caller returns a client of the server in the flags, the environment or the profile. Flags take precedence.
func (r *Remote) Caller(env config.Remote, more ...client.Option) (*caller, error) {
	if r.Timeout < 0 {
		return nil, Usage("--timeout must not be negative")
	}
	address, credentials, err := r.target(env)
	if err != nil {
		return nil, err
	}
	out := output{out: os.Stdout, isJSON: r.Output == "json"}
	if term.IsTerminal(int(os.Stderr.Fd())) {
		out.progress = os.Stderr
	}
	if out.isJSON {
		out.answers = &answers{}
		more = append(more, client.WithAnswers(out.answers.keep))
	}
	options := append([]client.Option{client.WithUserAgent("lksms/" + build.Read().Version), client.WithRetryNotice(func(err error, wait time.Duration) {
		out.say("%s; again in %s", firstLine(err), wait.Round(100*time.Millisecond))
	})}, more...)
	c, err := client.New(address, credentials, options...)
	if err != nil {
		return nil, Usage("%w (%s)", err, address)
	}
	return &caller{Client: c, output: out, Address: address}, nil
}

// target returns the server and the credentials. The credentials of a profile are sent only to the server of that profile. Flags take precedence over the
// environment.
func (r *Remote) target(env config.Remote) (address string, credentials client.Credentials, err error) {
	if r.Server != "" && r.Profile != "" {
		return "", credentials, Usage("--server and --profile exclude each other: a profile has a server")
	}
	address, profile := r.Server, r.Profile
	if address == "" && profile == "" {
		address, profile = env.URL, env.Profile
		if address != "" && profile != "" {
			return "", credentials, Usage("LKSMS_URL and LKSMS_PROFILE are both set: set one of them, or use --server or --profile")
		}
	}
	if address == "" {
		p, err := readProfile(profile)
		if err != nil {
			return "", credentials, err
		}
		return p.Server, p.credentials(), nil
	}
	warnIfReadable(address)
	switch err := env.Validate(); {
	case err != nil:
		return "", credentials, Usage("%w", err)
	case env.Key != "" && env.Username != "":
		return address, client.Basic(env.Username, string(env.Key)), nil
	case env.Key != "":
		return address, client.Key(string(env.Key)), nil
	case env.Password != "":
		return address, client.Basic(env.Username, string(env.Password)), nil
	}
	return "", credentials, Usage("no credentials for %s: set LKSMS_KEY, or LKSMS_USER and LKSMS_PASSWORD, or use a profile of lksms login", address)
}

// dryRun is the flag to show the request that a command would send, instead of sending it.
type dryRun struct {
	DryRun bool `name:"dry-run" help:"Change nothing: show the request that would be sent."`
}

var errDryRun = errors.New("dry run")

// options returns options that prevent a client from sending requests in a dry run.
func (d dryRun) options() []client.Option {
	if !d.DryRun {
		return nil
	}
	return []client.Option{client.WithRetries(0), client.WithHTTPClient(&http.Client{Transport: unsent{}})}
}

// done prints the request of a dry run. Without a dry run it returns err.
func (d dryRun) done(c *caller, err error) error {
	shown, ok := errors.AsType[*UnsentRequest](err)
	if !ok {
		return err
	}
	return c.show(shown, func() record {
		return record{{"would send", shown.Method + " " + shown.URL}, {"body", shown.Body}}
	})
}

// unsent is a transport that sends no request.
type unsent struct{}

// UnsentRequest is a request that was not sent, without its credentials.
type UnsentRequest struct {
	Method string `json:"method"`
	URL    string `json:"url"`
	Body   string `json:"body"`
}

func (*UnsentRequest) Error() string { return errDryRun.Error() }

// RoundTrip returns the request as an error.
func (unsent) RoundTrip(r *http.Request) (*http.Response, error) {
	shown := &UnsentRequest{Method: r.Method, URL: r.URL.String()}
	if r.Body != nil {
		defer r.Body.Close() //nolint:errcheck // the request is not sent
		const most = 64 << 10
		body, err := io.ReadAll(io.LimitReader(r.Body, most))
		if err != nil {
			return nil, fmt.Errorf("read the body: %w", err)
		}
		shown.Body = string(body)
		if media := r.Header.Get("Content-Type"); !strings.HasPrefix(media, "application/json") {
			shown.Body = fmt.Sprintf("%d bytes of %s", r.ContentLength, media)
		}
	}
	return nil, shown
}

// ExitStatus returns the exit status for the error of a command. Status 0 means success. Status 1 means that the request was rejected or the work failed.
// Status 2 means a mistake on the command line. Status 3 means that the server is unreachable, too slow or overloaded, or that the outcome is unknown. Status
// 4 means that a checked code is wrong. Status 130 means that the command was interrupted, as in shells.
func ExitStatus(err error) int {
	_, isUnknown := errors.AsType[*client.UnknownError](err)
	switch {
	case err == nil:
		return 0
	case errors.Is(err, errInterrupted):
		return 130
	case errors.Is(err, ErrUsage):
		return 2
	case isUnknown, client.IsTemporary(err), errors.Is(err, client.ErrUnreachable), errors.Is(err, errTime):
		return 3
	case errors.Is(err, errCode):
		return 4
	}
	return 1
}

// errTime means that a time limit has passed.
var errTime = errors.New("the time limit of --timeout has passed")

// errInterrupted means that a signal ended the command.
var errInterrupted = errors.New("interrupted")

// InTime replaces an error by errTime or errInterrupted if the end of ctx caused the error.
func InTime(ctx context.Context, err error) error {
	if unknown, ok := errors.AsType[*client.UnknownError](err); ok {
		return &client.UnknownError{IdempotencyKey: unknown.IdempotencyKey, Err: InTime(ctx, unknown.Err)}
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(ctx.Err(), context.DeadlineExceeded) && errors.Is(err, client.ErrUnreachable):
		return fmt.Errorf("%w: %w", errTime, err)
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return errTime
	case errors.Is(ctx.Err(), context.Canceled):
		return errInterrupted
	}
	return err
}

// firstLine returns the first line of an error, for a line of progress.
func firstLine(err error) string {
	text, _, _ := strings.Cut(err.Error(), "\n")
	return printable(text)
}

// flagOf contains the arguments and flags whose names differ from the fields of the contract.
var flagOf = map[string]string{
	"phone_number": "the number", "content": "the text, --content", "expect_send_time": "--at", "expires_at": "--expires", "message_type": "--type",
	"template_no": "--template", "params": "--param", "dedup_key": "--dedup-key", "app_id": "--app-id", "idempotency_key": "--idempotency-key",
	"Idempotency-Key": "--idempotency-key", "file": "the file", "rows": "the file", "phone_column": "--phone-column", "encoding": "--encoding", "sign_column": "--sign-column", "html": "--html", "biz_type": "--biz-type",
	"default_region": "--default-region", "sender_no": "--sender-no",
	"after": "--after", "type": "--type", "company_no": "--company-no", "task_id": "the task", "batch_id": "the batch",
	"from": "--from", "to": "--to", "sim": "--sim", "received_at": "--received-at", "message_no": "--message-no", "received_id": "the id",
	"email": "--email", "user_id": "--user-id", "purpose": "--purpose", "length": "--length", "ttl_seconds": "--ttl-seconds", "language": "--language",
	"client_ip": "--client-ip", "device": "--device", "app_hash": "--app-hash", "domain": "--domain", "channel": "--channel", "sign": "--sign",
}

// wayOut contains what a user can do about a rejected request, by the reason of the error.
var wayOut = map[string]string{
	"auth.required":             "Check the credentials: lksms login stores others, or set LKSMS_KEY.",
	"auth.forbidden":            "The role of this user may not do that: use another profile, or ask an admin.",
	"auth.other_app":            "This user belongs to another app: give its number with --app-id.",
	"task.not_pending":          "Only a task that waits can be cancelled: lksms status shows its status.",
	"task.not_ended":            "Only a task that has ended can be sent again: lksms watch waits for its end.",
	"batch.wrong_status":        "lksms batch check and lksms batch watch show the status of the batch.",
	"idempotency.key_reused":    "Take another --idempotency-key for another message.",
	"sender.is_driven":          "The server runs this sender itself: claim as another sender.",
	"template.not_active":       "An admin can make the template active.",
	"request.too_large":         "Split it into smaller requests.",
	"default_content.not_found": "Give a text, or --template.",
}

// ExplainError describes an error with its fields and what the user can do.
func ExplainError(err error) string {
	if unknown, ok := errors.AsType[*client.UnknownError](err); ok {
		return ExplainError(unknown.Err) + "\nIt may be stored: repeat with --idempotency-key " + printable(unknown.IdempotencyKey)
	}
	refused, ok := errors.AsType[*client.Error](err)
	if !ok {
		if errors.Is(err, client.ErrUnreachable) && !errors.Is(err, errTime) {
			question := "\nIs the server running, and is its URL right?"
			if !client.IsTemporary(err) {
				question = "\nIs the URL right, and does this machine trust the certificate of the server?"
			}
			return printable(err.Error()) + question
		}
		if errors.Is(err, ErrUsage) {
			return strings.TrimPrefix(err.Error(), ErrUsage.Error()+": ")
		}
		return printable(err.Error())
	}
	var text bytes.Buffer
	fmt.Fprintf(&text, "refused with %d %s: %s", refused.Status, refused.Reason, refused.Message)
	for _, field := range refused.Fields {
		name := field.Field
		if flag := flagOf[name]; flag != "" {
			name += " (" + flag + ")"
		}
		fmt.Fprintf(&text, "\n  %s: %s", name, field.Message)
	}
	if way := wayOut[refused.Reason]; way != "" {
		fmt.Fprintf(&text, "\n%s", way)
	}
	if refused.Oldest != "" {
		fmt.Fprintf(&text, "\nThe oldest events begin with --after %s.", refused.Oldest)
	}
	if strings.HasPrefix(refused.Docs, "http") {
		fmt.Fprintf(&text, "\nsee %s", refused.Docs)
	}
	if refused.RequestID != "" {
		fmt.Fprintf(&text, "\nrequest %s", refused.RequestID)
	}
	lines := strings.Split(text.String(), "\n")
	for i, line := range lines {
		lines[i] = printable(line)
	}
	return strings.Join(lines, "\n")
}
