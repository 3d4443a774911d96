package erasure

import "lksms/gen/erasureq"

// Types of rows that other rooms read.
type (
	// Row is a stored erasure.
	Row = erasureq.Erasure
)
