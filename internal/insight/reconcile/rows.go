package reconcile

import "lksms/gen/reconcileq"

// Types of rows that other rooms read.
type (
	// TotalsRow is the totals of a sender on one day.
	TotalsRow = reconcileq.DailyTotalsListRow
	// Row is a stored reconciliation.
	Row = reconcileq.Reconciliation
	// DifferenceRow is a difference that a reconciliation found.
	DifferenceRow = reconcileq.ReconciliationDifference
)
