package directory

import "lksms/gen/directoryq"

// Rows as the database returns them.
type (
	ChannelRow = directoryq.ChannelListRow
	CompanyRow = directoryq.CompanyListRow
	CountryRow = directoryq.Country
	RouteRow   = directoryq.RouteListRow
)
