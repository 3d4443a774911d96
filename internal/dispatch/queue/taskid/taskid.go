// Package taskid creates and reads the ids of tasks. An id contains the time when the task was created, and therefore its partition.
package taskid

import (
	"crypto/rand"
	"sync"
	"time"

	"github.com/oklog/ulid/v2"
)

// New returns a task id: "task_", the UTC date, "_" and a ULID. Ids of one process always ascend, even if its clock is set back.
func New() string { return ids.next(ulid.Now()) }

var ids idMaker

// idMaker creates ascending ids, even within one millisecond.
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

// At returns a text that sorts after all ids that New creates before the time `at`, and before all ids that New creates at this time or later.
func At(at time.Time) string {
	var id ulid.ULID
	_ = id.SetTime(ulid.Timestamp(at)) // fails only after the year 10889
	return Day(at) + "_" + id.String()
}

// Time returns when New created an id. It reports false if the id has another form.
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

// Day returns the prefix of the ids of a day.
func Day(at time.Time) string { return "task_" + at.UTC().Format("20060102") }

// First returns a text that sorts before the ids of all tasks created since the time `from`. The text allows for server clocks that are up to a day slow.
func First(from time.Time) string { return Day(from.Add(-day)) }

// Last sorts after every task id.
const Last = "~"

// DayOf returns the prefix of the ids of the same day. Tasks with ids of other forms are in the default partition.
func DayOf(id string) string {
	if n := len("task_20060102"); len(id) > n && id[n] == '_' {
		return id[:n]
	}
	return ""
}
