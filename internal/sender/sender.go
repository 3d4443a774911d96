// Package sender owns the directory of who sends for whom: companies, channels, countries, senders and routes, and what is
// left to each sender. Claims use up what is left inside the dispatch's own statement.
package sender

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/golang-lru/v2/expirable"

	"lksms/gen/dbq"
	"lksms/internal/fault"
	"lksms/internal/phone"
	"lksms/internal/postgres"
	"lksms/internal/setting"
	"lksms/internal/snapshot"
)

// KindApp is the kind of a sender that polls; the other kinds are names of drivers.
const KindApp = "app"

// Service manages the directory. Every method is at most one transaction.
type Service struct {
	db        *postgres.DB
	q         *dbq.Queries
	settings  *setting.Service
	directory snapshot.Cache[*directory]
	loaded    atomic.Pointer[directory]        // last
	known     *expirable.LRU[string, struct{}] // senders that are there
	full      atomic.Pointer[refusal]          // the last of an app that could not be registered
	pools     *claimables

	routesChanged func(pool int64)

	mu   sync.Mutex
	seen map[string]struct{} // senders that polled since SweepSeen
}

// New returns a Service on db.
func New(db *postgres.DB, settings *setting.Service) *Service {
	s := &Service{
		db: db, q: dbq.New(db), settings: settings, seen: map[string]struct{}{}, routesChanged: func(int64) {},
		known: expirable.NewLRU[string, struct{}](100_000, nil, time.Minute),
		pools: newClaimables(),
	}
	s.directory.Load = s.load
	return s
}

// Polled notes that an app polls, and registers it if it is not known yet and settings allow it. Faults: sender.not_found,
// limit.reached where too many have registered themselves.
func (s *Service) Polled(ctx context.Context, appID string) error {
	if _, known := s.known.Get(appID); !known {
		if err := s.register(ctx, appID); err != nil {
			return err
		}
		s.known.Add(appID, struct{}{})
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen[appID] = struct{}{}
	return nil
}

func (s *Service) register(ctx context.Context, appID string) error {
	values, err := s.settings.Get(ctx)
	if err != nil {
		return err
	}
	_, err = s.q.SenderFind(ctx, appID)
	if !postgres.IsNoRows(err) {
		return postgres.Wrap("find sender", err, nil)
	}
	if !values.Queue.RegisterUnknownSenders {
		return errNoSender
	}
	if full := s.full.Load(); full != nil && time.Since(full.at) < fullFor {
		return full.fault
	}
	err = postgres.Wrap("register sender", s.q.SenderRegister(ctx, appID), nil)
	var limit *fault.Error
	if errors.As(err, &limit) && limit.Reason == fault.LimitReached {
		s.full.Store(&refusal{limit, time.Now()})
	}
	return err
}

// refusal is when an app was not registered, because too many are.
type refusal struct {
	fault *fault.Error
	at    time.Time
}

// fullFor is how long no further app is registered after such a refusal. Each attempt leaves a dead row in tables that every claim reads.
const fullFor = time.Second

// seenApart is how far apart the polls of a sender are noted that no route names: a thousand that wait for nothing should
// write next to nothing.
const seenApart = 10 * time.Minute

// SweepSeen notes who polled lately, and tells how many that were.
func (s *Service) SweepSeen(ctx context.Context) (int, error) {
	s.mu.Lock()
	seen := s.seen
	s.seen = map[string]struct{}{}
	s.mu.Unlock()
	if len(seen) == 0 {
		return 0, nil
	}
	n, err := s.q.SendersSeen(ctx, dbq.SendersSeenParams{
		SenderNos: slices.Sorted(maps.Keys(seen)), ApartSeconds: seenApart.Seconds(),
	})
	if err != nil { // the next sweep notes them
		s.mu.Lock()
		maps.Copy(s.seen, seen)
		s.mu.Unlock()
	}
	return int(n), postgres.Wrap("note who polled", err, nil)
}

// Fold adds what claims and reports left behind to the senders, and tells how many rows that were.
func (s *Service) Fold(ctx context.Context) (int, error) {
	n, err := s.q.SenderFold(ctx)
	if err != nil || n == 0 {
		return 0, postgres.Wrap("fold sender changes", err, nil)
	}
	return int(n), postgres.Wrap("clear folded sender changes", s.db.Vacuum(ctx, "sender_changes"), nil)
}

// Waits tells, of a sender that found nothing, how long its interval still holds it back, and from which pools it may take,
// with its sort there. What another server changed it knows once Notice was told of it.
func (s *Service) Waits(ctx context.Context, appID string) (rest time.Duration, pools map[int64]float64, err error) {
	if c, known := s.pools.get(appID); known {
		return 0, c.pools, nil
	}
	keep := s.pools.reading(appID)
	row, err := s.q.SenderWaits(ctx, appID)
	if err != nil {
		return 0, nil, postgres.Wrap("look what sender waits for", err, errNoSender)
	}
	pools = make(map[int64]float64, len(row.Pools))
	for i, pool := range row.Pools {
		pools[pool] = row.Sorts[i]
	}
	if !row.IsPaced {
		keep(claimable{pools, row.IsCountedOn})
	}
	return time.Duration(row.Seconds * float64(time.Second)), pools, nil
}

// Notice is told the version of the directory in the database, and tells whether it is another than the one before: what senders may
// take from may be something else now.
func (s *Service) Notice(version int64) (isNew bool) {
	isNew = s.pools.notice(version)
	if isNew {
		s.directory.Forget()
	}
	return isNew
}

// Unhindered gives the pools of a sender that is known to get whatever waits in them: nothing paces it, and nobody counts on it.
func (s *Service) Unhindered(appID string) (pools map[int64]float64, known bool) {
	c, known := s.pools.get(appID)
	return c.pools, known && !c.countedOn
}

// Standing decides which of several senders that wait for the same has it first (S3.9, S4.3).
type Standing struct {
	Sort       float64 // where no route says another
	DayLimit   int64   // segments; 0: none
	DayUsed    int64   // segments of the day's limit
	Today      int64   // tasks that it was given today
	ResponseMS int64   // on average
}

// Compare is negative for one that should come before o, sorts apart: the least used of its day's limit, then the one that
// was given the fewest tasks today, then the quickest.
func (s Standing) Compare(o Standing) int {
	return cmp.Or(cmp.Compare(s.dayShare(), o.dayShare()), cmp.Compare(s.Today, o.Today), cmp.Compare(s.ResponseMS, o.ResponseMS))
}

func (s Standing) dayShare() float64 {
	if s.DayLimit == 0 {
		return 0
	}
	return float64(s.DayUsed) / float64(s.DayLimit)
}

// After is how a sender stands that was given so many more tasks, each of one segment for all that is known.
func (s Standing) After(tasks int64) Standing {
	s.DayUsed, s.Today = s.DayUsed+tasks, s.Today+tasks
	return s
}

// Standings tells how senders stand.
func (s *Service) Standings(ctx context.Context, appIDs []string) (map[string]Standing, error) {
	rows, err := s.q.SenderStandings(ctx, appIDs)
	if err != nil {
		return nil, fmt.Errorf("read how senders stand: %w", err)
	}
	standings := make(map[string]Standing, len(rows))
	for _, row := range rows {
		standings[row.SenderNo] = Standing{
			Sort: row.Sort, DayLimit: row.DayLimit, DayUsed: row.DayUsed, Today: row.Today, ResponseMS: row.ResponseMs,
		}
	}
	return standings, nil
}

var (
	errNoCompany = fault.New(fault.NotFound, fault.CompanyNotFound)
	errNoChannel = fault.New(fault.NotFound, fault.ChannelNotFound)
	errNoCountry = fault.New(fault.NotFound, fault.CountryNotFound)
	errNoSender  = fault.New(fault.NotFound, fault.SenderNotFound)
	errNoRoute   = fault.New(fault.NotFound, fault.RouteRuleNotFound)
	errStale     = fault.New(fault.Conflict, fault.VersionStale)
	errInUse     = fault.New(fault.Conflict, fault.InUse)
)

// Page says which rows of a list: those with smaller ids than Before, newest first.
type Page struct {
	Before int64
	Limit  int
}

// one returns the only row, or none.
func one[Row any](rows []Row, err error, act string, none error) (Row, error) {
	var zero Row
	if err != nil {
		return zero, fmt.Errorf("%s: %w", act, err)
	}
	if len(rows) == 0 {
		return zero, none
	}
	return rows[0], nil
}

// updated tells what an update that changed n rows means: without any, the thing is not there, or is of another version.
func updated[Row any](n int64, err error, act string, get func() (Row, error)) (Row, error) {
	var zero Row
	if err != nil {
		return zero, fmt.Errorf("%s: %w", act, err)
	}
	row, err := get()
	if err == nil && n == 0 {
		return zero, errStale
	}
	return row, err
}

// deleted tells what a deletion that removed n rows means.
func deleted[Row any](n int64, err error, act string, get func() (Row, error)) error {
	switch {
	case postgres.IsReferred(err):
		return errInUse
	case err != nil:
		return fmt.Errorf("%s: %w", act, err)
	case n > 0:
		return nil
	}
	if _, err := get(); err != nil {
		return err
	}
	return errInUse
}

// change runs fn in a transaction, after which this server reads the directory anew.
func (s *Service) change(ctx context.Context, fn func(ctx context.Context) error) error {
	return s.db.Tx(ctx, func(ctx context.Context) error {
		s.db.AfterCommit(ctx, func() {
			s.directory.Forget()
			s.pools.forget()
		})
		return fn(ctx)
	})
}

// checkCountries makes sure that all are there.
func (s *Service) checkCountries(ctx context.Context, countries []string) error {
	if len(countries) == 0 {
		return nil
	}
	unknown, err := s.q.CountriesUnknown(ctx, countries)
	if err != nil {
		return fmt.Errorf("check countries: %w", err)
	}
	if len(unknown) > 0 {
		return fault.InvalidField("countries", fault.NotThere, nil)
	}
	return nil
}

// Company is a company to create.
type Company struct {
	No        string
	Name      string
	Weight    float64
	Countries []string // to which it may send; none: all
}

// CreateCompany adds a company. Fault: exists.
func (s *Service) CreateCompany(ctx context.Context, c Company) (dbq.CompanyListRow, error) {
	err := s.change(ctx, func(ctx context.Context) error {
		if err := s.checkCountries(ctx, c.Countries); err != nil {
			return err
		}
		_, err := s.q.CompanyCreate(ctx, dbq.CompanyCreateParams{CompanyNo: c.No, Name: c.Name, Weight: c.Weight, Countries: c.Countries})
		if postgres.Violates(err, "companies_company_no_key") {
			return fault.New(fault.Conflict, fault.Exists)
		}
		return postgres.Wrap("create company", err, nil)
	})
	if err != nil {
		return dbq.CompanyListRow{}, err
	}
	return s.GetCompany(ctx, c.No)
}

// GetCompany returns one company, or the fault company.not_found.
func (s *Service) GetCompany(ctx context.Context, no string) (dbq.CompanyListRow, error) {
	rows, err := s.q.CompanyList(ctx, dbq.CompanyListParams{BeforeID: math.MaxInt64, CompanyNo: &no, PageLimit: 1})
	return one(rows, err, "get company", errNoCompany)
}

// ListCompanies lists companies; only is the one that the caller may see, or nil.
func (s *Service) ListCompanies(ctx context.Context, only *int64, p Page) ([]dbq.CompanyListRow, error) {
	rows, err := s.q.CompanyList(ctx, dbq.CompanyListParams{BeforeID: p.Before, ID: only, PageLimit: int32(p.Limit)})
	return rows, postgres.Wrap("list companies", err, nil)
}

// CompanyPatch says what to change; nil stays as it is. Version, if given, is the one that must be there.
type CompanyPatch struct {
	No        string
	Name      *string
	Weight    *float64
	Countries *[]string
	Version   *int64
}

// UpdateCompany changes a company. Faults: company.not_found, version.stale.
func (s *Service) UpdateCompany(ctx context.Context, p CompanyPatch) (row dbq.CompanyListRow, err error) {
	err = s.change(ctx, func(ctx context.Context) error {
		n, err := s.q.CompanyUpdate(ctx, dbq.CompanyUpdateParams{CompanyNo: p.No, Name: p.Name, Weight: p.Weight, Version: p.Version})
		if n > 0 && p.Countries != nil {
			if err := s.checkCountries(ctx, *p.Countries); err != nil {
				return err
			}
			err = s.q.CompanyAllow(ctx, dbq.CompanyAllowParams{CompanyNo: p.No, Countries: *p.Countries})
		}
		row, err = updated(n, err, "update company", func() (dbq.CompanyListRow, error) { return s.GetCompany(ctx, p.No) })
		return err
	})
	return row, err
}

// DeleteCompany removes a company that nothing refers to. Faults: company.not_found, in_use.
func (s *Service) DeleteCompany(ctx context.Context, no string) error {
	return s.change(ctx, func(ctx context.Context) error {
		n, err := s.q.CompanyDelete(ctx, no)
		return deleted(n, err, "delete company", func() (dbq.CompanyListRow, error) { return s.GetCompany(ctx, no) })
	})
}

// Channel is a channel to create.
type Channel struct {
	Channel           string
	Name              string
	SignatureRequired bool
	Countries         []string // that it serves; none: all
	RetryMinutes      []int64  // before each further attempt of a driven sender; nil: as the server is configured
}

// CreateChannel adds a channel with its shared pool. Fault: exists.
func (s *Service) CreateChannel(ctx context.Context, c Channel) (dbq.ChannelListRow, error) {
	err := s.change(ctx, func(ctx context.Context) error {
		if err := s.checkCountries(ctx, c.Countries); err != nil {
			return err
		}
		_, err := s.q.ChannelCreate(ctx, dbq.ChannelCreateParams{
			Channel: c.Channel, Name: c.Name, SignatureRequired: c.SignatureRequired, Countries: c.Countries,
			RetryMinutes: c.RetryMinutes,
		})
		if postgres.Violates(err, "channels_channel_key") {
			return fault.New(fault.Conflict, fault.Exists)
		}
		return postgres.Wrap("create channel", err, nil)
	})
	if err != nil {
		return dbq.ChannelListRow{}, err
	}
	return s.GetChannel(ctx, c.Channel)
}

// GetChannel returns one channel, or the fault channel.not_found.
func (s *Service) GetChannel(ctx context.Context, channel string) (dbq.ChannelListRow, error) {
	rows, err := s.q.ChannelList(ctx, dbq.ChannelListParams{BeforeID: math.MaxInt64, Channel: &channel, PageLimit: 1})
	return one(rows, err, "get channel", errNoChannel)
}

// ListChannels lists channels.
func (s *Service) ListChannels(ctx context.Context, p Page) ([]dbq.ChannelListRow, error) {
	rows, err := s.q.ChannelList(ctx, dbq.ChannelListParams{BeforeID: p.Before, PageLimit: int32(p.Limit)})
	return rows, postgres.Wrap("list channels", err, nil)
}

// ChannelPatch says what to change, as CompanyPatch does.
type ChannelPatch struct {
	Channel           string
	Name              *string
	SignatureRequired *bool
	Countries         *[]string
	RetryMinutes      []int64
	Clear             []string // fields that are to be empty
	Version           *int64
}

// UpdateChannel changes a channel. Faults: channel.not_found, version.stale.
func (s *Service) UpdateChannel(ctx context.Context, p ChannelPatch) (row dbq.ChannelListRow, err error) {
	err = s.change(ctx, func(ctx context.Context) error {
		n, err := s.q.ChannelUpdate(ctx, dbq.ChannelUpdateParams{
			Channel: p.Channel, Name: p.Name, SignatureRequired: p.SignatureRequired, RetryMinutes: p.RetryMinutes,
			Clear: p.Clear, Version: p.Version,
		})
		if n > 0 && p.Countries != nil {
			if err := s.checkCountries(ctx, *p.Countries); err != nil {
				return err
			}
			err = s.q.ChannelServe(ctx, dbq.ChannelServeParams{Channel: p.Channel, Countries: *p.Countries})
		}
		row, err = updated(n, err, "update channel", func() (dbq.ChannelListRow, error) { return s.GetChannel(ctx, p.Channel) })
		return err
	})
	return row, err
}

// DeleteChannel removes a channel that has no senders; sms stays. Faults: channel.not_found, in_use.
func (s *Service) DeleteChannel(ctx context.Context, channel string) error {
	if channel == SMS {
		return errInUse
	}
	return s.change(ctx, func(ctx context.Context) error {
		n, err := s.q.ChannelDelete(ctx, channel)
		return deleted(n, err, "delete channel", func() (dbq.ChannelListRow, error) { return s.GetChannel(ctx, channel) })
	})
}

// Country is a country to create.
type Country struct {
	No                string
	Name              string
	DialPrefix        string // without the +
	Region            *string
	AnyRegion         bool // it has every number of the prefix; else, without Region, those of the region that No names, if it names one
	SignatureRequired bool
}

// regionNamed is the region of a country that does not say: its number, if that names a region with its dial prefix.
func regionNamed(no, prefix string) *string {
	if phone.HasDialPrefix(no, prefix) {
		return &no
	}
	return nil
}

// CreateCountry adds a country. Faults: exists, for the number and for the prefix in a region; request.invalid.
func (s *Service) CreateCountry(ctx context.Context, c Country) (dbq.Country, error) {
	switch {
	case c.Region != nil && !phone.HasDialPrefix(*c.Region, c.DialPrefix):
		return dbq.Country{}, fault.InvalidField("region", fault.NotAllowed, nil)
	case c.Region == nil && !c.AnyRegion:
		c.Region = regionNamed(c.No, c.DialPrefix)
	}
	err := s.change(ctx, func(ctx context.Context) error {
		err := s.q.CountryCreate(ctx, dbq.CountryCreateParams{
			CountryNo: c.No, Name: c.Name, DialPrefix: c.DialPrefix, Region: c.Region, SignatureRequired: c.SignatureRequired,
		})
		return countryTaken(err, "create country")
	})
	if err != nil {
		return dbq.Country{}, err
	}
	return s.GetCountry(ctx, c.No)
}

func countryTaken(err error, act string) error {
	if postgres.Violates(err, "countries_country_no_key") || postgres.Violates(err, "countries_dial_prefix_region_key") {
		return fault.New(fault.Conflict, fault.Exists)
	}
	return postgres.Wrap(act, err, nil)
}

// GetCountry returns one country, or the fault country.not_found.
func (s *Service) GetCountry(ctx context.Context, no string) (dbq.Country, error) {
	rows, err := s.q.CountryList(ctx, dbq.CountryListParams{BeforeID: math.MaxInt64, CountryNo: &no, PageLimit: 1})
	return one(rows, err, "get country", errNoCountry)
}

// ListCountries lists countries.
func (s *Service) ListCountries(ctx context.Context, p Page) ([]dbq.Country, error) {
	rows, err := s.q.CountryList(ctx, dbq.CountryListParams{BeforeID: p.Before, PageLimit: int32(p.Limit)})
	return rows, postgres.Wrap("list countries", err, nil)
}

// CountryPatch says what to change, as CompanyPatch does.
type CountryPatch struct {
	No                string
	Name              *string
	DialPrefix        *string
	Region            *string
	AnyRegion         bool // Region is to be emptied
	SignatureRequired *bool
	Version           *int64
}

// place completes a patch that says where a country is: a region stays unless it does not have the new prefix. A patch made of what
// was there a moment ago is of that version.
func (p *CountryPatch) place(was dbq.Country) error {
	prefix := was.DialPrefix
	if p.DialPrefix != nil {
		prefix = *p.DialPrefix
	}
	switch {
	case p.AnyRegion:
	case p.Region == nil && was.Region == nil:
	case p.Region == nil && phone.HasDialPrefix(*was.Region, prefix):
		p.Region = was.Region
	case p.Region == nil:
		p.Region = regionNamed(p.No, prefix)
	case !phone.HasDialPrefix(*p.Region, prefix):
		return fault.InvalidField("region", fault.NotAllowed, nil)
	}
	if p.Version == nil {
		p.Version = &was.Version
	}
	return nil
}

// UpdateCountry changes a country. Faults: country.not_found, exists, version.stale, request.invalid.
func (s *Service) UpdateCountry(ctx context.Context, p CountryPatch) (row dbq.Country, err error) {
	err = s.change(ctx, func(ctx context.Context) error {
		moves := p.DialPrefix != nil || p.Region != nil || p.AnyRegion
		if moves {
			was, err := s.GetCountry(ctx, p.No)
			if err != nil {
				return err
			}
			if err := p.place(was); err != nil {
				return err
			}
		}
		n, err := s.q.CountryUpdate(ctx, dbq.CountryUpdateParams{
			CountryNo: p.No, Name: p.Name, DialPrefix: p.DialPrefix, Moves: moves, Region: p.Region, SignatureRequired: p.SignatureRequired,
			Version: p.Version,
		})
		if err := countryTaken(err, "update country"); err != nil {
			return err
		}
		row, err = updated(n, err, "update country", func() (dbq.Country, error) { return s.GetCountry(ctx, p.No) })
		return err
	})
	return row, err
}

// DeleteCountry removes a country that nothing refers to. Faults: country.not_found, in_use.
func (s *Service) DeleteCountry(ctx context.Context, no string) error {
	return s.change(ctx, func(ctx context.Context) error {
		n, err := s.q.CountryDelete(ctx, no)
		return deleted(n, err, "delete country", func() (dbq.Country, error) { return s.GetCountry(ctx, no) })
	})
}

// checkZone makes sure that the database knows the time zone.
func (s *Service) checkZone(ctx context.Context, zone string) error {
	_, err := dbq.New(s.db.Pool).TimeZoneCheck(ctx, zone) // its failure would spoil a transaction
	if postgres.IsBadParameter(err) {
		return fault.InvalidField("time_zone", fault.NotThere, nil)
	}
	return postgres.Wrap("check time zone", err, nil)
}

// CreateSender adds a sender and opens its ledger. Faults: exists, request.invalid for a channel or time zone that is not there.
func (s *Service) CreateSender(ctx context.Context, p dbq.SenderCreateParams) (dbq.SenderListRow, error) {
	err := s.change(ctx, func(ctx context.Context) error {
		if _, err := s.GetChannel(ctx, p.Channel); err != nil {
			return notThere(err, errNoChannel, "channel")
		}
		if err := s.checkZone(ctx, p.TimeZone); err != nil {
			return err
		}
		_, err := s.q.SenderCreate(ctx, p)
		if postgres.Violates(err, "senders_sender_no_key") {
			return fault.New(fault.Conflict, fault.Exists)
		}
		return postgres.Wrap("create sender", err, nil)
	})
	if err != nil {
		return dbq.SenderListRow{}, err
	}
	return s.GetSender(ctx, nil, p.SenderNo)
}

// GetSender returns one sender, or the fault sender.not_found; with a company only one that its routes name.
func (s *Service) GetSender(ctx context.Context, company *int64, no string) (dbq.SenderListRow, error) {
	rows, err := s.q.SenderList(ctx, dbq.SenderListParams{BeforeID: math.MaxInt64, SenderNo: &no, CompanyID: company, PageLimit: 1})
	return one(rows, err, "get sender", errNoSender)
}

// ListSenders lists senders; status may be nil. With a company, only those that its routes name.
func (s *Service) ListSenders(ctx context.Context, company *int64, status *string, p Page) ([]dbq.SenderListRow, error) {
	rows, err := s.q.SenderList(ctx, dbq.SenderListParams{BeforeID: p.Before, CompanyID: company, Status: status, PageLimit: int32(p.Limit)})
	return rows, postgres.Wrap("list senders", err, nil)
}

// UpdateSender changes a sender. Faults: sender.not_found, version.stale, request.invalid for a time zone that is not there.
func (s *Service) UpdateSender(ctx context.Context, p dbq.SenderUpdateParams) (row dbq.SenderListRow, err error) {
	err = s.change(ctx, func(ctx context.Context) error {
		if p.TimeZone != nil {
			if err := s.checkZone(ctx, *p.TimeZone); err != nil {
				return err
			}
		}
		n, err := s.q.SenderUpdate(ctx, p)
		row, err = updated(n, err, "update sender", func() (dbq.SenderListRow, error) { return s.GetSender(ctx, nil, p.SenderNo) })
		return err
	})
	return row, err
}

// DeleteSender removes a sender that never sent and that no route names. Faults: sender.not_found, in_use.
func (s *Service) DeleteSender(ctx context.Context, no string) error {
	defer s.known.Remove(no)
	defer s.full.Store(nil)
	return s.change(ctx, func(ctx context.Context) error {
		n, err := s.q.SenderDelete(ctx, no)
		return deleted(n, err, "delete sender", func() (dbq.SenderListRow, error) { return s.GetSender(ctx, nil, no) })
	})
}

// ChangeBalance tops up or corrects a balance, in segments, and writes the ledger in the same transaction (S3.8). Faults:
// sender.not_found, request.invalid for a change that would take it below 0.
func (s *Service) ChangeBalance(ctx context.Context, no string, change int64, remark *string, by string) (entry dbq.SenderLedger, err error) {
	err = s.db.Tx(ctx, func(ctx context.Context) error {
		entry, err = s.q.SenderBalanceChange(ctx, dbq.SenderBalanceChangeParams{SenderNo: no, Change: change, Remark: remark, Username: by})
		if !postgres.IsNoRows(err) {
			return postgres.Wrap("change balance", err, nil)
		}
		if _, err := s.GetSender(ctx, nil, no); err != nil {
			return err
		}
		return fault.InvalidField("change", fault.BelowZero, nil)
	})
	return entry, err
}

// Ledger lists the changes of a balance, newest first; with a company, without the attempts of others. Fault: sender.not_found.
func (s *Service) Ledger(ctx context.Context, company *int64, no string, p Page) ([]dbq.SenderLedger, error) {
	if _, err := s.GetSender(ctx, company, no); err != nil {
		return nil, err
	}
	rows, err := s.q.SenderLedgerList(ctx, dbq.SenderLedgerListParams{SenderNo: no, CompanyID: company, BeforeID: p.Before, PageLimit: int32(p.Limit)})
	return rows, postgres.Wrap("read ledger", err, nil)
}

// Route is a route to create. An empty CountryNo is every country that has no route of its own.
type Route struct {
	CompanyNo   string
	MessageType int16
	CountryNo   string
	SenderNo    string
	Weight      int64
	Sort        float64
	Status      string
}

// CreateRoute lets a sender send a company's messages of a type to a country (S3.9). Faults: exists, request.invalid for what
// is not there.
func (s *Service) CreateRoute(ctx context.Context, r Route) (row dbq.RouteListRow, err error) {
	var made dbq.RouteCreateRow
	err = s.change(ctx, func(ctx context.Context) error {
		p := dbq.RouteCreateParams{MessageType: &r.MessageType, Weight: r.Weight, Sort: r.Sort, Status: r.Status}
		company, err := s.GetCompany(ctx, r.CompanyNo)
		if err != nil {
			return notThere(err, errNoCompany, "company_no")
		}
		p.CompanyID = &company.ID
		if r.CountryNo != "" {
			country, err := s.GetCountry(ctx, r.CountryNo)
			if err != nil {
				return notThere(err, errNoCountry, "country_no")
			}
			p.CountryID = &country.ID
		}
		found, err := s.q.SenderFind(ctx, r.SenderNo)
		if err != nil {
			return notThere(postgres.Wrap("find sender", err, errNoSender), errNoSender, "sender_no")
		}
		p.SenderID, p.ChannelID = found.ID, found.ChannelID
		made, err = s.q.RouteCreate(ctx, p)
		s.moveAfter(ctx, made.PoolID)
		if postgres.Violates(err, "routes_pool_id_sender_id_key") {
			return fault.New(fault.Conflict, fault.Exists)
		}
		return postgres.Wrap("create route", err, nil)
	})
	if err != nil {
		return row, err
	}
	return s.GetRoute(ctx, nil, made.ID)
}

// notThere makes of the fault of something that a field names the fault of that field.
func notThere(err error, missing *fault.Error, field string) error {
	if errors.Is(err, missing) {
		return fault.InvalidField(field, fault.NotThere, nil)
	}
	return err
}

// GetRoute returns one route, or the fault route.not_found; with a company only one of its own.
func (s *Service) GetRoute(ctx context.Context, company *int64, no int64) (dbq.RouteListRow, error) {
	rows, err := s.q.RouteList(ctx, dbq.RouteListParams{BeforeID: math.MaxInt64, RouteNo: &no, CompanyID: company, PageLimit: 1})
	return one(rows, err, "get route", errNoRoute)
}

// ListRoutes lists routes; companyNo and senderNo may be nil. With a company, only its own.
func (s *Service) ListRoutes(ctx context.Context, company *int64, companyNo, senderNo *string, p Page) ([]dbq.RouteListRow, error) {
	rows, err := s.q.RouteList(ctx, dbq.RouteListParams{BeforeID: p.Before, CompanyID: company, CompanyNo: companyNo, SenderNo: senderNo, PageLimit: int32(p.Limit)})
	return rows, postgres.Wrap("list routes", err, nil)
}

// UpdateRoute changes a route. Faults: route.not_found, version.stale.
func (s *Service) UpdateRoute(ctx context.Context, p dbq.RouteUpdateParams) (row dbq.RouteListRow, err error) {
	err = s.change(ctx, func(ctx context.Context) error {
		pool, err := s.q.RoutePoolLock(ctx, p.RouteNo)
		if err != nil {
			return postgres.Wrap("lock pool of route", err, errNoRoute)
		}
		s.moveAfter(ctx, pool)
		n, err := s.q.RouteUpdate(ctx, p)
		row, err = updated(n, err, "update route "+strconv.FormatInt(p.RouteNo, 10), func() (dbq.RouteListRow, error) { return s.GetRoute(ctx, nil, p.RouteNo) })
		return err
	})
	return row, err
}

// DeleteRoute removes a route. What waits in a pool without routes goes to the company's routes for any country, if it has any, or
// to the shared senders. Fault: route.not_found.
func (s *Service) DeleteRoute(ctx context.Context, no int64) error {
	return s.change(ctx, func(ctx context.Context) error {
		pool, err := s.q.RoutePoolLock(ctx, no)
		if err != nil {
			return postgres.Wrap("lock pool of route", err, errNoRoute)
		}
		s.moveAfter(ctx, pool)
		n, err := s.q.RouteDelete(ctx, no)
		if err := deleted(n, err, "delete route", func() (dbq.RouteListRow, error) { return s.GetRoute(ctx, nil, no) }); err != nil {
			return err
		}
		return postgres.Wrap("retire pool", s.q.PoolRetire(ctx, pool), nil)
	})
}

// moveAfter lets waiting tasks follow a change of the routes of a pool, once it is committed and before it is answered, as far as
// that can be done by then. A sweep moves the others.
func (s *Service) moveAfter(ctx context.Context, pool int64) {
	s.db.AfterCommit(ctx, func() { s.routesChanged(pool) })
}

// OnRoutesChanged sets what is done when this server has changed a route of a pool, before the change is answered.
func (s *Service) OnRoutesChanged(do func(pool int64)) { s.routesChanged = do }

// ForgetPools deletes pools that were retired long ago, and returns how many.
func (s *Service) ForgetPools(ctx context.Context) (int, error) {
	n, err := s.q.PoolForget(ctx)
	return int(n), postgres.Wrap("forget retired pools", err, nil)
}
