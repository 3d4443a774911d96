package remote

import (
	"context"
	"strconv"
	"time"

	"lksms/client"
	api "lksms/gen/client"
	"lksms/internal/platform/config"
)

// SendersCmd is the command `lksms senders`.
type SendersCmd struct {
	Status string `help:"Only senders with this status: on, off or retired."`
	Search string `help:"Only senders whose number or name contains this text."`
	Limit  int    `default:"100" help:"Maximum number of senders to list."`
	Remote Remote `embed:""`
}

func (c *SendersCmd) Run(ctx context.Context, env config.Remote) error {
	caller, ctx, cancel, err := c.Remote.open(ctx, env)
	if err != nil {
		return err
	}
	defer cancel()
	all, rows := []client.Sender{}, [][]string{}
	filter := client.SenderFilter{Status: optional(api.SenderStatus(c.Status)), Q: optional(c.Search), Limit: pageOf(c.Limit)}
	for s, err := range caller.Senders(ctx, filter) {
		if err != nil {
			return InTime(ctx, err)
		}
		all = append(all, s)
		rows = append(rows, []string{
			s.SenderNo, shorten(s.Name, 24), s.Channel, s.Kind, senderState(s), text(s.Balance), strconv.FormatInt(s.Used.Day, 10),
			local(s.SeenAt), local(s.SentAt),
		})
		if len(all) >= c.Limit {
			break
		}
	}
	return caller.list(all, []string{"SENDER", "NAME", "CHANNEL", "KIND", "STATE", "BALANCE", "TODAY", "SEEN", "SENT"}, rows)
}

func senderState(s client.Sender) string {
	switch {
	case s.Status != api.SenderOn:
		return string(s.Status)
	case s.IsSilent != nil && *s.IsSilent:
		return "silent"
	case s.Pause != nil:
		return string(s.Pause.State) + ": " + shorten(s.Pause.Reason, 40)
	case s.IsReady:
		return "ready"
	case s.NextAvailableAt != nil && s.NextAvailableAt.After(time.Now()):
		return "ready at " + local(s.NextAvailableAt)
	}
	return "not ready"
}

// AppFlag is the flag that names the sender for a claim.
type AppFlag struct {
	AppID string `name:"app-id" placeholder:"NO" help:"Sender as which to claim. Default: the only one that the user may use."`
}

// Find returns the number of the sender. Without the flag, it returns the only sender as which the user can claim.
func (a AppFlag) Find(ctx context.Context, c *client.Client) (string, error) {
	if a.AppID != "" {
		return a.AppID, nil
	}
	who, err := c.Who(ctx)
	if err != nil {
		return "", err
	}
	if who.AppID == nil {
		return "", Usage("--app-id is missing: the user %s may claim as any app", printable(who.Username))
	}
	return *who.AppID, nil
}

// ClaimCmd is the command `lksms claim`.
type ClaimCmd struct {
	AppFlag
	Limit  int    `default:"1" help:"Maximum number of tasks to claim."`
	Wait   int    `default:"0" help:"Seconds to wait for a task, at most 30."`
	DryRun dryRun `embed:""`
	Remote Remote `embed:""`
}

// Help returns the text that is shown below the flags.
func (ClaimCmd) Help() string {
	return "For experiments. You must report each claimed task before its lease ends. Otherwise another sender gets the task. " +
		"To send messages with a script, use lksms sender run."
}

func (c *ClaimCmd) Run(ctx context.Context, env config.Remote) error {
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
	tasks, err := caller.Claim(ctx, client.Claim{AppID: app, Limit: &c.Limit, Wait: &c.Wait})
	if err != nil {
		return c.DryRun.done(caller, InTime(ctx, err))
	}
	rows := [][]string{}
	for _, t := range tasks {
		rows = append(rows, []string{
			t.TaskID, strconv.FormatInt(t.LeaseID, 10), strconv.Itoa(int(t.Attempt)), local(&t.LeaseUntil), t.PhoneNumber, shorten(t.Content, 60),
		})
	}
	return caller.list(tasks, []string{"TASK", "LEASE", "ATTEMPT", "LEASED UNTIL", "NUMBER", "TEXT"}, rows)
}
