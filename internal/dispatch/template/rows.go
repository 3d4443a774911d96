package template

import "lksms/gen/templateq"

// These are the row types that other packages read.
type (
	// DefaultRow is a stored default content.
	DefaultRow = templateq.DefaultContent
	// Row is a stored template.
	Row = templateq.Template
	// VersionRow is a stored version of a template.
	VersionRow = templateq.TemplateVersion
)
