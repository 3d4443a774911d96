package directory_test

import (
	"strings"
	"testing"

	api "lksms/gen/client"
	"lksms/internal/testkit/apptest"
)

func TestACompanySendsOnlyToItsCountries(t *testing.T) {
	b := apptest.New(t)
	for no, prefix := range map[string]string{"CN": "86", "US": "1", "JM": "1876"} {
		b.Expect(200, "", "POST", "/api/v1/admin/countries", map[string]any{"country_no": no, "name": no, "dial_prefix": prefix})
	}
	b.Expect(200, "", "PATCH", "/api/v1/admin/companies/default", map[string]any{"countries": []string{"CN", "JM"}})
	b.Submit("x")
	b.SubmitBody(map[string]any{"phone_number": "+18763123456", "content": "x"})
	if a := b.Expect(422, "request.invalid", "POST", "/api/v1/sms/send", map[string]any{"phone_number": "+14155552671", "content": "x"}); a.Fields() != "phone_number" {
		t.Errorf("wrong fields %s", a.Fields())
	}
	b.Expect(200, "", "PATCH", "/api/v1/admin/companies/default", map[string]any{"any_country": true})
	b.SubmitBody(map[string]any{"phone_number": "+14155552671", "content": "x"})
}

func TestCountriesThatShareADialPrefixAreDistinguished(t *testing.T) {
	b := apptest.New(t)
	b.AddCountry("US", "1", nil)
	b.AddCountry("1002", "1", map[string]any{"region": "CA"})
	b.AddCountry("RU", "7", nil)
	b.AddCountry("BS", "1", map[string]any{"region": nil}) // covers all other countries with the prefix +1
	b.AddCountry("toronto", "1416", nil)
	for number, want := range map[string]string{
		"+14155552671": "US", "+16045550123": "1002", "+14165550123": "toronto", "+12423591234": "BS", "+18763123456": "BS", "+79161234567": "RU",
		"+77012345678": "",
	} {
		id := b.SubmitBody(map[string]any{"phone_number": number, "content": "x"}).TaskID
		if got := b.Task(id).CountryNo; (got == nil && want != "") || (got != nil && *got != want) {
			t.Errorf("%s belongs to %v, want %q", number, got, want)
		}
	}
	b.AddCountry("KZ", "7", nil)
	b.Expect(200, "", "PATCH", "/api/v1/admin/companies/default", map[string]any{"countries": []string{"US", "KZ"}})
	b.SubmitBody(map[string]any{"phone_number": "+77012345678", "content": "x"})
	for _, number := range []string{"+16045550123", "+79161234567"} {
		if a := b.Expect(422, "request.invalid", "POST", "/api/v1/sms/send", map[string]any{"phone_number": number, "content": "x"}); a.Fields() != "phone_number" {
			t.Errorf("%s: wrong fields %s", number, a.Fields())
		}
	}
}

func TestARegionMustMatchTheDialPrefix(t *testing.T) {
	b := apptest.New(t)
	const path = "/api/v1/admin/countries"
	for _, region := range []string{"CN", "ZZ", "XX"} {
		if a := b.Expect(422, "request.invalid", "POST", path, map[string]any{"country_no": "n", "name": "n", "dial_prefix": "1", "region": region}); a.Fields() != "region" {
			t.Errorf("%s: wrong fields %s", region, a.Fields())
		} else if message := a.Body.Error.Fields[0].Message; !strings.Contains(message, ", CA, ") || strings.Contains(message, "nil") {
			t.Errorf("%s: %s", region, message)
		}
	}
	b.AddCountry("n", "1", nil)
	b.AddCountry("US", "1", nil)
	b.Expect(409, "exists", "POST", path, map[string]any{"country_no": "USA", "name": "n", "dial_prefix": "1", "region": "US"})
	b.Expect(409, "exists", "POST", path, map[string]any{"country_no": "m", "name": "n", "dial_prefix": "1"})
	b.Expect(409, "exists", "PATCH", path+"/US", map[string]any{"region": nil})
	for _, step := range []struct {
		change map[string]any
		region string
	}{
		{map[string]any{"name": "USA"}, "US"},
		{map[string]any{"dial_prefix": "1212"}, "US"},
		{map[string]any{"dial_prefix": "44"}, ""},
		{map[string]any{"region": "JE"}, "JE"},
		{map[string]any{"dial_prefix": "1"}, "US"},
		{map[string]any{"dial_prefix": "1213", "region": nil}, ""},
	} {
		got := apptest.Decode[api.Country](t, b.Expect(200, "", "PATCH", path+"/US", step.change))
		if (got.Region == nil) != (step.region == "") || (got.Region != nil && *got.Region != step.region) {
			t.Errorf("%v: %+v, want the region %q", step.change, got, step.region)
		}
	}
	if a := b.Expect(422, "request.invalid", "PATCH", path+"/US", map[string]any{"region": "CN"}); a.Fields() != "region" {
		t.Errorf("wrong fields %s", a.Fields())
	}
}
