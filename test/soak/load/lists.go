package load

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"mime/multipart"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	api "lksms/gen/client"
	"lksms/test/soak/check"
	"lksms/test/soak/stack"
)

const (
	listers  = 6
	listRows = 300 // maximum number of rows per list
)

// Lists are clients that upload lists, and confirm, pause, resume, cancel and requeue the batches.
type Lists struct {
	Load   *Load
	serial atomic.Int64
	Did    [listActs]atomic.Int64
}

type listAct int

const (
	confirmList listAct = iota
	pauseList
	resumeList
	cancelList
	requeueList
	listActs
)

// ListActNames describe the acts of the clients on a batch.
var ListActNames = [listActs]string{"confirmed", "paused", "resumed", "cancelled", "requeued"}

// list is a batch whose creation got a response.
type list struct {
	ID          int64
	Rows, Valid int
	paused      *pausePeriod // the current pause; nil: not paused
}

// pausePeriod is the period in which a batch is paused or cancelled, from the response to that request. In this period, no task of the batch is allowed to get
// its first lease.
type pausePeriod struct {
	BatchID      int64
	Since, Until time.Time // Until is zero while the period is open
}

// Run creates batches until ctx ends. Batches that have not ended by then remain unchanged until GoOn ends them.
func (s *Lists) Run(ctx context.Context, round int) {
	var all sync.WaitGroup
	for i := range listers {
		rng := rand.New(rand.NewPCG(s.Load.Seed, uint64(round)<<16|uint64(1<<13+i)))
		all.Go(func() {
			for stack.Pause(ctx, time.Duration(rng.IntN(1000))*time.Millisecond) {
				if b := s.create(rng); b != nil {
					s.direct(ctx, rng, b)
				}
			}
		})
	}
	all.Wait()
}

// create uploads a list, and repeats the upload until it gets a response. It returns nil if KeyedTries uploads got no response.
func (s *Lists) create(rng *rand.Rand) *list {
	key := fmt.Sprintf("soak-%d-list-%d", s.Load.Seed, s.serial.Add(1))
	var rows strings.Builder
	b := list{}
	rows.WriteString("phone,text\n")
	for n := 1 + rng.IntN(listRows); b.Rows < n; {
		b.Rows++
		text := fmt.Sprint(key, "-", b.Rows)
		switch rng.IntN(20) {
		case 0:
			rows.WriteString("123,x\n")
		case 1:
			b.Rows++
			fmt.Fprintf(&rows, "13900000000,%s\n", text) // the next case writes the same row again, which is then a duplicate
			fallthrough
		default:
			b.Valid++
			fmt.Fprintf(&rows, "13900000000,%s\n", text)
			s.Load.History.Submitted(text, Unknown, "")
		}
	}
	var form bytes.Buffer
	w := multipart.NewWriter(&form)
	fields := [][2]string{
		{"name", key}, {"content", "{text}"}, {"dedup", "row"}, {"auto_confirm", fmt.Sprint(rng.IntN(3) == 0)},
		{"message_type", []string{"notification", "marketing"}[rng.IntN(2)]},
	}
	for _, f := range fields {
		w.WriteField(f[0], f[1]) //nolint:errcheck // writing to a buffer never fails
	}
	file, _ := w.CreateFormFile("file", "list.csv") // writing to a buffer never fails
	file.Write([]byte(rows.String()))               //nolint:errcheck // writing to a buffer never fails
	w.Close()                                       //nolint:errcheck // writing to a buffer never fails
	for range KeyedTries {
		res, err := s.Load.Any(rng).CreateBatchWithBodyWithResponse(CallContext(), &api.CreateBatchParams{IdempotencyKey: &key}, w.FormDataContentType(), bytes.NewReader(form.Bytes()))
		status := 0
		if err == nil {
			status = res.StatusCode()
		}
		s.Load.History.Calls[OutcomeOf(status, err)].Add(1)
		if status == http.StatusOK {
			b.ID = res.JSON200.Data.BatchID
			s.Load.History.listed(&b)
			return &b
		}
		time.Sleep(time.Duration(10+rng.IntN(200)) * time.Millisecond)
	}
	return nil
}

// direct performs random acts on a batch until the batch or ctx has ended.
func (s *Lists) direct(ctx context.Context, rng *rand.Rand, b *list) {
	for stack.Pause(ctx, time.Duration(20+rng.IntN(400))*time.Millisecond) {
		switch s.status(rng, b) {
		case api.BatchReady:
			s.do(rng, b, confirmList)
		case api.BatchRunning:
			switch rng.IntN(12) {
			case 0, 1, 2:
				s.do(rng, b, pauseList)
			case 3:
				s.do(rng, b, cancelList)
			case 4:
				s.do(rng, b, requeueList)
			}
		case api.BatchPaused:
			s.do(rng, b, []listAct{resumeList, resumeList, resumeList, cancelList, pauseList}[rng.IntN(5)])
		case api.BatchFinished:
			if rng.IntN(2) == 0 {
				s.do(rng, b, requeueList)
			}
			return
		case api.BatchCancelled:
			return
		case api.BatchChecking: // the server continues without an act of the client
		}
	}
}

// status returns the status of a batch, or "" if the server did not answer.
func (s *Lists) status(rng *rand.Rand, b *list) api.BatchStatus {
	res, err := s.Load.Any(rng).GetBatchWithResponse(CallContext(), b.ID)
	if err != nil || res.JSON200 == nil {
		return ""
	}
	return res.JSON200.Data.Status
}

// do performs an act on a batch, and records a pause or its end.
func (s *Lists) do(rng *rand.Rand, b *list, act listAct) {
	client := s.Load.Any(rng)
	status, err := 0, error(nil)
	record := func(res interface{ StatusCode() int }, failure error) {
		if err = failure; err == nil {
			status = res.StatusCode()
		}
	}
	if act == resumeList {
		s.Load.History.endPause(b)
	}
	switch act {
	case confirmList:
		res, err := client.ConfirmBatchWithResponse(CallContext(), b.ID)
		record(res, err)
	case pauseList:
		res, err := client.PauseBatchWithResponse(CallContext(), b.ID)
		record(res, err)
	case resumeList:
		res, err := client.ResumeBatchWithResponse(CallContext(), b.ID)
		record(res, err)
	case cancelList:
		res, err := client.CancelBatchWithResponse(CallContext(), b.ID)
		record(res, err)
	case requeueList:
		res, err := client.RequeueBatchWithResponse(CallContext(), b.ID)
		record(res, err)
	case listActs: // listActs is the number of acts and not an act
	}
	o := OutcomeOf(status, err)
	s.Load.History.Calls[o].Add(1)
	if o != Answered {
		return
	}
	s.Did[act].Add(1)
	if act == pauseList || act == cancelList {
		s.Load.History.beginPause(b)
	}
}

// GoOn confirms or resumes every batch that waits for a person, so that the batch ends. This includes batches whose creation got no response.
func (s *Lists) GoOn(ctx context.Context, stack *stack.Stack) {
	var ids []int64
	err := stack.Query(ctx, func(conn *pgx.Conn) error {
		return conn.QueryRow(ctx, "SELECT ARRAY(SELECT id FROM batches WHERE status IN ('ready', 'paused'))").Scan(&ids)
	})
	if err != nil {
		return // the next call finds the batches again
	}
	known := map[int64]*list{}
	for _, b := range s.Load.History.Batches() {
		known[b.ID] = b
	}
	rng := rand.New(rand.NewPCG(s.Load.Seed, 1<<14))
	for _, id := range ids {
		b := known[id]
		if b == nil {
			b = &list{ID: id}
		}
		switch s.status(rng, b) {
		case api.BatchReady:
			s.do(rng, b, confirmList)
		case api.BatchPaused:
			s.do(rng, b, resumeList)
		case api.BatchChecking, api.BatchRunning, api.BatchFinished, api.BatchCancelled: // the batch does not wait for a person
		}
	}
}

// ListInvariants must hold when no client runs. The table lists contains the batches whose creation got a response.
var ListInvariants = []check.Invariant{
	{Name: "every row of a list became at most one task, with the checked content, and every task of a batch has its row", SQL: `
		SELECT 'batch ' || coalesce(r.batch_id, m.batch_id) || ', row ' || coalesce(r.row_no::text, 'none') || ', ' || coalesce(m.task_id, r.task_id)
		FROM (SELECT * FROM batch_rows WHERE task_id IS NOT NULL) r
			FULL JOIN (SELECT * FROM messages WHERE batch_id IS NOT NULL) m USING (task_id)
		WHERE (r.batch_id, r.content, r.recipient) IS DISTINCT FROM (m.batch_id, m.content, m.recipient)
		UNION ALL
		SELECT task_id || ' of ' || count(*) || ' rows' FROM batch_rows WHERE task_id IS NOT NULL GROUP BY task_id HAVING count(*) > 1`},
	{Name: "every accepted list was checked completely, and all of its valid rows were sent unless it was cancelled", SQL: `
		SELECT 'batch ' || l.batch_id || ' is ' || coalesce(b.status, 'missing') || ': ' || (b.rows, b.valid, b.fed)::text
			|| ', want ' || (l.rows, l.valid)::text
		FROM lists l LEFT JOIN batches b ON b.id = l.batch_id
		WHERE b.id IS NULL OR NOT b.is_settled
			OR b.status <> 'cancelled' AND (b.status, b.rows, b.valid, b.fed) IS DISTINCT FROM ('finished', l.rows, l.valid, l.valid)`},
	{Name: "the figures of a batch equal its rows and tasks", SQL: `
		SELECT 'batch ' || b.id || ' is ' || b.status || ': ' || (b.rows, b.valid, b.fed, f.*)::text || ', the rows and tasks ' || (r.*, t.*)::text
		FROM batches b
			CROSS JOIN LATERAL (
				SELECT coalesce(sum(waiting), 0) AS waiting, coalesce(sum(processing), 0) AS processing, coalesce(sum(success), 0) AS success,
					coalesce(sum(failed), 0) AS failed
				FROM batch_totals WHERE batch_id = b.id
			) f
			CROSS JOIN LATERAL (
				SELECT count(*) AS rows, count(*) FILTER (WHERE code IS NULL) AS valid, count(task_id) AS fed FROM batch_rows WHERE batch_id = b.id
			) r
			LEFT JOIN (
				SELECT batch_id, count(*) FILTER (WHERE status = 0) AS waiting, count(*) FILTER (WHERE status = 1) AS processing,
					count(*) FILTER (WHERE status = 2) AS success, count(*) FILTER (WHERE status = 3) AS failed
				FROM task_states WHERE batch_id IS NOT NULL GROUP BY batch_id
			) t ON t.batch_id = b.id
		WHERE (b.rows, b.valid, b.fed) <> (r.rows, r.valid, r.fed)
			OR (f.waiting, f.processing, f.success, f.failed)
				<> (coalesce(t.waiting, 0), coalesce(t.processing, 0), coalesce(t.success, 0), coalesce(t.failed, 0))`},
	{Name: "no task of a batch is leased for the first time while the batch is paused, or after it was cancelled", SQL: `
		SELECT l.task_id || ' of batch ' || p.batch_id || ' at ' || l.created_at || ', paused from ' || p.since || ' to ' || coalesce(p.until::text, 'the end')
		FROM pauses p
			JOIN messages m ON m.batch_id = p.batch_id
			JOIN leases l USING (task_id)
		WHERE l.created_at > p.since AND (p.until IS NULL OR l.created_at < p.until)
			AND NOT EXISTS (SELECT FROM leases o WHERE o.task_id = l.task_id AND o.id < l.id)`},
}
