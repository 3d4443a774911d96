package notify

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/mail"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"lksms/gen/dbq"
	"lksms/internal/fault"
	"lksms/internal/phone"
	"lksms/internal/postgres"
	"lksms/internal/queue"
	"lksms/internal/sender"
	"lksms/internal/setting"
)

// The business types of the documents (S1.1); others may be used.
const (
	TaskCreated int16 = iota
	NodeDone
	OrbitRemind
	TaskFinished
	TaskAbnormal
	NodeTimeout
)

// The states of a notification (S1.2). Some failed, which is ours, is neither success nor failure.
const (
	Waiting int16 = iota
	Succeeded
	Failed
	Cancelled
	EndedAbnormally
	SomeFailed
)

// Service tells people of business events. Every method is at most one transaction.
type Service struct {
	db          *postgres.DB
	q           *dbq.Queries
	tasks       *queue.Service
	platformURL string
	failed      *prometheus.CounterVec
}

// New returns a Service. platformURL is what ${platformUrl} means where a payload does not say; it may be empty.
func New(db *postgres.DB, tasks *queue.Service, platformURL string, reg prometheus.Registerer) *Service {
	return &Service{
		db: db, q: dbq.New(db), tasks: tasks, platformURL: platformURL,
		failed: promauto.With(reg).NewCounterVec(prometheus.CounterOpts{
			Name: "lksms_notifications_failed_total", Help: "Notifications that nobody was told of, by the reason.",
		}, []string{"reason"}),
	}
}

// Announcement is what the notifications of one request say, and to whom.
type Announcement struct {
	Payload map[string]any
	UserIDs []string
}

// Notification is an announcement that is to be made on a channel (S1.2).
type Notification struct {
	BizType   int16
	BizID     int64
	BizTaskID *int64 // the business task whose event it is of, with which it ends; nil: a caller asked for it by itself
	Channel   string
	Own       map[string]any // what it says beside the announcement; of a name that stands in both, this counts
	DedupKey  *string        // names it on its channel, for its submitter, or of an event for its company: a second one of the name is the first
	NextRunAt *time.Time     // nil: now
	Repeat    *int64         // minutes after which its people are told again
	StartedAt *time.Time     // of a node that may take too long
	Sign      *string        // goes before the text; nil: the template's
	ExpiresAt *time.Time     // nobody is told after it; nil: never
	Operator  *string

	over bool // it ended before it began
}

// Made is what became of a Notification.
type Made struct {
	ID           int64
	Channel      string
	Deduplicated bool
	Status       int16
	Remark       string    // why nobody is told; empty: they are
	Failed       []Failure // who cannot be reached, known already
}

// Failure is why somebody cannot be reached.
type Failure struct{ UserID, Reason string }

// complete finds in the payload of a node's announcement what is not said beside it (S1.5): when people are told first, and how often
// again.
func (n *Notification) complete(payload map[string]any) error {
	if n.BizType != NodeTimeout {
		return nil
	}
	if said := payload["timeoutRemind"]; n.Repeat == nil && said != nil {
		minutes, isNumber := number(said)
		switch {
		case !isNumber:
			return fault.InvalidField("payload.timeoutRemind", fault.WrongType, "integer")
		case minutes < 0:
			return fault.InvalidField("payload.timeoutRemind", fault.TooSmall, 0)
		case minutes > longestRepeat:
			return fault.InvalidField("payload.timeoutRemind", fault.TooBig, longestRepeat)
		case minutes > 0:
			n.Repeat = &minutes
		}
	}
	if n.NextRunAt == nil && n.StartedAt != nil {
		limit, _ := number(payload["maxDuration"])
		if limit < 0 || limit > longestRepeat {
			return fault.InvalidField("payload.maxDuration", fault.TooBig, longestRepeat)
		}
		n.NextRunAt = new(n.StartedAt.Add(time.Duration(limit) * time.Minute))
	}
	return nil
}

// longestRepeat is the most minutes between two reminders.
const longestRepeat = 525600

// checkTimes finds what is wrong with the times of a notification.
func (n *Notification) checkTimes() error {
	now := time.Now()
	if at := n.StartedAt; at != nil && at.After(now.AddDate(0, 0, farthest)) {
		return fault.InvalidField("started_at", fault.TooFarAhead, farthest)
	}
	if at := n.StartedAt; at != nil && at.Before(now.AddDate(-longest, 0, 0)) {
		return fault.InvalidField("started_at", fault.InThePast, nil)
	}
	switch at := n.ExpiresAt; {
	case at == nil:
	case at.Before(now), n.NextRunAt != nil && at.Before(*n.NextRunAt):
		return fault.InvalidField("expires_at", fault.InThePast, nil)
	case at.After(now.AddDate(0, 0, 2*farthest)):
		return fault.InvalidField("expires_at", fault.TooFarAhead, 2*farthest)
	}
	return nil
}

// Create is Enqueue of what a caller asks for itself: a notification whose message is empty is refused, and with it the others.
// Faults: request.invalid.
func (s *Service) Create(ctx context.Context, a *Announcement, all []Notification, origin queue.Origin) (o Outcome, err error) {
	err = s.db.Tx(ctx, func(ctx context.Context) error {
		if o, err = s.Enqueue(ctx, a, all, origin); err != nil {
			return err
		}
		for _, m := range o.Made {
			if !m.Deduplicated && m.Remark == empty.remark {
				return fault.InvalidField("payload", fault.RenderedBlank, nil)
			}
		}
		return nil
	})
	return o, err
}

// Enqueue stores the notifications of an announcement with their tasks, all or none; those whose time is to come get theirs then. Of
// several at once with one dedup key, one is stored and all are given its id (S1.3). Faults: request.invalid, limit.reached.
func (s *Service) Enqueue(ctx context.Context, a *Announcement, all []Notification, origin queue.Origin) (Outcome, error) {
	for i := range all {
		if at := all[i].NextRunAt; at != nil && at.After(time.Now().AddDate(0, 0, farthest)) {
			return Outcome{}, fault.InvalidField("next_run_time", fault.TooFarAhead, farthest)
		}
		if err := all[i].complete(a.Payload); err != nil {
			return Outcome{}, err
		}
		if err := all[i].checkTimes(); err != nil {
			return Outcome{}, err
		}
	}
	said := a.Payload
	if said == nil {
		said = map[string]any{}
	}
	payload, err := written(said)
	if err != nil {
		return Outcome{}, fmt.Errorf("write payload: %w", err)
	}
	made := make([]Made, len(all))
	order := make([]int, len(all))
	for i := range order {
		order[i] = i
	}
	// Two calls that name the same things wait for each other in one order.
	slices.SortStableFunc(order, func(a, b int) int {
		return strings.Compare(all[a].Channel+"\x00"+orEmpty(all[a].DedupKey), all[b].Channel+"\x00"+orEmpty(all[b].DedupKey))
	})
	o := Outcome{Made: made}
	err = s.db.Tx(ctx, func(ctx context.Context) (err error) {
		announcement, isMoreWaiting := stored{payload: payload, userIDs: distinct(a.UserIDs)}, false
		for _, i := range order {
			if made[i], err = s.enqueue(ctx, &announcement, all[i], origin); err != nil {
				return err
			}
			isMoreWaiting = isMoreWaiting || !made[i].Deduplicated && all[i].waits()
		}
		if isMoreWaiting {
			if err := s.checkWaiting(ctx, origin.CompanyID); err != nil {
				return err
			}
		}
		o.HasMoreFailed, err = s.tellOutcomes(ctx, made, origin.User)
		return err
	})
	return o, err
}

// waitingMost is how many notifications of a company may wait for their time, those that repeat included: as many as five reminders of
// 50 things a day for a year. It bounds what one company adds to the sweeps.
const waitingMost = 100_000

// checkWaiting refuses what was just stored, if too many notifications of the company wait with it.
func (s *Service) checkWaiting(ctx context.Context, companyID int64) error {
	n, err := s.q.NotificationsWaiting(ctx, dbq.NotificationsWaitingParams{CompanyID: companyID, Most: waitingMost + 1})
	if err == nil && n > waitingMost {
		return fault.AtLimit(waitingMost)
	}
	return postgres.Wrap("count notifications that wait", err, nil)
}

// waits tells whether something of a notification is left to do after its request.
func (n *Notification) waits() bool {
	return !n.over && (n.Repeat != nil || n.NextRunAt != nil && n.NextRunAt.After(time.Now()))
}

// failuresMost is how many people who cannot be reached one answer names.
const failuresMost = 100

// tellOutcomes says of each notification what became of it so far, and why, of those that the user submitted, and tells whether there
// are more people who cannot be reached than it named.
func (s *Service) tellOutcomes(ctx context.Context, made []Made, user string) (hasMore bool, err error) {
	ids := make([]int64, len(made))
	for i := range made {
		ids[i] = made[i].ID
	}
	outcomes, err := s.q.NotificationOutcomes(ctx, dbq.NotificationOutcomesParams{Ids: ids, SubmittedBy: user})
	if err != nil {
		return false, fmt.Errorf("read outcomes: %w", err)
	}
	failures, err := s.q.NotificationFailures(ctx, dbq.NotificationFailuresParams{Ids: ids, SubmittedBy: user, Most: failuresMost + 1})
	if err != nil {
		return false, fmt.Errorf("read failures: %w", err)
	}
	if hasMore = len(failures) > failuresMost; hasMore {
		failures = failures[:failuresMost]
	}
	byID := map[int64]dbq.NotificationOutcomesRow{}
	for _, o := range outcomes {
		byID[o.ID] = o
	}
	failed := map[int64][]Failure{}
	for _, f := range failures {
		failed[f.NotificationID] = append(failed[f.NotificationID], Failure{f.UserID, f.Reason})
	}
	for i := range made {
		made[i].Status, made[i].Remark, made[i].Failed = byID[made[i].ID].Status, byID[made[i].ID].Remark, failed[made[i].ID]
	}
	return hasMore, nil
}

// stored is an announcement as it is stored, with the first notification that is made of it.
type stored struct {
	id      *int64 // nil: not yet
	payload []byte
	userIDs []string
}

func (s *Service) enqueue(ctx context.Context, a *stored, n Notification, origin queue.Origin) (Made, error) {
	made := Made{Channel: n.Channel}
	own := []byte("{}")
	if n.Own != nil {
		var err error
		if own, err = written(n.Own); err != nil {
			return made, fmt.Errorf("write payload: %w", err)
		}
	}
	p := dbq.NotificationCreateParams{
		CompanyID: origin.CompanyID, Channel: n.Channel, BizType: n.BizType, BizID: n.BizID, BizTaskID: n.BizTaskID, DedupKey: n.DedupKey,
		AnnouncementID: a.id, OwnPayload: own, NextRunAt: n.NextRunAt, RepeatMinutes: n.Repeat, StartedAt: n.StartedAt,
		Operator: n.Operator, SubmittedBy: origin.User, Sign: n.Sign, ExpiresAt: n.ExpiresAt,
	}
	if n.over {
		p.EndedAs = new(Cancelled)
	}
	isNew := a.id == nil // to the database, to which an announcement is not given in vain
	if isNew {
		p.Payload, p.UserIds = a.payload, a.userIDs
	}
	for attempt := range 10 { // the one of the name may be deleted between two looks
		if n.DedupKey != nil && (isNew || attempt > 0) {
			id, err := s.q.NotificationFind(ctx, dbq.NotificationFindParams{
				CompanyID: origin.CompanyID, Channel: n.Channel, DedupKey: *n.DedupKey, BizTaskID: n.BizTaskID, SubmittedBy: origin.User,
			})
			if err == nil {
				made.ID, made.Deduplicated = id, true
				return made, nil
			}
			if !postgres.IsNoRows(err) {
				return made, fmt.Errorf("find notification: %w", err)
			}
		}
		row, err := s.q.NotificationCreate(ctx, p)
		if err == nil {
			made.ID, a.id = row.ID, &row.AnnouncementID
			if !n.over && (n.NextRunAt == nil || !n.NextRunAt.After(time.Now())) {
				_, err = s.run(ctx, &made.ID, 1, origin)
			}
			return made, err
		}
		if !postgres.IsNoRows(err) {
			return made, fmt.Errorf("create notification: %w", err)
		}
		if n.DedupKey == nil {
			break
		}
	}
	return made, fault.InvalidField("channels", fault.NotThere, nil)
}

// distinct keeps the first of each.
func distinct(all []string) []string {
	once := make([]string, 0, len(all))
	seen := map[string]bool{}
	for _, one := range all {
		if !seen[one] {
			seen[one] = true
			once = append(once, one)
		}
	}
	return once
}

func orEmpty(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

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
	if n.Channel == sender.SMS && utf8.RuneCountInString(content) > smsMost {
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
		Channel: n.Channel, RenderingID: rendering, Content: summary, Sign: n.Sign, MessageType: setting.Notification,
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
var filledByProvider = []string{weChat, "dingtalk"}

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

var placeholder = regexp.MustCompile(`\$\{([^{}]*)\}`)

// fill replaces ${key} by what the payload says, and names the keys of which it says nothing. What is filled in is not looked
// at again. Of a text of more than most characters it writes only so much that it is longer: a short template may name a long
// value many times.
func fill(template string, payload map[string]any, most int) (text string, missing []string) {
	var out strings.Builder
	length, end := 0, 0
	write := func(part string) {
		out.WriteString(part)
		length += utf8.RuneCountInString(part)
	}
	for _, at := range placeholder.FindAllStringSubmatchIndex(template, -1) {
		before, key := template[end:at[0]], template[at[2]:at[3]]
		end = at[1]
		value := payload[key]
		if value == nil {
			missing = append(missing, key)
			continue
		}
		if length > most {
			continue
		}
		write(before)
		if text, ok := value.(string); ok {
			write(text)
			continue
		}
		text, err := written(value)
		if err != nil {
			missing = append(missing, key)
		}
		write(string(text))
	}
	if length <= most {
		write(template[end:])
	}
	return out.String(), missing
}

// written is JSON for people to read: < and & stay as they are.
func written(v any) ([]byte, error) {
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, fmt.Errorf("write JSON: %w", err)
	}
	return bytes.TrimSuffix(text.Bytes(), []byte("\n")), nil
}

// number reads a whole number of a payload.
func number(v any) (int64, bool) {
	switch v := v.(type) {
	case json.Number:
		n, err := v.Float64()
		return int64(math.Round(n)), err == nil
	case float64:
		return int64(math.Round(v)), true
	case int64:
		return v, true
	default:
		return 0, false
	}
}

// people finds the addresses of users on a channel; on one that contacts say nothing of, a user id is the address.
func (s *Service) people(ctx context.Context, companyID int64, channel string, userIDs []string) ([]queue.Person, error) {
	rows, err := s.q.ContactList(ctx, dbq.ContactListParams{CompanyID: companyID, UserIds: userIDs, PageLimit: int32(len(userIDs))})
	if err != nil {
		return nil, fmt.Errorf("find contacts: %w", err)
	}
	contacts := make(map[string]dbq.Contact, len(rows))
	for _, row := range rows {
		contacts[row.UserID] = row
	}
	people := make([]queue.Person, len(userIDs))
	for i, id := range userIDs {
		c := contacts[id]
		people[i].UserID = id
		switch channel {
		case sender.SMS:
			people[i].Address = orEmpty(c.Phone)
		case "dingtalk":
			people[i].Address = orEmpty(c.DingtalkName)
		case "wechat":
			people[i].Address = orEmpty(c.WechatOpenid)
		case "email":
			people[i].Address = orEmpty(c.Email)
		default:
			people[i].Address = id
		}
	}
	return people, nil
}

// End gives the notifications of a business that are in one of the states expected, of which Waiting is the usual one, another state,
// and returns how many (S1.6). What waits of them is cancelled, and what a sender holds is not tried again; set to Waiting, those who
// were not reached are told.
func (s *Service) End(ctx context.Context, companyID int64, owner *string, bizTypes []int16, bizIDs []int64, bizTask *int64, as int16, expected []int16, operator *string) (int, error) {
	ended := 0
	err := s.db.Tx(ctx, func(ctx context.Context) error {
		held, err := s.lock(ctx, companyID, owner, bizTypes, bizIDs, bizTask)
		if err != nil {
			return err
		}
		ids, err := s.q.NotificationSet(ctx, dbq.NotificationSetParams{Ids: held, Target: as, Expected: expected, Operator: operator})
		if err != nil {
			return fmt.Errorf("set notifications: %w", err)
		}
		if ended = len(ids); as == Waiting {
			return nil
		}
		_, err = s.tasks.Withdraw(ctx, ids, orEmpty(operator))
		return err
	})
	return ended, err
}

func (s *Service) lock(ctx context.Context, companyID int64, owner *string, bizTypes []int16, bizIDs []int64, bizTask *int64) ([]int64, error) {
	ids, err := s.q.NotificationLock(ctx, dbq.NotificationLockParams{CompanyID: companyID, Owner: owner, BizTypes: bizTypes, BizIds: bizIDs, BizTaskID: bizTask})
	return ids, postgres.Wrap("hold notifications", err, nil)
}

// Delete hides the notifications of a business and returns how many (S1.6). What waits of them is cancelled; their dedup keys
// are free again.
func (s *Service) Delete(ctx context.Context, companyID int64, owner *string, bizType int16, bizIDs []int64, operator *string) (int, error) {
	deleted := 0
	err := s.db.Tx(ctx, func(ctx context.Context) error {
		ids, err := s.lock(ctx, companyID, owner, []int16{bizType}, bizIDs, nil)
		if err != nil {
			return err
		}
		n, err := s.q.NotificationDelete(ctx, dbq.NotificationDeleteParams{Ids: ids, Operator: operator})
		if err != nil {
			return fmt.Errorf("delete notifications: %w", err)
		}
		deleted = int(n)
		_, err = s.tasks.Withdraw(ctx, ids, orEmpty(operator))
		return err
	})
	return deleted, err
}

var errNoNotification = fault.New(fault.NotFound, fault.NotificationNotFound)

// Filter says which notifications to list; nil means any.
type Filter struct {
	Viewer  queue.Viewer
	BizType *int16
	BizID   *int64
	Channel *string
	UserID  *string // who is told
	Status  *int16
	Before  int64
	Limit   int
}

// scanMost is at how many notifications a page looks that is narrowed by their states, which are those of their tasks.
const scanMost = 2000

// List gives notifications, newest first. Narrowed by state, it gives up when it has looked at scanMost: then before tells where to go on.
func (s *Service) List(ctx context.Context, f Filter) (rows []dbq.NotificationListRow, before int64, err error) {
	p := dbq.NotificationListParams{
		CompanyID: f.Viewer.CompanyID, Owner: f.Viewer.Owner, BizType: f.BizType, BizID: f.BizID, Channel: f.Channel, UserID: f.UserID, BeforeID: f.Before, PageLimit: int32(f.Limit),
	}
	if f.Status != nil {
		looked, err := s.q.NotificationStatuses(ctx, dbq.NotificationStatusesParams{
			CompanyID: f.Viewer.CompanyID, Owner: f.Viewer.Owner, BizType: f.BizType, BizID: f.BizID, Channel: f.Channel, UserID: f.UserID, BeforeID: f.Before, ScanLimit: scanMost,
		})
		if err != nil {
			return nil, 0, fmt.Errorf("look at states: %w", err)
		}
		p.Ids = []int64{}
		for _, row := range looked {
			if row.Status == *f.Status && len(p.Ids) < f.Limit {
				p.Ids = append(p.Ids, row.ID)
			}
		}
		if len(looked) == scanMost && len(p.Ids) < f.Limit {
			before = looked[scanMost-1].ID
		}
	}
	rows, err = s.q.NotificationList(ctx, p)
	return rows, before, postgres.Wrap("list notifications", err, nil)
}

// Whole is all of a notification. Lists have only the summaries: an announcement may be long.
type Whole struct {
	Summary      dbq.NotificationListRow
	Announcement dbq.NotificationAnnouncementRow
	People       []dbq.NotificationPeopleRow
}

// Get gives one notification and what became of each person's message. Fault: notification.not_found.
func (s *Service) Get(ctx context.Context, viewer queue.Viewer, id int64) (n Whole, err error) {
	rows, err := s.q.NotificationList(ctx, dbq.NotificationListParams{CompanyID: viewer.CompanyID, Owner: viewer.Owner, ID: &id, BeforeID: math.MaxInt64, PageLimit: 1})
	if err != nil {
		return n, fmt.Errorf("get notification: %w", err)
	}
	if len(rows) == 0 {
		return n, errNoNotification
	}
	n.Summary = rows[0]
	if n.Announcement, err = s.q.NotificationAnnouncement(ctx, id); err != nil {
		return n, fmt.Errorf("get announcement: %w", err)
	}
	n.People, err = s.q.NotificationPeople(ctx, id)
	return n, postgres.Wrap("get recipients", err, nil)
}

// Contact is how a user is reached. Of one that is there, a nil field stays as it is, and an empty one is cleared.
type Contact struct {
	UserID                                   string
	Phone, DingTalkName, WeChatOpenID, Email *string
}

// PutContacts adds contacts and changes those that are there, all or none, and returns how many. Faults: request.invalid, limit.reached.
func (s *Service) PutContacts(ctx context.Context, companyID int64, contacts []Contact) (int, error) {
	p := dbq.ContactChangeParams{CompanyID: companyID}
	give := func(texts *[]string, given *[]bool, text *string) {
		*texts, *given = append(*texts, orEmpty(text)), append(*given, text != nil)
	}
	seen := map[string]bool{}
	for i, c := range contacts {
		field := func(name string) string { return fmt.Sprintf("contacts.%d.%s", i, name) }
		if seen[c.UserID] {
			return 0, fault.InvalidField(field("user_id"), fault.Duplicate, nil)
		}
		seen[c.UserID] = true
		if orEmpty(c.Phone) != "" {
			number, err := phone.Normalise(field("phone"), *c.Phone)
			if err != nil {
				return 0, err
			}
			c.Phone = &number
		}
		if email := orEmpty(c.Email); email != "" {
			if a, err := mail.ParseAddress(email); err != nil || a.Address != email {
				return 0, fault.InvalidField(field("email"), fault.WrongFormat, nil)
			}
		}
		p.UserIds = append(p.UserIds, c.UserID)
		give(&p.Phones, &p.PhonesGiven, c.Phone)
		give(&p.DingtalkNames, &p.DingtalkNamesGiven, c.DingTalkName)
		give(&p.WechatOpenids, &p.WechatOpenidsGiven, c.WeChatOpenID)
		give(&p.Emails, &p.EmailsGiven, c.Email)
	}
	var n int64
	err := s.db.Tx(ctx, func(ctx context.Context) (err error) {
		if err = s.q.ContactAdd(ctx, dbq.ContactAddParams{CompanyID: companyID, UserIds: p.UserIds}); err != nil {
			return postgres.Wrap("add contacts", err, nil)
		}
		n, err = s.q.ContactChange(ctx, p)
		return postgres.Wrap("change contacts", err, nil)
	})
	return int(n), err
}

// Contacts gives contacts by user id, those after after.
func (s *Service) Contacts(ctx context.Context, companyID int64, after string, limit int) ([]dbq.Contact, error) {
	rows, err := s.q.ContactList(ctx, dbq.ContactListParams{CompanyID: companyID, AfterID: after, PageLimit: int32(limit)})
	return rows, postgres.Wrap("list contacts", err, nil)
}

var errNoContact = fault.New(fault.NotFound, fault.ContactNotFound)

// GetContact gives one contact. Fault: contact.not_found.
func (s *Service) GetContact(ctx context.Context, companyID int64, userID string) (dbq.Contact, error) {
	rows, err := s.q.ContactList(ctx, dbq.ContactListParams{CompanyID: companyID, UserIds: []string{userID}, PageLimit: 1})
	if err == nil && len(rows) == 0 {
		return dbq.Contact{}, errNoContact
	}
	if err != nil {
		return dbq.Contact{}, fmt.Errorf("get contact: %w", err)
	}
	return rows[0], nil
}

// DeleteContact removes a contact. Fault: contact.not_found.
func (s *Service) DeleteContact(ctx context.Context, companyID int64, userID string) error {
	n, err := s.q.ContactDelete(ctx, dbq.ContactDeleteParams{CompanyID: companyID, UserID: userID})
	if err == nil && n == 0 {
		return errNoContact
	}
	return postgres.Wrap("delete contact", err, nil)
}

var errNoTemplate = fault.New(fault.NotFound, fault.TemplateNotFound)

// PutTemplate sets the template of a business type on a channel (S1.7). Faults: channel.not_found, limit.reached.
func (s *Service) PutTemplate(ctx context.Context, p dbq.NotificationTemplatePutParams) (dbq.NotificationTemplateListRow, error) {
	if _, err := s.q.NotificationTemplatePut(ctx, p); err != nil {
		return dbq.NotificationTemplateListRow{}, postgres.Wrap("put template", err, fault.New(fault.NotFound, fault.ChannelNotFound))
	}
	rows, err := s.Templates(ctx, &p.BizType, &p.Channel)
	if err == nil && len(rows) == 0 {
		err = errNoTemplate
	}
	if err != nil {
		return dbq.NotificationTemplateListRow{}, err
	}
	return rows[0], nil
}

// Templates gives the templates of a business type, of a channel, or all.
func (s *Service) Templates(ctx context.Context, bizType *int16, channel *string) ([]dbq.NotificationTemplateListRow, error) {
	rows, err := s.q.NotificationTemplateList(ctx, dbq.NotificationTemplateListParams{BizType: bizType, Channel: channel})
	return rows, postgres.Wrap("list templates", err, nil)
}

// DeleteTemplate removes a template. Fault: template.not_found.
func (s *Service) DeleteTemplate(ctx context.Context, bizType int16, channel string) error {
	n, err := s.q.NotificationTemplateDelete(ctx, dbq.NotificationTemplateDeleteParams{BizType: bizType, Channel: channel})
	if err == nil && n == 0 {
		return errNoTemplate
	}
	return postgres.Wrap("delete template", err, nil)
}
