package access

import "lksms/gen/accessq"

// Rows as the database returns them.
type (
	KeyRow  = accessq.KeyListRow
	UserRow = accessq.User
)
