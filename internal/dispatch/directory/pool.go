package directory

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"lksms/gen/directoryq"
	"lksms/internal/dispatch/phone"
	"lksms/internal/platform/fault"
	"lksms/internal/platform/postgres"
)

// view is a copy of the part of the directory that submissions need. The view is small, and only administrators change the directory.
type view struct {
	version   int64 // version of the directory in the database, read before the other fields
	companies map[int64]directoryq.DirectoryCompaniesRow
	recipient map[int64]RecipientRules // by the id of the company
	countries map[int64]directoryq.DirectoryCountriesRow
	byPrefix  map[string]map[string]int64 // id of the country, by dial prefix and then by region; region "" means any region
	channels  map[string]directoryq.DirectoryChannelsRow
	pools     map[poolKey]int64
	driven    map[string]struct{} // senders that the server drives
}

// poolKey identifies a pool. Company 0 means the shared pool of a channel, and country 0 means any country.
type poolKey struct {
	channel, company int64
	messageType      int16
	country          int64
}

// Version returns a number that grows with each change of the directory.
func (s *Service) Version(ctx context.Context) (int64, error) {
	version, err := s.q.DirectoryVersion(ctx)
	return version, postgres.Wrap("read version of directory", err, nil)
}

// load returns a view of the directory. It reuses the previous view if the version has not changed.
func (s *Service) load(ctx context.Context) (*view, error) {
	q := directoryq.New(s.db.Outside())
	version, err := q.DirectoryVersion(ctx)
	if err != nil {
		return nil, fmt.Errorf("read version of directory: %w", err)
	}
	if d := s.loaded.Load(); d != nil && d.version == version {
		return d, nil
	}
	d := &view{
		version: version, companies: map[int64]directoryq.DirectoryCompaniesRow{}, recipient: map[int64]RecipientRules{}, countries: map[int64]directoryq.DirectoryCountriesRow{},
		byPrefix: map[string]map[string]int64{}, channels: map[string]directoryq.DirectoryChannelsRow{}, pools: map[poolKey]int64{},
		driven: map[string]struct{}{},
	}
	companies, err := q.DirectoryCompanies(ctx)
	if err != nil {
		return nil, fmt.Errorf("read companies: %w", err)
	}
	for _, c := range companies {
		d.companies[c.ID] = c
		if d.recipient[c.ID], err = recipientRulesOf(c.CompanyNo, c.Recipient); err != nil {
			return nil, err
		}
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

// Pool is the pool of a message.
type Pool struct {
	Version   int64 // version of the view
	ID        int64
	CountryNo string // empty: the country is unknown
}

// FindPool finds the pool of a company's message to recipient on a channel. On SMS, recipient is a phone number in E.164, and its country affects the result.
// On other channels the address has no country. FindPool rejects a message only with a view that was loaded after asOf, because an older view can lack rows
// that another server has added. Faults: request.invalid for a country to which the company cannot send or which the channel does not serve, for a missing
// signature, and for a company that was deleted. The returned Pool is also set if FindPool returns a fault. If a message was accepted before its country was removed, the message waits
// in this pool and is held by a switch (Held).
func (s *Service) FindPool(ctx context.Context, asOf time.Time, channel string, companyID int64, messageType int16, recipient string, signed bool) (Pool, error) {
	d, err := s.cache.Get(ctx)
	if err != nil {
		return Pool{}, err
	}
	pool, err := d.findPool(channel, companyID, messageType, recipient, signed)
	if err == nil {
		return pool, nil
	}
	if d, err = s.cache.Since(ctx, asOf); err != nil {
		return Pool{}, err
	}
	return d.findPool(channel, companyID, messageType, recipient, signed)
}

// PoolOf returns the pool of a company's messages of a type to a country on a channel. An empty country means that the country of the number is unknown.
func (s *Service) PoolOf(ctx context.Context, channel string, companyID int64, messageType int16, countryNo string) (int64, error) {
	d, err := s.cache.Get(ctx)
	if err != nil {
		return 0, err
	}
	country := int64(0)
	for id, c := range d.countries {
		if countryNo != "" && c.CountryNo == countryNo {
			country = id
		}
	}
	return d.poolOf(d.channels[channel].ID, companyID, messageType, country), nil
}

// IsRouted reports whether a company has a route for messages of a type on a channel, either to all countries or to one country.
func (s *Service) IsRouted(ctx context.Context, channel string, companyID int64, messageType int16) (bool, error) {
	d, err := s.cache.Get(ctx)
	if err != nil {
		return false, err
	}
	key := poolKey{channel: d.channels[channel].ID, company: companyID, messageType: messageType}
	if _, toAny := d.pools[key]; toAny {
		return true, nil
	}
	for key.country = range d.countries {
		if _, found := d.pools[key]; found {
			return true, nil
		}
	}
	return false, nil
}

// Held returns nil for the fault of a country that is not served, because a message that was accepted earlier is held and not refused (see FindPool). It
// returns any other error unchanged.
func Held(err error) error {
	var wrong *fault.Error
	if errors.As(err, &wrong) && len(wrong.Fields) == 1 && wrong.Fields[0].Rule == fault.CountryNotServed {
		return nil
	}
	return err
}

func (d *view) findPool(channel string, companyID int64, messageType int16, recipient string, signed bool) (Pool, error) {
	ch, ok := d.channels[channel]
	if !ok {
		return Pool{}, fmt.Errorf("channel %s does not exist", channel)
	}
	company, hasCompany := d.companies[companyID]
	var country int64
	if channel == SMS {
		country = d.countryOf(recipient)
	}
	pool := Pool{Version: d.version, CountryNo: d.countries[country].CountryNo}
	pool.ID = d.poolOf(ch.ID, companyID, messageType, country)
	switch {
	case !hasCompany: // the pool is the shared pool, because the routes of the company were deleted with the company
		return pool, fault.InvalidField("company_no", fault.NotThere, nil)
	case !signed && (ch.SignatureRequired || d.countries[country].SignatureRequired):
		return pool, fault.InvalidField("sign", fault.Required, nil)
	case channel == SMS && (!companyAllows(company, country) || !channelAllows(ch, country)):
		return pool, fault.InvalidField("phone_number", fault.CountryNotServed, nil)
	}
	return pool, nil
}

// poolOf returns the pool of the company's routes for the country. If no such pool exists, it returns the pool of the routes for any country, and otherwise
// the shared pool of the channel.
func (d *view) poolOf(channel, company int64, messageType int16, country int64) int64 {
	for _, key := range []poolKey{{channel, company, messageType, country}, {channel, company, messageType, 0}} {
		if pool, ok := d.pools[key]; ok {
			return pool
		}
	}
	return d.pools[poolKey{channel: channel}]
}

// addPrefix adds a country under its dial prefix. If no other region has the same calling code, the country is added for all regions, so that countryOf need
// not look up the region of a number.
func (d *view) addPrefix(c directoryq.DirectoryCountriesRow) {
	region := ""
	if c.Region != nil && phone.SharesCallingCode(*c.Region) {
		region = *c.Region
	}
	byRegion := d.byPrefix[c.DialPrefix]
	if byRegion == nil {
		byRegion = map[string]int64{}
		d.byPrefix[c.DialPrefix] = byRegion
	}
	if _, taken := byRegion[region]; !taken || c.Region != nil { // a country with a region replaces a country without a region
		byRegion[region] = c.ID
	}
}

// countryOf returns the country with the longest dial prefix that matches a number in E.164. If several countries have this prefix, it returns the country of
// the number's region, and otherwise the country for any region. It returns 0 if no country matches.
func (d *view) countryOf(number string) int64 {
	digits := strings.TrimPrefix(number, "+")
	region, known := "", false
	for n := min(len(digits), maxDialPrefix); n > 0; n-- {
		byRegion, ok := d.byPrefix[digits[:n]]
		if !ok {
			continue
		}
		id, hasAny := byRegion[""]
		if hasAny && len(byRegion) == 1 {
			return id
		}
		if !known {
			region, known = phone.Region(number), true
		}
		if regional, ok := byRegion[region]; ok {
			return regional
		}
		if hasAny {
			return id
		}
	}
	return 0
}

// maxDialPrefix is the maximum length of a dial prefix in digits.
const maxDialPrefix = 7

// IsDriven reports whether the server drives a sender. A change by another server takes effect within four seconds.
func (s *Service) IsDriven(ctx context.Context, senderNo string) (bool, error) {
	v, err := s.cache.Get(ctx)
	if err != nil {
		return false, err
	}
	_, isDriven := v.driven[senderNo]
	return isDriven, nil
}

// IsShared reports whether a pool is the shared pool of a channel.
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
