package alert

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"lksms/gen/dbq"
	"lksms/internal/optional"
)

// Language has the texts about alerts in one language.
type Language struct {
	levels    map[string]string
	kinds     map[string]string
	summaries map[string]string // ${s}: the subject; ${v}, ${t}: value and threshold, written as the unit of the kind needs
	separator string
	firing    string // ${l}, ${summary}, ${at}
	resolved  string // ${l}, ${summary}, ${at}
	repeated  string
}

// The languages.
var (
	English = Language{
		levels: map[string]string{Warning: "warning", Critical: "critical", Emergency: "emergency"},
		kinds: map[string]string{
			WaitTime: "wait time", QueueDepth: "queue depth", FailureRate: "failure rate", PoolUnserved: "no sender for waiting tasks",
			SenderSilent: "silent sender", BalanceLow: "low balance", ProviderTrouble: "provider in trouble", ReceiptsMissing: "receipts missing",
			DiskLow: "little disk space", PartitionMissing: "partition missing", WebhookFailing: "alert receiver refuses calls",
		},
		summaries: map[string]string{
			WaitTime:         "${s}: a task has waited for ${v} s (threshold ${t} s)",
			QueueDepth:       "${s}: ${v} tasks wait (threshold ${t})",
			FailureRate:      "${s}: ${v}% failed (threshold ${t}%)",
			PoolUnserved:     "${s}: a task has waited for ${v} s, and no available sender serves it",
			SenderSilent:     "sender ${s} has not polled for ${v} s (threshold ${t} s)",
			BalanceLow:       "sender ${s} has ${v} segments left (threshold ${t})",
			ProviderTrouble:  "sender ${s} cannot send: its circuit breaker has opened ${v} times in a row",
			ReceiptsMissing:  "sender ${s}: the provider accepted ${v} messages and sent no receipt",
			DiskLow:          "${s}: ${v}% of the disk is free (threshold ${t}%)",
			PartitionMissing: "tasks of ${v} days from today on have a partition (threshold ${t})",
			WebhookFailing:   "receiver ${s} has refused alerts for ${v} s (threshold ${t} s)",
		},
		separator: ": ", firing: "[${l}] ${summary}, since ${at}", resolved: "[resolved] ${summary}, until ${at}", repeated: "[${l}, still] ${summary}, since ${at}",
	}
	Chinese = Language{
		levels: map[string]string{Warning: "警告", Critical: "严重", Emergency: "紧急"},
		kinds: map[string]string{
			WaitTime: "等待时间", QueueDepth: "排队数量", FailureRate: "失败率", PoolUnserved: "任务无可用发送方",
			SenderSilent: "发送方失联", BalanceLow: "余额不足", ProviderTrouble: "服务商异常", ReceiptsMissing: "回执缺失",
			DiskLow: "磁盘空间不足", PartitionMissing: "缺少分区", WebhookFailing: "告警接收方拒收",
		},
		summaries: map[string]string{
			WaitTime:         "${s}：有任务已等待 ${v} 秒（阈值 ${t} 秒）",
			QueueDepth:       "${s}：${v} 个任务在排队（阈值 ${t}）",
			FailureRate:      "${s}：失败率 ${v}%（阈值 ${t}%）",
			PoolUnserved:     "${s}：有任务已等待 ${v} 秒，没有可用的发送方",
			SenderSilent:     "发送方 ${s} 已 ${v} 秒没有轮询（阈值 ${t} 秒）",
			BalanceLow:       "发送方 ${s} 余额剩 ${v} 条（阈值 ${t}）",
			ProviderTrouble:  "发送方 ${s} 无法发送：已连续熔断 ${v} 次",
			ReceiptsMissing:  "发送方 ${s}：服务商已接受 ${v} 条短信，没有任何回执",
			DiskLow:          "${s}：磁盘剩余 ${v}%（阈值 ${t}%）",
			PartitionMissing: "从今天起只有 ${v} 天有任务分区（阈值 ${t}）",
			WebhookFailing:   "告警接收方 ${s} 已拒收 ${v} 秒（阈值 ${t} 秒）",
		},
		separator: "：", firing: "[${l}] ${summary}，开始于 ${at}", resolved: "[已恢复] ${summary}，恢复于 ${at}", repeated: "[${l}，未恢复] ${summary}，开始于 ${at}",
	}
)

// RuleName returns the name of a rule.
func (l Language) RuleName(r dbq.AlertRuleListRow) string {
	if r.Name != nil {
		return *r.Name
	}
	return l.kinds[r.Kind] + l.separator + l.levels[r.Level]
}

// Summary returns a sentence about an alert.
func (l Language) Summary(a dbq.Alert) string {
	return strings.NewReplacer(
		"${s}", a.Subject, "${v}", numberOf(a.Kind, a.Value), "${t}", numberOf(a.Kind, optional.Value(a.Threshold)),
	).Replace(l.summaries[a.Kind])
}

// The phases of an alert that are told.
const (
	firing   = "firing"
	repeated = "repeated"
	resolved = "resolved"
)

// message returns the text that people are told about an alert. zone names no place: operators of several may read it.
func (l Language) message(a dbq.Alert, phase string) string {
	text, at := l.firing, a.StartedAt
	switch phase {
	case repeated:
		text = l.repeated
	case resolved:
		text, at = l.resolved, optional.Or(a.ResolvedAt, a.StartedAt)
	}
	return strings.NewReplacer("${l}", l.levels[a.Level], "${summary}", l.Summary(a), "${at}", at.UTC().Format("2006-01-02 15:04 UTC")).Replace(text)
}

// languageOf returns the language with a code.
func languageOf(code string) Language {
	if code == "en" {
		return English
	}
	return Chinese
}

// numberOf writes a value of a kind: shares as percent, with a digit behind the point at most.
func numberOf(ofKind string, value float64) string {
	if ofKind == FailureRate || ofKind == DiskLow {
		return strconv.FormatFloat(math.Round(value*1000)/10, 'f', -1, 64)
	}
	return fmt.Sprintf("%.0f", math.Floor(value))
}
