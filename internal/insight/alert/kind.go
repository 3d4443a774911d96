package alert

import (
	"slices"

	"lksms/internal/platform/fault"
	"lksms/internal/platform/setting"
)

// These are the kinds of rules.
const (
	WaitTime          = "wait_time"
	QueueDepth        = "queue_depth"
	FailureRate       = "failure_rate"
	PoolUnserved      = "pool_unserved"
	SenderSilent      = "sender_silent"
	SenderFailing     = "sender_failing"
	BalanceLow        = "balance_low"
	ProviderTrouble   = "provider_trouble"
	ReceiptsMissing   = "receipts_missing"
	ReceiptsUnmatched = "receipts_unmatched"
	DiskLow           = "disk_low"
	PartitionMissing  = "partition_missing"
	HistoryOverdue    = "history_overdue"
	WebhookFailing    = "webhook_failing"
	StatementDiffers  = "statement_differs"
	CodesSuspected    = "codes_suspected"
)

// These are the levels of rules.
const (
	Warning   = "warning"
	Critical  = "critical"
	Emergency = "emergency"
)

// levels contains the levels, the worst last. alert_rank in the database is the index in levels plus one.
var levels = []string{Warning, Critical, Emergency}

// kind describes the rules of one kind.
type kind struct {
	hasThreshold bool
	threshold    *float64 // default; nil: the kind has no default, or waitThreshold returns the default
	maxThreshold float64  // maximum threshold
	window       int64    // default in seconds; 0: rules of the kind have no window
	filters      []string // fields that can narrow a rule
	oneFilter    bool     // a rule can set at most one filter
	forSeconds   int64    // default
}

// These fields narrow a rule, and label its alerts.
const (
	ByCompany = "company_no"
	ByChannel = "channel"
	BySender  = "sender_no"
)

const (
	maxSeconds = 30 * 24 * 3600
	maxNumber  = 1e12
)

// kinds contains every kind. Its default values equal those of the shipped rules.
var kinds = map[string]kind{
	WaitTime:          {hasThreshold: true, maxThreshold: maxSeconds, filters: []string{ByCompany, ByChannel}},
	QueueDepth:        {hasThreshold: true, threshold: new(100_000.0), maxThreshold: maxNumber, filters: []string{ByCompany}, forSeconds: 300},
	FailureRate:       {hasThreshold: true, threshold: new(0.2), maxThreshold: 1, window: 900, filters: []string{ByCompany, ByChannel, BySender}, oneFilter: true, forSeconds: 120},
	PoolUnserved:      {filters: []string{ByCompany, ByChannel}, forSeconds: 300},
	SenderSilent:      {hasThreshold: true, threshold: new(600.0), maxThreshold: maxSeconds, filters: []string{ByChannel, BySender}, forSeconds: 60},
	SenderFailing:     {hasThreshold: true, threshold: new(0.3), maxThreshold: 1, window: 900, filters: []string{ByChannel, BySender}, forSeconds: 120},
	BalanceLow:        {hasThreshold: true, maxThreshold: maxNumber, filters: []string{ByChannel, BySender}},
	ProviderTrouble:   {filters: []string{ByChannel, BySender}, forSeconds: 60},
	ReceiptsMissing:   {hasThreshold: true, threshold: new(20.0), maxThreshold: maxNumber, window: 3600, filters: []string{ByChannel, BySender}, forSeconds: 900},
	ReceiptsUnmatched: {hasThreshold: true, threshold: new(1.0), maxThreshold: maxNumber, window: 3600, filters: []string{ByChannel, BySender}, forSeconds: 300},
	DiskLow:           {hasThreshold: true, threshold: new(0.1), maxThreshold: 1, forSeconds: 60},
	PartitionMissing:  {hasThreshold: true, threshold: new(2.0), maxThreshold: 365, forSeconds: 1800},
	HistoryOverdue:    {hasThreshold: true, threshold: new(1.0), maxThreshold: 36500, forSeconds: 7200},
	WebhookFailing:    {hasThreshold: true, threshold: new(300.0), maxThreshold: maxSeconds},
	StatementDiffers:  {hasThreshold: true, threshold: new(0.0), maxThreshold: maxNumber, filters: []string{ByChannel, BySender}},
	CodesSuspected:    {filters: []string{ByCompany}},
}

// resolveSeconds is the default time for which a condition must be false before its alert is resolved.
const resolveSeconds = 60

// check returns the fault request.invalid if a rule of the kind cannot have a field. It sets the defaults of missing fields.
func (k kind) check(r *Settings) error {
	switch {
	case r.Threshold != nil && !k.hasThreshold:
		return fault.InvalidField("threshold", fault.UnknownField, nil)
	case r.Threshold != nil && *r.Threshold > k.maxThreshold:
		return fault.InvalidField("threshold", fault.TooBig, k.maxThreshold)
	case r.Threshold == nil:
		r.Threshold = k.threshold
	}
	switch {
	case r.WindowSeconds != nil && k.window == 0:
		return fault.InvalidField("window_seconds", fault.UnknownField, nil)
	case r.WindowSeconds == nil && k.window > 0:
		r.WindowSeconds = &k.window
	}
	filters := 0
	for _, f := range []struct {
		name  string
		value *string
	}{{ByCompany, r.CompanyNo}, {ByChannel, r.Channel}, {BySender, r.SenderNo}} {
		if f.value == nil {
			continue
		}
		if filters++; !slices.Contains(k.filters, f.name) || k.oneFilter && filters > 1 {
			return fault.InvalidField(f.name, fault.UnknownField, nil)
		}
	}
	return nil
}

// waitThreshold returns the default threshold of rules about waits in seconds. ok is false if the settings disable these rules.
func waitThreshold(level string, m setting.Monitoring) (seconds float64, ok bool) {
	n := m.WaitWarning
	switch level {
	case Critical:
		n = m.WaitCritical
	case Emergency:
		n = m.WaitEmergency
	}
	return float64(n), n > 0
}
