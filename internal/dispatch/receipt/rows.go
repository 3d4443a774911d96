package receipt

import "lksms/gen/receiptq"

// Rows as the database returns them.
type (
	CallbackRow = receiptq.CallbackListOfRow
	Row         = receiptq.Receipt
)
