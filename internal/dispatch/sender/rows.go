package sender

import "lksms/gen/senderq"

// Rows as the database returns them.
type (
	Answer    = senderq.SenderAnswer
	Params    = senderq.SenderCreateParams
	LedgerRow = senderq.SenderLedger
	Row       = senderq.SenderListRow
	ReadyRow  = senderq.SendersReadyRow
)
