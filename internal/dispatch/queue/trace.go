package queue

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"

	"lksms/internal/dispatch/queue/claim"
	"lksms/internal/platform/optional"
)

// traceClaim makes a span of a claim that took tasks, and one in the trace of each task whose submission had a traceparent.
func (s *Service) traceClaim(ctx context.Context, senderNo string, started time.Time, leases []claim.Lease) {
	if !s.tracer.IsOn() || len(leases) == 0 {
		return
	}
	by := attribute.String("lksms.sender_no", senderNo)
	s.tracer.Record(ctx, "", "claim", started, by, attribute.Int("lksms.tasks", len(leases)))
	for _, l := range leases {
		if l.Traceparent != nil {
			s.tracer.Record(ctx, *l.Traceparent, "claim of task", started, by,
				attribute.String("lksms.task_id", l.TaskID), attribute.Int("lksms.attempt", int(l.Attempt)))
		}
	}
}

// traceReport makes a span of a report: in the trace of its task, if the report ended a lease of a task whose submission had a traceparent.
func (s *Service) traceReport(ctx context.Context, r Report, e ended, started time.Time) {
	if s.tracer.IsOn() && e.err == nil {
		s.tracer.Record(ctx, optional.Value(e.traceparent), "report", started, attribute.String("lksms.sender_no", r.SenderNo),
			attribute.String("lksms.task_id", r.TaskID), attribute.String("lksms.effect", e.effect))
	}
}
