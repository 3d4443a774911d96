// Package fact defines the rows that consumers of facts receive. A fact is the number of equal changes that one statement made to tasks. Triggers write the
// facts to the table facts.
package fact

import "time"

// Sum contains the total of the facts of one minute that have the same company, sender, channel, message type, country, batch and outcome. Its fields equal the
// columns that the statement FactsTake returns.
type Sum struct {
	CompanyID       int64
	SenderNo        *string
	Channel         string
	MessageType     string
	CountryNo       string
	BatchID         *int64
	IsTest          bool
	AcceptedAt      *time.Time
	Outcome         string
	Minute          time.Time
	At              time.Time
	Facts           int64
	PendingNew      int64
	PendingRetry    int64
	Processing      int64
	Success         int64
	Failed          int64
	Leases          int64
	ReportedSuccess int64
	ReportedFailed  int64
	Unreported      int64
	ResponseMs      int64
	Submitted       int64
	Requeued        int64
	Cancelled       int64
	Delivered       int64
	Undelivered     int64
	Segments        int64
	Waits           []byte
	Durations       []byte
}
