// Package reconcile owns daily totals and reconciliations (S3.13). Daily totals count the attempts of senders on each day. A reconciliation compares a day
// with a provider's statement.
package reconcile

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"lksms/gen/reconcileq"
	"lksms/internal/audience/sheet"
	"lksms/internal/audience/upload"
	"lksms/internal/platform/fault"
	"lksms/internal/platform/postgres"
	"lksms/internal/platform/servers"
	"lksms/internal/platform/setting"
	"lksms/internal/platform/sweep"
)

// These are the units of a total.
const (
	UnitMessages = "messages"
	UnitSegments = "segments"
)

// These are the states of a reconciliation.
const (
	Running  = "running"
	Finished = "finished"
)

// Services contains the other services that a Service uses.
type Services struct {
	Uploads  *upload.Service
	Settings *setting.Service
}

// Service stores and reads daily totals and reconciliations.
type Service struct {
	Services

	db      *postgres.DB
	q       *reconcileq.Queries
	inParts *reconcileq.Queries // for statements that read tasks by id
}

// New returns a Service on db.
func New(db *postgres.DB, services Services) *Service {
	return &Service{Services: services, db: db, q: reconcileq.New(db), inParts: reconcileq.New(db.InPartitions())}
}

// Sweeps returns the periodic jobs of the service.
func (s *Service) Sweeps() []sweep.Job {
	return []sweep.Job{
		{Roles: servers.Roles{servers.Sweep}, Name: "compare-statements", Interval: time.Second, Limit: 30 * time.Minute, Run: s.Run},
		{Roles: servers.Roles{servers.Sweep}, Name: "delete-expired-reconciliations", Interval: 10 * time.Minute, Run: s.DeleteExpired},
	}
}

const (
	maxRunning  = 10     // maximum number of files that are compared at the same time
	deleteBatch = 100    // maximum number of reconciliations that one statement deletes
	maxKept     = 10_000 // maximum number of stored differences of each kind
)

// Statement names a sender and a day, for which the provider has supplied data.
type Statement struct {
	SenderNo string
	Day      time.Time
	By       string // name of the user who requested the comparison
}

var errNoSender = fault.New(fault.NotFound, fault.SenderNotFound)

// day checks the sender and the day of a statement. It returns the stored data of this day, and the default values of the sender.
func (s *Service) day(ctx context.Context, st Statement) (day reconcileq.DayOfRow, defaults reconcileq.StatementDefaultsRow, err error) {
	defaults, err = s.q.StatementDefaults(ctx, st.SenderNo)
	if err != nil {
		return day, defaults, fault.OfField(postgres.Wrap("find sender", err, errNoSender), errNoSender, "sender_no")
	}
	values, err := s.Settings.Get(ctx)
	if err != nil {
		return day, defaults, err
	}
	day, err = s.q.DayOf(ctx, reconcileq.DayOfParams{Day: st.Day, TimeZone: values.Monitoring.TimeZone})
	switch {
	case err != nil:
		return day, defaults, fmt.Errorf("read day: %w", err)
	case day.IsAhead:
		return day, defaults, fault.InvalidField("day", fault.InTheFuture, nil)
	case day.IsBefore:
		return day, defaults, fault.InvalidField("day", fault.NotCounted, nil)
	}
	return day, defaults, nil
}

// checkHistory returns the fault request.invalid if attempts between these times have been dropped.
func (s *Service) checkHistory(ctx context.Context, from, to time.Time) error {
	isDropped, err := s.q.DayIsDropped(ctx, reconcileq.DayIsDroppedParams{FromAt: from, ToAt: to})
	if err != nil {
		return fmt.Errorf("read history of day: %w", err)
	}
	if isDropped {
		return fault.InvalidField("day", fault.WasDropped, nil)
	}
	return nil
}

// CompareTotal compares a total with the messages or segments that the provider accepted on the day, including tests, and stores the result. Fault:
// request.invalid.
func (s *Service) CompareTotal(ctx context.Context, st Statement, unit string, total int64) (Row, error) {
	day, _, err := s.day(ctx, st)
	if err != nil {
		return Row{}, err
	}
	id, err := s.q.TotalReconcile(ctx, reconcileq.TotalReconcileParams{
		SenderNo: st.SenderNo, Day: st.Day, FromAt: day.FromAt, ToAt: day.ToAt, Unit: unit, Theirs: total, CreatedBy: st.By,
	})
	if err != nil {
		return Row{}, fmt.Errorf("compare total: %w", err)
	}
	return s.Get(ctx, id)
}

// FileOptions describes the content of a file.
type FileOptions struct {
	Sheet          string // sheet of a workbook; empty: the first visible sheet
	NumberColumn   string // empty: the column with a usual name
	StatusColumn   string // empty: states are not compared
	SegmentsColumn string // empty: segments are not compared
	Delivered      []string
	Pending        []string
}

// These are the usual values of states. They apply if neither the request nor the callbacks of the sender contain values.
var (
	usualDelivered = []string{"delivrd", "delivered", "成功"}
	usualPending   = []string{"acceptd", "enroute", "unknown", "未知"}
)

// CompareFile creates a reconciliation of a file, and keeps its upload. Run compares the file later. Faults: limit.reached; request.invalid, also for an
// unreadable file.
func (s *Service) CompareFile(ctx context.Context, st Statement, u upload.Upload, o FileOptions) (Row, error) {
	day, defaults, err := s.day(ctx, st)
	if err == nil {
		err = s.checkHistory(ctx, day.FromAt, day.ToAt)
	}
	if err != nil {
		return Row{}, err
	}
	p := reconcileq.FileReconcileParams{
		SenderNo: st.SenderNo, Day: st.Day, FromAt: day.FromAt, ToAt: day.ToAt, FileName: u.Name, UploadID: u.ID, Sheet: o.Sheet,
		StatusColumn: o.StatusColumn, SegmentsColumn: o.SegmentsColumn, CreatedBy: st.By, MaxRunning: maxRunning,
	}
	if p.DeliveredValues, err = valuesOf(o.Delivered, defaults.Delivered, usualDelivered); err == nil {
		p.PendingValues, err = valuesOf(o.Pending, defaults.Pending, usualPending)
	}
	if err != nil {
		return Row{}, err
	}
	l, err := s.open(ctx, u.ID, o)
	if err != nil {
		return Row{}, err
	}
	_ = l.rows.Close() // only the columns were needed
	p.NumberColumn = l.rows.Columns()[l.number]
	var id int64
	err = s.db.Tx(ctx, func(ctx context.Context) error {
		if id, err = s.q.FileReconcile(ctx, p); err != nil {
			return postgres.Wrap("create reconciliation", err, fault.AtLimit(maxRunning))
		}
		return s.Uploads.Use(ctx, u.ID, fmt.Sprint("reconciliation ", id))
	})
	if err != nil {
		return Row{}, err
	}
	return s.Get(ctx, id)
}

// valuesOf returns the requested values in lower case. If no values are requested, it returns the values in the callbacks of the sender. If these are also
// missing, it returns the usual values.
func valuesOf(requested []string, callback []byte, usual []string) ([]string, error) {
	if len(requested) == 0 {
		if err := json.Unmarshal(callback, &requested); err != nil {
			return nil, fmt.Errorf("read callback of sender: %w", err)
		}
	}
	if len(requested) == 0 {
		return usual, nil
	}
	values := make([]string, len(requested))
	for i, value := range requested {
		values[i] = strings.ToLower(strings.TrimSpace(value))
	}
	return values, nil
}

// list is an open file.
type list struct {
	rows                     *sheet.Reader
	number, status, segments int // indexes of columns; -1: no such column
}

// numberColumns contains the usual names of the column with the provider's message number.
var numberColumns = []string{
	"provider_no", "msgid", "msg_id", "message_id", "messageid", "smsid", "sms_id", "sid", "bizid", "biz_id", "return_no", "消息编号", "消息ID", "短信编号",
	"短信ID", "流水号", "回执ID", "回执编号", "发送回执ID",
}

// open opens an upload as a statement. Fault: request.invalid, also for a doubtful encoding.
func (s *Service) open(ctx context.Context, uploadID int64, o FileOptions) (list, error) {
	file, err := s.Uploads.Open(ctx, uploadID)
	if err != nil {
		return list{}, err
	}
	rows, err := sheet.Open(ctx, file, sheet.Options{Sheet: o.Sheet})
	if err != nil {
		return list{}, err
	}
	l := list{rows: rows, status: -1, segments: -1}
	if err = rows.CheckEncoding(); err == nil { // before the names of columns, which a wrong encoding changes
		err = l.findColumns(o)
	}
	if err != nil {
		_ = rows.Close() // the first error is returned instead
		return list{}, err
	}
	return l, nil
}

func (l *list) findColumns(o FileOptions) error {
	for _, c := range []struct {
		field, name string
		at          *int
	}{{"number_column", o.NumberColumn, &l.number}, {"status_column", o.StatusColumn, &l.status}, {"segments_column", o.SegmentsColumn, &l.segments}} {
		if c.name == "" {
			continue
		}
		at, is := l.rows.Column(c.name)
		if !is {
			return fault.InvalidField(c.field, fault.NotThere, nil)
		}
		*c.at = at
	}
	if o.NumberColumn != "" {
		return nil
	}
	at, err := l.rows.Find("number_column", numberColumns)
	if err == nil && at < 0 {
		err = fault.InvalidField("number_column", fault.Required, nil)
	}
	l.number = at
	return err //nolint:wrapcheck // the error is a fault
}

var errNotThere = fault.New(fault.NotFound, fault.ReconciliationNotFound)

// Get returns a reconciliation. Fault: reconciliation.not_found.
func (s *Service) Get(ctx context.Context, id int64) (Row, error) {
	rows, err := s.q.ReconciliationList(ctx, reconcileq.ReconciliationListParams{ID: &id, BeforeID: id + 1, PageLimit: 1})
	return postgres.One(rows, err, "get reconciliation", errNotThere)
}

// List lists up to limit reconciliations with ids smaller than `before`, newest first. A nil senderNo or day matches all.
func (s *Service) List(ctx context.Context, senderNo *string, day *time.Time, before int64, limit int) ([]Row, error) {
	rows, err := s.q.ReconciliationList(ctx, reconcileq.ReconciliationListParams{SenderNo: senderNo, Day: day, BeforeID: before, PageLimit: int32(limit)})
	return rows, postgres.Wrap("list reconciliations", err, nil)
}

// Differences lists up to limit differences of a reconciliation with ids greater than `after`, in the order in which they were found. A nil kind matches all.
func (s *Service) Differences(ctx context.Context, id int64, kind *string, after int64, limit int) ([]DifferenceRow, error) {
	rows, err := s.q.DifferenceList(ctx, reconcileq.DifferenceListParams{ReconciliationID: id, AfterID: after, Kind: kind, PageLimit: int32(limit)})
	return rows, postgres.Wrap("list differences", err, nil)
}

// DeleteExpired deletes reconciliations that ended before the time of the setting history.log_days. It returns the number of deleted reconciliations.
func (s *Service) DeleteExpired(ctx context.Context) (int, error) {
	return s.Settings.DeleteExpiredLogs(ctx, deleteBatch, func(keep time.Duration) (int64, error) {
		n, err := s.q.ReconciliationsDeleteExpired(ctx, reconcileq.ReconciliationsDeleteExpiredParams{BatchSize: deleteBatch, Keep: keep})
		return n, postgres.Wrap("delete reconciliations", err, nil)
	})
}

// isAny reports whether values contains a state, ignoring case and surrounding white space.
func isAny(values []string, value string) bool {
	return slices.Contains(values, strings.ToLower(strings.TrimSpace(value)))
}
