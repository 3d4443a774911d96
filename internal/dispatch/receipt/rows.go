package receipt

import "lksms/gen/receiptq"

// These are the row types that other packages read.
type (
	// CallbackRow is a stored callback of a provider.
	CallbackRow = receiptq.CallbackListOfRow
	// Row is a stored receipt.
	Row = receiptq.Receipt
)
