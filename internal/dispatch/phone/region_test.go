package phone

import (
	"strings"
	"testing"

	"github.com/nyaruka/phonenumbers"
)

// The metadata has an example of a mobile and a fixed number of each region. With and without its +, an international number of the region is the same number.
func TestInternationalNumbersOfEveryRegionCanLackThePlus(t *testing.T) {
	checked := 0
	for region := range phonenumbers.GetSupportedRegions() {
		for _, kind := range []phonenumbers.PhoneNumberType{phonenumbers.MOBILE, phonenumbers.FIXED_LINE} {
			example := phonenumbers.GetExampleNumberForType(region, kind)
			if example == nil {
				continue
			}
			want := phonenumbers.Format(example, phonenumbers.E164)
			if got, err := Normalise("phone_number", strings.TrimPrefix(want, "+"), region); err != nil || got != want {
				t.Errorf("%s: %s without + is read as %s, %v", region, want, got, err)
			}
			checked++
		}
	}
	if checked < 400 {
		t.Errorf("only %d numbers", checked)
	}
}

func TestAMobileNumberOfGermanyCanLackThePlus(t *testing.T) {
	for given, want := range map[string]string{
		"4915112345678": "+4915112345678", "4916012345678": "+4916012345678", "4917612345678": "+4917612345678", "49211123456": "+49211123456",
		"4930123456": "+4930123456", "0151 12345678": "+4915112345678", "04951 12345": "+49495112345", "15112345678": "+4915112345678",
	} {
		if got, err := Normalise("phone_number", given, "DE"); err != nil || got != want {
			t.Errorf("%s: %s, %v", given, got, err)
		}
	}
}
