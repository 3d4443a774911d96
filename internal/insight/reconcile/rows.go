package reconcile

import "lksms/gen/reconcileq"

// These are the row types that other packages read.
type (
	// TotalsRow contains the totals of a sender on one day.
	TotalsRow = reconcileq.DailyTotalsListRow
	// Row is a stored reconciliation.
	Row = reconcileq.Reconciliation
	// DifferenceRow is a difference that a reconciliation found.
	DifferenceRow = reconcileq.ReconciliationDifference
)
