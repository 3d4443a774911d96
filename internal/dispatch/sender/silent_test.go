package sender_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	api "lksms/gen/client"
	"lksms/internal/testkit/apptest"
)

// All responses use the same rule for silent apps. An app whose polls are rarely stored is silent as soon as a task of its pool has waited for too long. An
// app of another channel without waiting tasks is not silent.
func TestAllResponsesUseTheSameRuleForSilentApps(t *testing.T) {
	b := apptest.New(t)
	for no, channel := range map[string]string{"alive": "sms", "dead": "sms", "other": "oa"} {
		b.AddSender(map[string]any{"sender_no": no, "channel": channel})
	}
	seen := func(no, ago string) {
		b.Exec("UPDATE sender_states SET seen_at = now() - $2::interval WHERE sender_id = (SELECT id FROM senders WHERE sender_no = $1)", no, ago)
	}
	seen("alive", "1 second")
	seen("dead", "3 minutes")
	seen("other", "3 minutes")
	id := b.Submit("x")
	expect := func(want string) {
		t.Helper()
		preview := apptest.Decode[struct{ Senders *[]api.SenderView }](t, b.Expect(200, "", "POST", "/api/v1/sms/send?dry_run=true", map[string]any{"phone_number": apptest.Phone, "content": "x"}))
		for of, views := range map[string][]api.SenderView{"explain": b.Explain(id).Senders, "preview": *preview.Senders} {
			if got := silentOf(views); got != want {
				t.Errorf("%s: %q are silent, want %q", of, got, want)
			}
		}
		overview, err := b.App.Senders.Readiness(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, s := range overview.NotReadyFirst {
			got = append(got, s.SenderNo)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("overview: %q are silent, want %q", got, want)
		}
		for _, no := range []string{"alive", "dead", "other"} {
			if s := b.GetSender(no); s.IsSilent == nil || *s.IsSilent != (no == want) || s.IsReady != (no != want) {
				t.Errorf("sender %s: silent %v, ready %t", no, *s.IsSilent, s.IsReady)
			}
		}
	}
	expect("")
	b.Exec("UPDATE queue SET due_at = now() - interval '2 minutes'")
	expect("dead")
}

func silentOf(views []api.SenderView) string {
	var silent []string
	for _, v := range views {
		if v.Why != nil && *v.Why == api.WhySilent {
			silent = append(silent, v.SenderNo)
		}
	}
	slices.Sort(silent)
	return strings.Join(silent, " ")
}

// A shared app that a route names is also silent for the shared pool.
func TestASharedAppWithARouteIsSilentInBothItsPools(t *testing.T) {
	b := apptest.New(t)
	b.AddCompany("acme", 1)
	b.AddSender(map[string]any{"sender_no": "both"})
	b.AddRoute("acme", "both", 1)
	b.Exec("UPDATE sender_states SET seen_at = now() - interval '2 minutes'")
	if got := silentOf(b.Explain(b.Submit("x")).Senders); got != "both" {
		t.Errorf("%q are silent", got)
	}
}

// While tasks wait, the polls of shared apps are stored soon. An app that cannot claim these tasks does not become silent because other apps do not claim
// them.
func TestPollsAreStoredSoonWhileTasksWait(t *testing.T) {
	b := apptest.New(t)
	for _, no := range []string{"a", "b"} {
		b.AddSender(map[string]any{"sender_no": no})
	}
	id := b.Submit("x")
	for _, c := range []struct {
		due    string
		stored int
	}{{"1 second", 0}, {"40 seconds", 2}} {
		b.Exec("UPDATE sender_states SET seen_at = now() - interval '3 minutes'")
		b.Exec("UPDATE queue SET due_at = now() - $1::interval", c.due)
		for _, no := range []string{"a", "b"} {
			if err := b.App.Senders.RecordPoll(t.Context(), no); err != nil {
				t.Fatal(err)
			}
		}
		if n, err := b.App.Senders.SweepSeen(t.Context()); n != c.stored || err != nil {
			t.Errorf("due for %s: %d polls were stored, want %d; %v", c.due, n, c.stored, err)
		}
	}
	b.Exec("UPDATE queue SET due_at = now() - interval '1 hour'")
	if got := silentOf(b.Explain(id).Senders); got != "" {
		t.Errorf("%s are silent", got)
	}
	if fmt.Sprint(b.Explain(id).Reason) != "queued" {
		t.Error("no sender can claim the task")
	}
}
