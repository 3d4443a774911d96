// Package job cancels or requeues all tasks that match a filter, in the background.
package job

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"lksms/gen/jobq"
	"lksms/internal/dispatch/queue"
	"lksms/internal/dispatch/queue/task"
	"lksms/internal/platform/fault"
	"lksms/internal/platform/merge"
	"lksms/internal/platform/optional"
	"lksms/internal/platform/postgres"
	"lksms/internal/platform/servers"
	"lksms/internal/platform/setting"
	"lksms/internal/platform/smpp"
	"lksms/internal/platform/sweep"
)

// These are the actions of a job.
const (
	Cancel  = "cancel"
	Requeue = "requeue"
)

const (
	// MaxTasks is the maximum number of tasks of a job. It equals the maximum number of rows of a batch.
	MaxTasks    = 1 << 20
	maxRunning  = 100 // maximum number of running jobs
	maxCompany  = 10  // maximum number of running jobs for batches of one company, so that one company cannot use up all slots
	partSize    = 500 // maximum number of tasks that one transaction changes; such a transaction takes tens of milliseconds
	deleteBatch = 1000
)

// Service creates and runs jobs.
type Service struct {
	db       *postgres.DB
	q        *jobq.Queries
	inParts  *jobq.Queries // for statements that read tasks by id
	tasks    *task.Service
	settings *setting.Service
	log      *slog.Logger
}

// New returns a Service on db.
func New(db *postgres.DB, tasks *task.Service, settings *setting.Service, log *slog.Logger) *Service {
	return &Service{db: db, q: jobq.New(db), inParts: jobq.New(db.InPartitions()), tasks: tasks, settings: settings, log: log}
}

// Sweeps returns the periodic jobs of the service.
func (s *Service) Sweeps() []sweep.Job {
	return []sweep.Job{
		{Roles: servers.Roles{servers.Sweep, servers.API, servers.Console}, Name: "run-task-jobs", Interval: time.Second, Limit: 30 * time.Minute, Run: s.Run},
		{Roles: servers.Roles{servers.Sweep}, Name: "delete-expired-task-jobs", Interval: 10 * time.Minute, Run: s.DeleteExpired},
	}
}

// Request describes a job to create.
type Request struct {
	Action string
	Filter task.Filter
	Shown  json.RawMessage // filter as the request contains it
	Count  *int64          // number of tasks that the caller expects; nil: the caller only asks for the number, and no job is created
	Remark string
	By     string // user name
}

// Row is a stored job.
type Row = jobq.TaskJob

// Plan is the answer to a Request: the number of tasks that its filter selects now, and the created job, if any.
type Plan struct {
	Count  int64
	Capped bool // the filter selects more tasks than Count
	Job    *Row
}

// Plan counts the tasks of a filter. It creates a job if the number equals r.Count. Faults: request.invalid, job.count_changed, job.already_running,
// limit.reached.
func (s *Service) Plan(ctx context.Context, r Request) (Plan, error) {
	status, err := statusOf(r)
	if err != nil {
		return Plan{}, err
	}
	recipient, first, before, err := s.tasks.Span(ctx, r.Filter, "filter.phone_number")
	if err != nil {
		return Plan{}, err
	}
	p := jobq.JobPlanParams{
		Action: r.Action, FromID: first, BeforeID: before, CompanyID: r.Filter.Viewer.CompanyID, Recipient: recipient, Source: r.Filter.Source,
		MessageType: r.Filter.MessageType, CreatedFrom: r.Filter.CreatedFrom, CreatedTo: r.Filter.CreatedTo, SenderNo: r.Filter.SenderNo,
		Result: r.Filter.Result, Delivery: r.Filter.Delivery, BatchID: r.Filter.BatchID, IsTest: r.Filter.Test,
		CountryNo: r.Filter.CountryNo, TemplateNo: r.Filter.TemplateNo, SubmittedBy: r.Filter.SubmittedBy, ProviderNos: smpp.StoredIDs(r.Filter.ProviderNo),
		Status: status, MaxTasks: MaxTasks, Filter: r.Shown, Remark: r.Remark, CreatedBy: r.By, Expected: r.Count,
		BatchSize: partSize,
	}
	var plan Plan
	run := func(ctx context.Context) error {
		return s.db.Briefly(ctx, func(ctx context.Context) error {
			row, err := s.inParts.JobPlan(ctx, p)
			if err != nil {
				return err
			}
			plan.Count, plan.Capped = min(row.Tasks, MaxTasks), row.Tasks > MaxTasks
			if row.JobID == 0 {
				return nil
			}
			job, err := s.q.JobGet(ctx, row.JobID)
			plan.Job = &job
			return err
		})
	}
	if r.Count == nil {
		err = run(ctx)
	} else {
		err = s.db.Tx(ctx, func(ctx context.Context) error {
			if err := s.admit(ctx, r); err != nil {
				return err
			}
			return run(ctx)
		})
	}
	switch {
	case err != nil:
		return Plan{}, postgres.Wrap("plan job", err, nil)
	case r.Count == nil || plan.Job != nil:
		return plan, nil
	case plan.Capped:
		return Plan{}, fault.InvalidField("filter", fault.TooManySelected, MaxTasks)
	}
	changed := fault.New(fault.Conflict, fault.JobCountChanged)
	changed.Count = &plan.Count
	return Plan{}, changed
}

// admit checks whether a job is allowed to be created, and blocks the creation of other jobs until the end of the transaction of ctx. Faults:
// job.already_running, limit.reached.
func (s *Service) admit(ctx context.Context, r Request) error {
	if err := s.q.JobsLock(ctx); err != nil {
		return err
	}
	switch running, err := s.q.JobsRunning(ctx, jobq.JobsRunningParams{Action: r.Action, Filter: r.Shown}); {
	case err != nil:
		return err
	case running.Same > 0: // the request was sent twice
		return fault.New(fault.Conflict, fault.JobAlreadyRunning)
	case running.Jobs >= maxRunning:
		return fault.AtLimit(maxRunning)
	case running.OfCompany >= maxCompany:
		return fault.AtLimit(maxCompany)
	}
	return nil
}

// statusOf returns the state that the tasks of a job must have. Fault: request.invalid for a state that the action does not allow.
func statusOf(r Request) (int16, error) {
	allowed := []int16{queue.Pending}
	if r.Action == Requeue {
		allowed = []int16{queue.Failed, queue.Cancelled}
	}
	status := optional.Or(r.Filter.Status, allowed[0])
	for _, one := range allowed {
		if status == one {
			return status, nil
		}
	}
	return 0, fault.InvalidField("filter.status", fault.NotAllowed, allowed)
}

var errNoJob = fault.New(fault.NotFound, fault.JobNotFound)

// Get returns a job, or the fault job.not_found.
func (s *Service) Get(ctx context.Context, id int64) (Row, error) {
	job, err := s.q.JobGet(ctx, id)
	return job, postgres.Wrap("get job", err, errNoJob)
}

// List returns up to limit jobs with smaller ids than `before`, newest first.
func (s *Service) List(ctx context.Context, before int64, limit int) ([]Row, error) {
	jobs, err := s.q.JobList(ctx, jobq.JobListParams{BeforeID: before, PageLimit: int32(limit)})
	return jobs, postgres.Wrap("list jobs", err, nil)
}

// Stop ends a job. A part that is already in progress is completed. Faults: job.not_found, job.not_running.
func (s *Service) Stop(ctx context.Context, id int64, by string) (Row, error) {
	err := s.db.Tx(ctx, func(ctx context.Context) error {
		n, err := s.q.JobStop(ctx, jobq.JobStopParams{ID: id, StoppedBy: by})
		switch {
		case err != nil:
			return err
		case n > 0:
			return s.q.JobPartsDelete(ctx, id)
		}
		if _, err := s.Get(ctx, id); err != nil {
			return err
		}
		return fault.New(fault.Conflict, fault.JobNotRunning)
	})
	if err != nil {
		return Row{}, postgres.Wrap("stop job", err, nil)
	}
	return s.Get(ctx, id)
}

// Run processes the running jobs until no part is left, and returns the number of changed tasks. It processes one part of each company in turn, and the jobs of a
// company also take turns. All jobs that are not for one batch count as one company. If a part fails or needs a locked partition, the next run tries this part
// again.
func (s *Service) Run(ctx context.Context) (int, error) {
	changed, failures := 0, map[int64]error{} // the first failure of each job
	after := map[int64]int32{}                // the last tried part of each job
	isOver := map[int64]bool{}                // the jobs of which this run can process no further part
	last := map[int64]int64{}                 // the last processed job of each company
	for isIdle := false; !isIdle && ctx.Err() == nil; {
		jobs, err := s.q.JobIDsRunning(ctx) // queried in each round, so that a new job waits for one round at most
		if err != nil {
			return changed, errors.Join(append(slices.Collect(maps.Values(failures)), fmt.Errorf("find jobs: %w", err))...)
		}
		isIdle = true
		hadTurn := map[int64]bool{} // the companies of which this round processed a part
		for _, j := range sweep.InTurn(jobs, last, func(j jobq.JobIDsRunningRow) (int64, int64) { return j.CompanyID, j.ID }) {
			if isOver[j.ID] || hadTurn[j.CompanyID] {
				continue
			}
			before, isKnown := after[j.ID]
			if !isKnown {
				before = -1
			}
			part, n, err := s.runPart(ctx, j.ID, before)
			changed += n
			if err != nil && !errors.Is(err, errNoPart) && !postgres.IsLockTimeout(err) && failures[j.ID] == nil {
				failures[j.ID] = fmt.Errorf("job %d: %w", j.ID, err)
			}
			if isOver[j.ID] = part == before; isOver[j.ID] { // no part was read
				continue
			}
			after[j.ID], last[j.CompanyID], hadTurn[j.CompanyID], isIdle = part, j.ID, true, false
		}
	}
	return changed, errors.Join(slices.Collect(maps.Values(failures))...)
}

// errNoPart means that no part of a job can be processed now: the job has ended, another server processes it, or all its parts were tried.
var errNoPart = errors.New("no part of the job is left")

// runPart changes and counts the tasks of the next part of a job, in one transaction. The next part is the first part with a number greater than `after`.
// runPart returns the number of this part, even if the part failed. If it read no part, it returns after.
func (s *Service) runPart(ctx context.Context, id int64, after int32) (part int32, changed int, err error) {
	part = after
	err = s.db.Tx(ctx, func(ctx context.Context) error {
		job, err := s.q.JobHold(ctx, id)
		if postgres.IsNoRows(err) {
			return errNoPart
		}
		if err != nil {
			return fmt.Errorf("lock job: %w", err)
		}
		row, err := s.q.JobPart(ctx, jobq.JobPartParams{JobID: id, After: after})
		if postgres.IsNoRows(err) {
			return errNoPart
		}
		if err != nil {
			return fmt.Errorf("read part: %w", err)
		}
		part = row.Part
		p, err := s.change(ctx, job, row.TaskIds)
		if err != nil {
			return err
		}
		changed = int(p.Done)
		p.ID, p.Part = id, row.Part
		return postgres.Wrap("count tasks of job", s.q.JobAdvance(ctx, p), nil)
	})
	if err != nil {
		return part, 0, err
	}
	return part, changed, nil
}

// change performs the action of a job on tasks, and counts them. It counts skipped tasks by reason. If the database refuses the change of a task, only this
// task fails. After an error, the caller must roll back the transaction and try again.
func (s *Service) change(ctx context.Context, job Row, ids []string) (p jobq.JobAdvanceParams, err error) {
	isHopeless := func(err error) bool { return ctx.Err() != nil || postgres.IsUnavailable(err) }
	done, skipped := 0, map[fault.Reason]int{}
	results := merge.Apart(ids, func(ids []string) ([]struct{}, error) {
		n, refused := 0, map[fault.Reason]int(nil)
		err := s.db.Briefly(ctx, func(ctx context.Context) (err error) {
			if job.Action == Requeue {
				n, refused, err = s.tasks.RequeueEach(ctx, ids, job.CreatedBy, optional.Value(job.Remark))
				return err
			}
			if n, err = s.tasks.CancelAll(ctx, ids, job.CreatedBy); n < len(ids) {
				refused = map[fault.Reason]int{fault.TaskNotPending: len(ids) - n}
			}
			return err
		})
		if err == nil {
			done += n
			for reason, tasks := range refused {
				skipped[reason] += tasks
			}
		}
		return make([]struct{}, len(ids)), err
	}, isHopeless)
	for i, r := range results {
		if r.Err == nil {
			continue
		}
		if isHopeless(r.Err) {
			return p, r.Err
		}
		p.Failed++
		s.log.ErrorContext(ctx, "a job could not change a task", "job_id", job.ID, "task_id", ids[i], "error", r.Err)
	}
	p.Done = int32(done)
	p.Skipped = int32(len(ids)) - p.Done - p.Failed
	if p.SkippedBy, err = json.Marshal(skipped); err != nil {
		return p, fmt.Errorf("write reasons: %w", err)
	}
	return p, nil
}

// DeleteExpired deletes jobs that ended longer ago than the setting history.log_days. It returns the number of deleted jobs.
func (s *Service) DeleteExpired(ctx context.Context) (int, error) {
	return s.settings.DeleteExpiredLogs(ctx, deleteBatch, func(keep time.Duration) (int64, error) {
		n, err := s.q.JobsDeleteExpired(ctx, jobq.JobsDeleteExpiredParams{BatchSize: deleteBatch, Keep: keep})
		return n, postgres.Wrap("delete jobs", err, nil)
	})
}
