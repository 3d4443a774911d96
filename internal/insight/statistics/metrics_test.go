package statistics_test

import (
	"bytes"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"lksms/internal/dispatch/fact"
	"lksms/internal/insight/statistics"
)

// gather returns the metrics of a registry. The key of a metric is its name with its label values: name{value,value}.
func gather(t *testing.T, reg *prometheus.Registry) map[string]*dto.Metric {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]*dto.Metric{}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			name := family.GetName()
			for _, label := range m.GetLabel() {
				name += "," + label.GetValue()
			}
			all[name] = m
		}
	}
	return all
}

func TestStatisticsCountTasksAndMeasureTheirTimes(t *testing.T) {
	reg := prometheus.NewRegistry()
	tasks := statistics.NewMetrics(reg, "sms")
	if got := gather(t, reg)["lksms_tasks_finished_total,sms,marketing,failed"]; got == nil || got.GetCounter().GetValue() != 0 {
		t.Errorf("before the first task: %v", got)
	}
	// Bucket 133 contains times up to 320.2 s, bucket 72 times up to 0.956 s, and bucket 0 times up to 1 ms.
	tasks.Observe([]fact.Sum{
		{Channel: "email", MessageType: "1", Waits: bytes.Repeat([]byte{72}, 5)},
		{Channel: "email", MessageType: "1", Success: 4, Durations: []byte{133, 0}},
		{Channel: "email", MessageType: "1", Failed: 2, Waits: []byte{255}},
		{Channel: "email", MessageType: "1", Cancelled: 1},
		{Channel: "email", MessageType: "1", Failed: -1}, // a requeue of a failed task
		{Channel: "email", MessageType: "", Success: 1},
		{Channel: "email", MessageType: "1", IsTest: true, Success: 1, Waits: []byte{1}},
		{Channel: "email", MessageType: "3", Success: 1},
		{Channel: "", MessageType: "1", Success: 1},
	})
	got := gather(t, reg)
	for name, want := range map[string]float64{"success": 4, "failed": 2, "cancelled": 1} {
		if n := got["lksms_tasks_finished_total,email,notification,"+name].GetCounter().GetValue(); n != want {
			t.Errorf("%s: %v, want %v", name, n, want)
		}
	}
	waits := got["lksms_task_wait_seconds,email,notification"].GetHistogram()
	if waits.GetSampleCount() != 6 || upTo(waits, 1) != 5 || upTo(waits, 0.5) != 0 {
		t.Errorf("waits: %v", waits)
	}
	durations := got["lksms_task_delivery_seconds,email,notification"].GetHistogram()
	if durations.GetSampleCount() != 2 || upTo(durations, 0.01) != 1 || durations.GetSampleSum() < 291 || durations.GetSampleSum() > 321 {
		t.Errorf("durations: %v", durations)
	}
}

// upTo returns the number of times in a histogram that are at most bound.
func upTo(h *dto.Histogram, bound float64) uint64 {
	for _, b := range h.GetBucket() {
		if b.GetUpperBound() == bound {
			return b.GetCumulativeCount()
		}
	}
	return 0
}
