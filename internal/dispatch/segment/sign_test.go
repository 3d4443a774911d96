package segment_test

import (
	"testing"

	"lksms/internal/dispatch/segment"
)

func TestTextWithoutItsSignature(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"您好": "您好", "【示例】您好": "您好", "【示例】【示例】您好": "您好", " 【示例】您好": "您好", "\n【示例】您好": "您好", "\ufeff【示例】您好": "您好", "\u200b【示例】您好": "您好",
		"\u3000\u2060【示例】 \n【示例】您好": "您好", "【示例】 您好": " 您好", " 您好": " 您好", " 【其他】您好": "【其他】您好", "【示例】 【其他】您好": "【其他】您好", "": "", " ": " ",
	} {
		if got := segment.Bare("示例", text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	if got := segment.Bare("", " 【其他】您好"); got != "【其他】您好" {
		t.Errorf("no signature: %q", got)
	}
}

func TestSignatureIsReadInOneForm(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"示例": "示例", " 示例 ": "示例", "【示例】": "示例", "\u3000【 示例 】\u00a0": "示例", "\u200b示例\ufeff": "示例", "示\u200b例": "示例", "示 例": "示 例", " ": "", "【】": "", "": "",
		"👨‍👩‍👧": "👨‍👩‍👧", "示【例": "示【例",
	} {
		if got := segment.Sign(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
