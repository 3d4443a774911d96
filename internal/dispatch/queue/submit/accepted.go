package submit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"lksms/gen/queueq"
	"lksms/internal/dispatch/directory"
	"lksms/internal/dispatch/queue"
	"lksms/internal/dispatch/segment"
	"lksms/internal/platform/characters"
	"lksms/internal/platform/fault"
	"lksms/internal/platform/logtext"
	"lksms/internal/platform/optional"
	"lksms/internal/platform/postgres"
	"lksms/internal/platform/result"
)

// Accepted is a submission that the SQL inbox has accepted. Its submitter already knows the id of the task, so a refusal would not reach the submitter. The
// submission has either a text or a TemplateNo.
type Accepted struct {
	TaskID     string
	Submission Submission
	Origin     Origin

	// MayWait is true if the caller submits a refused submission again later. The settings, countries and routes in the memory of this server can be older
	// than the submission (package snapshot), so the first refusal can be wrong.
	MayWait bool
}

// SubmitAccepted stores submissions of one company, in the transaction of its caller. Each submission becomes the task with its TaskID. If its dedup key is
// already used, the submission is logged as a repeat instead. A refused submission becomes a FAILED task with the reason, unless MayWait is true. An outcome
// with an error means that nothing of this submission was stored: the submission waits, or the database rejected it. A returned error comes from the database
// and means that no submission was stored.
func (s *Service) SubmitAccepted(ctx context.Context, all []Accepted) ([]Outcome, error) {
	if len(all) == 0 {
		return nil, nil
	}
	subs := make([]Submission, len(all))
	for i, one := range all {
		subs[i] = one.Submission
		subs[i].TaskID, subs[i].wasAccepted = one.TaskID, true
	}
	outcomes, err := s.submitAll(ctx, subs, all[0].Origin.CompanyID, func(i int) Origin { return all[i].Origin })
	if err != nil {
		return nil, err
	}
	for i := range outcomes {
		o := &outcomes[i]
		var refused *fault.Error
		switch {
		case errors.Is(o.Err, errDropped): // an earlier task had the dedup key and was dropped with its partition: this submission is a repeat
			*o = Outcome{Submitted: Submitted{Deduplicated: true}}
		case errors.As(o.Err, &refused) && !all[i].MayWait:
			o.Submitted, o.Err = Submitted{TaskID: all[i].TaskID, Status: queue.Failed}, s.RefuseAccepted(ctx, all[i], refusedResult(refused))
		}
	}
	return outcomes, nil
}

// refusedResult returns the result of a task for the fault of its submission.
func refusedResult(refused *fault.Error) string {
	if refused.Reason == fault.TemplateNotActive || len(refused.Fields) == 0 {
		return result.NoSMSText
	}
	switch field := refused.Fields[0]; {
	case field.Rule == fault.IsBlocked:
		return result.Blocked
	case field.Rule == fault.IsLimited:
		return result.Limited
	case field.Rule == fault.CountryNotServed:
		return result.NotServed
	case field.Name == "company_no":
		return result.NoCompany
	case field.Name == "phone_number":
		return result.NotANumber
	case field.Name == "sign":
		return result.NoSignature
	case field.Name == "expires_at":
		return result.Expired
	case field.Name == "template_no":
		return result.NoSMSText
	case strings.HasPrefix(field.Name, "params"):
		return result.WrongParams
	case field.Rule == fault.RenderedBlank || field.Rule == fault.Blank:
		return result.TextBlank
	case field.Name == "content":
		return result.TextTooLong
	default:
		return result.NotSendable
	}
}

// RefuseAccepted stores the task of a submission that cannot be sent. The task is FAILED, with a result of package result. RefuseAccepted runs in the
// transaction of ctx.
func (s *Service) RefuseAccepted(ctx context.Context, one Accepted, why string) error {
	sub, origin := one.Submission, one.Origin
	values, err := s.settings.Get(ctx)
	if err != nil {
		return err
	}
	recipient := sub.PhoneNumber // a text that is not a phone number is stored unchanged
	number, err := s.readAddress(ctx, sub, origin)
	var wrong *fault.Error
	switch {
	case err == nil:
		recipient, sub.PhoneNumber = number.E164, number.Written
	case !errors.As(err, &wrong):
		return err
	}
	pool, country, err := s.poolOfRefused(ctx, one, recipient)
	if err != nil {
		return err
	}
	text, isParams := sub.logged()
	text = characters.First(cmp.Or(strings.TrimSpace(text), sub.TemplateNo, "-"), maxContent) // every task must have a text
	priority := values.SMS.PriorityOf(sub.MessageType)
	if sub.Priority != nil {
		priority = *sub.Priority
	}
	err = s.db.Tx(ctx, func(ctx context.Context) error {
		return s.q.TaskRefuse(ctx, queueq.TaskRefuseParams{
			TaskID: one.TaskID, CompanyID: origin.CompanyID, SubmittedBy: origin.User, DedupKey: optional.Value(sub.DedupKey), PhoneNumber: sub.PhoneNumber,
			Recipient: recipient, Content: text, Source: optional.Value(sub.Source), PoolID: pool, MessageType: sub.MessageType, CountryNo: country,
			Priority: priority, Segments: int16(min(maxSegments, segment.Count(segment.Signed(sub.Sign, text)))), Sign: sub.Sign, IsTest: sub.Test,
			ExpectSendTime: sub.ExpectSendTime, ExpiresAt: sub.ExpiresAt, RequestID: origin.RequestID, UseTemplate: isParams, SourceIp: origin.SourceIP,
			UserAgent: logtext.Text(origin.UserAgent), RequestData: sub.Raw, Result: why,
		})
	})
	if err != nil {
		return fmt.Errorf("store refused task: %w", err)
	}
	return nil
}

const (
	maxContent  = 1024 // maximum number of characters of a text in the database
	maxSegments = 100  // maximum number of segments of a text in the database
)

// poolOfRefused returns the pool in which the statistics count a refused message, and its country. If the phone number is invalid, the pool is that of any
// country. If the company was deleted, the pool is the shared pool.
func (s *Service) poolOfRefused(ctx context.Context, one Accepted, recipient string) (pool int64, countryNo string, err error) {
	if strings.HasPrefix(recipient, "+") {
		found, err := s.directory.FindPool(ctx, time.Now(), directory.SMS, one.Origin.CompanyID, one.Submission.MessageType, recipient, true)
		if found.ID != 0 {
			return found.ID, found.CountryNo, nil
		}
		if postgres.IsUnavailable(err) {
			return 0, "", err
		}
	}
	pool, err = s.directory.PoolOf(ctx, directory.SMS, one.Origin.CompanyID, one.Submission.MessageType, "")
	if err != nil {
		return 0, "", fmt.Errorf("find pool: %w", err)
	}
	return pool, "", nil
}

// LogRepeated logs submissions of one user that repeat the dedup key of an earlier submission. A submission is not logged if the earlier task does not exist.
func (s *Service) LogRepeated(ctx context.Context, subs []Submission, origin Origin) error {
	_, err := s.allRepeated(ctx, subs, origin)
	return err
}
