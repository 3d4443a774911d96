package verification

import (
	"context"
	"fmt"
	"time"

	"lksms/gen/verificationq"
	"lksms/internal/dispatch/caps"
	"lksms/internal/dispatch/queue/submit"
	"lksms/internal/platform/fault"
	"lksms/internal/platform/postgres"
	"lksms/internal/platform/setting"
)

// Request asks to send a code to a person.
type Request struct {
	Person
	Purpose    string        // what the code is for: another purpose has other codes
	Length     int           // digits of the code; 0: the setting
	TTL        time.Duration // time until the code expires; 0: the setting
	TemplateNo string        // empty: the text of LKSMS
	Language   string        // empty: by the country of the number
	Sign       string        // empty: the signature of the template
	ClientIP   string        // IP address of the client that asked for the code; empty: unknown
	Device     string        // device that asked for the code; empty: unknown
	AppHash    string        // 11 characters by which an Android app finds the message; empty: none
	Domain     string        // domain for which a browser fills in the code; empty: none
	Raw        []byte        // request as JSON, for the log
}

// Started describes a verification that waits for its code.
type Started struct {
	ID, TaskID             string
	ExpiresAt, ResendAfter time.Time
}

// maxTries is the maximum number of attempts to start a verification while other requests start one for the same recipient.
const maxTries = 10

// Start sends a new code to a person, and ends the pending verification for the same recipient and purpose. The verification and its message are stored in one
// transaction. Faults: request.invalid, template.not_active, verification.no_key, recipient.limited, recipient.blocked, and those of submit.Submit.
func (s *Service) Start(ctx context.Context, r Request, origin submit.Origin) (Started, error) {
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
	c, err := s.newCoded(r, values.Verification)
	if err != nil {
		return Started{}, err
	}
	for tries := 1; ; tries++ {
		started, replaced, err := s.start(ctx, r, to, c, values.Verification, origin)
		switch {
		case postgres.Violates(err, "verifications_pending_key") && tries < maxTries: // another request was faster: it is now replaced
		case err != nil:
			return Started{}, err
		default:
			return started, s.takeBack(ctx, replaced)
		}
	}
}

// coded is a new code with its stored forms.
type coded struct {
	id, code, sealed, digest string
	ttl                      time.Duration
}

func (s *Service) newCoded(r Request, v setting.Verification) (c coded, err error) {
	length := int(v.Length)
	if r.Length != 0 {
		length = r.Length
	}
	if c.ttl = r.TTL; c.ttl == 0 {
		c.ttl = time.Duration(v.TTL) * time.Second
	}
	if c.code, err = newCode(length); err != nil {
		return c, err
	}
	c.id = newID()
	c.sealed, c.digest, err = s.seal(c.id, c.code)
	return c, err
}

// start stores a verification with its message, and returns the tasks of the verification that it replaces.
func (s *Service) start(
	ctx context.Context, r Request, to recipient, c coded, v setting.Verification, origin submit.Origin,
) (started Started, replaced []string, err error) {
	err = s.db.Tx(ctx, func(ctx context.Context) error {
		row, err := s.q.VerificationStart(ctx, verificationq.VerificationStartParams{
			VerificationID: c.id, CompanyID: origin.CompanyID, SubmittedBy: origin.User, Channel: to.channel, Recipient: to.address, Purpose: r.Purpose,
			Digest: c.digest, Sealed: c.sealed, MaxChecks: int16(v.MaxChecks), Ttl: c.ttl,
		})
		if err != nil {
			return postgres.Wrap("store verification", err, nil)
		}
		replaced = row.FormerTaskIds
		started = Started{ID: c.id, ExpiresAt: row.ExpiresAt, ResendAfter: row.CreatedAt.Add(resendAfter(v))}
		started.TaskID, err = s.send(ctx, r, to, c, row.ExpiresAt, v, origin)
		return err
	})
	return started, replaced, err
}

// resendAfter returns how long the caps of a recipient refuse a second code.
func resendAfter(v setting.Verification) time.Duration {
	if v.PerMinute == 1 {
		return time.Minute
	}
	return 0
}

// send submits the message with a code, and returns its task. It uses the transaction of ctx.
func (s *Service) send(ctx context.Context, r Request, to recipient, c coded, expiresAt time.Time, v setting.Verification, origin submit.Origin) (string, error) {
	sub := submit.Submission{
		Channel: to.channel, PhoneNumber: to.address, MessageType: submit.Verification, ExpiresAt: &expiresAt, IsSensitive: true, Secret: c.code, Raw: r.Raw,
		Subjects: r.subjects(to, v),
	}
	if err := s.write(ctx, &sub, origin.CompanyID, r, to, c); err != nil {
		return "", err
	}
	made, err := s.Submissions.Submit(ctx, sub, origin)
	if err != nil {
		return "", err //nolint:wrapcheck // a fault, or already wrapped
	}
	err = s.q.VerificationSent(ctx, verificationq.VerificationSentParams{VerificationID: c.id, TaskID: made.TaskID})
	return made.TaskID, postgres.Wrap("store message of verification", err, nil)
}

// subjects returns the subjects whose codes are counted.
func (r Request) subjects(to recipient, v setting.Verification) []caps.Subject {
	all := []caps.Subject{{Name: fmt.Sprintf("code %q %q %q", to.channel, to.address, r.Purpose), Field: r.field(), Caps: v.Caps()}}
	if r.ClientIP != "" {
		all = append(all, caps.Subject{Name: "client_ip " + r.ClientIP, Field: "client_ip", Caps: v.ClientCaps()})
	}
	if r.Device != "" {
		all = append(all, caps.Subject{Name: "device " + r.Device, Field: "device", Caps: v.ClientCaps()})
	}
	return all
}

// takeBack cancels the messages of a verification that has ended, unless a sender has them. The caller has committed the end.
func (s *Service) takeBack(ctx context.Context, taskIDs []string) error {
	if len(taskIDs) == 0 {
		return nil
	}
	return s.Tasks.CancelUnsent(ctx, taskIDs, by)
}

// by is the user who cancels the messages of ended verifications.
const by = "system:verification"

// Resend sends the code of a pending verification again. The code and its expiry do not change. Faults: recipient.limited, verification.not_found and the faults
// of an ended verification.
func (s *Service) Resend(ctx context.Context, companyID int64, id string, r Request, origin submit.Origin) (started Started, err error) {
	values, err := s.Settings.Get(ctx)
	if err != nil {
		return started, err
	}
	err = s.db.Tx(ctx, func(ctx context.Context) error {
		row, err := s.q.VerificationHold(ctx, verificationq.VerificationHoldParams{VerificationID: id, CompanyID: companyID})
		if postgres.IsNoRows(err) {
			return s.ended(ctx, companyID, id)
		}
		if err != nil {
			return postgres.Wrap("lock verification", err, nil)
		}
		c := coded{id: id, ttl: row.ExpiresAt.Sub(row.At)}
		if c.code, err = s.Secrets.Decrypt(row.Sealed, ownerOf(id)); err != nil {
			return fmt.Errorf("decrypt code of verification %s: %w", id, err)
		}
		r.Purpose = row.Purpose
		started = Started{ID: id, ExpiresAt: row.ExpiresAt, ResendAfter: row.At.Add(resendAfter(values.Verification))}
		started.TaskID, err = s.send(ctx, r, recipient{row.Channel, row.Recipient}, c, row.ExpiresAt, values.Verification, origin)
		return err
	})
	return started, err
}
