// Package phone validates phone numbers and normalises them to E.164.
package phone

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/nyaruka/phonenumbers"

	"lksms/internal/fault"
)

// region is the region of a number without a country code.
const region = "CN"

// shape is the form of an accepted number: digits with an optional leading +, spaces and dashes; minLength to
// maxLength characters.
var shape = regexp.MustCompile(`^\+?[0-9][0-9 -]*[0-9]$`)

const minLength, maxLength = 11, 20

// Normalise returns number in E.164, for example +8613800138000, or a fault that names field.
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

// Beginning returns how a number in E.164 begins that begins with text, in a notation that Normalise accepts; empty if no number does.
func Beginning(text string) string {
	number := separators.Replace(text)
	switch digits, isFull := strings.CutPrefix(number, "+"); {
	case number == "" || strings.Trim(digits, "0123456789") != "":
		return ""
	case isFull:
		return number
	default:
		return mainland + number
	}
}

const mainland = "+86"

// e164Most is how many digits a number has at most.
const e164Most = 15

var separators = strings.NewReplacer(" ", "", "-", "")

// isMainlandMobile recognises mobile numbers of mainland China, which nearly all numbers are, without the tables of
// the library. It also accepts prefixes that were assigned after the tables were made.
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

// Mask hides four digits of a number in any notation, for logs: 138****8000. It hides everything of a text with more digits than a number has.
func Mask(number string) string {
	digits := strings.Map(func(r rune) rune {
		if r < '0' || r > '9' {
			return -1
		}
		return r
	}, number)
	if len(digits) < 8 || len(digits) > e164Most {
		return "****"
	}
	return digits[:len(digits)-8] + "****" + digits[len(digits)-4:]
}

// NormaliseFilter is Normalise for an optional filter.
func NormaliseFilter(field string, number *string) (*string, error) {
	if number == nil {
		return nil, nil
	}
	normalised, err := Normalise(field, *number)
	return &normalised, err
}

// Region returns the ISO 3166-1 code of the region of a number in E.164; empty if it has none. A call costs about 20
// µs.
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

// unknownRegion is the library's name for no region.
const unknownRegion = "ZZ"

// HasDialPrefix reports whether numbers of a region (ISO 3166-1 code) can begin with a dial prefix, which has no plus
// sign.
func HasDialPrefix(region, prefix string) bool {
	code := phonenumbers.GetCountryCodeForRegion(region)
	return code != 0 && strings.HasPrefix(prefix, strconv.Itoa(code))
}

// RegionsOf returns the regions with HasDialPrefix, sorted.
func RegionsOf(prefix string) []string {
	var regions []string
	for n := 1; n <= min(3, len(prefix)); n++ { // calling codes have up to three digits, and none is the start of another
		if code, err := strconv.Atoi(prefix[:n]); err == nil {
			regions = append(regions, phonenumbers.GetRegionCodesForCountryCode(code)...)
		}
	}
	slices.Sort(regions)
	return regions
}

// SharesCallingCode reports whether a region has its calling code in common with other regions, so that the code
// alone does not identify the region of a number.
func SharesCallingCode(region string) bool {
	return len(phonenumbers.GetRegionCodesForCountryCode(phonenumbers.GetCountryCodeForRegion(region))) > 1
}

// IsInFull reports whether candidate is number with the prefix of its country: unchanged, without the +, with 00 for
// the +, or with separators. An address of another kind matches only itself.
func IsInFull(number, candidate string) bool {
	if number == candidate {
		return true
	}
	e164, ok := strings.CutPrefix(number, "+")
	digits := digitsOf(candidate)
	return ok && digits != "" && (digits == e164 || digits == "00"+e164)
}

// IsAtHome reports whether candidate is number, which is in E.164, in the form that is dialled inside its country.
func IsAtHome(number, candidate string) bool {
	digits := digitsOf(candidate)
	parsed, err := phonenumbers.Parse(number, unknownRegion)
	if err != nil || digits == "" {
		return false
	}
	if digits == phonenumbers.GetNationalSignificantNumber(parsed) {
		return true
	}
	dialled, err := phonenumbers.Parse(candidate, phonenumbers.GetRegionCodeForNumber(parsed))
	return err == nil && phonenumbers.Format(dialled, phonenumbers.E164) == number
}

// AtHome returns a number that is in E.164 as it is dialled inside its country, without a leading 0; empty if it is none.
func AtHome(number string) string {
	parsed, err := phonenumbers.Parse(number, unknownRegion)
	if err != nil {
		return ""
	}
	return phonenumbers.GetNationalSignificantNumber(parsed)
}

// digitsOf returns the digits of a number in any notation; empty if text is no number.
func digitsOf(text string) string {
	digits := strings.Map(func(r rune) rune {
		if strings.ContainsRune(" -.()/", r) {
			return -1
		}
		return r
	}, strings.TrimPrefix(strings.TrimSpace(text), "+"))
	if strings.Trim(digits, "0123456789") != "" {
		return ""
	}
	return digits
}
