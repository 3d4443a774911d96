// Package sqlinbox owns submission by SQL: the PostgreSQL roles that can submit messages with the functions of the schema lksms, and the inbox in which these
// functions store messages. Its sweep converts messages in the inbox to tasks, with package queue.
package sqlinbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"lksms/gen/sqlinboxq"
	"lksms/internal/dispatch/queue"
	"lksms/internal/dispatch/queue/submit"
	"lksms/internal/platform/optional"
	"lksms/internal/platform/postgres"
	"lksms/internal/platform/result"
	"lksms/internal/platform/servers"
	"lksms/internal/platform/sweep"
)

const (
	// maxPortion is the maximum number of messages of a company that one transaction converts. The transaction locks the ranks of the company, and other
	// submissions of the company wait for this transaction.
	maxPortion = 100

	// maxTries is the maximum number of failed conversions of a message while other messages succeed. Then the message becomes a FAILED task. This takes
	// about half an hour.
	maxTries = 9
)

// Service converts messages that were submitted by SQL to tasks.
type Service struct {
	db          *postgres.DB
	q           *sqlinboxq.Queries
	submissions *submit.Service
	log         *slog.Logger

	taken *prometheus.CounterVec
}

// These are the outcomes of a message, used as labels of the metric.
const (
	becameTask = "task"
	wasRepeat  = "repeat"
	hasFailed  = "failed"
)

// New returns a Service on db and registers its metrics with reg.
func New(db *postgres.DB, submissions *submit.Service, log *slog.Logger, reg prometheus.Registerer) *Service {
	s := &Service{db: db, q: sqlinboxq.New(db), submissions: submissions, log: log, taken: promauto.With(reg).NewCounterVec(prometheus.CounterOpts{
		Name: "lksms_sql_messages_total", Help: "Messages that were submitted by SQL, by outcome.",
	}, []string{"outcome"})}
	for _, outcome := range []string{becameTask, wasRepeat, hasFailed} {
		s.taken.WithLabelValues(outcome)
	}
	reg.MustRegister(waitCollector{s})
	return s
}

// Sweeps returns the periodic jobs of the service.
func (s *Service) Sweeps() []sweep.Job {
	return []sweep.Job{
		{Roles: servers.Roles{servers.Sweep}, Name: "submit-sql-inbox", Interval: 250 * time.Millisecond, Routine: true, Run: s.Take},
	}
}

// Take converts the messages in the inbox to tasks, one portion of each company in turn. It returns the number of messages that it removed from the inbox.
// A message that cannot be stored stays in the inbox for a later run. Several servers can run Take at the same time.
func (s *Service) Take(ctx context.Context) (int, error) {
	taken, failures := 0, map[int64]error{} // first failure of each company; the next run continues with these companies
	for isOver := false; !isOver && ctx.Err() == nil; {
		companies, err := s.q.SqlInboxCompanies(ctx) // queried in each round, so that a company with few messages waits for one round at most
		if err != nil {
			return taken, fmt.Errorf("find companies: %w", err)
		}
		isOver = true
		for _, company := range companies {
			if failures[company] != nil {
				continue
			}
			n, err := s.takePortion(ctx, company)
			if taken += n; err != nil {
				failures[company] = fmt.Errorf("company %d: %w", company, err)
			}
			isOver = isOver && n < maxPortion
		}
	}
	return taken, errors.Join(slices.Collect(maps.Values(failures))...)
}

// takePortion converts the next messages of a company to tasks and removes them from the inbox. It uses one transaction, so that each message becomes exactly
// one task even after a crash.
func (s *Service) takePortion(ctx context.Context, companyID int64) (taken int, err error) {
	outcomes := map[string]int{}
	err = s.db.Tx(ctx, func(ctx context.Context) error {
		rows, err := s.q.SqlInboxTake(ctx, sqlinboxq.SqlInboxTakeParams{CompanyID: companyID, Portion: maxPortion})
		if err != nil || len(rows) == 0 {
			return err
		}
		var firsts []sqlinboxq.SqlInbox
		var accepted []submit.Accepted
		repeats := map[submit.Origin][]submit.Submission{}
		var done, failed []int64
		for _, row := range rows {
			one, err := acceptedOf(row)
			if err != nil {
				s.log.ErrorContext(ctx, "a message that was submitted by SQL cannot be read", "task_id", row.TaskID, "error", err)
				failed = append(failed, row.ID)
				continue
			}
			if row.IsRepeat {
				repeats[one.Origin] = append(repeats[one.Origin], one.Submission)
				done = append(done, row.ID)
				continue
			}
			one.MayWait = row.Tries == 0
			firsts, accepted = append(firsts, row), append(accepted, one)
		}
		made, err := s.submissions.SubmitAccepted(ctx, accepted)
		if err != nil {
			return fmt.Errorf("submit: %w", err)
		}
		isAnyMade := slices.ContainsFunc(made, func(o submit.Outcome) bool { return o.Err == nil })
		for i, o := range made {
			// A message is rejected permanently only if it fails while other messages succeed. If all messages fail, the cause is not in the messages.
			if o.Err != nil && firsts[i].Tries >= maxTries && isAnyMade {
				s.log.ErrorContext(ctx, "a message that was submitted by SQL could not become a task", "task_id", firsts[i].TaskID, "error", o.Err)
				o.Submitted, o.Err = submit.Submitted{Status: queue.Failed}, s.submissions.RefuseAccepted(ctx, accepted[i], result.NotSendable)
			}
			if o.Err != nil {
				s.log.WarnContext(ctx, "a message that was submitted by SQL waits for another try", "task_id", firsts[i].TaskID, "error", o.Err)
				failed = append(failed, firsts[i].ID)
				continue
			}
			done = append(done, firsts[i].ID)
			outcomes[outcomeOf(o.Submitted)]++
		}
		s.logRepeats(ctx, repeats)
		outcomes[wasRepeat] += len(rows) - len(firsts)
		if len(failed) > 0 {
			if err := s.q.SqlInboxPostpone(ctx, failed); err != nil {
				return fmt.Errorf("postpone: %w", err)
			}
		}
		taken = len(rows)
		return postgres.Wrap("take out of the inbox", s.q.SqlInboxDelete(ctx, done), nil)
	})
	if err != nil {
		return 0, err
	}
	for outcome, n := range outcomes {
		s.taken.WithLabelValues(outcome).Add(float64(n))
	}
	return taken, nil
}

// outcomeOf returns the metric label of a result.
func outcomeOf(made submit.Submitted) string {
	switch {
	case made.Deduplicated:
		return wasRepeat
	case made.Status == queue.Failed:
		return hasFailed
	default:
		return becameTask
	}
}

// logRepeats logs repeated messages after the first messages were stored. The submitters already have their results, so an error of logRepeats must not
// delay other messages.
func (s *Service) logRepeats(ctx context.Context, repeats map[submit.Origin][]submit.Submission) {
	for origin, subs := range repeats {
		err := s.db.Tx(ctx, func(ctx context.Context) error { return s.submissions.LogRepeated(ctx, subs, origin) })
		if err != nil {
			s.log.WarnContext(ctx, "repeated messages of SQL were not logged", "messages", len(subs), "error", err)
		}
	}
}

// acceptedOf returns the submission of a row. The SQL function has already checked the submission. So the priority is valid even if the user is no longer
// allowed to use it.
func acceptedOf(row sqlinboxq.SqlInbox) (submit.Accepted, error) {
	said := map[string]any{"phone_number": row.PhoneNumber}
	for name, value := range map[string]*string{
		"content": row.Content, "template_no": row.TemplateNo, "language": row.Language, "source": row.Source, "dedup_key": row.DedupKey, "sign": row.Sign,
	} {
		if value != nil {
			said[name] = *value
		}
	}
	if row.Params != nil {
		said["params"] = json.RawMessage(row.Params)
	}
	if row.Priority != nil {
		said["priority"] = *row.Priority
	}
	said["message_type"] = []string{"verification", "notification", "marketing"}[row.MessageType]
	for name, value := range map[string]*time.Time{"expect_send_time": row.ExpectSendTime, "expires_at": row.ExpiresAt} {
		if value != nil {
			said[name] = *value
		}
	}
	if row.IsTest {
		said["test"] = true
	}
	raw, err := json.Marshal(said)
	if err != nil {
		return submit.Accepted{}, fmt.Errorf("write submission: %w", err)
	}
	return submit.Accepted{
		TaskID: row.TaskID,
		Submission: submit.Submission{
			PhoneNumber: row.PhoneNumber, Content: optional.Value(row.Content), TemplateNo: optional.Value(row.TemplateNo), Params: row.Params,
			Language: optional.Value(row.Language), Source: row.Source, DedupKey: row.DedupKey, Raw: raw, MessageType: row.MessageType, Priority: row.Priority,
			ExpectSendTime: row.ExpectSendTime, ExpiresAt: row.ExpiresAt, Sign: optional.Value(row.Sign), Test: row.IsTest,
		},
		Origin: submit.Origin{
			User: row.SubmittedBy, CompanyID: row.CompanyID, RequestID: row.RequestID, SourceIP: optional.Value(row.SourceIp),
			UserAgent: "SQL, role " + row.RoleName,
		},
	}, nil
}
