// Package result contains the texts that the service stores: results of tasks and remarks of notifications. Operators read them unchanged in every language.
// The texts of answers exist in each language, in httpapi/text.
package result

// These are the results of tasks.
const (
	Sent         = "发送成功"
	NotSent      = "发送失败" // the result of a report without a reason
	GaveUp       = "超过最大重试次数: "
	TimedOut     = "处理超时，自动重试"
	TimedOutLast = "处理超时，超过最大重试次数"
	Unclear      = "处理超时，结果不明，不再重发"
	UnclearFrom  = "结果不明，不再重发: " // followed by the error of the provider
	Expired      = "已过期"
	Simulated    = "测试短信，未发送"
)

// Erased replaces the text of an erased message, and the response of its provider.
const Erased = "已清除"

// Own are the fixed results of tasks, which contain no text of a message. Every other result contains a text of a sender or provider. Results that begin with
// GaveUp contain this text at the end.
var Own = []string{Sent, NotSent, TimedOut, TimedOutLast, Unclear, Expired, Simulated, NoAddress, NotServed, Blocked, Limited, NoSignature,
	NotANumber, TextTooLong, TextBlank, NoSMSText, WrongParams, NoCompany, NotSendable, PartsMissing,
}

// These are the reasons why a message that SQL submitted cannot be sent.
const (
	NotANumber  = "手机号码无效"
	TextTooLong = "短信内容或计费条数超过上限"
	TextBlank   = "短信内容为空"
	NoSMSText   = "短信模板不存在或未启用"
	WrongParams = "短信模板参数不符"
	NoCompany   = "公司已删除"
	NotSendable = "内部错误，无法发送"
)

// PartsMissing is the result of a long message of which SMPP submitted only some parts.
const PartsMissing = "长短信缺少分段"

// LedgerOfDay is the remark of the row that sums the charges and refunds of a day.
const LedgerOfDay = "当日扣费与退还合计"

// These are the reasons why one recipient receives no message of a notification.
const (
	NoAddress   = "收件人在该通道没有地址"
	NotServed   = "收件人所在国家不在该公司或通道的发送范围内"
	Blocked     = "收件人已退订或被屏蔽"
	Limited     = "收件人的消息数已达上限"
	NoSignature = "该国家或通道要求签名，而该消息没有签名"
)

// These are the reasons why no recipient receives a message of a notification.
const (
	Internal          = "内部错误，无法通知"
	NoTemplate        = "该业务类型在该通道没有启用的模板"
	MissingParameters = "模板缺少参数: "        // followed by their names
	SMSTooLong        = "渲染后的短信超过 %d 个字符" // %d: the maximum
	TooLong           = "渲染后的标题或正文过长"
	Empty             = "渲染后的消息为空"
	NoTag             = "标签不存在"
	EmptyTag          = "标签中没有联系人"
	TagExpired        = "通知完标签中的联系人之前已过期"
	TagGone           = "通知完标签中的联系人之前，标签已被删除"
	BigTag            = "标签中的联系人超过 %d 个" // %d: the maximum

	SMSTooManySegments = "渲染后的短信计费条数超过 %d" // %d: the maximum
)
