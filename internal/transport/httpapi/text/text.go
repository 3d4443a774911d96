// Package text contains every text for people, in English and in Chinese.
package text

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/text/language"

	"lksms/gen/api"
	"lksms/internal/audience/batch"
	"lksms/internal/audience/batch/progress"
	"lksms/internal/dispatch/queue"
	"lksms/internal/dispatch/queue/explain"
	"lksms/internal/dispatch/queue/task"
	"lksms/internal/dispatch/segment"
	"lksms/internal/dispatch/sender"
	"lksms/internal/insight/alert/delivery"
	"lksms/internal/platform/fault"
)

// Catalogue contains every text for people in one language.
type Catalogue struct {
	Alerts      delivery.Language
	Pages       string                      // folder of the documents in this language, relative to the folder of the English documents
	reasons     map[fault.Reason]string     // %d is the limit of the fault, if the fault has a limit
	rules       map[fault.Rule]string       // %v is the limit of the rule, if the rule has a limit
	Recovered   string                      // %d is the number of tasks
	States      [queue.Cancelled + 1]string // names of the states of a task, by status code
	Description [queue.Cancelled + 1]string
	place       func(fault.Place) string
	explained   map[string]string // by task.Explanation.Reason; %d is the number of tasks ahead
	BatchWaits  map[string]string // by progress.Wait.Reason
	BatchCodes  map[int16]string  // remarks of rows with these codes and without a stored fault
	switches    map[string]string // reasons that hold a task, by kind of switch; empty kind: the task is no longer held

	switchesApart string
	notReady      map[string]string // by fault.NotReady.Why; %s is the sender

	DoubtfulEncoding string // warning about a list that was read as GB18030
}

var english = &Catalogue{
	Alerts: delivery.English,
	reasons: map[fault.Reason]string{
		fault.RequestMalformed:       "The request body cannot be read: it must be valid JSON, or a complete form.",
		fault.RequestInvalid:         "A field is not valid.",
		fault.RequestTooLarge:        "The request body is too large: split the request or the file, or shorten its texts.",
		fault.RequestTooDeep:         "The request body is nested too deeply: use fewer levels of objects and lists.",
		fault.RequestTooSlow:         "The request body did not arrive in time: send it faster, or split the request.",
		fault.RequestTooMuch:         "Too many or too large requests of your company are in progress: try again later.",
		fault.RequestMediaType:       "The Content-Type must be application/json, or multipart/form-data for a file.",
		fault.RequestCoding:          "The Content-Encoding must be gzip or missing; for a file, it must be missing.",
		fault.RequestCrossSite:       "Web pages of other sites may not send this request: add the site to CORS_ORIGINS to allow it.",
		fault.RouteNotFound:          "There is no such path: check the URL.",
		fault.RouteMethodNotAllowed:  "This path does not support this HTTP method.",
		fault.AuthRequired:           "Credentials are missing or wrong: send a user name and password, or an API key.",
		fault.AuthForbidden:          "These credentials are not allowed to do this.",
		fault.AuthOtherApp:           "This user is bound to another app: use the app_id of that app.",
		fault.AuthOtherCompany:       "This user belongs to another company: leave out company_no, or use the user's own company.",
		fault.AuthTooManyFailures:    "Too many failed attempts from this address: try again later.",
		fault.UserNotFound:           "There is no such user.",
		fault.UserExists:             "A user with this name already exists: choose another name.",
		fault.KeyNotFound:            "There is no such API key.",
		fault.VerificationNotFound:   "There is no such verification.",
		fault.VerificationApproved:   "The code was already entered: start a new verification.",
		fault.VerificationExpired:    "The code has expired: start a new verification.",
		fault.VerificationExhausted:  "Too many wrong codes were entered: start a new verification.",
		fault.VerificationCancelled:  "The verification was cancelled, or replaced by a newer one.",
		fault.VerificationNoKey:      "This server has no SECRETS_KEY, or it lacks the key of the code.",
		fault.TaskNotFound:           "There is no such task.",
		fault.MessageNotFound:        "There is no such message.",
		fault.TaskNotPending:         "The task is no longer PENDING, so it cannot be cancelled.",
		fault.TaskNotHeld:            "This app never held the task, so it cannot report it.",
		fault.LeaseNotHeld:           "This app does not hold this lease, or not any more: do not send the message.",
		fault.TaskDropped:            "The message was settled long ago and is no longer kept. It was not sent again.",
		fault.TaskNotEnded:           "The task has not ended: it is still PENDING or PROCESSING.",
		fault.TaskSucceeded:          "The task is SUCCESS: submit the message again to send it twice.",
		fault.TaskDelivered:          "The provider reported that this message was delivered: submit it again to send it twice.",
		fault.TaskExpired:            "The task cannot be sent before its expires_at any more: submit the message again.",
		fault.TaskRefused:            "The message was refused when it was submitted, see its result: submit it again.",
		fault.TaskUnreachable:        "The person could not be reached when the task was made: set the notification to waiting, so that it reads the contact again.",
		fault.TaskErased:             "The message and its recipient were erased: the task cannot be sent again.",
		fault.TaskSensitive:          "The text of the sensitive message was deleted when the task ended: submit the message again.",
		fault.TaskTestsOff:           "The task is a test message, and the setting sms.send_tests is off.",
		fault.TaskRecipientRefused:   "The recipient may not get this message now: the company may not send to the country, or a signature is missing.",
		fault.TaskSenderGone:         "Only one sender may send the task, and it does not exist any more or does not serve the company.",
		fault.RecipientBlocked:       "This recipient is blocked: messages of this type must not be sent to the number.",
		fault.RecipientCountryClosed: "No codes are sent to the country of this number: open the country in the setting verification.countries, or in the company.",
		fault.RecipientSuspected:     "Codes for similar numbers, or for the network of the client, are not approved: an admin can release the prefix or the network.",
		fault.RecipientLimited:       "This recipient has got the maximum number of messages of this type: send it again when the next one is allowed.",
		fault.SafeNotFound:           "There is no such safe prefix or network.",
		fault.BlockNotFound:          "There is no such block.",
		fault.ReplyRuleNotFound:      "There is no such rule.",
		fault.TaskWithdrawn:          "The task may not be sent any more: its notification has ended, a later message took its place, or its company was deleted.",
		fault.BatchNotFound:          "There is no such batch.",
		fault.BatchRowNotFound:       "The batch has no such row, or the row has not been checked yet.",
		fault.BatchWrongStatus:       "The status of the batch does not allow this.",
		fault.BatchNothingToSend:     "The batch has no row that can be sent.",
		fault.BatchExpired:           "The batch expires before it could be sent: create it again with a later expires_at.",
		fault.CallbackNotFound:       "There is no such callback.",
		fault.ReceivedNotFound:       "There is no such received message.",
		fault.ConversationNotFound:   "There is no such conversation: no received message of this number is kept. Send the first message with POST /api/v1/sms/send.",
		fault.ReplySenderNotReady:    "The sender that received the last message cannot send now: repeat the reply with the sender any, or when this sender is ready.",
		fault.JobNotFound:            "There is no such job.",
		fault.JobNotRunning:          "The job has ended already.",
		fault.JobAlreadyRunning:      "A job with this action and this filter is running.",
		fault.JobCountChanged:        "The filter now selects %d tasks: check them, and repeat the request with this count.",
		fault.SenderNotTestable:      "Only a sender for short messages that the server drives can be tested: an app sends by itself.",
		fault.SenderNotLinked:        "No server keeps a link of this sender to a carrier open. Is the sender on?",
		fault.SenderIsDriven:         "The server itself runs the sender with this number: apps must use another app_id.",
		fault.TemplateNotFound:       "There is no such template.",
		fault.NotificationNotFound:   "There is no such notification.",
		fault.ContactNotFound:        "There is no such contact.",
		fault.TagNotFound:            "There is no such tag.",
		fault.ImportNotFound:         "There is no such import.",
		fault.ReconciliationNotFound: "There is no such reconciliation.",
		fault.ErasureNotFound:        "There is no such erasure.",
		fault.TemplateNoneActive:     "No template is active: add a template or enable one.",
		fault.TemplateNotActive:      "The template is not active: enable it, or choose another one.",
		fault.TemplateWrongStatus:    "The template cannot change to this status now: error.fields lists the allowed ones.",
		fault.TemplateInReview:       "The texts of a template in review cannot be changed: make it a draft first.",
		fault.TemplateVoided:         "The template is voided, which is final: add another template.",
		fault.DefaultContentNotFound: "There is no such default content.",
		fault.DefaultContentExists:   "This phone number already has a default content: change the existing one.",
		fault.DefaultContentSent:     "The default content of this phone number was already sent: send content, or reset the default content.",
		fault.CompanyNotFound:        "There is no such company.",
		fault.CompanyOff:             "The company is switched off: it submits no messages.",
		fault.ChannelNotFound:        "There is no such channel.",
		fault.CountryNotFound:        "There is no such country.",
		fault.SenderNotFound:         "There is no such sender.",
		fault.RouteRuleNotFound:      "There is no such route.",
		fault.InboundNotFound:        "There is no such inbound, or it is off.",
		fault.AlertRuleNotFound:      "There is no such alert rule.",
		fault.AlertReceiverNotFound:  "There is no such receiver of alerts.",
		fault.AlertNotFound:          "There is no such alert.",
		fault.AlertNotFiring:         "The alert is already resolved, so it cannot be acknowledged.",
		fault.WebhookNotFound:        "There is no such webhook.",
		fault.EventsCursorGone:       "Events behind this cursor are deleted, or were not recorded: read the tasks, and go on from the oldest cursor or from now.",
		fault.Exists:                 "This record already exists: change the existing one, or choose another number.",
		fault.InUse:                  "The record is in use and cannot be deleted: remove what refers to it first, or retire it if it is a sender.",
		fault.LimitReached:           "The limit of %d is reached: delete what is no longer needed.",
		fault.VersionStale:           "The record was changed in the meantime: read it again, then repeat the change with the new version.",
		fault.IdempotencyInFlight:    "A request with this Idempotency-Key is still in progress: try again shortly.",
		fault.IdempotencyKeyReused:   "This Idempotency-Key was already used with a different body: use a new key.",
		fault.ServerOtherRole:        "A server with another role answers this request: see the roles of the servers.",
		fault.ServerStarting:         "The server is starting, or brings its database up to date: try again later, or call another server.",
		fault.ServiceUnavailable:     "The service is temporarily unavailable: try again shortly.",
		fault.InternalError:          "Internal server error: quote the request_id when you report it.",
	},
	rules: map[fault.Rule]string{
		fault.Required:           "is required",
		fault.UnknownField:       "is not a known field",
		fault.UnknownParameter:   "is not a query parameter of this operation",
		fault.WrongType:          "must be of type %v",
		fault.WrongFormat:        "has the wrong format",
		fault.NotATime:           "must be a time with its zone, such as 2026-12-01T00:00:00Z",
		fault.NotPublic:          "must be an address of the public Internet: the webhook of a user reaches no private network",
		fault.NotAllowed:         "must be one of: %v",
		fault.TooShort:           "must have at least %v characters",
		fault.TooLong:            "must have at most %v characters",
		fault.TooSmall:           "must be at least %v",
		fault.TooBig:             "must be at most %v",
		fault.Empty:              "must not be empty",
		fault.TooManyItems:       "must have at most %v items or members",
		fault.BadCharacters:      "contains characters that are not allowed",
		fault.Blank:              "must not be blank",
		fault.NoLetters:          "must contain a letter or digit",
		fault.NotAPhoneNumber:    "is not a phone number that can be dialled",
		fault.NotHours:           "must be hours such as 21:00-09:00, with an end that is not the beginning",
		fault.TooManyHours:       "must be at most %v hours",
		fault.NotAnEmail:         "is not an e-mail address",
		fault.NoPartOfANumber:    "has a character that is no part of a phone number (code and position): %v",
		fault.RegionNotKnown:     "is no mobile number of mainland China, and its country is not known: write it with + and the country code, or set default_region in the company, or in the request if it has this field",
		fault.NotARegion:         "is not a region such as CN or ID (ISO 3166-1): %v",
		fault.NotFormEncoded:     "must be form-encoded: name=value&name=value",
		fault.MissingParameters:  "lacks parameters that the template needs: %v",
		fault.UnknownParameters:  "has parameters that the template does not have: %v",
		fault.WrongCount:         "must have one value for each of these placeholders, in this order, separated by ; (use an object if a value contains ;): %v",
		fault.OtherPlaceholders:  "must have the same placeholders as template_content; these are in only one of them: %v",
		fault.HasPlaceholders:    "has the placeholders %v: choose a template without placeholders",
		fault.NotARegexp:         "is not a regular expression in RE2 syntax: %v",
		fault.TooComplex:         "is too complex: shorten the expression, or use smaller repetitions",
		fault.TooLongToMatch:     "is too long to match exactly: at most %v bytes without spaces and punctuation; a Chinese character has 3 bytes",
		fault.NeedsPlaceholder:   "must contain one of the placeholders %v; without it, the request would be the same for every message",
		fault.UnknownPlaceholder: "contains the placeholder %v, which does not exist",
		fault.SpacedPlaceholder:  "contains a placeholder with spaces, which would be sent unchanged; remove the spaces: %v",
		fault.RenderedTooLong:    "is too long after the template is applied: %v characters, at most %v",
		fault.RenderedBlank:      "the rendered message is empty",
		fault.NoDefaultContent:   "is empty, and this phone number has no default content: send content, or store a default content",
		fault.NotACursor:         "is not a cursor of this list: use next_cursor of the previous page",
		fault.Duplicate:          "is a duplicate, or contains duplicates",
		fault.RepeatsRow:         "repeats row %v",
		fault.Reserved:           "is reserved for templates that are given no number: choose another one",
		fault.NotTogether:        "must not be given together with %v",
		fault.OnlyTogether:       "is allowed only together with %v",
		fault.OnlyForSenders:     "is allowed only for users with the role send",
		fault.OnlyForBoundRoles:  "is allowed only for users with the role submit or read: leave it out, or set it to null if the user has a company",
		fault.OnlyOfAllCompanies: "is an event of the service: only users with access to the events of all companies receive it; leave it out",
		fault.IsBlocked:          "is blocked for messages of this type",
		fault.IsLimited:          "has got the maximum number of messages",
		fault.CountryClosed:      "belongs to the country %v, which is not open for codes",
		fault.IsSuspected:        "has a prefix or network whose codes are not approved",
		fault.NotAMobile:         "is a fixed line or a service number, which cannot get codes",
		fault.CountryNotServed:   "is in a country that this company or channel does not send to",
		fault.SwitchedOff:        "is not sent to now: %v",
		fault.NotThere:           "refers to something that does not exist",
		fault.NotServing:         "names a sender that does not exist or does not serve the company",
		fault.SenderNotReady:     "cannot be used now: %v",
		fault.BelowZero:          "would make the balance negative",
		fault.InThePast:          "is in the past, or earlier than allowed",
		fault.BeforeSending:      "is not after the time at which the message would be sent, %v, so it would expire unsent",
		fault.StaysQuiet:         "is not after %v: the recipient has quiet hours until then, so the message would expire unsent",
		fault.TooFarAhead:        "must be at most %v days in the future",
		fault.InTheFuture:        "is in the future",
		fault.NotCounted:         "is from before the first daily total",
		fault.WasDropped:         "has messages that were dropped from the history: import these days first, or give a total",
		fault.TooUrgent:          "must be at least %v for this user",
		fault.LacksCode:          "has no placeholder {code}",
		fault.NoSecretsKey:       "is a secret, which this server cannot store without a SECRETS_KEY",
		fault.GiveAgain:          "must be given again: a hidden value is not kept when the address, the kind or the verification changes",
		fault.MadeLikeAKey:       "has the format of an API key: choose another password",
		fault.TooManyBytes:       "must be at most %v bytes as JSON",
		fault.TooManyTogether:    "has too many items for this number of channels and people: at most %v",
		fault.RangeEmpty:         "must be before the end of the range",
		fault.RangeTooLong:       "is too early for this choice: the range has at most %v days",
		fault.TooManySelected:    "selects more than %v tasks: make it narrower",
		fault.MissingColumns:     "has placeholders without a column in the list: %v",
		fault.TooManyCharacters:  "is too long: the text has %v characters, and a message of this type at most %v",
		fault.TooManySegments:    "is too long: the text takes %v segments, and a message of this type at most %v",
		fault.NothingElseIsKnown: "is not valid",
		fault.NotAList:           "is not a list: send CSV, an Excel workbook (.xlsx) or a JSON array of objects",
		fault.OldWorkbook:        "has the old format .xls: save the workbook as .xlsx or as CSV UTF-8",
		fault.Encrypted:          "is protected by a password: save the file without a password",
		fault.Damaged:            "is damaged or incomplete: save it again and send the new file",
		fault.DamagedAt:          "is damaged or written wrongly: %v",
		fault.CutShort:           "ends in the middle of a value: %v",
		fault.NotText:            "contains bytes that are not text in its encoding: %v. Name the encoding, such as Windows-1252: without it, the list is read as UTF-8, UTF-16 or GB18030",
		fault.NotCertain:         "must be named: the list can be read as Chinese (GB18030), but looks like a text in another encoding, such as Windows-1252 for Latin letters. Or save the list as UTF-8",
		fault.NotAValue:          "must contain one text, number or boolean in each cell: %v",
		fault.CellTooLong:        "has a value that is too long: %v",
		fault.NoHeader:           "has no header: the first row must name the columns",
		fault.UnnamedColumn:      "has a column without a name: name or delete it: %v",
		fault.DuplicateColumn:    "has two columns with the same name: %v",
		fault.TooManyColumns:     "has too many columns: at most %v",
		fault.TooManyRows:        "has too many rows: at most %v",
		fault.MergedCells:        "has merged cells: split them and fill each one: %v",
		fault.UnpackedTooBig:     "is too large when it is unpacked: at most %v bytes; delete other sheets and pictures, or send CSV",
		fault.NoColumn:           "has no column %v: add it, or name it in the header",
		fault.SeveralColumns:     "is not clear, because two columns can be meant: %v",
		fault.BadColumn:          "has a column whose name cannot be an attribute: %v; a name has at most 50 characters, and no braces",
		fault.BeyondLimit:        "has more than fits: at most %v are allowed",
		fault.Shortened:          "was shortened by the spreadsheet program, or could not be computed: format the column as text, and enter the value again",
		fault.OfOther:            "differs from the company of the import: leave the cell empty, or import the rows of each company apart",
		fault.SharedByMany:       "identifies no message: more than 10,000 attempts of the sender have this number",
		fault.TooManyCells:       "has more cells than the list has columns: put texts that contain the separator into quotes",
	},
	place: func(p fault.Place) string {
		text := fmt.Sprintf("row %d", p.Row)
		if p.Column != "" {
			text += ", column " + p.Column
		}
		if p.Most > 0 {
			text += fmt.Sprintf(", at most %d characters", p.Most)
		}
		return text
	},
	Recovered: "Recovered %d zombie tasks.",
	States:    [queue.Cancelled + 1]string{"PENDING", "PROCESSING", "SUCCESS", "FAILED", "CANCELLED"},
	Description: [queue.Cancelled + 1]string{
		"waiting for a sender", "held by a sender", "sent", "failed, with no further attempt", "cancelled before it was sent",
	},
	explained: map[string]string{
		task.BecauseScheduled:  "It is scheduled for later.",
		task.BecauseRetryLater: "It will be retried later: the last attempt did not succeed.",
		task.BecauseQuiet:      "Its recipient has quiet hours. It is sent within half an hour after their end.",
		task.BecauseLimited:    "Its recipient gets no more messages of this type before due_at.",
		task.BecauseHeld:       "It is held: %s.",
		task.BecauseExpiring:   "It will expire: its `expires_at` comes before it could be sent.",
		task.BecauseQueued:     "It waits for a sender; %d go before it.",
		task.BecauseNoSender:   "It waits, and no sender can take it now; %d go before it.",
		task.BecauseProcessing: "A sender holds it.",
		task.BecauseSettled:    "It is settled: nothing more will happen to it, unless it is requeued.",
	},
	DoubtfulEncoding: "The list was read as Chinese (GB18030), but looks like a text in another encoding, such as Windows-1252. Check the rows; if names are wrong, upload the list again saved as UTF-8, or, for Latin letters, with encoding Windows-1252.",
	BatchCodes: map[int16]string{
		batch.IsRefused: "the row could not be submitted because its recipient was erased or because of an internal error",
		batch.IsExpired: "the batch expires before the row can be submitted",
	},
	BatchWaits: map[string]string{
		progress.WaitsForTime:   "It is scheduled for later.",
		progress.WaitsForSender: "Its only sender does not exist any more, or does not serve the company any more: let the sender serve the company again, or cancel the batch.",
		progress.WaitsForAny:    "No sender can claim its remaining rows now: every sender that serves them is off, silent, without a link to its carrier, paused, outside its hours, or out of quota or balance, or a switch holds them.",
		progress.WaitsForQuiet:  "The quiet hours of the recipients delay all of its remaining rows.",
		progress.WaitsForLimit:  "The recipients of all of its remaining rows have got the maximum number of messages.",
		progress.WaitsInVain:    "It expired before it was confirmed: cancel it, and make a new batch.",
	},
	switches: map[string]string{
		"batch":           "batch %s is paused or being cancelled",
		"company":         "company %s is off",
		"user":            "user %s is disabled",
		"channel":         "channel %s is off",
		"country":         "country %s is off",
		"company_country": "the company may not send to country %s now",
		"channel_country": "the channel does not serve country %s now",
		"shared_senders":  "no route of company %s serves it, and the company does not use shared senders",
		"":                "it continues in a moment",
	},
	switchesApart: "; ",
	notReady: map[string]string{
		sender.WhyOff:          "sender %s is off",
		sender.WhySimsOff:      "each SIM of sender %s is off",
		sender.WhyPaused:       "sender %s is paused",
		sender.WhyOutsideHours: "sender %s gets no messages at this time of day",
		sender.WhyNoQuota:      "the limits of sender %s are used up",
		sender.WhyNoFunds:      "the balance of sender %s is used up",
		sender.WhySilent:       "sender %s has not polled lately",
		sender.WhyNotBound:     "sender %s has no open link to its carrier",
		fault.WhyNotServing:    "sender %s does not exist any more, or does not serve the company",
	},
}

var chinese = &Catalogue{
	Alerts: delivery.Chinese,
	Pages:  "zh-CN/",
	reasons: map[fault.Reason]string{
		fault.RequestMalformed:       "无法读取请求体：必须是有效的 JSON 或完整的表单。",
		fault.RequestInvalid:         "字段不正确。",
		fault.RequestTooLarge:        "请求体过大：请拆分请求或文件，或缩短内容。",
		fault.RequestTooDeep:         "请求体嵌套过深：请减少层级。",
		fault.RequestTooSlow:         "请求体未能及时到达：请加快发送，或拆分请求。",
		fault.RequestTooMuch:         "贵公司处理中的请求过多或过大，请稍后再试。",
		fault.RequestMediaType:       "Content-Type 必须是 application/json；上传文件时为 multipart/form-data。",
		fault.RequestCoding:          "Content-Encoding 只能是 gzip，或不带该请求头；上传文件时不能带该请求头。",
		fault.RequestCrossSite:       "其他网站的网页不能发起此请求；如需允许，请把该网站加入 CORS_ORIGINS。",
		fault.RouteNotFound:          "路径不存在，请检查 URL。",
		fault.RouteMethodNotAllowed:  "此路径不支持该 HTTP 方法。",
		fault.AuthRequired:           "凭证缺失或不正确：请提供用户名和密码，或 API 密钥。",
		fault.AuthForbidden:          "当前凭证无权进行此操作。",
		fault.AuthOtherApp:           "该用户绑定的是另一个 APP：请使用所绑定的 app_id。",
		fault.AuthOtherCompany:       "该用户属于另一家公司：请省略 company_no，或填写用户所属的公司。",
		fault.AuthTooManyFailures:    "此地址失败次数过多，请稍后再试。",
		fault.UserNotFound:           "用户不存在。",
		fault.UserExists:             "同名用户已存在，请换一个用户名。",
		fault.KeyNotFound:            "API 密钥不存在。",
		fault.VerificationNotFound:   "验证不存在。",
		fault.VerificationApproved:   "该验证码已使用，请重新发起验证。",
		fault.VerificationExpired:    "验证码已过期，请重新发起验证。",
		fault.VerificationExhausted:  "验证码错误次数过多，请重新发起验证。",
		fault.VerificationCancelled:  "该验证已取消，或已被新的验证取代。",
		fault.VerificationNoKey:      "服务器没有设置 SECRETS_KEY，或者缺少该验证码的密钥。",
		fault.TaskNotFound:           "任务不存在。",
		fault.MessageNotFound:        "没有这条消息。",
		fault.TaskNotPending:         "任务已不是 PENDING 状态，不能取消。",
		fault.TaskNotHeld:            "该 APP 从未领取过此任务，不能上报。",
		fault.LeaseNotHeld:           "该 APP 不持有此租约，或租约已结束：不要发送这条消息。",
		fault.TaskDropped:            "该消息早已结束，已超过保留期；没有再次发送。",
		fault.TaskNotEnded:           "任务尚未结束，仍为 PENDING 或 PROCESSING 状态。",
		fault.TaskSucceeded:          "任务已是 SUCCESS 状态；如需再发一次，请重新提交消息。",
		fault.TaskDelivered:          "服务商回执显示该消息已送达；如需再发一次，请重新提交消息。",
		fault.TaskExpired:            "任务在 expires_at 之前已不能发送，请重新提交消息。",
		fault.TaskRefused:            "短信在提交时被拒绝（原因见结果）：请重新提交。",
		fault.TaskUnreachable:        "创建任务时无法联系到此人：请把通知设为等待，以便重新读取联系人。",
		fault.TaskErased:             "该消息及其收件人已清除，不能再发送。",
		fault.TaskSensitive:          "敏感短信的内容已在任务结束时删除，请重新提交。",
		fault.TaskTestsOff:           "该任务是测试短信，而设置 sms.send_tests 已关闭。",
		fault.TaskRecipientRefused:   "收件人现在不能收到该消息：公司不能向该国家发送，或缺少签名。",
		fault.TaskSenderGone:         "任务只能由指定的发送方发送，而该发送方已不存在，或不再为该公司服务。",
		fault.RecipientBlocked:       "该收件人已退订或被屏蔽：不能向该号码发送此类消息。",
		fault.RecipientCountryClosed: "不向该号码的国家发送验证码：请在设置 verification.countries 或公司中开放该国家。",
		fault.RecipientSuspected:     "相近号码或客户端所在网络的验证码几乎没有通过校验：管理员可以放行该号段或网络。",
		fault.RecipientLimited:       "该收件人收到的此类消息已达上限：请在允许发送下一条时再发送。",
		fault.SafeNotFound:           "没有这个安全号段或网络。",
		fault.BlockNotFound:          "没有这条屏蔽记录。",
		fault.ReplyRuleNotFound:      "没有这条规则。",
		fault.TaskWithdrawn:          "任务不能再发送：其通知已结束，或已有更新的消息，或其公司已删除。",
		fault.BatchNotFound:          "批次不存在。",
		fault.BatchRowNotFound:       "批次中没有这一行，或者这一行尚未检查。",
		fault.BatchWrongStatus:       "批次当前的状态不允许此操作。",
		fault.BatchNothingToSend:     "批次中没有可以发送的行。",
		fault.BatchExpired:           "批次在可以发送之前就会过期：请用更晚的 expires_at 重新创建。",
		fault.CallbackNotFound:       "回调不存在。",
		fault.ReceivedNotFound:       "收到的短信不存在。",
		fault.ConversationNotFound:   "会话不存在：没有保留此号码的收到的短信。第一条短信请用 POST /api/v1/sms/send 发送。",
		fault.ReplySenderNotReady:    "收到最后一条短信的发送方现在不能发送：请用 sender any 重新回复，或等该发送方就绪后再回复。",
		fault.JobNotFound:            "作业不存在。",
		fault.JobNotRunning:          "作业已经结束。",
		fault.JobAlreadyRunning:      "相同操作、相同筛选条件的作业正在运行。",
		fault.JobCountChanged:        "筛选条件现在选中 %d 条任务：请核对后，用此 count 重新请求。",
		fault.SenderNotTestable:      "只能测试由服务器驱动的短信发送方；APP 自行发送。",
		fault.SenderNotLinked:        "没有服务器为此发送方保持与运营商的连接。发送方是否已启用？",
		fault.SenderIsDriven:         "此编号的发送方由服务器运行，APP 请使用其他 app_id。",
		fault.TemplateNotFound:       "模板不存在。",
		fault.NotificationNotFound:   "通知不存在。",
		fault.ContactNotFound:        "联系人不存在。",
		fault.TagNotFound:            "标签不存在。",
		fault.ImportNotFound:         "导入不存在。",
		fault.ReconciliationNotFound: "对账不存在。",
		fault.ErasureNotFound:        "清除请求不存在。",
		fault.TemplateNoneActive:     "没有启用的模板：请添加或启用一个模板。",
		fault.TemplateNotActive:      "该模板未启用：请启用它，或选择其他模板。",
		fault.TemplateWrongStatus:    "该模板目前不能改为此状态；error.fields 列出允许的状态。",
		fault.TemplateInReview:       "审核中的模板不能修改内容，请先改回草稿。",
		fault.TemplateVoided:         "该模板已作废，不能再修改，请另建模板。",
		fault.DefaultContentNotFound: "默认内容不存在。",
		fault.DefaultContentExists:   "该手机号已有默认内容，请修改现有的内容。",
		fault.DefaultContentSent:     "该手机号的默认内容已发送过：请填写 content，或重置默认内容。",
		fault.CompanyNotFound:        "公司不存在。",
		fault.CompanyOff:             "公司已停用，不能提交消息。",
		fault.ChannelNotFound:        "通道不存在。",
		fault.CountryNotFound:        "国家不存在。",
		fault.SenderNotFound:         "发送方不存在。",
		fault.RouteRuleNotFound:      "路由不存在。",
		fault.InboundNotFound:        "入站接口不存在或已停用。",
		fault.AlertRuleNotFound:      "告警规则不存在。",
		fault.AlertReceiverNotFound:  "告警接收方不存在。",
		fault.AlertNotFound:          "告警不存在。",
		fault.AlertNotFiring:         "告警已恢复，不能再确认。",
		fault.WebhookNotFound:        "没有此 Webhook。",
		fault.EventsCursorGone:       "此游标之后的事件已删除或未记录：请查询任务，再从最早的游标或从现在继续。",
		fault.Exists:                 "记录已存在：请修改现有记录，或换一个编号。",
		fault.InUse:                  "记录正在使用，不能删除：请先移除对它的引用；发送方可以停用（retired）。",
		fault.LimitReached:           "数量已达上限 %d：请删除不再需要的记录。",
		fault.VersionStale:           "记录已被修改：请重新读取，再用新的 version 修改。",
		fault.IdempotencyInFlight:    "使用此 Idempotency-Key 的请求仍在处理，请稍后再试。",
		fault.IdempotencyKeyReused:   "此 Idempotency-Key 已用于不同的请求体，请换一个新的。",
		fault.ServerOtherRole:        "此请求由其他角色的服务器处理，请检查各服务器的角色。",
		fault.ServerStarting:         "服务器正在启动或升级数据库，请稍后再试，或调用其他服务器。",
		fault.ServiceUnavailable:     "服务暂时不可用，请稍后再试。",
		fault.InternalError:          "服务器内部错误，反馈时请提供 request_id。",
	},
	rules: map[fault.Rule]string{
		fault.Required:           "必填",
		fault.UnknownField:       "不是已知字段",
		fault.UnknownParameter:   "不是此操作的查询参数",
		fault.WrongType:          "类型必须是 %v",
		fault.WrongFormat:        "格式不正确",
		fault.NotATime:           "必须是带时区的时间，例如 2026-12-01T00:00:00Z",
		fault.NotPublic:          "必须是公网地址：用户的 webhook 不能访问内网",
		fault.NotAllowed:         "必须是以下之一：%v",
		fault.TooShort:           "至少 %v 个字符",
		fault.TooLong:            "最多 %v 个字符",
		fault.TooSmall:           "不能小于 %v",
		fault.TooBig:             "不能大于 %v",
		fault.Empty:              "不能为空",
		fault.TooManyItems:       "最多 %v 项",
		fault.BadCharacters:      "包含不允许的字符",
		fault.Blank:              "不能只有空白",
		fault.NoLetters:          "至少包含一个文字、字母或数字",
		fault.NotAPhoneNumber:    "不是可以拨打的手机号码",
		fault.NotHours:           "应为 21:00-09:00 这样的时段，且起止不能相同",
		fault.TooManyHours:       "不能超过 %v 小时",
		fault.NotAnEmail:         "不是电子邮箱地址",
		fault.NoPartOfANumber:    "含有号码中不能出现的字符（编码和位置）：%v",
		fault.RegionNotKnown:     "不是中国大陆手机号码，也不知道属于哪个国家：请加上 + 和国家代码，或者设置 default_region：请求中有这个字段就填在请求中，否则在公司中设置",
		fault.NotARegion:         "不是国家或地区代码，例如 CN、ID（ISO 3166-1）：%v",
		fault.NotFormEncoded:     "必须是表单编码：name=value&name=value",
		fault.MissingParameters:  "缺少模板所需的参数：%v",
		fault.UnknownParameters:  "含有模板没有的参数：%v",
		fault.WrongCount:         "须按顺序为模板的每个占位符各给一个值，以 ; 分隔；值中含有 ; 时请使用对象。占位符：%v",
		fault.OtherPlaceholders:  "占位符必须与 template_content 相同；只出现在其中之一的占位符：%v",
		fault.HasPlaceholders:    "含有占位符 %v：请选择没有占位符的模板",
		fault.NotARegexp:         "不是 RE2 语法的正则表达式：%v",
		fault.TooComplex:         "过于复杂：请缩短表达式，或减少重复次数",
		fault.TooLongToMatch:     "太长，无法全文匹配：去掉空格和标点后最多 %v 字节，一个汉字占 3 字节",
		fault.NeedsPlaceholder:   "必须包含占位符 %v 中的一个，否则每条短信的请求都相同",
		fault.UnknownPlaceholder: "占位符 %v 不存在",
		fault.SpacedPlaceholder:  "占位符中有空格，会被原样发送，请去掉空格：%v",
		fault.RenderedTooLong:    "套用模板后过长：%v 个字符，最多 %v 个",
		fault.RenderedBlank:      "渲染后的消息为空",
		fault.NoDefaultContent:   "为空，且该手机号没有默认内容：请填写 content，或保存默认内容",
		fault.NotACursor:         "不是此列表的游标：请使用上一页的 next_cursor",
		fault.Duplicate:          "重复，或包含重复项",
		fault.RepeatsRow:         "与第 %v 行重复",
		fault.Reserved:           "保留给未指定编号的模板，请换一个",
		fault.NotTogether:        "不能与 %v 同时填写",
		fault.OnlyTogether:       "只能与 %v 一起填写",
		fault.OnlyForSenders:     "只允许用于 send 角色的用户",
		fault.OnlyForBoundRoles:  "只允许用于 submit 或 read 角色的用户：请省略；用户已有公司时请设为 null",
		fault.OnlyOfAllCompanies: "是服务本身的事件，只通知接收所有公司事件的一方：请去掉",
		fault.IsBlocked:          "已退订或被屏蔽，不能接收此类消息",
		fault.IsLimited:          "收到的消息已达上限",
		fault.CountryClosed:      "属于未开放验证码的国家 %v",
		fault.IsSuspected:        "所属号段或网络的验证码几乎没有通过校验",
		fault.NotAMobile:         "是固定电话或服务号码，不能接收验证码",
		fault.CountryNotServed:   "所在国家不在该公司或通道的发送范围内",
		fault.SwitchedOff:        "目前不能发送：%v",
		fault.NotThere:           "所引用的对象不存在",
		fault.NotServing:         "该发送方不存在，或不为该公司服务",
		fault.SenderNotReady:     "现在不能使用：%v",
		fault.BelowZero:          "会使余额变为负数",
		fault.InThePast:          "已过去，或早于允许的时间",
		fault.BeforeSending:      "不晚于短信的发送时间 %v，短信在发送前就会过期",
		fault.StaysQuiet:         "不晚于 %v：此前一直是收件人的免打扰时段，短信在发送前就会过期",
		fault.TooFarAhead:        "最多是 %v 天之后",
		fault.InTheFuture:        "在将来",
		fault.NotCounted:         "早于有每日汇总的第一天",
		fault.WasDropped:         "当天的短信已从历史中删除：请先导入这些天，或只给出总数",
		fault.TooUrgent:          "该用户的取值不能小于 %v",
		fault.LacksCode:          "没有占位符 {code}",
		fault.NoSecretsKey:       "是机密；服务器没有设置 SECRETS_KEY，无法保存",
		fault.GiveAgain:          "必须重新填写：地址、类型或校验方式改变时，不会保留已隐藏的值",
		fault.MadeLikeAKey:       "与 API 密钥格式相同，请换一个密码",
		fault.TooManyBytes:       "JSON 编码后最多 %v 字节",
		fault.TooManyTogether:    "相对于通道数和人数，项数过多：最多 %v 项",
		fault.RangeEmpty:         "必须早于结束时间",
		fault.RangeTooLong:       "对于所选的统计方式过早：时间范围最多 %v 天",
		fault.TooManySelected:    "选中的任务超过 %v 条，请缩小范围",
		fault.MissingColumns:     "中的占位符在名单里没有对应的列：%v",
		fault.TooManyCharacters:  "过长：文本有 %v 个字符，该类型的消息最多 %v 个",
		fault.TooManySegments:    "过长：文本的计费条数为 %v，该类型的消息最多 %v",
		fault.NothingElseIsKnown: "不正确",
		fault.NotAList:           "不是名单：请上传 CSV、Excel 工作簿（.xlsx）或由对象组成的 JSON 数组",
		fault.OldWorkbook:        "是旧格式的工作簿（.xls）：请另存为 .xlsx 或 CSV UTF-8",
		fault.Encrypted:          "已加密：请取消密码后保存",
		fault.Damaged:            "已损坏或不完整：请重新保存后再上传",
		fault.DamagedAt:          "已损坏或格式有误：%v",
		fault.CutShort:           "数据在某个值中间被截断：%v",
		fault.NotText:            "含有在其编码中不是文本的字节：%v。请指定 encoding，例如 Windows-1252；不指定时按 UTF-8、UTF-16 或 GB18030 读取",
		fault.NotCertain:         "必须指定：列表可以按中文编码（GB18030）读取，但看起来是其他编码，例如西文的 Windows-1252；也可以另存为 UTF-8",
		fault.NotAValue:          "每处只能是一个文本、数字或真假值：%v",
		fault.CellTooLong:        "有过长的值：%v",
		fault.NoHeader:           "没有表头：第一行必须是列名",
		fault.UnnamedColumn:      "有一列没有列名，请填写列名或删除该列：%v",
		fault.DuplicateColumn:    "有两列同名：%v",
		fault.TooManyColumns:     "列数过多：最多 %v 列",
		fault.TooManyRows:        "行数过多：最多 %v 行",
		fault.MergedCells:        "有合并的单元格，请取消合并并逐格填写：%v",
		fault.UnpackedTooBig:     "解压后过大：最多 %v 字节；请删除其他工作表和图片，或上传 CSV",
		fault.NoColumn:           "缺少列 %v：请添加该列，或在表头中命名",
		fault.SeveralColumns:     "不明确，有两列都可能是所需的列：%v",
		fault.BadColumn:          "有一列的列名不能作为属性：%v；列名最多 50 个字符，且不能有大括号",
		fault.BeyondLimit:        "超出上限：最多 %v",
		fault.Shortened:          "被表格软件缩短或未能计算：请把该列设为文本格式，再重新填写",
		fault.OfOther:            "与导入的公司不一致：请留空，或按公司分别导入",
		fault.SharedByMany:       "不能确定消息：该发送方有超过 10,000 次发送使用此编号",
		fault.TooManyCells:       "的单元格多于列数：含有分隔符的文本需要加引号",
	},
	place: func(p fault.Place) string {
		text := fmt.Sprintf("第 %d 行", p.Row)
		if p.Column != "" {
			text += fmt.Sprintf("，%s 列", p.Column)
		}
		if p.Most > 0 {
			text += fmt.Sprintf("，最多 %d 个字符", p.Most)
		}
		return text
	},
	Recovered:   "成功恢复 %d 个僵尸任务",
	States:      english.States,
	Description: [queue.Cancelled + 1]string{"待处理", "处理中", "成功", "失败", "已取消"},
	explained: map[string]string{
		task.BecauseScheduled:  "已定时，稍后发送。",
		task.BecauseRetryLater: "将稍后重试：上次发送未成功。",
		task.BecauseQuiet:      "收件人处于免打扰时段，将在该时段结束后半小时内发送。",
		task.BecauseLimited:    "收件人的消息数已达上限，到 due_at 才能发送。",
		task.BecauseHeld:       "已暂停：%s。",
		task.BecauseExpiring:   "将会过期：过期时间早于可发送的时间。",
		task.BecauseQueued:     "正在等待发送方，前面还有 %d 条。",
		task.BecauseNoSender:   "正在等待，目前没有发送方可以领取；前面还有 %d 条。",
		task.BecauseProcessing: "正由发送方处理。",
		task.BecauseSettled:    "已结束；除非重新入队，不会再有变化。",
	},
	DoubtfulEncoding: "列表按中文编码（GB18030）读取，但看起来是其他编码（例如 Windows-1252）。请核对各行；如果姓名不对，请另存为 UTF-8 后重新上传，西文也可以指定 encoding 为 Windows-1252。",
	BatchCodes: map[int16]string{
		batch.IsRefused: "该行未能提交：收件人已被清除，或发生内部错误",
		batch.IsExpired: "批次在该行可以提交之前过期",
	},
	BatchWaits: map[string]string{
		progress.WaitsForTime:   "已定时，稍后发送。",
		progress.WaitsForSender: "指定的发送方已不存在，或不再为该公司服务：请恢复该发送方的服务，或取消批次。",
		progress.WaitsForAny:    "目前没有发送方可以领取剩余的行：可以发送它们的发送方已暂停、无响应、没有连上运营商、熔断中、不在可发时段，或限额、余额不足，或开关扣住了这些行。",
		progress.WaitsForQuiet:  "剩余的行都在等待收件人的免打扰时段结束。",
		progress.WaitsForLimit:  "剩余各行的收件人收到的消息都已达上限。",
		progress.WaitsInVain:    "在确认之前已过期：请取消，并新建批次。",
	},
	switches: map[string]string{
		"batch":           "批次 %s 已暂停或正在取消",
		"company":         "公司 %s 已停用",
		"user":            "用户 %s 已禁用",
		"channel":         "通道 %s 已停用",
		"country":         "国家 %s 已停用",
		"company_country": "该公司目前不能发送到国家 %s",
		"channel_country": "该通道目前不发送到国家 %s",
		"shared_senders":  "公司 %s 没有可用的路由，且不使用共享发送方",
		"":                "即将继续",
	},
	switchesApart: "；",
	notReady: map[string]string{
		sender.WhyOff:          "发送方 %s 已停用",
		sender.WhySimsOff:      "发送方 %s 的 SIM 卡都已停用",
		sender.WhyPaused:       "发送方 %s 已暂停",
		sender.WhyOutsideHours: "发送方 %s 现在不在可发时段",
		sender.WhyNoQuota:      "发送方 %s 的限额已用完",
		sender.WhyNoFunds:      "发送方 %s 的余额已用完",
		sender.WhySilent:       "发送方 %s 最近没有轮询",
		sender.WhyNotBound:     "发送方 %s 没有连上运营商",
		fault.WhyNotServing:    "发送方 %s 已不存在，或不为该公司服务",
	},
}

// languages contains traditional Chinese as a separate entry. Otherwise the header "zh-TW, en" would match English, because only en matches exactly.
var languages = language.NewMatcher([]language.Tag{language.English, language.Chinese, language.TraditionalChinese})

// For returns the Catalogue of the language that Accept-Language prefers. English is the default. Entries that are no languages are ignored.
func For(acceptLanguage string) *Catalogue {
	type entry struct {
		tag    language.Tag
		weight float32
	}
	var wanted []entry
	for one := range strings.SplitSeq(acceptLanguage[:min(len(acceptLanguage), maxLanguages)], ",") {
		tags, weights, err := language.ParseAcceptLanguage(one)
		if err == nil && len(tags) > 0 {
			wanted = append(wanted, entry{tags[0], weights[0]})
		}
	}
	slices.SortStableFunc(wanted, func(a, b entry) int { return cmp.Compare(b.weight, a.weight) })
	tags := make([]language.Tag, len(wanted))
	for i, one := range wanted {
		tags[i] = one.tag
	}
	if _, index, _ := languages.Match(tags...); index > 0 {
		return chinese
	}
	return english
}

// maxLanguages is the maximum number of bytes of Accept-Language that are read.
const maxLanguages = 200

// These constants limit the invalid fields that a response names. fault.MaxFields limits their number.
const (
	MaxItemFields = 10  // maximum number of invalid fields of one item of a batch
	maxFieldName  = 200 // maximum number of characters of a field name
)

// Detail returns the part of an error response that programs read.
func (c *Catalogue) Detail(f *fault.Error) api.ErrorDetail {
	detail := api.ErrorDetail{Reason: string(f.Reason)}
	if len(f.Fields) > 0 {
		fields := make([]api.FieldError, min(len(f.Fields), fault.MaxFields))
		for i := range fields {
			field := f.Fields[i]
			fields[i] = api.FieldError{Field: segment.Shortened(field.Name, maxFieldName), Message: c.rule(field)}
		}
		detail.Fields = &fields
	}
	if f.Limit > 0 {
		detail.Limit = &f.Limit
	}
	detail.Count = f.Count
	if f.Oldest != "" {
		detail.Oldest = &f.Oldest
	}
	if f.RetryAfter > 0 {
		detail.RetryAfterSeconds = new(f.RetryAfterSeconds())
	}
	return detail
}

// Explain returns the text of an explanation.
func (c *Catalogue) Explain(e task.Explanation) string {
	text := c.explained[e.Reason]
	if e.Reason == task.BecauseHeld {
		return fmt.Sprintf(text, c.heldBy(e.HeldBy))
	}
	if strings.Contains(text, "%d") {
		var ahead int64
		if e.Ahead != nil {
			ahead = min(*e.Ahead, task.MaxAhead)
		}
		return fmt.Sprintf(text, ahead)
	}
	return text
}

// heldBy returns a text that names the switches that hold a task. Without switches, it returns the text for a task that is about to continue.
func (c *Catalogue) heldBy(all []explain.Switch) string {
	if len(all) == 0 {
		return c.switches[""]
	}
	texts := make([]string, len(all))
	for i, w := range all {
		texts[i] = fmt.Sprintf(c.switches[w.Kind], cmp.Or(w.Name, "?"))
	}
	return strings.Join(texts, c.switchesApart)
}

// Reason returns the text of a fault.
func (c *Catalogue) Reason(f *fault.Error) string {
	text := c.reasons[f.Reason]
	switch {
	case f.Count != nil:
		return fmt.Sprintf(text, *f.Count)
	case strings.Contains(text, "%d"):
		return fmt.Sprintf(text, f.Limit)
	}
	return text
}

// Remark returns one sentence about an invalid field.
func (c *Catalogue) Remark(f fault.Field) string { return f.Name + " " + c.rule(f) }

// rule returns the text of an invalid field's rule.
func (c *Catalogue) rule(f fault.Field) string {
	text := c.rules[f.Rule]
	if !strings.Contains(text, "%v") {
		return text
	}
	if lengths, ok := f.Limit.(fault.Lengths); ok {
		return fmt.Sprintf(text, lengths.Has, lengths.Most)
	}
	return fmt.Sprintf(text, c.limit(f.Limit))
}

// limit returns the text of a limit. It also accepts a position in a file, or the items of a list.
func (c *Catalogue) limit(of any) string {
	switch v := of.(type) {
	case fault.Place:
		return c.place(v)
	case float64: // the number comes from the contract
		return strconv.FormatFloat(v, 'f', -1, 64)
	case []explain.Switch:
		return c.heldBy(v)
	case fault.NotReady:
		return fmt.Sprintf(c.notReady[v.Why], v.SenderNo)
	}
	list := reflect.ValueOf(of)
	if list.Kind() != reflect.Slice {
		return fmt.Sprint(of)
	}
	words := make([]string, list.Len())
	for i := range words {
		words[i] = c.limit(list.Index(i).Interface())
	}
	return strings.Join(words, ", ")
}
