package provider

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"

	"lksms/internal/platform/outbound"
	"lksms/internal/platform/tracing"
)

// Failed returns the outcome of a call without a complete answer. If no connection was made, the message was certainly not sent.
func Failed(ctx context.Context, err error) Outcome {
	switch {
	case errors.Is(err, outbound.ErrUnclear):
		return Outcome{Unknown: true, Outage: true, Code: "no_answer", Error: Plain(err)}
	case errors.Is(err, outbound.ErrRefused):
		return Outcome{Trouble: true, Code: "address_denied", Error: Plain(err)}
	case ctx.Err() != nil:
		return Untried
	default:
		return Outcome{Trouble: true, Code: "unreachable", Error: Plain(err)}
	}
}

// Plain describes why a call received no answer. The text omits the URL, because a URL can contain a secret.
func Plain(err error) string {
	var timeout interface{ Timeout() bool }
	var name *net.DNSError
	var certificate *tls.CertificateVerificationError
	switch {
	case errors.Is(err, outbound.ErrRefused):
		return "the address of the provider is not allowed"
	case errors.Is(err, outbound.ErrTooLarge):
		return "the provider's answer is too large"
	case errors.As(err, &name):
		return "the name of the provider's host could not be resolved"
	case errors.As(err, &certificate):
		return "the provider's certificate is not trusted"
	case errors.As(err, &timeout) && timeout.Timeout():
		return "the provider did not answer in time"
	case errors.Is(err, outbound.ErrUnclear):
		return "the provider's answer is incomplete"
	default:
		return "the provider could not be reached"
	}
}

// traceHeader is the header with the trace of a submission, which a provider can continue. The configuration of a sender can set another value.
const traceHeader = "Traceparent"

// Call sends a request. If no complete answer was received, o is the outcome, which contains the received part of the answer. If the status is 300 or greater,
// o is nil, even if the body is incomplete.
func Call(client *http.Client, req *http.Request) (status int, body []byte, o *Outcome) {
	if traceparent := tracing.Header(req.Context()); traceparent != "" && req.Header.Get(traceHeader) == "" {
		req.Header.Set(traceHeader, traceparent)
	}
	status, body, err := outbound.Do(client, req)
	if err != nil && (status == 0 || status < 300) {
		o := Failed(req.Context(), err)
		if status != 0 {
			o.Answer = httpAnswer(status, body)
		}
		return status, nil, &o
	}
	return status, body, nil
}

// Post sends body as JSON to a URL. It returns the results of Call.
func Post(ctx context.Context, client *http.Client, address string, header http.Header, body []byte) (status int, answer []byte, o *Outcome) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(body))
	if err != nil {
		o := Failed(ctx, err)
		return 0, nil, &o
	}
	for name, values := range header {
		req.Header[name] = values
	}
	req.Header.Set("Content-Type", "application/json")
	return Call(client, req)
}
