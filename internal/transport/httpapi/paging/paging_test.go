package paging

import "testing"

func TestTaskCursorAcceptsIDOfAnyFormat(t *testing.T) {
	t.Parallel()
	for _, id := range []string{"task_20260101_1", "imported-1"} {
		if read, err := ParseTaskID(new(CursorOf(id))); err != nil || read != id {
			t.Errorf("the cursor after %q is read as %q, %v", id, read, err)
		}
	}
}
