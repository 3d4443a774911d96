package sqlinbox

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"lksms/internal/platform/postgres"
)

var waitDesc = prometheus.NewDesc("lksms_sql_inbox_oldest_seconds",
	"How long ago the first message in the inbox was submitted by SQL. 0: the inbox is empty.", nil, nil)

// waitCollector queries the database at each scrape.
type waitCollector struct{ service *Service }

func (c waitCollector) Describe(out chan<- *prometheus.Desc) { out <- waitDesc }

func (c waitCollector) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	seconds, err := c.service.q.SqlInboxWait(ctx)
	if err != nil && !postgres.IsNoRows(err) { // if the query fails, the gauge is missing from this scrape; the gauges of the connection pool show the cause
		return
	}
	out <- prometheus.MustNewConstMetric(waitDesc, prometheus.GaugeValue, seconds)
}
