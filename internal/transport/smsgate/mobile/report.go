package mobile

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"lksms/gen/mobileq"
	"lksms/internal/dispatch/callback"
	"lksms/internal/dispatch/queue"
	"lksms/internal/platform/fault"
	"lksms/internal/platform/optional"
	"lksms/internal/platform/postgres"
	"lksms/internal/transport/smsgate"
)

const (
	maxError = 500 // characters of an error that are stored
	maxCode  = 100 // characters of an error that a receipt has as its code

	// A phone that could not send pauses for pause. The pause doubles each time until it sends, up to maxPause.
	pause    = 30 * time.Second
	maxPause = 10 * time.Minute
)

// State is what a phone says of a message.
type State struct {
	ID    string // of the message
	State string
	Error string // of Failed, and of some Delivered
	Raw   []byte // as JSON, for the log
}

// Report takes states of messages: Sent and Failed end leases, and Delivered, or a Failed after Sent, is a receipt. A message that the phone could
// not send whatever it was is given back, which costs the message no attempt, and pauses the phone. The app repeats states, and some get lost:
// each state says all that came before it, and what is known already changes nothing. A state of a message that the phone never held changes nothing
// either, because the app would only repeat it.
func (s *Service) Report(ctx context.Context, p Phone, states []State) error {
	known, err := s.known(ctx, p, states)
	if err != nil {
		return err
	}
	var reports []queue.Report
	var troubled []bool // of reports: the phone was in trouble
	var unused, expired []queue.Unused
	var finals []queue.Final
	for _, state := range states {
		taskID, leaseID, _ := leaseOf(state.ID)
		lease := lease{taskID, leaseID}
		was, isKnown := known[lease]
		if !isKnown {
			continue
		}
		means := judge(state, was)
		switch r := means.report; {
		case r != nil:
			r.TaskID, r.LeaseID, r.SenderNo, r.Raw = taskID, &leaseID, p.SenderNo, state.Raw
			reports, troubled = append(reports, *r), append(troubled, means.trouble)
			was.isSent, was.isFailed = was.isSent || r.Status == queue.Success, was.isFailed || r.Status == queue.Failed
		case means.trouble:
			unused = append(unused, queue.Unused{TaskID: taskID, LeaseID: leaseID, Tried: true, Reason: means.reason})
			was.isFailed = true
		case means.expired:
			expired = append(expired, queue.Unused{TaskID: taskID, LeaseID: leaseID, Reason: means.reason})
		}
		known[lease] = was
		if f := means.final; f != nil {
			f.TaskID, f.LeaseID, f.SenderNo = taskID, &leaseID, p.SenderNo
			finals = append(finals, *f)
		}
	}
	effects, err := s.end(ctx, reports)
	if err != nil {
		return err
	}
	sent, failed := false, false
	for i, r := range reports {
		sent = sent || effects[i] == effectSuccess
		failed = failed || troubled[i] && effects[i] != "" && effects[i] != effectIgnored
		if effects[i] == effectSuccess {
			of := lease{r.TaskID, *r.LeaseID}
			was := known[of]
			was.isSettled = true
			known[of] = was
		}
	}
	if len(unused) > 0 { // those whose leases have ended wait again already, or will
		n, err := s.Queue.Release(ctx, p.SenderNo, unused)
		if err != nil {
			return err
		}
		failed = failed || n > 0
	}
	if len(expired) > 0 {
		if _, err := s.Queue.Release(ctx, p.SenderNo, expired); err != nil {
			return err
		}
	}
	if err := s.pause(ctx, p, sent, failed); err != nil {
		return err
	}
	// If the task was given to another sender meanwhile, the end of this message says nothing about it.
	return s.settle(ctx, slices.DeleteFunc(finals, func(f queue.Final) bool {
		return f.State == callback.Undelivered && !known[lease{f.TaskID, *f.LeaseID}].isSettled
	}))
}

// The effects of reports, as queue names them.
const (
	effectSuccess = "success"
	effectIgnored = "ignored"
)

// pause pauses a phone that failed to send, and ends the pause of one that sent.
func (s *Service) pause(ctx context.Context, p Phone, sent, failed bool) error {
	if sent {
		if err := s.q.PhonePauseEnd(ctx, mobileq.PhonePauseEndParams{SenderID: p.senderID, DeviceNo: p.DeviceNo}); err != nil {
			return fmt.Errorf("end pause of phone: %w", err)
		}
	}
	if failed && !sent {
		params := mobileq.PhonePauseParams{SenderID: p.senderID, DeviceNo: p.DeviceNo, Pause: pause, MaxPause: maxPause}
		if err := s.q.PhonePause(ctx, params); err != nil {
			return fmt.Errorf("pause phone: %w", err)
		}
	}
	return nil
}

// lease is a lease that a phone names.
type lease struct {
	taskID  string
	leaseID int64
}

// reported is what a phone has said of a lease before.
type reported struct {
	isSent, isFailed bool
	isSettled        bool // Sent settled the task
	isLong           bool // the message has several parts, of which some may be sent and others not
	isExpired        bool // the message has expired, so that the phone was right to refuse it
}

// known returns the leases of states that the phone has or had.
func (s *Service) known(ctx context.Context, p Phone, states []State) (map[lease]reported, error) {
	params := mobileq.PhoneReportedParams{SenderNo: p.SenderNo}
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
		all[lease{row.TaskID, row.LeaseID}] = reported{isSent: row.IsSent, isFailed: row.IsFailed, isSettled: row.IsSettled, isLong: row.IsLong, isExpired: row.IsExpired}
	}
	return all, nil
}

// meaning is what a state adds to what the phone said before.
type meaning struct {
	report  *queue.Report // ends the lease
	trouble bool          // the phone could not send whatever the message was; without a report, the lease is given back
	expired bool          // the phone refused the message because it had expired; the lease is given back
	reason  string        // of the trouble
	final   *queue.Final  // a receipt; nil: none
}

func judge(state State, was reported) meaning {
	said, code := shortened(state.Error, maxError), shortened(state.Error, maxCode)
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
		case was.isSent: // a part of it was sent, and another was not, or the network gave it up
			return meaning{final: undelivered}
		case isOfNetwork(said): // the phone had sent it, and that report was lost
			return meaning{report: &queue.Report{Status: queue.Success}, final: undelivered}
		case was.isFailed:
			return meaning{}
		case said == expired && was.isExpired:
			return meaning{expired: true, reason: said}
		case isTrouble(said) && (!was.isLong || resultOf(said) == ""):
			return meaning{trouble: true, reason: said}
		default: // also a part of a message: others may have been sent
			return meaning{
				report:  &queue.Report{Status: queue.Failed, ErrorMessage: optional.NonZero(said), ShouldRetry: !isHopeless(said)},
				trouble: isTrouble(said),
			}
		}
	case smsgate.Cancelled: // it was not sent
		if was.isSent || was.isFailed {
			return meaning{}
		}
		return meaning{trouble: true, reason: "cancelled on the phone"}
	default:
		return meaning{}
	}
}

// isOfNetwork reports whether an error is a delivery report of the network: the phone did send the message.
func isOfNetwork(said string) bool { return strings.HasPrefix(said, "Delivery result") }

// The results of the radio, as the app names them.
var (
	// hopeless are about the message.
	hopeless = []string{
		"RESULT_ERROR_NULL_PDU", "RESULT_INVALID_ARGUMENTS", "RESULT_INVALID_SMS_FORMAT", "RESULT_ENCODING_ERROR",
		"RESULT_RIL_INVALID_ARGUMENTS", "RESULT_RIL_INVALID_SMS_FORMAT", "RESULT_RIL_ENCODING_ERR",
	}
	// troubles are about the phone, its SIM or its network, and nothing went out.
	troubles = []string{
		"RESULT_ERROR_RADIO_OFF", "RESULT_ERROR_NO_SERVICE", "RESULT_ERROR_LIMIT_EXCEEDED", "RESULT_ERROR_FDN_CHECK_FAILURE", "RESULT_RADIO_NOT_AVAILABLE",
		"RESULT_NO_DEFAULT_SMS_APP", "RESULT_RIL_RADIO_NOT_AVAILABLE", "RESULT_RIL_REQUEST_RATE_LIMITED", "RESULT_RIL_NETWORK_NOT_READY", "RESULT_RIL_SIM_ABSENT",
	}
)

// expired is the error of a message that the phone refused, because its time was over. If the lease still lives and the message has not expired, the phone's
// clock is ahead.
const expired = "TTL expired"

// isTrouble reports whether an error says for certain that the phone could not send any message.
func isTrouble(said string) bool {
	return said == expired || strings.HasPrefix(said, "Can't send message: ") || slices.Contains(troubles, resultOf(said))
}

// resultOf returns the result of the radio that an error names; empty: none.
func resultOf(said string) string {
	result, is := strings.CutPrefix(said, "Send result: ")
	if !is {
		return ""
	}
	name, _, _ := strings.Cut(result, " ")
	return name
}

// isHopeless reports whether an error says for certain that the message cannot be sent.
func isHopeless(said string) bool {
	return slices.Contains(hopeless, resultOf(said)) || strings.HasPrefix(said, "sendSMS: Invalid destinationAddress") || strings.HasPrefix(said, "sendSMS: Invalid message body")
}

// end ends leases, and returns the effect of each report. A report that the queue refuses would be refused again: it is over.
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

// errLater is the fault for a receipt that cannot be stored now: the app reports it again.
var errLater = &fault.Error{Kind: fault.Unavailable, Reason: fault.ServiceUnavailable, RetryAfter: 30 * time.Second}

// settle stores receipts.
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
