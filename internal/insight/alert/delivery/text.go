package delivery

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"lksms/gen/alertq"
	"lksms/internal/insight/alert"
	"lksms/internal/platform/optional"
)

// Language contains the texts about alerts in one language.
type Language struct {
	levels    map[string]string
	kinds     map[string]string
	summaries map[string]string // by kind; ${s}: subject; ${v}, ${t}: value and threshold in the unit of the kind
	separator string
	tags      map[string]string // prefix of a text, by phase; ${l}: level
	since     string            // ${at}: time
	until     string            // ${at}: time
	several   string            // ${n}: number of alerts
	more      string            // ${n}: number of further alerts
	comma     string
}

// English and Chinese are the supported languages.
var (
	English = Language{
		levels: map[string]string{alert.Warning: "warning", alert.Critical: "critical", alert.Emergency: "emergency"},
		kinds: map[string]string{
			alert.WaitTime: "wait time", alert.QueueDepth: "queue depth", alert.FailureRate: "failure rate", alert.PoolUnserved: "no sender for waiting tasks",
			alert.SenderSilent: "silent sender", alert.SenderFailing: "failing sender", alert.BalanceLow: "low balance", alert.ProviderTrouble: "provider in trouble", alert.ReceiptsMissing: "receipts missing",
			alert.ReceiptsUnmatched: "receipts without message",
			alert.DiskLow:           "little disk space", alert.PartitionMissing: "partition missing", alert.HistoryOverdue: "day over its time", alert.WebhookFailing: "alert receiver refuses calls",
			alert.StatementDiffers: "statement does not match", alert.CodesSuspected: "suspected codes",
		},
		summaries: map[string]string{
			alert.WaitTime:          "${s}: a task has waited for ${v} s (threshold ${t} s)",
			alert.QueueDepth:        "${s}: ${v} tasks wait (threshold ${t})",
			alert.FailureRate:       "${s}: ${v}% failed (threshold ${t}%)",
			alert.PoolUnserved:      "${s}: a task has waited for ${v} s, and no available sender serves it",
			alert.SenderSilent:      "sender ${s} has not polled for ${v} s (threshold ${t} s)",
			alert.SenderFailing:     "sender ${s}: ${v}% of the attempts failed (threshold ${t}%)",
			alert.BalanceLow:        "sender ${s} has ${v} segments left (threshold ${t})",
			alert.ProviderTrouble:   "sender ${s} cannot send: its circuit breaker has opened ${v} times in a row",
			alert.ReceiptsMissing:   "sender ${s}: the provider accepted ${v} messages and sent no receipt",
			alert.ReceiptsUnmatched: "sender ${s}: ${v} receipts match no message (threshold ${t})",
			alert.DiskLow:           "${s}: ${v}% of the disk is free (threshold ${t}%)",
			alert.PartitionMissing:  "tasks of ${v} days from today on have a partition (threshold ${t})",
			alert.HistoryOverdue:    "${s}: the day should have become history or been dropped ${v} days ago (threshold ${t})",
			alert.WebhookFailing:    "receiver ${s} has refused alerts for ${v} s (threshold ${t} s)",
			alert.StatementDiffers:  "${s}: the provider's statement differs by ${v} (threshold ${t})",
			alert.CodesSuspected:    "${s}: ${v} codes within 24 hours, and too few were approved",
		},
		separator: ": ", tags: map[string]string{firing: "[${l}] ", repeated: "[${l}, still] ", resolved: "[resolved] "},
		since: ", since ${at}", until: ", until ${at}", several: "${n} alerts", more: "; and ${n} more", comma: "; ",
	}
	Chinese = Language{
		levels: map[string]string{alert.Warning: "警告", alert.Critical: "严重", alert.Emergency: "紧急"},
		kinds: map[string]string{
			alert.WaitTime: "等待时间", alert.QueueDepth: "排队数量", alert.FailureRate: "失败率", alert.PoolUnserved: "任务无可用发送方",
			alert.SenderSilent: "发送方失联", alert.SenderFailing: "发送方失败率", alert.BalanceLow: "余额不足", alert.ProviderTrouble: "服务商异常", alert.ReceiptsMissing: "回执缺失",
			alert.ReceiptsUnmatched: "回执无对应短信",
			alert.DiskLow:           "磁盘空间不足", alert.PartitionMissing: "缺少分区", alert.HistoryOverdue: "分区超期", alert.WebhookFailing: "告警接收方拒收",
			alert.StatementDiffers: "对账不一致", alert.CodesSuspected: "可疑验证码",
		},
		summaries: map[string]string{
			alert.WaitTime:          "${s}：有任务已等待 ${v} 秒（阈值 ${t} 秒）",
			alert.QueueDepth:        "${s}：${v} 个任务在排队（阈值 ${t}）",
			alert.FailureRate:       "${s}：失败率 ${v}%（阈值 ${t}%）",
			alert.PoolUnserved:      "${s}：有任务已等待 ${v} 秒，没有可用的发送方",
			alert.SenderSilent:      "发送方 ${s} 已 ${v} 秒没有轮询（阈值 ${t} 秒）",
			alert.SenderFailing:     "发送方 ${s}：${v}% 的发送尝试失败（阈值 ${t}%）",
			alert.BalanceLow:        "发送方 ${s} 余额剩 ${v} 条（阈值 ${t}）",
			alert.ProviderTrouble:   "发送方 ${s} 无法发送：已连续熔断 ${v} 次",
			alert.ReceiptsMissing:   "发送方 ${s}：服务商已接受 ${v} 条短信，没有任何回执",
			alert.ReceiptsUnmatched: "发送方 ${s}：${v} 条回执找不到对应的短信（阈值 ${t}）",
			alert.DiskLow:           "${s}：磁盘剩余 ${v}%（阈值 ${t}%）",
			alert.PartitionMissing:  "从今天起只有 ${v} 天有任务分区（阈值 ${t}）",
			alert.HistoryOverdue:    "${s}：该日分区 ${v} 天前就应归档或删除（阈值 ${t} 天）",
			alert.WebhookFailing:    "告警接收方 ${s} 已拒收 ${v} 秒（阈值 ${t} 秒）",
			alert.StatementDiffers:  "${s}：与服务商对账单相差 ${v}（阈值 ${t}）",
			alert.CodesSuspected:    "${s}：24 小时内 ${v} 个验证码，通过校验的太少",
		},
		separator: "：", tags: map[string]string{firing: "[${l}] ", repeated: "[${l}，未恢复] ", resolved: "[已恢复] "},
		since: "，开始于 ${at}", until: "，恢复于 ${at}", several: "${n} 条告警", more: "；另有 ${n} 条", comma: "；",
	}
)

// RuleName returns the name of a rule.
func (l Language) RuleName(r alertq.AlertRuleListRow) string {
	if r.Name != nil {
		return *r.Name
	}
	return l.kinds[r.Kind] + l.separator + l.levels[r.Level]
}

// Summary returns a sentence that describes an alert.
func (l Language) Summary(a alertq.Alert) string {
	return strings.NewReplacer(
		"${s}", a.Subject, "${v}", numberOf(a.Kind, a.Value), "${t}", numberOf(a.Kind, optional.Value(a.Threshold)),
	).Replace(l.summaries[a.Kind])
}

// These are the phases of an alert of which receivers are notified.
const (
	firing   = "firing"
	repeated = "repeated"
	resolved = "resolved"
)

// These are the maximum lengths of texts to people, in characters. Short messages have the smaller maximum.
const (
	maxTitle = 100
	maxText  = 200
	maxName  = 60 // maximum length of the name of each alert if a text contains several alerts
)

// title returns the name of an alert: its kind and subject.
func (l Language) title(a alertq.Alert) string { return l.kinds[a.Kind] + l.separator + a.Subject }

// tag returns the prefix of a text about alerts in a phase. level is the worst level of these alerts.
func (l Language) tag(phase, level string) string {
	return strings.ReplaceAll(l.tags[phase], "${l}", l.levels[level])
}

// message returns the text to people about one alert. The time in the text is in UTC, because readers can live in several time zones.
func (l Language) message(a alertq.Alert, phase string) string {
	end, at := l.since, a.StartedAt
	if phase == resolved {
		end, at = l.until, optional.Or(a.ResolvedAt, a.StartedAt)
	}
	return l.tag(phase, a.Level) + l.Summary(a) + strings.ReplaceAll(end, "${at}", at.UTC().Format("2006-01-02 15:04 UTC"))
}

// list returns the names of alerts in at most maxLength characters. If not all names fit, the number of further alerts follows.
func (l Language) list(due []alertq.AlertDeliveriesDueRow, maxLength int) string {
	more := func(n int) string {
		if n == 0 {
			return ""
		}
		return strings.ReplaceAll(l.more, "${n}", strconv.Itoa(n))
	}
	text := alert.Shortened(l.title(due[0].Alert), maxName)
	for i, d := range due[1:] {
		longer := text + l.comma + alert.Shortened(l.title(d.Alert), maxName)
		if utf8.RuneCountInString(longer+more(len(due)-i-2)) > maxLength {
			return text + more(len(due)-i-1)
		}
		text = longer
	}
	return text
}

// payload returns the variables of the template of alerts. The first alert of due must be the worst.
func (l Language) payload(due []alertq.AlertDeliveriesDueRow) map[string]any {
	d, phase := due[0], phaseOf(due[0])
	title, text, summary := l.title(d.Alert), l.message(d.Alert, phase), l.Summary(d.Alert)
	if len(due) > 1 {
		title = strings.ReplaceAll(l.several, "${n}", strconv.Itoa(len(due)))
		head := l.tag(phase, d.Alert.Level) + title + l.separator
		summary = l.list(due, maxText-utf8.RuneCountInString(head))
		text = head + summary
	}
	return map[string]any{
		"title": alert.Shortened(title, maxTitle), "text": alert.Shortened(text, maxText), "phase": phase, "count": len(due),
		"alert": d.Alert.ID, "kind": d.Alert.Kind, "level": d.Alert.Level, "subject": d.Alert.Subject, "summary": summary, "rule": d.RuleName,
	}
}

// languageOf returns the language with a code. Every code except "en" means Chinese.
func languageOf(code string) Language {
	if code == "en" {
		return English
	}
	return Chinese
}

// numberOf formats a value of a kind. Shares are percentages with at most one decimal digit.
func numberOf(ofKind string, value float64) string {
	if ofKind == alert.FailureRate || ofKind == alert.SenderFailing || ofKind == alert.DiskLow {
		return strconv.FormatFloat(math.Round(value*1000)/10, 'f', -1, 64)
	}
	return fmt.Sprintf("%.0f", math.Floor(value))
}
