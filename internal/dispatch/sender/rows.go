package sender

import "lksms/gen/senderq"

// These are the row types that other packages read.
type (
	// Answer is one of the latest outcomes of calls of a driven sender.
	Answer = senderq.SenderAnswer
	// Params contains the parameters of a new sender.
	Params = senderq.SenderCreateParams
	// LedgerRow is an entry of the ledger of a sender.
	LedgerRow = senderq.SenderLedger
	// SimRow is a SIM of a sender with its usage.
	SimRow = senderq.SimListRow
	// Row is a stored sender.
	Row = senderq.SenderListRow
	// ReadyRow is the number of senders in one state of readiness.
	ReadyRow = senderq.SendersReadyRow
)
