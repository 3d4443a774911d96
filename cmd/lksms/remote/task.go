package remote

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"lksms/client"
	api "lksms/gen/client"
	"lksms/internal/platform/bom"
	"lksms/internal/platform/config"
)

var statusNames = map[client.TaskStatus]string{
	client.Pending: "PENDING", client.Processing: "PROCESSING", client.Success: "SUCCESS", client.Failed: "FAILED", client.Cancelled: "CANCELLED",
}

func statusName(s client.TaskStatus) string {
	if name := statusNames[s]; name != "" {
		return name
	}
	return strconv.Itoa(int(s))
}

// SendCmd is the command `lksms send`.
type SendCmd struct {
	Number string  `arg:"" help:"Phone number."`
	Text   *string `arg:"" optional:"" help:"Text of the message; - reads it from standard input, where no other user of the machine sees it."`

	Template       string            `placeholder:"NO" help:"Template of the text, by its template_no."`
	Param          map[string]string `placeholder:"NAME=VALUE" mapsep:"none" help:"Value of a placeholder of the template. May be repeated."`
	Language       string            `help:"Translation of the template, such as zh."`
	DefaultText    bool              `name:"default-text" help:"Send the default content of the number, once, instead of a text."`
	Type           string            `help:"verification, notification or marketing. Default: notification, or that of the template."`
	Priority       *int16            `help:"0 to 9, the smallest goes first."`
	DefaultRegion  string            `name:"default-region" placeholder:"REGION" help:"Region (ISO 3166-1) of a number without a country code, such as ID. Default: that of the company."`
	Sign           string            `help:"Signature, placed before the text."`
	Source         string            `help:"System that submits the message."`
	At             *time.Time        `placeholder:"TIME" help:"Send it at this time, such as 2026-11-24T18:00:00+08:00."`
	Expires        *time.Time        `placeholder:"TIME" help:"Do not send it after this time."`
	DedupKey       string            `name:"dedup-key" help:"Your name for the message: a second one with this name is not sent."`
	IdempotencyKey string            `name:"idempotency-key" help:"Your name for this command: repeated within 24 hours, it sends nothing more."`
	Test           bool              `help:"Mark it as a test."`
	Wait           bool              `help:"Wait until the message is sent or has failed."`
	DryRun         bool              `name:"dry-run" help:"Send nothing: the server says how the message would be sent."`
	Remote         Remote            `embed:""`
}

// longestText is the maximum number of bytes that are read as a text. The server accepts far less.
const longestText = 1 << 20

func (c *SendCmd) message() (client.Message, error) {
	m := client.Message{
		PhoneNumber: c.Number, Priority: c.Priority, ExpectSendTime: c.At, ExpiresAt: c.Expires,
		TemplateNo: optional(c.Template), Language: optional(c.Language), MessageType: optional(client.MessageType(c.Type)), Sign: optional(c.Sign),
		Source: optional(c.Source), DedupKey: optional(c.DedupKey), DefaultRegion: optional(c.DefaultRegion),
	}
	if c.Test {
		m.Test = &c.Test
	}
	given := 0
	for _, is := range []bool{c.Text != nil, c.Template != "", c.DefaultText} {
		if is {
			given++
		}
	}
	switch {
	case given != 1:
		return m, Usage("give one of a text, --template and --default-text")
	case c.Template == "" && len(c.Param) > 0:
		return m, Usage("--param is for --template")
	case c.Wait && c.DryRun:
		return m, Usage("--wait and --dry-run exclude each other")
	}
	if c.Template != "" {
		params, err := json.Marshal(c.Param)
		if err != nil {
			return m, fmt.Errorf("encode --param: %w", err)
		}
		if len(c.Param) > 0 {
			m.Params = params
		}
	}
	if m.Content = c.Text; c.Text != nil {
		read, err := readText(*c.Text)
		if err != nil {
			return m, err
		}
		m.Content = &read
	}
	if m.Content != nil && *m.Content == "" {
		return m, Usage("the text is empty")
	}
	return m, nil
}

// readText returns the text of an argument, which must be UTF-8. For -, it reads the text from standard input.
func readText(argument string) (string, error) {
	text, err := readArgument(argument)
	if err != nil {
		return "", err
	}
	return text, checkUTF8(text)
}

// readArgument works like readText for a text in any encoding.
func readArgument(argument string) (string, error) {
	if argument != "-" {
		return argument, nil
	}
	read, err := io.ReadAll(io.LimitReader(os.Stdin, longestText))
	if err != nil {
		return "", fmt.Errorf("read the text: %w", err)
	}
	return strings.TrimRight(strings.TrimPrefix(string(read), bom.Mark), "\r\n"), nil
}

func checkUTF8(text string) error {
	if !utf8.ValidString(text) {
		return Usage("the text is not UTF-8: convert it, for example with iconv -f GB18030 -t UTF-8")
	}
	return nil
}

// optional returns a pointer to v. For the zero value, it returns nil, which means that a flag was not given.
func optional[T comparable](v T) *T {
	var none T
	if v == none {
		return nil
	}
	return &v
}

// keyOption returns the option for the value of --idempotency-key, or no option if the value is empty.
func keyOption(key string) []client.CallOption {
	if key == "" {
		return nil
	}
	return []client.CallOption{client.WithIdempotencyKey(key)}
}

func (c *SendCmd) Run(ctx context.Context, env config.Remote) error {
	m, err := c.message()
	if err != nil {
		return err
	}
	open := c.Remote.open
	if c.Wait {
		open = c.Remote.follow
	}
	caller, ctx, cancel, err := open(ctx, env)
	if err != nil {
		return err
	}
	defer cancel()
	if c.DryRun {
		preview, err := caller.Preview(ctx, m)
		if err != nil {
			return InTime(ctx, err)
		}
		return caller.show(preview, func() record { return previewRecord(preview) })
	}
	sent, err := caller.Send(ctx, m, keyOption(c.IdempotencyKey)...)
	if err != nil {
		return InTime(ctx, err)
	}
	if c.Wait {
		caller.say("%s is stored", printable(sent.TaskID))
		err := caller.watchTask(ctx, sent.TaskID)
		if err == nil || errors.Is(err, errMessage) {
			return err
		}
		// Show the task even after an error: the message is stored, and a script that repeats the command must see its task.
		return errors.Join(err, caller.showSubmitted(sent))
	}
	return caller.showSubmitted(sent)
}

func (c *caller) showSubmitted(sent *client.Submitted) error {
	return c.show(sent, func() record {
		return record{{"task", sent.TaskID}, {"status", statusName(sent.Status)}, {"text", sent.FinalContent}, {"repeated", yes(sent.Deduplicated)}}
	})
}

func yes(is *bool) string {
	if is != nil && *is {
		return "yes"
	}
	return ""
}

func previewRecord(p *client.Submitted) record {
	all := record{
		{"verdict", spaced(text(p.Verdict))}, {"reason", spaced(text(p.Reason))}, {"until", local(p.DueAt)},
		{"text", p.FinalContent}, {"recipient", text(p.Recipient)},
		{"country", text(p.CountryNo)}, {"segments", text(p.Segments)}, {"cost", text(p.Cost)}, {"priority", text(p.Priority)},
		{"held by", switchNames(p.HeldBy)},
	}
	if p.Senders != nil {
		all = append(all, senderRows(*p.Senders)...)
	}
	return all
}

// spaced returns a word of the API as people write it: no sender instead of no_sender.
func spaced(word string) string { return strings.ReplaceAll(word, "_", " ") }

// switchNames returns the switches that hold messages, such as "channel sms, company acme".
func switchNames(all *[]api.Switch) string {
	if all == nil {
		return ""
	}
	var names []string
	for _, one := range *all {
		names = append(names, strings.TrimSpace(spaced(string(one.Switch))+" "+one.Name))
	}
	return strings.Join(names, ", ")
}

// senderRows returns a row for each sender. The row shows whether the sender can claim a message.
func senderRows(senders []api.SenderView) (all record) {
	for _, s := range senders {
		can := "can take it"
		if !s.CanTake {
			can = "cannot take it: " + spaced(text(s.Why))
		}
		if s.Until != nil {
			can += ", until " + local(s.Until)
		}
		all = append(all, [2]string{"sender", s.SenderNo + " " + can})
	}
	return all
}

// StatusCmd is the command `lksms status`.
type StatusCmd struct {
	TaskID string `arg:"" name:"task_id" help:"The task."`
	Events bool   `help:"Also show what happened to the task."`
	Remote Remote `embed:""`
}

func (c *StatusCmd) Run(ctx context.Context, env config.Remote) error {
	caller, ctx, cancel, err := c.Remote.open(ctx, env)
	if err != nil {
		return err
	}
	defer cancel()
	if c.Events {
		events, err := caller.Timeline(ctx, c.TaskID)
		if err != nil {
			return InTime(ctx, err)
		}
		rows := [][]string{}
		for _, e := range events {
			rows = append(rows, []string{local(&e.At), string(e.Event), text(e.AppID), text(e.Effect), shorten(text(e.Message), 60)})
		}
		return caller.list(events, []string{"TIME", "EVENT", "SENDER", "EFFECT", "MESSAGE"}, rows)
	}
	task, err := caller.Task(ctx, c.TaskID)
	if err != nil {
		return InTime(ctx, err)
	}
	return caller.showTask(task)
}

func (c *caller) showTask(t *client.TaskDetail) error {
	return c.show(t, func() record { return taskRecord(t) })
}

func taskRecord(t *client.TaskDetail) record {
	all := record{
		{"task", t.TaskID}, {"status", statusName(t.Status)}, {"result", text(t.Result)}, {"delivery", text(t.Delivery)}, {"provider no", text(t.ProviderNo)},
		{"number", t.PhoneNumber}, {"text", t.Content}, {"sign", text(t.Sign)}, {"type", string(t.MessageType)},
		{"segments", strconv.Itoa(int(t.Segments))},
		{"sender", text(t.ProcessingAppID)}, {"retries", strconv.Itoa(int(t.RetryCount))}, {"batch", text(t.BatchID)}, {"source", text(t.Source)},
		{"created", local(&t.CreatedAt)},
	}
	if t.Status == client.Pending {
		all = append(all, [2]string{"due", local(t.DueAt)})
	}
	if t.Status == client.Processing {
		all = append(all, [2]string{"leased until", local(t.LeaseUntil)})
	}
	if t.Test {
		all = append(all, [2]string{"test", "yes"})
	}
	return append(all, [2]string{"sent", local(t.SentAt)})
}

// ExplainCmd is the command `lksms explain`.
type ExplainCmd struct {
	TaskID string `arg:"" name:"task_id" help:"The task."`
	Remote Remote `embed:""`
}

func (c *ExplainCmd) Run(ctx context.Context, env config.Remote) error {
	caller, ctx, cancel, err := c.Remote.open(ctx, env)
	if err != nil {
		return err
	}
	defer cancel()
	e, err := caller.Explain(ctx, c.TaskID)
	if err != nil {
		return InTime(ctx, err)
	}
	return caller.show(e, func() record {
		ahead := text(e.Ahead)
		if e.AheadIsMore != nil && *e.AheadIsMore {
			ahead += " or more"
		}
		return append(record{
			{"task", e.TaskID}, {"status", statusName(e.Status)}, {"why", e.Summary}, {"due", local(e.DueAt)}, {"expires", local(e.ExpiresAt)},
			{"priority", strconv.Itoa(int(e.Priority))}, {"before it", ahead}, {"held by", switchNames(&e.HeldBy)}, {"requeued by", text(e.RequeuedBy)},
		}, senderRows(e.Senders)...)
	})
}

// WatchCmd is the command `lksms watch`.
type WatchCmd struct {
	What   string `arg:"" name:"task_id|batch_id" help:"A task, or the number of a batch."`
	Remote Remote `embed:""`
}

func (c *WatchCmd) Run(ctx context.Context, env config.Remote) error {
	caller, ctx, cancel, err := c.Remote.follow(ctx, env)
	if err != nil {
		return err
	}
	defer cancel()
	if id, err := strconv.ParseInt(c.What, 10, 64); err == nil {
		return caller.watchBatch(ctx, id)
	}
	return caller.watchTask(ctx, c.What)
}

// watchTask waits until the task has ended, and shows it. It returns an error if the message was not sent.
func (c *caller) watchTask(ctx context.Context, taskID string) error {
	last := ""
	task, err := c.WaitForTask(ctx, taskID, func(t *client.TaskDetail) {
		now := statusName(t.Status)
		if t.ProcessingAppID != nil && t.Status == client.Processing {
			now += " by " + printable(*t.ProcessingAppID)
		}
		if t.Status == client.Pending && t.RetryCount > 0 {
			now += fmt.Sprintf(", retry %d at %s", t.RetryCount, local(t.DueAt))
		}
		if now != last {
			c.say("%s", now)
			last = now
		}
	})
	if err != nil {
		return fmt.Errorf("%s: %w", printable(taskID), InTime(ctx, err))
	}
	if err := c.showTask(task); err != nil {
		return err
	}
	if task.Status != client.Success {
		return fmt.Errorf("%w: %s is %s", errMessage, task.TaskID, statusName(task.Status))
	}
	return nil
}

// CancelCmd is the command `lksms cancel`.
type CancelCmd struct {
	TaskID []string `arg:"" name:"task_id" help:"Tasks that wait."`
	DryRun dryRun   `embed:""`
	Remote Remote   `embed:""`
}

func (c *CancelCmd) Run(ctx context.Context, env config.Remote) error {
	return c.Remote.changeTasks(ctx, env, c.DryRun, c.TaskID, func(ctx context.Context, caller *caller, id string) (*client.Task, error) {
		return caller.Cancel(ctx, id)
	})
}

// RequeueCmd is the command `lksms requeue`.
type RequeueCmd struct {
	TaskID []string `arg:"" name:"task_id" help:"Tasks that are FAILED or CANCELLED."`
	Remark string   `help:"Why, for the timeline of the task."`
	DryRun dryRun   `embed:""`
	Remote Remote   `embed:""`
}

func (c *RequeueCmd) Run(ctx context.Context, env config.Remote) error {
	return c.Remote.changeTasks(ctx, env, c.DryRun, c.TaskID, func(ctx context.Context, caller *caller, id string) (*client.Task, error) {
		return caller.Requeue(ctx, id, c.Remark)
	})
}

// changeTasks works like changeEach for tasks.
func (r *Remote) changeTasks(
	ctx context.Context, env config.Remote, dry dryRun, ids []string, change func(context.Context, *caller, string) (*client.Task, error),
) error {
	return changeEach(ctx, r, env, dry, ids, change, []string{"TASK", "STATUS"}, func(t *client.Task) []string { return []string{t.TaskID, statusName(t.Status)} })
}

// changeEach changes the things with these ids one after the other, and lists the changed things. If the server rejects one change, the other changes are still
// made. row returns the line of a changed thing.
func changeEach[T any](
	ctx context.Context, r *Remote, env config.Remote, dry dryRun, ids []string, change func(context.Context, *caller, string) (*T, error),
	head []string, row func(*T) []string,
) error {
	caller, ctx, cancel, err := r.open(ctx, env, dry.options()...)
	if err != nil {
		return err
	}
	defer cancel()
	var (
		changed  = []any{}
		planned  = []*UnsentRequest{}
		rows     [][]string
		failures []error
	)
	for _, id := range ids {
		one, err := change(ctx, caller, id)
		if request, ok := errors.AsType[*UnsentRequest](err); ok {
			planned = append(planned, request)
			rows = append(rows, []string{request.Method, request.URL, request.Body})
			continue
		}
		if err != nil {
			failures = append(failures, err)
			if _, refused := errors.AsType[*client.Error](err); !refused {
				break // the next change would also fail
			}
			fmt.Fprintf(os.Stderr, "lksms: %s: %s\n", printable(id), ExplainError(err))
			continue
		}
		changed = append(changed, caller.asWritten(one))
		rows = append(rows, row(one))
	}
	switch {
	case dry.DryRun && len(failures) == 0:
		err = caller.list(planned, []string{"WOULD SEND", "URL", "BODY"}, rows)
	case len(changed) > 0 || len(failures) == 0:
		err = caller.list(changed, head, rows)
	}
	if err != nil || len(failures) == 0 {
		return err
	}
	last := failures[len(failures)-1]
	for _, failure := range failures { // prefer a temporary error, because its exit status suggests a retry
		if _, refused := errors.AsType[*client.Error](last); refused && client.IsTemporary(failure) {
			last = failure
		}
	}
	if _, refused := errors.AsType[*client.Error](last); refused {
		return ShownError{InTime(ctx, last)}
	}
	return InTime(ctx, last)
}

// ShownError is an error that was already printed.
type ShownError struct{ error }

func (e ShownError) Unwrap() error { return e.error }

func splitTypes(all []string) (types []client.EventType) {
	for _, one := range all {
		types = append(types, client.EventType(strings.TrimSpace(one)))
	}
	return types
}
