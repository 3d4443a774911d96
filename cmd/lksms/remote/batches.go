package remote

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/schollz/progressbar/v3"

	"lksms/client"
	api "lksms/gen/client"
	"lksms/internal/platform/config"
)

// BatchCmd is the command `lksms batch`.
type BatchCmd struct {
	Create  batchCreateCmd  `cmd:"" help:"Upload a list of messages. Nothing is sent before it is confirmed."`
	Check   batchCheckCmd   `cmd:"" help:"Wait until a batch is checked, and show the rows that would not be sent."`
	Confirm batchConfirmCmd `cmd:"" help:"Send a batch that was checked."`
	Watch   batchWatchCmd   `cmd:"" help:"Wait until a batch has ended."`
	List    batchListCmd    `cmd:"" help:"List batches, newest first."`
	Pause   batchPauseCmd   `cmd:"" help:"Pause a batch: hold its waiting messages."`
	Resume  batchResumeCmd  `cmd:"" help:"Resume a paused batch."`
	Cancel  batchCancelCmd  `cmd:"" help:"Cancel a batch: its waiting messages are not sent."`
	Requeue batchRequeueCmd `cmd:"" help:"Send the failed messages of a batch again."`
}

type batchCreateCmd struct {
	File string `arg:"" optional:"" type:"path" help:"List: CSV, XLSX, or JSON objects in a file that ends in .json. Not with --tag."`

	Name           string     `help:"Name of the batch. Default: that of the file."`
	Channel        string     `placeholder:"sms" help:"Channel of the addresses: sms, email, or another one."`
	Subject        string     `help:"Title of the messages on another channel than sms, with names of columns in braces."`
	Content        string     `help:"Text, with names of columns in braces."`
	HTML           string     `name:"html" help:"HTML of the e-mail, with names of columns in braces. --content is then its plain text."`
	BizType        *int16     `name:"biz-type" help:"Notification template of this business type, instead of a text; not for sms."`
	Template       string     `placeholder:"NO" help:"Template, instead of a text."`
	Language       string     `help:"Translation of the template."`
	Tag            string     `help:"Contacts of this tag, instead of a file."`
	TagsAll        []string   `name:"tags-all" placeholder:"TAG,..." help:"Contacts that each of these tags holds."`
	TagsAny        []string   `name:"tags-any" placeholder:"TAG,..." help:"Contacts that one of these tags holds."`
	TagsNone       []string   `name:"tags-none" placeholder:"TAG,..." help:"No contact that one of these tags holds."`
	PhoneColumn    string     `name:"phone-column" help:"Column with the numbers. Default: the one with a usual name."`
	AddressColumn  string     `name:"address-column" help:"Column with the addresses on another channel than sms. Default: the one with a usual name."`
	Encoding       string     `placeholder:"UTF-8" help:"Encoding of the list: UTF-8, GB18030 or Windows-1252. Default: UTF-8 or GB18030, whichever the text is."`
	CompanyNo      string     `name:"company-no" help:"Company of the batch, for users who see all companies. Default: that of the user."`
	DefaultRegion  string     `name:"default-region" placeholder:"REGION" help:"Region (ISO 3166-1) of numbers without a country code, such as ID. Default: that of the company."`
	Type           string     `help:"verification, notification or marketing."`
	Priority       *int16     `help:"0 to 9, the smallest goes first."`
	Sign           string     `help:"Signature, placed before the text."`
	SignColumn     string     `name:"sign-column" help:"Column with the signature of each row. Default: the one with a usual name."`
	SenderNo       string     `name:"sender-no" help:"The only sender that may send it."`
	Dedup          string     `placeholder:"phone" help:"Which rows are duplicates: phone or address, row, or none."`
	At             *time.Time `placeholder:"TIME" help:"Send nothing before this time."`
	Expires        *time.Time `placeholder:"TIME" help:"Send nothing after this time."`
	Test           bool       `help:"Mark its messages as tests."`
	Confirm        bool       `help:"Send the batch as soon as it is checked, unless the encoding of its list is doubtful."`
	IdempotencyKey string     `name:"idempotency-key" help:"Your name for this command: repeated within 24 hours, it makes no second batch."`
	DryRun         dryRun     `embed:""`
	Remote         Remote     `embed:""`
}

func (c *batchCreateCmd) Run(ctx context.Context, env config.Remote) error {
	tags := slices.Concat(c.TagsAll, c.TagsAny)
	if c.Tag != "" {
		tags = append([]string{c.Tag}, tags...)
	}
	if (c.File == "") == (len(tags) == 0) {
		return Usage("give a file, --tag, --tags-all or --tags-any")
	}
	if c.Name == "" {
		c.Name = strings.Join(tags, " ")
		if c.File != "" {
			c.Name = filepath.Base(c.File)
		}
	}
	form := client.BatchForm{
		Name: c.Name, Channel: optional(c.Channel), Subject: optional(c.Subject), AddressColumn: optional(c.AddressColumn), Content: optional(c.Content), TemplateNo: optional(c.Template), Language: optional(c.Language), Tag: optional(c.Tag),
		TagsAll: list(c.TagsAll), TagsAny: list(c.TagsAny), TagsNone: list(c.TagsNone),
		PhoneColumn: optional(c.PhoneColumn), MessageType: optional(client.MessageType(c.Type)), Priority: c.Priority, Sign: optional(c.Sign),
		SenderNo: optional(c.SenderNo), Dedup: optional(api.BatchFormDedup(c.Dedup)), ExpectSendTime: c.At, ExpiresAt: c.Expires,
		DefaultRegion: optional(c.DefaultRegion), Test: optional(c.Test), AutoConfirm: optional(c.Confirm),
		HTML: optional(c.HTML), BizType: c.BizType, Encoding: optional(api.ListEncoding(c.Encoding)), CompanyNo: optional(c.CompanyNo), SignColumn: optional(c.SignColumn),
	}
	caller, ctx, cancel, err := c.Remote.follow(ctx, env, c.DryRun.options()...) // the client adapts the time limit of an upload to its size
	if err != nil {
		return err
	}
	defer cancel()
	var created *client.BatchCreated
	if c.File == "" {
		created, err = caller.CreateBatch(ctx, form, nil, keyOption(c.IdempotencyKey)...)
	} else {
		created, err = caller.CreateBatchFromFile(ctx, form, c.File, keyOption(c.IdempotencyKey)...)
	}
	if err != nil {
		return c.DryRun.done(caller, InTime(ctx, err))
	}
	return caller.show(created, func() record {
		return record{{"batch", strconv.FormatInt(created.BatchID, 10)}, {"status", string(created.Status)}}
	})
}

// list returns a pointer to items, or nil if items is empty.
func list(items []string) *[]string {
	if len(items) == 0 {
		return nil
	}
	return &items
}

type batchArg struct {
	BatchID int64 `arg:"" name:"batch_id" help:"Number of the batch."`
}

type batchCheckCmd struct {
	batchArg
	Strict bool   `help:"Fail if any row would not be sent, or if the encoding of the list is doubtful."`
	Limit  int    `default:"20" help:"Maximum number of rows to show."`
	Remote Remote `embed:""`
}

func (c *batchCheckCmd) Run(ctx context.Context, env config.Remote) error {
	caller, ctx, cancel, err := c.Remote.follow(ctx, env)
	if err != nil {
		return err
	}
	defer cancel()
	bar := caller.bar("checking")
	batch, err := caller.WaitForCheck(ctx, c.BatchID, func(b *client.Batch) { bar.set("checking", b.CheckedRows, b.Counts.Rows) })
	bar.end()
	if err != nil {
		return InTime(ctx, err)
	}
	type shown struct {
		Batch any               `json:"batch"`
		Wrong []json.RawMessage `json:"wrong_rows"`
	}
	answer, rows := shown{caller.asWritten(batch), []json.RawMessage{}}, [][]string{}
	for _, wrong := range []struct {
		status client.BatchRowStatus
		count  int64
	}{
		{"invalid", batch.Counts.Invalid}, {"duplicate", batch.Counts.Duplicate}, {"blocked", batch.Counts.Blocked},
	} {
		// The server searches the whole list for rows with a status. Ask for no more rows than exist, so that the search ends at the last such row.
		most := min(int(wrong.count), c.Limit-len(rows))
		if most <= 0 {
			continue
		}
		before := len(rows)
		for row, err := range caller.BatchRows(ctx, c.BatchID, &wrong.status) {
			if err != nil {
				return InTime(ctx, err)
			}
			rows = append(rows, []string{strconv.FormatInt(row.Row, 10), row.PhoneNumber, string(wrong.status), shorten(text(row.Remark), 60)})
			if len(rows)-before == most {
				break
			}
		}
		if caller.isJSON {
			answer.Wrong = append(answer.Wrong, caller.answers.take(len(rows)-before)...)
		}
	}
	if caller.isJSON {
		err = caller.json(answer)
	} else if err = caller.show(nil, func() record { return batchRecord(batch) }); err == nil && len(rows) > 0 {
		err = caller.list(nil, []string{"ROW", "NUMBER", "STATUS", "WHY"}, rows)
	}
	notSent := batch.Counts.Invalid + batch.Counts.Duplicate + batch.Counts.Blocked
	switch {
	case err != nil:
		return err
	case batch.Status == api.BatchCancelled:
		return fmt.Errorf("%w: the batch is cancelled: %s", errMessage, text(batch.Remark))
	case batch.Counts.Valid == 0:
		return fmt.Errorf("%w: the batch has no row that can be sent", errMessage)
	case c.Strict && notSent > 0:
		return fmt.Errorf("%w: %d rows would not be sent", errMessage, notSent)
	case c.Strict && batch.EncodingWarning != nil:
		return fmt.Errorf("%w: the encoding is doubtful: %s", errMessage, *batch.EncodingWarning)
	}
	return nil
}

type batchConfirmCmd struct {
	batchArg
	Wait   bool   `help:"Wait until the batch has ended."`
	DryRun dryRun `embed:""`
	Remote Remote `embed:""`
}

func (c *batchConfirmCmd) Run(ctx context.Context, env config.Remote) error {
	open := c.Remote.open
	if c.Wait {
		open = c.Remote.follow
	}
	caller, ctx, cancel, err := open(ctx, env, c.DryRun.options()...)
	if err != nil {
		return err
	}
	defer cancel()
	batch, err := caller.ConfirmBatch(ctx, c.BatchID)
	if err != nil {
		return c.DryRun.done(caller, InTime(ctx, err))
	}
	if c.Wait {
		return caller.watchBatch(ctx, c.BatchID)
	}
	return caller.showBatch(batch)
}

type batchWatchCmd struct {
	batchArg
	Remote Remote `embed:""`
}

func (c *batchWatchCmd) Run(ctx context.Context, env config.Remote) error {
	caller, ctx, cancel, err := c.Remote.follow(ctx, env)
	if err != nil {
		return err
	}
	defer cancel()
	return caller.watchBatch(ctx, c.BatchID)
}

// watchBatch waits until the batch has ended, and shows it. It returns an error if messages of the batch failed.
func (c *caller) watchBatch(ctx context.Context, batchID int64) error {
	bar := c.bar("sending")
	batch, err := c.WaitForBatch(ctx, batchID, func(b *client.Batch) {
		name, held := "sending", switchNames(b.HeldBy)
		switch {
		case b.Status == api.BatchReady || b.Status == api.BatchPaused:
			name = string(b.Status)
		case held != "":
			name = "held by " + held
		case b.WaitsFor != nil:
			name = spaced(string(b.WaitsFor.Reason))
		}
		bar.set(name, b.Counts.Success+b.Counts.Failed+b.Counts.Cancelled, b.Counts.Valid)
	})
	bar.end()
	if err != nil {
		return InTime(ctx, err)
	}
	if err := c.showBatch(batch); err != nil {
		return err
	}
	if batch.Status == api.BatchCancelled || batch.Counts.Failed > 0 {
		return fmt.Errorf("%w: %d of %d failed, and %d were cancelled", errMessage, batch.Counts.Failed, batch.Counts.Valid, batch.Counts.Cancelled)
	}
	return nil
}

func (c *caller) showBatch(b *client.Batch) error {
	return c.show(b, func() record { return batchRecord(b) })
}

func batchRecord(b *client.Batch) record {
	var figures []string
	for _, f := range []struct {
		name string
		n    int64
	}{
		{"valid", b.Counts.Valid}, {"invalid", b.Counts.Invalid}, {"duplicate", b.Counts.Duplicate}, {"blocked", b.Counts.Blocked},
	} {
		if f.n > 0 {
			figures = append(figures, fmt.Sprintf("%d %s", f.n, f.name))
		}
	}
	all := record{
		{"batch", strconv.FormatInt(b.BatchID, 10)}, {"name", b.Name}, {"status", string(b.Status)}, {"remark", text(b.Remark)}, {"encoding", text(b.EncodingWarning)}, {"text", b.Content},
		{"rows", strings.Join(figures, ", ")}, {"segments", strconv.FormatInt(b.Segments, 10)},
	}
	if b.ConfirmedAt != nil {
		all = append(all, record{
			{"waiting", strconv.FormatInt(b.Counts.Waiting, 10)}, {"processing", strconv.FormatInt(b.Counts.Processing, 10)},
			{"success", strconv.FormatInt(b.Counts.Success, 10)}, {"failed", strconv.FormatInt(b.Counts.Failed, 10)},
			{"cancelled", strconv.FormatInt(b.Counts.Cancelled, 10)}, {"delivered", strconv.FormatInt(b.Counts.Delivered, 10)},
		}...)
	}
	all = append(all, [2]string{"held by", switchNames(b.HeldBy)})
	if b.WaitsFor != nil {
		all = append(all, [2]string{"waits because", b.WaitsFor.Message})
	}
	if b.Estimate != nil && b.EndedAt == nil {
		all = append(all, [2]string{"ends not before", local(b.Estimate.EarliestEnd)}, [2]string{"ends about", local(b.Estimate.LikelyEnd)})
	}
	return append(all, [2]string{"created", local(&b.CreatedAt)}, [2]string{"ended", local(b.EndedAt)})
}

type batchListCmd struct {
	Status string `help:"Only batches with this status: checking, ready, running, paused, finished or cancelled."`
	Limit  int    `default:"100" help:"Maximum number of batches to list."`
	Remote Remote `embed:""`
}

func (c *batchListCmd) Run(ctx context.Context, env config.Remote) error {
	caller, ctx, cancel, err := c.Remote.open(ctx, env)
	if err != nil {
		return err
	}
	defer cancel()
	all, rows := []client.Batch{}, [][]string{}
	filter := client.BatchFilter{Status: optional(api.BatchStatus(c.Status)), Limit: pageOf(c.Limit)}
	for b, err := range caller.Batches(ctx, filter) {
		if err != nil {
			return InTime(ctx, err)
		}
		all = append(all, b)
		rows = append(rows, []string{
			strconv.FormatInt(b.BatchID, 10), shorten(b.Name, 30), string(b.Status), strconv.FormatInt(b.Counts.Valid, 10),
			strconv.FormatInt(b.Counts.Success, 10), strconv.FormatInt(b.Counts.Failed, 10), local(&b.CreatedAt),
		})
		if len(all) >= c.Limit {
			break
		}
	}
	return caller.list(all, []string{"BATCH", "NAME", "STATUS", "VALID", "SUCCESS", "FAILED", "CREATED"}, rows)
}

// pageOf returns the page size for a list of at most limit items.
func pageOf(limit int) *int { return new(min(max(limit, 1), 100)) }

type batchPauseCmd struct{ batchChange }

func (c *batchPauseCmd) Run(ctx context.Context, env config.Remote) error {
	return c.run(ctx, env, (*client.Client).PauseBatch)
}

type batchResumeCmd struct{ batchChange }

func (c *batchResumeCmd) Run(ctx context.Context, env config.Remote) error {
	return c.run(ctx, env, (*client.Client).ResumeBatch)
}

type batchCancelCmd struct{ batchChange }

func (c *batchCancelCmd) Run(ctx context.Context, env config.Remote) error {
	return c.run(ctx, env, (*client.Client).CancelBatch)
}

// batchChange contains the arguments and flags of the commands that change a batch.
type batchChange struct {
	batchArg
	DryRun dryRun `embed:""`
	Remote Remote `embed:""`
}

func (c *batchChange) run(ctx context.Context, env config.Remote, change func(*client.Client, context.Context, int64) (*client.Batch, error)) error {
	caller, ctx, cancel, err := c.Remote.open(ctx, env, c.DryRun.options()...)
	if err != nil {
		return err
	}
	defer cancel()
	batch, err := change(caller.Client, ctx, c.BatchID)
	if err != nil {
		return c.DryRun.done(caller, InTime(ctx, err))
	}
	return caller.showBatch(batch)
}

type batchRequeueCmd struct{ batchChange }

func (c *batchRequeueCmd) Run(ctx context.Context, env config.Remote) error {
	caller, ctx, cancel, err := c.Remote.open(ctx, env, c.DryRun.options()...)
	if err != nil {
		return err
	}
	defer cancel()
	again, err := caller.RequeueBatch(ctx, c.BatchID)
	if err != nil {
		return c.DryRun.done(caller, InTime(ctx, err))
	}
	return caller.show(again, func() record {
		all := record{{"messages", strconv.FormatInt(again.Count, 10)}, {"job", text(again.JobID)}}
		for _, s := range again.Skipped {
			all = append(all, [2]string{"skipped", fmt.Sprintf("%d: %s", s.Count, s.Message)})
		}
		return all
	})
}

// bar is a progress bar on a terminal. It is drawn when the total is known.
type bar struct {
	to    io.Writer // nil if standard error is not a terminal
	name  string
	drawn *progressbar.ProgressBar
}

func (o output) bar(name string) *bar { return &bar{to: o.progress, name: name} }

// set draws the progress. An error of the terminal does not stop the command.
func (b *bar) set(name string, done, total int64) {
	if b.to == nil || total == 0 {
		return
	}
	if b.drawn == nil {
		b.drawn = progressbar.NewOptions64(total, progressbar.OptionSetWriter(b.to), progressbar.OptionSetDescription(name),
			progressbar.OptionShowCount(), progressbar.OptionSetWidth(40), progressbar.OptionSetPredictTime(false))
	}
	if name != b.name {
		b.drawn.Describe(name)
		b.name = name
	}
	if total != b.drawn.GetMax64() {
		b.drawn.ChangeMax64(total)
	}
	_ = b.drawn.Set64(min(done, total))
}

func (b *bar) end() {
	if b.drawn != nil {
		_ = b.drawn.Clear()
	}
}
