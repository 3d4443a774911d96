package directory

import (
	"context"
	"math"

	"lksms/gen/directoryq"
	"lksms/internal/platform/fault"
	"lksms/internal/platform/postgres"
)

// Channel is a channel to create.
type Channel struct {
	Channel           string
	Name              string
	SignatureRequired bool
	Status            string // On or Off
	Countries         Countries
	RetryMinutes      []int64 // minutes before each retry of a driven sender; nil: the setting of the server
}

// CreateChannel adds a channel and its shared pool. Fault: exists.
func (s *Service) CreateChannel(ctx context.Context, c Channel) (ChannelRow, error) {
	err := s.Change(ctx, func(ctx context.Context) error {
		if err := s.checkCountries(ctx, c.Countries); err != nil {
			return err
		}
		_, err := s.q.ChannelCreate(ctx, directoryq.ChannelCreateParams{
			Channel: c.Channel, Name: c.Name, SignatureRequired: c.SignatureRequired, Status: c.Status, Countries: c.Countries.On,
			CountriesOff: c.Countries.Off, AnyCountry: c.Countries.Any, RetryMinutes: c.RetryMinutes,
		})
		if postgres.Violates(err, "channels_channel_key") {
			return fault.New(fault.Conflict, fault.Exists)
		}
		return postgres.Wrap("create channel", err, nil)
	})
	if err != nil {
		return ChannelRow{}, err
	}
	return s.GetChannel(ctx, c.Channel)
}

// GetChannel returns one channel, or the fault channel.not_found.
func (s *Service) GetChannel(ctx context.Context, channel string) (ChannelRow, error) {
	rows, err := s.q.ChannelList(ctx, directoryq.ChannelListParams{BeforeID: math.MaxInt64, Channel: &channel, PageLimit: 1})
	return postgres.One(rows, err, "get channel", ErrNoChannel)
}

// ListChannels lists up to limit channels with smaller ids than `before`, newest first.
func (s *Service) ListChannels(ctx context.Context, before int64, limit int) ([]ChannelRow, error) {
	rows, err := s.q.ChannelList(ctx, directoryq.ChannelListParams{BeforeID: before, PageLimit: int32(limit)})
	return rows, postgres.Wrap("list channels", err, nil)
}

// UpdateChannel applies change to a channel. If version is not nil, the channel must have this version. Faults: channel.not_found, version.stale,
// request.invalid.
func (s *Service) UpdateChannel(ctx context.Context, channel string, version *int64, change func(*Channel)) (row ChannelRow, err error) {
	err = s.Change(ctx, func(ctx context.Context) error {
		s.switchAfterCommit(ctx)
		read := func() (ChannelRow, error) { return s.GetChannel(ctx, channel) }
		row, err = postgres.Patch(version, read, func(r ChannelRow) int64 { return r.Version }, func(was ChannelRow) (int64, error) {
			c := Channel{
				Channel: channel, Name: was.Name, SignatureRequired: was.SignatureRequired, Status: was.Status,
				Countries: CountriesOf(was.AnyCountry, was.Countries, was.CountriesOff), RetryMinutes: was.RetryMinutes,
			}
			listed := c.Countries
			change(&c)
			if err := s.checkCountries(ctx, c.Countries); err != nil {
				return 0, err
			}
			n, err := s.q.ChannelUpdate(ctx, directoryq.ChannelUpdateParams{
				Channel: channel, Name: c.Name, SignatureRequired: c.SignatureRequired, RetryMinutes: c.RetryMinutes, Status: c.Status,
				AnyCountry: c.Countries.Any, Version: was.Version,
			})
			if err == nil && n > 0 && !c.Countries.hasRowsOf(listed) {
				err = s.listServed(ctx, channel, c.Countries)
			}
			return n, postgres.Wrap("update channel", err, nil)
		})
		return err
	})
	return row, err
}

// listServed replaces the countries that a channel serves, and the countries that are off for the channel.
func (s *Service) listServed(ctx context.Context, channel string, c Countries) error {
	on, off := c.lists()
	err := s.q.ChannelUnlist(ctx, directoryq.ChannelUnlistParams{Channel: channel, Countries: on, CountriesOff: off})
	if err != nil || len(on)+len(off) == 0 {
		return err
	}
	return s.q.ChannelServe(ctx, directoryq.ChannelServeParams{Channel: channel, Countries: on, CountriesOff: off})
}

// DeleteChannel removes a channel that has no senders. The channel sms cannot be removed. Faults: channel.not_found, in_use.
func (s *Service) DeleteChannel(ctx context.Context, channel string) error {
	if channel == SMS {
		return fault.New(fault.Conflict, fault.InUse)
	}
	return s.Change(ctx, func(ctx context.Context) error {
		// The foreign key would delete these rows, too, but then the audit could not name the channel.
		if err := s.listServed(ctx, channel, Countries{}); err != nil {
			return postgres.Wrap("delete countries of channel", err, nil)
		}
		n, err := s.q.ChannelDelete(ctx, channel)
		return postgres.Deleted(n, err, "delete channel", func() (ChannelRow, error) { return s.GetChannel(ctx, channel) })
	})
}
