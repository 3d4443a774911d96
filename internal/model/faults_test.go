package model

// What is known not to hold yet. The model says what is promised; each of these lets it be otherwise, and goes when the fault is
// mended.
const (
	faultPoolsStay          = true // a route that is deleted or switched off leaves its pool behind
	faultSortDecidesNothing = true // the sort of a route decides nothing
	faultAgedOutOfOrder     = true // what has waited for too long comes in no order among the most urgent
	faultLargeHideSmall     = true // what is too large for a sender hides what is not
	faultExplainSegments    = true // an explanation does not ask whether the segments suffice
	faultRepeatsJudged      = true // a repeat with its dedup_key is judged anew
	faultSignInDryRunOnly   = true // the final content has its signature only in a dry run
	faultRetiredHideRoutes  = true // where routes name only senders that are retired, nothing is said to be routed
)
