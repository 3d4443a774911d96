package audit

import "lksms/gen/auditq"

// Types of rows that other rooms read.
type (
	// Row is a recorded change.
	Row = auditq.Audit
)
