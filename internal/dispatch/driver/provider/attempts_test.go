package provider

import (
	"context"
	"testing"
	"time"
)

// A held or expired message does not reset the number of consecutive answers that were not understood.
func TestUntriedMessageDoesNotResetTheCountOfUnreadableAnswers(t *testing.T) {
	t.Parallel()
	a := NewAttempts(t.Context(), time.Second, Tools{MayBegin: func(context.Context, Message) bool { return true }})
	for range MaxUnread - 1 {
		a.Record(Unread("unsaid", "no field `code`"))
	}
	if a.Record(Untried) {
		t.Error("a message that was not tried has an outcome to report")
	}
	if !a.CanStart() {
		t.Fatal("the messages end too early")
	}
	a.Record(Unread("unsaid", "no field `code`"))
	if a.CanStart() {
		t.Errorf("after %d answers that could not be understood the next message is tried", MaxUnread)
	}
}
