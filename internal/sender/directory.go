package sender

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"lksms/gen/dbq"
	"lksms/internal/fault"
)

// SMS is the channel of short messages.
const SMS = "sms"

// directory is what a submission asks: small, and changed by administrators alone.
type directory struct {
	companies map[int64]dbq.DirectoryCompaniesRow
	countries map[int64]dbq.DirectoryCountriesRow
	byPrefix  map[string]int64 // of countries
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

func (s *Service) load(ctx context.Context) (*directory, error) {
	q := dbq.New(s.db.Beside)
	d := &directory{
		companies: map[int64]dbq.DirectoryCompaniesRow{}, countries: map[int64]dbq.DirectoryCountriesRow{},
		byPrefix: map[string]int64{}, channels: map[string]dbq.DirectoryChannelsRow{}, pools: map[poolKey]int64{}, driven: map[string]struct{}{},
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
		d.countries[c.ID], d.byPrefix[c.DialPrefix] = c, c.ID
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
	return d, nil
}

// Place is where a message belongs.
type Place struct {
	PoolID    int64
	CountryNo string  // empty: of no country that is known
	Weight    float64 // of the company
}

// Place finds where a message of a company to recipient, in E.164 where it is a phone number, belongs on a channel. Faults: request.invalid for a country
// to which the company may not send or which the channel does not serve, and for a signature that is missing.
func (s *Service) Place(ctx context.Context, channel string, companyID int64, messageType int16, recipient string, signed bool) (Place, error) {
	d, err := s.directory.Get(ctx)
	if err != nil {
		return Place{}, err
	}
	at, ok := d.channels[channel]
	if !ok {
		return Place{}, fmt.Errorf("there is no channel %s", channel)
	}
	company, ok := d.companies[companyID]
	if !ok {
		return Place{}, fmt.Errorf("there is no company %d", companyID)
	}
	country := d.countryOf(recipient)
	if !allows(company.Countries, country) || !allows(at.Countries, country) {
		return Place{}, fault.InvalidField("phone_number", fault.CountryNotServed, nil)
	}
	if !signed && (at.SignatureRequired || d.countries[country].SignatureRequired) {
		return Place{}, fault.InvalidField("sign", fault.Required, nil)
	}
	place := Place{CountryNo: d.countries[country].CountryNo, Weight: company.Weight}
	for _, key := range []poolKey{{at.ID, companyID, messageType, country}, {at.ID, companyID, messageType, 0}} {
		if place.PoolID, ok = d.pools[key]; ok {
			return place, nil
		}
	}
	place.PoolID = d.pools[poolKey{channel: at.ID}] // of no route: the shared one
	return place, nil
}

// countryOf is the country with the longest dial prefix that recipient begins with; 0 if there is none.
func (d *directory) countryOf(recipient string) int64 {
	digits, isNumber := strings.CutPrefix(recipient, "+")
	if !isNumber { // an address of another kind
		return 0
	}
	for n := min(len(digits), maxDialPrefix); n > 0; n-- {
		if id, ok := d.byPrefix[digits[:n]]; ok {
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

// CompanyNo is the number of a company.
func (s *Service) CompanyNo(ctx context.Context, id int64) (string, error) {
	d, err := s.directory.Get(ctx)
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
	WhyFailedBefore = "failed_before"
)

// Candidate is a sender that may take what waits in a pool. Why is empty if it can now.
type Candidate struct {
	SenderNo string
	Why      string
	Until    *time.Time // when a sender that rests is ready
	Weight   *int64     // of its route
}

// Candidates gives the senders of a pool, those that can take a task first and among them the one that should, and whether
// routes name them.
func (s *Service) Candidates(ctx context.Context, poolID int64) ([]Candidate, bool, error) {
	values, err := s.settings.Get(ctx)
	if err != nil {
		return nil, false, err
	}
	// The polls of shared senders are noted only so often.
	rows, err := s.q.PoolSenders(ctx, dbq.PoolSendersParams{PoolID: poolID, SilentAfter: values.Queue.SilentAfter() + seenApart})
	if err != nil {
		return nil, false, fmt.Errorf("look at senders of pool: %w", err)
	}
	routed := false
	candidates := make([]Candidate, len(rows))
	for i, row := range rows {
		c := &candidates[i]
		c.SenderNo, c.Weight, routed = row.SenderNo, row.Weight, row.IsRouted
		switch {
		case !row.IsOn:
			c.Why = WhyOff
		case !row.HasFunds:
			c.Why = WhyNoFunds
		case !row.HasQuota:
			c.Why = WhyNoQuota
		case !row.IsRested:
			c.Why, c.Until = WhyResting, row.NextAvailableAt
		case !row.IsThere:
			c.Why = WhySilent
		}
	}
	return candidates, routed, nil
}
