package push

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"lksms/gen/pushq"
	"lksms/internal/dispatch/directory"
	"lksms/internal/dispatch/driver"
	"lksms/internal/dispatch/driver/provider"
	"lksms/internal/dispatch/queue"
	"lksms/internal/dispatch/queue/claim"
	"lksms/internal/dispatch/queue/submit"
	"lksms/internal/dispatch/sender"
	"lksms/internal/platform/fault"
	"lksms/internal/platform/postgres"
	"lksms/internal/platform/result"
)

const (
	trialCall  = 35 * time.Second       // time limit of the test call; shorter than the limit of the API operation
	trialLease = trialCall + maxBackoff // long enough to report the outcome before the lease ends
)

// Trial is the outcome of a test of a sender.
type Trial struct {
	TaskID  string
	Request *provider.Request // last request to the provider; nil: no request was made
	Outcome provider.Outcome
	Took    time.Duration
}

// TrialMessage is the message of a test.
type TrialMessage struct {
	PhoneNumber string
	Content     string
	Sign        string // empty: the signature of the sender
}

// Test sends one message through one driven sender and returns the request and the outcome. The sender can be off, or its circuit breaker can be open. The
// message is a task that counts as a test and is tried only once. Faults: sender.not_found, sender.not_testable, the faults of submit.Submit, and the faults of
// an unusable configuration.
func (p *Pusher) Test(ctx context.Context, senderNo string, m TrialMessage, origin submit.Origin) (Trial, error) {
	row, err := p.q.SenderTested(ctx, senderNo)
	if err != nil {
		return Trial{}, postgres.Wrap("read sender", err, fault.New(fault.NotFound, fault.SenderNotFound))
	}
	if row.Kind == sender.KindApp || row.Channel != directory.SMS {
		return Trial{}, fault.New(fault.Conflict, fault.SenderNotTestable)
	}
	var asked trialRequest
	made, err := p.trialDriver(row, &asked)
	if err != nil {
		return Trial{}, err
	}
	recipient, err := p.directory.NormaliseNumber(ctx, &origin.CompanyID, "phone_number", &m.PhoneNumber)
	if err != nil {
		return Trial{}, err
	}
	raw, err := json.Marshal(map[string]string{"phone_number": m.PhoneNumber, "content": m.Content, "sign": m.Sign, "sender_no": senderNo})
	if err != nil {
		return Trial{}, fmt.Errorf("write submission: %w", err)
	}
	var lease claim.Lease
	var message provider.Message // the same as without a test
	err = p.db.Tx(ctx, func(ctx context.Context) error {
		task, err := p.submissions.SubmitTrial(ctx, submit.Submission{
			PhoneNumber: m.PhoneNumber, Content: m.Content, MessageType: submit.Notification, Sign: m.Sign, Raw: raw,
		}, origin)
		if err != nil {
			return err //nolint:wrapcheck // the error is already wrapped
		}
		if lease, err = p.queue.ClaimTrial(ctx, senderNo, task.TaskID, trialLease); err != nil {
			return err //nolint:wrapcheck // the error is already wrapped
		}
		readAt := time.Now()
		found, err := p.q.TaskOutgoing(ctx, pushq.TaskOutgoingParams{SenderNo: senderNo, TaskIds: []string{task.TaskID}})
		if err != nil {
			return fmt.Errorf("read outgoing task: %w", err)
		}
		message = messageOf(lease, found[0], readAt) // this transaction inserted the task
		return nil
	})
	if err != nil {
		return Trial{}, err //nolint:wrapcheck // the error is already wrapped
	}
	started := time.Now()
	o := p.try(context.WithoutCancel(ctx), made, message) // the outcome is stored even if the caller disconnects
	trial := Trial{TaskID: lease.TaskID, Request: asked.last(), Outcome: o, Took: time.Since(started)}
	return trial, p.reportTrial(context.WithoutCancel(ctx), senderNo, lease, *recipient, o)
}

// trialDriver creates the driver of a sender. A fault names the error in the configuration.
func (p *Pusher) trialDriver(row pushq.SenderTestedRow, asked *trialRequest) (driver.Driver, error) {
	opened, err := p.configs.Open(row.Kind, row.SenderNo, row.Config)
	if err != nil {
		return nil, fmt.Errorf("open configuration: %w", err)
	}
	return driver.New(row.Kind, opened.Driver, provider.Tools{
		Outbound: p.out, Log: p.log.With("sender_no", row.SenderNo), Began: p.began(row.Kind, row.SenderNo), Asked: asked.set, Secrets: []string{opened.Secret},
	})
}

// try sends the message of a test. If the time limit cancels the call before the call reaches the provider, the outcome is Trouble.
func (p *Pusher) try(ctx context.Context, made driver.Driver, m provider.Message) provider.Outcome {
	ctx, cancel := context.WithTimeout(ctx, trialCall)
	defer cancel()
	o := provider.Outcome{Trouble: true, Code: "unreachable", Error: "the provider could not be reached in time"}
	made.Send(ctx, []provider.Message{m}, func(_ int, got provider.Outcome) { o = got })
	o.ProviderNo, o.Code, o.Error, o.Answer = postgres.Text(o.ProviderNo), postgres.Text(o.Code), postgres.Text(o.Error), postgres.Text(o.Answer)
	return o
}

// reportTrial reports the outcome of a test. It never opens or closes the circuit breaker.
func (p *Pusher) reportTrial(ctx context.Context, senderNo string, lease claim.Lease, recipient string, o provider.Outcome) error {
	ctx, cancel := context.WithTimeout(ctx, maxBackoff)
	defer cancel()
	var last latest
	last.add(lease.TaskID, o)
	p.keep(ctx, senderNo, last)
	if o.Unknown {
		unclear := []queue.Unclear{{TaskID: lease.TaskID, LeaseID: lease.LeaseID, Recipient: recipient, Error: o.Error, Answer: o.Answer}}
		if err := p.queue.RecordUnclear(ctx, senderNo, unclear); err != nil {
			return err
		}
		o.Error = result.UnclearFrom + o.Error
	}
	o.Permanent = !o.OK // a test is tried only once
	reports := []queue.Report{(&setup{row: pushq.SendersDrivenRow{SenderNo: senderNo}}).reportOf(lease, o)}
	outcomes, err := p.queue.ReportAll(ctx, reports)
	if err == nil {
		err = outcomes[0].Err
	}
	if err != nil {
		return fmt.Errorf("report test: %w", err)
	}
	p.receipts.MatchSent(ctx, senderNo, reports)
	return nil
}

// trialRequest stores the last request of a test.
type trialRequest struct {
	mu  sync.Mutex
	all *provider.Request
}

func (r *trialRequest) set(one provider.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	one.Body = postgres.Text(one.Body)
	r.all = &one
}

func (r *trialRequest) last() *provider.Request {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.all
}
