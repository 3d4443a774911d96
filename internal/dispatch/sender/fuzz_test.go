package sender

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"lksms/internal/dispatch/driver"
	"lksms/internal/platform/fault"
	"lksms/internal/platform/secret"
)

// isFault reports whether err is a fault, which is an expected result.
func isFault(err error) bool {
	var expected *fault.Error
	return errors.As(err, &expected)
}

// FuzzConfig encrypts any configuration of any kind of sender. A refusal is a fault. An accepted configuration displays no secret, is unchanged after its
// decryption, and can be sent back in its displayed form.
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
			return // the contract requires an object
		}
		if !slices.Contains(kinds, kind) {
			kind = kinds[len(kind)%len(kinds)]
		}
		encrypted, err := configs.checkAndEncrypt(kind, "s", config, nil)
		if err != nil {
			if !isFault(err) {
				t.Fatalf("not a fault: %v", err)
			}
			return
		}
		decrypted, err := decryptConfig(box, kind, "s", encrypted)
		if err != nil {
			t.Fatal(err)
		}
		again, err := decryptedFields(decrypted)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range encryptedOf(kind) {
			if given := fields[name]; given != nil && string(given) != "null" && !isHidden(given) && !sameJSON(given, again[name]) {
				t.Errorf("%s was %s, and is decrypted as %s", name, given, again[name])
			}
		}
		shown, err := configs.Mask(kind, "s", encrypted)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(shown), "sealed:") && !strings.Contains(string(config), "sealed:") {
			t.Errorf("shown: %s", shown)
		}
		reencrypted, err := configs.checkAndEncrypt(kind, "s", shown, &storedConfig{Kind: kind, Config: encrypted})
		if err != nil {
			t.Fatalf("the shown configuration cannot be sent back: %v", err)
		}
		if decryptedAgain, err := decryptConfig(box, kind, "s", reencrypted); err != nil || !sameJSON(decrypted, decryptedAgain) {
			t.Errorf("%s was %s before the shown configuration was sent back, %v", decryptedAgain, decrypted, err)
		}
	})
}

func decryptedFields(text []byte) (fields map[string]json.RawMessage, err error) {
	err = json.Unmarshal(text, &fields)
	return fields, err
}

func sameJSON(a, b []byte) bool {
	var first, second bytes.Buffer
	return json.Compact(&first, a) == nil && json.Compact(&second, b) == nil && bytes.Equal(escaped(first.Bytes()), escaped(second.Bytes()))
}

// escaped escapes < and similar characters as encoding/json does.
func escaped(text []byte) []byte {
	var out bytes.Buffer
	json.HTMLEscape(&out, text)
	return out.Bytes()
}
