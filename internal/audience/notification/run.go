package notification

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"lksms/gen/notificationq"
	"lksms/internal/dispatch/directory"
	"lksms/internal/dispatch/placeholder"
	"lksms/internal/dispatch/queue/submit"
	"lksms/internal/dispatch/segment"
	"lksms/internal/platform/fault"
	"lksms/internal/platform/optional"
	"lksms/internal/platform/postgres"
	"lksms/internal/platform/result"
)

const (
	// runBatch is the maximum number of notifications that one transaction runs.
	runBatch = 20

	// runPeople is the number of people after which a transaction runs no further notification: a portion of a tag. A single notification can have more people.
	runPeople = tagPortion
)

// sweepOrigin is the origin of the tasks of planned notifications.
var sweepOrigin = submit.Origin{RequestID: "notifications"}

// Run enqueues the tasks of all due notifications. Companies take turns, and in each turn, a company gets at most one notification with many people. Run returns
// the number of notifications; a notification to a tag counts once for each portion. If a transaction fails, its notifications run one by one, so that only the
// faulty notifications fail.
func (s *Service) Run(ctx context.Context) (int, error) {
	total := 0
	for {
		due, err := s.q.NotificationsDue(ctx, notificationq.NotificationsDueParams{BatchSize: runBatch, Portion: tagPortion})
		if err != nil {
			return total, fmt.Errorf("find due notifications: %w", err)
		}
		ran := 0
		for _, ids := range transactions(due) {
			n, err := s.runInTx(ctx, ids)
			if err != nil && ctx.Err() == nil && !postgres.IsUnavailable(err) {
				n, err = s.runEach(ctx, ids)
			}
			if err != nil {
				return total, err
			}
			ran, total = ran+n, total+n
		}
		if ran == 0 { // nothing is due, or another server runs what is due
			return total, nil
		}
	}
}

// transactions returns the ids of the notifications that run in each transaction. It leaves out notifications of a company that has had its people in this turn,
// so that another company does not wait for all of them.
func transactions(due []notificationq.NotificationsDueRow) (ids [][]int64) {
	people, inLast := map[int64]int32{}, int32(runPeople) // people of each company, and in the last transaction
	for _, n := range due {
		if people[n.CompanyID] >= runPeople {
			continue
		}
		if inLast >= runPeople {
			ids, inLast = append(ids, nil), 0
		}
		ids[len(ids)-1] = append(ids[len(ids)-1], n.ID)
		people[n.CompanyID], inLast = people[n.CompanyID]+n.People, inLast+n.People
	}
	return ids
}

// runInTx calls run in a transaction.
func (s *Service) runInTx(ctx context.Context, ids []int64) (n int, err error) {
	err = s.db.Tx(ctx, func(ctx context.Context) (err error) {
		n, err = s.run(ctx, ids, sweepOrigin)
		return err
	})
	return n, err
}

// runEach runs the due notifications of a batch one by one. A notification that cannot run fails.
func (s *Service) runEach(ctx context.Context, ids []int64) (int, error) {
	for _, id := range ids {
		_, err := s.runInTx(ctx, []int64{id})
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

// run runs those of the given notifications that are due. It uses the transaction of the caller.
func (s *Service) run(ctx context.Context, ids []int64, origin submit.Origin) (int, error) {
	due, err := s.q.NotificationDue(ctx, ids)
	if err != nil {
		return 0, fmt.Errorf("find due notifications: %w", err)
	}
	waits, err := s.waits(ctx, due)
	if err != nil {
		return 0, err
	}
	for _, n := range due {
		if err := s.runTraced(ctx, n, waits[n.ID], origin); err != nil {
			return 0, err
		}
	}
	return len(due), nil
}

// runTraced calls runOne in a span.
func (s *Service) runTraced(ctx context.Context, n notificationq.NotificationDueRow, wait float64, origin submit.Origin) error {
	ctx, span := s.tracer.Start(ctx, "", "notification", trace.SpanKindInternal,
		attribute.Int64("lksms.notification_id", n.ID), attribute.String("lksms.channel", n.Channel))
	defer span.End()
	err := s.runOne(ctx, n, wait, origin)
	if err != nil {
		span.SetStatus(codes.Error, "")
	}
	return err
}

// retryWait is the number of seconds that a notification that ran before waits until its next try if a partition with its last tasks is locked, or if all its people
// still have a message that waits.
const retryWait = 60

// waits returns how many seconds each due notification must wait for the tasks of its last run. A notification that never ran does not wait, even while a
// partition is being moved to another tablespace.
func (s *Service) waits(ctx context.Context, due []notificationq.NotificationDueRow) (map[int64]float64, error) {
	waits := map[int64]float64{}
	var ids []int64
	for _, n := range due {
		if n.HasRun && n.RunRenderingID == nil { // a run in progress does not wait for its own tasks
			ids = append(ids, n.ID)
		}
	}
	if len(ids) == 0 {
		return waits, nil
	}
	err := s.db.Briefly(ctx, func(ctx context.Context) error {
		rows, err := s.q.NotificationWaits(ctx, ids)
		for _, row := range rows {
			waits[row.ID] = row.Wait
		}
		return postgres.Wrap("read the last tasks of notifications", err, nil)
	})
	if !postgres.IsLockTimeout(err) {
		return waits, err
	}
	for _, id := range ids {
		waits[id] = retryWait
	}
	return waits, nil
}

// runOne renders a due notification, enqueues a task for each recipient, and plans the next reminder. A notification that cannot be rendered fails.
func (s *Service) runOne(ctx context.Context, n notificationq.NotificationDueRow, wait float64, origin submit.Origin) error {
	switch {
	case n.IsExpired && n.RunRenderingID != nil:
		return s.fail(ctx, n.ID, tagExpired)
	case n.IsExpired && n.HasRun:
		return s.planNext(ctx, n.ID, nil)
	case n.IsExpired:
		return s.fail(ctx, n.ID, expired)
	case wait > 0:
		return s.planNext(ctx, n.ID, &wait)
	}
	to, reason, err := s.recipients(ctx, n)
	switch {
	case err != nil:
		return err
	case reason != nil:
		return s.fail(ctx, n.ID, *reason)
	case to.allWait:
		return s.planNext(ctx, n.ID, new(float64(retryWait)))
	case len(to.userIDs) == 0 && to.isLast:
		return s.planNext(ctx, n.ID, nil)
	}
	m, reason, err := s.text(ctx, n)
	switch {
	case err != nil:
		return err
	case reason != nil:
		return s.fail(ctx, n.ID, *reason)
	}
	people, err := s.people(ctx, n.CompanyID, n.Channel, to.userIDs)
	if err != nil {
		return err
	}
	if err := s.personalise(ctx, n, m, people); err != nil {
		return err
	}
	origin.CompanyID, origin.User = n.CompanyID, n.SubmittedBy
	if len(people) > 0 {
		if _, err := s.submissions.Enqueue(ctx, submit.Rendered{
			Channel: n.Channel, RenderingID: m.renderingID, Content: taskContent(m.content, m.params), Sign: n.Sign,
			MessageType: submit.Notification, ExpiresAt: n.ExpiresAt, IsUrgent: n.SubmittedBy == Alerts, IsOlder: n.IsOlder, Origin: origin,
		}, people); err != nil {
			return err
		}
	}
	switch {
	case !to.isLast:
		err := s.q.NotificationAdvance(ctx, notificationq.NotificationAdvanceParams{ID: n.ID, RenderingID: m.renderingID, RunAfter: to.last})
		return postgres.Wrap("advance notification", err, nil)
	case n.RepeatMinutes == nil:
		return s.planNext(ctx, n.ID, nil)
	}
	again := float64(*n.RepeatMinutes) * 60
	return s.planNext(ctx, n.ID, &again)
}

// message is the rendered text of a notification.
type message struct {
	renderingID          int64
	title, content, html string
	params               []byte
	keys                 []string // placeholders that are filled for each recipient: the texts are then templates; empty: the texts are complete
}

// text renders a due notification and stores the text, or returns the reason why this is impossible. For a run in progress, it returns the text that the first
// portion stored.
func (s *Service) text(ctx context.Context, n notificationq.NotificationDueRow) (m message, _ *failReason, err error) {
	payload, err := s.payload(n)
	if err != nil {
		return m, nil, err
	}
	if n.RunRenderingID != nil {
		stored, err := s.q.RenderingText(ctx, *n.RunRenderingID)
		if err != nil {
			return m, nil, fmt.Errorf("read rendering: %w", err)
		}
		m = message{renderingID: *n.RunRenderingID, title: stored.Title, content: stored.Content, html: stored.Html, params: stored.Params}
		if stored.IsTemplate {
			m.keys = contactKeys(n.Channel, payload, m.title, m.content, m.html)
		}
		return m, nil, nil
	}
	if n.Title == nil {
		return m, &noTemplate, nil
	}
	m = message{title: *n.Title, content: *n.Content, html: optional.Value(n.Html)}
	m.keys = contactKeys(n.Channel, payload, m.title, m.content, m.html)
	if m.params, err = placeholder.JSON(payload); err != nil {
		return m, nil, fmt.Errorf("write payload: %w", err)
	}
	filled, missing := placeholder.Text{Title: m.title, Content: m.content, HTML: m.html}.Fill(payload)
	missing = slices.DeleteFunc(distinct(missing), func(key string) bool { return slices.Contains(m.keys, key) })
	switch {
	case len(missing) > 0:
		return m, &failReason{noParameters.remark + strings.Join(missing, ", "), noParameters.label}, nil
	case len(m.keys) == 0:
		m.title, m.content, m.html = filled.Title, filled.Content, filled.HTML
		if filled.IsTooLong() {
			return m, &tooLong, nil
		}
	}
	if n.Channel == directory.SMS {
		m.content = segment.Bare(n.Sign, filled.Content) // the signature is removed here, so that the text is not signed twice
		reason, err := s.smsTooLong(ctx, n.Sign, m.content)
		if err != nil || reason != "" {
			return m, &failReason{reason, tooLong.label}, err
		}
	}
	if strings.TrimSpace(m.content) == "" && (optional.Value(n.ExternalID) == "" || !slices.Contains(filledByProvider, n.Channel)) {
		return m, &empty, nil
	}
	m.renderingID, err = s.q.RenderingCreate(ctx, notificationq.RenderingCreateParams{
		NotificationID: &n.ID, Title: m.title, Content: m.content, Html: m.html, TemplateID: optional.Value(n.ExternalID), Params: m.params,
		IsTemplate: len(m.keys) > 0,
	})
	return m, nil, postgres.Wrap("store rendering", err, nil)
}

// payload returns the values for the placeholders of a due notification.
func (s *Service) payload(n notificationq.NotificationDueRow) (payload map[string]any, err error) {
	d := json.NewDecoder(bytes.NewReader(n.Payload))
	d.UseNumber()
	if err := d.Decode(&payload); err != nil {
		return nil, fmt.Errorf("read payload: %w", err)
	}
	if _, isSet := payload["platformUrl"]; !isSet && s.platformURL != "" {
		payload["platformUrl"] = s.platformURL
	}
	if n.IsTimed { // elapsed time, by the clock of the database (S1.5)
		limit, _ := number(payload["maxDuration"])
		payload["overtime"], payload["maxDuration"] = max(0, n.ElapsedMinutes-limit), n.ElapsedMinutes
	}
	return payload, nil
}

// taskContent returns the content of the tasks of a rendering. If only the provider knows the text, the content is the list of the values.
func taskContent(content string, params []byte) string {
	if strings.TrimSpace(content) == "" {
		return string(params)
	}
	return content
}

// filledByProvider lists the channels whose providers fill their own templates with the payload. If a notification template names a provider's template
// (external id), its own text can be empty.
var filledByProvider = []string{directory.WeChat, "dingtalk"}

// smsTooLong returns why a rendered short message is too long. It returns an empty string if the length is allowed.
func (s *Service) smsTooLong(ctx context.Context, sign, content string) (string, error) {
	limits, err := s.submissions.Limits(ctx, submit.Notification)
	if err != nil {
		return "", err
	}
	var wrong *fault.Error
	if !errors.As(limits.Check(sign, content), &wrong) {
		return "", nil
	}
	text := result.SMSTooLong
	if wrong.Fields[0].Rule == fault.TooManySegments {
		text = result.SMSTooManySegments
	}
	lengths, _ := wrong.Fields[0].Limit.(fault.Lengths)
	return fmt.Sprintf(text, lengths.Most), nil
}

// planNext makes a notification due again after this number of seconds. If seconds is nil, the notification is never due again.
func (s *Service) planNext(ctx context.Context, id int64, seconds *float64) error {
	return postgres.Wrap("plan notification", s.q.NotificationNext(ctx, notificationq.NotificationNextParams{ID: id, Seconds: seconds}), nil)
}

// audience contains the users that get a task in one portion of a run.
type audience struct {
	userIDs []string
	isLast  bool   // no portion follows
	last    string // the last contact of the tag that this portion read
	allWait bool   // the notification repeats, and all its people still have a message that waits
}

// recipients returns the users that get a task now, or the reason why nobody gets one. A notification without reminders runs again only if it was set back to
// Waiting; recipients then omits the users that were already reached. A reminder omits the users whose last message still waits.
func (s *Service) recipients(ctx context.Context, n notificationq.NotificationDueRow) (to audience, reason *failReason, err error) {
	to = audience{userIDs: n.UserIds, isLast: true}
	if n.Tag != nil {
		if to, reason, err = s.tagged(ctx, n); err != nil || reason != nil {
			return to, reason, err
		}
	}
	if !n.HasRun {
		return to, nil, nil
	}
	p := notificationq.NotificationReachedParams{ID: n.ID, IsRepeating: n.RepeatMinutes != nil}
	if n.Tag != nil {
		p.UserIds = to.userIDs
	}
	reached, err := s.q.NotificationReached(ctx, p)
	if err != nil {
		return to, nil, fmt.Errorf("find reached recipients: %w", err)
	}
	all := len(to.userIDs)
	to.userIDs = slices.DeleteFunc(to.userIDs, func(id string) bool { return slices.Contains(reached, id) })
	to.allWait = p.IsRepeating && all > 0 && len(to.userIDs) == 0
	return to, nil, nil
}

// failReason is the reason why a notification fails: remark is stored in the notification, label is used in the metric.
type failReason struct{ remark, label string }

var (
	internalError = failReason{result.Internal, "internal"}
	expired       = failReason{result.Expired, "expired"}
	noTemplate    = failReason{result.NoTemplate, "template"}
	noParameters  = failReason{result.MissingParameters, "parameters"}
	tooLong       = failReason{result.TooLong, "too_long"}
	empty         = failReason{result.Empty, "empty"}
	noTag         = failReason{result.NoTag, "tag"}
	tagExpired    = failReason{result.TagExpired, "expired"}
	tagGone       = failReason{result.TagGone, "tag"}
	emptyTag      = failReason{result.EmptyTag, "tag"}
	bigTag        = failReason{fmt.Sprintf(result.BigTag, maxTag), "tag"}
)

// failReasons lists all reasons.
var failReasons = []failReason{internalError, expired, noTemplate, noParameters, tooLong, empty, noTag}

// fail records the reason why a notification cannot run now. A notification with reminders that ran before continues with its next reminder. Any other
// notification fails.
func (s *Service) fail(ctx context.Context, id int64, reason failReason) error {
	isFailed, err := s.q.NotificationFail(ctx, notificationq.NotificationFailParams{ID: id, Remark: reason.remark})
	if postgres.IsNoRows(err) { // the notification has ended meanwhile
		return nil
	}
	if isFailed {
		s.db.AfterCommit(ctx, func() { s.failed.WithLabelValues(reason.label).Inc() })
	}
	return postgres.Wrap("fail notification", err, nil)
}
