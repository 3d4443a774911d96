package remote

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"strconv"
	"time"

	"lksms/client"
	api "lksms/gen/client"
	"lksms/internal/dispatch/received"
	"lksms/internal/platform/config"
)

// ReceivedCmd is the command `lksms received`.
type ReceivedCmd struct {
	List receivedListCmd `cmd:"" help:"List received messages, newest first. lksms tail --type message.received follows them."`
	Show receivedShowCmd `cmd:"" help:"Show a received message."`
	Read receivedReadCmd `cmd:"" help:"Mark received messages as read."`
	Add  receivedAddCmd  `cmd:"" help:"Hand over a message that a phone or gateway received, for scripts."`
}

type receivedListCmd struct {
	Number    string     `help:"Only messages from this phone number."`
	SenderNo  string     `name:"sender-no" help:"Only messages that this sender received."`
	CompanyNo string     `name:"company-no" help:"Only messages of this company, for users who see all companies."`
	Kind      string     `help:"Only messages of this kind, such as text."`
	Unread    bool       `help:"Only messages that nobody marked as read."`
	Since     *time.Time `placeholder:"TIME" help:"Only messages stored at this time or later, such as 2026-11-24T18:00:00+08:00."`
	Until     *time.Time `placeholder:"TIME" help:"Only messages stored before this time."`
	Limit     int        `default:"20" help:"Maximum number of messages to list."`
	Remote    Remote     `embed:""`
}

func (c *receivedListCmd) Run(ctx context.Context, env config.Remote) error {
	caller, ctx, cancel, err := c.Remote.open(ctx, env)
	if err != nil {
		return err
	}
	defer cancel()
	all, rows := []client.Received{}, [][]string{}
	filter := client.ReceivedFilter{
		PhoneNumber: optional(c.Number), SenderNo: optional(c.SenderNo), CompanyNo: optional(c.CompanyNo), Kind: optional(api.ReceivedKind(c.Kind)),
		Unread: optional(c.Unread), From: c.Since, To: c.Until, Limit: pageOf(c.Limit),
	}
	for m, err := range caller.ReceivedMessages(ctx, filter) {
		if err != nil {
			return InTime(ctx, err)
		}
		all = append(all, m)
		rows = append(rows, []string{
			strconv.FormatInt(m.ReceivedID, 10), local(timeOf(m)), m.PhoneNumber, m.SenderNo, text(m.InReplyTo), unread(m), shorten(m.Content, 60),
		})
		if len(all) >= c.Limit {
			break
		}
	}
	return caller.list(all, []string{"ID", "RECEIVED", "NUMBER", "SENDER", "ANSWERS", "UNREAD", "TEXT"}, rows)
}

// timeOf returns the time that the network gave to a message, or else the time at which the message was stored.
func timeOf(m client.Received) *time.Time {
	if m.ReceivedAt != nil {
		return m.ReceivedAt
	}
	return &m.CreatedAt
}

func unread(m client.Received) string {
	if m.ReadAt == nil {
		return "yes"
	}
	return ""
}

type receivedShowCmd struct {
	ReceivedID int64  `arg:"" name:"received_id" help:"The message."`
	Remote     Remote `embed:""`
}

func (c *receivedShowCmd) Run(ctx context.Context, env config.Remote) error {
	caller, ctx, cancel, err := c.Remote.open(ctx, env)
	if err != nil {
		return err
	}
	defer cancel()
	m, err := caller.ReceivedMessage(ctx, c.ReceivedID)
	if err != nil {
		return InTime(ctx, err)
	}
	return caller.show(m, func() record {
		read := local(m.ReadAt)
		if m.ReadBy != nil {
			read += " by " + *m.ReadBy
		}
		return record{
			{"id", strconv.FormatInt(m.ReceivedID, 10)}, {"number", m.PhoneNumber}, {"text", m.Content}, {"kind", string(m.Kind)},
			{"company", m.CompanyNo}, {"sender", m.SenderNo}, {"sim", text(m.Sim)}, {"sent to", text(m.OwnNumber)}, {"answers", text(m.InReplyTo)},
			{"received", local(m.ReceivedAt)}, {"stored", local(&m.CreatedAt)}, {"message no", text(m.MessageNo)}, {"read", read}, {"raw", text(m.Raw)},
		}
	})
}

type receivedReadCmd struct {
	ReceivedID []int64 `arg:"" name:"received_id" help:"The messages."`
	DryRun     dryRun  `embed:""`
	Remote     Remote  `embed:""`
}

func (c *receivedReadCmd) Run(ctx context.Context, env config.Remote) error {
	ids := make([]string, len(c.ReceivedID))
	for i, id := range c.ReceivedID {
		ids[i] = strconv.FormatInt(id, 10)
	}
	read := func(ctx context.Context, caller *caller, text string) (*client.Received, error) {
		id, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("read the id: %w", err)
		}
		return caller.ReadReceived(ctx, id)
	}
	return changeEach(ctx, &c.Remote, env, c.DryRun, ids, read, []string{"ID", "READ BY"}, func(m *client.Received) []string {
		return []string{strconv.FormatInt(m.ReceivedID, 10), text(m.ReadBy)}
	})
}

type receivedAddCmd struct {
	AppFlag
	From       *string `help:"Number of the person who sent the message, in any notation. Empty, with --spool: the network hides the number."`
	Content    *string `help:"Text of the message; - reads it from standard input, where no other user of the machine sees it."`
	To         string  `help:"Number of the sender that received the message."`
	Sim        int16   `help:"Slot of the SIM card that received the message, from 1."`
	ReceivedAt string  `name:"received-at" placeholder:"TIME" help:"The time that the network gave to the message, such as 2026-11-24T18:00:00+08:00."`
	MessageNo  string  `name:"message-no" help:"Id that the phone or gateway gave to the message."`
	Spool      string  `type:"path" placeholder:"FOLDER" help:"Store the message in this folder first, then hand over all messages of the folder."`
	DryRun     dryRun  `embed:""`
	Remote     Remote  `embed:""`
}

// Help returns the text that is shown below the flags.
func (receivedAddCmd) Help() string {
	return "The server stores a message once: if the command is repeated with the same --received-at or --message-no, it adds nothing. " +
		"With --spool, no message is lost while the server is down: the exit status is then 3, and the message stays in the folder. " +
		"The next command with this folder hands over the message. Without --from, the command only hands over the messages of the folder. " +
		"Use one folder per sender. Texts that do not fit are cut. A message that the server refuses is renamed to *.refused."
}

// message returns the message of the flags, or nil if no message was given. A message without --received-at and --message-no gets a random message_no, so that
// the command can repeat its request. With --spool, the message always fits into the contract, because a gateway does not repeat it.
func (c *receivedAddCmd) message() (*client.ReceivedInput, error) {
	switch {
	case c.From == nil && c.Content == nil && c.Spool != "":
		return nil, nil
	case c.From == nil || c.Content == nil || *c.From == "" && c.Spool == "":
		return nil, Usage("give --from and --content")
	case c.DryRun.DryRun && c.Spool != "":
		return nil, Usage("--dry-run and --spool exclude each other")
	}
	content, err := readArgument(*c.Content)
	if err != nil {
		return nil, err
	}
	at, wrong := c.receivedAt()
	if c.Spool == "" {
		if err := cmp.Or(checkUTF8(content), wrong); err != nil {
			return nil, err
		}
	}
	m := received.Message{From: *c.From, To: c.To, Content: content, SIM: c.Sim, ReceivedAt: at, MessageNo: c.MessageNo}
	if c.Spool != "" {
		m = received.Fitting(m)
	}
	if m.ReceivedAt == nil && m.MessageNo == "" {
		m.MessageNo = "cli-" + rand.Text()
	}
	return &client.ReceivedInput{
		From: m.From, Content: m.Content, To: optional(m.To), Sim: optional(m.SIM), ReceivedAt: m.ReceivedAt, MessageNo: optional(m.MessageNo),
	}, nil
}

// receivedAt returns the time of --received-at; nil: none. The flag is a text, because a message with a wrong time must also be stored.
func (c *receivedAddCmd) receivedAt() (*time.Time, error) {
	if c.ReceivedAt == "" {
		return nil, nil //nolint:nilnil // no time
	}
	at, err := time.Parse(time.RFC3339, c.ReceivedAt)
	if err != nil {
		return nil, Usage("--received-at is no time such as 2026-11-24T18:00:00+08:00")
	}
	return &at, nil
}

func (c *receivedAddCmd) Run(ctx context.Context, env config.Remote) error {
	m, err := c.message()
	if err != nil {
		return err
	}
	if c.Spool != "" {
		return c.runSpool(ctx, env, m)
	}
	caller, ctx, cancel, err := c.Remote.open(ctx, env, c.DryRun.options()...)
	if err != nil {
		return err
	}
	defer cancel()
	if c.DryRun.DryRun && c.AppID == "" {
		return Usage("--app-id is missing: a dry run does not call the server")
	}
	app, err := c.Find(ctx, caller.Client)
	if err != nil {
		return InTime(ctx, err)
	}
	stored, err := caller.Receive(ctx, app, []client.ReceivedInput{*m})
	if err != nil {
		return c.DryRun.done(caller, InTime(ctx, err))
	}
	one := stored.Items[0]
	if one.Error != nil {
		return refusedItem(one)
	}
	return caller.show(stored, func() record {
		return record{{"id", text(one.ReceivedID)}, {"repeated", yes(one.Deduplicated)}}
	})
}

// refusedItem returns the error of a message that the server refused.
func refusedItem(one api.ReceivedOutcome) error {
	err := &client.Error{Status: one.Code, Reason: one.Error.Reason, Message: text(one.Message)}
	if one.Error.Fields != nil {
		err.Fields = *one.Error.Fields
	}
	return err
}
