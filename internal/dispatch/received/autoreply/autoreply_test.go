package autoreply_test

import (
	"testing"

	"lksms/internal/dispatch/received/autoreply"
)

func TestMessagesOfProgramsAreRecognised(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"[Auto-Reply] I am in a meeting", "AUTOMATIC REPLY: back on Monday", "I am out of office until 3 May", "（自动回复）您好，我现在有事不在", "【系统自动】请勿回复",
		"I’m driving with Driving Focus turned on.", "Automatische Antwort: Ich bin im Urlaub", "Réponse automatique : je suis absent", "Автоответ: занят", "자동응답입니다",
	} {
		if !autoreply.Is(text) {
			t.Errorf("%q counts as a message of a person", text)
		}
	}
	for _, text := range []string{"", "Yes", "Please reply", "I am driving, call me later", "The office is out of paper", "回复", "自动", "Auto", "No reply yet"} {
		if autoreply.Is(text) {
			t.Errorf("%q counts as automatic", text)
		}
	}
}
