package queue

import (
	"crypto/rand"
	"sync"
	"time"

	"github.com/oklog/ulid/v2"
)

// newID returns a task id: task_, the UTC date, _ and a ULID. Ids of one process ascend, also when its clock is put back.
func newID() string { return ids.next(ulid.Now()) }

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
	return idDay(ulid.Time(m.latest)) + "_" + id.String()
}

// idAt sorts before all ids that newID makes at a time or later, and behind those that it makes before.
func idAt(at time.Time) string {
	var id ulid.ULID
	_ = id.SetTime(ulid.Timestamp(at)) // fails after the year 10889 only
	return idDay(at) + "_" + id.String()
}

// idTime returns when newID made an id; false: the id is of another shape.
func idTime(id string) (time.Time, bool) {
	prefix := len("task_20060102_")
	if len(id) < prefix {
		return time.Time{}, false
	}
	made, err := ulid.ParseStrict(id[prefix:])
	at := made.Timestamp().UTC()
	return at, err == nil && id[:prefix] == idDay(at)+"_"
}

const day = 24 * time.Hour

// idDay is how the ids of a day begin.
func idDay(at time.Time) string { return "task_" + at.UTC().Format("20060102") }

// FirstID sorts before the ids of all tasks that were made from a time on, also by a server whose clock is behind by up to a day.
func FirstID(from time.Time) string { return idDay(from.Add(-day)) }

// LastID sorts behind every task id.
const LastID = "~"
