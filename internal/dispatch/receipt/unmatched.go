package receipt

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"lksms/gen/receiptq"
	"lksms/internal/platform/postgres"
)

const (
	unmatchedGrace = 2 * time.Minute // a receipt that came before the answer to the sending has that long to be matched
	maxUnmatched   = 10_000          // receipts counted of each sender
	unmatchedNamed = 1000            // senders counted, those with the most receipts
	unmatchedDay   = 24 * time.Hour  // what the metric counts
)

// UnmatchedReceipts is how many receipts of a sender match no message.
type UnmatchedReceipts = receiptq.ReceiptsUnmatchedRow

// Unmatched counts the receipts of each sender that came within within and match no message, the most first.
func Unmatched(ctx context.Context, db *postgres.DB, within time.Duration) ([]UnmatchedReceipts, error) {
	rows, err := receiptq.New(db).ReceiptsUnmatched(ctx, receiptq.ReceiptsUnmatchedParams{
		CameWithin: within, Grace: unmatchedGrace, MaxCounted: maxUnmatched, MaxSenders: unmatchedNamed,
	})
	return rows, postgres.Wrap("count receipts without message", err, nil)
}

var unmatchedDesc = prometheus.NewDesc("lksms_receipts_unmatched", "Receipts of the last 24 hours that match no message, up to 10000 of each sender. Missing for "+
	"a sender without such receipts. At most 1000 senders are named: those with the most.", []string{"sender"}, nil)

// Register registers with reg a gauge of the receipts without message that is read at each scrape.
func (s *Service) Register(reg prometheus.Registerer) { reg.MustRegister(unmatchedCollector{s}) }

// unmatchedCollector asks the database at each scrape.
type unmatchedCollector struct{ receipts *Service }

func (c unmatchedCollector) Describe(out chan<- *prometheus.Desc) { out <- unmatchedDesc }

func (c unmatchedCollector) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	rows, err := Unmatched(ctx, c.receipts.db, unmatchedDay)
	if err != nil { // left out of this scrape; the pool's gauges show why
		return
	}
	for _, row := range rows {
		out <- prometheus.MustNewConstMetric(unmatchedDesc, prometheus.GaugeValue, float64(row.Receipts), row.SenderNo)
	}
}
