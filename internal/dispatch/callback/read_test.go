package callback_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"lksms/internal/dispatch/callback"
	"lksms/internal/dispatch/phone"
	"lksms/internal/platform/fault"
)

func TestAByteOrderMarkBeforeACallbackIsSkipped(t *testing.T) {
	t.Parallel()
	for format, body := range map[string]string{"json": `{"id":"7","state":"ok"}`, "form": "id=7&state=ok"} {
		c := callback.Config{Format: format, Number: "id", State: "state", Delivered: []string{"ok"}}
		got, err := c.Read([]byte("\uFEFF" + body))
		if err != nil || got.LeftOut > 0 || len(got.Receipts) != 1 || got.Receipts[0].Number != "7" || got.Receipts[0].State != callback.Delivered {
			t.Errorf("%s: %+v, %v", format, got, err)
		}
	}
}

// Numbers are compared without surrounding white space.
func TestAProviderNumberHasNoSurroundingWhiteSpace(t *testing.T) {
	t.Parallel()
	c := callback.Config{Number: "id", State: "state"}
	got, err := c.Read([]byte(`{"id":" r-4\t","state":"x"}`))
	if err != nil || len(got.Receipts) != 1 || got.Receipts[0].Number != "r-4" {
		t.Errorf("%+v, %v", got, err)
	}
	if got := callback.FittingNumber("\x00 r 4\r\n"); got != "r 4" {
		t.Errorf("a number of a link is %q", got)
	}
	if _, err := c.Read([]byte(`{"id":" ","state":"x"}`)); err == nil {
		t.Error("a number of white space is read")
	}
}

// A number is cut in the same way as the number of the sent message, so that both are equal.
func TestALongProviderNumberIsCut(t *testing.T) {
	t.Parallel()
	c := callback.Config{Number: "id", State: "state"}
	got, err := c.Read([]byte(`{"id":"` + strings.Repeat("7", 300) + `","state":"x"}`))
	if err != nil || len(got.Receipts) != 1 || got.Receipts[0].Number != strings.Repeat("7", 200) {
		t.Errorf("%+v, %v", got, err)
	}
}

// The error of a callback that cannot be read names wrong fields. If the callback can contain receipts and messages, the error names the fields of the kind
// that has fewer wrong fields.
func TestACallbackThatCannotBeReadNamesItsWrongFields(t *testing.T) {
	t.Parallel()
	messages := callback.Config{Received: &callback.Received{From: "mobile", Content: "text", Time: "time"}}
	both := callback.Config{Number: "id", State: "state", Delivered: []string{"ok"}, Received: messages.Received}
	typed := callback.Config{Received: &callback.Received{From: "mobile", Content: "text", Time: "time", Type: "type", Types: []string{"reply"}}}
	for _, c := range []struct {
		config     callback.Config
		body, want string
	}{
		{messages, `[{"id":22,"nation":"0086","mobile":"13700137003","text":{"a":1}}]`, "body.0.text wrong_type"},
		{messages, `{"mobile":"","text":null}`, "body.0.mobile empty, body.0.text required"},
		{both, `{"id":7,"state":["ok"]}`, "body.0.state wrong_type"},
		{both, `{"mobile":"13700137003"}`, "body.0.text required"},
		{both, `{}`, "body.0.id required, body.0.state required"},
		{typed, `{"mobile":"13700137003","text":"x","type":"other"}`, "body.0.type not_allowed"},
		{typed, `{"mobile":"13700137003","type":"reply"}`, "body.0.text required"},
	} {
		_, err := c.config.Read([]byte(c.body))
		var wrong *fault.Error
		if !errors.As(err, &wrong) || wrong.Reason != fault.RequestInvalid {
			t.Errorf("%s: %v", c.body, err)
			continue
		}
		var got []string
		for _, f := range wrong.Fields {
			got = append(got, f.Name+" "+string(f.Rule))
		}
		if got := strings.Join(got, ", "); got != c.want {
			t.Errorf("%s: %s, want %s", c.body, got, c.want)
		}
	}
}

// Some bodies contain several JSON values, for example one in each line. All of them are read. The limit of items applies to all values together.
func TestAllJSONValuesOfABodyAreRead(t *testing.T) {
	t.Parallel()
	c := callback.Config{
		Number: "id", State: "state", Delivered: []string{"ok"}, List: "list",
		Received: &callback.Received{List: "replies", From: "from", Content: "text", Time: "time"},
	}
	got, err := c.Read([]byte(`{"list":[{"id":"1","state":"ok"},{"id":"2","state":"x"}]}` + "\n" + `{"list":[{"id":"3","state":"ok"},{}]} {"replies":{"from":"4","text":"hi"}}`))
	if err != nil || len(got.Receipts) != 3 || got.Receipts[2].Number != "3" || len(got.Messages) != 1 || got.LeftOut != 1 {
		t.Errorf("%+v, %v", got, err)
	}
	if values := callback.Values([]byte(`{"a":"1"}{"b":"2"}`)); !slices.Equal(values, []string{"1", "2"}) {
		t.Errorf("values: %q", values)
	}
	for body, want := range map[string]fault.Reason{
		`{"list":[{"id":"1","state":"ok"}]}{"list":`: fault.RequestMalformed,
		`{"list":[{"id":"1","state":"ok"}]}x`:        fault.RequestMalformed,
		"":                                           fault.RequestMalformed,
		strings.Repeat(`{"list":[{"id":"1","state":"ok"}]}`, 1001): fault.RequestTooLarge,
	} {
		var wrong *fault.Error
		if got, err := c.Read([]byte(body)); !errors.As(err, &wrong) || wrong.Reason != want {
			t.Errorf("%.50q: %+v, %v", body, got, err)
		}
	}
}

// A repeated field of a form is a list: the body is rejected if the field must have one value. Other fields can be repeated.
func TestARepeatedFieldOfAFormIsRejected(t *testing.T) {
	t.Parallel()
	c := callback.Config{Format: "form", Number: "id", State: "state", Delivered: []string{"ok"}}
	_, err := c.Read([]byte("id=1&id=2&state=ok"))
	var wrong *fault.Error
	if !errors.As(err, &wrong) || wrong.Reason != fault.RequestInvalid || len(wrong.Fields) != 1 || wrong.Fields[0].Name != "body.0.id" || wrong.Fields[0].Rule != fault.WrongType {
		t.Errorf("repeated id: %v", err)
	}
	if got, err := c.Read([]byte("id=1&state=ok&other=1&other=2")); err != nil || len(got.Receipts) != 1 {
		t.Errorf("other repeated field: %+v, %v", got, err)
	}
}

// The state 0.0 matches the configured value 0. Bodies can be in GBK.
func TestStatesInOlderNotationsAreParsed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		config callback.Config
		body   string
	}{
		"0.0 for 0":         {callback.Config{Delivered: []string{"0"}}, `{"id":7,"state":0.0}`},
		"0.0 for itself":    {callback.Config{Delivered: []string{"0.0"}}, `{"id":7,"state":0.0}`},
		"GBK":               {callback.Config{Delivered: []string{"成功"}}, "{\"id\":7,\"state\":\"\xb3\xc9\xb9\xa6\"}"},
		"GBK in a form":     {callback.Config{Delivered: []string{"成功"}, Format: "form"}, "id=7&state=%B3%C9%B9%A6"},
		"a mark and a list": {callback.Config{Delivered: []string{"1"}, List: "all"}, "\uFEFF{\"all\":[{\"id\":7,\"state\":1.00}]}"},
	} {
		c.config.Number, c.config.State = "id", "state"
		got, err := c.config.Read([]byte(c.body))
		if err != nil || got.LeftOut > 0 || len(got.Receipts) != 1 || got.Receipts[0].Number != "7" || got.Receipts[0].State != callback.Delivered {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

func TestTheValuesOfABodyAreRead(t *testing.T) {
	t.Parallel()
	for body, want := range map[string][]string{
		`{"list":[{"from":13800138000,"ok":true,"text":null},["a"]],"\u0066":"\u0031"}`: {"", "1", "13800138000", "a", "true"},
		"\uFEFFfrom=%2B8613800138000&text=a+b&text=c":                                   {"+8613800138000", "a b", "c"},
		"from=1&text=%zz": {"1"},
		"":                nil,
	} {
		if got := callback.Values([]byte(body)); !slices.Equal(slices.Sorted(slices.Values(got)), want) {
			t.Errorf("%s: %q", body, got)
		}
	}
}

// Providers write the number of a person with or without its country code, and with or without +.
func TestNumbersOfPeopleGetTheirRegionOrCountryCode(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		isInternational bool
		code, number    string
		want, region    string
	}{
		{code: "86", number: "13800138000", want: "13800138000", region: "CN"},
		{code: "+86", number: "+8613800138000", want: "+8613800138000", region: "CN"},
		{code: "0086", number: "008613800138000", want: "008613800138000", region: "CN"},
		{code: "1", number: "4165550123", want: "4165550123", region: "US"}, // the main region of +1
		{code: "881", number: "651234567", want: "+881651234567"},           // a satellite network
		{code: "881", number: "00881651234567", want: "00881651234567", region: phone.UnknownRegion},
		{code: "870", number: "870773110000", want: "+870773110000"}, // the number already contains the code
		{code: "881", number: "10690", want: "10690", region: phone.UnknownRegion},
		{code: "DE", number: "15112345678", want: "15112345678", region: "DE"},
		{code: "Germany", number: "15112345678", want: "15112345678", region: phone.UnknownRegion},
		{code: "999", number: "15112345678", want: "15112345678", region: phone.UnknownRegion},
		{code: "", number: "13800138000", want: "13800138000"},
		{isInternational: true, number: "14155550123", want: "+14155550123"}, // a mobile number of China without this option
		{isInternational: true, number: "6581234567", want: "+6581234567"},
		{isInternational: true, code: "86", number: "+6581234567", want: "+6581234567"},
		{isInternational: true, number: "95588", want: "95588"},
		{isInternational: true, number: "LKSMS", want: "LKSMS"},
	} {
		config := callback.Config{Received: &callback.Received{From: "from", Country: "code", Content: "text", International: c.isInternational}}
		got, err := config.Read([]byte(`{"from":"` + c.number + `","code":"` + c.code + `","text":"x"}`))
		if err != nil || len(got.Messages) != 1 || got.Messages[0].From != c.want || got.Messages[0].Region != c.region {
			t.Errorf("%+v: %+v, %v", c, got.Messages, err)
		}
	}
}

// An option that can have no effect beside the other options is a mistake. A stored sender with such an option works.
func TestReviewNamesAnOptionWithoutEffect(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(c *callback.Config){
		"":                 func(*callback.Config) {},
		"list":             func(c *callback.Config) { c.Format, c.List = "form", "list" },
		"received.list":    func(c *callback.Config) { c.Format, c.Received.List = "form", "list" },
		"state":            func(c *callback.Config) { c.Format, c.State = "form", "report.state" },
		"received.content": func(c *callback.Config) { c.Format, c.Received.Content = "form", "text.0.body" },
		"header":           func(c *callback.Config) { c.Header = "X-Signature" },
		"header ":          func(c *callback.Config) { c.Verify, c.Header = callback.HMAC, "bad header" },
		"number":           func(c *callback.Config) { c.Number, c.State, c.Delivered, c.Code = "", "", nil, "code" },
		"pending":          func(c *callback.Config) { c.Pending = []string{"sent", "ok"} },
		"received.country": func(c *callback.Config) { c.Received.International, c.Received.Country = true, "nation" },
		"received.offset": func(c *callback.Config) {
			c.Received.Time, c.Received.MessageNo, c.Received.Offset = "", "no", "+08:00"
		},
		"received.answer.contentType":   func(c *callback.Config) { c.Received.Answer.ContentType = "text/plain" },
		" a form with a repeated field": func(c *callback.Config) { c.Format, c.State = "form", "state.0" },
	} {
		c := callback.Config{
			Verify: callback.Token, Number: "id", State: "state", Delivered: []string{"ok"}, Received: &callback.Received{From: "from", Content: "text", Time: "time"},
		}
		change(&c)
		if err := c.Check("at-least-16-bytes-long"); err != nil {
			t.Errorf("%s: a stored sender does not work: %v", want, err)
		}
		got := ""
		var wrong *fault.Error
		if errors.As(c.Review(), &wrong) {
			got = strings.TrimPrefix(wrong.Fields[0].Name, "config.callback.")
		}
		if field, _, _ := strings.Cut(want, " "); got != field {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// The provider's id in a receipt is a text or a number.
func TestAReceiptWhoseNumberIsABooleanIsRefused(t *testing.T) {
	t.Parallel()
	c := callback.Config{Verify: callback.Token, Number: "id", State: "state", Delivered: []string{"ok"}}
	_, err := c.Read([]byte(`{"id":false,"state":"ok"}`))
	var wrong *fault.Error
	if !errors.As(err, &wrong) || wrong.Fields[0].Name != "body.0.id" || wrong.Fields[0].Rule != fault.WrongType {
		t.Errorf("%v", err)
	}
}
