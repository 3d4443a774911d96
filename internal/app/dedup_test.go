package app_test

import (
	"testing"

	"lksms/gen/api"
)

func TestADedupKeyNamesOneTask(t *testing.T) {
	b := setup(t)
	body := map[string]any{"phone_number": phone, "content": "x", "dedup_key": "order-1"}
	first := b.submitted(body)
	b.claim("app", 1)
	b.report(first.TaskID, "app", 2, nil)
	again := b.submitted(map[string]any{"phone_number": "13900139000", "content": "y", "dedup_key": "order-1"})
	if again.TaskID != first.TaskID || again.Status != api.TaskSuccess || again.FinalContent != "x" ||
		again.Deduplicated == nil || !*again.Deduplicated || first.Deduplicated != nil {
		t.Errorf("first %+v, again %+v", first, again)
	}
	if other := b.submitted(map[string]any{"phone_number": phone, "content": "x", "dedup_key": "order-2"}); other.TaskID == first.TaskID {
		t.Error("another name gave the same task")
	}
	if n := b.count("SELECT count(*) FROM receive_logs WHERE task_id = $1 AND status_code = 200", first.TaskID); n != 2 {
		t.Errorf("%d rows for the two submissions of it", n)
	}
	events := decode[[]api.TimelineEvent](t, b.expect(200, "", "GET", "/api/v1/sms/task/"+first.TaskID+"/timeline", nil))
	if len(events) != 3 {
		t.Errorf("its timeline has %d events, want 3", len(events))
	}
}

func TestFiftyAtOnceWithOneDedupKeyMakeOneTask(t *testing.T) {
	for name, body := range map[string]map[string]any{
		"plain":           {"phone_number": phone, "content": "x", "dedup_key": "k"},
		"default content": {"phone_number": phone, "dedup_key": "k"},
	} {
		t.Run(name, func(t *testing.T) {
			b := setup(t)
			b.expect(200, "", "POST", "/api/v1/admin/default-sms", map[string]any{"phone_number": phone, "content": "x"})
			answers := make([]answer, 50)
			together(len(answers), func(i int) { answers[i] = b.call("POST", "/api/v1/sms/send", body) })
			ids, fresh := map[string]bool{}, 0
			for _, a := range answers {
				if a.status != 200 {
					t.Fatalf("got %s", a.raw)
				}
				made := decode[api.Submitted](t, a)
				ids[made.TaskID] = true
				if made.Deduplicated == nil {
					fresh++
				}
			}
			if n := b.count("SELECT count(*) FROM tasks"); n != 1 || len(ids) != 1 || fresh != 1 {
				t.Errorf("%d tasks, %d ids, %d of them new", n, len(ids), fresh)
			}
		})
	}
}

// A submission whose name is taken does nothing else, not even under an Idempotency-Key, whose transaction goes on.
func TestARepeatedNameConsumesNoDefaultContent(t *testing.T) {
	b := setup(t)
	b.submitted(map[string]any{"phone_number": "13900139000", "content": "x", "dedup_key": "k"})
	b.expect(200, "", "POST", "/api/v1/admin/default-sms", map[string]any{"phone_number": phone, "content": "y"})
	for _, headers := range [][]string{nil, {keyHeader, "i"}} {
		a := b.expect(200, "", "POST", "/api/v1/sms/send", map[string]any{"phone_number": phone, "dedup_key": "k"}, headers...)
		if made := decode[api.Submitted](t, a); made.Deduplicated == nil || made.FinalContent != "x" {
			t.Errorf("got %+v", made)
		}
	}
	if n := b.count("SELECT count(*) FROM default_contents WHERE is_sent"); n != 0 {
		t.Error("the default content was consumed")
	}
}
