package remote

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"lksms/client"
	api "lksms/gen/client"
	"lksms/internal/platform/config"
)

// TailCmd is the command `lksms tail`.
type TailCmd struct {
	After     string   `placeholder:"CURSOR" help:"Begin after this cursor. Default: now."`
	Type      []string `help:"Only events of this type, such as message.failed. May be repeated."`
	CompanyNo string   `name:"company-no" help:"Only events of this company, for users who see all companies."`
	Remote    Remote   `embed:""`
}

// Help returns the text that is shown below the flags.
func (TailCmd) Help() string {
	return "Shows the outcomes of messages and batches until it is interrupted. After a restart of the server it continues where it stopped. " +
		"With -o json each event is one line. The last event of a page contains the cursor from which --after continues."
}

func (c *TailCmd) Run(ctx context.Context, env config.Remote) error {
	caller, ctx, cancel, err := c.Remote.follow(ctx, env)
	if err != nil {
		return err
	}
	defer cancel()
	filter := client.EventFilter{Types: splitTypes(c.Type), CompanyNo: c.CompanyNo}
	isFirst := true
	for page, err := range caller.FollowEvents(ctx, c.After, filter) {
		if errors.Is(ctx.Err(), context.Canceled) {
			return nil // an interrupt is the normal end
		}
		if err != nil {
			return InTime(ctx, err)
		}
		if isFirst {
			caller.say("events after the cursor %s", page.NextCursor)
			isFirst = false
			if caller.isJSON && len(page.Items) == 0 { // prints the cursor from which a later run can continue if no event comes
				if err := writeJSON(caller.out, map[string]string{"next_cursor": page.NextCursor}, ""); err != nil {
					return err
				}
			}
		}
		if caller.isJSON {
			err = caller.eventLines(page)
		} else {
			err = caller.eventTable(page)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// eventLines prints each event as a line of JSON. Only the last event of a page gets a cursor, because the server returns one cursor per page. A run that
// continues from an earlier cursor gets the page again.
func (c *caller) eventLines(page *client.EventPage) error {
	items := c.answers.take(len(page.Items))
	for i, item := range items {
		if i == len(items)-1 {
			cursor, err := json.Marshal(page.NextCursor)
			if err != nil {
				return fmt.Errorf("encode the cursor: %w", err)
			}
			item = slices.Concat(bytes.TrimSuffix(item, []byte("}")), []byte(`,"next_cursor":`), cursor, []byte("}"))
		}
		if err := writeJSON(c.out, item, ""); err != nil {
			return fmt.Errorf("print the event: %w", err)
		}
	}
	return nil
}

func (c *caller) eventTable(page *client.EventPage) error {
	for _, e := range page.Items {
		if _, err := fmt.Fprintf(c.out, "%s  %s  %s\n", local(&e.Timestamp), pad(printable(string(e.Type)), 19), eventText(e)); err != nil {
			return err
		}
	}
	return nil
}

func eventText(e client.Event) string {
	if strings.HasPrefix(string(e.Type), "batch.") {
		var b client.BatchEvent
		if json.Unmarshal(e.Data, &b) != nil {
			return ""
		}
		return fmt.Sprintf("batch %d  %s  %d sent, %d failed", b.BatchID, shorten(b.Name, 30), b.Counts.Success, b.Counts.Failed)
	}
	if strings.HasPrefix(string(e.Type), "verification.") {
		var v client.VerificationEvent
		if json.Unmarshal(e.Data, &v) != nil {
			return ""
		}
		return joinWords(v.VerificationID, text(v.PhoneNumber), text(v.Purpose), text(v.Reason))
	}
	if e.Type == api.EventMessageReceived {
		var m client.ReceivedEvent
		if json.Unmarshal(e.Data, &m) != nil {
			return ""
		}
		return joinWords(strconv.FormatInt(m.ReceivedID, 10), text(m.PhoneNumber), text(m.SenderNo), shorten(text(m.Content), 60))
	}
	var m client.MessageEvent
	if json.Unmarshal(e.Data, &m) != nil {
		return ""
	}
	return joinWords(m.TaskID, text(m.PhoneNumber), text(m.ProcessingAppID), shorten(text(m.Result), 60))
}

// joinWords joins the words that are not empty.
func joinWords(all ...string) string {
	var words []string
	for _, word := range all {
		if word != "" {
			words = append(words, printable(word))
		}
	}
	return strings.Join(words, "  ")
}
