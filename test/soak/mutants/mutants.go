// Package mutants contains known bugs that are put into the code, to test that the checks of the soak find them.
package mutants

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Mutant is a known bug that is put into the code, to test that the checks find it. F1 to F10 are bugs of an earlier implementation of the service.
type Mutant struct {
	Name    string
	What    string
	changes []change
}

// Finders are the invariants that must find a mutant, by the first words of their names. Any invariant can find the other mutants.
var Finders = map[string]string{
	"F1":       "a task ends once",
	"F2":       "attempts are 1, 2, 3",
	"F4":       "a lease ends once",
	"requeue":  "a lease ends once",
	"F10":      "every lease stores all of its facts exactly once",
	"share":    "senders of a route share by weight",
	"fair":     "a sender of two pools",
	"route":    "no message goes through a sender",
	"chosen":   "no message goes through a sender",
	"trouble":  "no message fails or loses an attempt",
	"lockout":  "no caller with the right password",
	"pause":    "no task of a batch is leased for the first time while",
	"staged":   "every end of a task has exactly one event",
	"order":    "a pull gets each of its events",
	"cursor":   "each webhook accepted every event",
	"behind":   "an event of a task is posted only after",
	"again":    "every published event is in the feed",
	"body":     "each post of an event has the same",
	"sign":     "every post is signed",
	"scope":    "no webhook or pull gets an event of another company",
	"early":    "every ended notification has one event",
	"ahead":    "in the feed, the end of a notification follows",
	"refire":   "every fired alert has one event of its start",
	"back":     "each alert about a silent sender has one event",
	"low":      "each fall of a balance to a threshold has one event",
	"hasty":    "every accepted message exists",
	"unheld":   "every lease that is held",
	"expiry":   "no task is leased after its expires_at",
	"stop":     "nothing is leased that a person opted out of",
	"cap":      "no number gets more messages in a minute",
	"kept":     "a message from a person is kept once",
	"loud":     "no message is leased in the quiet hours",
	"aged":     "no verification code is claimed after",
	"twice":    "a verification is approved at most once",
	"sixth":    "a verification counts each answered check, and at most five",
	"stale":    "only the last valid code of a person is approved",
	"detached": "each message with a code belongs to one verification",
	"resent":   "a carrier gets no part twice under fail",
	"doubted":  "under retry, a message through a carrier is FAILED only",
	"forgot":   "each receipt of a carrier is matched",
	"part":     "a message through a carrier is delivered if",
	"dropped":  "each receipt of a carrier that was accepted is stored",
}

// change replaces the only occurrence of before in a file of the project.
type change struct{ file, before, after string }

const (
	claims    = "gen/dispatchq/claim.sql.go"
	ends      = "gen/dispatchq/settle.sql.go"
	updates   = "gen/queueq/update.sql.go"
	contents  = "gen/templateq/template.sql.go"
	settle    = "internal/dispatch/queue/settle.go"
	claiming  = "internal/dispatch/queue/claim.go"
	ordering  = "internal/dispatch/queue/claim/order.go"
	sharing   = "internal/dispatch/queue/claim/share.go"
	driving   = "internal/dispatch/push/deliver.go"
	answers   = "internal/dispatch/driver/provider/reply.go"
	verifying = "internal/platform/access/verify.go"
	batches   = "gen/batchq/batch.sql.go"
	batching  = "internal/audience/batch/batch.go"
	feeds     = "gen/feedq/feed.sql.go"
	feeding   = "internal/events/feed/feed.go"
	eventing  = "internal/events/feed/event.go"
	watching  = "gen/alertq/watch.sql.go"
	switching = "db/migrations/20261127000004_create_queue.sql"
	staging   = "db/migrations/20261127000007_create_events.sql"
	posting   = "internal/events/webhook/deliver.go"
	signing   = "internal/events/webhook/post.go"
	settings  = "internal/platform/setting/setting.go"
	optingOut = "internal/dispatch/received/optout.go"
	receiving = "internal/dispatch/received/received.go"
	capping   = "internal/dispatch/caps/caps.go"
	admitting = "internal/dispatch/queue/admit/admit.go"
	codes     = "internal/audience/verification/start.go"
	linking   = "internal/dispatch/driver/carrier/carrier.go"
	matching  = "internal/dispatch/receipt/match.go"

	verifications = "gen/verificationq/verification.sql.go"
)

// withoutLease allows a report to end a task that has no lease. Without this change, the statement with a mutated guard would fail, because its result would
// have no lease id.
var withoutLease = change{ends, "v.lease_id::bigint AS lease_id", "coalesce(v.lease_id, 0)::bigint AS lease_id"}

var mutants = []Mutant{
	{"F1", "a report changes a task in any state, from any app", []change{
		{ends, " FOR UPDATE) t\n),\nverdict AS MATERIALIZED (", ` FOR UPDATE) t
    UNION ALL
    SELECT i.task_id, i.app_id, i.lease_id, i.status, i.wants_retry, i.error_message, i.request_data, i.max_retry_count,
        i.provider_no, i.in_part, i.retry_delay, t.company_id, t.recipient, t.rendering_id, NULL, t.retry_count, t.due_at, t.processing_app_id, t.failed_app_id, t.lease_id,
        t.updated_at, NULL, NULL, NULL, NULL, NULL, NULL, NULL, t.pool_id, t.message_type, t.segments, NULL, t.batch_id, t.country_no, t.is_test, clock_timestamp()
    FROM input i
    JOIN tasks t ON t.task_id = i.task_id AND t.status IN (2, 3) -- SUCCESS, FAILED
),
verdict AS MATERIALIZED (`},
		{ends, "(h.lease_until IS NOT NULL AND h.processing_app_id = h.app_id AND (h.status = 2 OR h.lease_until > h.at OR h.send_before <= h.at))", "true"},
		withoutLease,
	}},
	{"F2", "each repeat of a FAILED with a retry counts as an attempt", []change{
		{ends, "(h.lease_until IS NOT NULL AND h.processing_app_id = h.app_id AND (",
			"(h.lease_until IS NULL AND h.retry_count > 0 AND h.wants_retry) OR (h.lease_until IS NOT NULL AND h.processing_app_id = h.app_id AND ("},
		withoutLease,
	}},
	{"F4", "the sweep reads first and writes afterwards, by id", []change{
		{settle, "\ttotal, failed := 0, []string{}\n", `	if err := s.readThenWrite(ctx); err != nil {
		return 0, err
	}
	total, failed := 0, []string{}
`},
		{settle, "func (s *Service) Recover(ctx context.Context) (int, error) {", `func (s *Service) readThenWrite(ctx context.Context) error {
	rules, err := s.settings.Rules(ctx)
	if err != nil {
		return err
	}
	rows, err := s.db.Query(ctx, "SELECT to_jsonb(q)::text FROM queue q WHERE lease_until <= now() AND retry_count < $1", rules.MaxRetryCount)
	if err != nil {
		return err
	}
	seen, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return err
	}
	for _, row := range seen {
		_, err := s.db.Exec(ctx, "WITH seen AS (SELECT * FROM jsonb_populate_record(NULL::queue, $1::jsonb)), "+
			"retried AS (INSERT INTO queue AS t SELECT * FROM jsonb_populate_record(NULL::queue, $1::jsonb || jsonb_build_object("+
			"'retry_count', ($1::jsonb ->> 'retry_count')::int + 1, 'due_at', now(), 'failed_app_id', $1::jsonb -> 'processing_app_id', "+
			"'processing_app_id', NULL, 'lease_until', NULL)) ON CONFLICT (task_id) DO UPDATE SET retry_count = t.retry_count + 1, "+
			"due_at = now(), failed_app_id = coalesce(t.processing_app_id, t.failed_app_id), processing_app_id = NULL, lease_until = NULL "+
			"WHERE t.retry_count < 20) "+
			"INSERT INTO report_logs (task_id, company_id, app_id, lease_id, event, effect, created_at, retry_count, due_at, "+
			"leased_at, lease_until, lease_segments, lease_sign, lease_sign_mode, lease_limit) "+
			"SELECT task_id, company_id, processing_app_id, lease_id, 'recovered', 'retry', clock_timestamp(), retry_count, due_at, "+
			"updated_at, lease_until, lease_segments, lease_sign, lease_sign_mode, lease_limit FROM seen", row)
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *Service) Recover(ctx context.Context) (int, error) {`},
		{settle, "\t\"lksms/gen/dispatchq\"", "\t\"github.com/jackc/pgx/v5\"\n\n\t\"lksms/gen/dispatchq\""},
	}},
	{"expiry", "a lease outlasts its message", []change{
		{claims, ", send_before(t)), -- PROCESSING", ", NULL), -- PROCESSING"},
	}},
	{"F7", "a default content is read first and marked afterwards", []change{
		{contents, "WHERE company_id = $1 AND recipient = $2 AND NOT is_sent",
			"WHERE company_id = $1 AND recipient = $2 AND EXISTS (SELECT FROM default_contents d WHERE d.recipient = $2 AND NOT d.is_sent)"},
	}},
	{"requeue", "a requeued task keeps its last lease, so that a late SUCCESS of it ends the new life", []change{
		{updates, "is_test,\n        contact_values, submitted_by, quiet_from, exemption\n    )\n    SELECT f.task_id, f.pool_today,",
			"is_test,\n        lease_id, failed_app_id, contact_values, submitted_by, quiet_from, exemption\n    )\n    SELECT f.task_id, f.pool_today,"},
		{updates, "f.traceparent, f.batch_id, f.is_test, f.contact_values,\n        f.submitted_by, (", `f.traceparent, f.batch_id, f.is_test,
        (SELECT l.lease_id FROM report_logs l WHERE l.task_id = f.task_id AND l.leased_at IS NOT NULL ORDER BY l.id DESC LIMIT 1),
        (SELECT l.app_id FROM report_logs l WHERE l.task_id = f.task_id AND l.leased_at IS NOT NULL ORDER BY l.id DESC LIMIT 1),
        f.contact_values,
        f.submitted_by, (`},
	}},
	{"pace", "a claim computes the remaining quota of a sender without locking it", []change{
		{claims, "(x.has_quota OR s.has_sims) AND x.has_funds FOR UPDATE", "(x.has_quota OR s.has_sims) AND x.has_funds"},
	}},
	{"doubt", "an unclear delivery is reported as failed", []change{
		{driving, "\t\tif o.Unknown {\n", "\t\tif o.Unknown && o.OK {\n"},
	}},
	{"share", "each poll forgives a sender the tasks that it had beyond its share", []change{
		{sharing, "\tserved = own.Served\n\tswitch {", "\tserved = min(own.Served, level)\n\tswitch {"},
	}},
	{"fair", "pools are merged by their own ranks", []change{
		{ordering, "\t\toffers[i] = offer{TaskOfferRow: row, position: pools[row.PoolID].position}\n\t\tif i == 0 ||",
			"\t\toffers[i] = offer{TaskOfferRow: row}\n\t\tif row.Rank != nil {\n\t\t\toffers[i].position = *row.Rank\n\t\t}\n\t\tif i >= 0 ||"},
	}},
	{"route", "shared senders take the tasks of pools with routes, too", []change{
		{claims, "p.company_id IS NULL AND p.retired_at IS NULL\nWHERE s.sender_no = $3::text AND s.status = 'on'",
			"p.retired_at IS NULL\nWHERE s.sender_no = $3::text AND s.status = 'on'\n" +
				"ORDER BY p.company_id IS NOT NULL AND EXISTS (SELECT FROM queue t WHERE t.pool_id = p.id AND t.lease_until IS NULL) DESC,\n" +
				"    p.company_id IS NOT NULL LIMIT 1"},
	}},
	{"chosen", "shared senders take the tasks of a company that does not use them", []change{
		{switching, "p.retired_at IS NULL AND NOT c.uses_shared_senders\n", "p.retired_at IS NULL AND false\n"},
	}},
	{"trouble", "a message fails when its sender's key is wrong", []change{
		{answers, "\t\to.Trouble = true // the status", "\t\to.Permanent = true // the status"},
	}},
	{"lockout", "wrong passwords delay every caller of the same address", []change{
		{verifying, "	if who, err, known := v.cachedResult(ctx, a); known {\n		return who, err\n	}\n	if a.isKey {", `	if wait := v.failures.wait(a.username, a.network); wait > 0 {
		return Principal{}, tooMany(wait)
	}
	if who, err, known := v.cachedResult(ctx, a); known {
		return who, err
	}
	if a.isKey {`},
	}},
	{"list", "two servers feed the same rows of a list", []change{
		{batches, "ELSE b.status = $2::text END\nFOR NO KEY UPDATE", "ELSE b.status = $2::text END"},
	}},
	{"pause", "only the sweep holds the tasks of a paused batch", []change{
		{batching, "\t\t_, err := s.Queue.HoldBatch(ctx, id)\n\t\treturn err\n", "\t\treturn nil // a sweep does it too\n"},
	}},
	{"F10", "the log of a claim, which is the time and the limit of its leases, is written after its COMMIT", []change{
		{claims, "        lease_limit = $10::smallint,\n        updated_at = (SELECT moment.at FROM moment),\n",
			"        lease_limit = CASE WHEN false THEN $10::smallint END,\n"},
		{claims, "    h.updated_at AS leased_at\nFROM leased h\n", "    (SELECT moment.at FROM moment) AS leased_at\nFROM leased h\n"},
		{claiming, "\ts.claimed.Add(", `	for _, r := range leases {
		if _, err := s.db.Exec(ctx, "UPDATE queue SET lease_limit = $1, updated_at = $2 WHERE task_id = $3 AND lease_id = $4",
			c.Limit, r.LeaseUntil.Add(-rules.ProcessingTimeout), r.TaskID, r.LeaseID); err != nil {
			return nil, err
		}
	}
	s.claimed.Add(`},
	}},
	{"staged", "staged events are read first, and all that is there is deleted afterwards", []change{
		{feeds, "DELETE FROM feed_staged s\n    WHERE s.id = ANY", "SELECT * FROM feed_staged s\n    WHERE s.id = ANY"},
		{feeds, "    RETURNING id, company_id, submitted_by, type, task_id, log_id, at, data\n)\nSELECT t.company_id", ")\nSELECT t.company_id"},
		{feeding, "\treturn len(staged), nil, s.q.FeedAppend(ctx, p)\n", `	if err := s.q.FeedAppend(ctx, p); err != nil {
		return 0, nil, err
	}
	_, err = s.db.Exec(ctx, "DELETE FROM feed_staged")
	return len(staged), nil, err
`},
	}},
	{"order", "an event has its id from when it happened, and not from when it can be seen", []change{
		{feeds, "\n)\nSELECT t.company_id, t.submitted_by, t.type, coalesce(t.task_id, '')::text AS task_id,", `
),
put AS (
    INSERT INTO feed (id, company_id, submitted_by, type, task_id, log_id, at, data)
    SELECT t.id, t.company_id, coalesce(t.submitted_by, (SELECT m.submitted_by FROM messages m WHERE m.task_id = t.task_id), ''), t.type, t.task_id,
        t.log_id, t.at, t.data
    FROM taken t
)
SELECT t.company_id, t.submitted_by, t.type, coalesce(t.task_id, '')::text AS task_id,`},
		{feeds, "FROM taken t\nORDER BY t.id", "FROM taken t\nWHERE t.id IS NULL\nORDER BY t.id"},
	}},
	{"cursor", "a webhook goes on behind its events before they are posted", []change{
		{posting, "\tif err := s.post(ctx, t); err != nil {\n", `	if _, err := s.db.Exec(ctx, "UPDATE webhooks SET after_id = $1 WHERE id = $2 AND after_id = $3", t.next, t.ID, t.AfterID); err != nil {
		return nil, err
	}
	t.AfterID = t.next
	if err := s.post(ctx, t); err != nil {
`},
	}},
	{"behind", "a later event of a task does not wait for one that failed in an earlier turn", []change{
		{posting, `one.isLate = !one.isRetry && one.TaskID != "" && slices.Contains(waiting, one.TaskID)`,
			`one.isLate = !one.isRetry && one.TaskID == "" && slices.Contains(waiting, one.TaskID)`},
	}},
	{"again", "each attempt has an id of its own", []change{
		{posting, "ID: feed.IDText(one.ID), Body: bodies[one.ID]", "ID: feed.IDText(one.ID + one.tries<<40), Body: bodies[one.ID]"},
	}},
	{"body", "an event is of the time of its post", []change{
		{eventing, "Type: e.Type, Timestamp: e.At,", "Type: e.Type, Timestamp: time.Now(),"},
	}},
	{"sign", "the signature leaves out the body", []change{
		{signing, "standardwebhooks.Sign(key, p.ID, stamp, p.Body)", "standardwebhooks.Sign(key, p.ID, stamp, nil)"},
	}},
	{"scope", "a webhook reads the events of every company", []change{
		{posting, "s.feed.Read(ctx, task.Viewer{CompanyID: t.CompanyID, Owner: t.Username}, t.AfterID", "s.feed.Read(ctx, task.Viewer{}, t.AfterID"},
	}},
	{"early", "each end of a message tells that its notification is over", []change{
		{feeds, "ELSE n.next_run_at IS NULL AND NOT EXISTS (SELECT FROM renderings r JOIN queue q ON q.rendering_id = r.id WHERE r.notification_id = n.id) END",
			"ELSE true END"},
		{feeds, "(n.ended_as IS NOT NULL OR n.next_run_at IS NULL AND NOT EXISTS (", "(true OR n.ended_as IS NOT NULL OR n.next_run_at IS NULL AND NOT EXISTS ("},
	}},
	{"ahead", "the end of a notification is published before the ends of messages that are moved with it", []change{
		{feeding, "\tif err := s.appendNotifications(ctx, &p, c); err != nil {\n\t\treturn 0, nil, err\n\t}\n", `	var ahead feedq.FeedAppendParams
	if err := s.appendNotifications(ctx, &ahead, c); err != nil {
		return 0, nil, err
	}
	if err := s.q.FeedAppend(ctx, ahead); err != nil {
		return 0, nil, err
	}
`},
	}},
	{"refire", "each evaluation of its rule lets an alert fire again", []change{
		{watching, "a.resolved_at IS NULL AND a.fired_at IS NULL\n        AND a.started_at <=", "a.resolved_at IS NULL\n        AND a.started_at <="},
	}},
	{"back", "the return of a sender is published when the alert about it ends, whatever ended it", []change{
		{staging, "AND (NEW.event = 'alert.firing' OR a.ended_by = 'condition' AND t.seen_at > a.started_at)", ""},
	}},
	{"aged", "what waited long goes before everything, codes included", []change{
		{settings, "return int16(max(maxRealTimePriority, v.SMS.PriorityVerification)) + 1", "return int16(0 * maxRealTimePriority)"},
	}},
	{"stop", "the sweep alone takes back what a person opted out of", []change{
		{optingOut, "err := s.blocks.EnforceOfPeople(ctx, numbers, companies)", "var err error\n\t_, _ = numbers, companies"},
	}},
	{"cap", "what is counted for a number is not locked until the message is stored", []change{
		{capping, "return s.q.CappedRecipientsLock(ctx, p)", "return s.q.CappedRecipientsLock(context.Background(), p)"},
	}},
	{"kept", "a message that gets another id is another message", []change{
		{receiving, "strconv.FormatInt(at.Unix(), 10))", "strconv.FormatInt(at.Unix(), 10), m.MessageNo)"},
	}},
	{"loud", "a submission does not ask for quiet hours", []change{
		{admitting, "v.Quiet, v.Err = s.quiet.Now(ctx, m.quiet())", "_ = v.Quiet"},
	}},
	{"twice", "a check reads a verification first and writes it afterwards", []change{
		{verifications, "UPDATE verifications v\n    SET checks = v.checks + 1,", "UPDATE verifications w\n    SET checks = v.checks + 1,"},
		{verifications, "WHERE v.verification_id = $2 AND v.company_id = $3 AND", "FROM verifications v\nWHERE w.verification_id = v.verification_id AND v.verification_id = $2 AND v.company_id = $3 AND"},
		{verifications, "RETURNING v.status, v.checks, v.max_checks, v.task_ids, v.company_id, v.created_at, v.ended_at, v.subjects", "RETURNING w.status, w.checks, w.max_checks, w.task_ids, w.company_id, w.created_at, w.ended_at, w.subjects"},
	}},
	{"sixth", "a verification allows one more check than the setting", []change{
		{codes, "append(p.MaxChecks, m.maxChecks)", "append(p.MaxChecks, m.maxChecks+1)"},
	}},
	{"stale", "a replaced verification remains valid", []change{
		{verifications, "SET status = CASE WHEN v.expires_at <= clock_timestamp() THEN 'expired' ELSE 'cancelled' END, ended_at = least(v.expires_at, clock_timestamp()),\n        digest = NULL, sealed = NULL\n",
			"SET purpose = v.purpose || v.verification_id\n"},
	}},
	{"resent", "a part whose link was cut before its answer is sent again", []change{
		{linking, "case errors.Is(err, pdulink.ErrUnclear): //", "case errors.Is(err, pdulink.ErrTimeout): //"},
		{linking, "case errors.Is(err, pdulink.ErrNotSent) && ctx.Err() == nil && isClosed(s.Ending()): //", "case errors.Is(err, pdulink.ErrNotSent) && ctx.Err() == nil && isClosed(s.Ending()), errors.Is(err, pdulink.ErrUnclear): //"},
	}},
	{"doubted", "a part that the carrier did not answer ends its message", []change{
		{linking, "\tif taken == 0 {\n", "\tif taken == 0 && !o.Unknown {\n"},
	}},
	{"forgot", "a receipt without a message, such as one before its answer, is not matched later", []change{
		{matching, "\t\t\tif len(matched) > 0 {\n\t\t\t\tparams.Found = append(params.Found, rows[0].ID)\n",
			"\t\t\tparams.Found = append(params.Found, rows[0].ID)\n\t\t\tif len(matched) > 0 {\n"},
	}},
	{"part", "a long message is delivered with its first part", []change{
		{matching, "\tif len(parts) == 0 {\n", "\tif len(parts) >= 0 {\n"},
	}},
	{"dropped", "a receipt is answered before it is stored, which ends with its request", []change{
		{"internal/dispatch/receipt/link.go", "\tif _, err := s.calls.Do(ctx, p); err != nil {\n\t\treturn err\n\t}\n", "\tgo func() { _, _ = s.calls.Do(ctx, p) }()\n"},
	}},
	{"low", "each claim below a mark tells that the balance is low", []change{
		{claims, "me.has_balance AND me.balance > mark.level AND me.balance - taken.segments", "me.has_balance AND me.balance - taken.segments"},
	}},
}

// OverlayOrNil returns the function that writes the overlay for the build. It returns nil for a nil mutant.
func (m *Mutant) OverlayOrNil() func(root, dir string) (string, error) {
	if m == nil {
		return nil
	}
	return m.overlay
}

// overlay writes the changed files into dir, and returns the path of the overlay file for the Go command.
func (m Mutant) overlay(root, dir string) (string, error) {
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
			return "", fmt.Errorf("mutant %s: %q occurs %d times in %s, want once", m.Name, c.before, n, c.file)
		}
		changed[path] = strings.Replace(text, c.before, c.after, 1)
	}
	replace := map[string]string{}
	for path, text := range changed {
		replacement := filepath.Join(dir, fmt.Sprintf("%s-%d-%s", m.Name, len(replace), filepath.Base(path)))
		if err := os.WriteFile(replacement, []byte(text), 0o600); err != nil {
			return "", fmt.Errorf("write changed file: %w", err)
		}
		replace[path] = replacement
	}
	content, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", fmt.Errorf("write overlay: %w", err)
	}
	path := filepath.Join(dir, m.Name+".json")
	return path, os.WriteFile(path, content, 0o600)
}

// All returns the mutants of both kinds.
func All() []Mutant { return slices.Concat(mutants, killMutants) }

// Names returns the names of all mutants.
func Names() (names []string) {
	for _, m := range All() {
		names = append(names, m.Name)
	}
	return names
}

// IsOfKills reports whether only kills can find the mutant.
func (m Mutant) IsOfKills() bool {
	return slices.ContainsFunc(killMutants, func(k Mutant) bool { return k.Name == m.Name })
}
