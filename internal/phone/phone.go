// Package phone checks phone numbers and gives them one form.
package phone

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/nyaruka/phonenumbers"

	"lksms/internal/fault"
)

// region is where a number without a country code is at home.
const region = "CN"

// shape is what may be sent: digits with an optional leading +, spaces and dashes; minLength to maxLength characters.
var shape = regexp.MustCompile(`^\+?[0-9][0-9 -]*[0-9]$`)

const minLength, maxLength = 11, 20

// Normalise returns number in E.164, +8613800138000, or a fault that names field.
func Normalise(field, number string) (string, error) {
	if isMainlandMobile(number) {
		return mainland + number, nil
	}
	if len(number) >= minLength && len(number) <= maxLength && shape.MatchString(number) {
		if mobile := strings.TrimPrefix(separators.Replace(number), mainland); isMainlandMobile(mobile) {
			return mainland + mobile, nil
		}
		if parsed, err := phonenumbers.Parse(number, region); err == nil && phonenumbers.IsValidNumber(parsed) {
			return phonenumbers.Format(parsed, phonenumbers.E164), nil
		}
	}
	return "", fault.InvalidField(field, fault.NotAPhoneNumber, nil)
}

const mainland = "+86"

var separators = strings.NewReplacer(" ", "", "-", "")

// isMainlandMobile knows nearly every number that comes, without the library's tables, and those of prefixes that were
// given out since the tables were made.
func isMainlandMobile(number string) bool {
	if len(number) != 11 || number[0] != '1' || number[1] < '3' {
		return false
	}
	for i := range len(number) {
		if number[i] < '0' || number[i] > '9' {
			return false
		}
	}
	return true
}

// Mask hides four digits of a number, however it is written: 138****8000. For logs.
func Mask(number string) string {
	digits := strings.Map(func(r rune) rune {
		if r < '0' || r > '9' {
			return -1
		}
		return r
	}, number)
	if len(digits) < 8 {
		return "****"
	}
	return digits[:len(digits)-8] + "****" + digits[len(digits)-4:]
}

// NormaliseFilter is Normalise for a filter that may be left out.
func NormaliseFilter(field string, number *string) (*string, error) {
	if number == nil {
		return nil, nil
	}
	normalised, err := Normalise(field, *number)
	return &normalised, err
}

// Region is the ISO 3166-1 code of the region that a number in E.164 belongs to; empty if it belongs to none. Costs some 20 µs.
func Region(number string) string {
	parsed, err := phonenumbers.Parse(number, unknownRegion)
	if err != nil {
		return ""
	}
	if found := phonenumbers.GetRegionCodeForNumber(parsed); len(found) == 2 && found != unknownRegion {
		return found
	}
	return ""
}

// unknownRegion is how the library names no region.
const unknownRegion = "ZZ"

// HasDialPrefix tells whether numbers of a region, by its ISO 3166-1 code, may begin with a dial prefix, which is without the +.
func HasDialPrefix(region, prefix string) bool {
	code := phonenumbers.GetCountryCodeForRegion(region)
	return code != 0 && strings.HasPrefix(prefix, strconv.Itoa(code))
}

// SharesCallingCode tells whether the calling code of a region is also that of others, so that a number must be looked at more
// closely.
func SharesCallingCode(region string) bool {
	return len(phonenumbers.GetRegionCodesForCountryCode(phonenumbers.GetCountryCodeForRegion(region))) > 1
}

// IsInFull tells whether said is number with the prefix of its country: as it is, without the +, with 00 in its place, or with spaces
// and the like. An address of another kind is only itself.
func IsInFull(number, said string) bool {
	if number == said {
		return true
	}
	digits, ok := strings.CutPrefix(number, "+")
	written := digitsOf(said)
	return ok && written != "" && (written == digits || written == "00"+digits)
}

// IsAtHome tells whether said is number, in E.164, as it is dialled in its country: without the prefix of the country.
func IsAtHome(number, said string) bool {
	written := digitsOf(said)
	parsed, err := phonenumbers.Parse(number, unknownRegion)
	if err != nil || written == "" {
		return false
	}
	if written == phonenumbers.GetNationalSignificantNumber(parsed) {
		return true
	}
	dialled, err := phonenumbers.Parse(said, phonenumbers.GetRegionCodeForNumber(parsed))
	return err == nil && phonenumbers.Format(dialled, phonenumbers.E164) == number
}

// digitsOf are the digits of a number, however it is written; empty for what is none.
func digitsOf(said string) string {
	written := strings.Map(func(r rune) rune {
		if strings.ContainsRune(" -.()/", r) {
			return -1
		}
		return r
	}, strings.TrimPrefix(strings.TrimSpace(said), "+"))
	if strings.Trim(written, "0123456789") != "" {
		return ""
	}
	return written
}
