package directory

import (
	"context"
	"fmt"
	"slices"

	"lksms/gen/directoryq"
	"lksms/internal/platform/fault"
)

// These are the states of a company, a channel, a country and a route.
const (
	On  = "on"
	Off = "off"
)

// Countries are the countries to which a company can send, or that a channel serves, by country number.
type Countries struct {
	Any bool     // all countries except Off, if On is empty
	On  []string // only these countries; empty: Any decides
	Off []string // messages to these countries are accepted and held
}

// CountriesOf returns the countries of a stored company or channel. Any is set only if no country is on.
func CountriesOf(isAny bool, on, off []string) Countries {
	return Countries{Any: isAny && len(on) == 0, On: on, Off: off}
}

// Change applies the lists and isAny of a request. A nil pointer means that the request does not contain the field. If on differs from the stored list, Any is
// cleared unless the request contains isAny. If the request contains only off, the countries in off are removed from On.
func (c *Countries) Change(on, off *[]string, isAny *bool) {
	if on != nil && !slices.Equal(*on, c.On) {
		c.On, c.Any = *on, false
	}
	if off != nil {
		c.Off = *off
		if on == nil {
			c.On = slices.DeleteFunc(slices.Clone(c.On), func(no string) bool { return slices.Contains(*off, no) })
		}
	} else if on != nil { // a country in the new list on is no longer off
		c.Off = slices.DeleteFunc(slices.Clone(c.Off), func(no string) bool { return slices.Contains(*on, no) })
	}
	if isAny != nil {
		c.Any = *isAny
		if on == nil && *isAny {
			c.On = nil
		}
	}
}

// lists returns both lists as parameters of a statement. Neither list is nil, because a nil slice would be NULL, and NULL equals nothing.
func (c Countries) lists() (on, off []string) {
	return append([]string{}, c.On...), append([]string{}, c.Off...)
}

// hasRowsOf reports whether the same countries are on and off in c and other.
func (c Countries) hasRowsOf(other Countries) bool {
	return slices.Equal(c.On, other.On) && slices.Equal(c.Off, other.Off)
}

// checkCountries returns the fault request.invalid if a country does not exist, if a country is both on and off, or if Any and On are both set.
func (s *Service) checkCountries(ctx context.Context, c Countries) error {
	if c.Any && len(c.On) > 0 {
		return fault.InvalidField("any_country", fault.NotTogether, "countries")
	}
	var unknown []string
	if all := slices.Concat(c.On, c.Off); len(all) > 0 {
		var err error
		if unknown, err = s.q.CountriesUnknown(ctx, all); err != nil {
			return fmt.Errorf("check countries: %w", err)
		}
	}
	var wrong fault.Fields
	isUnknown := func(no string) bool { return slices.Contains(unknown, no) }
	fault.InvalidItems(&wrong, "countries", c.On, fault.NotThere, nil, isUnknown)
	fault.InvalidItems(&wrong, "countries_off", c.Off, fault.NotThere, nil, isUnknown)
	fault.InvalidItems(&wrong, "countries_off", c.Off, fault.NotTogether, "countries", func(no string) bool { return slices.Contains(c.On, no) && !isUnknown(no) })
	return wrong.Err() //nolint:wrapcheck // the error is a fault
}

// allows reports whether a company or channel accepts messages to a country. Messages to a country that is off are accepted and held.
func allows(isAny bool, on, off []int64, country int64) bool {
	return slices.Contains(on, country) || slices.Contains(off, country) || isAny && len(on) == 0
}

func companyAllows(c directoryq.DirectoryCompaniesRow, country int64) bool {
	return allows(c.AnyCountry, c.Countries, c.CountriesOff, country)
}

func channelAllows(c directoryq.DirectoryChannelsRow, country int64) bool {
	return allows(c.AnyCountry, c.Countries, c.CountriesOff, country)
}
