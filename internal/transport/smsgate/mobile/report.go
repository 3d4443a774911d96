package mobile

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"lksms/gen/mobileq"
	"lksms/internal/dispatch/callback"
	"lksms/internal/dispatch/queue"
	"lksms/internal/dispatch/sender"
	"lksms/internal/dispatch/sensitive"
	"lksms/internal/platform/characters"
	"lksms/internal/platform/fault"
	"lksms/internal/platform/optional"
	"lksms/internal/platform/postgres"
	"lksms/internal/transport/smsgate"
)

const (
	maxError = 500 // maximum number of characters of a stored error
	maxCode  = 100 // maximum number of characters of an error that a receipt stores as its code

	// pause is the first pause of a phone that could not send: its circuit breaker opens. Each further failure doubles the pause, up to maxPause.
	pause    = 30 * time.Second
	maxPause = 10 * time.Minute
)

// State is a state that a phone reports for a message.
type State struct {
	ID    string // id of the message
	State string
	Error string // set for Failed, and for some Delivered
	Raw   []byte // JSON for the log
}

// Report accepts states of messages. Sent and Failed end a lease. Delivered is a receipt, and Failed after Sent is also a receipt. If the phone certainly
// sent no message, the lease is released without counting an attempt, and the circuit breaker of the phone's sender opens.
//
// The app repeats some states and loses others. So each state implies all earlier states, and a state that is already known changes nothing. A state of a
// message that the phone never leased is ignored: after an error, the app would repeat the state.
func (s *Service) Report(ctx context.Context, p Phone, states []State) error {
	known, err := s.known(ctx, p, states)
	if err != nil {
		return err
	}
	var reports []queue.Report
	var troubles []string // by index in reports: the problem of the phone; empty: no problem
	var unused, expired []queue.Unused
	var finals []queue.Final
	for _, state := range states {
		taskID, leaseID, _ := leaseOf(state.ID)
		lease := lease{taskID, leaseID}
		was, isKnown := known[lease]
		if !isKnown {
			continue
		}
		if was.isSensitive {
			if state, err = state.withoutTexts(); err != nil {
				return err
			}
		}
		means := judge(state, was)
		switch r := means.report; {
		case r != nil:
			r.TaskID, r.LeaseID, r.SenderNo, r.Raw, r.IsHidden = taskID, &leaseID, p.SenderNo, state.Raw, true
			reports, troubles = append(reports, *r), append(troubles, means.trouble)
			was.isSent, was.isFailed = was.isSent || r.Status == queue.Success, was.isFailed || r.Status == queue.Failed
		case means.trouble != "":
			unused = append(unused, queue.Unused{TaskID: taskID, LeaseID: leaseID, Tried: true, Reason: means.trouble})
			was.isFailed = true
		case means.expired != "":
			expired = append(expired, queue.Unused{TaskID: taskID, LeaseID: leaseID, Reason: means.expired})
		}
		known[lease] = was
		if f := means.final; f != nil {
			f.TaskID, f.LeaseID, f.SenderNo, f.IsHidden = taskID, &leaseID, p.SenderNo, true
			finals = append(finals, *f)
		}
	}
	effects, err := s.end(ctx, reports)
	if err != nil {
		return err
	}
	sent, failure := false, ""
	for i, r := range reports {
		sent = sent || effects[i] == effectSuccess
		if effects[i] != "" && effects[i] != effectIgnored {
			failure = cmp.Or(failure, troubles[i])
		}
		if effects[i] == effectSuccess {
			of := lease{r.TaskID, *r.LeaseID}
			was := known[of]
			was.isSettled = true
			known[of] = was
		}
	}
	if len(unused) > 0 { // the release of an expired lease has no effect
		n, err := s.Queue.Release(ctx, p.SenderNo, unused)
		if err != nil {
			return err
		}
		if n > 0 {
			failure = cmp.Or(failure, unused[0].Reason)
		}
	}
	if len(expired) > 0 {
		if _, err := s.Queue.Release(ctx, p.SenderNo, expired); err != nil {
			return err
		}
	}
	if failure != "" && !sent {
		if err := s.openBreaker(ctx, p, failure); err != nil {
			return err
		}
	}
	// If the task was leased to another sender meanwhile, an undelivered message of this phone is not the outcome of the task.
	return s.settle(ctx, slices.DeleteFunc(finals, func(f queue.Final) bool {
		return f.State == callback.Undelivered && !known[lease{f.TaskID, *f.LeaseID}].isSettled
	}))
}

// These are the effects of reports as queue names them.
const (
	effectSuccess = "success"
	effectIgnored = "ignored"
)

// openBreaker opens the circuit breaker of a phone that failed to send. The report of a sent message closes the breaker, as for any app.
func (s *Service) openBreaker(ctx context.Context, p Phone, failure string) error {
	state, err := s.breaker(ctx, p)
	switch {
	case errors.Is(err, errReplaced):
		return nil
	case err != nil || state.isOpen:
		return err
	}
	_, _, _, err = s.Senders.OpenBreaker(ctx, state.Breaker, sender.Opening{Reason: failure, First: pause, Longest: maxPause})
	return err
}

// breaker is the state of the circuit breaker of a phone's sender.
type breaker struct {
	sender.Breaker
	isOpen bool // the phone is paused
}

// breaker reads the circuit breaker of a phone's sender. It returns errReplaced if another phone has been registered.
func (s *Service) breaker(ctx context.Context, p Phone) (breaker, error) {
	row, err := s.q.PhoneBreaker(ctx, mobileq.PhoneBreakerParams{SenderID: p.senderID, DeviceNo: p.DeviceNo})
	if postgres.IsNoRows(err) {
		return breaker{}, errReplaced
	}
	return breaker{sender.Breaker{SenderNo: p.SenderNo, Version: row.Version, Openings: row.Openings}, row.IsOpen},
		postgres.Wrap("read circuit breaker of phone", err, nil)
}

// lease identifies a lease of a phone.
type lease struct {
	taskID  string
	leaseID int64
}

// reported contains what is already known about a lease.
type reported struct {
	isSent, isFailed bool
	isSettled        bool // the report Sent settled the task
	isLong           bool // the message has several parts: some parts can be sent although others failed
	isExpired        bool // the message is no longer valid for the phone, so the phone rejects it correctly
	isSensitive      bool // texts of the phone must not be stored
}

// known returns the leases that states name, without the leases that the phone never had.
func (s *Service) known(ctx context.Context, p Phone, states []State) (map[lease]reported, error) {
	params := mobileq.PhoneReportedParams{SenderNo: p.SenderNo, Margin: validMargin}
	for _, state := range states {
		if taskID, leaseID, ok := leaseOf(state.ID); ok && postgres.IsText(taskID) {
			params.TaskIds, params.LeaseIds = append(params.TaskIds, taskID), append(params.LeaseIds, leaseID)
		}
	}
	if len(params.TaskIds) == 0 {
		return nil, nil
	}
	rows, err := s.inParts.PhoneReported(ctx, params)
	if err != nil {
		return nil, fmt.Errorf("read leases of phone: %w", err)
	}
	all := make(map[lease]reported, len(rows))
	for _, row := range rows {
		all[lease{row.TaskID, row.LeaseID}] = reported{
			isSent: row.IsSent, isFailed: row.IsFailed, isSettled: row.IsSettled, isLong: row.IsLong, isExpired: row.IsExpired, isSensitive: row.IsSensitive,
		}
	}
	return all, nil
}

// meaning contains the effects of a reported state.
type meaning struct {
	report  *queue.Report // report that ends the lease; nil: no report
	trouble string        // the problem of the phone; empty: no problem. If report is nil, the phone certainly sent no message, and the lease is released
	expired string        // the error with which the phone rejected a message that is no longer valid; the lease is released
	final   *queue.Final  // receipt; nil: no receipt
}

func judge(state State, was reported) meaning {
	text := postgres.Text(state.Error)
	said, code := characters.First(text, maxError), characters.First(text, maxCode)
	switch state.State {
	case smsgate.Sent, smsgate.Delivered:
		var m meaning
		if !was.isSent {
			m.report = &queue.Report{Status: queue.Success}
		}
		if state.State == smsgate.Delivered {
			m.final = &queue.Final{State: callback.Delivered, Code: code}
		}
		return m
	case smsgate.Failed:
		undelivered := &queue.Final{State: callback.Undelivered, Code: code}
		switch {
		case was.isSent: // one part failed after another part was sent, or the network gave up
			return meaning{final: undelivered}
		case isOfNetwork(said): // the phone sent the message, and its report Sent was lost
			return meaning{report: &queue.Report{Status: queue.Success}, final: undelivered}
		case was.isFailed:
			return meaning{}
		case said == expired && was.isExpired:
			return meaning{expired: said}
		case isTrouble(said) && (!was.isLong || resultOf(said) == ""):
			return meaning{trouble: said}
		default: // includes a failed part of a long message: other parts were possibly sent
			m := meaning{report: &queue.Report{Status: queue.Failed, ErrorMessage: optional.NonZero(said), ShouldRetry: !isHopeless(said)}}
			if isTrouble(said) {
				m.trouble = said
			}
			return m
		}
	case smsgate.Cancelled: // the message was not sent
		if was.isSent || was.isFailed {
			return meaning{}
		}
		return meaning{trouble: "cancelled on the phone"}
	default:
		return meaning{}
	}
}

// knownError matches the beginning of an error of the app that contains nothing of the message: the errors that judge knows, and the results of the radio.
var knownError = regexp.MustCompile(
	`^(?:TTL expired|Can't send message:|Delivery result(?:: \d{1,3}$)?|Send result: RESULT_[A-Z_]+\b|sendSMS: Invalid (?:destinationAddress|message body)) ?`,
)

// withoutTexts hides the texts of the phone in a state of a sensitive message. The known beginning of the error remains.
func (s State) withoutTexts() (State, error) {
	known := knownError.FindString(s.Error)
	s.Error = known + sensitive.Hide(s.Error[len(known):])
	var err error
	s.Raw, err = json.Marshal(map[string]string{"id": s.ID, "state": s.State, "error": s.Error})
	return s, postgres.Wrap("hide texts in state", err, nil)
}

// isOfNetwork reports whether an error is a delivery report of the network, which means that the phone sent the message.
func isOfNetwork(said string) bool { return strings.HasPrefix(said, "Delivery result") }

// These are results of the radio, as the app names them.
var (
	// hopeless contains results that are caused by the message.
	hopeless = []string{
		"RESULT_ERROR_NULL_PDU", "RESULT_INVALID_ARGUMENTS", "RESULT_INVALID_SMS_FORMAT", "RESULT_ENCODING_ERROR",
		"RESULT_RIL_INVALID_ARGUMENTS", "RESULT_RIL_INVALID_SMS_FORMAT", "RESULT_RIL_ENCODING_ERR",
	}
	// troubles contains results that are caused by the phone, its SIM or its network. No part was sent.
	troubles = []string{
		"RESULT_ERROR_RADIO_OFF", "RESULT_ERROR_NO_SERVICE", "RESULT_ERROR_LIMIT_EXCEEDED", "RESULT_ERROR_FDN_CHECK_FAILURE", "RESULT_RADIO_NOT_AVAILABLE",
		"RESULT_NO_DEFAULT_SMS_APP", "RESULT_RIL_RADIO_NOT_AVAILABLE", "RESULT_RIL_REQUEST_RATE_LIMITED", "RESULT_RIL_NETWORK_NOT_READY", "RESULT_RIL_SIM_ABSENT",
	}
)

// expired is the error of a message that the phone rejected because its ValidUntil had passed. If it has not passed, the clock of the phone is fast.
const expired = "TTL expired"

// isTrouble reports whether an error proves that the phone sent no message.
func isTrouble(said string) bool {
	return said == expired || strings.HasPrefix(said, "Can't send message: ") || slices.Contains(troubles, resultOf(said))
}

// resultOf returns the result of the radio in an error. It returns an empty text if the error contains no result.
func resultOf(said string) string {
	result, is := strings.CutPrefix(said, "Send result: ")
	if !is {
		return ""
	}
	name, _, _ := strings.Cut(result, " ")
	return name
}

// isHopeless reports whether an error proves that the message can never be sent.
func isHopeless(said string) bool {
	return slices.Contains(hopeless, resultOf(said)) || strings.HasPrefix(said, "sendSMS: Invalid destinationAddress") || strings.HasPrefix(said, "sendSMS: Invalid message body")
}

// end reports leases and returns the effect of each report. A rejected report has an empty effect and is not repeated, because it would be rejected again.
func (s *Service) end(ctx context.Context, reports []queue.Report) ([]string, error) {
	if len(reports) == 0 {
		return nil, nil
	}
	outcomes, err := s.Queue.ReportAll(ctx, reports)
	if err != nil {
		return nil, err
	}
	effects := make([]string, len(reports))
	for i, o := range outcomes {
		if refused := new(fault.Error); o.Err != nil && !errors.As(o.Err, &refused) {
			err = errors.Join(err, o.Err)
		}
		if o.Err == nil {
			effects[i] = o.Effect
		}
	}
	return effects, err
}

// errLater is the fault for a receipt that cannot be stored now. The app reports the receipt again.
var errLater = &fault.Error{Kind: fault.Unavailable, Reason: fault.ServiceUnavailable, RetryAfter: 30 * time.Second}

// settle stores receipts. Fault: service.unavailable if a receipt cannot be stored now.
func (s *Service) settle(ctx context.Context, finals []queue.Final) error {
	if len(finals) == 0 {
		return nil
	}
	var left []bool
	err := s.db.Tx(ctx, func(ctx context.Context) (err error) {
		left, err = s.Queue.SettleReceipts(ctx, finals)
		return err
	})
	if err == nil && slices.Contains(left, true) {
		err = errLater
	}
	return err
}
