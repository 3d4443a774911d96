package smppserver

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"

	"lksms/internal/dispatch/queue/submit"
	"lksms/internal/platform/fault"
	"lksms/internal/platform/postgres"
	"lksms/internal/platform/smpp"
	"lksms/internal/transport/httpapi/gate"
	"lksms/internal/transport/httpapi/gate/capacity"
)

// refusal is the error of a request that SMPP itself does not allow, or that this server does not support.
type refusal struct {
	status smpp.Status
	reason string
}

func (r *refusal) Error() string { return r.reason }

// fieldStatuses contains the statuses of invalid fields of a submission.
var fieldStatuses = map[string]smpp.Status{
	"phone_number": smpp.RInvDstAdr, "content": smpp.RInvMsgLen, "expect_send_time": smpp.RInvSched, "expires_at": smpp.RInvExpiry, "priority": smpp.RInvPrtFlg,
}

// statusOf returns the status of an error. Programs send a message again after ESME_RTHROTTLED and ESME_RMSGQFUL, and treat other errors as final.
func statusOf(err error) smpp.Status {
	if err == nil {
		return smpp.OK
	}
	var own *refusal
	if errors.As(err, &own) {
		return own.status
	}
	var f *fault.Error
	if !errors.As(err, &f) {
		return smpp.RMsgQFul // the cause is in the server: the message is not at fault
	}
	switch {
	case f.Reason == fault.RequestTooMuch:
		return smpp.RThrottled
	case f.Kind == fault.Unavailable, f.Kind == fault.Internal, f.Reason == fault.AuthTooManyFailures:
		return smpp.RMsgQFul
	case f.Kind == fault.Unauthorized, f.Kind == fault.Forbidden && f.Reason == fault.AuthForbidden:
		return smpp.RInvBndSts
	}
	for _, field := range f.Fields {
		if status, has := fieldStatuses[field.Name]; has {
			return status
		}
	}
	return smpp.RSubmitFail
}

// refuse answers a request with an error. Rejections are delayed as over HTTP. Refused messages are stored, so that people find the reason.
func (c *call) refuse(ctx context.Context, err error, raws ...[]byte) *smpp.PDU {
	status := statusOf(err)
	switch status {
	case smpp.RThrottled, smpp.RInvBndSts:
	case smpp.RMsgQFul:
		if known := (*fault.Error)(nil); !errors.As(err, &known) {
			c.s.options.Log.ErrorContext(ctx, "an SMPP request failed", "request_id", c.origin.RequestID, "error", err)
		}
	default:
		c.storeRefused(ctx, err, raws)
		c.s.options.Pace.Delay(ctx, capacity.OfCompany(strconv.FormatInt(c.origin.CompanyID, 10)), capacity.PaceWait)
	}
	return c.request.Response(status, nil)
}

// storeRefused stores refused messages with the reason, as for messages over HTTP.
func (c *call) storeRefused(ctx context.Context, err error, raws [][]byte) {
	httpStatus, reason := gate.StatusOf(fault.Invalid), err.Error()
	var f *fault.Error
	var own *refusal
	switch {
	case errors.As(err, &f) && gate.IsRefusal(f):
		httpStatus, reason = gate.StatusOf(f.Kind), string(f.Reason)
	case !errors.As(err, &own): // the text of another error is only for the log of the server
		return
	}
	answer, broken := json.Marshal(map[string]string{"message": reason, "command_status": statusOf(err).String()})
	if broken != nil || len(raws) == 0 {
		return
	}
	refused := make([]submit.Refused, len(raws))
	for i, raw := range raws {
		refused[i] = submit.Refused{Raw: raw, Status: httpStatus, Answer: answer}
	}
	if err := c.s.services.Submissions.LogRefused(ctx, c.origin, refused...); err != nil {
		c.s.options.Log.ErrorContext(ctx, "refused SMPP messages were not stored", "request_id", c.origin.RequestID, "error", postgres.Wrap("store refused", err, nil))
	}
}
