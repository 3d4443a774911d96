// Package sender owns senders: their configuration, balances, ledgers and last polls. Package claim charges balances and quotas.
package sender

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/golang-lru/v2/expirable"

	"lksms/gen/senderq"
	"lksms/internal/dispatch/directory"
	"lksms/internal/dispatch/driver"
	"lksms/internal/dispatch/driver/provider"
	"lksms/internal/dispatch/fact"
	"lksms/internal/dispatch/queue/claim"
	"lksms/internal/platform/fault"
	"lksms/internal/platform/optional"
	"lksms/internal/platform/postgres"
	"lksms/internal/platform/result"
	"lksms/internal/platform/servers"
	"lksms/internal/platform/setting"
	"lksms/internal/platform/sweep"
)

// KindApp is the kind of a sender that polls. All other kinds are names of drivers.
const KindApp = "app"

// drivenLease is the default lease of a driven sender in seconds. It is much longer than the timeout of a request to a provider.
const drivenLease int64 = 120

// Service manages senders. Every method runs in at most one transaction.
type Service struct {
	db        *postgres.DB
	q         *senderq.Queries
	settings  *setting.Service
	directory *directory.Service
	configs   *Configs
	known     *expirable.LRU[string, struct{}] // numbers of existing senders
	full      atomic.Pointer[refusal]          // the last refused registration
	pools     *claimables

	mu   sync.Mutex
	seen map[string]bool // senders that polled since SweepSeen; true: the sender waits for tasks
}

// New returns a Service on db.
func New(db *postgres.DB, settings *setting.Service, directory *directory.Service, configs *Configs) *Service {
	s := &Service{
		db: db, q: senderq.New(db), settings: settings, directory: directory, configs: configs, seen: map[string]bool{},
		known: expirable.NewLRU[string, struct{}](100_000, nil, time.Minute),
		pools: newClaimables(),
	}
	directory.OnChanged(s.pools.clearNow)
	return s
}

// Sweeps returns the periodic jobs of the service.
func (s *Service) Sweeps() []sweep.Job {
	return []sweep.Job{
		{Roles: servers.Roles{servers.Sweep}, Name: "sum-up-ledger", Interval: 10 * time.Minute, Limit: 30 * time.Minute, Run: s.SumUpLedger},
	}
}

var errNoSender = fault.New(fault.NotFound, fault.SenderNotFound)

// checkZone returns the fault request.invalid if the database does not know the time zone.
func (s *Service) checkZone(ctx context.Context, zone string) error {
	isKnown, err := s.settings.TimeZoneExists(ctx, zone)
	if err == nil && !isKnown {
		return fault.InvalidField("time_zone", fault.NotThere, nil)
	}
	return err
}

// checkHours returns the fault request.invalid if the text is not hours such as 08:00-22:00. nil means all hours.
func checkHours(hours *string) error {
	_, err := setting.ParseHours("hours", optional.Value(hours))
	return err //nolint:wrapcheck // a fault for the caller
}

// checkInbox returns the fault request.invalid if the company does not exist. nil means no company.
func (s *Service) checkInbox(ctx context.Context, companyNo *string) error {
	if companyNo == nil {
		return nil
	}
	_, err := s.directory.GetCompany(ctx, *companyNo)
	return fault.OfField(err, directory.ErrNoCompany, "inbox_company_no")
}

// checkSigns returns the fault request.invalid if the mode is not possible with this kind of sender or with this signature.
func checkSigns(kind, mode string, sign *string) error {
	switch {
	case mode != claim.SignNone:
		return nil
	case driver.AlwaysSigns(kind):
		return fault.InvalidField("sign_mode", fault.NotAllowed, []string{claim.SignInText, claim.SignByProvider})
	case sign != nil:
		return fault.InvalidField("sign", fault.NotTogether, "sign_mode="+mode)
	}
	return nil
}

// Create adds a sender and opens its ledger. The secrets of its configuration are stored encrypted. Faults: exists; request.invalid for an unknown channel or
// time zone and for an invalid configuration.
func (s *Service) Create(ctx context.Context, p Params) (Row, error) {
	if p.Config == nil {
		p.Config = []byte("{}")
	}
	if err := checkSigns(p.Kind, p.SignMode, p.Sign); err != nil {
		return Row{}, err
	}
	if err := checkHours(p.Hours); err != nil {
		return Row{}, err
	}
	if p.Kind != KindApp {
		var err error
		if p.Config, err = s.configs.checkAndEncrypt(p.Kind, p.SenderNo, p.Config, nil); err != nil {
			return Row{}, err
		}
		if p.LeaseSeconds == nil {
			p.LeaseSeconds = new(drivenLease)
		}
	}
	err := s.directory.Change(ctx, func(ctx context.Context) error {
		if _, err := s.directory.GetChannel(ctx, p.Channel); err != nil {
			return fault.OfField(err, directory.ErrNoChannel, "channel")
		}
		if err := s.checkZone(ctx, p.TimeZone); err != nil {
			return err
		}
		if err := s.checkInbox(ctx, p.InboxCompanyNo); err != nil {
			return err
		}
		_, err := s.q.SenderCreate(ctx, p)
		if postgres.Violates(err, "senders_sender_no_key") {
			return fault.New(fault.Conflict, fault.Exists)
		}
		return postgres.Wrap("create sender", err, nil)
	})
	if err != nil {
		return Row{}, err
	}
	return s.Get(ctx, nil, p.SenderNo)
}

// Get returns one sender, or the fault sender.not_found. If company is non-nil, Get finds only senders of this company's routes.
func (s *Service) Get(ctx context.Context, company *int64, no string) (Row, error) {
	values, err := s.settings.Get(ctx)
	if err != nil {
		return Row{}, err
	}
	rows, err := s.q.SenderList(ctx, senderq.SenderListParams{
		BeforeID: math.MaxInt64, SenderNo: &no, CompanyID: company, PageLimit: 1,
		SilentAfter: values.Queue.SilentAfter(), RecordedApart: SeenApart,
	})
	return postgres.One(rows, err, "get sender", errNoSender)
}

// Filter selects senders of a list. A nil field matches all.
type Filter struct {
	CompanyID *int64 // only senders in the routes of this company
	Status    *string
	Part      *string // part of the number or the name
}

// List lists up to limit senders with smaller ids than `before`, newest first.
func (s *Service) List(ctx context.Context, f Filter, before int64, limit int) ([]Row, error) {
	values, err := s.settings.Get(ctx)
	if err != nil {
		return nil, err
	}
	rows, err := s.q.SenderList(ctx, senderq.SenderListParams{
		BeforeID: before, CompanyID: f.CompanyID, Status: f.Status, Part: f.Part, PageLimit: int32(limit),
		SilentAfter: values.Queue.SilentAfter(), RecordedApart: SeenApart,
	})
	return rows, postgres.Wrap("list senders", err, nil)
}

// Settings contains the settings of a sender that can be changed.
type Settings struct {
	Name, Kind, Status, TimeZone, OnUnclear string
	Sort                                    float64
	IsShared                                bool
	IntervalMs                              int64
	PerMinute, PerHour, PerDay, PerMonth    *int64
	Hours                                   *string // the hours of each day in which the sender gets tasks; nil: all
	LeaseSeconds, SegmentSize               *int64
	Sign                                    *string
	SignMode                                string
	LowWarning, LowSwitch                   *int64
	SegmentPrice                            *int64 // in 1/10000 of the currency
	InboxCompanyNo                          *string
	Config                                  []byte // nil: the configuration is kept
	IsMended                                bool   // the update closes the circuit breaker, because the change can have repaired the sender
}

// Update applies change to a sender. If version is not nil, the sender must have this version. Secrets that are missing or masked in the configuration are
// kept. Faults: sender.not_found, version.stale; request.invalid for an unknown time zone and for an invalid configuration.
func (s *Service) Update(ctx context.Context, no string, version *int64, by string, change func(*Settings)) (row Row, err error) {
	err = s.directory.Change(ctx, func(ctx context.Context) error {
		read := func() (Row, error) { return s.Get(ctx, nil, no) }
		row, err = postgres.Patch(version, read, func(r Row) int64 { return r.Version }, func(was Row) (int64, error) {
			p, err := s.changed(ctx, was, change)
			if err != nil {
				return 0, err
			}
			p.Username = by
			n, err := s.q.SenderUpdate(ctx, p)
			return n, postgres.Wrap("update sender", err, nil)
		})
		return err
	})
	return row, err
}

// changed returns the parameters that store a change of a sender.
func (s *Service) changed(ctx context.Context, was Row, change func(*Settings)) (p senderq.SenderUpdateParams, err error) {
	to := Settings{
		Name: was.Name, Kind: was.Kind, Status: was.Status, TimeZone: was.TimeZone, OnUnclear: was.OnUnclear, Sort: was.Sort,
		IsShared: was.IsShared, IntervalMs: was.IntervalMs, PerMinute: was.PerMinute, PerHour: was.PerHour, PerDay: was.PerDay,
		PerMonth: was.PerMonth, Hours: was.Hours, LeaseSeconds: was.LeaseSeconds, SegmentSize: was.SegmentSize, Sign: was.Sign, SignMode: was.SignMode,
		LowWarning: was.LowWarning, LowSwitch: was.LowSwitch, SegmentPrice: was.SegmentPrice, InboxCompanyNo: was.InboxCompanyNo,
	}
	change(&to)
	if to.Config != nil || to.Kind != was.Kind {
		to.Config, err = s.configs.changed(was, to.Kind, to.Config)
	}
	if err == nil {
		err = checkSigns(to.Kind, to.SignMode, to.Sign)
	}
	if err == nil {
		err = checkHours(to.Hours)
	}
	if err == nil && to.TimeZone != was.TimeZone {
		err = s.checkZone(ctx, to.TimeZone)
	}
	if no := to.InboxCompanyNo; err == nil && optional.Value(no) != optional.Value(was.InboxCompanyNo) {
		err = s.checkInbox(ctx, no)
	}
	return senderq.SenderUpdateParams{
		SenderNo: was.SenderNo, Version: was.Version, Name: to.Name, Kind: to.Kind, Status: to.Status, TimeZone: to.TimeZone,
		OnUnclear: to.OnUnclear, Sort: to.Sort, IsShared: to.IsShared, IntervalMs: to.IntervalMs, PerMinute: to.PerMinute,
		PerHour: to.PerHour, PerDay: to.PerDay, PerMonth: to.PerMonth, Hours: to.Hours, LeaseSeconds: to.LeaseSeconds, SegmentSize: to.SegmentSize,
		Sign: to.Sign, SignMode: to.SignMode, LowWarning: to.LowWarning, LowSwitch: to.LowSwitch, SegmentPrice: to.SegmentPrice, InboxCompanyNo: to.InboxCompanyNo,
		Config: to.Config, IsMended: to.IsMended,
	}, err
}

// Delete removes a sender that has never sent a message, that no route names, and for which no task waits. Faults: sender.not_found, in_use.
func (s *Service) Delete(ctx context.Context, no string) error {
	defer s.known.Remove(no)
	defer s.full.Store(nil)
	return s.directory.Change(ctx, func(ctx context.Context) error {
		if err := s.directory.DeletePoolsOfSender(ctx, no); err != nil {
			return err
		}
		n, err := s.q.SenderDelete(ctx, no)
		return postgres.Deleted(n, err, "delete sender", func() (Row, error) { return s.Get(ctx, nil, no) })
	})
}

// ChangeBalance adds change, in segments, to a balance and writes the ledger in the same transaction (S3.8). Faults: sender.not_found; request.invalid if the
// balance would be below 0.
func (s *Service) ChangeBalance(ctx context.Context, no string, change int64, remark *string, by string) (entry LedgerRow, err error) {
	err = s.db.Tx(ctx, func(ctx context.Context) error {
		entry, err = s.q.SenderBalanceChange(ctx, senderq.SenderBalanceChangeParams{SenderNo: no, Change: change, Remark: remark, Username: by})
		if !postgres.IsNoRows(err) {
			return postgres.Wrap("change balance", err, nil)
		}
		if _, err := s.Get(ctx, nil, no); err != nil {
			return err
		}
		return fault.InvalidField("change", fault.BelowZero, nil)
	})
	return entry, err
}

// Ledger lists up to limit changes of a balance with smaller ids than `before`, newest first. If company is not nil, the list omits attempts for other
// companies. Fault: sender.not_found.
func (s *Service) Ledger(ctx context.Context, company *int64, no string, before int64, limit int) ([]LedgerRow, error) {
	if _, err := s.Get(ctx, company, no); err != nil {
		return nil, err
	}
	rows, err := s.q.SenderLedgerList(ctx, senderq.SenderLedgerListParams{SenderNo: no, CompanyID: company, BeforeID: before, PageLimit: int32(limit)})
	return rows, postgres.Wrap("read ledger", err, nil)
}

// Answers returns the last answers of a sender's provider, newest first. Fault: sender.not_found.
func (s *Service) Answers(ctx context.Context, no string) ([]Answer, error) {
	if _, err := s.Get(ctx, nil, no); err != nil {
		return nil, err
	}
	rows, err := s.q.SenderAnswers(ctx, no)
	return rows, postgres.Wrap("read answers of sender", err, nil)
}

// Link is a permanent connection of a sender to its carrier.
type Link = senderq.SenderLinksRow

// Links returns the links of a sender that a server keeps open, by number. Fault: sender.not_found.
func (s *Service) Links(ctx context.Context, no string) ([]Link, error) {
	if _, err := s.Get(ctx, nil, no); err != nil {
		return nil, err
	}
	rows, err := s.q.SenderLinks(ctx, no)
	return rows, postgres.Wrap("read links of sender", err, nil)
}

// Trace contains what the links of a sender exchanged with its carrier.
type Trace struct {
	Until *time.Time // until when PDUs are recorded; nil: they never were
	PDUs  []LinkPDU  // at most provider.TraceLength, in the order of their times
}

// LinkPDU is a PDU of a link.
type LinkPDU struct {
	Nth int16 // number of the link, from 1
	provider.PDU
}

// Trace returns the recorded PDUs of a sender's links. Fault: sender.not_found.
func (s *Service) Trace(ctx context.Context, no string) (t Trace, err error) {
	if _, err := s.Get(ctx, nil, no); err != nil {
		return t, err
	}
	rows, err := s.q.SenderTrace(ctx, no)
	if err != nil {
		return t, postgres.Wrap("read trace of sender", err, nil)
	}
	for _, row := range rows {
		var pdus []provider.PDU
		if err := json.Unmarshal(row.Trace, &pdus); err != nil {
			return t, fmt.Errorf("read trace of link: %w", err)
		}
		for _, one := range pdus {
			t.PDUs = append(t.PDUs, LinkPDU{row.Nth, one})
		}
		if row.TracedUntil != nil && (t.Until == nil || row.TracedUntil.After(*t.Until)) {
			t.Until = row.TracedUntil
		}
	}
	slices.SortStableFunc(t.PDUs, func(a, b LinkPDU) int { return a.At.Compare(b.At) })
	t.PDUs = t.PDUs[max(0, len(t.PDUs)-provider.TraceLength):]
	return t, nil
}

// Record records the PDUs of a sender's links for a time. Zero ends it. Faults: sender.not_found, sender.not_linked.
func (s *Service) Record(ctx context.Context, no string, lasts time.Duration) (Trace, error) {
	if _, err := s.Get(ctx, nil, no); err != nil {
		return Trace{}, err
	}
	var changed int64
	var err error
	if lasts > 0 {
		changed, err = s.q.SenderTraceBegin(ctx, senderq.SenderTraceBeginParams{SenderNo: no, Lasts: lasts})
	} else {
		changed, err = s.q.SenderTraceEnd(ctx, no)
	}
	switch {
	case err != nil:
		return Trace{}, postgres.Wrap("record PDUs of sender", err, nil)
	case changed == 0:
		return Trace{}, fault.New(fault.Conflict, fault.SenderNotLinked)
	}
	return s.Trace(ctx, no)
}

// AddFacts adds the leases of facts, their reports and their ends without a report to the totals of their senders, in the transaction of ctx.
func (s *Service) AddFacts(ctx context.Context, facts []fact.Sum) error {
	var sums senderq.SenderTotalsAddParams
	for _, f := range facts {
		failed := max(0, f.Failed) // a requeued task is no longer FAILED, but its failed attempt still counts
		if f.SenderNo == nil || f.Leases+f.ReportedSuccess+f.ReportedFailed+f.Unreported+failed == 0 {
			continue // only states of tasks changed: the sender did nothing
		}
		sums.SenderNos = append(sums.SenderNos, *f.SenderNo)
		sums.Leases = append(sums.Leases, f.Leases)
		sums.ReportedSuccess = append(sums.ReportedSuccess, f.ReportedSuccess)
		sums.ReportedFailed = append(sums.ReportedFailed, f.ReportedFailed)
		sums.Unreported = append(sums.Unreported, f.Unreported)
		sums.FailedTasks = append(sums.FailedTasks, failed)
		sums.ResponseMs = append(sums.ResponseMs, f.ResponseMs)
		sums.Ats = append(sums.Ats, f.At)
	}
	return postgres.Wrap("add facts to senders", s.q.SenderTotalsAdd(ctx, sums), nil)
}

// ledgerBatch is the maximum number of ledger rows that one statement sums.
const ledgerBatch = 20_000

// SumUpLedger replaces charges and refunds of old leases by their sums per company and day. A lease is old if it is older than the setting history.ledger_days.
// SumUpLedger returns the number of replaced rows and dropped partitions. The rows of a partition are dropped with the partition. A day before the first
// partition keeps several sums if it has more than ledgerBatch rows.
func (s *Service) SumUpLedger(ctx context.Context) (int, error) {
	rows, err := s.settings.DeleteExpiredCharges(ctx, ledgerBatch, func(keep time.Duration) (int64, error) {
		n, err := s.q.SenderLedgerFold(ctx, senderq.SenderLedgerFoldParams{BatchSize: ledgerBatch, Keep: keep, Remark: result.LedgerOfDay})
		return n, postgres.Wrap("sum up ledger", err, nil)
	})
	if err != nil {
		return rows, err
	}
	parts, err := s.settings.DeleteExpiredCharges(ctx, 1, func(keep time.Duration) (int64, error) {
		n, err := postgres.Patiently(ctx, func() (int64, error) {
			return s.q.SenderLedgerDrop(ctx, senderq.SenderLedgerDropParams{Keep: keep, Remark: result.LedgerOfDay})
		})
		return n, postgres.Wrap("drop partition of ledger", err, nil)
	})
	return rows + parts, err
}
