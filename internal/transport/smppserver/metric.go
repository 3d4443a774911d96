package smppserver

import (
	"github.com/prometheus/client_golang/prometheus"

	"lksms/internal/platform/smpp"
)

// metrics contains the metrics of a Server.
type metrics struct {
	requests   *prometheus.CounterVec // by command and status of the answer
	deliveries *prometheus.CounterVec // by kind and outcome
}

// These are the values of the labels kind and outcome.
const (
	receiptKind = "receipt"
	messageKind = "message"

	wasAccepted = "accepted"
	wasRefused  = "refused"
	isRepeated  = "repeated" // will be sent again
)

func newMetrics(reg prometheus.Registerer, s *Server) metrics {
	m := metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "lksms_smpp_requests_total", Help: "SMPP requests of programs by command and status of the answer.",
		}, []string{"command", "status"}),
		deliveries: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "lksms_smpp_deliveries_total", Help: "Receipts and messages sent to programs over SMPP, by kind and outcome.",
		}, []string{"kind", "outcome"}),
	}
	binds := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "lksms_smpp_binds", Help: "SMPP binds of programs.",
	}, func() float64 {
		s.mu.Lock()
		defer s.mu.Unlock()
		return float64(s.binds)
	})
	m.requests.WithLabelValues(smpp.SubmitSM.String(), smpp.OK.String())
	for _, kind := range []string{receiptKind, messageKind} {
		for _, outcome := range []string{wasAccepted, wasRefused, isRepeated} {
			m.deliveries.WithLabelValues(kind, outcome)
		}
	}
	reg.MustRegister(m.requests, m.deliveries, binds)
	return m
}
