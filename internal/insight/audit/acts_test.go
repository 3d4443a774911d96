package audit_test

import (
	"fmt"
	"slices"
	"testing"

	api "lksms/gen/client"
	"lksms/internal/platform/optional"
	"lksms/internal/testkit/apptest"
)

func TestActionsOnBatchesAndForeignNotificationsAreRecorded(t *testing.T) {
	w := apptest.NewTwoCompanies(t)
	expect := func(last int64, want ...string) {
		t.Helper()
		rows, _ := rowsAfter(w.Bundle, last)
		if got := texts(rows); !slices.Equal(got, want) {
			t.Errorf("recorded %v, want %v", got, want)
		}
	}
	last := func() int64 { return apptest.Scan[int64](w.Bundle, "SELECT coalesce(max(id), 0) FROM audit") }
	id := w.IDs["batch"]
	for _, act := range []string{"confirm", "pause", "resume", "cancel"} {
		since := last()
		b := apptest.Decode[api.Batch](t, w.Expect(200, "", "POST", "/api/v1/batches/"+id+"/"+act, nil))
		expect(since, "changed batch "+id)
		if optional.Value(b.ChangedBy) != apptest.Username {
			t.Errorf("%s: changed by %v", act, b.ChangedBy)
		}
	}
	end := map[string]any{"biz_type": 3, "biz_ids": []int{1001}, "status": 3, "expected_statuses": []int{0, 1, 2, 5}}
	since := last()
	w.Expect(200, "", "POST", "/api/v1/notifications/status", end, w.Beta...)
	expect(since) // no row, because the notification belongs to the user's own company
	end["company_no"] = "acme"
	w.Expect(200, "", "POST", "/api/v1/notifications/status", end)
	expect(since, "changed notification "+w.IDs["notification"])
	since = last()
	w.Expect(200, "", "DELETE", "/api/v1/notifications?biz_type=3&biz_ids=1001&company_no=acme", nil)
	expect(since, "changed notification "+w.IDs["notification"])
	if n := w.Count("SELECT count(*) FROM audit WHERE entity IN ('batch', 'notification') AND (actor IS DISTINCT FROM $1 OR company_no IS DISTINCT FROM 'acme')", apptest.Username); n != 0 {
		t.Error(fmt.Sprint(n, " rows without the actor or the company"))
	}
}
