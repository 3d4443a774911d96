package notification

import (
	"context"
	"fmt"
	"time"

	"lksms/gen/notificationq"
	"lksms/internal/platform/postgres"
)

// ending is the recorded end of a business task or a node.
type ending struct {
	at          time.Time
	awaitsStart bool // the end was reported before the start
}

// history contains what is known about a business task and the node of an event. The end of a node is deleted when the node begins again. The end of a task is
// kept, because late starts are compared with it.
type history struct {
	task, node *ending // nil: no end is recorded
	taskID     int64
	starts     []notificationq.BusinessStartsRow
}

// These are the values of business_ends.subject.
const (
	taskSubject = "task"
	nodeSubject = "node"
)

// never is the time of a start that does not exist.
var never = time.Unix(0, 0)

// readHistory reads the history of the task and the node of an event.
func (s *Service) readHistory(ctx context.Context, companyID int64, e Event, now time.Time) (history, error) {
	h := history{taskID: e.TaskID}
	ends, err := s.q.BusinessEnds(ctx, notificationq.BusinessEndsParams{CompanyID: companyID, TaskID: e.TaskID, NodeID: e.NodeID})
	if err != nil {
		return h, fmt.Errorf("read ends: %w", err)
	}
	for _, end := range ends {
		one := &ending{end.EndedAt, end.AwaitsStart}
		if end.Subject == taskSubject {
			h.task = one
		} else {
			h.node = one
		}
	}
	p := notificationq.BusinessStartsParams{CompanyID: companyID, TaskID: e.TaskID, NodeID: e.NodeID, Until: now}
	if e.EndedAt != nil {
		p.Until = *e.EndedAt
	}
	h.starts, err = s.q.BusinessStarts(ctx, p)
	return h, postgres.Wrap("read starts", err, nil)
}

// of returns the starts of a node.
func (h history) of(nodeID int64) notificationq.BusinessStartsRow {
	for _, node := range h.starts {
		if node.NodeID == nodeID {
			return node
		}
	}
	return notificationq.BusinessStartsRow{NodeID: nodeID, ReportedAt: never, ReportedUntil: never, RunsSince: never}
}

// latestStart returns the latest reported start of the nodes of the task, or never.
func (h history) latestStart() time.Time {
	return h.latest(func(node notificationq.BusinessStartsRow) time.Time { return node.ReportedAt })
}

// latestStartUntil returns the latest of the reported starts that are not after the end that the event reports, or never.
func (h history) latestStartUntil() time.Time {
	return h.latest(func(node notificationq.BusinessStartsRow) time.Time { return node.ReportedUntil })
}

// latest returns the latest of the times of the nodes of the task, or never.
func (h history) latest(of func(notificationq.BusinessStartsRow) time.Time) time.Time {
	latest := never
	for _, node := range h.starts {
		if node.IsOfTask {
			latest = later(latest, of(node))
		}
	}
	return latest
}

// startedUntil returns the nodes of the task that have reminders and no reported start after this time.
func (h history) startedUntil(at time.Time) []int64 {
	ids := []int64{}
	for _, node := range h.starts {
		if node.IsOfTask && node.HasAny && !node.ReportedAt.After(at) {
			ids = append(ids, node.NodeID)
		}
	}
	return ids
}

// taskIsOver reports whether the task has ended, and no node has begun it again.
func (h history) taskIsOver() bool { return h.task != nil && !h.latestStart().After(h.task.at) }

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// storeEnd records the end of a task or a node, unless a later end is recorded.
func (s *Service) storeEnd(ctx context.Context, companyID int64, subject string, id int64, e ending) error {
	return postgres.Wrap("store end", s.q.BusinessEndPut(ctx, notificationq.BusinessEndPutParams{
		CompanyID: companyID, Subject: subject, SubjectID: id, EndedAt: e.at, AwaitsStart: e.awaitsStart,
	}), nil)
}

// storeTaskEnd records that a task and some of its nodes have ended.
func (s *Service) storeTaskEnd(ctx context.Context, companyID, taskID int64, nodeIDs []int64, at time.Time) error {
	if err := s.storeEnd(ctx, companyID, taskSubject, taskID, ending{at: at}); err != nil {
		return err
	}
	return postgres.Wrap("store ends of nodes", s.q.BusinessEndNodes(ctx, notificationq.BusinessEndNodesParams{
		CompanyID: companyID, NodeIds: nodeIDs, EndedAt: at,
	}), nil)
}
