package app

import "lksms/internal/audience/erasure"

// erasureOwners returns the rooms with data about people, in the order in which an erasure calls them. The order has these constraints: contact is first,
// because it finds the user ids. Rooms that find their rows by the columns of a message come before queue. notification comes after queue. job comes before
// audit, because it finds the jobs for audit. received comes before receipt, which masks the callbacks with erased messages. ErasePortions of received also runs
// before Erase of webhook, which erases the responses to erased messages. verification also comes before webhook for this reason. received erases its parts as
// sources: only the tasks, which EraseTasks erases, show to which company a part belongs.
func (a *App) erasureOwners() []erasure.Owner {
	return []erasure.Owner{
		{Room: "contact", EraseSources: a.Contacts.Erase, Reading: a.Contacts.CountRunningImports},
		{Room: "template", EraseSources: a.templates.Erase},
		{Room: "inbound", EraseSources: a.inbounds.Erase},
		{Room: "idempotency", BeforeTasks: a.Answers.Erase, ErasePortions: a.Answers.Erase},
		{Room: "batch", EraseSourcePortions: a.Batches.RejectUnsentRows, Reading: a.Batches.CountRunningChecks, ErasePortions: a.Batches.Erase},
		{Room: "smppserver", EraseSources: a.SMPP.Erase},
		{Room: "sqlinbox", HasEarlier: a.SQLInbox.HasEarlier},
		{Room: "received", EraseSources: a.Received.EraseParts, ErasePortions: a.Received.Erase},
		{Room: "replyrule", Erase: a.ReplyRules.Erase},
		{Room: "block", Erase: a.Blocks.Erase},
		{Room: "verification", Erase: a.Verifications.Erase},
		{Room: "receipt", HasEarlier: a.Receipts.HasEarlier, EraseTasks: a.Receipts.EraseTasks, ErasePortions: a.Receipts.Erase},
		{Room: "thirdparty", EraseTasks: a.ThirdParty.EraseTasks},
		{Room: "push", EraseTasks: a.Pusher.EraseTasks},
		{Room: "webhook", EraseTasks: a.Webhooks.EraseTasks, Erase: a.Webhooks.Erase},
		{Room: "queue", EraseTasks: a.Submissions.EraseTasks, ErasePortions: a.Submissions.Erase},
		{Room: "queue", EraseTasks: a.Tasks.EraseTasks, Erase: a.Tasks.Erase},
		{Room: "notification", EraseSourcePortions: a.Notifications.EraseReceiver, EraseTasks: a.Notifications.EraseTasks, Erase: a.Notifications.Erase},
		{Room: "job", Erase: a.Jobs.Erase},
		{Room: "audit", EraseSources: a.Audit.Erase, Erase: a.Audit.Erase},
	}
}
