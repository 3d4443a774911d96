package contact

import "lksms/gen/contactq"

// Types of rows that other rooms read.
type (
	// ImportRow is a stored import of contacts.
	ImportRow = contactq.ContactImport
	// TagRow is a stored tag.
	TagRow = contactq.Tag
)
