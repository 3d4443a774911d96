package directory

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

// view is what a submission asks: small, and changed by administrators alone.
type view struct {
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
func (s *Service) load(ctx context.Context) (*view, error) {
	q := dbq.New(s.db.Beside)
	version, err := q.DirectoryVersion(ctx)
	if err != nil {
		return nil, fmt.Errorf("read version of directory: %w", err)
	}
	if d := s.loaded.Load(); d != nil && d.version == version {
		return d, nil
	}
	d := &view{
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

// Place is where a message belongs.
type Place struct {
	Version   int64 // of the directory that says so
	PoolID    int64
	CountryNo string  // empty: of no country that is known
	Weight    float64 // of the company
}

// Place finds where a message of a company to recipient belongs on a channel: on SMS a phone number in E.164, whose country counts; on
// others an address of another kind, which is in no country. Nothing is refused by what was so before asOf: another server may have
// added what is missing. Faults, which come with the place nevertheless: request.invalid for a country to which the company may not send
// or which the channel does not serve, and for a signature that is missing.
func (s *Service) Place(ctx context.Context, asOf time.Time, channel string, companyID int64, messageType int16, recipient string, signed bool) (Place, error) {
	d, err := s.cache.Get(ctx)
	if err != nil {
		return Place{}, err
	}
	place, wrong := d.place(channel, companyID, messageType, recipient, signed)
	if wrong == nil {
		return place, nil
	}
	if d, err = s.cache.Since(ctx, asOf); err != nil {
		return Place{}, err
	}
	return d.place(channel, companyID, messageType, recipient, signed)
}

func (d *view) place(channel string, companyID int64, messageType int16, recipient string, signed bool) (Place, error) {
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
func (d *view) poolOf(channel, company int64, messageType int16, country int64) int64 {
	for _, key := range []poolKey{{channel, company, messageType, country}, {channel, company, messageType, 0}} {
		if pool, ok := d.pools[key]; ok {
			return pool
		}
	}
	return d.pools[poolKey{channel: channel}]
}

// addPrefix files a country under its dial prefix. A region that shares its calling code with none has every number of the prefix, so
// that nothing is looked up for its numbers.
func (d *view) addPrefix(c dbq.DirectoryCountriesRow) {
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
func (d *view) countryOf(number string) int64 {
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

// IsDriven reports whether the server drives a sender. Another server's change is noticed after at most four seconds.
func (s *Service) IsDriven(ctx context.Context, senderNo string) (bool, error) {
	v, err := s.cache.Get(ctx)
	if err != nil {
		return false, err
	}
	_, isDriven := v.driven[senderNo]
	return isDriven, nil
}

// IsShared reports whether a pool is the shared one of a channel.
func (s *Service) IsShared(ctx context.Context, pool int64) (bool, error) {
	v, err := s.cache.Get(ctx)
	if err != nil {
		return false, err
	}
	for _, c := range v.channels {
		if v.pools[poolKey{channel: c.ID}] == pool {
			return true, nil
		}
	}
	return false, nil
}
