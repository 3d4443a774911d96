// Package replyrule owns the rules about received messages: it finds the rule that matches a message, and performs its action, such as an automatic reply (R7).
package replyrule

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"lksms/gen/replyruleq"
	"lksms/internal/audience/contact"
	"lksms/internal/audience/conversation"
	"lksms/internal/dispatch/block"
	"lksms/internal/dispatch/directory"
	"lksms/internal/dispatch/queue/submit"
	"lksms/internal/dispatch/received"
	"lksms/internal/dispatch/template"
	"lksms/internal/platform/erase"
	"lksms/internal/platform/fault"
	"lksms/internal/platform/postgres"
	"lksms/internal/platform/servers"
	"lksms/internal/platform/sweep"
)

// These are the ways in which the words of a rule match a text.
const (
	Exact    = "exact"    // the whole text is a word
	Prefix   = "prefix"   // the text begins with a word
	Contains = "contains" // the text contains a word
	Regexp   = "regexp"   // the text matches a word, which is a regular expression
)

// These are the actions of rules.
const (
	Reply       = "reply"       // sends a text to the person
	Tag         = "tag"         // adds the contact of the number to a tag
	Untag       = "untag"       // removes the contacts of the number from a tag
	OptOut      = "opt_out"     // blocks marketing messages to the number, as if the person had asked for it with a usual word
	OptIn       = "opt_in"      // ends such a block
	Forward     = "forward"     // sends the message to other numbers, or to a webhook
	Acknowledge = "acknowledge" // marks the message as read
)

// By is the user who performs the actions of rules.
const By = "system:reply_rules"

const applyName = "apply-reply-rules"

// Service owns rules.
type Service struct {
	db   *postgres.DB
	q    *replyruleq.Queries
	uses Services
	log  *slog.Logger

	applied *prometheus.CounterVec // by outcome
	soon    soon
}

// Services contains the services that a Service uses.
type Services struct {
	Received      *received.Service
	Conversations *conversation.Service
	Submissions   *submit.Service
	Templates     *template.Service
	Contacts      *contact.Service
	Blocks        *block.Service
	Directory     *directory.Service

	// Forward makes a webhook post the event of a received message. It reports false if the event does not exist yet.
	Forward func(ctx context.Context, webhookID int64, m received.Row) (bool, error)
	// CheckForward returns a fault if Forward would refuse messages of a company.
	CheckForward func(ctx context.Context, webhookID, companyID int64) error
}

// New returns a Service. The caller must call Close afterwards.
func New(db *postgres.DB, uses Services, log *slog.Logger, reg prometheus.Registerer) *Service {
	applied := promauto.With(reg).NewCounterVec(prometheus.CounterOpts{
		Name: "lksms_rules_applied_total", Help: "Received messages that a rule matched, by outcome of the action.",
	}, []string{"outcome"})
	for _, outcome := range outcomes { // create each series now with the value 0, because Prometheus sees no increase in a series that starts with the first value
		applied.WithLabelValues(outcome)
	}
	s := &Service{db: db, q: replyruleq.New(db), uses: uses, log: log, applied: applied}
	s.soon.ctx, s.soon.end = context.WithCancel(context.Background())
	uses.Received.OnStored(s.applySoon)
	return s
}

// Sweeps returns the periodic jobs of the service.
func (s *Service) Sweeps() []sweep.Job {
	return []sweep.Job{
		{Roles: servers.Roles{servers.Sweep}, Name: applyName, Interval: 2 * time.Second, Routine: true, Run: s.Apply},
	}
}

// soon runs Apply after received messages were stored.
type soon struct {
	ctx context.Context //nolint:containedctx // the runs outlast the requests that cause them
	end context.CancelFunc

	mu        sync.Mutex
	isRunning bool
	isAgain   bool // messages were stored since the run in progress began
	running   sync.WaitGroup
}

// applySoon applies the rules to new messages in the background, if rules are to be applied to one of them. If that fails, the sweep applies them.
func (s *Service) applySoon(ctx context.Context, ids []int64) {
	if is, err := s.q.ReplyActionsPending(ctx, ids); err != nil || !is {
		return
	}
	s.soon.mu.Lock()
	defer s.soon.mu.Unlock()
	if s.soon.ctx.Err() != nil {
		return
	}
	s.soon.isAgain = true
	if s.soon.isRunning {
		return
	}
	s.soon.isRunning = true
	s.soon.running.Go(func() {
		for s.needsAnotherRun() {
			s.applyNow(s.soon.ctx)
		}
	})
}

// needsAnotherRun reports whether another run is needed.
func (s *Service) needsAnotherRun() bool {
	s.soon.mu.Lock()
	defer s.soon.mu.Unlock()
	s.soon.isRunning = s.soon.isAgain && s.soon.ctx.Err() == nil
	s.soon.isAgain = false
	return s.soon.isRunning
}

// applyNow runs Apply with the lock of the sweep, unless another server has the lock. That server or the sweep then applies the rules.
func (s *Service) applyNow(ctx context.Context) {
	lock, err := s.db.TryLock(ctx, applyName)
	if err != nil || lock == nil {
		return
	}
	locked, cancel := lock.While(ctx)
	if _, err := s.Apply(locked); err != nil && ctx.Err() == nil {
		s.log.Warn("rules on received messages are applied later", "error", err)
	}
	cancel()
	if err := lock.Unlock(ctx); err != nil {
		s.log.Debug("lock of rules not released", "error", err) // the lock ends with its connection
	}
}

// Wait waits until no run in the background is in progress.
func (s *Service) Wait() { s.soon.running.Wait() }

// Close ends the runs in the background, and waits for them.
func (s *Service) Close() {
	s.soon.mu.Lock()
	s.soon.end()
	s.soon.mu.Unlock()
	s.soon.running.Wait()
}

// Erase removes a person from the rules of a company, so that no rule forwards messages to the person. It also removes the person from the list of actions. It
// returns no counts.
func (s *Service) Erase(ctx context.Context, p *erase.Person) (erase.Counts, error) {
	if err := s.q.ErasureReplyActions(ctx, replyruleq.ErasureReplyActionsParams{CompanyID: p.CompanyID, Recipients: p.Recipients}); err != nil {
		return nil, postgres.Wrap("erase actions of rules", err, nil)
	}
	err := s.q.ErasureReplyActionsRefused(ctx, replyruleq.ErasureReplyActionsRefusedParams{CompanyID: p.CompanyID, Recipients: p.Recipients})
	if err != nil {
		return nil, postgres.Wrap("erase refused receivers of rules", err, nil)
	}
	err = s.q.ErasureReplyRules(ctx, replyruleq.ErasureReplyRulesParams{CompanyID: p.CompanyID, Recipients: p.Recipients})
	return nil, postgres.Wrap("remove numbers from rules", err, nil)
}

var errNone = fault.New(fault.NotFound, fault.ReplyRuleNotFound)
