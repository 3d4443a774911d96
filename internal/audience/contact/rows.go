package contact

import "lksms/gen/contactq"

// These are the row types that other packages read.
type (
	// ImportRow is a stored import of contacts.
	ImportRow = contactq.ContactImport
	// PersonRow contains the user id and the addresses of a contact.
	PersonRow = contactq.ErasedContactsRow
	// TagRow is a stored tag.
	TagRow = contactq.Tag
)
