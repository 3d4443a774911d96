package queue

import (
	"context"

	"lksms/gen/queueq"
	"lksms/internal/platform/postgres"
)

// Unclear is an attempt of which nobody knows whether it sent its message.
type Unclear struct {
	TaskID    string
	LeaseID   int64
	Recipient string
	Error     string // why it is not known
	Answer    string // of the provider; empty: none came
}

// RecordUnclear records attempts of a sender whose outcomes are unclear. It ends no lease: each expires, unless its task is reported.
func (s *Service) RecordUnclear(ctx context.Context, senderNo string, all []Unclear) error {
	p := queueq.DeliveryUnclearParams{SenderNo: senderNo}
	for _, u := range all {
		p.TaskIds, p.LeaseIds, p.Recipients = append(p.TaskIds, u.TaskID), append(p.LeaseIds, u.LeaseID), append(p.Recipients, u.Recipient)
		p.Errors, p.Answers = append(p.Errors, u.Error), append(p.Answers, u.Answer)
	}
	return postgres.Wrap("store unclear deliveries", s.q.DeliveryUnclear(ctx, p), nil)
}
