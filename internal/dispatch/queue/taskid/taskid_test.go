package taskid

import (
	"strings"
	"testing"
)

func TestTenMillionIDsAscend(t *testing.T) {
	t.Parallel()
	last := ""
	for range 10_000_000 {
		id := New()
		if id <= last {
			t.Fatalf("%s was generated after %s", id, last)
		}
		last = id
	}
	if len(last) > 50 || !strings.HasPrefix(last, "task_2") {
		t.Errorf("an id is %q", last)
	}
}

func TestIDsAscendAfterTheClockIsSetBack(t *testing.T) {
	t.Parallel()
	const hour = 60 * 60 * 1000
	ids := idMaker{}
	before := ids.next(5 * hour)
	if after := ids.next(4 * hour); after <= before {
		t.Errorf("%s was generated after %s", after, before)
	}
}
