package statistics

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"lksms/internal/dispatch/fact"
)

// Metrics are the metrics of tasks. A server counts what it folded itself, so that the sum over all servers is what happened.
type Metrics struct {
	waits, durations *prometheus.HistogramVec
	finished         *prometheus.CounterVec
}

// buckets are the bounds of both histograms in seconds: from verification codes that go out at once to the levels at which waiting is an alert,
// and to a week.
var buckets = []float64{.01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 21_600, 86_400, 604_800}

// NewMetrics returns metrics that are registered with reg. The series of channel exist from the start, so that a rate sees their first task.
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

// messageTypes are the names of the message types in the contract.
var messageTypes = [...]string{"verification", "notification", "marketing"}

// Observe is the history.Observer of the metrics. It leaves out tests, and facts whose channel or message type is not known.
func (m *Metrics) Observe(facts []fact.Sum) {
	for _, f := range facts {
		code, err := strconv.Atoi(f.MessageType)
		if f.IsTest || err != nil || code < 0 || code >= len(messageTypes) || f.Channel == "" {
			continue
		}
		name := messageTypes[code]
		for outcome, n := range map[string]int64{"success": f.Success, "failed": f.Failed, "cancelled": f.Cancelled} {
			if n > 0 { // less than 0: tasks that had ended were requeued
				m.finished.WithLabelValues(f.Channel, name, outcome).Add(float64(n))
			}
		}
		observe(m.waits.WithLabelValues(f.Channel, name), f.Waits)
		observe(m.durations.WithLabelValues(f.Channel, name), f.Durations)
	}
}

// observe adds times, each given by its bucket of statistics.
func observe(histogram prometheus.Observer, times []byte) {
	for _, bucket := range times {
		histogram.Observe(seconds[bucket])
	}
}

// seconds has the time that stands for all times of a bucket of statistics: the middle between its bounds.
var seconds = func() (times [256]float64) {
	times[0] = Bound(0)
	for n := 1; n < len(times); n++ {
		times[n] = (Bound(byte(n-1)) + Bound(byte(n))) / 2
	}
	return times
}()
