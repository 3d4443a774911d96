package client

import api "lksms/gen/client"

// These are types of the contract under the names of this package. The package lksms/gen/client contains all other types.
type (
	// Session is the caller with its user, role and company.
	Session = api.Session
	// Message is a message to submit.
	Message = api.SendRequest
	// MessageType is verification, notification or marketing.
	MessageType = api.MessageType
	// Submitted is a submitted message, or the result of a preview.
	Submitted = api.Submitted
	// SentBatch contains the outcome of each message.
	SentBatch = api.SentBatch
	// Task is a message in the queue.
	Task = api.Task
	// TaskDetail is a task with its waiting times.
	TaskDetail = api.TaskDetail
	// TaskFilter selects tasks of a list.
	TaskFilter = api.ListTasksParams
	// TaskStatus is the state of a task.
	TaskStatus = api.TaskStatus
	// TimelineEvent is an event in the life of a task.
	TimelineEvent = api.TimelineEvent
	// Explanation describes why a task is in its state.
	Explanation = api.Explanation
	// Claim is a request for tasks.
	Claim = api.ClaimRequest
	// ClaimedTask is a task that the caller has leased.
	ClaimedTask = api.ClaimedTask
	// Lease identifies a lease of the caller: the task and the id of the lease.
	Lease = api.HeldLease
	// StartedBatch contains the outcome of each start.
	StartedBatch = api.StartedBatch
	// Report is the outcome of a task that the caller had leased.
	Report = api.ReportRequest
	// ReportedBatch contains the outcome of each report.
	ReportedBatch = api.ReportedBatch
	// Exchange contains reports, and a request for the next tasks.
	Exchange = api.ExchangeRequest
	// Exchanged contains the outcome of each report, and the claimed tasks.
	Exchanged = api.Exchanged
	// Sender is an app or a provider account that delivers messages.
	Sender = api.Sender
	// SenderFilter selects senders of a list.
	SenderFilter = api.ListSendersParams
	// Received is a message that a person sent to a sender.
	Received = api.Received
	// ReceivedInput is a message that a person sent to a sender, as the sender hands it over.
	ReceivedInput = api.ReceivedInput
	// ReceivedBatch contains the outcome of each message that a sender handed over.
	ReceivedBatch = api.ReceivedBatch
	// ReceivedFilter selects received messages of a list.
	ReceivedFilter = api.ListReceivedParams
	// VerificationRequest describes the person who gets a code, and the code.
	VerificationRequest = api.VerificationRequest
	// VerificationStarted is a verification whose code was sent.
	VerificationStarted = api.VerificationStarted
	// VerificationCheck is a code with the person who entered it.
	VerificationCheck = api.VerificationCheckOfRequest
	// VerificationOutcome is the outcome of a check.
	VerificationOutcome = api.VerificationOutcome
	// VerificationResend describes the client of the person who asks for the code again.
	VerificationResend = api.VerificationResendRequest
	// Verification is a verification with the state of its message.
	Verification = api.VerificationView
	// BatchForm describes a batch to create. Leave File and Rows empty, because the list is a separate argument.
	BatchForm = api.BatchForm
	// BatchCreated is a batch whose rows are being checked.
	BatchCreated = api.BatchCreated
	// Batch is an uploaded list of messages with its progress.
	Batch = api.Batch
	// BatchFilter selects batches of a list.
	BatchFilter = api.ListBatchesParams
	// BatchRow is a checked row of a batch.
	BatchRow = api.BatchRow
	// BatchRowStatus is the state of a row.
	BatchRowStatus = api.BatchRowStatus
	// BatchPreview is the message of one row.
	BatchPreview = api.BatchPreview
	// BatchRequeued contains the number of messages of a batch that are sent again.
	BatchRequeued = api.BatchRequeued
	// Event is an event of a message or a batch.
	Event = api.EventOfFeed
	// EventType is the type of an event.
	EventType = api.EventType
	// EventPage contains events, oldest first, and the cursor after them.
	EventPage = api.EventFeed
	// MessageEvent is the data of an event whose type begins with "message.", except message.received.
	MessageEvent = api.MessageEventData
	// ReceivedEvent is the data of the event message.received.
	ReceivedEvent = api.ReceivedEventData
	// BatchEvent is the data of an event whose type begins with "batch.".
	BatchEvent = api.BatchEventData
	// VerificationEvent is the data of an event whose type begins with "verification.".
	VerificationEvent = api.VerificationEventData
)

// These are the states of a task. Ended reports whether a state is final.
const (
	Pending    = api.TaskPending
	Processing = api.TaskProcessing
	Success    = api.TaskSuccess
	Failed     = api.TaskFailed
	Cancelled  = api.TaskCancelled
)

// These are the states of a report.
const (
	ReportSuccess = api.ReportSuccess
	ReportFailed  = api.ReportFailed
)

// These are the outcomes of a check.
const (
	CodeIsRight = api.CodeIsRight
	CodeIsWrong = api.CodeIsWrong
)

// Ended reports whether a state is final. Only a requeue by a user leaves a final state.
func Ended(s TaskStatus) bool { return s >= Success }
