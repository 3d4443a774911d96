package contact

import "lksms/gen/contactq"

// Rows as the database returns them.
type (
	ImportRow = contactq.ContactImport
	TagRow    = contactq.Tag
)
