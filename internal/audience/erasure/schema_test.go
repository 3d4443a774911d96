package erasure_test

import (
	"regexp"
	"strings"
	"testing"

	"lksms/internal/testkit/apptest"
	"lksms/internal/testkit/queries"
)

// personal matches the names of columns that can contain personal data.
var personal = regexp.MustCompile(`phone|html|recipient|content|mail|name|user|receiver|dingtalk|openid|payload|param|body|data|response|detail|` +
	`value|attribute|text|error|result|before|after|entity_key|filter|title|remark|answer|key$|bytes|row|fault|failure|page|address|contact|values|number|caller|person|octets|(^|_)(to|from|sender)$|^(to|from)_no$`)

// erased contains the columns that an owner clears, the columns of rows that an owner deletes, and the columns of the tables in withoutOwner.
var erased = words(`
	blocks.recipient announcements.payload announcements.user_ids audit.after audit.before audit.entity_key batch_rows.contact_values batch_rows.content batch_rows.recipient callbacks.body
	conversations.phone_number contacts.attributes contacts.dingtalk_name contacts.email contacts.name contacts.phone contacts.user_id contacts.wechat_openid
	dedup_keys.dedup_key default_contents.content default_contents.phone_number default_contents.recipient deliveries.answer deliveries.error deliveries.recipient sender_answers.answer sender_answers.error
	erasures.asked_recipients erasures.recipients erasures.user_ids fruitless_submissions.content fruitless_submissions.phone_number fruitless_submissions.request_data
	fruitless_submissions.response_data inbounds.phone_numbers reply_rules.phone_numbers reply_actions.phone_number reply_actions.refused idempotency_keys.response messages.content messages.dedup_key messages.phone_number messages.recipient
	messages.request_data messages.submitted_content messages.user_id notifications.own_payload queue.content queue.phone_number queue.recipient
	queue.result queue.taken_back_result queue.user_id receipts.recipient received_messages.content received_messages.phone_number received_messages.raw received_parts.from_no received_parts.octets received_parts.to_no renderings.content renderings.html renderings.page renderings.params messages.contact_values queue.contact_values renderings.title smsgate_messages.message_id sql_inbox.content sql_inbox.dedup_key
	smpp_long_messages.recipient sql_inbox.params sql_inbox.phone_number report_logs.error_message
	report_logs.request_data report_logs.result subscribe_messages.receiver_user_id sim_recipients.recipient_hash tag_contacts.user_id task_jobs.filter upload_parts.bytes verifications.recipient webhook_deliveries.response
`)

// kept contains the columns whose names match personal, but that contain no data of recipients.
var kept = map[string][]string{
	"of users, senders and the configuration": words(`
		alert_receiver_states.error alert_receivers.name alert_receivers.user_ids alert_deliveries.error alert_rules.name phone_inboxes.signing_key api_keys.key_hash api_keys.name
		batch_acts.username received_messages.own_number received_messages.read_by batches.default_region companies.default_region batches.content batches.name batches.phone_column channels.name companies.name countries.name notification_templates.content
		notification_templates.html notification_templates.title company_notification_templates.content company_notification_templates.html company_notification_templates.title senders.name sender_tokens.token settings.name settings.value template_versions.template_content
		templates.template_content templates.template_name user_addresses.username users.username sessions.username smpp_long_messages.username smpp_receivers.username
		sessions.user_agent sessions.password_proof messages.user_agent fruitless_submissions.user_agent batches.user_agent sender_ledger.username
		sender_ledger.remark alerts.remark task_jobs.remark task_jobs.skipped_by callbacks.refused callbacks.source_ip
		users.app_id events.detail webhook_deliveries.error feed.data feed_staged.data notifications.remark alert_receivers.user_ids senders.config sql_inbox.role_name
		sql_roles.role_name companies.recipient reply_rules.content sender_sims.phone_number`),
	"of erased people, so that they get no messages":                       words(`block_requests.recipient_hash blocks.recipient_hash`),
	"of numbers with recent messages, deleted two days after the last one": words(`capped_recipients.recipient_hash capped_recipients.task_ids`),
	"texts about columns, keys that callers choose, and what is deleted in a moment": words(`
		sender_links.error
		batch_rows.fault batches.fault contact_import_errors.failure
		contact_imports.failure contact_imports.file_name
		idempotency_keys.key idempotency_keys.username statistics.key uploads.name sender_states.rest_reason
		callbacks.body_hash notifications.dedup_key notifications.run_after
		erasures.created_by task_job_parts.task_ids business_ends.subject facts.sender_no task_partitions.before_id quiet_changes.after_id
		contact_imports.default_region contact_imports.tag reconciliations.after_no reconciliations.delivered_values reconciliations.failure reconciliations.file_name reconciliations.number_column
		reconciliations.pending_values task_partitions.exported_to`),
}

// withoutOwner contains the tables that have columns in erased, but that no owner erases. Their data disappears in another way.
var withoutOwner = map[string]string{
	"conversations": "triggers of received_messages delete its rows when the messages of a person are erased",
	"erasures":      "the end of an erasure deletes its person (ErasureEnd)",
	"queue":         "a task leaves the queue before it is erased: it ends, or the erasure cancels it",
	"sql_inbox":     "the erasure waits until earlier messages have left the inbox",
	"tag_contacts":  "deleted with the contact, by its foreign key",
	"upload_parts":  "the erasure waits until earlier lists have been read, and deleted",
}

func words(text string) []string { return strings.Fields(text) }

// S4.10: every column that can contain personal data is listed in erased or kept. The author of a new column decides what an erasure does with it.
func TestTheErasureListsEveryColumnThatCanContainPersonalData(t *testing.T) {
	b := apptest.New(t)
	known := map[string]bool{}
	for _, name := range erased {
		known[name] = true
	}
	for _, names := range kept {
		for _, name := range names {
			known[name] = true
		}
	}
	columns := apptest.Scan[string](b, `SELECT string_agg(c.relname || '.' || a.attname, ' ' ORDER BY c.relname, a.attname)
		FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
		WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND c.relnamespace = 'public'::regnamespace AND c.relname <> 'schema_migrations'
			AND a.atttypid::regtype::text IN ('text', 'text[]', 'jsonb', 'bytea', 'json', 'character varying')`)
	exist := map[string]bool{}
	for _, column := range strings.Fields(columns) {
		exist[column] = true
		if _, name, _ := strings.Cut(column, "."); personal.MatchString(name) && !known[column] {
			t.Errorf("%s may contain data of a person: its room must erase it (erasure.Owner) and it must be in erased, or add it to kept with the reason", column)
		}
	}
	for column := range known {
		if !exist[column] {
			t.Errorf("%s does not exist", column)
		}
	}
}

var (
	deletes = regexp.MustCompile(`\bDELETE FROM ([a-z_]+)`)
	updates = regexp.MustCompile(`(?s)\bUPDATE ([a-z_]+)(.*?)(?:\bWHERE\b|$)`)
	sets    = regexp.MustCompile(`[\s,]([a-z_]+) = `)
)

// rooms returns the columns that the statements of each room erase. If a statement deletes the rows of a table, the column has no name: "table.".
func rooms(t *testing.T) map[string][]string {
	t.Helper()
	all := map[string][]string{}
	for _, s := range queries.All(t) {
		if !strings.HasSuffix(s.File, "/erase.sql") {
			continue
		}
		columns := all[s.Room]
		for _, found := range deletes.FindAllStringSubmatch(s.SQL, -1) {
			columns = append(columns, found[1]+".")
		}
		for _, found := range updates.FindAllStringSubmatch(s.SQL, -1) {
			for _, set := range sets.FindAllStringSubmatch(found[2], -1) {
				columns = append(columns, found[1]+"."+set[1])
			}
		}
		all[s.Room] = columns
	}
	if len(all) < 10 {
		t.Fatalf("only %d rooms erase", len(all))
	}
	return all
}

// S4.10: the app lists each room that erases people, once for each of its services. For each column of erased, a room has a statement that erases it.
func TestEveryColumnWithPersonalDataHasAnOwner(t *testing.T) {
	b := apptest.New(t)
	named := map[string]bool{}
	for _, o := range b.App.Erasures.Owners {
		named[o.Room] = true
		if o.Erase == nil && o.ErasePortions == nil && o.EraseSources == nil && o.EraseTasks == nil && o.HasEarlier == nil {
			t.Errorf("owner %s erases nothing", o.Room)
		}
	}
	isErased := map[string]bool{}
	for room, columns := range rooms(t) {
		if !named[room] {
			t.Errorf("db/queries/%s/erase.sql exists, but room %s is missing from erasureOwners in internal/app/erasure.go", room, room)
		}
		delete(named, room)
		for _, column := range columns {
			isErased[column] = true
		}
	}
	for room := range named {
		t.Errorf("owner %s has no db/queries/%s/erase.sql", room, room)
	}
	needed := map[string]bool{}
	for _, column := range erased {
		table, _, _ := strings.Cut(column, ".")
		if isErased[column] || isErased[table+"."] {
			continue
		}
		if needed[table] = true; withoutOwner[table] == "" {
			t.Errorf("no statement of db/queries/*/erase.sql erases %s: add one to the room of the table, or add the table to withoutOwner with the reason", column)
		}
	}
	for table := range withoutOwner {
		if !needed[table] {
			t.Errorf("%s of withoutOwner has an owner", table)
		}
	}
}
