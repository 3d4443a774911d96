package bom_test

import (
	"testing"

	"lksms/internal/platform/bom"
)

func TestDecodeReadsTextsInOtherEncodings(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"UTF-8":                     {`{"msg":"失败"}`, `{"msg":"失败"}`},
		"a mark":                    {"\uFEFF{}", "{}"},
		"cut within a character":    {"失败"[:5], "失败"[:5]},
		"GBK":                       {"{\"msg\":\"\xca\xa7\xb0\xdc\"}", `{"msg":"失败"}`},
		"GBK with a backslash byte": {"{\"msg\":\"\x81\x5c\"}", `{"msg":"乗"}`},
		"UTF-16, little endian":     {"\xff\xfe{\x00}\x00", "{}"},
		"UTF-16, big endian":        {"\xfe\xff\x00{\x00}", "{}"},
		"none of them":              {"\xff\xff\xff", "\xff\xff\xff"},
		"a mark before GBK":         {"\uFEFF{\"msg\":\"\xb7\xa2\xcb\xcd\xb3\xc9\xb9\xa6\"}", `{"msg":"发送成功"}`},
		"a mark before Latin-1":     {"\uFEFF{\"msg\":\"Cr\xe9dit \xe9puis\xe9\"}", "{\"msg\":\"Cr\xe9dit \xe9puis\xe9\"}"},
		"Latin-1 before a quote":    {"{\"msg\":\"\\\"caf\xe9\\\" ok\"}", "{\"msg\":\"\\\"caf\xe9\\\" ok\"}"},
		"UTF-8 with a broken byte":  {"{\"msg\":\"失败失败\xb0}", "{\"msg\":\"失败失败\xb0}"},
		"nothing":                   {"", ""},
	} {
		if got := string(bom.Decode([]byte(c.text))); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
