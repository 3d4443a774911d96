package audit

import "lksms/gen/auditq"

// These are the row types that other packages read.
type (
	// Row is a recorded change.
	Row = auditq.Audit
)
