package callback_test

import (
	"slices"
	"strings"
	"testing"

	"lksms/internal/dispatch/callback"
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

// A number is cut in the same way as the number of the sent message, so that both are equal.
func TestALongProviderNumberIsCut(t *testing.T) {
	t.Parallel()
	c := callback.Config{Number: "id", State: "state"}
	got, err := c.Read([]byte(`{"id":"` + strings.Repeat("7", 300) + `","state":"x"}`))
	if err != nil || len(got.Receipts) != 1 || got.Receipts[0].Number != strings.Repeat("7", 200) {
		t.Errorf("%+v, %v", got, err)
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
