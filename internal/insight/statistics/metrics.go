package statistics

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"lksms/internal/dispatch/fact"
)

// Metrics contains the Prometheus metrics of tasks. Each server counts only the facts that it has folded itself, so the total is the sum over all servers.
type Metrics struct {
	waits, durations *prometheus.HistogramVec
	finished         *prometheus.CounterVec
}

// buckets contains the bounds of both histograms in seconds. They begin at 10 ms for verification codes, include the alert thresholds of waits, and end at a
// week.
var buckets = []float64{.01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 21_600, 86_400, 604_800}

// NewMetrics returns metrics that are registered with reg. The series of channel exist from the start, so that rate() includes their first task.
func NewMetrics(reg prometheus.Registerer, channel string) *Metrics {
	metrics := promauto.With(reg)
	m := &Metrics{
		waits: metrics.NewHistogramVec(prometheus.HistogramOpts{
			Name: "lksms_task_wait_seconds", Buckets: buckets,
			Help: "Time of tasks from when they first could be claimed to their first claim. Times are exact to 5 %.",
		}, []string{"channel", "message_type"}),
		durations: metrics.NewHistogramVec(prometheus.HistogramOpts{
			Name: "lksms_task_delivery_seconds", Buckets: buckets,
			Help: "Time of tasks that ended as success or failed, from when they first could be claimed to their end. Times are exact to 5 %.",
		}, []string{"channel", "message_type"}),
		finished: metrics.NewCounterVec(prometheus.CounterOpts{
			Name: "lksms_tasks_finished_total", Help: "Tasks that ended, by outcome: success, failed, cancelled.",
		}, []string{"channel", "message_type", "outcome"}),
	}
	for _, name := range messageTypes {
		m.waits.WithLabelValues(channel, name)
		m.durations.WithLabelValues(channel, name)
		for _, outcome := range []string{"success", "failed", "cancelled"} {
			m.finished.WithLabelValues(channel, name, outcome)
		}
	}
	return m
}

// messageTypes contains the names of the message types in the contract.
var messageTypes = [...]string{"verification", "notification", "marketing"}

// Observe is the history.Observer that updates the metrics. It skips tests, and facts whose channel or message type is unknown.
func (m *Metrics) Observe(facts []fact.Sum) {
	for _, f := range facts {
		code, err := strconv.Atoi(f.MessageType)
		if f.IsTest || err != nil || code < 0 || code >= len(messageTypes) || f.Channel == "" {
			continue
		}
		name := messageTypes[code]
		for outcome, n := range map[string]int64{"success": f.Success, "failed": f.Failed, "cancelled": f.Cancelled} {
			if n > 0 { // a requeue of ended tasks makes n negative
				m.finished.WithLabelValues(f.Channel, name, outcome).Add(float64(n))
			}
		}
		observe(m.waits.WithLabelValues(f.Channel, name), f.Waits)
		observe(m.durations.WithLabelValues(f.Channel, name), f.Durations)
	}
}

// observe adds times to histogram. Each byte is the bucket of one time.
func observe(histogram prometheus.Observer, times []byte) {
	for _, bucket := range times {
		histogram.Observe(seconds[bucket])
	}
}

// seconds contains, for each bucket, the time that is recorded for all its times: the middle of the bucket.
var seconds = func() (times [256]float64) {
	times[0] = Bound(0)
	for n := 1; n < len(times); n++ {
		times[n] = (Bound(byte(n-1)) + Bound(byte(n))) / 2
	}
	return times
}()
