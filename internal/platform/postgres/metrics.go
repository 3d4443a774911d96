package postgres

import (
	"math"

	"github.com/prometheus/client_golang/prometheus"
)

var (
	poolDesc = prometheus.NewDesc("lksms_pool_connections", "Connections to the database.", []string{"state"}, nil)
	waitDesc = prometheus.NewDesc("lksms_pool_wait_seconds_total", "Time that requests waited for a connection.", nil, nil)
	lagDesc  = prometheus.NewDesc("lksms_replica_lag_seconds", "How old the state of a replica may be. +Inf: it is not used.", []string{"replica"}, nil)
	readDesc = prometheus.NewDesc("lksms_stale_reads_total", "Reads that may be stale, by the server that answered.", []string{"server"}, nil)
)

// PoolCollector exports the state of the main pool and of the replicas.
type PoolCollector struct{ DB *DB }

// Describe implements prometheus.Collector.
func (c PoolCollector) Describe(out chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{poolDesc, waitDesc, lagDesc, readDesc} {
		out <- desc
	}
}

// Collect implements prometheus.Collector.
func (c PoolCollector) Collect(out chan<- prometheus.Metric) {
	stat := c.DB.pool.Stat()
	for state, n := range map[string]int32{"in_use": stat.AcquiredConns(), "idle": stat.IdleConns(), "max": stat.MaxConns()} {
		out <- prometheus.MustNewConstMetric(poolDesc, prometheus.GaugeValue, float64(n), state)
	}
	out <- prometheus.MustNewConstMetric(waitDesc, prometheus.CounterValue, stat.EmptyAcquireWaitTime().Seconds())
	if c.DB.replicas == nil {
		return
	}
	out <- prometheus.MustNewConstMetric(readDesc, prometheus.CounterValue, float64(c.DB.replicas.primary.Load()), "primary")
	for _, s := range c.DB.replicas.standbys {
		lag := math.Inf(1)
		if known := s.lag(); known < math.MaxInt64 {
			lag = known.Seconds()
		}
		out <- prometheus.MustNewConstMetric(lagDesc, prometheus.GaugeValue, lag, s.name)
		out <- prometheus.MustNewConstMetric(readDesc, prometheus.CounterValue, float64(s.reads.Load()), s.name)
	}
}
