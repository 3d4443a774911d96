-- migrate:up
-- Comments say of each table and view what a row is, which package writes it and why a foreign key is missing, and of columns the unit and
-- the meaning of null. COMMENT changes only the catalog. It locks each table and view against other changes of its definition and against
-- VACUUM until the migration commits (SHARE UPDATE EXCLUSIVE); reads and writes go on.
COMMENT ON TABLE announcements IS
    'The text data and the people of the notifications of one request. Written by internal/notification with the first notification of '
    'the request. user_ids has no foreign key: a person may have no contact yet.';
COMMENT ON COLUMN announcements.payload IS 'values for the placeholders of the template; own_payload of a notification overrides them';
COMMENT ON COLUMN announcements.user_ids IS 'contacts.user_id of the people';
COMMENT ON TABLE api_keys IS 'An API key of a user. Written by internal/access.';
COMMENT ON COLUMN api_keys.key_hash IS 'SHA-256 of the key. A key is 256 random bits, so it needs no slow hash.';
COMMENT ON COLUMN api_keys.name IS 'a label that distinguishes the keys of a user';
COMMENT ON TABLE business_ends IS
    'A business task or one of its nodes that has ended. Written by internal/notification from business events, and deleted when the '
    'task or node starts again.';
COMMENT ON COLUMN business_ends.subject IS 'task or node';
COMMENT ON COLUMN business_ends.subject_id IS 'the number of the task or node in the system of the caller';
COMMENT ON COLUMN business_ends.awaits_start IS 'the end was reported before the start; the next start without a time belongs to this end';
COMMENT ON TABLE callbacks IS
    'An HTTP callback of a provider, stored before it is parsed. Written by internal/receipt, which deletes old rows. sender_no has no '
    'foreign key: a callback does not stop the deletion of its sender.';
COMMENT ON COLUMN callbacks.body IS 'as it came, without characters that PostgreSQL cannot store';
COMMENT ON COLUMN callbacks.refused IS
    'the error reason that the provider got; null: the callback was accepted, or the server stopped while it parsed the body';
COMMENT ON COLUMN callbacks.left_out IS 'number of unreadable items among readable ones';
COMMENT ON COLUMN callbacks.body_hash IS 'SHA-256 of the body; null: the row is older than this column';
COMMENT ON TABLE channel_countries IS
    'A country that a channel serves; a channel without rows serves every country. Written by internal/directory.';
COMMENT ON TABLE channels IS 'A kind of delivery: sms, oa, dingtalk, wechat, email. Written by internal/directory.';
COMMENT ON COLUMN channels.channel IS 'the name in requests';
COMMENT ON COLUMN channels.signature_required IS 'a message without a signature is rejected';
COMMENT ON COLUMN channels.version IS 'incremented by each update; a caller names the version that it saw';
COMMENT ON COLUMN channels.retry_minutes IS
    'for driven senders: minutes before each retry, so its length is the number of retries; null: as configured for the server';
COMMENT ON TABLE companies IS
    'A tenant: it owns users, tasks, routes and contacts, and is the unit of fairness. Written by internal/directory. The first row, '
    'default, is created by a migration.';
COMMENT ON COLUMN companies.company_no IS 'the name in requests';
COMMENT ON COLUMN companies.weight IS 'its share of the service among the companies with waiting tasks';
COMMENT ON COLUMN companies.version IS 'incremented by each update; a caller names the version that it saw';
COMMENT ON TABLE company_countries IS
    'A country to which a company may send; a company without rows may send to every country. Written by internal/directory.';
COMMENT ON TABLE contacts IS 'A person whom a company may notify, with the addresses on each channel. Written by internal/contact.';
COMMENT ON COLUMN contacts.user_id IS 'the person in the systems of the company; not a row of users';
COMMENT ON COLUMN contacts.phone IS 'null: no address on the channel sms';
COMMENT ON COLUMN contacts.dingtalk_name IS 'null: no address on the channel dingtalk';
COMMENT ON COLUMN contacts.wechat_openid IS 'null: no address on the channel wechat';
COMMENT ON COLUMN contacts.email IS 'null: no address on the channel email';
COMMENT ON TABLE countries IS 'A country, or any other set of phone numbers that routes can name. Written by internal/directory.';
COMMENT ON COLUMN countries.country_no IS 'the name in requests';
COMMENT ON COLUMN countries.dial_prefix IS 'without the +; if several prefixes match a number, the longest counts';
COMMENT ON COLUMN countries.signature_required IS 'a message without a signature is rejected';
COMMENT ON COLUMN countries.version IS 'incremented by each update; a caller names the version that it saw';
COMMENT ON COLUMN countries.region IS
    'ISO 3166-1 code: only numbers of this region belong to the country; null: all numbers with the prefix';
COMMENT ON TABLE credentials_version IS
    'One row: the last transaction that changed users or API keys. Written by triggers of these tables. Servers compare it with the '
    'version of the credentials in their memory. No row: nothing was changed yet.';
COMMENT ON COLUMN credentials_version.is_only IS 'always true: as the primary key it allows only one row';
COMMENT ON TABLE default_contents IS
    'The text that is sent once to a phone number when a submission has none. Written by internal/template.';
COMMENT ON COLUMN default_contents.phone_number IS 'as the caller wrote it';
COMMENT ON COLUMN default_contents.recipient IS 'the same number in E.164, so that it is unique in every notation';
COMMENT ON COLUMN default_contents.use_template IS 'render the active template with the content as its parameters';
COMMENT ON COLUMN default_contents.is_sent IS 'a submission used it; reset by an administrator';
COMMENT ON COLUMN default_contents.company_id IS 'the company whose users send it; unique together with recipient';
COMMENT ON TABLE deliveries IS
    'The answer of a provider to one attempt. Written by internal/queue (reports with provider_no) and internal/push (unclear '
    'outcomes). No foreign keys: each insert would lock rows of tasks, send_logs and senders.';
COMMENT ON COLUMN deliveries.lease_id IS 'send_logs.id';
COMMENT ON COLUMN deliveries.recipient IS 'of the task, to match receipts';
COMMENT ON COLUMN deliveries.provider_no IS
    'the number that the provider gave the message; null: it is unknown whether the message was sent';
COMMENT ON COLUMN deliveries.error IS 'why it is unknown whether the message was sent; null: the provider accepted it';
COMMENT ON TABLE directory_version IS
    'One row: the last transaction that changed the directory: companies, channels, countries, pools, routes, or a column of senders '
    'that concerns others. Written by triggers of these tables. Servers compare it with the version of the directory in their memory. '
    'No row: nothing was changed yet.';
COMMENT ON COLUMN directory_version.is_only IS 'always true: as the primary key it allows only one row';
COMMENT ON TABLE events IS
    'Something that operators should know: a changed setting, a sender with a low balance, an open circuit breaker, a slow queue. '
    'Written by internal/alert, internal/push, internal/queue and internal/setting in the transaction of the change.';
COMMENT ON COLUMN events.event IS 'the kind, such as sender.low_warning';
COMMENT ON COLUMN events.subject IS 'the sender_no, the category and name of a setting, or queue';
COMMENT ON COLUMN events.detail IS 'values that depend on the kind';
COMMENT ON TABLE fair_ranks IS
    'The last range of ranks that a company was given in a pool and priority (start-time fair queueing: a task uses 1 / weight of its '
    'company). Written by internal/queue. pool_id has no foreign key: a deleted pool leaves its rows behind, and nothing reads them.';
COMMENT ON COLUMN fair_ranks.start IS 'rank of the first task of the range';
COMMENT ON COLUMN fair_ranks.finish IS 'the smallest rank that the next range may begin with';
COMMENT ON TABLE idempotency_keys IS
    'The response to a request with an Idempotency-Key. Written by internal/idempotency, which deletes rows after a day. username has '
    'no foreign key: the configured user is in no table.';
COMMENT ON COLUMN idempotency_keys.operation IS 'operation of the API; a caller may use the same key for different operations';
COMMENT ON COLUMN idempotency_keys.request_hash IS 'SHA-256 of the request; the same key with another request is rejected';
COMMENT ON COLUMN idempotency_keys.response IS 'the answer to repeat';
COMMENT ON VIEW notification_standings IS
    'View: the state of each notification, from the last task of each of its people. Read it by notification_id: a scan computes all.';
COMMENT ON COLUMN notification_standings.status IS '0 waiting, 1 success, 2 failed, 3 cancelled, 4 ended abnormally, 5 partly failed';
COMMENT ON COLUMN notification_standings.people IS 'people with a task';
COMMENT ON COLUMN notification_standings.succeeded IS 'people whose last task is SUCCESS';
COMMENT ON COLUMN notification_standings.retries IS 'the largest retry_count';
COMMENT ON TABLE notification_templates IS 'The title and text of a business type on a channel. Written by internal/notification.';
COMMENT ON COLUMN notification_templates.biz_type IS 'see notifications.biz_type';
COMMENT ON COLUMN notification_templates.external_id IS 'template of the provider; empty: none';
COMMENT ON COLUMN notification_templates.sign IS 'signature before the text if the notification has none; null: that of the sender';
COMMENT ON TABLE notifications IS
    'An announcement to some people on one channel. Written by internal/notification. Its messages are in renderings and their tasks. '
    'submitted_by has no foreign key: the configured user is in no table.';
COMMENT ON COLUMN notifications.biz_type IS
    '0 task created, 1 node done, 2 orbit reminder, 3 task finished, 4 task abnormal, 5 node timeout; callers may use other numbers';
COMMENT ON COLUMN notifications.biz_id IS 'the object in the system of the caller, such as a task or a node';
COMMENT ON COLUMN notifications.biz_task_id IS 'the business task of a business event; null: the notification comes from no business event';
COMMENT ON COLUMN notifications.dedup_key IS
    'unique among the visible notifications of a channel: within the company for a business event, else for its submitter; null: none';
COMMENT ON COLUMN notifications.next_run_at IS 'when messages are sent next; null: no further run';
COMMENT ON COLUMN notifications.repeat_minutes IS 'minutes from the end of a run to the next; null: no repetition';
COMMENT ON COLUMN notifications.started_at IS 'of a node timeout: when the work on the node started';
COMMENT ON COLUMN notifications.ended_as IS
    '1 set to success, 2 could not be sent, 3 cancelled, 4 ended abnormally; null: the state follows from the tasks';
COMMENT ON COLUMN notifications.remark IS 'why the last run failed; null: it did not';
COMMENT ON COLUMN notifications.operator IS 'who changed it last in the system of the caller';
COMMENT ON COLUMN notifications.deleted_at IS 'hidden from then on; null: visible. Rows are never deleted.';
COMMENT ON COLUMN notifications.sign IS 'signature before the text; null: that of the template, else of the sender';
COMMENT ON COLUMN notifications.replaced_at IS 'when its dedup_key was freed because its node started again; null: it was not';
COMMENT ON COLUMN notifications.expires_at IS 'nothing is sent later; null: never';
COMMENT ON COLUMN notifications.own_payload IS
    'values of this notification beside its announcement, such as the number of an orbit; they override the announcement';
COMMENT ON TABLE pools IS
    'A set of waiting tasks that the same routes serve: those of a company, message type and country. A pool without company is the '
    'shared pool of a channel, for tasks without a route. Written by internal/directory; unsettled_since also by internal/queue.';
COMMENT ON COLUMN pools.company_id IS 'null: the shared pool of a channel, or a retired pool';
COMMENT ON COLUMN pools.message_type IS 'as tasks.message_type; null: see company_id';
COMMENT ON COLUMN pools.country_id IS 'null: every country without a pool of its own';
COMMENT ON COLUMN pools.retired_at IS
    'when the last route was deleted; only the channel is kept, to move tasks that return to the pool; null: in use';
COMMENT ON COLUMN pools.unsettled_since IS
    'when the pool began to serve; tasks of it may still wait in broader pools, from which a sweep moves them; null: none do';
COMMENT ON TABLE receipts IS
    'What a provider reported later about one accepted message. Written by internal/receipt, which deletes old rows. callback_id and '
    'sender_no have no foreign keys: a receipt may outlive its callback, and does not stop the deletion of its sender.';
COMMENT ON COLUMN receipts.provider_no IS 'the number that the provider gave the message, as deliveries.provider_no';
COMMENT ON COLUMN receipts.recipient IS 'as the provider wrote it; empty: not given';
COMMENT ON COLUMN receipts.state IS '0 on its way, 1 delivered, 2 undelivered';
COMMENT ON COLUMN receipts.code IS 'status code of the provider; empty: none';
COMMENT ON COLUMN receipts.matched_at IS 'when the task of the message was found; null: not yet';
COMMENT ON COLUMN receipts.look_at IS 'when the task is searched next; null: it was found, or the search was given up';
COMMENT ON TABLE receive_logs IS
    'A submission, accepted or refused. Written by internal/queue. task_id has no foreign key: each submission would lock a row of '
    'tasks, and a refused one has none.';
COMMENT ON COLUMN receive_logs.task_id IS 'the task that was created or repeated; null: refused';
COMMENT ON COLUMN receive_logs.phone_number IS 'as the caller wrote it; null: not given or unreadable';
COMMENT ON COLUMN receive_logs.content IS 'as submitted; of a rendering only the beginning';
COMMENT ON COLUMN receive_logs.response_data IS 'the answer; data.deduplicated is true if the submission repeated a dedup_key';
COMMENT ON COLUMN receive_logs.status_code IS 'HTTP status of the answer';
COMMENT ON COLUMN receive_logs.recipient IS 'recipient of the task that the submission created; null: it created none';
COMMENT ON TABLE renderings IS
    'The text of one run of a notification, or of one send-once message, which its tasks share. Written by internal/notification. '
    'notification_id has no foreign key: rows of notifications are never deleted.';
COMMENT ON COLUMN renderings.template_id IS 'template of the provider; empty: none';
COMMENT ON COLUMN renderings.params IS 'values for the template of the provider';
COMMENT ON COLUMN renderings.page IS 'page that a WeChat message opens; empty: none';
COMMENT ON COLUMN renderings.notification_id IS 'null: a send-once message';
COMMENT ON TABLE report_logs IS
    'Something that ended a lease or a waiting task, or tried to: a report, release, recovery, cancellation, expiry or receipt. '
    'Written by internal/queue. No foreign keys: each report would lock rows of tasks and send_logs.';
COMMENT ON COLUMN report_logs.app_id IS 'sender_no; null: a cancellation or expiry';
COMMENT ON COLUMN report_logs.lease_id IS 'send_logs.id of the lease that was ended, or that the report named; null: none';
COMMENT ON COLUMN report_logs.status IS '2 SUCCESS or 3 FAILED, as reported; null: not a report';
COMMENT ON COLUMN report_logs.effect IS
    'ignored: the app once held the task, refused: it never did; untried and troubled: released leases; unclear: the outcome is '
    'unknown and the task failed';
COMMENT ON TABLE routes IS
    'A sender that serves a pool. Written by internal/directory; served, last_turn and next_turn by the claims of internal/queue.';
COMMENT ON COLUMN routes.weight IS 'share of the sender among the routes with the same sort';
COMMENT ON COLUMN routes.sort IS 'of the available senders of a pool, only those with the largest sort are served';
COMMENT ON COLUMN routes.served IS 'number of tasks taken, divided by the weight; the route with the smallest value is served first';
COMMENT ON COLUMN routes.version IS 'incremented by each update; a caller names the version that it saw';
COMMENT ON COLUMN routes.next_turn IS 'when it is the turn of the pool again, in the same virtual time; a value in the past counts as now';
COMMENT ON TABLE send_logs IS
    'A lease; its id is the lease id. Written by internal/queue. No foreign keys: each claim would lock rows of tasks and senders.';
COMMENT ON COLUMN send_logs.app_id IS 'sender_no';
COMMENT ON COLUMN send_logs.content IS 'text with signature';
COMMENT ON COLUMN send_logs.attempt IS '1 + retry_count of the task';
COMMENT ON COLUMN send_logs.segments IS
    'segments that the attempt took from the limits of its sender; null: the sender had neither interval, limits nor balance';
COMMENT ON TABLE sender_changes IS
    'What a claim or a report adds to the counters of a sender. Written by internal/queue; internal/sender folds the rows into '
    'sender_states and deletes them, so that claims and reports do not wait for one row of each sender. sender_no has no foreign key: '
    'each claim and report would lock the sender.';
COMMENT ON COLUMN sender_changes.sent IS 'number of leases';
COMMENT ON COLUMN sender_changes.succeeded IS 'number of reported SUCCESS';
COMMENT ON COLUMN sender_changes.failed IS 'number of reported FAILED';
COMMENT ON COLUMN sender_changes.response_ms IS 'sum of the milliseconds from claim to report';
COMMENT ON TABLE sender_ledger IS
    'A change of the balance of a sender, or of its thresholds. Written by internal/queue (charges, refunds) and internal/sender '
    '(top-ups, corrections, thresholds). No foreign keys: each charge would lock rows of senders and send_logs.';
COMMENT ON COLUMN sender_ledger.change IS 'segments added; negative: a charge; 0: changed thresholds';
COMMENT ON COLUMN sender_ledger.balance IS 'segments after the change';
COMMENT ON COLUMN sender_ledger.lease_id IS 'send_logs.id of the charged or refunded attempt; null: top-up, correction or thresholds';
COMMENT ON COLUMN sender_ledger.username IS 'who changed the balance or the thresholds; null: an attempt';
COMMENT ON COLUMN sender_ledger.low_warning IS 'the new threshold, of changed thresholds and an opening balance; null otherwise';
COMMENT ON COLUMN sender_ledger.low_switch IS 'as low_warning';
COMMENT ON VIEW sender_standings IS 'View: each sender with what others need to know about it now. A claim reads it by sender_id.';
COMMENT ON COLUMN sender_standings.is_rested IS 'next_available_at has passed';
COMMENT ON COLUMN sender_standings.has_quota IS 'each limit has segments left';
COMMENT ON COLUMN sender_standings.has_funds IS 'it has no balance, or one above low_switch';
COMMENT ON COLUMN sender_standings.day_share IS 'used part of the daily limit; 0 without a limit';
COMMENT ON COLUMN sender_standings.response_ms IS 'average milliseconds from claim to report';
COMMENT ON COLUMN sender_standings.is_available IS
    'on, with quota and funds, and with a closed circuit breaker; sort and shares compare only available senders';
COMMENT ON COLUMN sender_standings.segments_left IS 'segments that its limits and balance leave; null: no limit';
COMMENT ON COLUMN sender_standings.room IS
    'the most segments, as counted at the submission, of a task that it can surely still send; its own segment size or signature may '
    'allow more';
COMMENT ON TABLE sender_states IS
    'The counters and the circuit breaker of a sender, one row for each row of senders. Written by internal/queue (claims, refunds), '
    'internal/push (circuit breaker) and internal/sender. Apart from senders, so that a claim updates a short row in place.';
COMMENT ON COLUMN sender_states.next_available_at IS
    'the sender is ready from then on: one interval for each call of the last claim, and not while the circuit breaker is open; '
    '-infinity: always ready';
COMMENT ON COLUMN sender_states.last_taken IS 'number of calls of the last claim, from which a changed interval is counted again';
COMMENT ON COLUMN sender_states.last_taken_at IS
    'time of the last claim that took something while the sender had an interval, limits or a balance; null: never';
COMMENT ON COLUMN sender_states.balance IS 'segments left; null: no balance';
COMMENT ON COLUMN sender_states.minute_used IS 'segments in the minute of last_taken_at; in any other minute none are used';
COMMENT ON COLUMN sender_states.hour_used IS 'as minute_used, for the hour';
COMMENT ON COLUMN sender_states.day_used IS 'as minute_used, for the day';
COMMENT ON COLUMN sender_states.month_used IS 'as minute_used, for the month';
COMMENT ON COLUMN sender_states.seen_at IS 'last poll, claim or report, recorded at intervals; null: never';
COMMENT ON COLUMN sender_states.sent_at IS 'when the last SUCCESS was reported; null: never';
COMMENT ON COLUMN sender_states.attempts IS 'number of leases ever; succeeded of them were sent';
COMMENT ON COLUMN sender_states.response_ms IS 'sum of the milliseconds from claim to report, over succeeded and failed';
COMMENT ON COLUMN sender_states.shared_last_turn IS 'routes.last_turn for the shared pool, of a shared sender that also has routes';
COMMENT ON COLUMN sender_states.shared_next_turn IS 'routes.next_turn for the shared pool, of a shared sender that also has routes';
COMMENT ON COLUMN sender_states.openings IS 'how often the circuit breaker opened since a message got through; 0: closed';
COMMENT ON COLUMN sender_states.rest_until IS 'the circuit breaker is open until then and half-open afterwards; null: closed';
COMMENT ON COLUMN sender_states.rest_reason IS 'error of the provider when the circuit breaker opened; null: closed';
COMMENT ON COLUMN sender_states.probe_until IS 'half-open: one worker tries one message until then; null: no worker does';
COMMENT ON COLUMN sender_states.granted IS 'sum of top-ups and corrections; granted - balance was consumed';
COMMENT ON COLUMN sender_states.attempts_today IS 'number of leases on attempts_on; on any other day none';
COMMENT ON COLUMN sender_states.attempts_on IS 'a day in the time zone of the sender; null: no lease yet';
COMMENT ON TABLE sender_tokens IS 'The access token of a driven sender at its provider. Written by internal/push.';
COMMENT ON COLUMN sender_tokens.token IS 'sealed; empty: none was fetched yet';
COMMENT ON COLUMN sender_tokens.expires_at IS '-infinity: none was fetched yet';
COMMENT ON COLUMN sender_tokens.fetches IS 'number of leases to fetch the token; only the last of them may store it';
COMMENT ON COLUMN sender_tokens.fetch_until IS 'one server fetches the token until then; null: no server does';
COMMENT ON TABLE senders IS 'A sender: an app that polls, or a provider account that the server drives. Written by internal/sender.';
COMMENT ON COLUMN senders.sender_no IS 'the name in requests; of an app its app_id';
COMMENT ON COLUMN senders.kind IS 'app: it polls; otherwise the name of the driver';
COMMENT ON COLUMN senders.status IS 'on, off, or retired: off and hidden from explanations';
COMMENT ON COLUMN senders.sort IS 'of the available senders of a shared pool, only those with the largest sort are served';
COMMENT ON COLUMN senders.is_shared IS 'it also serves the shared pool of its channel: tasks without a route';
COMMENT ON COLUMN senders.interval_ms IS 'milliseconds from one call to the next; 0: no limit';
COMMENT ON COLUMN senders.per_minute IS 'segments in a minute of time_zone; null: no limit';
COMMENT ON COLUMN senders.per_hour IS 'segments in an hour of time_zone; null: no limit';
COMMENT ON COLUMN senders.per_day IS 'segments in a day of time_zone; null: no limit';
COMMENT ON COLUMN senders.per_month IS 'segments in a month of time_zone; null: no limit';
COMMENT ON COLUMN senders.lease_seconds IS 'null: as configured for the server';
COMMENT ON COLUMN senders.sign IS 'signature for tasks without one, without brackets; null: none';
COMMENT ON COLUMN senders.segment_size IS 'characters that its provider counts as one segment; null: counted by GSM 03.38';
COMMENT ON COLUMN senders.low_warning IS 'an event is added when the balance falls to it; null: none';
COMMENT ON COLUMN senders.low_switch IS 'nothing is leased at this balance or below; null: 0';
COMMENT ON COLUMN senders.config IS 'configuration of the driver; secrets are sealed';
COMMENT ON COLUMN senders.has_balance IS 'attempts are charged to sender_states.balance';
COMMENT ON COLUMN senders.is_paced IS 'generated: it has an interval, limits or a balance, so a claim must lock its row in sender_states';
COMMENT ON COLUMN senders.version IS 'incremented by each update; a caller names the version that it saw';
COMMENT ON COLUMN senders.on_unclear IS
    'after an attempt with an unknown outcome, when its lease has expired: retry sends the message again, fail ends the task';
COMMENT ON COLUMN senders.is_self_registered IS 'an app created it by polling; also false for senders older than this column';
COMMENT ON TABLE settings IS
    'A setting that was changed from its default. Written by internal/setting, which knows the names, defaults and bounds. updated_by '
    'has no foreign key: the configured user is in no table.';
COMMENT ON TABLE subscribe_messages IS
    'A message that a person gets once for a business object and template type, by submitter. Written by internal/notification. '
    'task_id has no foreign key: the row is created before its task.';
COMMENT ON COLUMN subscribe_messages.business_id IS 'the object in the system of the caller';
COMMENT ON COLUMN subscribe_messages.receiver_user_id IS
    'contacts.user_id; no foreign key: a person whose address the request carries needs no contact';
COMMENT ON COLUMN subscribe_messages.template_id IS 'template of the provider in the last send';
COMMENT ON COLUMN subscribe_messages.task_id IS 'the last task that sent it; its state is that of the message';
COMMENT ON COLUMN subscribe_messages.sends IS 'number of tasks';
COMMENT ON COLUMN subscribe_messages.submitted_by IS 'the username; empty: its task no longer existed when this column was added';
COMMENT ON TABLE task_count_changes IS
    'A change of the numbers of tasks in each state, of one company; the sums are the current numbers. Written by triggers of tasks, '
    'one row for each statement and company, so that statements do not wait for each other. internal/history folds the rows.';
COMMENT ON COLUMN task_count_changes.pending_new IS 'PENDING with retry_count 0';
COMMENT ON COLUMN task_count_changes.pending_retry IS 'PENDING with retry_count above 0';
COMMENT ON COLUMN task_count_changes.company_id IS 'no foreign key: each change of tasks would lock the company';
COMMENT ON TABLE tasks IS
    'One message to one recipient on one channel. Written by internal/queue only. No foreign keys: each submission and claim would '
    'lock rows of companies, pools, senders, renderings and users, and the configured user is in no table.';
COMMENT ON COLUMN tasks.task_id IS 'contains the day and ascends with time';
COMMENT ON COLUMN tasks.phone_number IS 'the recipient as the caller wrote it';
COMMENT ON COLUMN tasks.recipient IS 'on the channel sms the same number in E.164; on others the address, empty if the person has none';
COMMENT ON COLUMN tasks.content IS 'text without signature; of a rendering only the beginning';
COMMENT ON COLUMN tasks.source IS 'the submitting system, as its caller names it; null: not given';
COMMENT ON COLUMN tasks.submitted_by IS 'the username; with the role submit, the user sees only these tasks';
COMMENT ON COLUMN tasks.dedup_key IS 'the submitter''s name for the message, unique for company and submitter; null: none';
COMMENT ON COLUMN tasks.retry_count IS 'number of retries so far';
COMMENT ON COLUMN tasks.due_at IS 'the task can be claimed from then on';
COMMENT ON COLUMN tasks.processing_app_id IS 'sender_no of the sender that holds the task or settled it; null: no such sender';
COMMENT ON COLUMN tasks.lease_id IS
    'send_logs.id of the current lease, of the expired lease of a task that was taken back, or of the lease that settled the task; '
    'null: none, or a retry was requested';
COMMENT ON COLUMN tasks.lease_until IS 'null unless PROCESSING';
COMMENT ON COLUMN tasks.result IS 'outcome for operators; null: none yet';
COMMENT ON COLUMN tasks.sent_at IS 'when a SUCCESS was reported';
COMMENT ON COLUMN tasks.reported_at IS 'when the task became SUCCESS or FAILED';
COMMENT ON COLUMN tasks.pool_id IS
    'the pool in which the task waits or waited; no foreign key, because each submission would lock the pool';
COMMENT ON COLUMN tasks.country_no IS 'at the time of the submission; null: the number belongs to no known country';
COMMENT ON COLUMN tasks.priority IS '0 to 9, smaller is more urgent';
COMMENT ON COLUMN tasks.segments IS 'short messages that the text with its signature takes, counted at the submission';
COMMENT ON COLUMN tasks.sign IS 'signature without brackets; null: that of the sender';
COMMENT ON COLUMN tasks.is_test IS 'marked as a test by its submitter; sent like any other task';
COMMENT ON COLUMN tasks.expect_send_time IS 'when the submitter wants it sent, or the next interval of a scheduled template; null: at once';
COMMENT ON COLUMN tasks.expires_at IS 'not sent later; null: never';
COMMENT ON COLUMN tasks.failed_app_id IS 'sender_no of the last sender that failed; a claim prefers other senders; null: none failed';
COMMENT ON COLUMN tasks.lane IS
    'order in the queue of the pool: 32 * priority for a new task, 32 * priority + retry_count for a retry; null: not due or not '
    'queued yet';
COMMENT ON COLUMN tasks.rank IS
    'order within the lane, in the virtual time of fair_ranks; valid only in this pool and priority; null: none yet';
COMMENT ON COLUMN tasks.rendering_id IS 'of a task of a notification or send-once message; null: a submitted message';
COMMENT ON COLUMN tasks.user_id IS 'contacts.user_id of the recipient; null: a submitted message';
COMMENT ON COLUMN tasks.delivery IS 'from the receipts of the provider: 1 delivered, 2 undelivered; null: no receipt';
COMMENT ON COLUMN tasks.delivery_code IS 'status code in the receipt';
COMMENT ON COLUMN tasks.delivered_at IS 'when the receipt was processed; null: not delivered';
COMMENT ON COLUMN tasks.on_unclear IS 'overrides senders.on_unclear; null: as the sender';
COMMENT ON TABLE templates IS 'A text for submissions. Written by internal/template.';
COMMENT ON COLUMN templates.send_type IS
    'realtime: sent at once; scheduled: sent at the next full interval of the setting sms.scheduled_every_seconds, unless the '
    'submission names a time';
COMMENT ON COLUMN templates.companies IS
    'company_no of the companies that may use it; empty: all. An array cannot have a foreign key, so the deletion of a company checks '
    'it.';
COMMENT ON TABLE user_addresses IS
    'An address at which a user proved its password. Written by internal/access after a right password, at most once a day. Rows older '
    'than 30 days do not count, and are deleted when the user proves its password again.';
COMMENT ON COLUMN user_addresses.username IS 'no foreign key: the configured user is in no table';
COMMENT ON TABLE users IS 'A user of the API: a system, a sender or a person. Written by internal/access.';
COMMENT ON COLUMN users.role IS 'submit, send, read or admin';
COMMENT ON COLUMN users.app_id IS 'with the role send: the only sender_no for which the user may claim and report; null: any';
COMMENT ON COLUMN users.password_hash IS 'argon2id; null: the user has only API keys';
COMMENT ON COLUMN users.company_id IS 'the company for which the user submits; 1 is the default company';
COMMENT ON COLUMN users.top_priority IS 'the most urgent priority that its submissions may ask for';
COMMENT ON COLUMN users.version IS 'incremented by each update; a caller names the version that it saw';
COMMENT ON COLUMN users.has_company IS
    'the company limits what the user sees; false: company_id only says for whom it submits, and a read user sees every company';

-- migrate:down
COMMENT ON TABLE announcements IS
    'what the notifications of one request say, and to whom; written with the first notification that a request makes';
COMMENT ON COLUMN announcements.payload IS NULL;
COMMENT ON COLUMN announcements.user_ids IS NULL;
COMMENT ON TABLE api_keys IS NULL;
COMMENT ON COLUMN api_keys.key_hash IS 'SHA-256: a key is 256 random bits, which need no slow hash';
COMMENT ON COLUMN api_keys.name IS NULL;
COMMENT ON TABLE business_ends IS 'a business task or node that is over; the row goes when it is begun again';
COMMENT ON COLUMN business_ends.subject IS NULL;
COMMENT ON COLUMN business_ends.subject_id IS NULL;
COMMENT ON COLUMN business_ends.awaits_start IS 'its end was told before its start: the next start without a time is that one';
COMMENT ON TABLE callbacks IS NULL;
COMMENT ON COLUMN callbacks.body IS NULL;
COMMENT ON COLUMN callbacks.refused IS 'the reason that the provider was answered; null: it was taken, or the server stopped while it read';
COMMENT ON COLUMN callbacks.left_out IS 'items that could not be read, among others that could';
COMMENT ON COLUMN callbacks.body_hash IS 'SHA-256 of the body as it came; null: it came before bodies were compared';
COMMENT ON TABLE channel_countries IS NULL;
COMMENT ON TABLE channels IS NULL;
COMMENT ON COLUMN channels.channel IS NULL;
COMMENT ON COLUMN channels.signature_required IS NULL;
COMMENT ON COLUMN channels.version IS NULL;
COMMENT ON COLUMN channels.retry_minutes IS
    'for senders that are driven: the wait before each further attempt; null: as the server is configured';
COMMENT ON TABLE companies IS NULL;
COMMENT ON COLUMN companies.company_no IS NULL;
COMMENT ON COLUMN companies.weight IS 'its part of the service, against the other companies that wait';
COMMENT ON COLUMN companies.version IS NULL;
COMMENT ON TABLE company_countries IS NULL;
COMMENT ON TABLE contacts IS NULL;
COMMENT ON COLUMN contacts.user_id IS NULL;
COMMENT ON COLUMN contacts.phone IS NULL;
COMMENT ON COLUMN contacts.dingtalk_name IS NULL;
COMMENT ON COLUMN contacts.wechat_openid IS NULL;
COMMENT ON COLUMN contacts.email IS NULL;
COMMENT ON TABLE countries IS NULL;
COMMENT ON COLUMN countries.country_no IS NULL;
COMMENT ON COLUMN countries.dial_prefix IS 'without the +; of several that fit a number, the longest counts';
COMMENT ON COLUMN countries.signature_required IS NULL;
COMMENT ON COLUMN countries.version IS NULL;
COMMENT ON COLUMN countries.region IS 'ISO 3166-1: only its numbers belong to the country; null: every number with the dial prefix';
COMMENT ON TABLE credentials_version IS 'the last transaction that changed users or API keys, written by triggers; none: no row';
COMMENT ON COLUMN credentials_version.is_only IS NULL;
COMMENT ON TABLE default_contents IS NULL;
COMMENT ON COLUMN default_contents.phone_number IS 'as it was sent';
COMMENT ON COLUMN default_contents.recipient IS 'the same number normalised to E.164, so that it is unique however it is written';
COMMENT ON COLUMN default_contents.use_template IS NULL;
COMMENT ON COLUMN default_contents.is_sent IS NULL;
COMMENT ON COLUMN default_contents.company_id IS 'whose users send it; unique with the recipient';
COMMENT ON TABLE deliveries IS NULL;
COMMENT ON COLUMN deliveries.lease_id IS NULL;
COMMENT ON COLUMN deliveries.recipient IS NULL;
COMMENT ON COLUMN deliveries.provider_no IS NULL;
COMMENT ON COLUMN deliveries.error IS NULL;
COMMENT ON TABLE directory_version IS
    'the last transaction that changed companies, channels, countries, pools, routes, or what counts of senders to others; none: no '
    'row';
COMMENT ON COLUMN directory_version.is_only IS NULL;
COMMENT ON TABLE events IS NULL;
COMMENT ON COLUMN events.event IS NULL;
COMMENT ON COLUMN events.subject IS 'the setting or the sender';
COMMENT ON COLUMN events.detail IS NULL;
COMMENT ON TABLE fair_ranks IS NULL;
COMMENT ON COLUMN fair_ranks.start IS 'the rank of the first task that was queued last';
COMMENT ON COLUMN fair_ranks.finish IS 'the least rank of the next';
COMMENT ON TABLE idempotency_keys IS NULL;
COMMENT ON COLUMN idempotency_keys.operation IS NULL;
COMMENT ON COLUMN idempotency_keys.request_hash IS NULL;
COMMENT ON COLUMN idempotency_keys.response IS NULL;
COMMENT ON VIEW notification_standings IS NULL;
COMMENT ON COLUMN notification_standings.status IS NULL;
COMMENT ON COLUMN notification_standings.people IS NULL;
COMMENT ON COLUMN notification_standings.succeeded IS NULL;
COMMENT ON COLUMN notification_standings.retries IS NULL;
COMMENT ON TABLE notification_templates IS NULL;
COMMENT ON COLUMN notification_templates.biz_type IS NULL;
COMMENT ON COLUMN notification_templates.external_id IS NULL;
COMMENT ON COLUMN notification_templates.sign IS 'goes before the text where the notification has none; null: the sender''s';
COMMENT ON TABLE notifications IS NULL;
COMMENT ON COLUMN notifications.biz_type IS NULL;
COMMENT ON COLUMN notifications.biz_id IS NULL;
COMMENT ON COLUMN notifications.biz_task_id IS NULL;
COMMENT ON COLUMN notifications.dedup_key IS NULL;
COMMENT ON COLUMN notifications.next_run_at IS 'when its people are told, or told again; null: they will not be';
COMMENT ON COLUMN notifications.repeat_minutes IS NULL;
COMMENT ON COLUMN notifications.started_at IS 'of a node that may take too long: since when it has been worked on';
COMMENT ON COLUMN notifications.ended_as IS
    '1: set to success; 2: it could not be told; 3: cancelled; 4: ended abnormally; null: its tasks tell';
COMMENT ON COLUMN notifications.remark IS NULL;
COMMENT ON COLUMN notifications.operator IS NULL;
COMMENT ON COLUMN notifications.deleted_at IS NULL;
COMMENT ON COLUMN notifications.sign IS 'goes before the text; null: the template''s, else the sender''s';
COMMENT ON COLUMN notifications.replaced_at IS 'when its dedup key was given to a later one: its node was begun again';
COMMENT ON COLUMN notifications.expires_at IS 'not after; null: never';
COMMENT ON COLUMN notifications.own_payload IS
    'what it says beside its announcement, such as the number of an orbit; here a name counts that stands in both';
COMMENT ON TABLE pools IS
    'the tasks that one set of routes serves: those of a company, message type and country; with no company, the shared pool of a '
    'channel, for tasks that no route names';
COMMENT ON COLUMN pools.company_id IS NULL;
COMMENT ON COLUMN pools.message_type IS NULL;
COMMENT ON COLUMN pools.country_id IS 'null: every country that has no pool of its own';
COMMENT ON COLUMN pools.retired_at IS
    'when the last route of the pool was deleted; only the channel is kept, to move the tasks that still come back to it';
COMMENT ON COLUMN pools.unsettled_since IS
    'when the pool began to serve: since then tasks of it may wait in broader pools, from which a sweep moves them; null: none do';
COMMENT ON TABLE receipts IS NULL;
COMMENT ON COLUMN receipts.provider_no IS NULL;
COMMENT ON COLUMN receipts.recipient IS NULL;
COMMENT ON COLUMN receipts.state IS '0: on its way; 1: delivered; 2: undelivered';
COMMENT ON COLUMN receipts.code IS NULL;
COMMENT ON COLUMN receipts.matched_at IS NULL;
COMMENT ON COLUMN receipts.look_at IS 'when its message is looked for next; null: it was found, or is not looked for any more';
COMMENT ON TABLE receive_logs IS NULL;
COMMENT ON COLUMN receive_logs.task_id IS NULL;
COMMENT ON COLUMN receive_logs.phone_number IS NULL;
COMMENT ON COLUMN receive_logs.content IS NULL;
COMMENT ON COLUMN receive_logs.response_data IS NULL;
COMMENT ON COLUMN receive_logs.status_code IS NULL;
COMMENT ON COLUMN receive_logs.recipient IS 'of the task that this submission made; null if it made none';
COMMENT ON TABLE renderings IS NULL;
COMMENT ON COLUMN renderings.template_id IS NULL;
COMMENT ON COLUMN renderings.params IS NULL;
COMMENT ON COLUMN renderings.page IS NULL;
COMMENT ON COLUMN renderings.notification_id IS NULL;
COMMENT ON TABLE report_logs IS NULL;
COMMENT ON COLUMN report_logs.app_id IS NULL;
COMMENT ON COLUMN report_logs.lease_id IS NULL;
COMMENT ON COLUMN report_logs.status IS NULL;
COMMENT ON COLUMN report_logs.effect IS NULL;
COMMENT ON TABLE routes IS NULL;
COMMENT ON COLUMN routes.weight IS NULL;
COMMENT ON COLUMN routes.sort IS 'of the ready senders of a pool, only those of the largest sort are served';
COMMENT ON COLUMN routes.served IS 'tasks taken over weight: the sender of a pool that is furthest behind goes first';
COMMENT ON COLUMN routes.version IS NULL;
COMMENT ON COLUMN routes.next_turn IS 'when it is the turn of the pool again, in the same time; the past counts as now';
COMMENT ON TABLE send_logs IS NULL;
COMMENT ON COLUMN send_logs.app_id IS NULL;
COMMENT ON COLUMN send_logs.content IS NULL;
COMMENT ON COLUMN send_logs.attempt IS NULL;
COMMENT ON COLUMN send_logs.segments IS 'what the attempt took from the limits of its sender; null: its sender had nothing to count';
COMMENT ON TABLE sender_changes IS NULL;
COMMENT ON COLUMN sender_changes.sent IS NULL;
COMMENT ON COLUMN sender_changes.succeeded IS NULL;
COMMENT ON COLUMN sender_changes.failed IS NULL;
COMMENT ON COLUMN sender_changes.response_ms IS NULL;
COMMENT ON TABLE sender_ledger IS NULL;
COMMENT ON COLUMN sender_ledger.change IS NULL;
COMMENT ON COLUMN sender_ledger.balance IS 'after the change';
COMMENT ON COLUMN sender_ledger.lease_id IS
    'the attempt that took it, or to which it was given back; null for a top-up, a correction and thresholds';
COMMENT ON COLUMN sender_ledger.username IS NULL;
COMMENT ON COLUMN sender_ledger.low_warning IS 'where the thresholds were changed (change is 0): what they are since; else null';
COMMENT ON COLUMN sender_ledger.low_switch IS NULL;
COMMENT ON VIEW sender_standings IS NULL;
COMMENT ON COLUMN sender_standings.is_rested IS NULL;
COMMENT ON COLUMN sender_standings.has_quota IS NULL;
COMMENT ON COLUMN sender_standings.has_funds IS NULL;
COMMENT ON COLUMN sender_standings.day_share IS NULL;
COMMENT ON COLUMN sender_standings.response_ms IS NULL;
COMMENT ON COLUMN sender_standings.is_available IS NULL;
COMMENT ON COLUMN sender_standings.segments_left IS NULL;
COMMENT ON COLUMN sender_standings.room IS NULL;
COMMENT ON TABLE sender_states IS NULL;
COMMENT ON COLUMN sender_states.next_available_at IS 'ready from then on: an interval for each task of the last claim later';
COMMENT ON COLUMN sender_states.last_taken IS 'tasks of the last claim, from which a changed interval counts anew';
COMMENT ON COLUMN sender_states.last_taken_at IS NULL;
COMMENT ON COLUMN sender_states.balance IS NULL;
COMMENT ON COLUMN sender_states.minute_used IS 'segments in the minute in which last_taken_at lies; another minute has none used';
COMMENT ON COLUMN sender_states.hour_used IS NULL;
COMMENT ON COLUMN sender_states.day_used IS NULL;
COMMENT ON COLUMN sender_states.month_used IS NULL;
COMMENT ON COLUMN sender_states.seen_at IS NULL;
COMMENT ON COLUMN sender_states.sent_at IS 'when the last SUCCESS was reported';
COMMENT ON COLUMN sender_states.attempts IS 'tasks that it was ever given; how many of them were sent is succeeded';
COMMENT ON COLUMN sender_states.response_ms IS 'sum over succeeded and failed of the time from claim to report';
COMMENT ON COLUMN sender_states.shared_last_turn IS
    'last_turn of the shared pool, see routes; kept for a shared sender that also has routes';
COMMENT ON COLUMN sender_states.shared_next_turn IS NULL;
COMMENT ON COLUMN sender_states.openings IS 'how often the circuit breaker opened since a message last got through; 0: it is closed';
COMMENT ON COLUMN sender_states.rest_until IS 'the breaker is open until then, and half-open after; null: it is closed';
COMMENT ON COLUMN sender_states.rest_reason IS 'what the provider said when the breaker opened; null: it is closed';
COMMENT ON COLUMN sender_states.probe_until IS 'half-open: one worker tries one message until then; null: none does';
COMMENT ON COLUMN sender_states.granted IS 'sum of the top-ups and corrections of the balance; what the balance lacks of it was consumed';
COMMENT ON COLUMN sender_states.attempts_today IS 'tasks that it was given on attempts_on; none on another day';
COMMENT ON COLUMN sender_states.attempts_on IS 'a day of the sender''s time zone';
COMMENT ON TABLE sender_tokens IS NULL;
COMMENT ON COLUMN sender_tokens.token IS NULL;
COMMENT ON COLUMN sender_tokens.expires_at IS NULL;
COMMENT ON COLUMN sender_tokens.fetches IS 'how often it was leased to be fetched; the last of them may write the token';
COMMENT ON COLUMN sender_tokens.fetch_until IS 'one server fetches the token until then; null: none does';
COMMENT ON TABLE senders IS NULL;
COMMENT ON COLUMN senders.sender_no IS 'the app_id of an app';
COMMENT ON COLUMN senders.kind IS 'app: it polls; otherwise the driver that pushes to it';
COMMENT ON COLUMN senders.status IS NULL;
COMMENT ON COLUMN senders.sort IS 'of the ready senders of a shared pool, only those of the largest sort are served';
COMMENT ON COLUMN senders.is_shared IS 'whether it also serves what no route says anything of';
COMMENT ON COLUMN senders.interval_ms IS NULL;
COMMENT ON COLUMN senders.per_minute IS 'segments in a minute of its time zone; null: no limit';
COMMENT ON COLUMN senders.per_hour IS NULL;
COMMENT ON COLUMN senders.per_day IS NULL;
COMMENT ON COLUMN senders.per_month IS NULL;
COMMENT ON COLUMN senders.lease_seconds IS NULL;
COMMENT ON COLUMN senders.sign IS NULL;
COMMENT ON COLUMN senders.segment_size IS 'characters that its provider counts as one segment; null: by GSM 03.38';
COMMENT ON COLUMN senders.low_warning IS NULL;
COMMENT ON COLUMN senders.low_switch IS NULL;
COMMENT ON COLUMN senders.config IS NULL;
COMMENT ON COLUMN senders.has_balance IS NULL;
COMMENT ON COLUMN senders.is_paced IS 'whether a claim has anything to count for it, and so must lock its state';
COMMENT ON COLUMN senders.version IS NULL;
COMMENT ON COLUMN senders.on_unclear IS
    'an attempt of which nobody knows whether it went out: retry: is repeated when its lease has run out; fail: was the last';
COMMENT ON COLUMN senders.is_self_registered IS 'whether an app made it by polling; false also for those from before this column';
COMMENT ON TABLE settings IS NULL;
COMMENT ON TABLE subscribe_messages IS NULL;
COMMENT ON COLUMN subscribe_messages.business_id IS NULL;
COMMENT ON COLUMN subscribe_messages.receiver_user_id IS NULL;
COMMENT ON COLUMN subscribe_messages.template_id IS NULL;
COMMENT ON COLUMN subscribe_messages.task_id IS NULL;
COMMENT ON COLUMN subscribe_messages.sends IS NULL;
COMMENT ON COLUMN subscribe_messages.submitted_by IS 'the user whose message it is; empty: its task was gone when this column was added';
COMMENT ON TABLE task_count_changes IS NULL;
COMMENT ON COLUMN task_count_changes.pending_new IS NULL;
COMMENT ON COLUMN task_count_changes.pending_retry IS NULL;
COMMENT ON COLUMN task_count_changes.company_id IS 'whose tasks these are; no foreign key, which every change of tasks would lock';
COMMENT ON TABLE tasks IS NULL;
COMMENT ON COLUMN tasks.task_id IS NULL;
COMMENT ON COLUMN tasks.phone_number IS 'as it was sent';
COMMENT ON COLUMN tasks.recipient IS 'the same number normalised to E.164';
COMMENT ON COLUMN tasks.content IS NULL;
COMMENT ON COLUMN tasks.source IS NULL;
COMMENT ON COLUMN tasks.submitted_by IS 'the user that submitted it, who may look at it with the role submit';
COMMENT ON COLUMN tasks.dedup_key IS 'what the submitter calls the message: there is one task of a name';
COMMENT ON COLUMN tasks.retry_count IS NULL;
COMMENT ON COLUMN tasks.due_at IS NULL;
COMMENT ON COLUMN tasks.processing_app_id IS NULL;
COMMENT ON COLUMN tasks.lease_id IS
    'send_logs.id of the live lease, of the one that ran out unreported, or of the one that settled the task; null after a retry that '
    'was asked for';
COMMENT ON COLUMN tasks.lease_until IS NULL;
COMMENT ON COLUMN tasks.result IS NULL;
COMMENT ON COLUMN tasks.sent_at IS NULL;
COMMENT ON COLUMN tasks.reported_at IS NULL;
COMMENT ON COLUMN tasks.pool_id IS 'whose routes may take it; no foreign key, because every submission would lock the pool';
COMMENT ON COLUMN tasks.country_no IS 'as it was when the task was submitted; null: of no country that is known';
COMMENT ON COLUMN tasks.priority IS '0 to 9, the smallest first';
COMMENT ON COLUMN tasks.segments IS 'how many short messages the text takes, signature included';
COMMENT ON COLUMN tasks.sign IS NULL;
COMMENT ON COLUMN tasks.is_test IS NULL;
COMMENT ON COLUMN tasks.expect_send_time IS NULL;
COMMENT ON COLUMN tasks.expires_at IS NULL;
COMMENT ON COLUMN tasks.failed_app_id IS 'who failed last; another sender of a route is preferred';
COMMENT ON COLUMN tasks.lane IS
    '32 * priority + what comes behind what within it: 0, or the retry_count of a retry; null until the task is due and queued';
COMMENT ON COLUMN tasks.rank IS 'its turn within the lane, fixed when it is first queued, in the virtual time of fair_ranks';
COMMENT ON COLUMN tasks.rendering_id IS 'of a task of a notification, whose content is the beginning of it';
COMMENT ON COLUMN tasks.user_id IS 'of a task of a notification: whose address the recipient is';
COMMENT ON COLUMN tasks.delivery IS 'what the provider told after it was sent: 1: delivered; 2: undelivered';
COMMENT ON COLUMN tasks.delivery_code IS NULL;
COMMENT ON COLUMN tasks.delivered_at IS NULL;
COMMENT ON COLUMN tasks.on_unclear IS 'as senders.on_unclear, which it overrides; null: as the sender has it';
COMMENT ON TABLE templates IS NULL;
COMMENT ON COLUMN templates.send_type IS
    'scheduled: what it renders goes out at the next full interval of a setting, unless a time was asked for';
COMMENT ON COLUMN templates.companies IS 'whose submissions it may render, by company_no; none: everybody''s';
COMMENT ON TABLE user_addresses IS
    'Where users have proved their passwords. One row per user and address, written when a password is verified, at most once a day; '
    'rows older than 30 days count no more, and go when the user proves its password again.';
COMMENT ON COLUMN user_addresses.username IS 'no foreign key: the configured user stands in no table';
COMMENT ON TABLE users IS NULL;
COMMENT ON COLUMN users.role IS NULL;
COMMENT ON COLUMN users.app_id IS 'a send user with one can claim and report only as this app';
COMMENT ON COLUMN users.password_hash IS 'argon2id; null: only API keys';
COMMENT ON COLUMN users.company_id IS NULL;
COMMENT ON COLUMN users.top_priority IS 'the most urgent priority that a submission of this user may ask for';
COMMENT ON COLUMN users.version IS NULL;
COMMENT ON COLUMN users.has_company IS
    'whether its company binds it; false: company_id only says in whose name it submits, and a read user sees every company';
