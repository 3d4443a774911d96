package inbound

import "lksms/gen/inboundq"

// These are the row types that other packages read.
type (
	// Row is a stored inbound.
	Row = inboundq.InboundListRow
)
