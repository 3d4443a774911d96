package access

import "lksms/gen/accessq"

// These are the row types that other packages read.
type (
	// KeyRow is a stored API key, without the key.
	KeyRow = accessq.KeyListRow
	// UserRow is a stored user.
	UserRow = accessq.User
)
