// Package autoreply recognises messages that a phone or a program sent by itself, such as notices of absence. Nobody reads an answer to such a message, and a
// program could answer the answer.
package autoreply

import (
	"slices"
	"strings"

	"lksms/internal/dispatch/received/optout"
)

// Is reports whether a text contains words by which programs mark their messages. Case, width, punctuation, spaces and accents are ignored.
func Is(text string) bool {
	folded := optout.Fold(text)
	return slices.ContainsFunc(marks, func(mark string) bool { return strings.Contains(folded, mark) })
}

// marks contains folded words. People hardly ever write them.
var marks = folded(
	"auto reply", "automatic reply", "automated reply", "auto response", "automatic response", "automated response", "automated message", "automatic message",
	"out of office", "out of the office", "do not reply", "driving focus", "I'm driving with", "I'm not receiving notifications",
	"自动回复", "自动答复", "系统自动", "请勿回复", "無需回覆", "自動回覆", "自動回復", "請勿回覆",
	"automatische Antwort", "automatische Nachricht", "Abwesenheitsnotiz",
	"réponse automatique", "message automatique", "absence du bureau",
	"respuesta automática", "mensaje automático", "fuera de la oficina",
	"resposta automática", "mensagem automática",
	"risposta automatica", "messaggio automatico", //nolint:misspell // Italian
	"автоответ", "автоматический ответ", "автоматическое сообщение",
	"自動返信", "自動応答", "자동 응답", "자동 회신", "balasan otomatis", "pesan otomatis",
)

func folded(texts ...string) []string {
	all := make([]string, len(texts))
	for i, text := range texts {
		all[i] = optout.Fold(text)
	}
	return all
}
