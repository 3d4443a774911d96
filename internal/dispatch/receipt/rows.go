package receipt

import "lksms/gen/receiptq"

// Types of rows that other rooms read.
type (
	// CallbackRow is a stored callback of a provider.
	CallbackRow = receiptq.CallbackListOfRow
	// Row is a stored receipt.
	Row = receiptq.Receipt
)
