package receipt

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"lksms/gen/receiptq"
	"lksms/internal/platform/postgres"
)

const (
	unmatchedGrace = 2 * time.Minute // a receipt counts as unmatched only after this time, because it can arrive before the response to its message
	maxUnmatched   = 10_000          // maximum number of counted receipts per sender
	unmatchedNamed = 1000            // maximum number of counted senders; the senders with the most receipts are counted
	unmatchedDay   = 24 * time.Hour  // the period that the metric covers
)

// UnmatchedReceipts is the number of receipts of one sender that match no message.
type UnmatchedReceipts = receiptq.ReceiptsUnmatchedRow

// Unmatched counts, for each sender, the receipts that arrived within a period and match no message. The senders with the most receipts come first.
func Unmatched(ctx context.Context, db *postgres.DB, within time.Duration) ([]UnmatchedReceipts, error) {
	rows, err := receiptq.New(db).ReceiptsUnmatched(ctx, receiptq.ReceiptsUnmatchedParams{
		CameWithin: within, Grace: unmatchedGrace, MaxCounted: maxUnmatched, MaxSenders: unmatchedNamed,
	})
	return rows, postgres.Wrap("count receipts without message", err, nil)
}

var unmatchedDesc = prometheus.NewDesc("lksms_receipts_unmatched", "Receipts of the last 24 hours that match no message, up to 10000 of each sender. Missing for "+
	"a sender without such receipts. At most 1000 senders are named: those with the most.", []string{"sender"}, nil)

// Register registers with reg a gauge of the unmatched receipts, which is read at each scrape.
func (s *Service) Register(reg prometheus.Registerer) { reg.MustRegister(unmatchedCollector{s}) }

// unmatchedCollector queries the database at each scrape.
type unmatchedCollector struct{ receipts *Service }

func (c unmatchedCollector) Describe(out chan<- *prometheus.Desc) { out <- unmatchedDesc }

func (c unmatchedCollector) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	rows, err := Unmatched(ctx, c.receipts.db, unmatchedDay)
	if err != nil { // the gauge is omitted from this scrape; the gauges of the connection pool show why
		return
	}
	for _, row := range rows {
		out <- prometheus.MustNewConstMetric(unmatchedDesc, prometheus.GaugeValue, float64(row.Receipts), row.SenderNo)
	}
}
