// Package address parses the addresses of recipients on channels.
package address

import (
	"fmt"
	"net/mail"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/net/idna"
	"golang.org/x/text/unicode/norm"

	"lksms/internal/dispatch/directory"
	"lksms/internal/dispatch/phone"
	"lksms/internal/platform/characters"
	"lksms/internal/platform/fault"
)

// Longest is the maximum length of the text of an address in characters, including surrounding white space and invisible characters.
const Longest = 254

// maxUsualAddress is the maximum length of an address in characters on channels other than sms and email.
const maxUsualAddress = 100

// Field returns the name of the address field of a row on a channel.
func Field(channel string) string {
	if channel == directory.SMS {
		return "phone_number"
	}
	return "address"
}

// IsUserID reports whether the address on a channel is the id of a user.
func IsUserID(channel string) bool {
	switch channel {
	case directory.SMS, directory.Email, directory.DingTalk, directory.WeChat:
		return false
	}
	return true
}

// FoldsCase reports whether addresses on a channel ignore case.
func FoldsCase(channel string) bool { return channel == directory.Email }

// Read parses an address on a channel. On sms the address is a phone number, and region applies to numbers without a country code. Fault: request.invalid,
// which names Field.
func Read(channel, text, region string) (phone.Number, error) {
	field := Field(channel)
	if channel == directory.SMS {
		if err := phone.CheckRegion("default_region", region); err != nil {
			return phone.Number{}, err //nolint:wrapcheck // the error is a fault
		}
		return phone.Read(field, text, region) //nolint:wrapcheck // the error is a fault
	}
	text = Visible(text)
	limit := maxUsualAddress
	if channel == directory.Email {
		limit, text = Longest, inOneForm(text)
	}
	switch {
	case text == "":
		return phone.Number{}, fault.InvalidField(field, fault.Required, nil)
	case utf8.RuneCountInString(text) > limit:
		return phone.Number{}, fault.InvalidField(field, fault.TooLong, limit)
	case channel == directory.Email && !IsEmail(text):
		return phone.Number{}, fault.InvalidField(field, fault.NotAnEmail, nil)
	case strings.ContainsFunc(text, unicode.IsControl):
		return phone.Number{}, fault.InvalidField(field, fault.BadCharacters, nil)
	}
	return phone.Number{E164: text, Written: text}, nil
}

// Visible removes invisible characters, and leading and trailing white space, from an address or a part of one.
func Visible(text string) string { return strings.TrimSpace(strings.Map(visible, text)) }

// visible drops the invisible characters that copied texts contain.
func visible(r rune) rune {
	if unicode.Is(unicode.Cf, r) {
		return -1
	}
	return r
}

// inOneForm returns an e-mail address with composed characters (NFC), and with its domain in the Unicode form, in lower case. Addresses that are not ASCII have
// several forms, and a block or an erasure must find a person by any of them.
func inOneForm(email string) string {
	email = norm.NFC.String(email)
	at := strings.LastIndexByte(email, '@')
	domain := strings.ToLower(email[at+1:])
	if at < 0 || characters.IsASCII(domain) && !strings.Contains(domain, "xn--") {
		return email
	}
	readable, err := idna.Lookup.ToUnicode(domain)
	if err != nil {
		return email
	}
	return email[:at+1] + readable
}

// EmailForms returns the forms in which versions of the service stored an e-mail address: the form of Read first.
func EmailForms(email string) []string {
	read := inOneForm(Visible(email))
	forms := []string{read, norm.NFD.String(read), Visible(email), email}
	if at := strings.LastIndexByte(read, '@'); at >= 0 {
		if ascii, err := idna.Lookup.ToASCII(read[at+1:]); err == nil && !characters.IsASCII(read[at+1:]) {
			forms = append(forms, read[:at+1]+ascii)
		}
	}
	return forms
}

// IsEmail reports whether text is a bare e-mail address to which a sender can send.
func IsEmail(text string) bool {
	a, err := mail.ParseAddress(text)
	if err != nil || a.Address != text {
		return false
	}
	_, err = WithASCIIDomain(text)
	return err == nil
}

// WithASCIIDomain returns an e-mail address with its domain in ASCII, because mail servers require ASCII domains. text can begin with a display name.
func WithASCIIDomain(text string) (string, error) {
	address, err := mail.ParseAddress(text)
	if err != nil {
		return "", fmt.Errorf("read address: %w", err)
	}
	at := strings.LastIndexByte(address.Address, '@')
	domain, err := idna.Lookup.ToASCII(address.Address[at+1:])
	if err != nil {
		return "", fmt.Errorf("read domain: %w", err)
	}
	address.Address = address.Address[:at+1] + domain
	return address.String(), nil
}
