package directory

import "lksms/gen/directoryq"

// These are the row types that other packages read.
type (
	// ChannelRow is a stored channel.
	ChannelRow = directoryq.ChannelListRow
	// CompanyRow is a stored company.
	CompanyRow = directoryq.CompanyListRow
	// CountryRow is a stored country.
	CountryRow = directoryq.Country
	// RouteRow is a stored route.
	RouteRow = directoryq.RouteListRow
)
