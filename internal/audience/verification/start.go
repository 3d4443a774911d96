package verification

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"lksms/gen/verificationq"
	"lksms/internal/dispatch/caps"
	"lksms/internal/dispatch/queue/submit"
	"lksms/internal/platform/fault"
	"lksms/internal/platform/optional"
	"lksms/internal/platform/postgres"
	"lksms/internal/platform/setting"
)

// Request asks to send a code to a person.
type Request struct {
	Person
	Client
	Options

	Purpose string        // what the code is for: another purpose has other codes
	Length  int           // digits of the code; 0: the setting
	TTL     time.Duration // time until the code expires; 0: the setting
	Raw     []byte        // request as JSON, for the log
}

// Client is the program with which a person asked for a code.
type Client struct {
	IP     string // IP address; empty: unknown
	Device string // id of the device; empty: unknown
}

// Options are what a resend repeats. They are stored as verifications.options.
type Options struct {
	TemplateNo string `json:"template_no,omitempty"` // empty: the text of LKSMS
	Language   string `json:"language,omitempty"`    // empty: by the country of the number
	Sign       string `json:"sign,omitempty"`        // empty: the signature of the template
	AppHash    string `json:"app_hash,omitempty"`    // 11 characters by which an Android app finds the message; empty: none
	Domain     string `json:"domain,omitempty"`      // domain for which a browser fills in the code; empty: none
	Contact    string `json:"user_id,omitempty"`     // contact who gets the code; empty: the person was named by an address
}

// Started describes a verification that waits for its code.
type Started struct {
	ID, TaskID             string
	ExpiresAt, ResendAfter time.Time
}

// maxTries is the maximum number of attempts to start a verification while other requests start one for the same recipient.
const maxTries = 100

// Start sends a new code to a person, and ends the pending verification for the same recipient and purpose. The verification and its message are stored in one
// transaction. Faults: request.invalid, template.not_active, verification.no_key, recipient.country_closed, recipient.suspected, recipient.limited,
// recipient.blocked, unavailable, and those of submit.Submit.
func (s *Service) Start(ctx context.Context, r Request, origin submit.Origin) (Started, error) {
	started, err := s.start(ctx, r, origin)
	s.metrics.countRefused(err)
	return started, err
}

func (s *Service) start(ctx context.Context, r Request, origin submit.Origin) (Started, error) {
	if r.AppHash != "" && r.Domain != "" {
		return Started{}, fault.InvalidField("domain", fault.NotTogether, "app_hash")
	}
	to, err := s.find(ctx, origin.CompanyID, r.Person)
	if err != nil {
		return Started{}, err
	}
	values, err := s.Settings.Get(ctx)
	if err != nil {
		return Started{}, err
	}
	if err := s.checkNumber(ctx, origin.CompanyID, to, r.field(), values.Verification); err != nil {
		return Started{}, err
	}
	subjects, err := r.subjects(r.field(), to, r.Purpose, values.Verification)
	if err != nil {
		return Started{}, err
	}
	c, err := s.newCoded(r, values.Verification)
	if err != nil {
		return Started{}, err
	}
	r.Contact = optional.Value(r.UserID)
	m := message{
		service: s, coded: c, Options: r.Options, to: to, purpose: r.Purpose, maxChecks: int16(values.Verification.MaxChecks), origin: origin, subjects: subjects, raw: r.Raw,
		watch: watchOf(to, r.IP), unprovenPerDay: values.Verification.UnprovenPerDay,
	}
	for range maxTries {
		err := s.send(ctx, &m)
		switch {
		case postgres.Violates(err, "verifications_pending_key"): // another request was faster: it is now replaced
		case err != nil:
			return Started{}, fault.Rename(err, r.fieldOf)
		default:
			s.metrics.started.Inc()
			if m.formerStatus != "" {
				s.metrics.ended.WithLabelValues(m.formerStatus).Inc()
			}
			s.takeBack(ctx, m.formerID, m.formerTasks, itself, m.formerStatus == Expired)
			return m.started, nil
		}
	}
	return Started{}, fault.New(fault.Unavailable, fault.ServiceUnavailable)
}

// fieldOf returns the field of a request for a code that causes a field of its message.
func (r Request) fieldOf(f fault.Field) string {
	switch f.Name {
	case "phone_number", "address":
		return r.field()
	case "expires_at":
		return "ttl_seconds"
	case "content", "params":
		if r.TemplateNo == "" && r.Domain != "" {
			return "domain"
		}
		return "template_no" // also if there is no template: the text of LKSMS is longer than a setting allows
	default:
		return f.Name
	}
}

// coded is a new code with its stored forms.
type coded struct {
	id, code, sealed, digest string
	ttl                      time.Duration
}

func (s *Service) newCoded(r Request, v setting.Verification) (c coded, err error) {
	length := cmp.Or(r.Length, int(v.Length))
	c.ttl = cmp.Or(r.TTL, time.Duration(v.TTL)*time.Second)
	if c.code, err = newCode(length); err != nil {
		return c, err
	}
	c.id = newID()
	c.sealed, c.digest, err = s.seal(c.id, c.code)
	return c, err
}

// message is a message with a code. It is stored together with its verification, see submit.Companion.
type message struct {
	coded
	Options

	service        *Service
	to             recipient
	purpose        string
	maxChecks      int16
	origin         submit.Origin
	subjects       []caps.Subject // the recipient and the client, see Client.subjects
	watch          watch
	raw            []byte             // request as JSON, for the log
	isResend       bool               // the verification exists
	unprovenPerDay int64              // the setting
	written        *submit.Submission // nil: it is not written yet

	// Store sets these.
	started      Started
	formerID     string   // verification that was replaced; empty: none
	formerTasks  []string // its tasks
	formerStatus string   // its status: Cancelled or Expired
}

// send submits a message.
func (s *Service) send(ctx context.Context, m *message) error {
	sub, err := s.submission(ctx, m)
	if err != nil {
		return err
	}
	_, err = s.Submissions.Submit(ctx, *sub, m.origin)
	return err //nolint:wrapcheck // a fault, or already wrapped
}

// submission returns the submission of a message. Its text is written once, because an e-mail stores its text then.
func (s *Service) submission(ctx context.Context, m *message) (*submit.Submission, error) {
	if m.written == nil {
		sub := submit.Submission{
			Channel: m.to.channel, PhoneNumber: m.to.address, MessageType: submit.Verification, ExpiresAt: new(time.Now().Add(m.ttl)), IsSensitive: true, Raw: m.raw,
		}
		if err := s.write(ctx, &sub, m); err != nil {
			return nil, err
		}
		m.written = &sub
	}
	m.written.Companion = m
	return m.written, nil
}

// Key is the same for all messages to a recipient for a purpose.
func (m *message) Key() string {
	return fmt.Sprintf("%d %q %q %q", m.origin.CompanyID, m.to.channel, m.to.address, m.purpose)
}

// Store stores the verifications of messages.
func (m *message) Store(ctx context.Context, all []submit.Accompanied) error {
	starts := make(map[string]*message, len(all))
	for _, a := range all {
		m := a.Companion.(*message)
		m.started, m.formerID, m.formerTasks, m.formerStatus = Started{ID: m.id, TaskID: a.TaskID, ResendAfter: a.NextAt}, "", nil, ""
		if !m.isResend {
			starts[m.id] = m
		} else if err := m.storeResend(ctx); err != nil {
			return err
		}
	}
	if len(starts) == 0 {
		return nil
	}
	p, err := startParams(starts)
	if err != nil {
		return err
	}
	rows, err := m.service.q.VerificationsStart(ctx, p)
	if err != nil {
		return postgres.Wrap("store verifications", err, nil)
	}
	for _, row := range rows {
		starts[row.VerificationID].setTimes(row.CreatedAt, row.ExpiresAt)
		delete(starts, row.VerificationID)
	}
	if len(starts) == 0 {
		return nil
	}
	if p, err = startParams(starts); err != nil {
		return err
	}
	replaced, err := m.service.q.VerificationsReplace(ctx, verificationq.VerificationsReplaceParams(p))
	for _, row := range replaced {
		m := starts[row.VerificationID]
		m.setTimes(row.CreatedAt, row.ExpiresAt)
		m.formerID, m.formerTasks, m.formerStatus = row.FormerID, row.FormerTaskIds, row.FormerStatus
	}
	return postgres.Wrap("replace verifications", err, nil)
}

// setTimes sets the times of a stored verification.
func (m *message) setTimes(createdAt, expiresAt time.Time) {
	m.started.ExpiresAt, m.started.ResendAfter = expiresAt, later(m.started.ResendAfter, createdAt)
}

// startParams returns the verifications of messages as they are stored.
func startParams(starts map[string]*message) (p verificationq.VerificationsStartParams, err error) {
	for _, m := range starts {
		options, err := json.Marshal(m.Options)
		if err != nil {
			return p, fmt.Errorf("write options of verification: %w", err)
		}
		p.VerificationIds, p.TaskIds, p.TtlSeconds = append(p.VerificationIds, m.id), append(p.TaskIds, m.started.TaskID), append(p.TtlSeconds, int64(m.ttl/time.Second))
		p.CompanyIds, p.Submitters = append(p.CompanyIds, m.origin.CompanyID), append(p.Submitters, m.origin.User)
		p.Channels, p.Recipients, p.Purposes = append(p.Channels, m.to.channel), append(p.Recipients, m.to.address), append(p.Purposes, m.purpose)
		p.Digests, p.Sealed = append(p.Digests, m.digest), append(p.Sealed, m.sealed)
		p.Countries, p.Subjects = append(p.Countries, m.watch.country), append(p.Subjects, strings.Join(m.watch.subjects(), " "))
		p.Options, p.MaxChecks = append(p.Options, string(options)), append(p.MaxChecks, m.maxChecks)
	}
	return p, nil
}

// storeResend adds the task of a resend to its verification. Faults: those of an ended verification.
func (m *message) storeResend(ctx context.Context) error {
	row, err := m.service.q.VerificationResent(ctx, verificationq.VerificationResentParams{
		VerificationID: m.id, TaskID: m.started.TaskID, Channel: m.to.channel, Network: m.watch.network,
	})
	if postgres.IsNoRows(err) {
		return m.service.ended(ctx, m.origin.CompanyID, m.id)
	}
	m.started.ExpiresAt, m.started.ResendAfter = row.ExpiresAt, later(m.started.ResendAfter, row.At)
	return postgres.Wrap("store message of verification", err, nil)
}

// later returns the later one of two times.
func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// subjects returns the subjects whose codes are counted: the recipient, and the client. field is the field that names the recipient. An IPv6 client counts as its
// network of 64 bits, because a client can use all addresses of this network. Fault: request.invalid for client_ip.
func (c Client) subjects(field string, to recipient, purpose string, v setting.Verification) ([]caps.Subject, error) {
	all := []caps.Subject{{Name: fmt.Sprintf("code %q %q %q", to.channel, to.address, purpose), Field: field, Caps: v.Caps()}}
	if c.IP != "" {
		network := networkOf(c.IP, 32, 64)
		if network == "" {
			return nil, fault.InvalidField("client_ip", fault.WrongFormat, nil)
		}
		all = append(all, caps.Subject{Name: "client_ip " + network, Field: "client_ip", Caps: v.ClientCaps()})
	}
	if c.Device != "" {
		all = append(all, caps.Subject{Name: "device " + c.Device, Field: "device", Caps: v.ClientCaps()})
	}
	return all, nil
}

// takeBack cancels the messages of a verification that has ended, unless a sender has them, and takes them out of the counts. hasExpired: the messages have expired,
// so there is nothing to cancel. `by` is the user that the timelines of the messages name. The caller has committed the end, and its answer must say so. After an
// error, the messages are therefore sent, or expire together with the code.
func (s *Service) takeBack(ctx context.Context, id string, taskIDs []string, by string, hasExpired bool) {
	if len(taskIDs) == 0 {
		return
	}
	cancelled, err := s.Tasks.CancelUnsent(ctx, taskIDs, by)
	if err == nil && (cancelled > 0 || hasExpired) {
		err = s.uncount(ctx, []string{id}, taskIDs)
	}
	if err != nil {
		s.Log.WarnContext(ctx, "messages of an ended verification were not cancelled", "task_ids", taskIDs, "error", err)
	}
}

// uncount takes the codes of ended verifications that no sender got out of the counts. taskIDs contains all tasks of the verifications.
func (s *Service) uncount(ctx context.Context, ids, taskIDs []string) error {
	err := verificationq.New(s.db.InPartitions()).VerificationsUncount(ctx, verificationq.VerificationsUncountParams{VerificationIds: ids, TaskIds: taskIDs})
	return postgres.Wrap("take unsent codes out of the counts", err, nil)
}

// itself is the user of messages that are cancelled because a verification was approved, exhausted or replaced.
const itself = "system:verification"

// Resend sends the code of a pending verification again, with the options of its start. The code and its expiry do not change. raw is the request as JSON, for the log.
// Faults: recipient.limited, recipient.country_closed, recipient.suspected, verification.not_found, verification.no_key, the faults of an ended verification, and
// those of submit.Submit.
func (s *Service) Resend(ctx context.Context, id string, client Client, raw []byte, origin submit.Origin) (Started, error) {
	started, err := s.resend(ctx, id, client, raw, origin)
	s.metrics.countRefused(err)
	return started, err
}

func (s *Service) resend(ctx context.Context, id string, client Client, raw []byte, origin submit.Origin) (Started, error) {
	values, err := s.Settings.Get(ctx)
	if err != nil {
		return Started{}, err
	}
	row, err := s.q.VerificationCode(ctx, verificationq.VerificationCodeParams{VerificationID: id, CompanyID: origin.CompanyID})
	if postgres.IsNoRows(err) {
		return Started{}, s.ended(ctx, origin.CompanyID, id)
	}
	if err != nil {
		return Started{}, postgres.Wrap("read code of verification", err, nil)
	}
	m := message{
		service: s, coded: coded{id: id, ttl: row.ExpiresAt.Sub(row.At)}, to: recipient{row.Channel, row.Recipient}, purpose: row.Purpose, origin: origin, raw: raw,
		isResend: true, unprovenPerDay: values.Verification.UnprovenPerDay,
	}
	if err := s.checkNumber(ctx, origin.CompanyID, m.to, ofVerification, values.Verification); err != nil {
		return Started{}, err
	}
	if m.subjects, err = client.subjects(ofVerification, m.to, m.purpose, values.Verification); err != nil {
		return Started{}, err
	}
	if err := json.Unmarshal(row.Options, &m.Options); err != nil {
		return Started{}, fmt.Errorf("read options of verification: %w", err)
	}
	if m.code, err = s.Secrets.Decrypt(row.Sealed, ownerOf(id)); err != nil {
		return Started{}, errNoKey
	}
	err = s.reroute(ctx, &m, values.Verification.ResendBy, row.TaskIds)
	if err == nil {
		m.watch = watchOf(m.to, client.IP)
		err = s.send(ctx, &m)
	}
	if err != nil {
		return Started{}, renameResent(err)
	}
	return m.started, nil
}

// ofVerification is the field of a request to send a code again that names the verification.
const ofVerification = "verification_id"

// renameResent returns a fault of the message of a resend with the fields of its request. A code that expires before its message could be sent has expired.
func renameResent(err error) error {
	isExpired := false
	err = fault.Rename(err, func(f fault.Field) string {
		switch isExpired = isExpired || f.Name == "expires_at"; f.Name {
		case "client_ip", "device", "sign", "template_no": // the pool can require a signature since the start, and the template can have changed
			return f.Name
		default:
			return ofVerification
		}
	})
	if isExpired {
		return errExpired
	}
	return err
}
