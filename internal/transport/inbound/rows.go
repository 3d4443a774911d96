package inbound

import "lksms/gen/inboundq"

// Types of rows that other rooms read.
type (
	// Row is a stored inbound.
	Row = inboundq.InboundListRow
)
