package smsgate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"lksms/gen/dbq"
	"lksms/internal/fault"
	"lksms/internal/optional"
	"lksms/internal/postgres"
	"lksms/internal/queue"
	"lksms/internal/receipt/callback"
)

// The states of a message in a phone.
const (
	Pending    = "Pending" // the phone has not tried to send it
	Cancelling = "Cancelling"
	Cancelled  = "Cancelled"
	Processed  = "Processed" // handed to the radio, which has not answered
	Sent       = "Sent"
	Delivered  = "Delivered"
	Failed     = "Failed"
)

// States are all states of a message in a phone.
var States = []string{Pending, Cancelling, Cancelled, Processed, Sent, Delivered, Failed}

const (
	errorMost = 500 // characters of an error that are stored
	codeMost  = 100 // characters of an error that a receipt has as its code
)

// State is what a phone says of a message.
type State struct {
	ID    string // of the message
	State string
	Error string // of Failed, and of some Delivered
	Raw   []byte // as JSON, for the log
}

// Report takes states of messages: Sent and Failed end leases, and Delivered, or a Failed after Sent, is a receipt. The app repeats states, and some
// get lost: each state says all that came before it, and what is known already changes nothing. A state of a message that the phone never held
// changes nothing either, because the app would only repeat it.
func (s *Service) Report(ctx context.Context, p Phone, states []State) error {
	known, err := s.known(ctx, p, states)
	if err != nil {
		return err
	}
	var reports []queue.Report
	var finals []queue.Final
	for _, state := range states {
		taskID, leaseID, _ := leaseOf(state.ID)
		lease := lease{taskID, leaseID}
		was, isKnown := known[lease]
		if !isKnown {
			continue
		}
		report, final := judge(state, was)
		if report != nil {
			report.TaskID, report.LeaseID, report.SenderNo, report.Raw = taskID, &leaseID, p.SenderNo, state.Raw
			reports = append(reports, *report)
			was.isSent, was.isFailed = was.isSent || report.Status == queue.Success, was.isFailed || report.Status == queue.Failed
			known[lease] = was
		}
		if final != nil {
			final.TaskID, final.LeaseID, final.SenderNo = taskID, &leaseID, p.SenderNo
			finals = append(finals, *final)
		}
	}
	if err := s.end(ctx, reports); err != nil {
		return err
	}
	return s.settle(ctx, finals)
}

// lease is a lease that a phone names.
type lease struct {
	taskID  string
	leaseID int64
}

// reported is what a phone has said of a lease before.
type reported struct{ isSent, isFailed bool }

// known returns the leases of states that the phone has or had.
func (s *Service) known(ctx context.Context, p Phone, states []State) (map[lease]reported, error) {
	params := dbq.PhoneReportedParams{SenderNo: p.SenderNo}
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
		all[lease{row.TaskID, row.LeaseID}] = reported{isSent: row.IsSent, isFailed: row.IsFailed}
	}
	return all, nil
}

// judge returns what a state adds to what the phone said before: the report that ends the lease, and a receipt.
func judge(state State, was reported) (*queue.Report, *queue.Final) {
	said := shortened(state.Error, errorMost)
	switch state.State {
	case Sent, Delivered:
		var report *queue.Report
		var final *queue.Final
		if !was.isSent {
			report = &queue.Report{Status: queue.Success}
		}
		if state.State == Delivered {
			final = &queue.Final{State: callback.Delivered, Code: shortened(state.Error, codeMost)}
		}
		return report, final
	case Failed:
		undelivered := &queue.Final{State: callback.Undelivered, Code: shortened(state.Error, codeMost)}
		switch {
		case was.isSent: // a part of it was sent, and another was not, or the network gave it up
			return nil, undelivered
		case isOfNetwork(said): // the phone had sent it, and that report was lost
			return &queue.Report{Status: queue.Success}, undelivered
		case was.isFailed:
			return nil, nil
		}
		return failure(said), nil
	case Cancelled: // it was not sent
		if was.isSent || was.isFailed {
			return nil, nil
		}
		return failure("cancelled on the phone"), nil
	default:
		return nil, nil
	}
}

// expired is the error of a message that the phone refused, because its time was over.
const expired = "TTL expired"

// failure is the report of a message that was not sent. It is tried again, unless no phone could send it.
func failure(said string) *queue.Report {
	r := &queue.Report{Status: queue.Failed, ErrorMessage: optional.NonZero(said), ShouldRetry: !isHopeless(said)}
	if said == expired {
		r.RetryAfter = new(time.Duration) // the message is as good as before
	}
	return r
}

// isOfNetwork reports whether an error is a delivery report of the network: the phone did send the message.
func isOfNetwork(said string) bool { return strings.HasPrefix(said, "Delivery result") }

// hopeless are the results of the radio that are about the message, and not about the phone, its SIM or the network, as the app names them.
var hopeless = []string{
	"RESULT_ERROR_NULL_PDU", "RESULT_INVALID_ARGUMENTS", "RESULT_INVALID_SMS_FORMAT", "RESULT_ENCODING_ERROR",
	"RESULT_RIL_INVALID_ARGUMENTS", "RESULT_RIL_INVALID_SMS_FORMAT", "RESULT_RIL_ENCODING_ERR",
}

// isHopeless reports whether an error says for certain that the message cannot be sent.
func isHopeless(said string) bool {
	if result, is := strings.CutPrefix(said, "Send result: "); is {
		name, _, _ := strings.Cut(result, " ")
		return slices.Contains(hopeless, name)
	}
	return strings.HasPrefix(said, "sendSMS: Invalid destinationAddress") || strings.HasPrefix(said, "sendSMS: Invalid message body")
}

// end ends leases. A report that the queue refuses would be refused again: it is over.
func (s *Service) end(ctx context.Context, reports []queue.Report) error {
	if len(reports) == 0 {
		return nil
	}
	outcomes, err := s.Queue.ReportAll(ctx, reports)
	if err != nil {
		return err
	}
	for _, o := range outcomes {
		if refused := new(fault.Error); o.Err != nil && !errors.As(o.Err, &refused) {
			err = errors.Join(err, o.Err)
		}
	}
	return err
}

// errLater is the fault for a receipt that cannot be stored now: the app tells it again.
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
