package optout

import (
	"strings"
	"testing"
)

// The spellings come from what carriers, regulators and providers publish, and from what people type.
var (
	spellings = []string{
		"STOP", "stop", "Stop.", "STOP!!!", "s t o p", "S.T.O.P.", "ＳＴＯＰ", "Stop. Thank you", "stop please", "Please stop", "STOP STOP", "stop now", "\"STOP\"",
		"StopAll", "STOP ALL", "UNSUBSCRIBE", "un-subscribe", "Cancel", "END", "quit", "Revoke", "OPT OUT", "opt-out", "OptOut", "Remove me", "no more messages",
		"退订", "退订。", "【退订】", "退订谢谢", "请退订", "退訂", "取消订阅", "拒收", "不要再发了", "别再发了！", "td", "TD", "Ｔ", "t", "T.", "n", "N", "r", "0000", "００００", "#0000",
		"退订 T", "T退订", "TD 退订", "回复T", "回T", "回复TD退订", "退订回T", "请回复 T，谢谢",
		"BAJA", "Baja por favor", "no más mensajes", "Cancelar", "SAIR", "Sair, obrigado", "arrêt", "ARRET", "Désabonner", "STOP svp", "Stopp", "Abmelden bitte",
		"ABBESTELLEN", "Annulla iscrizione", "basta messaggi, grazie", "СТОП", "Отписаться", "配信停止", "配信停止お願いします", "수신거부", "berhenti",
	}
	lookalikes = []string{
		"STOP 12345", "don't stop", "do not stop", "stop it at 5 pm", "bus stop", "I stopped", "nonstop", "stop by tomorrow", "Where is the bus stop?", "stops",
		"Cancel my order 4711", "cancel the appointment on Monday", "please don't cancel", "the end", "weekend", "ends at 5", "quite", "I quit smoking",
		"can I opt out of the meeting?", "unsubscribe?no", "ok", "no", "No thanks", "yes", "thank you", "Thanks!", "谢谢", "请", "", " ", "...", "👍",
		"退订后还能再订吗", "怎么退订", "不退订", "退货", "退款", "我要退订单", "订单取消了吗", "td01", "T恤", "t1", "nn", "nR", "000", "0001", "验证码 0000 是什么", "rr r2",
		"alta", "baja tensión", "salario bajo", "sair de casa", "Ich will nicht abmelden", "Stoppuhr", "arrêt de bus", "стоп-кран", "停止しないで", "거부하지 않음",
		"START", "stop start", "1", "12345", "回复", "回家", "t恤退订单", "trend", "tend", "退订退货",
	}
)

func TestTextsThatAskForNoMoreMessagesAreRecognised(t *testing.T) {
	t.Parallel()
	if len(spellings) < 60 || len(lookalikes) < 60 {
		t.Fatal(len(spellings), len(lookalikes))
	}
	for _, text := range spellings {
		if got := Of(text, "CN", Words{}); got != Out {
			t.Errorf("%q: %v", text, got)
		}
	}
	for _, text := range lookalikes {
		if got := Of(text, "CN", Words{}); got == Out {
			t.Errorf("%q is no request", text)
		}
	}
}

func TestShortOptOutWordsOfChinaHaveNoEffectInOtherCountries(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"T", "n", "R", "0000", "TD"} {
		for _, country := range []string{"US", "HK", ""} {
			if got := Of(text, country, Words{}); got != Neither {
				t.Errorf("%q from %q: %v", text, country, got)
			}
		}
	}
}

func TestTextsThatAskForMessagesAgainAreRecognised(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"START", "yes", "Yes, please", "UNSTOP", "订阅", "恢复订阅", "opt in", "ＳＴＡＲＴ"} {
		if got := Of(text, "CN", Words{}); got != In {
			t.Errorf("%q: %v", text, got)
		}
	}
}

func TestWordsOfACompanyReplaceTheShippedWords(t *testing.T) {
	t.Parallel()
	own := Words{Out: []string{"Weg damit!"}, In: []string{}}
	for text, want := range map[string]Kind{"weg damit": Out, "STOP": Neither, "t": Neither, "START": Neither} {
		if got := Of(text, "CN", own); got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}

func TestAWordOfACompanyCanContainWordsOfCourtesyAndAnyLetters(t *testing.T) {
	t.Parallel()
	own := Words{Out: []string{"No thanks", "请退订", "Stop now", "Τέλος", "Schluss"}, In: []string{"Thanks"}}
	for text, want := range map[string]Kind{
		"τέλος": Out, "ΤΕΛΟΣ": Out, "Schluß": Out, "SCHLUSS": Out, "No, thanks!": Out, "no thanks please": Out, "No": Neither, "thanks": In, "请退订，谢谢": Out, "谢谢，请退订": Out, "退订": Neither, "STOP NOW": Out, "stop": Neither,
	} {
		if got := Of(text, "CN", own); got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}

// Anybody can send a message of any length to a number.
func TestALongTextIsNeitherAnOptOutNorAnOptIn(t *testing.T) {
	t.Parallel()
	for _, text := range []string{strings.Repeat("now ", 5000), strings.Repeat("stop ", 4000), strings.Repeat("t", 20000)} {
		if got := Of(text, "CN", Words{}); got != Neither {
			t.Errorf("%.20q: %v", text, got)
		}
	}
}
