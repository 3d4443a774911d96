package client

import api "lksms/gen/client"

// The types of the contract, under the names of this package. The package lksms/gen/client has all others.
type (
	// Session is a caller.
	Session = api.Session
	// Message is a message to submit.
	Message = api.SendRequest
	// MessageType is verification, notification or marketing.
	MessageType = api.MessageType
	// Submitted is a message that was submitted, or the answer of a preview.
	Submitted = api.Submitted
	// SentBatch has the outcome of each message.
	SentBatch = api.SentBatch
	// Task is a message in the queue.
	Task = api.Task
	// TaskDetail is a task with how long it waited.
	TaskDetail = api.TaskDetail
	// TaskFilter chooses tasks of a list.
	TaskFilter = api.ListTasksParams
	// TaskStatus is the state of a task.
	TaskStatus = api.TaskStatus
	// TimelineEvent is something that happened to a task.
	TimelineEvent = api.TimelineEvent
	// Explanation says why a task is in its state.
	Explanation = api.Explanation
	// Claim asks for tasks.
	Claim = api.ClaimRequest
	// ClaimedTask is a task that the caller holds until its lease ends.
	ClaimedTask = api.ClaimedTask
	// Lease names a task that the caller holds, and its lease.
	Lease = api.HeldLease
	// StartedBatch has the outcome of each start.
	StartedBatch = api.StartedBatch
	// Report is the outcome of a task that the caller held.
	Report = api.ReportRequest
	// ReportedBatch has the outcome of each report.
	ReportedBatch = api.ReportedBatch
	// Sender is an app or a provider account that delivers messages.
	Sender = api.Sender
	// SenderFilter chooses senders of a list.
	SenderFilter = api.ListSendersParams
	// BatchForm describes a batch to create. The list itself is given apart, so File and Rows stay empty.
	BatchForm = api.BatchForm
	// BatchCreated is a batch whose rows are being checked.
	BatchCreated = api.BatchCreated
	// Batch is an uploaded list of messages, and how far it is.
	Batch = api.Batch
	// BatchFilter chooses batches of a list.
	BatchFilter = api.ListBatchesParams
	// BatchRow is a row of a batch as it was checked.
	BatchRow = api.BatchRow
	// BatchRowStatus is the state of a row.
	BatchRowStatus = api.BatchRowStatus
	// BatchPreview is the message of one row.
	BatchPreview = api.BatchPreview
	// BatchRequeued says how many messages of a batch are sent again.
	BatchRequeued = api.BatchRequeued
	// Event is something that happened to a message or a batch.
	Event = api.EventOfFeed
	// EventType is the kind of an event.
	EventType = api.EventType
	// EventPage has events, oldest first, and the cursor behind them.
	EventPage = api.EventFeed
	// MessageEvent is the data of an event whose type begins with "message.".
	MessageEvent = api.MessageEventData
	// BatchEvent is the data of an event whose type begins with "batch.".
	BatchEvent = api.BatchEventData
)

// The states of a task. Ended says which are final.
const (
	Pending    = api.TaskPending
	Processing = api.TaskProcessing
	Success    = api.TaskSuccess
	Failed     = api.TaskFailed
	Cancelled  = api.TaskCancelled
)

// The states of a report.
const (
	ReportSuccess = api.ReportSuccess
	ReportFailed  = api.ReportFailed
)

// Ended reports whether a task in this state stays in it, unless a user requeues it.
func Ended(s TaskStatus) bool { return s >= Success }
