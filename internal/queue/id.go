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

// idDay is how the ids of a day begin.
func idDay(at time.Time) string { return "task_" + at.UTC().Format("20060102") }

// LastID sorts behind every task id.
const LastID = "~"
