// Package taskid has the ids of tasks, which contain when each was made, and so in which partition it is.
package taskid

import (
	"crypto/rand"
	"sync"
	"time"

	"github.com/oklog/ulid/v2"
)

// New returns a task id: task_, the UTC date, _ and a ULID. Ids of one process ascend, also when its clock is put back.
func New() string { return ids.next(ulid.Now()) }

var ids idMaker

// idMaker counts up within a millisecond.
type idMaker struct {
	mu      sync.Mutex
	entropy *ulid.MonotonicEntropy
	latest  uint64
}

func (m *idMaker) next(now uint64) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.entropy == nil {
		m.entropy = ulid.Monotonic(rand.Reader, 0)
	}
	m.latest = max(m.latest, now)
	id := ulid.MustNew(m.latest, m.entropy)
	return Day(ulid.Time(m.latest)) + "_" + id.String()
}

// At sorts before all ids that New makes at a time or later, and behind those that it makes before.
func At(at time.Time) string {
	var id ulid.ULID
	_ = id.SetTime(ulid.Timestamp(at)) // fails after the year 10889 only
	return Day(at) + "_" + id.String()
}

// Time returns when New made an id; false: the id is of another shape.
func Time(id string) (time.Time, bool) {
	prefix := len("task_20060102_")
	if len(id) < prefix {
		return time.Time{}, false
	}
	made, err := ulid.ParseStrict(id[prefix:])
	at := made.Timestamp().UTC()
	return at, err == nil && id[:prefix] == Day(at)+"_"
}

const day = 24 * time.Hour

// Day returns how the ids of a day begin.
func Day(at time.Time) string { return "task_" + at.UTC().Format("20060102") }

// First sorts before the ids of all tasks that were made from a time on, also by a server whose clock is behind by up to a day.
func First(from time.Time) string { return Day(from.Add(-day)) }

// Last sorts behind every task id.
const Last = "~"

// DayOf returns how the ids of the day of a task begin; ids of other shapes are in the default partition.
func DayOf(id string) string {
	if n := len("task_20060102"); len(id) > n && id[n] == '_' {
		return id[:n]
	}
	return ""
}
