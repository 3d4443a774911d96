// Package text has every text that people read, in English and in Chinese.
package text

import (
	"fmt"
	"strings"

	"golang.org/x/text/language"

	"lksms/gen/api"
	"lksms/internal/fault"
	"lksms/internal/queue"
)

// Catalogue is every text that people read, in one language.
type Catalogue struct {
	reasons     map[fault.Reason]string // with %d where the fault has a limit
	rules       map[fault.Rule]string   // with %v where the rule has a limit
	Recovered   string                  // with the number
	States      [4]string               // of a task, by status code
	Description [4]string
	explained   map[string]string // by queue.Explanation.Reason; with the number ahead where there is one
}

var english = &Catalogue{
	reasons: map[fault.Reason]string{
		fault.RequestMalformed:       "The request could not be read: the body must be JSON.",
		fault.RequestInvalid:         "A field is not valid.",
		fault.RequestTooLarge:        "The request body is too large.",
		fault.RequestTooDeep:         "The request body nests too deep.",
		fault.RequestTooSlow:         "The body did not arrive in time.",
		fault.RequestTooMuch:         "Your company's requests that are being worked on are too much together; try again later.",
		fault.RequestMediaType:       "The Content-Type must be application/json.",
		fault.RequestCrossSite:       "A web page of another site may not ask for this; CORS_ORIGINS lists the sites that may.",
		fault.RouteNotFound:          "There is nothing at this address.",
		fault.RouteMethodNotAllowed:  "This address does not take this method.",
		fault.AuthRequired:           "User name or password is missing or wrong.",
		fault.AuthForbidden:          "This user may not do this.",
		fault.AuthOtherApp:           "This user may not act as this app.",
		fault.AuthOtherCompany:       "This user belongs to another company.",
		fault.AuthTooManyFailures:    "Too many failed attempts; try again later.",
		fault.UserNotFound:           "There is no such user.",
		fault.UserExists:             "There is a user of this name already.",
		fault.KeyNotFound:            "There is no such API key.",
		fault.TaskNotFound:           "There is no such task.",
		fault.TaskNotPending:         "The task is no longer pending.",
		fault.TaskNotHeld:            "This app never held the task.",
		fault.SenderIsDriven:         "The server drives the sender of this number; apps cannot use it.",
		fault.TemplateNotFound:       "There is no such template.",
		fault.NotificationNotFound:   "There is no such notification.",
		fault.ContactNotFound:        "There is no such contact.",
		fault.TemplateNoneActive:     "There is no active template.",
		fault.DefaultContentNotFound: "There is no such default content.",
		fault.DefaultContentExists:   "This phone number has a default content already.",
		fault.DefaultContentSent:     "The default content of this phone number has been sent already.",
		fault.CompanyNotFound:        "There is no such company.",
		fault.ChannelNotFound:        "There is no such channel.",
		fault.CountryNotFound:        "There is no such country.",
		fault.SenderNotFound:         "There is no such sender.",
		fault.RouteRuleNotFound:      "There is no such route.",
		fault.Exists:                 "There is one already.",
		fault.InUse:                  "Something still refers to it.",
		fault.LimitReached:           "There are as many already as there may be, %d: remove some that are not needed.",
		fault.VersionStale:           "It was changed meanwhile: read it again.",
		fault.IdempotencyInFlight:    "The first request with this Idempotency-Key is still at work.",
		fault.IdempotencyKeyReused:   "This Idempotency-Key was used with another body.",
		fault.ServiceUnavailable:     "The service is not available right now; try again shortly.",
		fault.InternalError:          "Something went wrong inside the server.",
	},
	rules: map[fault.Rule]string{
		fault.Required:           "is required",
		fault.UnknownField:       "is not a known field",
		fault.UnknownParameter:   "is not a query parameter of this operation",
		fault.WrongType:          "must be of type %v",
		fault.WrongFormat:        "is not in the right format",
		fault.NotAllowed:         "must be one of %v",
		fault.TooShort:           "must have at least %v characters",
		fault.TooLong:            "must have at most %v characters",
		fault.TooSmall:           "must be at least %v",
		fault.TooBig:             "must be at most %v",
		fault.Empty:              "must not be empty",
		fault.TooManyItems:       "has more than %v items or members",
		fault.BadCharacters:      "has characters that are not allowed",
		fault.Blank:              "must not be blank",
		fault.NotAPhoneNumber:    "is not a phone number that can be dialled",
		fault.NotFormEncoded:     "is not form-encoded (name=value&name=value)",
		fault.MissingParameters:  "lacks parameters of the template: %v",
		fault.SpacedPlaceholder:  "has a placeholder with spaces, which would be sent as it is: %v",
		fault.RenderedTooLong:    "gives more than %v characters with the template",
		fault.RenderedBlank:      "the rendered message is empty",
		fault.NoDefaultContent:   "is empty, and this phone number has no default content",
		fault.NotACursor:         "is not a cursor that this list gave",
		fault.Duplicate:          "stands twice",
		fault.OnlyForSenders:     "is only for users with the role send",
		fault.OnlyForBoundRoles:  "is only for users with the role submit or read: leave it out, or set it to null where the user has one",
		fault.CountryNotServed:   "is in a country to which this company or channel does not send",
		fault.NotThere:           "names something that is not there",
		fault.BelowZero:          "would take the balance below 0",
		fault.InThePast:          "is in the past",
		fault.TooFarAhead:        "is more than %v days ahead",
		fault.TooUrgent:          "may not be smaller than %v for this user",
		fault.NoSecretsKey:       "is a secret, and this server has no SECRETS_KEY to keep it with",
		fault.GiveAgain:          "is hidden and is not taken over, because the address, the kind or the verification changes: give it again",
		fault.MadeLikeAKey:       "is made like an API key, and would be taken for one",
		fault.TooManyBytes:       "must take at most %v bytes as JSON",
		fault.TooManyTogether:    "has too many items for so many channels and people: at most %v",
		fault.NothingElseIsKnown: "is not valid",
	},
	Recovered: "Recovered %d zombie tasks.",
	States:    [4]string{"PENDING", "PROCESSING", "SUCCESS", "FAILED"},
	Description: [4]string{
		"waits for a sender", "held by a sender", "sent", "not sent, and not going to be",
	},
	explained: map[string]string{
		queue.BecauseScheduled:  "It is scheduled for later.",
		queue.BecauseRetryLater: "It failed, and will be tried again later.",
		queue.BecauseQueued:     "It waits for a sender; %d go before it.",
		queue.BecauseNoSender:   "It waits, and no sender can take it now; %d go before it.",
		queue.BecauseProcessing: "A sender holds it.",
		queue.BecauseSettled:    "It is settled: nothing more will happen to it.",
	},
}

var chinese = &Catalogue{
	reasons: map[fault.Reason]string{
		fault.RequestMalformed:       "无法读取请求：请求体必须是 JSON。",
		fault.RequestInvalid:         "字段不正确。",
		fault.RequestTooLarge:        "请求体过大。",
		fault.RequestTooDeep:         "请求体嵌套过深。",
		fault.RequestTooSlow:         "请求体未能及时到达。",
		fault.RequestTooMuch:         "贵公司正在处理中的请求总量过大，请稍后再试。",
		fault.RequestMediaType:       "Content-Type 必须是 application/json。",
		fault.RequestCrossSite:       "其他网站的网页不能发起此请求；允许的网站在 CORS_ORIGINS 中列出。",
		fault.RouteNotFound:          "此地址不存在。",
		fault.RouteMethodNotAllowed:  "此地址不支持该请求方法。",
		fault.AuthRequired:           "缺少用户名或密码，或者不正确。",
		fault.AuthForbidden:          "该用户无权进行此操作。",
		fault.AuthOtherApp:           "该用户不能以此 APP 的身份操作。",
		fault.AuthOtherCompany:       "该用户属于另一家公司。",
		fault.AuthTooManyFailures:    "失败次数过多，请稍后再试。",
		fault.UserNotFound:           "用户不存在。",
		fault.UserExists:             "同名用户已存在。",
		fault.KeyNotFound:            "API 密钥不存在。",
		fault.TaskNotFound:           "任务不存在。",
		fault.TaskNotPending:         "任务已不是待处理状态。",
		fault.TaskNotHeld:            "该 APP 从未领取过此任务。",
		fault.SenderIsDriven:         "此编号的发送方由服务器驱动，APP 不能使用。",
		fault.TemplateNotFound:       "模板不存在。",
		fault.NotificationNotFound:   "通知不存在。",
		fault.ContactNotFound:        "联系人不存在。",
		fault.TemplateNoneActive:     "没有启用的模板。",
		fault.DefaultContentNotFound: "默认内容不存在。",
		fault.DefaultContentExists:   "该手机号已有默认内容。",
		fault.DefaultContentSent:     "该手机号的默认内容已发送过。",
		fault.CompanyNotFound:        "公司不存在。",
		fault.ChannelNotFound:        "渠道不存在。",
		fault.CountryNotFound:        "国家不存在。",
		fault.SenderNotFound:         "发送方不存在。",
		fault.RouteRuleNotFound:      "路由不存在。",
		fault.Exists:                 "已存在。",
		fault.InUse:                  "仍被引用，无法删除。",
		fault.LimitReached:           "数量已达上限 %d：请先删除不再需要的。",
		fault.VersionStale:           "已被他人修改，请重新读取。",
		fault.IdempotencyInFlight:    "使用此 Idempotency-Key 的第一个请求仍在处理。",
		fault.IdempotencyKeyReused:   "此 Idempotency-Key 已用于不同的请求体。",
		fault.ServiceUnavailable:     "服务暂时不可用，请稍后重试。",
		fault.InternalError:          "服务器内部错误。",
	},
	rules: map[fault.Rule]string{
		fault.Required:           "必填",
		fault.UnknownField:       "不是已知字段",
		fault.UnknownParameter:   "不是此操作的查询参数",
		fault.WrongType:          "类型必须是 %v",
		fault.WrongFormat:        "格式不正确",
		fault.NotAllowed:         "必须是 %v 之一",
		fault.TooShort:           "至少 %v 个字符",
		fault.TooLong:            "最多 %v 个字符",
		fault.TooSmall:           "不能小于 %v",
		fault.TooBig:             "不能大于 %v",
		fault.Empty:              "不能为空",
		fault.TooManyItems:       "的项目或成员超过 %v 个",
		fault.BadCharacters:      "包含不允许的字符",
		fault.Blank:              "不能只有空白",
		fault.NotAPhoneNumber:    "不是可以拨打的手机号码",
		fault.NotFormEncoded:     "不是表单编码（name=value&name=value）",
		fault.MissingParameters:  "缺少模板参数：%v",
		fault.SpacedPlaceholder:  "占位符中有空格，会被原样发送：%v",
		fault.RenderedTooLong:    "套用模板后超过 %v 个字符",
		fault.RenderedBlank:      "渲染后的消息为空",
		fault.NoDefaultContent:   "为空，且该手机号没有默认内容",
		fault.NotACursor:         "不是此列表给出的游标",
		fault.Duplicate:          "出现了两次",
		fault.OnlyForSenders:     "只用于 send 角色的用户",
		fault.OnlyForBoundRoles:  "只用于 submit 或 read 角色的用户：请省略；用户已有公司时请设为 null",
		fault.CountryNotServed:   "所在国家不在该公司或渠道的发送范围内",
		fault.NotThere:           "指向不存在的对象",
		fault.BelowZero:          "会使余额低于 0",
		fault.InThePast:          "已是过去的时间",
		fault.TooFarAhead:        "不能晚于 %v 天之后",
		fault.TooUrgent:          "该用户不能设为小于 %v",
		fault.NoSecretsKey:       "是机密，而此服务没有可用来保存它的 SECRETS_KEY",
		fault.GiveAgain:          "已隐藏；地址、类型或校验方式改变时不会沿用，请重新填写",
		fault.MadeLikeAKey:       "的格式与 API 密钥相同，会被当作密钥",
		fault.TooManyBytes:       "按 JSON 计最多 %v 字节",
		fault.TooManyTogether:    "与渠道数和人数相乘后过多：最多 %v 项",
		fault.NothingElseIsKnown: "不正确",
	},
	Recovered:   "成功恢复 %d 个僵尸任务",
	States:      english.States,
	Description: [4]string{"待处理", "处理中", "成功", "失败"},
	explained: map[string]string{
		queue.BecauseScheduled:  "已定时，稍后发送。",
		queue.BecauseRetryLater: "发送失败，稍后重试。",
		queue.BecauseQueued:     "正在等待发送方，前面还有 %d 条。",
		queue.BecauseNoSender:   "正在等待，目前没有发送方可以领取；前面还有 %d 条。",
		queue.BecauseProcessing: "正由发送方处理。",
		queue.BecauseSettled:    "已结束，不会再有变化。",
	},
}

var languages = language.NewMatcher([]language.Tag{language.English, language.Chinese})

// For picks by Accept-Language; English when that says nothing that we have.
func For(acceptLanguage string) *Catalogue {
	acceptLanguage = acceptLanguage[:min(len(acceptLanguage), languagesMost)]
	if acceptLanguage == "" {
		return english
	}
	if _, index := language.MatchStrings(languages, acceptLanguage); index == 1 {
		return chinese
	}
	return english
}

// languagesMost bounds what is read of Accept-Language, in bytes.
const languagesMost = 200

// Limits of what an answer says of wrong fields: a body or a query can have any number of them, of two bytes each, or names of any length.
const (
	fieldsMost     = 100
	ItemFieldsMost = 10  // of an item of a batch
	fieldNameMost  = 200 // characters
)

// shortened is a text of at most most characters.
func shortened(text string, most int) string {
	if len(text) <= most {
		return text
	}
	if runes := []rune(text); len(runes) > most {
		return string(runes[:most-1]) + "…"
	}
	return text
}

// Detail is the part of an answer that programs read.
func (c *Catalogue) Detail(f *fault.Error) api.ErrorDetail {
	detail := api.ErrorDetail{Reason: string(f.Reason)}
	if len(f.Fields) > 0 {
		fields := make([]api.FieldError, min(len(f.Fields), fieldsMost))
		for i := range fields {
			field := f.Fields[i]
			fields[i] = api.FieldError{Field: shortened(field.Name, fieldNameMost), Message: c.rule(field)}
		}
		detail.Fields = &fields
	}
	if f.Limit > 0 {
		detail.Limit = &f.Limit
	}
	return detail
}

// Explain says in words why a task is where it is.
func (c *Catalogue) Explain(e queue.Explanation) string {
	text := c.explained[e.Reason]
	if strings.Contains(text, "%d") {
		var ahead int64
		if e.Ahead != nil {
			ahead = min(*e.Ahead, queue.AheadMost)
		}
		return fmt.Sprintf(text, ahead)
	}
	return text
}

// Reason says in words what went wrong.
func (c *Catalogue) Reason(f *fault.Error) string {
	text := c.reasons[f.Reason]
	if strings.Contains(text, "%d") {
		return fmt.Sprintf(text, f.Limit)
	}
	return text
}

func (c *Catalogue) rule(f fault.Field) string {
	text := c.rules[f.Rule]
	if !strings.Contains(text, "%v") {
		return text
	}
	limit := f.Limit
	if values, ok := limit.([]any); ok {
		words := make([]string, len(values))
		for i, v := range values {
			words[i] = fmt.Sprint(v)
		}
		limit = strings.Join(words, ", ")
	}
	return fmt.Sprintf(text, limit)
}
