package inbound

import "lksms/gen/inboundq"

// Rows as the database returns them.
type (
	Row = inboundq.InboundListRow
)
