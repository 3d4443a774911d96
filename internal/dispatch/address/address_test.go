package address_test

import (
	"testing"

	"lksms/internal/dispatch/address"
	"lksms/internal/dispatch/directory"
)

// Addresses that are not ASCII have several forms, and one of them is stored. An ASCII address remains as it was written.
func TestAddressesAreReadInOneForm(t *testing.T) {
	t.Parallel()
	for written, want := range map[string]string{
		"Bob@MÜNCHEN.example": "Bob@münchen.example", "Bob@xn--mnchen-3ya.example": "Bob@münchen.example", "Bob@XN--MNCHEN-3YA.example": "Bob@münchen.example",
		"Bob@mu\u0308nchen.example": "Bob@münchen.example", "\u200bbob@例え.example": "bob@例え.example", "Bob@EXAMPLE.com": "Bob@EXAMPLE.com",
		"cafe\u0301@example.com": "caf\u00e9@example.com",
	} {
		if got, err := address.Read(directory.Email, written, ""); err != nil || got.E164 != want {
			t.Errorf("%s: got %s, %v", written, got.E164, err)
		}
	}
}

// The check of a list and the sender of e-mail have one rule, so that no valid row fails at its sender.
func TestEmailAddressesThatCannotBeSentAreRefused(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"ann@exa_mple.com", "ann@-x.com", "ann@x-.com", "ann@[127.0.0.1]", "ann@xn--a.example", "Ann <ann@example.com>", "ann"} {
		if got, err := address.Read(directory.Email, text, ""); err == nil {
			t.Errorf("%s: got %s", text, got.E164)
		}
	}
}
