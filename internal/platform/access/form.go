package access

import (
	"regexp"
	"unicode/utf8"

	"lksms/internal/platform/fault"
)

// form is the schema of a text in the contract. The command line passes texts that no request has checked.
type form struct {
	minLength, maxLength int // in characters
	pattern              *regexp.Regexp
}

// A user name and an app_id are parts of paths, so they cannot be . or .. there.
var (
	usernameForm = form{1, 50, regexp.MustCompile(`^(?:(?:[^\x{0000}-\x{001F}:.]|\.[^\x{0000}-\x{001F}:.]|\.\.[^\x{0000}-\x{001F}:])[^\x{0000}-\x{001F}:]*)?$`)}
	appIDForm    = form{1, 50, regexp.MustCompile(`^(?:(?:[^\x{0000}.]|\.[^\x{0000}.]|\.\.[^\x{0000}])[^\x{0000}]*)?$`)}
	passwordForm = form{12, 200, regexp.MustCompile(`^[^\x{0000}]*$`)}
)

// check returns the fault request.invalid if the text of a field does not have the form.
func (f form) check(field, text string) error {
	switch n := utf8.RuneCountInString(text); {
	case n < f.minLength:
		return fault.InvalidField(field, fault.TooShort, f.minLength)
	case n > f.maxLength:
		return fault.InvalidField(field, fault.TooLong, f.maxLength)
	case !utf8.ValidString(text) || !f.pattern.MatchString(text):
		return fault.InvalidField(field, fault.WrongFormat, nil)
	}
	return nil
}

// checkNames checks the user name and the app_id (nil: none) of a new user.
func checkNames(username string, appID *string) error {
	if err := usernameForm.check("username", username); err != nil || appID == nil {
		return err
	}
	return appIDForm.check("app_id", *appID)
}
