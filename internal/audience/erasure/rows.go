package erasure

import "lksms/gen/erasureq"

// Rows as the database returns them.
type (
	Row = erasureq.Erasure
)
