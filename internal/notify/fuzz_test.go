package notify

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"lksms/internal/driver"
	"lksms/internal/fault"
	"lksms/internal/postgres"
	"lksms/internal/secret"
)

// isFault reports whether err is one that a caller is told of.
func isFault(err error) bool {
	var expected *fault.Error
	return errors.As(err, &expected)
}

// FuzzReceipts reads any callback, as any sender's configuration says. It gives receipts that PostgreSQL can store, or a fault.
func FuzzReceipts(f *testing.F) {
	f.Add(false, "data", "id", "state", "code", "to", []byte(`{"data":[{"id":1,"state":"ok","code":"0","to":"13800138000"},{"id":"2"}]}`))
	f.Add(false, "", "0.id", "0.state", "", "", []byte(`[[{"id":"a\u0000","state":true}]]`))
	f.Add(true, "", "id", "state", "code", "to", []byte("id=1&state=ok&code=%ff&to=%00"))
	f.Add(false, "a..b", "1", "1e9", "-1", "", []byte(`{"a":{"":{"b":1e999999}}}`))
	f.Fuzz(func(t *testing.T, isForm bool, list, number, state, code, recipient string, body []byte) {
		c := callback{List: list, Number: number, State: state, Code: code, Recipient: recipient, Delivered: []string{"ok", "true"}}
		if isForm {
			c.Format = "form"
		}
		all, leftOut, err := c.read(body)
		if err != nil {
			if !isFault(err) {
				t.Fatalf("not a fault: %v", err)
			}
			return
		}
		if len(all)+leftOut > receiptsMost {
			t.Errorf("%d receipts, and %d left out", len(all), leftOut)
		}
		for _, r := range all {
			for text, most := range map[string]int{r.number: 200, r.recipient: 100, r.code: 100} {
				if !postgres.IsText(text) || utf8.RuneCountInString(text) > most {
					t.Errorf("%q is of %+v", text, r)
				}
			}
			if r.number == "" {
				t.Errorf("a receipt of nothing: %+v", r)
			}
		}
	})
}

// FuzzConfig seals any configuration of any kind of sender. What is refused is refused with a fault; what is taken shows no secret, can be
// opened again as it was, and changed by giving back what is shown.
func FuzzConfig(f *testing.F) {
	box, err := secret.NewBox(secret.NewKey())
	if err != nil {
		f.Fatal(err)
	}
	configs := &Configs{box: box}
	callback := `"callback":{"verify":"token","number":"id","state":"s","delivered":["ok"],"addresses":["10.0.0.0/8"]},"callbackSecret":"sealed:0123456789abcdef"`
	f.Add("http-sms", []byte(`{"url":"http://x/${content}","secrets":{"password":"hunter2"},"body":{"p":"${secrets.password}"},"answer":{"pattern":"(?P<a>.)"},`+callback+`}`))
	f.Add("oa", []byte(`{"url":"https://x","secret":"sealed:00000000:AAAA",`+callback+`}`))
	f.Add("wechat", []byte(`{"appId":"a","appSecret":"***"}`))
	f.Add("email", []byte(`{"host":"x","from":"a@b.example","password":"p","username":"u","tls":"implicit"}`))
	f.Add("dingtalk", []byte(`{"baseUrl":"http://x","agentId":"a","corpId":"c","answer":{"success":"a","equals":["b"]}}`))
	f.Add("log", []byte(`{"showContent":true,"callbackSecret":null}`))
	kinds := driver.Kinds()
	f.Fuzz(func(t *testing.T, kind string, config []byte) {
		fields := map[string]json.RawMessage{}
		if json.Unmarshal(config, &fields) != nil {
			return // the contract wants an object
		}
		if !slices.Contains(kinds, kind) {
			kind = kinds[len(kind)%len(kinds)]
		}
		sealed, err := configs.SealConfig(kind, "s", config, nil)
		if err != nil {
			if !isFault(err) {
				t.Fatalf("not a fault: %v", err)
			}
			return
		}
		opened, err := openConfig(box, kind, "s", sealed)
		if err != nil {
			t.Fatal(err)
		}
		again, err := openedFields(opened)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range sealedOf(kind) {
			if given := fields[name]; given != nil && !isHidden(given) && !sameJSON(given, again[name]) {
				t.Errorf("%s was %s and is %s", name, given, again[name])
			}
		}
		shown, err := configs.ShowConfig(kind, "s", sealed)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(shown), "sealed:") && !strings.Contains(string(config), "sealed:") {
			t.Errorf("shown: %s", shown)
		}
		resealed, err := configs.SealConfig(kind, "s", shown, &Stored{Kind: kind, Config: sealed})
		if err != nil {
			t.Fatalf("what is shown cannot be given back: %v", err)
		}
		if reopened, err := openConfig(box, kind, "s", resealed); err != nil || !sameJSON(opened, reopened) {
			t.Errorf("%s was %s before what is shown was given back, %v", reopened, opened, err)
		}
	})
}

func openedFields(text []byte) (fields map[string]json.RawMessage, err error) {
	err = json.Unmarshal(text, &fields)
	return fields, err
}

func sameJSON(a, b []byte) bool {
	var first, second bytes.Buffer
	return json.Compact(&first, a) == nil && json.Compact(&second, b) == nil && bytes.Equal(escaped(first.Bytes()), escaped(second.Bytes()))
}

// escaped writes < and the like as encoding/json does.
func escaped(text []byte) []byte {
	var out bytes.Buffer
	json.HTMLEscape(&out, text)
	return out.Bytes()
}

// FuzzFill fills any template with any payload. What was filled in is not looked at again, and what is missing is named.
func FuzzFill(f *testing.F) {
	f.Add("${a} ${b.c} ${${a}} ${}", []byte(`{"a":"${b}","b":[1e99,"<"],"":null}`))
	f.Fuzz(func(t *testing.T, template string, payload []byte) {
		fields := map[string]any{}
		d := json.NewDecoder(bytes.NewReader(payload))
		d.UseNumber()
		if d.Decode(&fields) != nil {
			return
		}
		text, missing := fill(template, fields, len(template)+1000)
		for _, key := range missing {
			if fields[key] != nil {
				t.Errorf("%q is not missing", key)
			}
		}
		if !strings.Contains(template, "${") && utf8.ValidString(template) && text != template {
			t.Errorf("%q became %q", template, text)
		}
		n := Notification{BizType: NodeTimeout}
		if err := n.complete(fields); err != nil && !isFault(err) {
			t.Errorf("not a fault: %v", err)
		}
		if n.Repeat != nil && (*n.Repeat < 1 || *n.Repeat > longestRepeat) {
			t.Errorf("a reminder each %d minutes", *n.Repeat)
		}
	})
}
