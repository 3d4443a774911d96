// Package optout recognises the texts by which people ask for no more messages, or for messages again. Rules about received messages compare texts like this
// package.
package optout

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// Kind is the request in the text of a received message.
type Kind int

// These are the kinds.
const (
	Neither Kind = iota
	Out          // the person asks for no more messages
	In           // the person asks for messages again
)

// Words are the words of a company. A nil list means the words of this package.
type Words struct {
	Out, In []string
}

// MaxText is the maximum length of a text that asks for something, in bytes after Fold. Longer texts are not compared with the words.
const MaxText = 500

// Of returns the request in a text from a country (ISO code; empty: unknown). The text must consist of one of the words, and of words of courtesy before and
// after it. Case, width, punctuation, spaces and accents are ignored. So "Stop. Thank you" asks for no more messages, and "STOP 12345" and "don't stop" do not.
func Of(text, countryNo string, own Words) Kind {
	folded := Fold(text)
	if len(folded) > MaxText {
		return Neither
	}
	has := func(own []string, lists ...[]string) bool {
		if own != nil {
			lists = [][]string{folds(own...)}
		}
		return slices.ContainsFunc(lists, func(list []string) bool {
			return slices.ContainsFunc(list, func(word string) bool { return isWord(folded, word) })
		})
	}
	var outThere []string // words that only one country uses
	if countryNo == "CN" {
		outThere = outInChina
	}
	switch {
	case has(own.Out, out, outThere):
		return Out
	case has(own.In, in):
		return In
	default:
		return Neither
	}
}

// IsOneOf reports whether a text consists of one of words, and of words of courtesy before and after it, as Of compares texts.
func IsOneOf(text string, words []string) bool {
	folded := Fold(text)
	return len(folded) <= MaxText && slices.ContainsFunc(words, func(word string) bool { return isWord(folded, Fold(word)) })
}

// isWord reports whether a folded text consists of a folded word, once or several times, and of words of courtesy before and after it. A single letter is not
// repeated. A word of a company can contain words of courtesy, such as "No thanks", so each position of the word is tried.
func isWord(text, word string) bool {
	if word == "" {
		return false
	}
	for from := 0; ; from++ {
		at := strings.Index(text[from:], word)
		if at < 0 {
			return false
		}
		from += at
		rest := text[from+len(word):]
		for utf8.RuneCountInString(word) > 1 && strings.HasPrefix(rest, word) {
			rest = rest[len(word):]
		}
		if isCourtesy(text[:from]) && isCourtesy(rest) {
			return true
		}
	}
}

// Fold returns the letters and digits of a text, with folded case and without accents. Full-width characters become ordinary ones.
func Fold(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			return r
		}
		return -1
	}, cases.Fold().String(norm.NFKD.String(text))) // ß has no single letter in upper case, and Σ has two in lower case
}

// isCourtesy reports whether a folded text consists of words of courtesy. An empty text does.
func isCourtesy(text string) bool {
	for text != "" {
		at := slices.IndexFunc(courtesy, func(word string) bool { return strings.HasPrefix(text, word) })
		if at < 0 {
			return false
		}
		text = text[len(courtesy[at]):]
	}
	return true
}

// courtesy contains folded words of courtesy, and marks of the signature that some phones add. The longest of several similar words is first.
var courtesy = folds(
	"thank you very much", "thank you", "thanks", "thankyou", "thx", "please", "pls", "kindly", "now", "谢谢您", "谢谢", "請", "请", "謝謝",
	"por favor", "gracias", "obrigado", "obrigada", "merci", "s'il vous plaît", "svp", "bitte", "danke", "per favore", "grazie", "пожалуйста", "спасибо",
	"お願いします", "ありがとうございます", "부탁드립니다", "감사합니다",
)

// out contains the words by which people in any country ask for no more messages.
var out = folds(
	"stop", "stop all", "unsubscribe", "cancel", "end", "quit", "revoke", "opt out", "unsub", "stop messages", "stop texting me", "stop sending me messages",
	"remove me", "no more messages", "leave me alone",
	"退订", "退訂", "取消订阅", "取消訂閱", "拒收", "不再接收", "回复退订", "停止发送", "别再发了", "不要再发了",
	"baja", "alto", "cancelar", "darse de baja", "dar de baja", "no más mensajes", // Spanish
	"sair", "parar", "descadastrar", "cancelar inscrição", // Portuguese
	"arrêt", "arrêter", "désabonner", "désinscription", "se désabonner", // French
	"stopp", "abmelden", "abbestellen", "austragen", "keine werbung", // German
	"annulla iscrizione", "cancellami", "disiscrivimi", "basta messaggi", // Italian
	"стоп", "отписаться", "отписка", "отпишите меня", // Russian
	"配信停止", "停止", "解除", "登録解除", // Japanese
	"수신거부", "거부", "무료수신거부", // Korean
	"berhenti", "berhenti langganan", // Indonesian
)

// outInChina contains the replies by which people in mainland China unsubscribe, as messages there announce it (for example 回T退订). In other countries, these
// texts are ordinary answers. Some people repeat a part of the announcement.
var outInChina = folds(
	"t", "td", "n", "r", "qx", "0000", "00000", "#0000",
	"回t", "回td", "回n", "回r", "回复t", "回复td", "回复n", "回复r", "t退订", "td退订", "退订t", "退订td", "回t退订", "回td退订", "回复t退订", "回复td退订",
	"退订回t", "退订回td", "退订回复t", "退订回复td",
)

// in contains the words by which people ask for messages again.
var in = folds(
	"start", "yes", "unstop", "subscribe", "opt in", "resume",
	"订阅", "訂閱", "恢复", "恢复订阅", "恢復訂閱", "重新订阅",
	"alta", "suscribir", "inscrever", "abonner", "s'abonner", "anmelden", "iscrivimi", "старт", "подписаться", "配信再開", "수신동의", "mulai",
)

func folds(words ...string) []string {
	all := make([]string, len(words))
	for i, word := range words {
		all[i] = Fold(word)
	}
	return all
}
