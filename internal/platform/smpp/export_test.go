package smpp

// NewBody returns an empty body of a command.
func NewBody(command CommandID) Body { return newBody(command) }
