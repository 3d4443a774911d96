package driver

import (
	"context"
	"log/slog"
	"unicode/utf8"

	"lksms/internal/dispatch/driver/provider"
	"lksms/internal/dispatch/sensitive"
	"lksms/internal/platform/fault"
)

// logDriver writes messages to the server's log and sends nothing. It is for development and dry runs.
type logDriver struct {
	config struct {
		ShowContent bool `json:"showContent"`
	}
	log      *slog.Logger
	mayBegin func(ctx context.Context, m provider.Message) bool
}

func newLog(config []byte, t provider.Tools) (Driver, error) {
	d := &logDriver{log: t.Log, mayBegin: t.MayBegin}
	return d, read(config, &d.config)
}

func (d *logDriver) Target() string { return "" }

// review rejects receipts: no provider has the messages.
func (d *logDriver) review(hasReceipts bool) error {
	if hasReceipts {
		return fault.InvalidField("config.callback.number", fault.NotTogether, "kind=log")
	}
	return nil
}

// Send logs each message. It logs text and recipient only if the configuration allows this.
func (d *logDriver) Send(ctx context.Context, messages []provider.Message, report func(int, provider.Outcome)) {
	for i, m := range messages {
		if m.IsExpired() || !d.mayBegin(ctx, m) {
			continue
		}
		attributes := []slog.Attr{
			slog.String("task_id", m.TaskID), slog.Int("attempt", int(m.Attempt)), slog.Int("characters", utf8.RuneCountInString(m.Content)),
		}
		if d.config.ShowContent {
			if m.IsSensitive {
				m.Title, m.Content = sensitive.Hide(m.Title), sensitive.Hide(m.Content)
			}
			attributes = append(attributes, slog.String("to", m.Recipient), slog.String("title", m.Title), slog.String("content", m.Content))
		}
		d.log.LogAttrs(ctx, slog.LevelInfo, "message sent to the log", attributes...)
		report(i, provider.Outcome{OK: true})
	}
}
