// Package phone parses phone numbers in any usual notation, and converts them to E.164. All inputs use this parser: requests, lists, filters, the protocols of
// other programs, and SQL.
package phone

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/nyaruka/phonenumbers"

	"lksms/internal/platform/fault"
)

// Number is a parsed phone number.
type Number struct {
	E164    string // for example +8613800138000
	Written string // the number to store: the caller's notation, or E.164 if another program could parse that notation differently
}

// Longest is the maximum length of a number in characters, including separators and invisible characters.
const Longest = 50

// plain matches numbers that are stored as the caller wrote them, because every sender parses them like LKSMS.
var plain = regexp.MustCompile(`^\+?[0-9][0-9 -]*[0-9]$`)

const maxPlain = 20

// american matches a number that begins with 1 in the groups of North America: 1-650-555-0123 and 1 (650) 555.0123. In China, nobody writes a mobile number in
// these groups.
var american = regexp.MustCompile(`^\P{Nd}*\p{Nd}\P{Nd}+\p{Nd}{3}\P{Nd}+\p{Nd}{3}\P{Nd}+\p{Nd}{4}\P{Nd}*$`)

// Normalise works like Read, but returns only the number in E.164.
func Normalise(field, number, region string) (string, error) {
	read, err := Read(field, number, region)
	return read.E164, err
}

// Read parses a number. A number without + or 00 is a national number of region (ISO 3166-1). If region is empty, such a number must be a mobile number of
// mainland China, with or without 86, because any other number could belong to a stranger. Fault: request.invalid for field.
func Read(field, number, region string) (Number, error) {
	if isMainlandMobile(number) && isMainland(region) {
		return Number{E164: mainland + number, Written: number}, nil
	}
	if utf8.RuneCountInString(number) > Longest {
		return Number{}, fault.InvalidField(field, fault.TooLong, Longest)
	}
	dialled, wrong, isUnclear := bare(number)
	switch {
	case wrong != "":
		return Number{}, fault.InvalidField(field, fault.NoPartOfANumber, wrong)
	case isUnclear:
		return Number{}, fault.InvalidField(field, fault.NotAPhoneNumber, nil)
	}
	e164, rule := dial(dialled, region)
	if region == "" && strings.HasPrefix(dialled, "1") && american.MatchString(number) { // without a +
		rule = fault.RegionNotKnown
	}
	if rule != "" {
		return Number{}, fault.InvalidField(field, rule, nil)
	}
	written := number
	isAbroad := !strings.HasPrefix(dialled, "+") && !strings.HasPrefix(e164, mainland)
	if isAbroad || len(number) > maxPlain || !plain.MatchString(number) {
		written = e164
	}
	return Number{E164: e164, Written: written}, nil
}

// dial returns a number in E.164, or the rule that the number breaks. dialled consists of digits with an optional leading +.
func dial(dialled, region string) (string, fault.Rule) {
	digits, isFull := strings.CutPrefix(dialled, "+")
	if abroad, is := strings.CutPrefix(digits, "00"); is && !isFull {
		digits, isFull = abroad, true
	}
	if isFull {
		region = UnknownRegion
		dialled = "+" + digits
	}
	if mobile := strings.TrimPrefix(digits, mainland[1:]); isMainlandMobile(mobile) && (isFull && mobile != digits || !isFull && isMainland(region)) {
		return mainland + mobile, ""
	}
	if region == "" {
		if len(digits) >= minNational && len(digits) <= e164Most {
			return "", fault.RegionNotKnown
		}
		return "", fault.NotAPhoneNumber
	}
	if !isFull && lacksPlus(digits, region) {
		if e164 := validE164("+"+digits, UnknownRegion); e164 != "" {
			return e164, ""
		}
	}
	if e164 := validE164(dialled, region); e164 != "" {
		return e164, ""
	}
	return "", fault.NotAPhoneNumber
}

// validE164 returns a number in E.164, or an empty text if the number is not valid.
func validE164(dialled, region string) string {
	parsed, err := phonenumbers.Parse(dialled, region)
	if err != nil || !phonenumbers.IsValidNumber(parsed) {
		return ""
	}
	return phonenumbers.Format(parsed, phonenumbers.E164)
}

// lacksPlus reports whether a number is an international number of region without its +, provided that it is valid. In a region whose national numbers begin
// with a prefix such as 0, such digits can also be a national number without the prefix: 4915112345678 is +49 151 12345678, and not +49 4915 112345678.
func lacksPlus(digits, region string) bool {
	prefix := phonenumbers.GetNddPrefixForRegion(region, true)
	return prefix != "" && !strings.HasPrefix(digits, prefix) && strings.HasPrefix(digits, strconv.Itoa(phonenumbers.GetCountryCodeForRegion(region)))
}

// minNational is the minimum number of digits of a national number whose region is unknown. A shorter number is no phone number.
const minNational = 8

// isMainland reports whether region allows a mobile number of mainland China without a country code. An empty region allows such a number.
func isMainland(region string) bool { return region == "" || region == Home }

// spreadsheet matches the digits and dots of a number that a spreadsheet stored as a decimal: 13800138000.0. The SQL function number_digits has the same rule.
var spreadsheet = regexp.MustCompile(`^(\+?[0-9]{7,})\.0{1,2}$`)

// decimals matches the digits and dots of a text that ends like a decimal, and twoDigitGroups those of a number that only looks like a decimal: 01.23.45.67.00.
var decimals, twoDigitGroups = regexp.MustCompile(`\.0{1,2}\.*$`), regexp.MustCompile(`\.[0-9]{2}\.00\.*$`)

// Digits returns the digits of a number in ASCII, with a leading + if the number has one. isNumber is false if text contains a character that cannot occur in
// a number. isNumber is true for text without digits, because such a text can be the beginning of a number.
func Digits(text string) (digits string, isNumber bool) {
	digits, wrong, _ := bare(text)
	return digits, wrong == ""
}

// bare returns the digits of a number, with a leading + if the number has one, and without separators and the decimals of a spreadsheet. wrong describes the
// first other character and its position, for example U+0061 (4). isUnclear: the number ends like a decimal, but is not the decimal of a spreadsheet, such as
// +62.812.345.678.0. Its last 0 can be a digit or a decimal, and with the wrong one the number belongs to a stranger.
func bare(number string) (digits, wrong string, isUnclear bool) {
	dotted, wrong := withDots(number)
	if whole := spreadsheet.FindStringSubmatch(dotted); whole != nil {
		return whole[1], wrong, false
	}
	return strings.ReplaceAll(dotted, ".", ""), wrong, decimals.MatchString(dotted) && !twoDigitGroups.MatchString(dotted)
}

// withDots returns the digits and dots of a number, with a leading + if the number has one, and without the other separators: white space, invisible characters,
// dashes, brackets, and the leading apostrophe of a spreadsheet. wrong works like that of bare.
func withDots(number string) (dotted, wrong string) {
	var b strings.Builder
	place, hasBegun := 0, false // hasBegun: the number has a + or a digit
	for _, c := range number {
		place++
		if isInvisible(c) {
			continue
		}
		switch kind := ascii(c); {
		case kind >= '0' && kind <= '9', kind == '+' && !hasBegun:
			b.WriteRune(kind)
			hasBegun = true
		case kind == '.':
			b.WriteRune(kind)
		case strings.ContainsRune("-()[]", kind), kind == '\'' && !hasBegun:
		default:
			return "", fmt.Sprintf("U+%04X (%d)", c, place)
		}
	}
	return b.String(), ""
}

// isInvisible reports whether a character is white space, or an invisible character that often surrounds copied text.
func isInvisible(c rune) bool {
	switch {
	case c == '\t', c == ' ', c == 0xAD, c == 0x061C, c == 0x180E, c >= 0x200B && c <= 0x200F, c >= 0x202A && c <= 0x202E, c >= 0x2060 && c <= 0x206F, c == 0xFEFF:
		return true
	}
	return c > 0x7F && unicode.IsSpace(c) || c == '\n' || c == '\r'
}

// ascii returns the ASCII equivalent of a full-width or Arabic digit, a dash, a dot or a bracket. It returns any other character unchanged.
func ascii(c rune) rune {
	switch {
	case c < 0x80:
		return c
	case c >= 0xFF01 && c <= 0xFF5E: // full-width forms
		return c - 0xFF01 + '!'
	case c >= 0x0660 && c <= 0x0669:
		return c - 0x0660 + '0'
	case c >= 0x06F0 && c <= 0x06F9:
		return c - 0x06F0 + '0'
	case c >= 0x2010 && c <= 0x2015, c == 0x2212, c == 0xFE63:
		return '-'
	case c == 0x00B7, c == 0x2022, c == 0x3002:
		return '.'
	case c == 0x2018, c == 0x2019:
		return '\''
	}
	return c
}

// IsRegion reports whether a region (ISO 3166-1 code) has phone numbers.
func IsRegion(region string) bool { return phonenumbers.GetCountryCodeForRegion(region) != 0 }

// CheckRegion returns the fault request.invalid for an unknown region.
func CheckRegion(field, region string) error {
	if region != "" && !IsRegion(region) {
		return fault.InvalidField(field, fault.NotARegion, region)
	}
	return nil
}

const mainland = "+86"

// e164Most is the maximum number of digits of a number.
const e164Most = 15

// isMainlandMobile reports whether a number is a mobile number of mainland China. Nearly all numbers are such numbers. The function does not use the tables
// of the library, so it also accepts prefixes that were assigned after the tables were made.
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

// Mask hides four digits of a number in any notation, for logs: 138****8000. It hides the whole text if the text has fewer than 8 digits, or more digits than a
// number.
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

// NormaliseFilter works like Normalise for an optional filter. It returns nil if number is nil.
func NormaliseFilter(field string, number *string, region string) (*string, error) {
	if number == nil {
		return nil, nil
	}
	normalised, err := Normalise(field, *number, region)
	return &normalised, err
}

// IsMobileOfChina reports whether a number in E.164 is a mobile number of mainland China. Most numbers are, and need no parsing.
func IsMobileOfChina(number string) bool {
	return strings.HasPrefix(number, mainland) && isMainlandMobile(number[len(mainland):])
}

// Region returns the ISO 3166-1 code of the region of a number in E.164. It returns an empty string if the number has no region. A call takes about 20 µs.
func Region(number string) string {
	if IsMobileOfChina(number) {
		return Home
	}
	parsed, err := phonenumbers.Parse(number, UnknownRegion)
	if err != nil {
		return ""
	}
	if found := phonenumbers.GetRegionCodeForNumber(parsed); len(found) == 2 && found != UnknownRegion {
		return found
	}
	return ""
}

// CountryCode returns + and the country code of a number in E.164. It returns an empty string if the number cannot be parsed.
func CountryCode(number string) string {
	if IsMobileOfChina(number) {
		return mainland
	}
	parsed, err := phonenumbers.Parse(number, UnknownRegion)
	if err != nil {
		return ""
	}
	return "+" + strconv.Itoa(int(parsed.GetCountryCode()))
}

// IsWhole reports whether a text in E.164 is a whole number, and not only its beginning.
func IsWhole(number string) bool {
	parsed, err := phonenumbers.Parse(number, UnknownRegion)
	return err == nil && phonenumbers.IsValidNumber(parsed)
}

// GetsTexts reports whether a number in E.164 can belong to a mobile phone. Fixed lines, and service numbers such as premium-rate numbers, cannot. An unknown kind of
// number can.
func GetsTexts(number string) bool {
	if IsMobileOfChina(number) {
		return true
	}
	parsed, err := phonenumbers.Parse(number, UnknownRegion)
	if err != nil {
		return true
	}
	switch phonenumbers.GetNumberType(parsed) {
	case phonenumbers.FIXED_LINE, phonenumbers.TOLL_FREE, phonenumbers.PREMIUM_RATE, phonenumbers.SHARED_COST, phonenumbers.UAN, phonenumbers.PAGER, phonenumbers.VOICEMAIL,
		phonenumbers.PERSONAL_NUMBER: // can cost as much as premium-rate numbers
		return false
	default:
		return true
	}
}

// Home is the region of numbers without a country code, if a company has no region.
const Home = "CN"

// UnknownRegion is the region of a number whose country is not known. Only a number with + or 00 can be read in this region.
const UnknownRegion = "ZZ"

// HasDialPrefix reports whether numbers of a region (ISO 3166-1 code) can start with a dial prefix, which has no plus sign.
func HasDialPrefix(region, prefix string) bool {
	code := phonenumbers.GetCountryCodeForRegion(region)
	return code != 0 && strings.HasPrefix(prefix, strconv.Itoa(code))
}

// RegionsOf returns the regions for which HasDialPrefix is true, sorted.
func RegionsOf(prefix string) []string {
	var regions []string
	for n := 1; n <= min(3, len(prefix)); n++ { // calling codes have up to three digits, and no code is a prefix of another code
		if code, err := strconv.Atoi(prefix[:n]); err == nil {
			regions = append(regions, phonenumbers.GetRegionCodesForCountryCode(code)...)
		}
	}
	slices.Sort(regions)
	return regions
}

// SharesCallingCode reports whether other regions have the same calling code, so that the code alone does not identify the region of a number.
func SharesCallingCode(region string) bool {
	return len(phonenumbers.GetRegionCodesForCountryCode(phonenumbers.GetCountryCodeForRegion(region))) > 1
}

// HasCountryCode reports whether candidate is number (in E.164) with its country code: unchanged, without the +, with 00 instead of the +, or with separators.
// If number is an address and not a phone number, only the identical text matches.
func HasCountryCode(number, candidate string) bool {
	if number == candidate {
		return true
	}
	e164, ok := strings.CutPrefix(number, "+")
	digits := digitsOf(candidate)
	return ok && digits != "" && (digits == e164 || digits == "00"+e164)
}

// IsNationalFormat reports whether candidate is the national format of number, which is in E.164.
func IsNationalFormat(number, candidate string) bool {
	digits := digitsOf(candidate)
	parsed, err := phonenumbers.Parse(number, UnknownRegion)
	if err != nil || digits == "" {
		return false
	}
	if digits == phonenumbers.GetNationalSignificantNumber(parsed) {
		return true
	}
	dialled, err := phonenumbers.Parse(dialledOf(candidate), phonenumbers.GetRegionCodeForNumber(parsed))
	return err == nil && phonenumbers.Format(dialled, phonenumbers.E164) == number
}

// NationalFormat returns a number in E.164 in the national format, without a leading 0. It returns an empty string if number is not in E.164.
func NationalFormat(number string) string {
	parsed, err := phonenumbers.Parse(number, UnknownRegion)
	if err != nil {
		return ""
	}
	return phonenumbers.GetNationalSignificantNumber(parsed)
}

// digitsOf returns the digits of a number in any notation. It returns an empty string if text is no number.
func digitsOf(text string) string {
	return strings.TrimPrefix(dialledOf(text), "+")
}

// dialledOf works like digitsOf, but keeps a leading +.
func dialledOf(text string) string {
	digits, wrong, isUnclear := bare(strings.ReplaceAll(text, "/", ""))
	if wrong != "" || isUnclear {
		return ""
	}
	return digits
}

// Example returns a mobile number of a region in E.164. It returns an empty text if none is known.
func Example(region string) string {
	number := phonenumbers.GetExampleNumberForType(region, phonenumbers.MOBILE)
	if number == nil {
		return ""
	}
	return phonenumbers.Format(number, phonenumbers.E164)
}
