package gate

import (
	"testing"

	"lksms/internal/platform/fault"
)

func TestEveryKindOfFaultHasStatus(t *testing.T) {
	t.Parallel()
	for kind := fault.Malformed; kind <= fault.Unavailable; kind++ {
		if statuses[kind] < 400 {
			t.Errorf("kind %d has the status %d", kind, statuses[kind])
		}
	}
	if len(statuses) != int(fault.Unavailable) {
		t.Error("a status for an unknown kind")
	}
}
