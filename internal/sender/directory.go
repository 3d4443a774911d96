package sender

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"lksms/gen/dbq"
	"lksms/internal/fault"
	"lksms/internal/phone"
)

// SMS is the channel of short messages.
const SMS = "sms"

// directory is what a submission asks: small, and changed by administrators alone.
type directory struct {
	version   int64 // of the database's, as it was before the rest was read
	companies map[int64]dbq.DirectoryCompaniesRow
	countries map[int64]dbq.DirectoryCountriesRow
	byPrefix  map[string]map[string]int64 // of countries, by region; an empty region is any
	channels  map[string]dbq.DirectoryChannelsRow
	pools     map[poolKey]int64
	driven    map[string]struct{} // senders that the server drives
}

// poolKey is what pools are told apart by; company 0 is the shared pool of a channel, country 0 any country.
type poolKey struct {
	channel, company int64
	messageType      int16
	country          int64
}

// load reads the directory, unless what was read last is still so.
func (s *Service) load(ctx context.Context) (*directory, error) {
	q := dbq.New(s.db.Beside)
	version, err := q.DirectoryVersion(ctx)
	if err != nil {
		return nil, fmt.Errorf("read version of directory: %w", err)
	}
	if d := s.loaded.Load(); d != nil && d.version == version {
		return d, nil
	}
	d := &directory{
		version: version, companies: map[int64]dbq.DirectoryCompaniesRow{}, countries: map[int64]dbq.DirectoryCountriesRow{},
		byPrefix: map[string]map[string]int64{}, channels: map[string]dbq.DirectoryChannelsRow{}, pools: map[poolKey]int64{},
		driven: map[string]struct{}{},
	}
	companies, err := q.DirectoryCompanies(ctx)
	if err != nil {
		return nil, fmt.Errorf("read companies: %w", err)
	}
	for _, c := range companies {
		d.companies[c.ID] = c
	}
	countries, err := q.DirectoryCountries(ctx)
	if err != nil {
		return nil, fmt.Errorf("read countries: %w", err)
	}
	for _, c := range countries {
		d.countries[c.ID] = c
		d.addPrefix(c)
	}
	channels, err := q.DirectoryChannels(ctx)
	if err != nil {
		return nil, fmt.Errorf("read channels: %w", err)
	}
	for _, c := range channels {
		d.channels[c.Channel] = c
	}
	pools, err := q.DirectoryPools(ctx)
	if err != nil {
		return nil, fmt.Errorf("read pools: %w", err)
	}
	for _, p := range pools {
		key := poolKey{channel: p.ChannelID}
		if p.CompanyID != nil {
			key.company, key.messageType = *p.CompanyID, *p.MessageType
		}
		if p.CountryID != nil {
			key.country = *p.CountryID
		}
		d.pools[key] = p.ID
	}
	driven, err := q.DirectoryDriven(ctx)
	if err != nil {
		return nil, fmt.Errorf("read driven senders: %w", err)
	}
	for _, no := range driven {
		d.driven[no] = struct{}{}
	}
	s.loaded.Store(d)
	return d, nil
}

// isShared reports whether a pool is the shared one of a channel.
func (d *directory) isShared(pool int64) bool {
	for _, c := range d.channels {
		if d.pools[poolKey{channel: c.ID}] == pool {
			return true
		}
	}
	return false
}

// Place is where a message belongs.
type Place struct {
	Version   int64 // of the directory that says so
	PoolID    int64
	CountryNo string  // empty: of no country that is known
	Weight    float64 // of the company
}

// Renew makes Place go by the directory as it is now.
func (s *Service) Renew(ctx context.Context) error {
	_, err := s.directory.Since(ctx, time.Now())
	return err
}

// Place finds where a message of a company to recipient belongs on a channel: on SMS a phone number in E.164, whose country counts; on
// others an address of another kind, which is in no country. Nothing is refused by what was so before asOf: another server may have
// added what is missing. Faults, which come with the place nevertheless: request.invalid for a country to which the company may not send
// or which the channel does not serve, and for a signature that is missing.
func (s *Service) Place(ctx context.Context, asOf time.Time, channel string, companyID int64, messageType int16, recipient string, signed bool) (Place, error) {
	d, err := s.directory.Get(ctx)
	if err != nil {
		return Place{}, err
	}
	place, wrong := d.place(channel, companyID, messageType, recipient, signed)
	if wrong == nil {
		return place, nil
	}
	if d, err = s.directory.Since(ctx, asOf); err != nil {
		return Place{}, err
	}
	return d.place(channel, companyID, messageType, recipient, signed)
}

func (d *directory) place(channel string, companyID int64, messageType int16, recipient string, signed bool) (Place, error) {
	at, ok := d.channels[channel]
	if !ok {
		return Place{}, fmt.Errorf("there is no channel %s", channel)
	}
	company, ok := d.companies[companyID]
	if !ok {
		return Place{}, fmt.Errorf("there is no company %d", companyID)
	}
	var country int64
	if channel == SMS {
		country = d.countryOf(recipient)
	}
	place := Place{Version: d.version, CountryNo: d.countries[country].CountryNo, Weight: company.Weight}
	place.PoolID = d.poolOf(at.ID, companyID, messageType, country)
	switch {
	case channel == SMS && (!allows(company.Countries, country) || !allows(at.Countries, country)):
		return place, fault.InvalidField("phone_number", fault.CountryNotServed, nil)
	case !signed && (at.SignatureRequired || d.countries[country].SignatureRequired):
		return place, fault.InvalidField("sign", fault.Required, nil)
	}
	return place, nil
}

// poolOf is the pool of the company's routes for the country, else for any country, else the shared one of the channel.
func (d *directory) poolOf(channel, company int64, messageType int16, country int64) int64 {
	for _, key := range []poolKey{{channel, company, messageType, country}, {channel, company, messageType, 0}} {
		if pool, ok := d.pools[key]; ok {
			return pool
		}
	}
	return d.pools[poolKey{channel: channel}]
}

// addPrefix files a country under its dial prefix. A region that shares its calling code with none has every number of the prefix, so
// that nothing is looked up for its numbers.
func (d *directory) addPrefix(c dbq.DirectoryCountriesRow) {
	region := ""
	if c.Region != nil && phone.SharesCallingCode(*c.Region) {
		region = *c.Region
	}
	of := d.byPrefix[c.DialPrefix]
	if of == nil {
		of = map[string]int64{}
		d.byPrefix[c.DialPrefix] = of
	}
	if _, taken := of[region]; !taken || c.Region != nil { // one that names its region stands above one that does not
		of[region] = c.ID
	}
}

// countryOf is the country with the longest dial prefix that a number in E.164 begins with: of those with this prefix the one of the
// number's region, else the one of any region. 0 if there is none.
func (d *directory) countryOf(number string) int64 {
	digits := strings.TrimPrefix(number, "+")
	region, known := "", false
	for n := min(len(digits), maxDialPrefix); n > 0; n-- {
		of, ok := d.byPrefix[digits[:n]]
		if !ok {
			continue
		}
		id, ofAny := of[""]
		if ofAny && len(of) == 1 {
			return id
		}
		if !known {
			region, known = phone.Region(number), true
		}
		if regional, ok := of[region]; ok {
			return regional
		}
		if ofAny {
			return id
		}
	}
	return 0
}

const maxDialPrefix = 7

// allows says whether a list of countries, in which none means all, has country.
func allows(countries []int64, country int64) bool {
	return len(countries) == 0 || slices.Contains(countries, country)
}

// CheckApp refuses the number of a sender that the server drives to an app: it would take the tasks that the server is about to
// send, or settle them. Another server's change of a sender is noticed after at most four seconds. Fault: sender.is_driven.
func (s *Service) CheckApp(ctx context.Context, appID string) error {
	d, err := s.directory.Get(ctx)
	if err != nil {
		return err
	}
	if _, driven := d.driven[appID]; driven {
		return fault.New(fault.Conflict, fault.SenderIsDriven)
	}
	return nil
}

// CompanyNo is the number of a company, which is there.
func (s *Service) CompanyNo(ctx context.Context, id int64) (string, error) {
	d, err := s.directory.Get(ctx)
	if err == nil && d.companies[id].CompanyNo == "" { // another server has added it
		d, err = s.directory.Since(ctx, time.Now())
	}
	if err != nil {
		return "", err
	}
	return d.companies[id].CompanyNo, nil
}

// Why a sender cannot take what waits.
const (
	WhyOff          = "off"
	WhyResting      = "resting"
	WhyNoQuota      = "no_quota"
	WhyNoFunds      = "no_funds"
	WhySilent       = "silent"
	WhyOutranked    = "outranked" // a sender of a larger sort is there
	WhyAhead        = "ahead"     // it has had its share, and a rival has not
	WhyFailedBefore = "failed_before"
)

// Candidate is a sender that may take what waits in a pool. Why is empty if it can now.
type Candidate struct {
	SenderNo string
	Why      string
	Until    *time.Time // when a sender that rests is ready
	Weight   *int64     // of its route
	Served   float64    // of its route: tasks over weight
	Shares   bool       // its rivals count on it
	Segments int        // that an attempt costs it
	Sort     float64    // in the pool
	GivesWay bool       // it was in trouble, and leaves what brought it there to all others
}

// Need is what a task needs of a sender.
type Need struct {
	PoolID   int64
	Content  string
	Sign     *string
	Segments int16 // with its own signature
}

// Candidates gives the senders that may take a task, the one that should before others that can, and whether routes name them.
func (s *Service) Candidates(ctx context.Context, n Need) ([]Candidate, bool, error) {
	values, err := s.settings.Get(ctx)
	if err != nil {
		return nil, false, err
	}
	rows, err := s.q.PoolSenders(ctx, dbq.PoolSendersParams{
		PoolID: n.PoolID, Content: n.Content, Sign: n.Sign, Segments: n.Segments,
		SilentAfter: values.Queue.SilentAfter(), NotedApart: seenApart,
	})
	if err != nil {
		return nil, false, fmt.Errorf("look at senders of pool: %w", err)
	}
	d, err := s.directory.Get(ctx)
	if err != nil {
		return nil, false, err
	}
	candidates := make([]Candidate, len(rows))
	for i, row := range rows {
		c := &candidates[i]
		c.SenderNo, c.Weight = row.SenderNo, row.Weight
		c.Served, c.Shares, c.Segments, c.Sort, c.GivesWay = row.Served, row.Shares, int(row.Segments), row.Sort, row.GivesWay
		switch {
		case !row.IsOn:
			c.Why = WhyOff
		case !row.HasFunds:
			c.Why = WhyNoFunds
		case !row.HasQuota:
			c.Why = WhyNoQuota
		case !row.IsRested:
			c.Why, c.Until = WhyResting, row.NextAvailableAt
		case !row.IsThere && !s.polledLately(row.SenderNo):
			c.Why = WhySilent
		case row.IsOutranked:
			c.Why = WhyOutranked
		}
	}
	return candidates, !d.isShared(n.PoolID), nil
}

// polledLately tells whether a sender polled this server since the last sweep noted who did.
func (s *Service) polledLately(no string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, polled := s.seen[no]
	return polled
}
