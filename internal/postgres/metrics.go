package postgres

import "github.com/prometheus/client_golang/prometheus"

var (
	poolDesc = prometheus.NewDesc("lksms_pool_connections", "Connections to the database.", []string{"state"}, nil)
	waitDesc = prometheus.NewDesc("lksms_pool_wait_seconds_total", "Time that requests waited for a connection.", nil, nil)
)

// PoolCollector exports the state of the main pool.
type PoolCollector struct{ DB *DB }

// Describe implements prometheus.Collector.
func (c PoolCollector) Describe(out chan<- *prometheus.Desc) { out <- poolDesc; out <- waitDesc }

// Collect implements prometheus.Collector.
func (c PoolCollector) Collect(out chan<- prometheus.Metric) {
	stat := c.DB.pool.Stat()
	for state, n := range map[string]int32{"in_use": stat.AcquiredConns(), "idle": stat.IdleConns(), "max": stat.MaxConns()} {
		out <- prometheus.MustNewConstMetric(poolDesc, prometheus.GaugeValue, float64(n), state)
	}
	out <- prometheus.MustNewConstMetric(waitDesc, prometheus.CounterValue, stat.EmptyAcquireWaitTime().Seconds())
}
