package audit

import "lksms/gen/auditq"

// Rows as the database returns them.
type (
	Row = auditq.Audit
)
