package app_test

import (
	"encoding/json"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"lksms/internal/dispatch/queue"
	"lksms/internal/testkit/apptest"
)

// newBusy starts a server, and causes the events that its metrics count.
func newBusy(t *testing.T) *apptest.Bundle {
	t.Helper()
	b := apptest.NewWith(t, apptest.DefaultRules, apptest.WithSecrets)
	if _, err := b.App.Servers.Beat(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.AddSender(map[string]any{"sender_no": "phone", "limits": map[string]any{"per_day": 10}, "balance": 10})
	b.Submit("reported")
	b.Report(b.Claim("phone", 1)[0].TaskID, "phone", int(queue.Success), nil)
	b.Submit("recovered")
	b.Claim("phone", 1)
	b.ExpireLeases()
	b.Recover()
	if _, err := b.App.History.Fold(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.Exec("INSERT INTO receipts (callback_id, sender_no, provider_no, state, created_at) VALUES (1, 'phone', 'stray', 1, now() - interval '1 hour')")
	p := apptest.NewProvider(t)
	b.AddSender(map[string]any{"sender_no": "pushed", "kind": "http-sms", "config": p.SenderConfig()})
	b.App.Pusher.Start()
	b.AwaitStatus(b.Submit("pushed"), queue.Success)
	b.Expect(200, "", "PUT", "/api/v1/admin/contacts", map[string]any{"contacts": []any{map[string]any{"user_id": "u1"}}})
	for _, payload := range []map[string]any{{}, {"taskName": "x", "creatorName": "y", "createTime": "z"}} { // the first lacks parameters
		b.Expect(200, "", "POST", "/api/v1/notifications", map[string]any{
			"biz_type": 0, "biz_id": 1, "channels": []string{"dingtalk"}, "user_ids": []string{"u1"}, "payload": payload,
		})
	}
	return b
}

// exported returns the labels of each metric of a server, by the name of the metric.
func exported(b *apptest.Bundle) map[string][]string {
	b.T.Helper()
	all := map[string][]string{}
	for line := range strings.Lines(b.Expect(200, "", "GET", "/metrics", nil).Raw) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		name, labels, _ := strings.Cut(strings.TrimSpace(line), "{")
		name, _, _ = strings.Cut(name, " ")
		for _, label := range regexp.MustCompile(`([a-z_]+)="`).FindAllStringSubmatch(labels, -1) {
			if !slices.Contains(all[name], label[1]) {
				all[name] = append(all[name], label[1])
			}
		}
		all[name] = append(all[name], "job", "instance", "cell") // added by Prometheus, and by an operator of cells
	}
	return all
}

// used returns the metrics in a text, and the labels that the text contains for each metric.
func used(text string) map[string][]string {
	all := map[string][]string{}
	for _, found := range regexp.MustCompile(`\b((?:lksms|process|go)_[a-z_]+)(?:\{([^}]*)\})?`).FindAllStringSubmatch(text, -1) {
		labels := all[found[1]]
		for _, label := range regexp.MustCompile(`([a-z_]+)\s*[=!]`).FindAllStringSubmatch(found[2], -1) {
			labels = append(labels, label[1])
		}
		all[found[1]] = labels
	}
	return all
}

func TestDashboardAndRulesUseMetricsThatExist(t *testing.T) {
	b := newBusy(t)
	var known map[string][]string
	apptest.Eventually(t, "a notification has failed", func() bool {
		known = exported(b)
		return known["lksms_notifications_failed_total"] != nil && known["lksms_notification_people_failed_total"] != nil
	})
	named := map[string]bool{}
	for _, path := range []string{"../../deploy/prometheus/rules.yaml", "../../deploy/prometheus/rules_test.yaml", "../../deploy/grafana/lksms.json"} {
		file, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for name, labels := range used(strings.ReplaceAll(string(file), `\"`, `"`)) {
			named[name] = true
			if known[name] == nil {
				t.Errorf("%s: no metric %s", path, name)
			}
			for _, label := range labels {
				if !slices.Contains(known[name], label) {
					t.Errorf("%s: %s has no label %s, only %v", path, name, label, known[name])
				}
			}
		}
	}
	if len(named) < 20 {
		t.Errorf("only %d metrics are named: %v", len(named), slices.Sorted(maps.Keys(named)))
	}
}

func TestEachMetricIsDocumented(t *testing.T) {
	b := newBusy(t)
	document, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	var documented []string
	for _, found := range regexp.MustCompile("(?m)^- `(lksms_[a-z_]+)(?:\\{[a-z_,]+\\})?`: ").FindAllStringSubmatch(string(document), -1) {
		documented = append(documented, found[1])
	}
	var names []string
	apptest.Eventually(t, "a notification has failed", func() bool {
		names = nil
		for _, found := range regexp.MustCompile(`(?m)^# TYPE (lksms_[a-z_]+) `).FindAllStringSubmatch(b.Expect(200, "", "GET", "/metrics", nil).Raw, -1) {
			names = append(names, found[1])
		}
		return slices.Contains(names, "lksms_notifications_failed_total") && slices.Contains(names, "lksms_notification_people_failed_total")
	})
	slices.Sort(names)
	documented = slices.DeleteFunc(documented, func(name string) bool { // the metrics of servers with DATABASE_REPLICA_URL
		return name == "lksms_replica_lag_seconds" || name == "lksms_stale_reads_total"
	})
	slices.Sort(documented)
	if !slices.Equal(names, documented) {
		t.Errorf("docs/operations.md lists %v, the server exports %v", documented, names)
	}
}

// Grafana ignores unknown fields, so a mistake would give an empty panel instead of an error.
func TestTheDashboardHasNoInvalidPanels(t *testing.T) {
	t.Parallel()
	file, err := os.ReadFile("../../deploy/grafana/lksms.json")
	if err != nil {
		t.Fatal(err)
	}
	var dashboard struct {
		UID        string
		Templating struct{ List []struct{ Name string } }
		Panels     []struct {
			ID      int
			Title   string
			Type    string
			GridPos struct{ H, W, X, Y int }
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(file, &dashboard); err != nil {
		t.Fatal(err)
	}
	variables := []string{"__rate_interval"}
	for _, v := range dashboard.Templating.List {
		variables = append(variables, v.Name)
	}
	ids := map[int]bool{}
	for _, panel := range dashboard.Panels {
		if ids[panel.ID] || panel.Title == "" || panel.GridPos.X+panel.GridPos.W > 24 || panel.GridPos.H == 0 {
			t.Errorf("panel %+v", panel)
		}
		ids[panel.ID] = true
		if panel.Type != "row" && len(panel.Targets) == 0 {
			t.Errorf("%s shows nothing", panel.Title)
		}
		for _, target := range panel.Targets {
			for _, name := range regexp.MustCompile(`\$(\w+)`).FindAllStringSubmatch(target.Expr, -1) {
				if !slices.Contains(variables, name[1]) {
					t.Errorf("%s uses the variable %s, which does not exist", panel.Title, name[1])
				}
			}
		}
	}
}
