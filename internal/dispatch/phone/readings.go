package phone

import (
	"slices"
	"strconv"
	"strings"

	"github.com/nyaruka/phonenumbers"
)

// minInternational is the minimum number of digits of a number with a country code but without +. Shorter numbers can be national numbers of another region.
const minInternational = 11

// Readings returns the numbers in E.164 that a received number can be, the most probable first. Many networks and providers omit the + of international
// numbers. So a number from 11 digits on can be a national number of region or an international number. The first reading is that of Normalise: the
// international one if the number begins with the country code of region, otherwise the national one. A short code, a name or an invalid number has no reading. In
// UnknownRegion, a number without + or 00 has no reading.
func Readings(number, region string) []string {
	var all []string
	add := func(e164 string) {
		if e164 != "" && !slices.Contains(all, e164) {
			all = append(all, e164)
		}
	}
	if e164, err := Normalise("", number, region); err == nil {
		add(e164)
	}
	digits, wrong, isUnclear := bare(number)
	if wrong != "" || isUnclear || region == UnknownRegion || len(digits) < minInternational || strings.HasPrefix(digits, "+") || strings.HasPrefix(digits, "00") {
		return all
	}
	add(validE164(digits, region))
	add(validE164("+"+digits, UnknownRegion))
	return all
}

// IsE164 reports whether text is a valid number in E.164. A + before other digits is part of the name of a sender.
func IsE164(text string) bool {
	e164, err := Normalise("", text, "")
	return err == nil && e164 == text
}

// RegionWithCode returns the main region with a country code, such as DE for 49. It returns an empty text if no region has the code.
func RegionWithCode(code int) string {
	if region := phonenumbers.GetRegionCodeForCountryCode(code); IsRegion(region) {
		return region
	}
	return ""
}

// Prefixes returns the beginnings of the numbers in E.164 that start with text, by the rules of Normalise. As long as a number is incomplete, its first digits
// can be national digits, the prefix of national calls, or the country code of region. Prefixes returns nothing if no number starts with text.
func Prefixes(text, region string) []string {
	digits, wrong, _ := bare(text)
	if wrong != "" || digits == "" {
		return nil
	}
	if strings.HasPrefix(digits, "+") {
		return []string{digits}
	}
	if abroad, is := strings.CutPrefix(digits, "00"); is {
		return []string{"+" + abroad}
	}
	code := mainland
	if region != "" {
		code = "+" + strconv.Itoa(phonenumbers.GetCountryCodeForRegion(region))
	}
	all := []string{code + digits}
	if prefix := phonenumbers.GetNddPrefixForRegion(region, true); prefix != "" && strings.HasPrefix(digits, prefix) {
		all = append(all, code+digits[len(prefix):])
	}
	if strings.HasPrefix("+"+digits, code) {
		all = append(all, "+"+digits)
	}
	if e164, err := Normalise("", text, region); err == nil {
		all = append(all, e164)
	}
	slices.Sort(all)
	return slices.Compact(all)
}
