package app_test

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"lksms/gen/api"
	"lksms/internal/app"
	"lksms/internal/platform/migrate"
	"lksms/internal/platform/postgres"
	"lksms/internal/testkit/apptest"
	"lksms/internal/testkit/pgtest"
)

// withReplica starts a primary with a standby, and a server that reads from the standby. It returns when the standby is fresh.
func withReplica(t *testing.T, maxLag time.Duration) (b *apptest.Bundle, primary, standby *pgtest.Node) {
	t.Helper()
	primary = pgtest.NewPrimary(t)
	if _, err := migrate.Up(t.Context(), pgtest.URL(primary), nil); err != nil {
		t.Fatal(err)
	}
	standby = primary.Standby()
	b = apptest.Open(t, apptest.DefaultRules, func(o *app.Options) {
		apptest.WithSecrets(o)
		o.DatabaseURL, o.Replicas = pgtest.URL(primary), postgres.Replicas{URL: pgtest.URL(standby), MaxLag: maxLag}
	})
	apptest.Eventually(t, "the replica is used", func() bool { return isRead(b, standby) })
	return b, primary, standby
}

// isRead reports whether the standby answers a read that allows stale data.
func isRead(b *apptest.Bundle, standby *pgtest.Node) bool {
	b.T.Helper()
	var port int
	if err := b.App.DB.QueryRow(postgres.MayBeStale(b.T.Context()), "SELECT current_setting('port')::int").Scan(&port); err != nil {
		b.T.Fatal(err)
	}
	return port == standby.Port
}

// figure returns the value of a metric.
func figure(b *apptest.Bundle, name string) string {
	b.T.Helper()
	for line := range strings.Lines(b.Call("GET", "/metrics", nil).Raw) {
		if value, isIt := strings.CutPrefix(line, name+" "); isIt {
			return strings.TrimSpace(value)
		}
	}
	b.T.Fatalf("no metric %s", name)
	return ""
}

// staleOperations returns the operations that the contract marks with x-lksms-stale.
func staleOperations(t *testing.T) []string {
	t.Helper()
	spec, err := api.GetSpec()
	if err != nil {
		t.Fatal(err)
	}
	var marked []string
	for path, item := range spec.Paths.Map() {
		for method, operation := range item.Operations() {
			if operation.Extensions["x-lksms-stale"] != true {
				continue
			}
			if method != "GET" {
				t.Errorf("%s %s changes something, and may be stale", method, path)
			}
			marked = append(marked, strings.ToLower(operation.OperationID[:1])+operation.OperationID[1:]) // the generator has capitalised the id
		}
	}
	slices.Sort(marked)
	return marked
}

// S4.6: a replica answers the reads that allow stale data, with the same responses as the primary. All other reads return the newest data.
func TestAReplicaAnswersReadsThatAllowStaleData(t *testing.T) {
	t.Parallel()
	b, _, standby := withReplica(t, 5*time.Second)
	w := apptest.FillTwoCompanies(b)
	if _, err := b.App.History.Fold(t.Context()); err != nil {
		t.Fatal(err)
	}
	paths := map[string]string{
		"listWebhookDeliveries": "/api/v1/webhooks/1/deliveries", "listLedger": "/api/v1/admin/senders/both_sender/ledger",
	}
	direct := apptest.Another(b)
	marked := staleOperations(t)
	answers := func(server *app.App, id string) string {
		path := cmp.Or(paths[id], apptest.Operations[id].Path)
		bundle := *b
		bundle.App = server
		answer, _ := bundle.Serve("GET", path, "", apptest.Basic(apptest.Username, apptest.Password)...)
		return fmt.Sprint(answer.Code, " ", requestIDs.ReplaceAllString(answer.Body.String(), ""))
	}
	primaryOnly, err := app.New(t.Context(), withoutReplicas(b.Options))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(primaryOnly.Close)
	apptest.Eventually(t, "the second server uses the replica", func() bool {
		second := *b
		second.App = direct
		return isRead(&second, standby)
	})
	// When the replica has this message, it has replayed all earlier changes.
	want := b.Count("SELECT count(*) FROM messages")
	apptest.Eventually(t, "the replica has the messages", func() bool {
		var n int
		if err := direct.DB.QueryRow(postgres.MayBeStale(t.Context()), "SELECT count(*) FROM messages").Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n == want
	})
	for _, id := range marked {
		before := figure(b, `lksms_stale_reads_total{server="primary"}`)
		if stale, now := answers(b.App, id), answers(primaryOnly, id); stale != now && !slices.Contains(livingAnswers, id) {
			t.Errorf("%s: the replica answers\n%s\nthe primary\n%s", id, stale, now)
		}
		if after := figure(b, `lksms_stale_reads_total{server="primary"}`); after != before {
			t.Errorf("%s: %s reads of the primary, then %s", id, before, after)
		}
	}
	if len(marked) < 20 {
		t.Errorf("the contract marks %v", marked)
	}
	for range 20 {
		b.Expect(200, "", "GET", "/api/v1/sms/task/"+b.Submit("just written"), nil)
	}
	b.Expect(200, "", "GET", "/api/v1/batches/"+w.IDs["batch"], nil)
}

// A replica that has stopped replaying is used only until its lag exceeds the limit.
func TestAReplicaThatLagsIsNotUsed(t *testing.T) {
	t.Parallel()
	b, primary, standby := withReplica(t, 3*time.Second)
	standby.Exec("SELECT pg_wal_replay_pause()", "postgres")
	id := b.SubmitBody(map[string]any{"phone_number": apptest.Phone, "content": "new", "use_template": false}).TaskID
	began := time.Now()
	list := func() bool { return strings.Contains(b.Expect(200, "", "GET", "/api/v1/sms/tasks", nil).Raw, id) }
	if isRead(b, standby) && list() && isRead(b, standby) {
		t.Error("a replica that does not replay returned new data")
	}
	apptest.Eventually(t, "the list comes from the primary", list)
	if took := time.Since(began); took > 6*time.Second {
		t.Errorf("the list was stale for %s", took)
	}
	if isRead(b, standby) {
		t.Error("the replica is used")
	}
	b.Expect(200, "", "GET", "/api/v1/sms/task/"+id, nil)
	standby.Exec("SELECT pg_wal_replay_resume()", "postgres")
	apptest.Eventually(t, "the replica is used again", func() bool { return isRead(b, standby) })

	// If the replica does not finish a read, the server reads from the primary.
	ctx, cancel := context.WithTimeout(postgres.MayBeStale(t.Context()), 20*time.Second)
	defer cancel()
	done := make(chan bool, 1)
	go func() {
		var isStandby bool
		if err := b.App.DB.QueryRow(ctx, "SELECT pg_is_in_recovery() FROM pg_sleep(2)").Scan(&isStandby); err != nil {
			t.Error(err)
		}
		done <- isStandby
	}()
	apptest.Eventually(t, "the read runs", func() bool { return standby.Sessions("pg_sleep") > 0 })
	standby.Kill()
	if <-done {
		t.Error("the dead replica answered")
	}
	if !list() {
		t.Error("the list lacks a message while the replica is down")
	}
	apptest.Eventually(t, "the lag is not known", func() bool { return strings.Contains(b.Call("GET", "/metrics", nil).Raw, "} +Inf\n") })

	// A replica that no longer follows the primary is not used, even if it has replayed all positions.
	standby.Start()
	apptest.Eventually(t, "the replica is used after its restart", func() bool { return isRead(b, standby) })
	standby.Promote()
	primary.Exec("SELECT pg_switch_wal()", "postgres")
	apptest.Eventually(t, "the promoted replica is not used", func() bool { return !isRead(b, standby) })
}

// If the machine of a replica hangs, no connection ends. Even then the server reads from the primary, although a request has no deadline that would cancel the
// read.
func TestReadsSwitchToThePrimaryWhenAReplicaHangs(t *testing.T) {
	t.Parallel()
	b, primary, standby := withReplica(t, 5*time.Second)
	done := make(chan bool, 1)
	go func() {
		var isStandby bool
		if err := b.App.DB.QueryRow(postgres.MayBeStale(t.Context()), "SELECT pg_is_in_recovery() FROM pg_sleep(4)").Scan(&isStandby); err != nil && t.Context().Err() == nil {
			t.Error(err)
		}
		done <- isStandby
	}()
	apptest.Eventually(t, "the read runs", func() bool { return standby.Sessions("pg_sleep") > 0 })
	standby.Freeze()
	apptest.Eventually(t, "the read runs on the primary", func() bool { return primary.Sessions("pg_sleep") > 0 })
	if <-done {
		t.Error("the replica that hangs answered")
	}
	b.Expect(200, "", "GET", "/api/v1/sms/tasks", nil)
}

// Reads that use all connections to a replica, for longer than the time limit of a probe, must not make the replica count as dead.
func TestLongReadsDoNotMakeAReplicaCountAsDead(t *testing.T) {
	t.Parallel()
	b, _, _ := withReplica(t, 5*time.Second)
	apptest.Together(16, func(int) {
		var isStandby bool
		if err := b.App.DB.QueryRow(postgres.MayBeStale(t.Context()), "SELECT pg_is_in_recovery() FROM pg_sleep(6)").Scan(&isStandby); err != nil || !isStandby {
			t.Errorf("on a standby: %t, %v", isStandby, err)
		}
	})
}

func withoutReplicas(o app.Options) app.Options {
	o.Replicas = postgres.Replicas{}
	return o
}

// requestIDs matches the request ids in responses.
var requestIDs = regexp.MustCompile(`"request_id":"[^"]*"`)

// livingAnswers contains the operations whose responses contain the time, or measurements of the server.
var livingAnswers = []string{"getOverview", "streamOverview", "listPartitions", "readStatistics"}
