package queue

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"

	"lksms/internal/dispatch/queue/claim"
	"lksms/internal/platform/optional"
)

// traceClaim records one span for a claim that returned tasks. For each task whose submission had a traceparent, it also records one span in the trace of the
// task.
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

// traceReport records a span for a report. If the report ended a lease and the submission of the task had a traceparent, the span belongs to the trace
// of the task.
func (s *Service) traceReport(ctx context.Context, r Report, e ended, started time.Time) {
	if s.tracer.IsOn() && e.err == nil {
		s.tracer.Record(ctx, optional.Value(e.traceparent), "report", started, attribute.String("lksms.sender_no", r.SenderNo),
			attribute.String("lksms.task_id", r.TaskID), attribute.String("lksms.effect", e.effect))
	}
}
