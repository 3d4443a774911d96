package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// mutant is a known fault that is put back into the code, to see that the checks find it. F1 to F10 are faults of an earlier
// implementation of the service.
type mutant struct {
	name    string
	what    string
	changes []change
}

// finders are the invariants that must find a mutant, by their first words. The other mutants can be found by any
// invariant.
var finders = map[string]string{
	"share":   "senders of a route share by weight",
	"fair":    "a sender of two pools",
	"route":   "no message goes through a sender",
	"trouble": "no message fails, nor loses an attempt",
	"lockout": "nobody with the right password",
}

// change replaces the only occurrence of before in a file of the project.
type change struct{ file, before, after string }

const (
	claims    = "gen/dispatchq/queue_claim.sql.go"
	ends      = "gen/dispatchq/queue_settle.sql.go"
	contents  = "gen/dbq/template.sql.go"
	settle    = "internal/queue/settle.go"
	order     = "internal/queue/order.go"
	claiming  = "internal/queue/claim.go"
	ordering  = "internal/queue/claim/order.go"
	sharing   = "internal/queue/claim/share.go"
	driving   = "internal/push/deliver.go"
	answers   = "internal/push/driver/reply.go"
	verifying = "internal/access/verify.go"
)

var mutants = []mutant{
	{"F1", "a report changes a task in any state, from any app", []change{
		{ends, "(h.task_status = 1 AND h.processing_app_id = h.app_id AND (h.status = 2 OR h.lease_until > h.at))", "(h.task_status BETWEEN 0 AND 3)"},
	}},
	{"F2", "each repeat of a FAILED with a retry counts as an attempt", []change{
		{ends, "(h.task_status = 1 AND h.processing_app_id = h.app_id AND (",
			"(h.task_status = 0 AND h.retry_count > 0 AND h.wants_retry) OR (h.task_status = 1 AND h.processing_app_id = h.app_id AND ("},
	}},
	{"F4", "the sweep reads first and writes afterwards, by id", []change{
		{settle, "\ttotal, failed := 0, []string{}\n", `	if err := s.lookThenWrite(ctx); err != nil {
		return 0, err
	}
	total, failed := 0, []string{}
`},
		{settle, "// Recover takes back", `func (s *Service) lookThenWrite(ctx context.Context) error {
	rows, err := s.db.Query(ctx, "SELECT task_id FROM tasks WHERE status = 1 AND lease_until <= now() AND retry_count < $1", s.rules.MaxRetryCount)
	if err != nil {
		return err
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return err
	}
	for _, id := range ids {
		_, err := s.db.Exec(ctx, "WITH r AS (UPDATE tasks SET status = 0, retry_count = retry_count + 1, due_at = now(), "+
			"lease_until = NULL, processing_app_id = NULL WHERE task_id = $1 AND retry_count < 20 RETURNING task_id, lease_id) "+
			"INSERT INTO report_logs (task_id, lease_id, app_id, event, effect, created_at) "+
			"SELECT r.task_id, r.lease_id, (SELECT app_id FROM send_logs s WHERE s.id = r.lease_id), 'recovered', 'retry', clock_timestamp() FROM r", id)
		if err != nil {
			return err
		}
	}
	return nil
}

// Recover takes back`},
		{settle, "\t\"lksms/gen/dispatchq\"", "\t\"github.com/jackc/pgx/v5\"\n\n\t\"lksms/gen/dispatchq\""},
	}},
	{"F7", "a default content is read first and marked afterwards", []change{
		{contents, "WHERE company_id = $1 AND recipient = $2 AND NOT is_sent",
			"WHERE company_id = $1 AND recipient = $2 AND EXISTS (SELECT FROM default_contents d WHERE d.recipient = $2 AND NOT d.is_sent)"},
	}},
	{"pace", "a claim computes the remaining quota of a sender without locking it", []change{
		{claims, "x.has_quota AND x.has_funds FOR UPDATE", "x.has_quota AND x.has_funds"},
	}},
	{"doubt", "an unclear delivery is reported as failed", []change{
		{driving, "\t\tif o.Unknown {\n", "\t\tif o.Unknown && o.OK {\n"},
	}},
	{"share", "each poll forgives a sender the tasks that it had beyond its share", []change{
		{sharing, "\tserved = own.Served\n\tswitch {", "\tserved = min(own.Served, level)\n\tswitch {"},
	}},
	{"fair", "pools are merged by their own ranks", []change{
		{ordering, "\t\toffers[i] = offer{TaskOfferRow: row, turn: pools[row.PoolID].turn}\n\t\tif i == 0 ||",
			"\t\toffers[i] = offer{TaskOfferRow: row}\n\t\tif row.Rank != nil {\n\t\t\toffers[i].turn = *row.Rank\n\t\t}\n\t\tif i >= 0 ||"},
	}},
	{"route", "the tasks of a pool without routes are open to every shared sender", []change{
		{order, "return q.TaskMove(ctx, dispatchq.TaskMoveParams{BatchSize: moveBatch, PoolID: pool})", "return 0, nil"},
		{claims, "p.company_id IS NULL AND p.retired_at IS NULL\nWHERE s.sender_no = $3::text AND s.status = 'on'",
			"p.company_id IS NULL\nWHERE s.sender_no = $3::text AND s.status = 'on'\n" +
				"ORDER BY p.retired_at IS NOT NULL AND EXISTS (SELECT FROM tasks t WHERE t.pool_id = p.id AND t.status = 0) DESC LIMIT 1"},
	}},
	{"trouble", "a message fails when its sender's key is wrong", []change{
		{answers, "\t\to.Trouble = true // of a key", "\t\to.Permanent = true // of a key"},
	}},
	{"lockout", "wrong passwords delay every caller of the same address", []change{
		{verifying, "	if who, err, known := v.recall(ctx, a); known {\n		return who, err\n	}\n	if a.isKey {", `	if wait := v.failures.wait(a.username, a.network); wait > 0 {
		return Principal{}, tooMany(wait)
	}
	if who, err, known := v.recall(ctx, a); known {
		return who, err
	}
	if a.isKey {`},
	}},
	{"F10", "the log of a claim is written after its COMMIT", []change{
		{claims, "    FROM leased h\n),\ncounted AS", "    FROM leased h WHERE false\n),\ncounted AS"},
		{claiming, "\ts.claimed.Add(", `	for _, r := range leases {
		if _, err := s.db.Exec(ctx, "INSERT INTO send_logs (id, task_id, app_id, phone_number, content, attempt, lease_until, created_at) "+
			"VALUES ($1, $2, $3, $4, $5, $6, $7, clock_timestamp())",
			r.LeaseID, r.TaskID, c.SenderNo, r.PhoneNumber, r.Content, r.Attempt, r.LeaseUntil); err != nil {
			return nil, err
		}
	}
	s.claimed.Add(`},
	}},
}

// overlay writes the changed files into dir, and returns the overlay file for the Go command.
func (m mutant) overlay(root, dir string) (string, error) {
	changed := map[string]string{}
	for _, c := range m.changes {
		path := filepath.Join(root, c.file)
		text, ok := changed[path]
		if !ok {
			content, err := os.ReadFile(path)
			if err != nil {
				return "", fmt.Errorf("read file to change: %w", err)
			}
			text = string(content)
		}
		if n := strings.Count(text, c.before); n != 1 {
			return "", fmt.Errorf("mutant %s: %q occurs %d times in %s, want once", m.name, c.before, n, c.file)
		}
		changed[path] = strings.Replace(text, c.before, c.after, 1)
	}
	replace := map[string]string{}
	for path, text := range changed {
		replacement := filepath.Join(dir, m.name+"-"+filepath.Base(path))
		if err := os.WriteFile(replacement, []byte(text), 0o600); err != nil {
			return "", fmt.Errorf("write changed file: %w", err)
		}
		replace[path] = replacement
	}
	content, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", fmt.Errorf("write overlay: %w", err)
	}
	path := filepath.Join(dir, m.name+".json")
	return path, os.WriteFile(path, content, 0o600)
}
