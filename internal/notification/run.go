package notification

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"lksms/gen/dbq"
	"lksms/internal/directory"
	"lksms/internal/postgres"
	"lksms/internal/queue"
)

// runBatch is how many notifications one transaction of a sweep tells. Each may have thousands of people.
const runBatch = 20

// byItself is who tells people of what was planned.
var byItself = queue.Origin{RequestID: "notifications"}

// Run tells the people of every notification whose time has come, in batches of their own transactions, and returns how many
// notifications that were. One that cannot be told fails, and does not hold up the others.
func (s *Service) Run(ctx context.Context) (int, error) {
	total := 0
	for {
		n, err := s.runSome(ctx, nil, runBatch)
		if err != nil && ctx.Err() == nil && !postgres.IsUnavailable(err) {
			n, err = s.runEach(ctx)
		}
		if err != nil {
			return total, err
		}
		if total += n; n < runBatch {
			return total, nil
		}
	}
}

func (s *Service) runSome(ctx context.Context, id *int64, most int32) (n int, err error) {
	err = s.db.Tx(ctx, func(ctx context.Context) (err error) {
		n, err = s.run(ctx, id, most, byItself)
		return err
	})
	return n, err
}

// runEach is runSome one by one: those that cannot be told fail.
func (s *Service) runEach(ctx context.Context) (int, error) {
	ids, err := s.q.NotificationDueIDs(ctx, runBatch)
	if err != nil {
		return 0, fmt.Errorf("look for notifications that are due: %w", err)
	}
	for _, id := range ids {
		_, err := s.runSome(ctx, &id, 1)
		if err == nil {
			continue
		}
		if ctx.Err() != nil || postgres.IsUnavailable(err) {
			return 0, err
		}
		if err := s.fail(ctx, id, internalError); err != nil {
			return 0, err
		}
	}
	return len(ids), nil
}

// run tells the people of notifications that are due, or of the one of id if it is. It takes part in the caller's transaction.
func (s *Service) run(ctx context.Context, id *int64, most int32, origin queue.Origin) (int, error) {
	due, err := s.q.NotificationDue(ctx, dbq.NotificationDueParams{ID: id, BatchSize: most})
	if err != nil {
		return 0, fmt.Errorf("look for notifications that are due: %w", err)
	}
	for _, n := range due {
		if err := s.tell(ctx, n, origin); err != nil {
			return 0, err
		}
	}
	return len(due), nil
}

func (s *Service) tell(ctx context.Context, n dbq.NotificationDueRow, origin queue.Origin) error {
	switch {
	case n.IsExpired && n.WasTold:
		return s.next(ctx, n.ID, nil)
	case n.IsExpired:
		return s.fail(ctx, n.ID, expired)
	case n.Wait > 0:
		return s.next(ctx, n.ID, &n.Wait)
	}
	users, err := s.toTell(ctx, n)
	if err != nil {
		return err
	}
	if len(users) == 0 {
		return s.next(ctx, n.ID, nil)
	}
	var payload map[string]any
	d := json.NewDecoder(bytes.NewReader(n.Payload))
	d.UseNumber()
	if err := d.Decode(&payload); err != nil {
		return fmt.Errorf("read payload: %w", err)
	}
	if _, said := payload["platformUrl"]; !said && s.platformURL != "" {
		payload["platformUrl"] = s.platformURL
	}
	if n.IsTimed { // by the database's clock (S1.5)
		limit, _ := number(payload["maxDuration"])
		payload["overtime"], payload["maxDuration"] = max(0, n.ElapsedMinutes-limit), n.ElapsedMinutes
	}
	if n.Title == nil {
		return s.fail(ctx, n.ID, noTemplate)
	}
	title, missing := fill(*n.Title, payload, titleMost)
	content, more := fill(*n.Content, payload, contentMost)
	if missing = distinct(append(missing, more...)); len(missing) > 0 {
		return s.fail(ctx, n.ID, unable{"模板缺少参数: " + strings.Join(missing, ", "), "parameters"})
	}
	if utf8.RuneCountInString(title) > titleMost || utf8.RuneCountInString(content) > contentMost {
		return s.fail(ctx, n.ID, tooLong)
	}
	if n.Channel == directory.SMS && utf8.RuneCountInString(content) > smsMost {
		return s.fail(ctx, n.ID, unable{fmt.Sprintf("渲染后的短信超过 %d 个字符", smsMost), tooLong.label})
	}
	params, err := written(payload)
	if err != nil {
		return fmt.Errorf("write payload: %w", err)
	}
	summary := content // what the task shows
	if strings.TrimSpace(content) == "" {
		if orEmpty(n.ExternalID) == "" || !slices.Contains(filledByProvider, n.Channel) {
			return s.fail(ctx, n.ID, empty)
		}
		summary = string(params)
	}
	rendering, err := s.q.RenderingCreate(ctx, dbq.RenderingCreateParams{
		NotificationID: &n.ID, Title: title, Content: content, TemplateID: orEmpty(n.ExternalID), Params: params,
	})
	if err != nil {
		return fmt.Errorf("keep rendering: %w", err)
	}
	people, err := s.people(ctx, n.CompanyID, n.Channel, users)
	if err != nil {
		return err
	}
	origin.CompanyID, origin.User = n.CompanyID, n.SubmittedBy
	if _, err := s.tasks.Enqueue(ctx, queue.Telling{
		Channel: n.Channel, RenderingID: rendering, Content: summary, Sign: n.Sign, MessageType: queue.Notification,
		ExpiresAt: n.ExpiresAt, Origin: origin,
	}, people); err != nil {
		return err
	}
	if n.RepeatMinutes == nil {
		return s.next(ctx, n.ID, nil)
	}
	again := float64(*n.RepeatMinutes) * 60
	return s.next(ctx, n.ID, &again)
}

// filledByProvider are the channels whose providers fill in a template of their own with the payload: where the template names it, the
// text may be empty.
var filledByProvider = []string{directory.WeChat, "dingtalk"}

// How many characters a rendering may have, and that of a short message.
const (
	titleMost   = 1000
	contentMost = 100_000
	smsMost     = 200
)

func (s *Service) next(ctx context.Context, id int64, seconds *float64) error {
	return postgres.Wrap("plan notification", s.q.NotificationNext(ctx, dbq.NotificationNextParams{ID: id, Seconds: seconds}), nil)
}

// toTell are the people of a notification that are to be told now: of one that is told again because it was set to waiting, those who
// have not been reached.
func (s *Service) toTell(ctx context.Context, n dbq.NotificationDueRow) ([]string, error) {
	if !n.WasTold || n.RepeatMinutes != nil {
		return n.UserIds, nil
	}
	reached, err := s.q.NotificationReached(ctx, n.ID)
	if err != nil {
		return nil, fmt.Errorf("look for people who were reached: %w", err)
	}
	return slices.DeleteFunc(n.UserIds, func(id string) bool { return slices.Contains(reached, id) }), nil
}

// unable is why nobody is told: what the remark says, and how the metric calls it.
type unable struct{ remark, label string }

var (
	internalError = unable{"内部错误，无法通知", "internal"}
	expired       = unable{"已过期", "expired"}
	noTemplate    = unable{"该业务类型在该渠道没有启用的模板", "template"}
	tooLong       = unable{"渲染后的标题或正文过长", "too_long"}
	empty         = unable{"渲染后的消息为空", "empty"}
)

// fail notes why nobody is told now. A reminder that was told before goes on; any other notification has failed.
func (s *Service) fail(ctx context.Context, id int64, why unable) error {
	isFailed, err := s.q.NotificationFail(ctx, dbq.NotificationFailParams{ID: id, Remark: why.remark})
	if postgres.IsNoRows(err) { // it ended meanwhile
		return nil
	}
	if isFailed {
		s.db.AfterCommit(ctx, func() { s.failed.WithLabelValues(why.label).Inc() })
	}
	return postgres.Wrap("fail notification", err, nil)
}
