package model

// What is known not to hold yet. The model says what is promised; each of these lets it be otherwise, and goes when the fault is
// mended.
const (
	faultPoolsStay          = true // a route that is deleted or switched off leaves its pool behind
	faultSortDecidesNothing = true // the sort of a route decides nothing
	faultLargeHideSmall     = true // what is too large for a sender hides what is not
	faultExplainSegments    = true // an explanation does not ask whether the segments suffice
	faultRetiredHideRoutes  = true // where routes name only senders that are retired, nothing is said to be routed
)
