package sender

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"lksms/gen/senderq"
	"lksms/internal/platform/postgres"
)

// maxNamed is the maximum number of senders in the metrics, so that apps that register themselves cannot fill the memory of the monitoring system.
const maxNamed = 1000

// namedHelp is appended to the help text of each metric of single senders.
const namedHelp = " At most 1000 senders are named: first those that are on, then those that an admin added, then those seen last."

var (
	countDesc = prometheus.NewDesc("lksms_senders", "All senders that are not retired, by state: ready, not_ready, off.", []string{"state"}, nil)
	readyDesc = prometheus.NewDesc("lksms_sender_ready", "1 if the sender can be given tasks, now or after its interval: it is on and in its hours, its circuit breaker is closed, "+
		"it has quota and balance, and an app has polled lately."+namedHelp, []string{"sender"}, nil)
	balanceDesc = prometheus.NewDesc("lksms_sender_balance", "Segments that the sender has left. Missing for a sender without a balance."+namedHelp, []string{"sender"}, nil)
	seenDesc    = prometheus.NewDesc("lksms_sender_last_seen_seconds", "Seconds since the last stored poll, claim or report of the sender. Missing if it was never seen. "+
		"Polls of an idle app without routes are stored every 10 minutes."+namedHelp, []string{"sender"}, nil)
	usedDesc = prometheus.NewDesc("lksms_sender_limit_used_ratio", "Used part of a limit in the current minute, hour, day or month of the sender's time zone: "+
		"1 is all of it. Missing for a window without a limit."+namedHelp, []string{"sender", "window"}, nil)
)

// Register registers with reg gauges of the senders, which are read at each scrape.
func (s *Service) Register(reg prometheus.Registerer) { reg.MustRegister(gaugeCollector{s}) }

// gaugeCollector queries the database at each scrape.
type gaugeCollector struct{ senders *Service }

func (c gaugeCollector) Describe(out chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{countDesc, readyDesc, balanceDesc, seenDesc, usedDesc} {
		out <- desc
	}
}

func (c gaugeCollector) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	rows, err := c.senders.gauges(ctx)
	if err != nil { // these gauges are omitted from this scrape; the gauges of the connection pool show why
		return
	}
	gauge := func(desc *prometheus.Desc, value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, labels...)
	}
	var all senderq.SenderGaugesRow // totals of all senders, which every row contains
	for _, row := range rows {
		all = row
		ready := 0.0
		if row.IsReady {
			ready = 1
		}
		gauge(readyDesc, ready, row.SenderNo)
		if row.Balance != nil {
			gauge(balanceDesc, float64(*row.Balance), row.SenderNo)
		}
		if row.WasSeen {
			gauge(seenDesc, row.SeenSeconds, row.SenderNo)
		}
		for window, limit := range map[string]struct {
			max  *int64
			used int64
		}{
			"minute": {row.PerMinute, row.MinuteUsed}, "hour": {row.PerHour, row.HourUsed},
			"day": {row.PerDay, row.DayUsed}, "month": {row.PerMonth, row.MonthUsed},
		} {
			if limit.max != nil {
				gauge(usedDesc, usedRatio(limit.used, *limit.max), row.SenderNo, window)
			}
		}
	}
	gauge(countDesc, float64(all.AllReady), "ready")
	gauge(countDesc, float64(all.AllNotReady), "not_ready")
	gauge(countDesc, float64(all.AllOff), "off")
}

// usedRatio returns the used fraction of a limit. A limit of 0 is always used up.
func usedRatio(used, limit int64) float64 {
	if limit == 0 {
		return 1
	}
	return float64(used) / float64(limit)
}

func (s *Service) gauges(ctx context.Context) ([]senderq.SenderGaugesRow, error) {
	values, err := s.settings.Get(ctx)
	if err != nil {
		return nil, err
	}
	rows, err := s.q.SenderGauges(ctx, senderq.SenderGaugesParams{SilentAfter: values.Queue.SilentAfter(), RecordedApart: SeenApart, PageLimit: maxNamed})
	return rows, postgres.Wrap("read gauges of senders", err, nil)
}
