package template

import "lksms/gen/templateq"

// Rows as the database returns them.
type (
	DefaultRow = templateq.DefaultContent
	Row        = templateq.Template
	VersionRow = templateq.TemplateVersion
)
