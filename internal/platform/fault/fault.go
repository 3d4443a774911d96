// Package fault defines the expected failures: mistakes of a caller, and requests that the current state does not allow. Any other failure is an ordinary
// error. The text of an ordinary error is never sent to a caller.
package fault

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// Kind is the class of a failure. The kind alone decides the HTTP status.
type Kind int

// These are the kinds and their HTTP statuses.
const (
	Malformed        Kind = iota + 1 // 400: the request could not be parsed
	Unauthorized                     // 401
	Forbidden                        // 403: the caller is known and lacks the permission
	NotFound                         // 404
	MethodNotAllowed                 // 405
	Conflict                         // 409: the current state does not allow the request
	TooLarge                         // 413
	UnsupportedMedia                 // 415
	Invalid                          // 422: the request was parsed, and a field is invalid
	TooMany                          // 429
	Internal                         // 500
	Unavailable                      // 503: the same request can succeed later
)

// Reason is a stable code that programs compare.
type Reason string

// These are the reasons. Each reason has a text in both languages, which a test checks.
const (
	RequestMalformed       Reason = "request.malformed"
	RequestInvalid         Reason = "request.invalid"
	RequestTooLarge        Reason = "request.too_large"
	RequestTooDeep         Reason = "request.too_deep"
	RequestTooSlow         Reason = "request.too_slow"
	RequestTooMuch         Reason = "request.too_much"
	RequestMediaType       Reason = "request.unsupported_media_type"
	RequestCoding          Reason = "request.unsupported_coding"
	RequestCrossSite       Reason = "request.cross_site"
	RouteNotFound          Reason = "route.not_found"
	RouteMethodNotAllowed  Reason = "route.method_not_allowed"
	AuthRequired           Reason = "auth.required"
	AuthForbidden          Reason = "auth.forbidden"
	AuthOtherApp           Reason = "auth.other_app"
	AuthOtherCompany       Reason = "auth.other_company"
	AuthTooManyFailures    Reason = "auth.too_many_failures"
	UserNotFound           Reason = "user.not_found"
	UserExists             Reason = "user.exists"
	KeyNotFound            Reason = "key.not_found"
	RecipientBlocked       Reason = "recipient.blocked"
	RecipientLimited       Reason = "recipient.limited"
	RecipientCountryClosed Reason = "recipient.country_closed"
	RecipientSuspected     Reason = "recipient.suspected"
	BlockNotFound          Reason = "block.not_found"
	ReplyRuleNotFound      Reason = "reply_rule.not_found"
	VerificationNotFound   Reason = "verification.not_found"
	VerificationApproved   Reason = "verification.approved"
	VerificationExpired    Reason = "verification.expired"
	VerificationExhausted  Reason = "verification.exhausted"
	VerificationCancelled  Reason = "verification.cancelled"
	VerificationNoKey      Reason = "verification.no_key"
	SafeNotFound           Reason = "safe.not_found"
	TaskNotFound           Reason = "task.not_found"
	MessageNotFound        Reason = "message.not_found"
	TaskNotPending         Reason = "task.not_pending"
	TaskNotHeld            Reason = "task.not_held"
	LeaseNotHeld           Reason = "lease.not_held"
	TaskDropped            Reason = "task.dropped"
	TaskNotEnded           Reason = "task.not_ended"
	TaskSucceeded          Reason = "task.succeeded"
	TaskDelivered          Reason = "task.delivered"
	TaskExpired            Reason = "task.expired"
	TaskUnreachable        Reason = "task.unreachable"
	TaskRefused            Reason = "task.refused"
	TaskErased             Reason = "task.erased"
	TaskSensitive          Reason = "task.sensitive"
	TaskWithdrawn          Reason = "task.withdrawn"
	BatchNotFound          Reason = "batch.not_found"
	BatchRowNotFound       Reason = "batch.row_not_found"
	BatchWrongStatus       Reason = "batch.wrong_status"
	BatchNothingToSend     Reason = "batch.nothing_to_send"
	BatchExpired           Reason = "batch.expired"
	TaskSenderGone         Reason = "task.sender_gone"
	TaskTestsOff           Reason = "task.tests_off"
	TaskRecipientRefused   Reason = "task.recipient_refused"
	JobNotFound            Reason = "job.not_found"
	CallbackNotFound       Reason = "callback.not_found"
	ReceivedNotFound       Reason = "received.not_found"
	ConversationNotFound   Reason = "conversation.not_found"
	ReplySenderNotReady    Reason = "conversation.sender_unavailable"
	JobNotRunning          Reason = "job.not_running"
	JobAlreadyRunning      Reason = "job.already_running"
	JobCountChanged        Reason = "job.count_changed" // sets Error.Count
	SenderIsDriven         Reason = "sender.is_driven"
	SenderNotTestable      Reason = "sender.not_testable"
	SenderNotLinked        Reason = "sender.not_linked"
	TemplateNotFound       Reason = "template.not_found"
	NotificationNotFound   Reason = "notification.not_found"
	ContactNotFound        Reason = "contact.not_found"
	TagNotFound            Reason = "tag.not_found"
	ImportNotFound         Reason = "import.not_found"
	ReconciliationNotFound Reason = "reconciliation.not_found"
	ErasureNotFound        Reason = "erasure.not_found"
	TemplateNoneActive     Reason = "template.none_active"
	TemplateNotActive      Reason = "template.not_active"
	TemplateWrongStatus    Reason = "template.wrong_status"
	TemplateInReview       Reason = "template.in_review"
	TemplateVoided         Reason = "template.voided"
	DefaultContentNotFound Reason = "default_content.not_found"
	DefaultContentExists   Reason = "default_content.exists"
	DefaultContentSent     Reason = "default_content.already_sent"
	CompanyNotFound        Reason = "company.not_found"
	CompanyOff             Reason = "company.off"
	ChannelNotFound        Reason = "channel.not_found"
	CountryNotFound        Reason = "country.not_found"
	SenderNotFound         Reason = "sender.not_found"
	RouteRuleNotFound      Reason = "routing.not_found"
	InboundNotFound        Reason = "inbound.not_found"
	AlertRuleNotFound      Reason = "alert_rule.not_found"
	AlertReceiverNotFound  Reason = "alert_receiver.not_found"
	AlertNotFound          Reason = "alert.not_found"
	AlertNotFiring         Reason = "alert.not_firing"
	WebhookNotFound        Reason = "webhook.not_found"
	EventsCursorGone       Reason = "events.cursor_gone" // sets Error.Oldest
	Exists                 Reason = "exists"
	InUse                  Reason = "in_use"
	LimitReached           Reason = "limit.reached" // sets Error.Limit
	VersionStale           Reason = "version.stale"
	IdempotencyInFlight    Reason = "idempotency.in_flight"
	IdempotencyKeyReused   Reason = "idempotency.key_reused"
	ServiceUnavailable     Reason = "unavailable"
	ServerOtherRole        Reason = "server.other_role"
	ServerStarting         Reason = "server.starting"
	InternalError          Reason = "internal"
)

// Reasons lists every reason.
var Reasons = []Reason{
	RequestMalformed, RequestInvalid, RequestTooLarge, RequestTooDeep, RequestTooSlow, RequestTooMuch, RequestMediaType, RequestCoding, RequestCrossSite,
	RouteNotFound, RouteMethodNotAllowed, AuthRequired, AuthForbidden, AuthOtherApp, AuthOtherCompany, AuthTooManyFailures, UserNotFound,
	UserExists, KeyNotFound, RecipientBlocked, RecipientLimited, RecipientCountryClosed, RecipientSuspected, BlockNotFound, ReplyRuleNotFound, VerificationNotFound, VerificationApproved, VerificationExpired, VerificationExhausted, VerificationCancelled, VerificationNoKey, SafeNotFound, TaskNotFound, MessageNotFound, TaskNotPending, TaskNotHeld, LeaseNotHeld, TaskDropped, TaskNotEnded, TaskSucceeded, TaskDelivered,
	TaskExpired, TaskUnreachable, TaskRefused, TaskErased, TaskSensitive, TaskWithdrawn, BatchNotFound, BatchRowNotFound, BatchWrongStatus, BatchNothingToSend, BatchExpired, TaskSenderGone, TaskTestsOff,
	TaskRecipientRefused, CallbackNotFound, ReceivedNotFound, ConversationNotFound, ReplySenderNotReady, JobNotFound, JobNotRunning, JobAlreadyRunning, JobCountChanged, SenderIsDriven, SenderNotTestable, SenderNotLinked, TemplateNotFound, NotificationNotFound,
	ContactNotFound, TagNotFound, ImportNotFound, ErasureNotFound, ReconciliationNotFound, TemplateNoneActive, TemplateNotActive, TemplateWrongStatus, TemplateInReview,
	TemplateVoided, DefaultContentNotFound, DefaultContentExists, DefaultContentSent, CompanyNotFound, CompanyOff, ChannelNotFound, CountryNotFound,
	SenderNotFound, RouteRuleNotFound, InboundNotFound, AlertRuleNotFound, AlertReceiverNotFound, AlertNotFound, AlertNotFiring, WebhookNotFound, EventsCursorGone, Exists, InUse,
	LimitReached, VersionStale, IdempotencyInFlight, IdempotencyKeyReused, ServiceUnavailable, ServerOtherRole, ServerStarting, InternalError,
}

// Rule is the rule that a field broke.
type Rule string

// These are the rules. The comment beside a rule describes the value of Field.Limit, if the rule has a limit.
const (
	Required           Rule = "required"
	UnknownField       Rule = "unknown_field"
	UnknownParameter   Rule = "unknown_parameter"
	WrongType          Rule = "wrong_type" // expected type
	WrongFormat        Rule = "wrong_format"
	NotATime           Rule = "not_a_time"
	NotAllowed         Rule = "not_allowed" // allowed values
	TooShort           Rule = "too_short"   // characters
	TooLong            Rule = "too_long"    // characters
	TooSmall           Rule = "too_small"   // minimum
	TooBig             Rule = "too_big"     // maximum
	Empty              Rule = "empty"
	TooManyItems       Rule = "too_many_items" // items of a list, or members of an object
	BadCharacters      Rule = "bad_characters"
	Blank              Rule = "blank"
	NoLetters          Rule = "no_letters"
	NotAPhoneNumber    Rule = "not_a_phone_number"
	NotHours           Rule = "not_hours"
	TooManyHours       Rule = "too_many_hours"
	NotAnEmail         Rule = "not_an_email"
	NoPartOfANumber    Rule = "no_part_of_a_number" // the invalid character and its position
	RegionNotKnown     Rule = "region_not_known"
	NotARegion         Rule = "not_a_region"
	NotFormEncoded     Rule = "not_form_encoded"
	MissingParameters  Rule = "missing_parameters"  // names of the parameters
	UnknownParameters  Rule = "unknown_parameters"  // names of the parameters
	WrongCount         Rule = "wrong_count"         // names of the parameters
	SpacedPlaceholder  Rule = "spaced_placeholder"  // the placeholder
	UnknownPlaceholder Rule = "unknown_placeholder" // the placeholder
	NeedsPlaceholder   Rule = "needs_placeholder"   // the placeholders; the text needs one of these
	OtherPlaceholders  Rule = "other_placeholders"  // names of the placeholders
	HasPlaceholders    Rule = "has_placeholders"    // names of the placeholders
	NotARegexp         Rule = "not_a_regexp"        // error of the expression
	TooComplex         Rule = "too_complex"
	TooLongToMatch     Rule = "too_long_to_match" // bytes
	RenderedTooLong    Rule = "rendered_too_long" // Lengths
	RenderedBlank      Rule = "rendered_blank"
	NoDefaultContent   Rule = "no_default_content"
	NotACursor         Rule = "not_a_cursor"
	Duplicate          Rule = "duplicate"
	RepeatsRow         Rule = "repeats_row" // number of the first row with the same value
	Reserved           Rule = "reserved"
	NotTogether        Rule = "not_together"  // name of the other field
	OnlyTogether       Rule = "only_together" // name of the other field
	OnlyForSenders     Rule = "only_for_senders"
	OnlyForBoundRoles  Rule = "only_for_bound_roles"
	OnlyOfAllCompanies Rule = "only_of_all_companies"
	NotPublic          Rule = "not_public"
	CountryNotServed   Rule = "country_not_served"
	IsBlocked          Rule = "is_blocked"
	IsLimited          Rule = "is_limited"
	CountryClosed      Rule = "country_closed" // region of the number; empty: none
	NotAMobile         Rule = "not_a_mobile"
	IsSuspected        Rule = "is_suspected"
	SwitchedOff        Rule = "switched_off" // names of the switches
	NotThere           Rule = "not_there"
	NotServing         Rule = "not_serving"
	SenderNotReady     Rule = "sender_not_ready" // a NotReady
	BelowZero          Rule = "below_zero"
	InThePast          Rule = "in_the_past"
	BeforeSending      Rule = "before_sending" // time at which the message would be sent
	StaysQuiet         Rule = "stays_quiet"    // end of the quiet hours
	TooFarAhead        Rule = "too_far_ahead"  // days
	InTheFuture        Rule = "in_the_future"
	NotCounted         Rule = "not_counted"
	WasDropped         Rule = "was_dropped"
	TooUrgent          Rule = "too_urgent" // most urgent allowed priority
	NoSecretsKey       Rule = "no_secrets_key"
	LacksCode          Rule = "lacks_code"
	MadeLikeAKey       Rule = "made_like_a_key"
	GiveAgain          Rule = "give_again"
	TooManyBytes       Rule = "too_many_bytes"    // bytes
	TooManyTogether    Rule = "too_many_together" // maximum, given the other fields
	RangeEmpty         Rule = "range_empty"
	RangeTooLong       Rule = "range_too_long"    // days
	TooManySelected    Rule = "too_many_selected" // maximum
	MissingColumns     Rule = "missing_columns"   // names of the columns
	TooManyCells       Rule = "too_many_cells"
	TooManyCharacters  Rule = "too_many_characters" // Lengths
	TooManySegments    Rule = "too_many_segments"   // Lengths
	NothingElseIsKnown Rule = "invalid"

	// NotAList and the following rules apply to a file that should contain a list.
	NotAList        Rule = "not_a_list"
	OldWorkbook     Rule = "old_workbook"
	Encrypted       Rule = "encrypted"
	Damaged         Rule = "damaged"
	DamagedAt       Rule = "damaged_at"    // a Place
	CutShort        Rule = "cut_short"     // a Place
	NotText         Rule = "not_text"      // a Place
	NotAValue       Rule = "not_a_value"   // a Place
	NotCertain      Rule = "not_certain"   // name of an encoding
	CellTooLong     Rule = "cell_too_long" // a Place
	NoHeader        Rule = "no_header"
	UnnamedColumn   Rule = "unnamed_column"   // a Place
	DuplicateColumn Rule = "duplicate_column" // name of the column
	TooManyColumns  Rule = "too_many_columns" // maximum
	TooManyRows     Rule = "too_many_rows"    // maximum
	MergedCells     Rule = "merged_cells"     // range of the cells
	UnpackedTooBig  Rule = "unpacked_too_big" // bytes

	// NoColumn and the following rules apply to the columns and rows of a list.
	NoColumn       Rule = "no_column"       // name of the column
	SeveralColumns Rule = "several_columns" // names of two columns
	BadColumn      Rule = "bad_column"      // name of the column
	BeyondLimit    Rule = "beyond_limit"    // maximum
	Shortened      Rule = "shortened"
	OfOther        Rule = "of_other_company"

	// SharedByMany and the following rules apply to the message number in a provider's file.
	SharedByMany Rule = "shared_by_many"
)

// Rules lists every rule.
var Rules = []Rule{
	Required, UnknownField, UnknownParameter, WrongType, WrongFormat, NotATime, NotAllowed, TooShort, TooLong, TooSmall, TooBig, Empty,
	TooManyItems, BadCharacters, Blank, NoLetters, NotAPhoneNumber, NotHours, TooManyHours, NotAnEmail, NoPartOfANumber, RegionNotKnown, NotARegion, NotFormEncoded, MissingParameters, UnknownParameters, WrongCount,
	SpacedPlaceholder, UnknownPlaceholder, NeedsPlaceholder, OtherPlaceholders, HasPlaceholders, NotARegexp, TooComplex, TooLongToMatch, RenderedTooLong, RenderedBlank, NoDefaultContent, NotACursor, Duplicate, RepeatsRow, Reserved, NotTogether,
	OnlyTogether, OnlyForSenders, OnlyForBoundRoles, OnlyOfAllCompanies, NotPublic, CountryNotServed, IsBlocked, IsLimited, CountryClosed, NotAMobile, IsSuspected, SwitchedOff, NotThere, NotServing, SenderNotReady, BelowZero, InThePast, BeforeSending, StaysQuiet, TooFarAhead, InTheFuture, NotCounted, WasDropped, TooUrgent,
	NoSecretsKey, LacksCode, MadeLikeAKey, GiveAgain, TooManyBytes, TooManyTogether, RangeEmpty, RangeTooLong, TooManySelected, MissingColumns,
	TooManyCells, TooManyCharacters, TooManySegments, NothingElseIsKnown, NotAList, OldWorkbook, Encrypted, Damaged, DamagedAt, CutShort,
	NotText, NotAValue, NotCertain, CellTooLong, NoHeader, UnnamedColumn, DuplicateColumn, TooManyColumns, TooManyRows, MergedCells, UnpackedTooBig,
	NoColumn, SeveralColumns, BadColumn, BeyondLimit, Shortened, OfOther, SharedByMany,
}

// Place is the position of an error in a list.
type Place struct {
	Row    int64
	Column string // empty: unknown, or the whole row
	Most   int    // the limit that the cell or row exceeds; 0: no limit
}

// Field names one invalid field. A Field never contains the value that was sent, except for names of placeholders in Limit.
type Field struct {
	Name  string
	Rule  Rule
	Limit any // the limit or list that the value breaks; nil if the rule has no limit
}

// NotReady is a sender that cannot send now, and the reason: WhyNotServing, or a reason of package sender.
type NotReady struct{ SenderNo, Why string }

// WhyNotServing means that a sender does not exist any more, or does not serve the company.
const WhyNotServing = "not_serving"

// Lengths is the Limit of a rule whose text states the actual and the maximum length.
type Lengths struct{ Has, Most int64 }

// Error is an expected failure.
type Error struct {
	Kind       Kind
	Reason     Reason
	Fields     []Field
	RetryAfter time.Duration // time after which the caller should retry; 0: unknown
	Limit      int64         // for LimitReached: the maximum number of rows
	Count      *int64        // for JobCountChanged: the current number of tasks
	Oldest     string        // for EventsCursorGone: the oldest cursor that is still valid
}

// New returns a failure without fields.
func New(kind Kind, reason Reason) *Error { return &Error{Kind: kind, Reason: reason} }

// Is reports whether err is a failure with a reason.
func Is(err error, reason Reason) bool {
	var e *Error
	return errors.As(err, &e) && e.Reason == reason
}

// AtLimit returns the fault limit.reached (409): a new row would exceed the maximum number of rows.
func AtLimit(limit int64) *Error { return &Error{Kind: Conflict, Reason: LimitReached, Limit: limit} }

// InvalidField returns the failure (422) that one field is invalid. limit can be nil.
func InvalidField(name string, rule Rule, limit any) *Error {
	return &Error{Kind: Invalid, Reason: RequestInvalid, Fields: []Field{{Name: name, Rule: rule, Limit: limit}}}
}

func (e *Error) Error() string {
	if len(e.Fields) == 0 {
		return string(e.Reason)
	}
	parts := make([]string, len(e.Fields))
	for i, f := range e.Fields {
		parts[i] = fmt.Sprintf("%s %s", f.Name, f.Rule)
	}
	return string(e.Reason) + ": " + strings.Join(parts, ", ")
}

// RetryAfterSeconds returns RetryAfter in seconds, rounded up.
func (e *Error) RetryAfterSeconds() int64 { return int64(math.Ceil(e.RetryAfter.Seconds())) }

// Rename returns err with other names of its fields. It returns an error without fields unchanged.
func Rename(err error, name func(Field) string) error {
	var wrong *Error
	if !errors.As(err, &wrong) || len(wrong.Fields) == 0 {
		return err
	}
	renamed := *wrong
	renamed.Fields = slices.Clone(wrong.Fields)
	for i, field := range renamed.Fields {
		renamed.Fields[i].Name = name(field)
	}
	return &renamed
}

// OfField returns the failure (422) that field names something that does not exist, if err is missing. Otherwise it returns err unchanged.
func OfField(err error, missing *Error, field string) error {
	if errors.Is(err, missing) {
		return InvalidField(field, NotThere, nil)
	}
	return err
}
