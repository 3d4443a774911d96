package verification

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"lksms/internal/platform/fault"
)

// metrics are the Prometheus metrics of verifications. Each server counts what it has committed itself, so the total is the sum over all servers.
type metrics struct {
	started        prometheus.Counter
	ended, refused *prometheus.CounterVec
	approval       prometheus.Histogram
}

func newMetrics(reg prometheus.Registerer) metrics {
	with := promauto.With(reg)
	m := metrics{
		started: with.NewCounter(prometheus.CounterOpts{Name: "lksms_verifications_started_total", Help: "Verifications that were started."}),
		ended: with.NewCounterVec(prometheus.CounterOpts{
			Name: "lksms_verifications_ended_total", Help: "Verifications that ended, by outcome: approved, expired, exhausted, cancelled.",
		}, []string{"outcome"}),
		refused: with.NewCounterVec(prometheus.CounterOpts{
			Name: "lksms_verifications_refused_total", Help: "Requests for a code, or for the same code again, that were refused, by reason.",
		}, []string{"reason"}),
		approval: with.NewHistogram(prometheus.HistogramOpts{
			Name: "lksms_verification_approval_seconds", Help: "Time of approved verifications from their start to the check of the right code.",
			Buckets: []float64{2.5, 5, 10, 15, 20, 30, 45, 60, 90, 120, 180, 300, 600, 1800, 3600},
		}),
	}
	for _, outcome := range []string{Approved, Expired, Exhausted, Cancelled} { // each series exists from the start, so that rate() includes its first end
		m.ended.WithLabelValues(outcome)
	}
	for _, reason := range []fault.Reason{fault.RecipientLimited, fault.RecipientBlocked, fault.RecipientCountryClosed, fault.RecipientSuspected} {
		m.refused.WithLabelValues(string(reason))
	}
	return m
}

// countRefused counts a fault by its reason. It ignores other errors.
func (m metrics) countRefused(err error) {
	var refusal *fault.Error
	if errors.As(err, &refusal) {
		m.refused.WithLabelValues(string(refusal.Reason)).Inc()
	}
}
