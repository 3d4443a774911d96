package reconcile

import "lksms/gen/reconcileq"

// Rows as the database returns them.
type (
	TotalsRow     = reconcileq.DailyTotalsListRow
	Row           = reconcileq.Reconciliation
	DifferenceRow = reconcileq.ReconciliationDifference
)
