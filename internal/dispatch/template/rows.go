package template

import "lksms/gen/templateq"

// Types of rows that other rooms read.
type (
	// DefaultRow is a stored default content.
	DefaultRow = templateq.DefaultContent
	// Row is a stored template.
	Row = templateq.Template
	// VersionRow is a stored version of a template.
	VersionRow = templateq.TemplateVersion
)
