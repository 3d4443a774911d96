package access

import "lksms/gen/accessq"

// Types of rows that other rooms read.
type (
	// KeyRow is a stored API key, without the key.
	KeyRow = accessq.KeyListRow
	// UserRow is a stored user.
	UserRow = accessq.User
)
