package model

// What is known not to hold yet. The model says what is promised; each of these lets it be otherwise, and goes when the fault is
// mended.
const (
	faultPoolsStay          = false // a route that is deleted or switched off leaves its pool behind
	faultSortDecidesNothing = false // the sort of a route decides nothing
	faultLargeHideSmall     = false // what is too large for a sender hides what is not
	faultExplainSegments    = false // an explanation does not ask whether the segments suffice
	faultRetiredHideRoutes  = false // where routes name only senders that are retired, nothing is said to be routed
)
