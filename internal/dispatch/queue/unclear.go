package queue

import (
	"context"

	"lksms/gen/queueq"
	"lksms/internal/platform/postgres"
)

// Unclear is an attempt whose outcome is unknown: the message was possibly sent.
type Unclear struct {
	TaskID    string
	LeaseID   int64
	Recipient string
	Error     string // why the outcome is unknown
	Answer    string // the provider's answer; empty: no answer
}

// RecordUnclear logs attempts of a sender whose outcomes are unclear. It ends no lease. If a task is not reported, its lease expires.
func (s *Service) RecordUnclear(ctx context.Context, senderNo string, all []Unclear) error {
	p := queueq.DeliveryUnclearParams{SenderNo: senderNo}
	for _, u := range all {
		p.TaskIds, p.LeaseIds, p.Recipients = append(p.TaskIds, u.TaskID), append(p.LeaseIds, u.LeaseID), append(p.Recipients, u.Recipient)
		p.Errors, p.Answers = append(p.Errors, u.Error), append(p.Answers, u.Answer)
	}
	return postgres.Wrap("store unclear deliveries", s.q.DeliveryUnclear(ctx, p), nil)
}
