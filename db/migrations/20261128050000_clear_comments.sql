-- migrate:up
-- Comments of tables, columns, views and functions, so that a reader understands each of them on the first reading. COMMENT locks its table against VACUUM and
-- against other changes of the table, until the migration has ended. It does not block statements that read or write rows.
COMMENT ON FUNCTION batch_segments_counted(of_batch bigint, sender_sign text, forbids_signs boolean, segment_size bigint, max_rows integer) IS
    'Counts the segments of the first max_rows valid rows of a batch: as they were submitted, and as a sender with the given signature, rule about signatures and segment size counts them. The result has one row for each country. country_no is empty for numbers of no known country. The row with country_no null contains the sums of all countries.';
COMMENT ON FUNCTION channels_waiting(since timestamp with time zone) IS
    'Returns the channels whose shared pool contains a task that became due at the given time or earlier.';
COMMENT ON FUNCTION dedup_key_owner(biz_task_id bigint, submitted_by text) IS
    'Returns the owner of the dedup_key of a notification within its company: business events, the service itself (system:...), or the callers (empty). Each owner has its own keys, so the same key of two owners names two notifications.';
COMMENT ON FUNCTION events_feed() IS
    'Trigger of events: stages the feed events of alerts and senders, if a listener to all companies exists. A sender counts as silent from the time at which its alert of the kind sender_silent fires, until this alert ends because the sender polled.';
COMMENT ON FUNCTION fact_outcome(success integer, failed integer, cancelled integer) IS
    'Returns the outcome of the tasks that a row of facts counts. The values are those of statistics_staged.outcome.';
COMMENT ON FUNCTION feed_is_heard(of_company bigint) IS
    'Returns whether the events of a company are recorded. of_company 0 means the events of the service itself.';
COMMENT ON FUNCTION first_id_since(of_table regclass, since timestamp with time zone) IS
    'Returns approximately the smallest id of the rows that were created at or after a time, for example of receipts or callbacks. The id is approximate, because created_at is the beginning of a transaction. Callers therefore also compare created_at.';
COMMENT ON FUNCTION fold_case(written text) IS
    'Returns a text in lower case, like strings.ToLower of Go. The result is the same in each locale. Compare such texts with COLLATE "C".';
COMMENT ON FUNCTION held_due_at() IS
    'Returns the due_at of a held task: a task whose batch is paused, or that a switch holds. It is the largest value that queue allows, so that no statement treats a held task as due.';
COMMENT ON FUNCTION is_due(at timestamp with time zone, longest_wait interval) IS
    'Returns whether a stored time has come. longest_wait is the longest time between the moment of storing and the stored time. If the stored time is further ahead, it was stored before the clock was set back, and also counts as come. One more minute is allowed, because transactions begin at different times.';
COMMENT ON FUNCTION lock_table(locked regclass) IS
    'Takes the lock of lock_table_try. Waits while another transaction holds this lock. The lock lasts until the end of the transaction.';
COMMENT ON FUNCTION lock_table_try(locked regclass) IS
    'Locks a table until the end of the transaction, and returns true. Returns false at once if another transaction holds this lock.';
COMMENT ON FUNCTION mirror_renamed_setting() IS
    'Trigger of settings: copies a change of a renamed setting to the row with its other name. So servers of version 1.0.0 and later servers read the same value. If a statement writes both names, the row with the present name counts. The function is dropped together with the rows of the former names.';
COMMENT ON FUNCTION note_changer() IS
    'Trigger: records the user who requested a change of a row, see postgres.As.';
COMMENT ON FUNCTION notifications_feed() IS
    'Trigger of notifications: stages an event if a notification has possibly ended, and the events of its company are recorded.';
COMMENT ON FUNCTION number_digits(number text) IS
    'Returns the digits of a phone number, as ASCII. It accepts any notation that internal/dispatch/phone reads. Statements use the digits to find candidates. internal/dispatch/phone then decides which number each candidate is.';
COMMENT ON FUNCTION pool_waits(of_pool bigint, since timestamp with time zone) IS
    'Returns whether a task of the pool became due at the given time or earlier. It checks only the tasks that senders take first.';
COMMENT ON FUNCTION queue_transactions() IS
    'Returns the open transactions that lock rows of queue, as claims do. A claim that began before a change of the directory can still lease tasks that the change holds. A claim that began after the change cannot.';
COMMENT ON FUNCTION sender_serves(of_sender bigint, of_company bigint) IS
    'Returns whether a company can name a sender for its tasks, and the sender can take these tasks. This is true if an active route of the company names the sender. It is also true if the sender is shared, no route names it, and the company uses shared senders. A sender that is off can still be named. A retired sender cannot.';
COMMENT ON FUNCTION sender_silences(silent_after interval, noted_apart interval) IS
    'Returns for each app whether it is silent. An app is silent if its last recorded poll is older than silent_after plus slack. slack is the longest delay with which polls of the app are recorded: zero if a route names the app; up to 20 seconds if tasks have waited in its shared pool for longer than silent_after; otherwise noted_apart. The sweep of internal/dispatch/sender records polls by the same rule.';
COMMENT ON FUNCTION sql_door_number(number text) IS
    'The former name of sql_inbox_number, for calls that run during an upgrade. The next version drops the function.';
COMMENT ON FUNCTION sql_door_outgoing() IS
    'The former name of sql_inbox_outgoing, for calls that run during an upgrade. The next version drops the function.';
COMMENT ON COLUMN users.app_id IS
    'for the role send: the only sender_no for which the user can claim and report; null: any sender_no';
COMMENT ON COLUMN users.password_hash IS
    'the argon2id hash of the password; null: the user has only API keys';
COMMENT ON COLUMN users.company_id IS
    'the company for which the user submits; 1 is the company named default';
COMMENT ON COLUMN users.version IS
    'incremented by each update. An update names the version that its caller has read, and is rejected if the version has changed since';
COMMENT ON COLUMN users.has_company IS
    'true: the user sees only this company. false: the user submits for company_id, but with the role read it sees every company';
COMMENT ON FUNCTION sql_door_put(caller users, of_id bigint, place integer, phone_number text, content text, dedup_key text, message_type text, priority integer, expect_send_time timestamp with time zone, expires_at timestamp with time zone, sign text, source text, test boolean, template_no text, params jsonb, language text) IS
    'The former name of sql_inbox_put, for calls that run during an upgrade. The next version drops the function.';
COMMENT ON FUNCTION sql_door_refuse(code text, field text, rule text, text_of_error text, place integer) IS
    'The former name of sql_inbox_refuse, for calls that run during an upgrade. The next version drops the function.';
COMMENT ON FUNCTION sql_door_segments(signed text) IS
    'The former name of sql_inbox_segments, for calls that run during an upgrade. The next version drops the function.';
COMMENT ON FUNCTION sql_door_setting(of_name text, otherwise bigint) IS
    'The former name of sql_inbox_setting, for calls that run during an upgrade. The next version drops the function.';
COMMENT ON FUNCTION sql_door_task_id(at timestamp with time zone, ordinal integer) IS
    'The former name of sql_inbox_task_id, for calls that run during an upgrade. The next version drops the function.';
COMMENT ON FUNCTION sql_door_text(message jsonb, field text, place integer) IS
    'The former name of sql_inbox_text, for calls that run during an upgrade. The next version drops the function.';
COMMENT ON FUNCTION sql_door_time(message jsonb, field text, place integer) IS
    'The former name of sql_inbox_time, for calls that run during an upgrade. The next version drops the function.';
COMMENT ON FUNCTION sql_door_user() IS
    'The former name of sql_inbox_user, for calls that run during an upgrade. The next version drops the function.';
COMMENT ON TABLE sql_inbox IS
    'A message that was submitted by SQL, until it is a task. lksms.enqueue inserts the row in the transaction of its caller. This transaction can be long, so the insert locks no row for which others wait. internal/transport/sqlinbox creates the task and deletes the row in one transaction. There are no foreign keys, because they would lock rows of companies.';
COMMENT ON COLUMN sql_inbox.task_id IS
    'the id of the future task, which the caller has received. A message that repeats a dedup key has an id that is never used';
COMMENT ON COLUMN sql_inbox.submitted_by IS
    'see messages.submitted_by';
COMMENT ON COLUMN sql_inbox.role_name IS
    'the session_user of the caller';
COMMENT ON COLUMN sql_inbox.request_id IS
    'sql- followed by the number of the transaction';
COMMENT ON COLUMN sql_inbox.message_type IS
    'see messages.message_type';
COMMENT ON COLUMN sql_inbox.priority IS
    'null: the default priority of the message type';
COMMENT ON COLUMN sql_inbox.created_at IS
    'the time of the submission. Its transaction committed later';
COMMENT ON COLUMN sql_inbox.tries IS
    'how often the database rejected the task of this message when only this task was created';
COMMENT ON COLUMN sql_inbox.due_at IS
    'the task is not created before this time. After a failed try, the time is later than created_at';
COMMENT ON FUNCTION sql_inbox_check_fields(given sql_inbox, content text, place integer) IS
    'Rejects a message with two fields that exclude each other, or without a field that another field requires. content is the text of the caller. given.content is null if the message uses a template.';
COMMENT ON FUNCTION sql_inbox_check_times(given sql_inbox, place integer) IS
    'Rejects times in the past, times that are too far ahead, and times outside of the range of the server.';
COMMENT ON FUNCTION sql_inbox_number(number text) IS
    'Removes the characters between the digits of a number, in the same way as package phone. A test compares the two.';
COMMENT ON FUNCTION sql_inbox_put(caller users, of_id bigint, place integer, phone_number text, content text, dedup_key text, message_type text, priority integer, expect_send_time timestamp with time zone, expires_at timestamp with time zone, sign text, source text, test boolean, template_no text, params jsonb, language text) IS
    'Checks a message like package queue, in the same order, and stores it in the inbox. Returns the id of its task. If the message repeats a dedup key, this is the id of the first task.';
COMMENT ON FUNCTION sql_inbox_refuse(code text, field text, rule text, text_of_error text, place integer) IS
    'Rejects a message with an error. The SQLSTATE is the kind of the error. The column of the error names the field, and the constraint names the rule of package fault. place is the position of the message in a set.';
COMMENT ON FUNCTION sql_inbox_segments(signed text) IS
    'Returns the number of segments of a text, like package segment. A test compares the two.';
COMMENT ON FUNCTION sql_inbox_setting(of_name text, otherwise bigint) IS
    'Returns a setting of the category sms. The default is that of package setting. A test compares the two.';
COMMENT ON FUNCTION sql_inbox_store(given sql_inbox, earlier text) IS
    'Stores a checked message in the inbox, and returns the id of its task. If the message repeats a dedup key, this is the id of the first task. A caller that already knows the first task passes it as earlier.';
COMMENT ON FUNCTION sql_inbox_task_id(at timestamp with time zone, ordinal integer) IS
    'Returns a task id in the form of package queue: the day and a ULID. The ids ascend with the microsecond, and within a microsecond with ordinal. ordinal is the position in a set, below 1024.';
COMMENT ON FUNCTION sql_inbox_text(message jsonb, field text, place integer) IS
    'Returns a text member of a message of a set; null if the member is missing. Rejects the message if the member is not a text.';
COMMENT ON FUNCTION sql_inbox_time(message jsonb, field text, place integer) IS
    'Returns a member of a message of a set as a time; null if the member is missing. Rejects the message if the member is not a time.';
COMMENT ON FUNCTION sql_inbox_user() IS
    'Returns the user for whom the session submits. It uses session_user: in a function that runs with the rights of its owner, current_user is the owner.';
COMMENT ON TABLE queue IS
    'A task that waits for a sender, or that a sender holds. Written by internal/dispatch/queue: inserted together with its message, updated when the task is leased or waits again, and deleted when the task ends. It repeats the columns of the message that a claim and a report need, so that claims and reports do not read messages. There are no foreign keys, because each change would lock rows of other tables.';
COMMENT ON COLUMN queue.lane IS
    'the first part of the order of the tasks in a pool: 32 * priority for a new task, 32 * priority + retry_count for a retry. A task that has waited too long is queued in a smaller lane. null: the task is not queued yet';
COMMENT ON COLUMN queue.rank IS
    'the order of the tasks within a lane, which divides the pool fairly between companies (start-time fair queueing). A rank is valid only in the pool and priority in which it was assigned. A claim can swap the ranks of two tasks of a company, see flow_rank. null: no rank is assigned yet';
COMMENT ON COLUMN queue.due_at IS
    'the task can be claimed from this time on. If the time is held_due_at(), the task is held';
COMMENT ON COLUMN queue.updated_at IS
    'the time of the last change of state. For a leased task, this is the time of the claim';
COMMENT ON COLUMN queue.troubles IS
    'number of leases that were given back because their sender could not send the message';
COMMENT ON COLUMN queue.failed_app_id IS
    'sender_no of the last sender that failed with the task; null: no sender failed. Claims prefer other senders for the task';
COMMENT ON COLUMN queue.processing_app_id IS
    'sender_no of the sender that holds the task; null: no sender holds it';
COMMENT ON COLUMN queue.lease_id IS
    'the current lease. After a lease expired and was taken back, lease_id remains this lease, and failed_app_id is its sender. null: no lease, or its sender ended the lease';
COMMENT ON COLUMN queue.lease_until IS
    'the time at which the lease expires; the task is then PROCESSING. null: the task is PENDING';
COMMENT ON COLUMN queue.lease_segments IS
    'the segments that the lease costs; null: the sender has no limits, and the lease costs as many segments as the column segments';
COMMENT ON COLUMN queue.lease_sign IS
    'the signature that the sender adds, because the message has no signature; null: the sender adds none';
COMMENT ON COLUMN queue.lease_limit IS
    'the number of tasks that the claim asked for';
COMMENT ON COLUMN queue.entered_at IS
    'the time from which the waiting time of the task counts: the due_at of its submission. For a requeued task, this is the time of the requeue. For a task that was held before its first attempt, it is the due_at after its release. null: the task was submitted before this column existed';
COMMENT ON COLUMN queue.was_claimed IS
    'true: the task had a lease before, even if retry_count is 0. Its lease was released, or the task had ended and was requeued';
COMMENT ON COLUMN queue.traceparent IS
    'see messages.traceparent';
COMMENT ON COLUMN queue.batch_id IS
    'see messages.batch_id';
COMMENT ON COLUMN queue.is_test IS
    'see messages.is_test; false for tasks that are older than this column';
COMMENT ON COLUMN queue.contact_values IS
    'see messages.contact_values';
COMMENT ON COLUMN queue.start_until IS
    'equal to lease_until: the sender has not started the lease, and must start it before this time. Any other value, or null: the lease is started, or needs no start. A server that does not know this column leaves old values in it, but they never equal lease_until';
COMMENT ON COLUMN queue.due_when_resumed IS
    'the due_at that a held task gets when it is released. If this time has passed by then, or is null, the task is due at once. A server that does not know this column leaves old values in it';
COMMENT ON COLUMN queue.submitted_by IS
    'see messages.submitted_by; null: a server that did not know this column stored the task';
COMMENT ON COLUMN queue.flow_rank IS
    'the order of the tasks of one company within a pool and lane, in the unit of rank, and never larger than rank. A claim finds a task by its rank, and then takes the task of the same company with the smallest flow_rank instead. null: equal to rank. A server that does not know this column leaves old values in it';
COMMENT ON COLUMN queue.lease_sign_mode IS
    'senders.sign_mode at the time of the claim; null: in_text';
COMMENT ON FUNCTION task_fits(task queue, sender_no text, min_lease interval, from_segments bigint, rival_room bigint, retry_max_wait interval) IS
    'Returns whether a task can be offered to a sender. The task must not expire within min_lease, and must have at least from_segments segments. If the last attempt of the task failed with this sender, and the task has at most rival_room segments, the task is reserved for other senders. It is then offered to this sender only after it has been due for retry_max_wait (null: never).';
COMMENT ON FUNCTION task_flow(batch_id bigint, submitted_by text) IS
    'Returns the flow of a task within its company: the batch of the task. A task without a batch belongs to the flow of its submitter.';
COMMENT ON FUNCTION task_flow_start(of_pool bigint, of_priority smallint, of_company bigint, of_flow text, gap double precision) IS
    'Returns the smallest flow_rank that a new task of a flow can receive. It is greater than every flow_rank in the flow, and not before the first waiting task of the company. gap is 1 / weight of the company. A null flow has no tasks.';
COMMENT ON FUNCTION task_submitter(of_task text) IS
    'Returns the submitter of a task, from messages. Statements call it for a task that was stored by a server that did not know queue.submitted_by.';
COMMENT ON FUNCTION task_switches(of_pool bigint, of_company bigint, of_country text, of_submitter text) IS
    'Returns the switches that hold a task of a pool, company, country (null: unknown) and submitter. Each row has the kind and the name of a switch that is off. If nothing holds the task, the function returns no row. The kind shared_senders means: no active route of the company serves the task, and the company does not use shared senders.';
COMMENT ON TABLE messages IS
    'A task as it was submitted, with its submission. Written once by internal/dispatch/queue; only the erasure of a person changes it. Partitioned by task_id, which ascends with time. The state of the task is in queue until the task ends, and then in report_logs. The view tasks shows both. There are no foreign keys, because each submission would lock rows of other tables.';
COMMENT ON COLUMN messages.recipient IS
    'on the channel sms the phone number in E.164, on other channels the address. empty: the person has no address, or was erased';
COMMENT ON COLUMN messages.content IS
    'the text without signature. For a task with a rendering, it is only the beginning of the text';
COMMENT ON COLUMN messages.dedup_key IS
    'the submitter''s name for the message, see dedup_keys; null: no key';
COMMENT ON COLUMN messages.segments IS
    'number of segments of the text with its signature, counted at the submission';
COMMENT ON COLUMN messages.is_test IS
    'true: the submitter marked the message as a test. Statistics count tests separately, and a setting can prevent the sending of tests';
COMMENT ON COLUMN messages.expires_at IS
    'the message is not sent after this time; null: it never expires. The withdrawal of a notification does not change this time: it sets an earlier time in queue';
COMMENT ON COLUMN messages.on_unclear IS
    'what happens if it is unknown whether the message was sent, see senders.on_unclear; null: the value of the sender';
COMMENT ON COLUMN messages.submission_id IS
    'the id of the submission in receive_logs';
COMMENT ON COLUMN messages.request_data IS
    'the unchanged request. For a message from a template, the server adds the member template: the number, version and language of the text';
COMMENT ON COLUMN messages.batch_id IS
    'the batch of the task; null: no batch. There is no foreign key, because each submission would lock the batch';
COMMENT ON COLUMN messages.contact_values IS
    'the values of this person for the placeholders ${contact.…}. The rendering is then a template, which is filled with its params and these values. null: the text of the rendering is complete';
COMMENT ON TABLE report_logs IS
    'An event of a task: the end of a lease or of the task, a report that changed nothing, a receipt of a provider, or a requeue. Written by internal/dispatch/queue. A requeue clears the outcome of the row that ended the task. The erasure of a person clears its texts. Nothing else changes rows. Partitioned like messages, so that all data of a task is dropped together.';
COMMENT ON COLUMN report_logs.company_id IS
    'see messages.company_id';
COMMENT ON COLUMN report_logs.lease_id IS
    'the lease that the event ended, or that the report named; null: no lease';
COMMENT ON COLUMN report_logs.event IS
    'the kind of the event. past_receipt: a receipt of an attempt from before the task was requeued. simulated: a test message that no sender received. The other names explain themselves';
COMMENT ON COLUMN report_logs.effect IS
    'success, failed: ended the task. retry: the task waits for a retry. exhausted: FAILED, because no retry is left. unclear: FAILED, because it is unknown whether the message was sent. untried, troubled: the lease was given back. ignored, refused: changed nothing. cancelled, expired: ended the task. delivered, undelivered: a receipt. requeued: the task waits again like a new task';
COMMENT ON COLUMN report_logs.error_message IS
    'the text of a report or of a release. For a requeue, it is the remark of the user. null: no text';
COMMENT ON COLUMN report_logs.request_data IS
    'the unchanged report. For a cancellation or a requeue, it is the user: {"by": ...}. null: no data';
COMMENT ON COLUMN report_logs.outcome IS
    'the state in which this event ended the task: 2 SUCCESS, 3 FAILED, 4 CANCELLED; null: the event did not end the task, or the task was requeued since';
COMMENT ON COLUMN report_logs.result IS
    'the outcome as a text for operators. For a receipt, it is the status code of the provider. null: the event did not end the task';
COMMENT ON COLUMN report_logs.retry_count IS
    'number of retries before this event; null: the event changed nothing';
COMMENT ON COLUMN report_logs.due_at IS
    'the time from which the task could be claimed; null: the event changed nothing, or the row is older than this column';
COMMENT ON COLUMN report_logs.leased_at IS
    'the beginning of the lease that the event ended; null: the event ended no lease, or an earlier row ended it. The columns lease_... describe the same lease';
COMMENT ON COLUMN report_logs.lease_segments IS
    'see queue.lease_segments';
COMMENT ON COLUMN report_logs.lease_sign IS
    'see queue.lease_sign';
COMMENT ON COLUMN report_logs.lease_limit IS
    'see queue.lease_limit';
COMMENT ON COLUMN report_logs.pool_id IS
    'the pool of the task. For a receipt, it is the pool of the submission. null: the event changed nothing, or the row is older than this column';
COMMENT ON COLUMN report_logs.message_type IS
    'see messages.message_type; null in the same cases as pool_id';
COMMENT ON COLUMN report_logs.segments IS
    'see messages.segments; null in the same cases as pool_id';
COMMENT ON COLUMN report_logs.entered_at IS
    'see queue.entered_at; also null if the task was never in the queue, and for a receipt';
COMMENT ON COLUMN report_logs.batch_id IS
    'see messages.batch_id; null: no batch, or the row is older than this column';
COMMENT ON COLUMN report_logs.country_no IS
    'see messages.country_no; null: no country, or the row is older than this column';
COMMENT ON COLUMN report_logs.is_test IS
    'see messages.is_test; false for rows that are older than this column';
COMMENT ON COLUMN report_logs.lease_sign_mode IS
    'see queue.lease_sign_mode';
COMMENT ON VIEW tasks IS
    'The state of each task. The view joins messages (submitted data), queue (waiting and leased tasks) and report_logs (outcomes). Read it by task_id or rendering_id, because other columns have no index. For a task that has ended, pool_id and expires_at are the values of its submission, and failed_app_id is null. due_at is null while the task is held, and for a task that ended while it was held.';
COMMENT ON FUNCTION tasks_between(from_id text, to_id text) IS
    'Returns the rows of the view tasks from from_id to to_id, including both. It opens only the partitions of this range. The function and the view have the same definition in two forms: change both together.';
COMMENT ON FUNCTION unsigned_text(content text, sign text) IS
    'Removes the signature sign from the beginning of a text, also if it is repeated there. segment.Unsigned of internal/dispatch/segment does the same.';
COMMENT ON FUNCTION wait_bucket(wait interval) IS
    'Returns the bucket of a duration in a histogram, as one byte; null for null. Bucket 0 contains durations up to 1 ms. Bucket n contains durations above 1.1^(n-1) ms and up to 1.1^n ms. Bucket 255 also contains all longer durations (more than 416 days). internal/insight/statistics uses the same bounds.';
COMMENT ON VIEW lksms.outgoing IS
    'Another form of lksms.enqueue: an INSERT into the view calls the function, and RETURNING task_id returns its result. The view has no rows.';
COMMENT ON COLUMN alert_deliveries.told_at IS
    'the time at which the receiver was last notified of the firing alert: a program was called, or the messages to people were queued; null: not yet';
COMMENT ON COLUMN alert_deliveries.end_told_at IS
    'the time at which the receiver was notified that the alert is resolved; null: not yet, or the receiver was never notified of the firing alert';
COMMENT ON COLUMN alert_deliveries.tries IS
    'number of tries with a known outcome. The number is part of the dedup key of the next try';
COMMENT ON COLUMN alert_deliveries.next_at IS
    'the receiver is not notified again before this time';
COMMENT ON COLUMN alert_deliveries.awaits IS
    'the notifications about the firing alert that can still send a message. empty: no such notification is left. null: no messages are awaited, and told_at is the time of the delivery';
COMMENT ON COLUMN alert_deliveries.sent_at IS
    'the time at which the first message about the firing alert was sent, since the last notification; null: no message was sent';
COMMENT ON COLUMN alert_deliveries.end_awaits IS
    'like awaits, for the resolved alert';
COMMENT ON COLUMN alert_deliveries.end_sent_at IS
    'like sent_at, for the resolved alert';
COMMENT ON COLUMN alert_deliveries.escalate_at IS
    'the time at which the delivery escalates, unless a message is sent before; null: it does not escalate';
COMMENT ON COLUMN alert_deliveries.escalated_from IS
    'the receiver whose delivery escalated to this delivery; null: the rule names the receiver. This delivery does not escalate further. There is no foreign key, as for receiver_id';
COMMENT ON TABLE alert_receiver_states IS
    'The result of the last calls of a receiver of the kind alertmanager. Each such receiver has one row. Written by internal/insight/alert. The columns are not in alert_receivers, because administrators do not change them.';
COMMENT ON COLUMN alert_receiver_states.next_call_at IS
    'the receiver is not called before this time, because its last call failed, or because a server is calling it now';
COMMENT ON COLUMN alert_receivers.kind IS
    'notification: users are notified through channels. alertmanager: a program at url is called, which has the API of Alertmanager';
COMMENT ON COLUMN alert_receivers.channels IS
    'the channels through which users are notified. There are no foreign keys: if a channel was deleted, each delivery has an error, but the other channels are still used';
COMMENT ON COLUMN alert_receivers.escalate_seconds IS
    'seconds after which an alert escalates if no message about it was sent to the receiver; 0: never';
COMMENT ON COLUMN alert_rules.threshold IS
    'the unit and the direction depend on the kind. null for wait_time: the setting of the level of the rule. null for balance_low: the low_warning of each sender. pool_unserved and provider_trouble have no threshold';
COMMENT ON COLUMN alert_rules.window_seconds IS
    'length of the window in which the condition is measured; null: the kind has no window';
COMMENT ON COLUMN alert_rules.for_seconds IS
    'seconds for which the condition must be true before the alert fires';
COMMENT ON COLUMN alert_rules.resolve_seconds IS
    'seconds for which the condition must be false before the alert is resolved';
COMMENT ON COLUMN alerts.subject IS
    'a sender_no, a channel, a pool or a file system, depending on the kind of the rule';
COMMENT ON COLUMN alerts.value IS
    'the measured value at seen_at';
COMMENT ON COLUMN alerts.threshold IS
    'the threshold with which value was compared; null: the kind has no threshold';
COMMENT ON COLUMN alerts.started_at IS
    'the time at which the condition became true';
COMMENT ON COLUMN alerts.seen_at IS
    'the last time at which the condition was true';
COMMENT ON COLUMN alerts.fired_at IS
    'the time at which the alert fired; null: the alert is pending, because the condition has not been true for long enough. A pending alert is deleted when its condition becomes false';
COMMENT ON COLUMN alerts.cleared_at IS
    'the time at which the condition became false; null: it is true';
COMMENT ON COLUMN alerts.only_own_channel IS
    'true: people can be notified only through the channel that the alert is about. For an alert about all channels: only one channel is left to notify people';
COMMENT ON COLUMN announcements.tag IS
    'the tag whose contacts are notified; user_ids is then empty. null: user_ids names the people';
COMMENT ON COLUMN audit.actor IS
    'the name of the user who requested the change. For the command line: cli: and the name of the user of the operating system. null: the service itself, or an SQL statement, changed the row';
COMMENT ON COLUMN audit.entity_key IS
    'name of the entity in the API. The parts of a name are joined by a slash';
COMMENT ON COLUMN audit.company_no IS
    'the company of the entity; null: the entity belongs to no company';
COMMENT ON COLUMN audit.before IS
    'the old values: of the changed columns for a change, of all columns for a deletion; null: the entity is new';
COMMENT ON COLUMN audit.after IS
    'the new values: of the changed columns for a change, of all columns for a creation; null: the entity was deleted';
COMMENT ON TABLE batch_counts IS
    'The numbers of tasks of one batch and sender in each state. They do not include the facts that are not folded yet. Written by internal/audience/batch, which consumes facts.';
COMMENT ON COLUMN batch_counts.sender_no IS
    'empty: tasks of no sender';
COMMENT ON COLUMN batch_counts.segments IS
    'segments of the leases that were reported SUCCESS';
COMMENT ON COLUMN batch_rows.batch_id IS
    'There is no foreign key, because its check took two thirds of the time when a million rows were added. Instead, statements lock the batch before they add or delete rows';
COMMENT ON COLUMN batch_rows.row_no IS
    'the number of the row in the list, as a spreadsheet program shows it. For a batch of tags, it is the position of the contact';
COMMENT ON COLUMN batch_rows.content IS
    'the text without signature; on a channel other than sms only its beginning; empty: the text could not be rendered';
COMMENT ON COLUMN batch_rows.fault IS
    'the field, the rule that the field violates, and the limit of the rule; null: code is the whole reason';
COMMENT ON COLUMN batch_rows.contact_values IS
    'the values of the contact for the placeholders of the rendering; null: no values are needed';
COMMENT ON TABLE batch_rows_default IS
    'Rows of batches that are older than the partitions of batch_rows.';
COMMENT ON TABLE facts IS
    'Counts of the changes that one statement made to tasks of the same company, pool, type, country, batch and sender. The sender holds, held or reported these tasks; or no sender does. Tests are counted separately. Written by triggers of queue and report_logs only. internal/insight/history deletes the rows within seconds, and adds them to the totals of all consumers in the same transaction. Until then, readers add the rows to these totals. No cursor is needed: the deletion of a row consumes the row exactly once. It does not matter in which order transactions commit, or whether a dump is restored into another cluster.';
COMMENT ON COLUMN facts.at IS
    'the time of the latest change that the row counts. This time is leased_at for leases, and created_at for reports';
COMMENT ON COLUMN facts.response_ms IS
    'sum of the milliseconds from claim to report, over all reports of the row. For an expired lease, the time counts from the recovery';
COMMENT ON COLUMN facts.sender_no IS
    'null: no sender. There is no foreign key, because each claim would lock the sender, and because tasks that were inserted by hand can have any text in app_id';
COMMENT ON COLUMN facts.pool_id IS
    'the pool in queue or report_logs; null: report_logs has no pool. pool_channels contains the channel of the pool';
COMMENT ON COLUMN facts.message_type IS
    'see messages.message_type; null: report_logs has no message type';
COMMENT ON COLUMN facts.segments IS
    'segments of the leases that were reported SUCCESS';
COMMENT ON COLUMN facts.waits IS
    'one byte for each task that was claimed for the first time, in any order: wait_bucket of the time from entered_at to the claim; null: no such task';
COMMENT ON COLUMN facts.durations IS
    'one byte for each task that became SUCCESS or FAILED, in any order: wait_bucket of the time from entered_at to this end; null: no such task';
COMMENT ON COLUMN facts.batch_id IS
    'see messages.batch_id; null: no batch';
COMMENT ON COLUMN facts.country_no IS
    'see messages.country_no; null: no country';
COMMENT ON COLUMN facts.is_test IS
    'see messages.is_test';
COMMENT ON COLUMN facts.accepted_at IS
    'only for receipts of delivered messages: the minute in which their sender reported SUCCESS. null: all other rows, or no report of this sender ended the task';
COMMENT ON VIEW batch_totals IS
    'The exact numbers of tasks of each batch and sender: batch_counts plus the facts that are not folded yet. Both are read in one snapshot.';
COMMENT ON COLUMN batches.priority IS
    'see messages.priority; null: the priority of the message type';
COMMENT ON COLUMN batches.upload_id IS
    'the uploaded list; null: the list was checked, or the rows come from a tag';
COMMENT ON COLUMN batches.tag IS
    'the tag whose contacts are the rows; empty: the contacts are selected by tags_all, tags_any and tags_none; null: an uploaded list';
COMMENT ON COLUMN batches.phone_column IS
    'the column of the list that contains the addresses';
COMMENT ON COLUMN batches.template_no IS
    'the template that content comes from; null: the request contained content';
COMMENT ON COLUMN batches.is_deferred IS
    'true: the template requires a start at a full interval. When the batch is confirmed, its time is set to the next full interval';
COMMENT ON COLUMN batches.is_confirmed IS
    'true: the batch starts when its check has ended. false: nothing is sent';
COMMENT ON COLUMN batches.confirmed_by IS
    'the user who confirmed the batch; null: not confirmed, or confirmed by its request (auto_confirm)';
COMMENT ON COLUMN batches.is_held IS
    'true: tasks of the batch are possibly held, because the batch is paused, or was paused before';
COMMENT ON COLUMN batches.is_settled IS
    'true: sweeps have nothing to do for the batch. It waits for its confirmation, or it has ended and none of its tasks waits or is leased';
COMMENT ON COLUMN batches.is_read IS
    'for a batch of a tag: true: the contacts were read again at the start of the batch, so the rows are final';
COMMENT ON COLUMN batches.segments IS
    'segments of the valid rows';
COMMENT ON COLUMN batches.fed_row IS
    'the last row that became a task or was rejected at its submission. The rows up to this row are not read again';
COMMENT ON COLUMN batches.fault IS
    'the reason why the server cancelled the batch, in the form of batch_rows.fault; null: the server did not cancel it';
COMMENT ON COLUMN batches.changed_by IS
    'the user who last confirmed, paused, resumed or cancelled the batch; null: no user, or the batch is older than this column. There is no foreign key, as for submitted_by';
COMMENT ON COLUMN batches.sign_column IS
    'the column of the list that contains the signatures of the rows; null: every row has the signature of the batch';
COMMENT ON COLUMN batches.by_country IS
    'the valid rows and their segments by country, when the check ended: [{"country_no", "rows", "segments", "unsigned", "by_sender"}]. null: the check has not ended. by_sender contains the segments as senders count them that count differently: [{"sign", "forbids_signs", "segment_size", "segments"}]. by_sender is an estimate from the first 1,000 rows of the batch. It uses the rows to the same country, or all these rows if none is to this country';
COMMENT ON COLUMN batches.subject IS
    'the title with its placeholders; null: an SMS batch, or no title';
COMMENT ON COLUMN batches.biz_type IS
    'the business type of the notification template from which the text comes; null: the text comes from elsewhere';
COMMENT ON COLUMN batches.rendering_id IS
    'the common text of all rows; null: an SMS batch, whose texts are in batch_rows';
COMMENT ON COLUMN batches.encoding IS
    'the encoding of the list; null: a workbook, a tag, or an unknown encoding';
COMMENT ON COLUMN batches.is_encoding_doubtful IS
    'true: the encoding was guessed, but the text could also be Latin letters in another encoding (internal/audience/sheet)';
COMMENT ON COLUMN business_ends.awaits_start IS
    'true: the end was reported before the start. The next start without a time belongs to this end';
COMMENT ON COLUMN business_ends.recorded_at IS
    'the time at which this row was stored. ended_at is the time of the caller, which can be much earlier';
COMMENT ON TABLE business_locks IS
    'A lock that orders the business events of tasks. A transaction that processes an event of a task locks the row whose slot is the hash of the task modulo 256. So two transactions never process events of the same task at once. The 256 rows never change.';
COMMENT ON COLUMN callbacks.left_out IS
    'number of items that could not be read, while other items of the body could';
COMMENT ON TABLE channel_countries IS
    'A country that is on or off for a channel. If at least one country is on, the channel serves only the countries that are on. Otherwise channels.any_country decides. Written by internal/dispatch/directory.';
COMMENT ON COLUMN channel_countries.status IS
    'on or off. off: tasks of the channel to the country are held';
COMMENT ON COLUMN channels.signature_required IS
    'true: a message without a signature is rejected';
COMMENT ON COLUMN channels.version IS
    'incremented by each update. An update names the version that its caller has read, and is rejected if the version has changed since';
COMMENT ON COLUMN channels.retry_minutes IS
    'for driven senders: the minutes to wait before each retry. The length of the array is the number of retries. null: the configuration of the server';
COMMENT ON COLUMN channels.status IS
    'on or off. off: tasks of the channel are held';
COMMENT ON COLUMN channels.any_country IS
    'true: the channel serves every country that is not off in channel_countries. The value is used only while no country there is on';
COMMENT ON COLUMN companies.weight IS
    'share of the service, compared with the weights of other companies with waiting tasks';
COMMENT ON COLUMN companies.version IS
    'incremented by each update. An update names the version that its caller has read, and is rejected if the version has changed since';
COMMENT ON COLUMN companies.status IS
    'on or off. off: tasks of the company are held, and the company cannot submit';
COMMENT ON COLUMN companies.any_country IS
    'true: the company can send to every country that is not off in company_countries. The value is used only while no country there is on';
COMMENT ON COLUMN companies.uses_shared_senders IS
    'true: shared senders can send the tasks that no active route of the company serves. false: these tasks are held';
COMMENT ON COLUMN companies.default_region IS
    'ISO 3166-1 code of the region of numbers without a country code. empty: such numbers are rejected, except mobile numbers of mainland China';
COMMENT ON TABLE company_countries IS
    'A country that is on or off for a company. If at least one country is on, the company can send only to the countries that are on. Otherwise companies.any_country decides. Written by internal/dispatch/directory.';
COMMENT ON COLUMN company_countries.status IS
    'on or off. off: tasks of the company to the country are held';
COMMENT ON TABLE company_notification_templates IS
    'The title and text of a business type on a channel, for one company. It replaces the row in notification_templates. Written by internal/audience/notification.';
COMMENT ON COLUMN company_notification_templates.external_id IS
    'the template of the provider; empty: no template';
COMMENT ON COLUMN company_notification_templates.sign IS
    'the signature of notifications that have no signature of their own; null: the signature of the sender';
COMMENT ON TABLE contact_counts IS
    'The number of contacts of a company. A company that never had contacts has no row. Written by triggers of contacts. internal/audience/contact locks the row before it changes contacts or tags of the company, so that only one transaction at a time changes them.';
COMMENT ON TABLE contact_import_errors IS
    'A row of an imported list that was not stored. Each import keeps only the first 10,000 such rows. Written by internal/audience/contact in the transaction of the portion that contains the row. It does not contain the values of the row.';
COMMENT ON COLUMN contact_import_errors.failure IS
    'the first error of the row, as JSON of fault.Field';
COMMENT ON TABLE contact_imports IS
    'An uploaded list of contacts, and the progress of storing its rows. Written by internal/audience/contact. One transaction stores a portion of rows and the new counts, so that any server can continue after row_no.';
COMMENT ON COLUMN contact_imports.failure IS
    'the reason why the rest of the list could not be read, as JSON of fault.Field; null: no error';
COMMENT ON COLUMN contacts.user_id IS
    'the id of the person in the systems of the company. It does not refer to users';
COMMENT ON COLUMN contacts.phone IS
    'the address on the channel sms; null: no address';
COMMENT ON COLUMN contacts.dingtalk_name IS
    'the address on the channel dingtalk; null: no address';
COMMENT ON COLUMN contacts.wechat_openid IS
    'the address on the channel wechat; null: no address';
COMMENT ON COLUMN contacts.email IS
    'the address on the channel email; null: no address';
COMMENT ON COLUMN contacts.attributes IS
    'values for the placeholders of templates, by name';
COMMENT ON COLUMN countries.dial_prefix IS
    'the prefix without the +. If several prefixes match a number, the longest counts';
COMMENT ON COLUMN countries.signature_required IS
    'true: a message without a signature is rejected';
COMMENT ON COLUMN countries.version IS
    'incremented by each update. An update names the version that its caller has read, and is rejected if the version has changed since';
COMMENT ON COLUMN countries.region IS
    'ISO 3166-1 code: only the numbers of this region belong to the country; null: all numbers with the prefix';
COMMENT ON COLUMN countries.status IS
    'on or off. off: tasks to the country are held';
COMMENT ON TABLE credentials_version IS
    'One row: the number of the last transaction that changed users or API keys. Written by triggers of these tables. Servers compare it with the number of the credentials in their memory. The row is missing until the first change.';
COMMENT ON COLUMN credentials_version.is_only IS
    'always true. As the primary key, it allows only one row';
COMMENT ON TABLE daily_totals IS
    'The totals of a sender, a company and a day, for messages of one type to one country. The day is in the time zone of the setting monitoring.time_zone. Tests have their own rows: companies do not see tests, but a provider counts them. Written only by internal/insight/reconcile, in the transaction that deletes the facts. The rows are kept for ever.';
COMMENT ON COLUMN daily_totals.message_type IS
    'see messages.message_type; empty: unknown';
COMMENT ON COLUMN daily_totals.country_no IS
    'see messages.country_no; empty: no country, for example on other channels than sms';
COMMENT ON COLUMN daily_totals.delivered IS
    'receipts of delivered messages, counted on the day on which the message was accepted';
COMMENT ON COLUMN daily_totals.cost IS
    'price of the segments, in 1/10000 of the currency. The price is that of the sender at the time of counting';
COMMENT ON TABLE dedup_keys IS
    'A dedup_key of a submitter, and the task that it names. Written by internal/dispatch/queue with the message. It is kept when the message is dropped, for the time of the setting history.dedup_keep_days.';
COMMENT ON COLUMN dedup_keys.made_on IS
    'the day (UTC) of the submission. For a key that is older than this column, it is the day of the upgrade';
COMMENT ON TABLE default_contents IS
    'The text that is sent to a phone number when a submission has no text. It is sent once. Written by internal/dispatch/template.';
COMMENT ON COLUMN default_contents.recipient IS
    'the number in E.164, so that the number is unique whatever its notation';
COMMENT ON COLUMN default_contents.use_template IS
    'true: the active template is rendered with the content as its parameters';
COMMENT ON COLUMN default_contents.is_sent IS
    'true: a submission has used the content. An administrator can reset it';
COMMENT ON COLUMN default_contents.company_id IS
    'the company whose users send the content. A recipient is unique in the company';
COMMENT ON TABLE deleted_tags IS
    'A deleted tag that possibly still has rows in tag_contacts. A trigger of tags adds the row. internal/audience/contact deletes it after the rows in tag_contacts.';
COMMENT ON TABLE deliveries IS
    'An attempt to send a task through a provider: the number that the provider gave to the message, or the reason why the outcome is unclear. Written by internal/dispatch/queue. The erasure of a person clears its texts. There are no foreign keys, because each insert would lock rows of other tables.';
COMMENT ON COLUMN deliveries.recipient IS
    'the recipient of the task. Receipts are matched by it';
COMMENT ON TABLE directory_version IS
    'One row: the number of the last transaction that changed the directory: companies, channels, countries, pools, routes, or a column of senders that concerns others. Written by triggers of these tables. Servers compare it with the number of the directory in their memory. The row is missing until the first change.';
COMMENT ON COLUMN directory_version.is_only IS
    'always true. As the primary key, it allows only one row';
COMMENT ON COLUMN notification_templates.biz_type IS
    'see notifications.biz_type; 32767 is the type of alerts';
COMMENT ON COLUMN notification_templates.external_id IS
    'the template of the provider; empty: no template';
COMMENT ON COLUMN notification_templates.sign IS
    'the signature of notifications that have no signature of their own; null: the signature of the sender';
COMMENT ON VIEW effective_notification_templates IS
    'The notification template that a company uses for a business type and channel: its own template, or else the template of the platform.';
COMMENT ON COLUMN erasures.user_ids IS
    'contacts.user_id of the person; empty: the erasure has ended, or no user id is known';
COMMENT ON COLUMN erasures.recipients IS
    'phone numbers in E.164 and e-mail addresses of the person; empty: the erasure has ended, or no address is known. A message to one of them is erased, unless it was created for another user';
COMMENT ON COLUMN erasures.asked_recipients IS
    'the part of recipients that the request named. Every contact with one of them, and every message to one of them, belongs to the person. empty: the erasure has ended, or the request named a user';
COMMENT ON COLUMN erasures.held IS
    'number of tasks that senders held, and of lists that were being read, at the last check';
COMMENT ON COLUMN events.subject IS
    'what the event is about: a sender_no, the category and name of a setting, or queue';
COMMENT ON COLUMN events.detail IS
    'values of the event, which depend on its kind';
COMMENT ON TABLE fair_ranks IS
    'The last range of ranks that a company received in a pool and priority. Ranks divide a pool fairly between companies (start-time fair queueing): each task uses 1 / weight of its company. Written by internal/dispatch/queue. internal/dispatch/directory deletes the row together with its pool. pool_id has no foreign key, because each submission would lock the pool.';
COMMENT ON COLUMN fair_ranks.start IS
    'the beginning of the range: the rank of its first task';
COMMENT ON COLUMN fair_ranks.finish IS
    'the end of the range. The next range of the company begins here or later';
COMMENT ON COLUMN fair_ranks.flow IS
    'the flow (see task_flow) of all tasks that received ranks since the company last had no waiting task; null: several flows, or unknown';
COMMENT ON COLUMN fair_ranks.flow_finish IS
    'the end of the ranks that were given while only the tasks of flow waited. Up to this rank, tasks of flow have no flow_rank. All later tasks of the company have one, because several flows wait. null: only flow waits';
COMMENT ON TABLE feed IS
    'An event for submitters, kept for a week. internal/events/feed writes the rows from feed_staged. Only one transaction at a time does this, so ids ascend in the order in which the rows become visible. A reader that continues after the last id therefore misses no event. The table contains no personal data: the content of an event of a task is read from messages and report_logs when the event is read.';
COMMENT ON COLUMN feed.company_id IS
    '0: an event of the service itself, which only listeners to all companies receive. There is no foreign key, because the row is kept when the company is deleted';
COMMENT ON COLUMN feed.type IS
    'the type of the event, as in the contract: for example message.sent';
COMMENT ON COLUMN feed.log_id IS
    'the row of report_logs about the event; null: the event is not about a task';
COMMENT ON TABLE feed_listeners IS
    'A company whose events are recorded, because it has webhooks, or because its events were read within a week. Written by internal/events/feed and internal/events/webhook. The events of a company without a row are not recorded.';
COMMENT ON COLUMN feed_listeners.company_id IS
    'null: all companies';
COMMENT ON COLUMN feed_listeners.since_id IS
    'all events of the company after this id of feed were recorded';
COMMENT ON TABLE feed_staged IS
    'An event that becomes a row of feed. Triggers of report_logs, batches, notifications, events and received_messages store it in the transaction that causes the event, only if the events are recorded. internal/events/feed moves the row to feed within a second. Of two events of a task, the later event has the larger id.';
COMMENT ON TABLE feed_state IS
    'One row: how far the feed was deleted. Written by internal/events/feed in the transaction of the deletion.';
COMMENT ON COLUMN feed_state.pruned_id IS
    'the largest id that was deleted from feed';
COMMENT ON COLUMN fruitless_submissions.task_id IS
    'the task that the submission repeated; null: the submission was rejected';
COMMENT ON COLUMN fruitless_submissions.response_data IS
    'the answer. data.deduplicated is true if the submission repeated a dedup_key';
COMMENT ON COLUMN idempotency_keys.response IS
    'the answer that a repeated request receives';
COMMENT ON TABLE inbounds IS
    'A description of how the posts of one other program become messages of a company. Written by internal/transport/inbound. The erasure of a person removes its number from phone_numbers.';
COMMENT ON COLUMN inbounds.preset IS
    'the name of the preset. A preset is a description of a program that internal/transport/inbound contains. custom: no preset';
COMMENT ON COLUMN inbounds.description IS
    'the members that replace members of the preset; null: the preset is unchanged';
COMMENT ON COLUMN inbounds.message_type IS
    'see messages.message_type';
COMMENT ON COLUMN inbounds.repeat_seconds IS
    'seconds after which a repeated post is sent again; null: a repeated post is never sent again';
COMMENT ON TABLE notifications IS
    'An announcement to some people on one channel. Written by internal/audience/notification. Its messages are tasks, and their texts are in renderings. submitted_by has no foreign key, because the configured user is in no table.';
COMMENT ON COLUMN notifications.dedup_key IS
    'unique among the visible notifications of a channel and company, for each owner of keys, see dedup_key_owner; null: no key';
COMMENT ON COLUMN notifications.repeat_minutes IS
    'minutes from the end of a run to the next run; null: the notification runs once';
COMMENT ON COLUMN notifications.started_at IS
    'only for a node timeout: the time at which the node started';
COMMENT ON COLUMN notifications.deleted_at IS
    'the time at which the notification was deleted. It is then hidden, but its row remains. null: visible';
COMMENT ON COLUMN notifications.sign IS
    'the signature before the text; null: the signature of the template, or else of the sender';
COMMENT ON COLUMN notifications.replaced_at IS
    'the time at which its dedup_key was released for a later notification. The reason is that its node started again, its orbit was planned for another time, or it reached nobody and was announced again. null: not released';
COMMENT ON COLUMN notifications.expires_at IS
    'nothing is sent after this time; null: the notification never expires';
COMMENT ON COLUMN notifications.own_payload IS
    'values that only this notification has, such as the number of an orbit. They override values of its announcement';
COMMENT ON COLUMN notifications.forgotten_at IS
    'the time at which its tasks were going to be dropped. Since then, no list contains the notification, its payload is empty, and ended_as is its last state. null: its tasks are kept';
COMMENT ON COLUMN notifications.run_after IS
    'the last contact who received a task in this run';
COMMENT ON COLUMN notifications.is_companys IS
    'true: the dedup_key is unique in the company. false: the row comes from a version in which each submitter had its own keys';
COMMENT ON COLUMN notifications.changed_by IS
    'the user of LKSMS who last ended, deleted or resumed the notification; null: no user, or the row is older than this column. There is no foreign key, as for submitted_by';
COMMENT ON COLUMN renderings.template_id IS
    'the template of the provider; empty: no template';
COMMENT ON COLUMN renderings.page IS
    'the page that a WeChat message opens; empty: no page';
COMMENT ON COLUMN renderings.is_template IS
    'true: the placeholders are filled for each recipient, with messages.contact_values. A run that continues reads this column, because possibly none of its messages exists any more';
COMMENT ON COLUMN renderings.channel_id IS
    'the channel of a batch; null: the text of a notification, or of a send-once message';
COMMENT ON COLUMN number_partitions.first_number IS
    'the first lease_id or batch_id of the partition. 0: the table that existed before partitions were introduced. It also contains the rows without lease_id';
COMMENT ON COLUMN number_partitions.entered_at IS
    'the time at which the first number of the partition was assigned, or somewhat later; null: not yet';
COMMENT ON COLUMN number_partitions.left_at IS
    'the time after which no number of the partition was assigned; null: its numbers are still assigned, or will be';
COMMENT ON TABLE phone_leases IS
    'A lease that a phone has claimed and not ended, or that the phone had at its last pull. If the answer to a pull is lost, the phone gets the messages of these leases again. The table replaces an index of queue by holder, which would slow down each claim of every sender. Written by internal/transport/smsgate/mobile.';
COMMENT ON COLUMN phones.code_until IS
    'the time at which the code expires';
COMMENT ON COLUMN phones.sim_number IS
    'the SIM that sends, from 1; null: the phone chooses';
COMMENT ON COLUMN phones.troubles IS
    'number of pauses since the phone last sent a message, at most 20';
COMMENT ON COLUMN phones.rest_until IS
    'the end of a pause: the phone could not send, and gets no new messages until this time; null: not paused';
COMMENT ON COLUMN phones.pull_until IS
    'no other pull of the phone begins until this time; null: no pull is in progress';
COMMENT ON COLUMN pools.message_type IS
    'see messages.message_type; null in the same cases as company_id';
COMMENT ON COLUMN pools.country_id IS
    'null: all countries without their own pool';
COMMENT ON COLUMN pools.retired_at IS
    'the time at which the last route of the pool was deleted; null: the pool is in use. A retired pool keeps only its channel, which is needed to move tasks that return to the pool';
COMMENT ON COLUMN pools.unsettled_since IS
    'the time at which the pool got its first active route. Tasks of the pool possibly still wait in broader pools, and a sweep moves them. null: no task waits in a broader pool';
COMMENT ON COLUMN pools.sender_id IS
    'the only sender of the pool; null: any sender. A pool with this value has one route, to this sender, and is deleted when it is empty and unused';
COMMENT ON COLUMN receipts.provider_no IS
    'the number that the provider gave to the message, see deliveries.provider_no';
COMMENT ON COLUMN receipts.look_at IS
    'the next time at which the task is searched; null: the task was found, or the search has ended';
COMMENT ON VIEW receive_logs IS
    'All submissions, with the columns of the documented log. A submission created a task, or it is in fruitless_submissions.';
COMMENT ON COLUMN received_messages.company_id IS
    'the company that can read the message. It is the company of task_id. Without a task, it is senders.inbox_company_id, and without this value the company named default';
COMMENT ON COLUMN received_messages.phone_number IS
    'the number of the person in E.164. A number that could not be parsed, such as a short code or a name, is stored as it was received';
COMMENT ON COLUMN received_messages.task_id IS
    'the last task to the person for which the sender had a lease; null: no such task within the setting recipient.reply_days';
COMMENT ON COLUMN received_messages.raw IS
    'the message as it was received, cut to 20,000 characters; null: it had no fields besides the columns of this table';
COMMENT ON TABLE statistics_staged IS
    'The counts that one fold added to a minute of one company, channel, sender, message type and outcome. Written by internal/insight/statistics in the transaction of the fold. When the minute has passed, a sweep moves the row to statistics.';
COMMENT ON COLUMN statistics_staged.at IS
    'the beginning of the minute';
COMMENT ON COLUMN statistics_staged.claimed IS
    'number of leases. All counts mean the same as in facts';
COMMENT ON COLUMN statistics_staged.message_type IS
    'see messages.message_type; test: tests of any type; empty: unknown';
COMMENT ON COLUMN statistics_staged.waits IS
    'see facts.waits; empty: no waits';
COMMENT ON COLUMN statistics_staged.durations IS
    'see facts.durations; empty: no durations';
COMMENT ON VIEW recent_statistics IS
    'Counts that are not in statistics yet: the rows of statistics_staged, and the facts that are not folded. A statement that reads this view and statistics counts everything once.';
COMMENT ON TABLE reconciliation_differences IS
    'A message for which a provider''s file and LKSMS differ. Each reconciliation keeps the first 10,000 differences of each kind. Written by internal/insight/reconcile in the transaction of the portion that contains the message.';
COMMENT ON COLUMN reconciliation_differences.provider_no IS
    'the provider''s number of the message; null: the row of the file has no readable number';
COMMENT ON COLUMN reconciliation_differences.accepted_at IS
    'the time at which the attempt was reported. For the kind missing_here, it is an attempt on another day';
COMMENT ON COLUMN reconciliation_differences.ours IS
    'the value in LKSMS: the state, the segments or the number of messages, depending on the kind; null: no value';
COMMENT ON COLUMN reconciliation_differences.theirs IS
    'the value in the file. For the kind unreadable, it is the reason: a fault.Rule';
COMMENT ON TABLE reconciliation_rows IS
    'A message of a provider''s file that is being compared. All rows of the file with the same number are one row here. Written by internal/insight/reconcile, which deletes the row when the file is compared.';
COMMENT ON COLUMN reconciliation_rows.row_no IS
    'the first row of the file with the number, as a spreadsheet program shows it';
COMMENT ON COLUMN reconciliation_rows.copies IS
    'the number of rows of the file with the number';
COMMENT ON COLUMN reconciliation_rows.status IS
    'the state in these rows of the file; null: states are not compared, or the rows have different states';
COMMENT ON COLUMN reconciliation_rows.segments IS
    'the sum of the segments in these rows of the file; null: segments are not compared, or a row has no readable number of segments';
COMMENT ON TABLE reconciliations IS
    'The comparison of a provider''s statement with LKSMS, for one sender and day. Written by internal/insight/reconcile. A total is compared at once. A file is compared in portions of rows. One transaction compares a portion and stores the position after it, so that any server can continue there.';
COMMENT ON COLUMN reconciliations.from_at IS
    'the beginning of the day. The time zone is the one that the setting monitoring.time_zone named when the reconciliation was created';
COMMENT ON COLUMN reconciliations.unit IS
    'the unit of ours and theirs, if the provider gave a total: segments or messages. null: the provider gave a file, and ours and theirs count messages';
COMMENT ON COLUMN reconciliations.ours IS
    'the count of LKSMS. For a total: the sum of daily_totals, including tests. For a file: the messages whose provider''s number is in the file, or should be';
COMMENT ON COLUMN reconciliations.theirs IS
    'the count of the provider. For a total: the number that the provider gave. For a file: the number of different provider''s numbers in it';
COMMENT ON COLUMN reconciliations.tests IS
    'the tests that ours includes; 0 for a file';
COMMENT ON COLUMN reconciliations.upload_id IS
    'the uploaded file; null: the file was read and deleted. There is no foreign key, because the file is deleted before the row';
COMMENT ON COLUMN reconciliations.pending_values IS
    'values of status_column that are not final, in lower case. All values that are neither here nor in delivered_values mean undelivered';
COMMENT ON COLUMN reconciliations.phase IS
    'read: the file is copied to reconciliation_rows. match: the attempts of these rows are searched. search: attempts of the day without a row are searched. clear: the rows are deleted. null: the reconciliation has ended';
COMMENT ON COLUMN reconciliations.row_no IS
    'in the phase read: the last row of the file that was stored';
COMMENT ON COLUMN reconciliations.after_no IS
    'in the phase match: the last provider''s number that was searched';
COMMENT ON COLUMN reconciliations.after_at IS
    'in the phase search: after_at and after_id are the last attempt that was checked; null: no attempt yet';
COMMENT ON COLUMN reconciliations.rows IS
    'number of rows of the file that were read, without empty rows';
COMMENT ON COLUMN reconciliations.near_midnight IS
    'number of attempts without a row within five minutes of the beginning or the end of the day. They do not count as differences, because the statement of the neighbouring day possibly contains them';
COMMENT ON COLUMN reconciliations.differences IS
    'for a total: the difference between ours and theirs. For a file: the number of differences. 0: the day matches';
COMMENT ON COLUMN reconciliations.failure IS
    'the reason why the file could not be read completely, as JSON of fault.Field; null: no error';
COMMENT ON TABLE routes IS
    'A sender that serves a pool. Written by internal/dispatch/directory. The claims of internal/dispatch/queue write served, last_turn and next_turn.';
COMMENT ON COLUMN routes.weight IS
    'share of the sender among the routes of the pool with the same sort';
COMMENT ON COLUMN routes.served IS
    'number of tasks that the sender took through the route, divided by the weight. Of several routes, the route with the smallest value is served first';
COMMENT ON COLUMN routes.version IS
    'incremented by each update. An update names the version that its caller has read, and is rejected if the version has changed since';
COMMENT ON COLUMN routes.last_turn IS
    'the fairness position of the last task that the sender took from the pool. A sender with several pools takes the task with the smallest position first, and each task moves the position of its pool forward';
COMMENT ON COLUMN routes.next_turn IS
    'the fairness position of the next task in the pool for this sender, see last_turn. The position of a pool that was empty can be far behind. It then counts as the largest last_turn of all pools of the sender, so that an empty pool saves no share';
COMMENT ON VIEW send_logs IS
    'All leases, with the columns of the documented log: the ended leases, and the current leases of queue.';
COMMENT ON TABLE sender_answers IS
    'One of the last ten outcomes of calls of a driven sender. Written by internal/dispatch/push, which deletes older rows. task_id has no foreign key, because the task can be dropped before the row.';
COMMENT ON COLUMN sender_ledger.id IS
    'unique, and the order of the list. It is not a primary key, because the table is partitioned by lease_id';
COMMENT ON COLUMN sender_ledger.change IS
    'the change of the balance in segments; negative: a charge; 0: the thresholds changed';
COMMENT ON COLUMN sender_ledger.balance IS
    'the balance after the change, in segments';
COMMENT ON COLUMN sender_ledger.username IS
    'the user who changed the balance or the thresholds; null: a charge or a refund';
COMMENT ON COLUMN sender_ledger.low_warning IS
    'the new threshold, if the row is a change of thresholds or an opening balance; otherwise null';
COMMENT ON COLUMN sender_ledger.low_switch IS
    'the new threshold low_switch, in the same rows as low_warning';
COMMENT ON TABLE sender_ledger_default IS
    'Rows of sender_ledger without lease_id, and rows that are older than the partitions of sender_ledger.';
COMMENT ON TABLE sender_states IS
    'The counters and the circuit breaker of a sender. Each row of senders has one row. Written by internal/dispatch/queue (claims, refunds), internal/dispatch/push (circuit breaker) and internal/dispatch/sender. The columns are not in senders, so that a claim updates a short row in place.';
COMMENT ON COLUMN sender_states.next_available_at IS
    'the sender is ready from this time on. A claim adds one interval for each of its calls. The time is never before the end of an open circuit breaker. -infinity: the sender never had to wait';
COMMENT ON COLUMN sender_states.last_taken IS
    'number of calls of the last claim. If the interval is changed, next_available_at is calculated again from this number';
COMMENT ON COLUMN sender_states.minute_used IS
    'segments that were used in the minute of last_taken_at. In any other minute, the used segments are zero';
COMMENT ON COLUMN sender_states.hour_used IS
    'like minute_used, for the hour';
COMMENT ON COLUMN sender_states.day_used IS
    'like minute_used, for the day';
COMMENT ON COLUMN sender_states.month_used IS
    'like minute_used, for the month';
COMMENT ON COLUMN sender_states.seen_at IS
    'the time of the last poll, claim or report; null: never. Polls are recorded at intervals';
COMMENT ON COLUMN sender_states.attempts IS
    'number of all leases of the sender. succeeded is the number of leases that were reported SUCCESS';
COMMENT ON COLUMN sender_states.response_ms IS
    'sum of the milliseconds from claim to report, over the leases in succeeded and failed';
COMMENT ON COLUMN sender_states.shared_last_turn IS
    'like routes.last_turn, for the shared pool. It is used if a shared sender also has routes';
COMMENT ON COLUMN sender_states.shared_next_turn IS
    'like routes.next_turn, for the shared pool. It is used if a shared sender also has routes';
COMMENT ON COLUMN sender_states.openings IS
    'how often the circuit breaker has opened since the sender last sent a message; 0: closed';
COMMENT ON COLUMN sender_states.rest_until IS
    'the circuit breaker is open until this time, and half-open after it; null: closed';
COMMENT ON COLUMN sender_states.probe_until IS
    'while the circuit breaker is half-open, one worker tries one message until this time; null: no worker tries';
COMMENT ON COLUMN sender_states.granted IS
    'sum of top-ups and corrections. The consumed segments are granted - balance';
COMMENT ON COLUMN sender_states.attempts_today IS
    'number of leases on the day attempts_on. On any other day, the number is zero';
COMMENT ON COLUMN sender_states.failed_tasks IS
    'number of tasks that became FAILED with the sender. The column failed also counts FAILED reports after which the task is retried';
COMMENT ON COLUMN senders.sender_no IS
    'the name in requests. For an app, it is the app_id';
COMMENT ON COLUMN senders.kind IS
    'app: the sender polls. Any other value is the name of the driver';
COMMENT ON COLUMN senders.status IS
    'on, off or retired. A retired sender is off, and explanations do not show it';
COMMENT ON COLUMN senders.is_shared IS
    'true: the sender also serves the shared pool of its channel, which contains the tasks without a route';
COMMENT ON COLUMN senders.low_warning IS
    'an event is added when the balance falls to this value or below; null: no event';
COMMENT ON COLUMN senders.low_switch IS
    'no task is leased while the balance is at this value or below; null: 0';
COMMENT ON COLUMN senders.has_balance IS
    'true: attempts are charged to sender_states.balance';
COMMENT ON COLUMN senders.is_paced IS
    'generated: true if the sender has an interval, limits or a balance. A claim must then lock its row in sender_states';
COMMENT ON COLUMN senders.version IS
    'incremented by each update. An update names the version that its caller has read, and is rejected if the version has changed since';
COMMENT ON COLUMN senders.on_unclear IS
    'what happens if the lease of an attempt has expired and its outcome is unknown. retry: the message is sent again. fail: the task ends';
COMMENT ON COLUMN senders.is_self_registered IS
    'true: an app created the sender by polling. false also for senders that are older than this column';
COMMENT ON COLUMN senders.segment_price IS
    'price of a segment, in 1/10000 of the currency in the setting monitoring.currency; null: unknown, counted as 0';
COMMENT ON COLUMN senders.sign_mode IS
    'in_text: the sender gets the text with the signature before it. by_provider: the provider adds the signature. none: the message is sent without a signature';
COMMENT ON COLUMN senders.inbox_company_id IS
    'the company of the messages that people send to this sender without answering a task. null, or a deleted company: the company named default. There is no foreign key, because adding it would have locked companies';
COMMENT ON VIEW sender_standings IS
    'Each sender, with the part of its state that claims of other senders need. A claim reads it by sender_id.';
COMMENT ON COLUMN sender_standings.is_rested IS
    'true: next_available_at has passed';
COMMENT ON COLUMN sender_standings.has_quota IS
    'true: each limit has segments left';
COMMENT ON COLUMN sender_standings.has_funds IS
    'true: the sender has no balance, or a balance above low_switch';
COMMENT ON COLUMN sender_standings.is_available IS
    'true: the sender is on, has quota and funds, and its circuit breaker is closed. Only available senders count for sort and for shares';
COMMENT ON COLUMN sender_standings.room IS
    'the size of the largest task that the sender can certainly send, in segments as counted at the submission. The segment size or the signature of the sender can allow a larger task';
COMMENT ON COLUMN sender_tokens.fetches IS
    'number of permissions to fetch the token. Only the holder of the last permission can store a token';
COMMENT ON COLUMN sender_tokens.fetch_until IS
    'the permission of one server to fetch the token ends at this time; null: no server fetches it';
COMMENT ON COLUMN servers.seen_at IS
    'the last time at which the server wrote this row. A server writes it every few seconds, and deletes it when it stops';
COMMENT ON COLUMN sessions.password_proof IS
    'HMAC-SHA-256 of the stored password, with the token as its key. If the password changes, the proof no longer matches, and the session ends. The token is stored nowhere, so this value reveals nothing about the password';
COMMENT ON COLUMN settings.updated_by IS
    'the user who changed the value; null: the row contains the default. Such a row exists only inside the transaction of the first change. There is no foreign key, because the configured user is in no table';
COMMENT ON TABLE smsgate_messages IS
    'A message that a program submitted through the third-party API of SMSGate. It has one task for each recipient. Written by internal/transport/smsgate/thirdparty in the transaction that submits the tasks, so that a message_id exists only once. Deleted when the days of its tasks are dropped.';
COMMENT ON COLUMN smsgate_messages.submitted_by IS
    'see messages.submitted_by';
COMMENT ON TABLE sql_roles IS
    'A role of PostgreSQL that is allowed to call the functions of the schema lksms, and the user for whom it submits. internal/transport/sqlinbox writes the row and grants the privileges of the role. The role needs both, so a migration that creates a function of lksms again must grant the function to these roles.';
COMMENT ON TABLE statistics IS
    'The counts of one minute, hour or day: of all tasks of a company, or of one key of a dimension. Written only by internal/insight/statistics, from statistics_staged. Minutes and hours are deleted later.';
COMMENT ON COLUMN statistics.dimension IS
    'the kind of key: total (key is empty), company, channel, sender, message_type or outcome. company exists only with company_id 0';
COMMENT ON COLUMN statistics.at IS
    'the beginning of the minute, hour or day. Hours are hours of UTC. Days are days of the time zone that the setting monitoring.time_zone named when the sweep wrote the row';
COMMENT ON COLUMN statistics.key IS
    'the value of the dimension. For the dimension company, it is the id of the company. For the other dimensions, it is the column of statistics_staged with the name of the dimension (sender: sender_no). Tests are counted only under the key test of the dimension message_type';
COMMENT ON COLUMN statistics.claimed IS
    'number of leases. All counts mean the same as in facts';
COMMENT ON COLUMN statistics.waits IS
    'a histogram of the times from entered_at to the first claim. It contains each bucket with tasks, in ascending order: the number of the bucket (one byte, see wait_bucket), then the number of its tasks (varint of Go''s encoding/binary)';
COMMENT ON COLUMN statistics.durations IS
    'a histogram of the times from entered_at to SUCCESS or FAILED, in the format of waits';
COMMENT ON TABLE subscribe_messages IS
    'A send-once message: a person gets it once for a business object and a template type. Written by internal/audience/notification. task_id has no foreign key, because the row is created before its task.';
COMMENT ON COLUMN subscribe_messages.template_id IS
    'the template of the provider in the last attempt to send';
COMMENT ON COLUMN subscribe_messages.task_id IS
    'the last task of the message. Its state is the state of the message';
COMMENT ON COLUMN subscribe_messages.submitted_by IS
    'the user who first requested the message; empty: the task no longer existed when this column was added';
COMMENT ON COLUMN subscribe_messages.is_companys IS
    'true: no other message of the company has this key. false: the row comes from a version in which each submitter had its own messages';
COMMENT ON VIEW switches IS
    'One row that tells whether task_switches can return a row for any task. has_disabled_users: a user is disabled. may_hold: another switch can hold tasks. Claims read this view first, so that they call task_switches only if needed. The two columns are separate, because disabled users are common.';
COMMENT ON TABLE tag_contacts IS
    'A contact of a tag. Written by internal/audience/contact. tag_id has no foreign key, because a tag can contain a million contacts, but is deleted at once. A sweep then deletes its rows here, see deleted_tags.';
COMMENT ON TABLE tags IS
    'A tag of a company, which groups contacts. Written by internal/audience/contact. Triggers of tag_contacts write the column contacts.';
COMMENT ON COLUMN tags.contacts IS
    'number of contacts with the tag';
COMMENT ON TABLE task_counts IS
    'The numbers of tasks of one company in each state. They do not include the facts that are not folded yet. Written by internal/insight/history, which folds facts.';
COMMENT ON COLUMN task_counts.pending_new IS
    'number of PENDING tasks with retry_count 0';
COMMENT ON COLUMN task_counts.pending_retry IS
    'number of PENDING tasks with retry_count above 0';
COMMENT ON TABLE task_job_parts IS
    'Some hundred tasks that a job has not changed yet, in the order of their ids. Written by internal/dispatch/job, which deletes the row in the transaction that changes the tasks.';
COMMENT ON TABLE task_jobs IS
    'A request to cancel or requeue all tasks of a filter, and its progress. Written by internal/dispatch/job. One transaction changes a portion of tasks and adds them to the counts.';
COMMENT ON COLUMN task_jobs.filter IS
    'the filter of the request. task_job_parts contains the selected tasks';
COMMENT ON COLUMN task_jobs.skipped_by IS
    'the number of skipped tasks for each reason, by the name of the reason in the API: {"task.expired": 3}. Tasks are missing if a server skipped them that does not know this column';
COMMENT ON TABLE task_partitions IS
    'A range of days that has or had a partition of messages and a partition of report_logs. Written by the functions task_partition_make and task_partition_drop, in the transaction that creates or drops the partitions.';
COMMENT ON COLUMN task_partitions.last_day IS
    'the day after the last day of the partitions';
COMMENT ON COLUMN task_partitions.dropped_at IS
    'the time at which the partitions were dropped; null: they exist';
COMMENT ON COLUMN task_partitions.history_at IS
    'the time at which the partitions became history: all their tasks have ended, and they are in the tablespace of the setting history.tablespace; null: not yet';
COMMENT ON COLUMN task_partitions.imported_at IS
    'the time at which the partition was imported from an export, or created again for the tasks that were kept when it was dropped. Its retention begins again at this time. null: neither';
COMMENT ON COLUMN task_partitions.exported_late IS
    'the ids, in order, of the tasks that the last export skipped because they had not ended; null: no such tasks';
COMMENT ON COLUMN task_partitions.late_tasks IS
    'number of tasks that were moved to the default partition when the partition was dropped; null: not dropped, or dropped by a server that did not know this column';
COMMENT ON COLUMN task_partitions.held_by IS
    'the reason why the last run of the sweep could not make the partition history, or could not drop it: no_folder, too_many_late, locked or failed; null: it succeeded, or did not try';
COMMENT ON TABLE templates IS
    'A template: a text that submissions can use. Written by internal/dispatch/template.';
COMMENT ON COLUMN templates.send_type IS
    'realtime: a message is sent at once. scheduled: a message is sent at the next full interval of the setting sms.scheduled_every_seconds, unless the submission has its own time';
COMMENT ON COLUMN templates.given_no IS
    'template_no, if an administrator chose it; null: template_no is derived from the id';
COMMENT ON COLUMN templates.status IS
    'messages can use only active templates. A voided template stays voided';
COMMENT ON COLUMN templates.version IS
    'number of changes of template_content, language, translations and sign, plus 1';
COMMENT ON TABLE upload_parts IS
    '262,144 bytes of an upload; the last part can be shorter. Written once by internal/audience/upload.';
COMMENT ON COLUMN uploads.size IS
    'the size in bytes; null: the file is still being received, or its request was broken off';
COMMENT ON COLUMN uploads.used_by IS
    'what uses the file, for example "batch 17"; null: nothing uses it yet. An unused file is deleted after an hour';
COMMENT ON COLUMN uploads.encoding IS
    'the encoding of the text that the owner of the file chose, from sheet.Encodings; null: the server detects it';
COMMENT ON TABLE webhook_deliveries IS
    'A post of an event to the address of a webhook. The last hundred posts of each webhook are kept, and the last post of each event that waits for a retry. Written by internal/events/webhook in the transaction that advances the webhook. The body of the post is not stored, because it can be created from feed again.';
COMMENT ON COLUMN webhook_deliveries.status_code IS
    'the HTTP status of the answer; null: no answer arrived';
COMMENT ON COLUMN webhook_deliveries.error IS
    'the reason why the post failed; null: the post was accepted';
COMMENT ON TABLE webhook_retries IS
    'An event with an id up to after_id that a webhook must still post. Its post failed, it waits for an earlier event of its task, or it is replayed. Written by internal/events/webhook. Deleted when the event is accepted, and together with the event.';
COMMENT ON COLUMN webhook_retries.task_id IS
    'see feed.task_id. The events of a task are posted in their order';
COMMENT ON COLUMN webhook_retries.due_at IS
    'the time of the next post; null: the event waits for an earlier event of its task';
COMMENT ON TABLE webhook_secrets IS
    'An encrypted secret, which signs the posts of a webhook. Written by internal/events/webhook.';
COMMENT ON COLUMN webhook_secrets.valid_until IS
    'the secret was replaced, but still signs posts until this time; null: the current secret';
COMMENT ON TABLE webhooks IS
    'An address to which events of the feed are posted, and the position in the feed. Written by internal/events/webhook. A run reads the events after after_id and posts them. One transaction then stores the new after_id and the failed events, if after_id is still the value that the run has read. So each event is posted at least once, even if a server is killed.';
COMMENT ON COLUMN webhooks.user_id IS
    'only the events about submissions of this user are posted, and the webhook is deleted together with the user; null: all events of the company';
COMMENT ON COLUMN webhooks.owner IS
    'generated: all webhooks with the same value count for one limit';
COMMENT ON COLUMN webhooks.status IS
    'on or off. off: nothing is posted';
COMMENT ON COLUMN webhooks.rest_until IS
    'the end of a pause: nothing is posted before this time; null: not paused';
COMMENT ON COLUMN webhooks.form IS
    'format and signature of posts. standard: Standard Webhooks. smsgate: as in the app of SMSGate';
COMMENT ON COLUMN webhooks.external_id IS
    'only for the form smsgate: the id that the program gave, or a generated id. It is unique for one user. null: another form';
COMMENT ON COLUMN reconciliations.to_at IS
    'the end of the day, in the same time zone as from_at';
COMMENT ON COLUMN sender_states.attempts_on IS
    'the day that attempts_today counts, in the time zone of the sender; null: no lease yet';
COMMENT ON COLUMN subscribe_messages.sends IS
    'number of tasks of the message so far';
COMMENT ON COLUMN contact_imports.added IS
    'number of contacts that the import created';
COMMENT ON COLUMN contact_imports.changed IS
    'number of existing contacts that the import changed';

-- The tables and views lock_…: the lock of each is taken before its comment is written, so that the migration never waits for a running sweep. A lock that a
-- sweep holds at this moment keeps its former comment.
DO $$
DECLARE
    lock record;
    text text;
BEGIN
    FOR lock IN
        SELECT c.oid::regclass AS name, c.relkind AS kind, replace(substr(c.relname, 6), '_', '-') AS sweep, obj_description(c.oid, 'pg_class') AS former
        FROM pg_class c
        WHERE c.relnamespace = (SELECT m.relnamespace FROM pg_class m WHERE m.oid = 'messages'::regclass) AND c.relname LIKE 'lock\_%' AND c.relkind IN ('r', 'v')
        ORDER BY c.relname COLLATE "C"
    LOOP
        text := CASE
            WHEN lock.kind = 'v' THEN
                'The former name of ' || substring(lock.former FROM 'lock_\w+') || ', for servers of version 1.0.0: a lock on this view also locks the table.'
            WHEN lock.sweep = 'feed' THEN
                'No rows. The lock of the feed: a transaction that moves events to feed locks this table, so two transactions never assign ids of feed at once.'
            WHEN lock.sweep = 'statistics' THEN
                'No rows. The lock of statistics: a transaction that adds staged rows locks this table, so two transactions never replace a histogram at once.'
            WHEN lock.sweep = 'task-jobs' THEN
                'No rows. The lock of new jobs: a transaction that creates a job locks this table, so the number of running jobs does not change before its commit.'
            ELSE
                'No rows. The lock of the sweep ' || lock.sweep || ': the server that runs the sweep locks this table, so two servers never run the sweep at once.'
        END;
        IF lock_table_try(lock.name) THEN
            EXECUTE format('COMMENT ON %s %s IS %L', CASE lock.kind WHEN 'v' THEN 'VIEW' ELSE 'TABLE' END, lock.name, text);
        END IF;
    END LOOP;
END $$;

-- migrate:down
COMMENT ON FUNCTION batch_segments_counted(of_batch bigint, sender_sign text, forbids_signs boolean, segment_size bigint, max_rows integer) IS
    'The segments of the first valid rows of a batch by country, as they were submitted and as a sender counts them that has a signature, forbids signatures, or has a segment size. country_no is empty for numbers of no known country, and null in the row of all countries.';
COMMENT ON FUNCTION channels_waiting(since timestamp with time zone) IS
    'Returns the channels in whose shared pool a task has been due since the given time or longer.';
COMMENT ON FUNCTION dedup_key_owner(biz_task_id bigint, submitted_by text) IS
    'Returns the owner of the dedup_key of a notification within its company: business events, the service itself (system:...), or the callers (empty). An owner cannot use the key of another owner.';
COMMENT ON FUNCTION events_feed() IS
    'Trigger of events: stages the feed events of alerts and senders, if a listener hears every company. A sender is silent from the firing of its alert of the kind sender_silent until the alert ends because the sender polled.';
COMMENT ON FUNCTION fact_outcome(success integer, failed integer, cancelled integer) IS
    'Returns the outcome of the tasks that a row of facts counts, as in statistics_staged.outcome.';
COMMENT ON FUNCTION feed_is_heard(of_company bigint) IS
    'Returns whether the events of a company are recorded; 0 means the events of the service itself.';
COMMENT ON FUNCTION first_id_since(of_table regclass, since timestamp with time zone) IS
    'Returns approximately the first id of the rows of callbacks or receipts that are not older than a time. It is approximate, because created_at is the beginning of a transaction. Callers therefore also compare created_at.';
COMMENT ON FUNCTION fold_case(written text) IS
    'A text in lower case, as strings.ToLower of Go: the same in each locale. Compare folded texts with COLLATE "C".';
COMMENT ON FUNCTION held_due_at() IS
    'Returns the due_at of a task that waits until its batch is resumed. It is the largest value that queue allows, so no statement treats such a task as due.';
COMMENT ON FUNCTION is_due(at timestamp with time zone, longest_wait interval) IS
    'Returns whether a time has come that was set at most longest_wait ahead. A time that is further ahead was set before the clock was set back, and counts as come. One more minute is allowed, because transactions begin at different times.';
COMMENT ON FUNCTION lock_table(locked regclass) IS
    'Waits until no other transaction holds the lock of lock_table_try, and holds the lock until the end of the transaction.';
COMMENT ON FUNCTION lock_table_try(locked regclass) IS
    'Locks a table until the end of the transaction, and returns false while another transaction holds this lock.';
COMMENT ON FUNCTION mirror_renamed_setting() IS
    'Writes a change of a renamed setting under its other name too, for servers of version 1.0.0 beside later ones. If a statement writes both names, the present name counts. The function is dropped with the rows of the former names.';
COMMENT ON FUNCTION note_changer() IS
    'Records the user who requested a change of a row, see postgres.As.';
COMMENT ON FUNCTION notifications_feed() IS
    'Trigger of notifications: stages that a notification has possibly ended, if the events of its company are recorded.';
COMMENT ON FUNCTION number_digits(number text) IS
    'Returns the digits, as ASCII, of a phone number in any notation that internal/dispatch/phone reads. It finds candidates; internal/dispatch/phone decides which number each of them is.';
COMMENT ON FUNCTION pool_waits(of_pool bigint, since timestamp with time zone) IS
    'Returns whether a task of the pool has been due since the given time or longer, among the tasks that senders take first.';
COMMENT ON FUNCTION queue_transactions() IS
    'Returns the open transactions that lock rows of queue, as claims do. A claim that began before a change of the directory can still lease tasks that the change holds; a later claim cannot.';
COMMENT ON FUNCTION sender_serves(of_sender bigint, of_company bigint) IS
    'Returns whether a company can name a sender for its tasks, and the sender can take them. Either an active route of the company names the sender; or the sender is shared, no route names it, and the company uses shared senders. A sender that is off serves; a retired sender does not.';
COMMENT ON FUNCTION sender_silences(silent_after interval, noted_apart interval) IS
    'Returns for each app whether it is silent: it has not polled for silent_after plus slack. slack is the delay with which its polls are stored: zero if a route names the app, small if tasks have waited in its shared pool for longer than silent_after, otherwise noted_apart. The sweep of internal/dispatch/sender stores the polls by the same rule.';
COMMENT ON FUNCTION sql_door_number(number text) IS
    'A number without what people write between its digits, as package phone reads it, which a test compares.';
COMMENT ON FUNCTION sql_door_outgoing() IS
    'Trigger of lksms.outgoing: submits the row, with the rights of the caller.';
COMMENT ON COLUMN users.app_id IS
    'with the role send: the only sender_no for which the user can claim and report; null: any';
COMMENT ON COLUMN users.password_hash IS
    'argon2id; null: the user has only API keys';
COMMENT ON COLUMN users.company_id IS
    'the company for which the user submits; 1 is the default company';
COMMENT ON COLUMN users.version IS
    'incremented by each update; a caller names the version that it read';
COMMENT ON COLUMN users.has_company IS
    'true: the user sees only this company; false: company_id only defines for which company the user submits, and a read user sees every company';
COMMENT ON FUNCTION sql_door_put(caller users, of_id bigint, place integer, phone_number text, content text, dedup_key text, message_type text, priority integer, expect_send_time timestamp with time zone, expires_at timestamp with time zone, sign text, source text, test boolean, template_no text, params jsonb, language text) IS
    'Checks a message as package queue does, in the same order, puts it in the inbox, and returns the id of its task: of a repeated dedup key the first one.';
COMMENT ON FUNCTION sql_door_refuse(code text, field text, rule text, text_of_error text, place integer) IS
    'Refuses a message: the SQLSTATE says what is wrong, the column which field, the constraint which rule of package fault. place is that in a set.';
COMMENT ON FUNCTION sql_door_segments(signed text) IS
    'The short messages that a text takes, as package segment counts them, which a test compares.';
COMMENT ON FUNCTION sql_door_setting(of_name text, otherwise bigint) IS
    'A setting of the category sms. Its default is that of package setting, which a test compares.';
COMMENT ON FUNCTION sql_door_task_id(at timestamp with time zone, ordinal integer) IS
    'A task id as package queue makes them: the day and a ULID. It ascends with the microsecond and then with ordinal, the place in a set below 1024.';
COMMENT ON FUNCTION sql_door_text(message jsonb, field text, place integer) IS
    'A member of a message of a set that must be a text; null: it is missing.';
COMMENT ON FUNCTION sql_door_time(message jsonb, field text, place integer) IS
    'A member of a message of a set that must be a time; null: it is missing.';
COMMENT ON FUNCTION sql_door_user() IS
    'The user for whom the session submits. session_user: a function of its owner''s rights has another current_user.';
COMMENT ON TABLE sql_inbox IS
    'A message that was submitted by SQL, until it is a task. Inserted by lksms.enqueue in the transaction of its caller. This transaction can be long, so the insert locks no row for which others wait. internal/transport/sqlinbox creates the task and deletes the row in one transaction. There are no foreign keys, because they would lock rows of companies.';
COMMENT ON COLUMN sql_inbox.task_id IS
    'the id that the task will have, and that the caller got; a repeated message has an id that is never used';
COMMENT ON COLUMN sql_inbox.submitted_by IS
    'as messages.submitted_by';
COMMENT ON COLUMN sql_inbox.role_name IS
    'session_user of the caller';
COMMENT ON COLUMN sql_inbox.request_id IS
    'sql- and the number of the transaction';
COMMENT ON COLUMN sql_inbox.message_type IS
    'as messages.message_type';
COMMENT ON COLUMN sql_inbox.priority IS
    'null: the priority of the message type';
COMMENT ON COLUMN sql_inbox.created_at IS
    'the time of the submission; its transaction was committed later';
COMMENT ON COLUMN sql_inbox.tries IS
    'how often the database rejected the creation of the task of this message alone';
COMMENT ON COLUMN sql_inbox.due_at IS
    'the next try is not before this time; later than created_at after a failed try';
COMMENT ON FUNCTION sql_inbox_check_fields(given sql_inbox, content text, place integer) IS
    'Rejects fields that exclude or require each other. content is the value of the caller; given.content is null if a template is used.';
COMMENT ON FUNCTION sql_inbox_check_times(given sql_inbox, place integer) IS
    'Rejects times that are in the past, too far ahead, or outside of the range of the server.';
COMMENT ON FUNCTION sql_inbox_number(number text) IS
    'Removes the characters between the digits of a number, like package phone; a test compares the two.';
COMMENT ON FUNCTION sql_inbox_put(caller users, of_id bigint, place integer, phone_number text, content text, dedup_key text, message_type text, priority integer, expect_send_time timestamp with time zone, expires_at timestamp with time zone, sign text, source text, test boolean, template_no text, params jsonb, language text) IS
    'Checks a message like package queue, in the same order, stores it in the inbox, and returns the id of its task; for a repeated dedup key, the id of the first task.';
COMMENT ON FUNCTION sql_inbox_refuse(code text, field text, rule text, text_of_error text, place integer) IS
    'Rejects a message with an error. The SQLSTATE is the kind of error, the column is the field, the constraint is the rule of package fault. place is the position of the message in a set.';
COMMENT ON FUNCTION sql_inbox_segments(signed text) IS
    'Returns the number of short messages of a text, like package segment; a test compares the two.';
COMMENT ON FUNCTION sql_inbox_setting(of_name text, otherwise bigint) IS
    'Returns a setting of the category sms. Its default is that of package setting; a test compares the two.';
COMMENT ON FUNCTION sql_inbox_store(given sql_inbox, earlier text) IS
    'Stores a checked message in the inbox, and returns the id of its task; for a repeated dedup key, the id of the first task. earlier is that task, if it was already known.';
COMMENT ON FUNCTION sql_inbox_task_id(at timestamp with time zone, ordinal integer) IS
    'Returns a task id like those of package queue: the day and a ULID. The id ascends with the microsecond and then with ordinal, the position in a set below 1024.';
COMMENT ON FUNCTION sql_inbox_text(message jsonb, field text, place integer) IS
    'Returns a member of a message of a set, which must be a text; null if the member is missing.';
COMMENT ON FUNCTION sql_inbox_time(message jsonb, field text, place integer) IS
    'Returns a member of a message of a set, which must be a time; null if the member is missing.';
COMMENT ON FUNCTION sql_inbox_user() IS
    'Returns the user for whom the session submits. It uses session_user, because current_user is different in a function that runs with the rights of its owner.';
COMMENT ON TABLE queue IS
    'A task that waits for a sender or is held by one. Written by internal/dispatch/queue: inserted with its message, updated when it is leased or waits again, deleted when the task is settled. It repeats the columns of the message that a claim and a report need, so that neither reads messages. There are no foreign keys, because each change would lock rows of other tables.';
COMMENT ON COLUMN queue.lane IS
    '32 * priority for a new task, 32 * priority + retry_count for a retry; null: not queued yet. A task that has waited too long is queued in a smaller lane';
COMMENT ON COLUMN queue.rank IS
    'order between companies within a lane, by start-time fair queueing; valid only in the pool and priority in which it was given. A claim can swap the ranks of two tasks of a company, see flow_rank. null: not given yet';
COMMENT ON COLUMN queue.due_at IS
    'the task can be claimed from this time on; held_due_at(): the task is held';
COMMENT ON COLUMN queue.updated_at IS
    'the time of the last change of state; for a leased task the time of the claim';
COMMENT ON COLUMN queue.troubles IS
    'number of leases that were given back because their sender could not send';
COMMENT ON COLUMN queue.failed_app_id IS
    'sender_no of the last sender that failed with the task; a claim prefers other senders; null: no sender failed';
COMMENT ON COLUMN queue.processing_app_id IS
    'sender_no of the sender that holds the task; null: the task is not held';
COMMENT ON COLUMN queue.lease_id IS
    'the current lease, or the expired lease of a task that was taken back, which failed_app_id held; null: no lease, or its sender ended it';
COMMENT ON COLUMN queue.lease_until IS
    'null: the task is PENDING; otherwise PROCESSING';
COMMENT ON COLUMN queue.lease_segments IS
    'short messages that the lease costs; null: the sender has no limits';
COMMENT ON COLUMN queue.lease_sign IS
    'signature of the sender, used if the message has no signature; null: the sender has none';
COMMENT ON COLUMN queue.lease_limit IS
    'the limit of the claim';
COMMENT ON COLUMN queue.entered_at IS
    'the time at which the task could first be claimed: the due_at of its submission; for a requeued task the time of the requeue; for a task that was held before its first attempt the due_at of its release; null: the task was submitted before this column existed';
COMMENT ON COLUMN queue.was_claimed IS
    'the task had a lease before, even if retry_count is 0: a lease was released, or a settled task was requeued';
COMMENT ON COLUMN queue.traceparent IS
    'as messages.traceparent';
COMMENT ON COLUMN queue.batch_id IS
    'as messages.batch_id';
COMMENT ON COLUMN queue.is_test IS
    'as messages.is_test; also false for tasks that are older than this column';
COMMENT ON COLUMN queue.contact_values IS
    'as messages.contact_values';
COMMENT ON COLUMN queue.start_until IS
    'equal to lease_until: the sender must start the lease before this time, and has not started it. Any other value, or null: the lease is started, or needs no start. A server that does not know this column keeps old values in it, which never equal lease_until';
COMMENT ON COLUMN queue.due_when_resumed IS
    'the due_at that a held task gets when its batch is resumed, if this time has not passed by then; null: at once. A server that does not know this column keeps old values in it';
COMMENT ON COLUMN queue.submitted_by IS
    'the submitter of the task, as in messages; null: the task was stored by a server that did not know the column';
COMMENT ON COLUMN queue.flow_rank IS
    'order between the tasks of one company within its pool and lane, in the unit of rank and never larger. A claim that finds this task at its rank takes the task of the company with the smallest flow_rank instead. null: equal to rank. A server that does not know this column keeps old values in it';
COMMENT ON COLUMN queue.lease_sign_mode IS
    'sign_mode of the sender when it claimed the task; null: in_text';
COMMENT ON FUNCTION task_fits(task queue, sender_no text, min_lease interval, from_segments bigint, rival_room bigint, retry_max_wait interval) IS
    'Whether a task may be offered to a sender. The task must not expire within min_lease, and must have at least from_segments segments. If the last attempt of the task failed with this sender and the task has at most rival_room segments, another sender can send the task: it is offered only after it has been due for retry_max_wait (null: never).';
COMMENT ON FUNCTION task_flow(batch_id bigint, submitted_by text) IS
    'Returns the flow of a task within its company: its batch, or else its submitter.';
COMMENT ON FUNCTION task_flow_start(of_pool bigint, of_priority smallint, of_company bigint, of_flow text, gap double precision) IS
    'Returns the smallest flow_rank of a new task of a flow: after the tasks of the flow that have a flow_rank, and not before the first waiting task of its company. gap is 1 / weight of the company; a null flow has no tasks.';
COMMENT ON FUNCTION task_submitter(of_task text) IS
    'Returns the submitter of a task that was stored by a server that did not know queue.submitted_by.';
COMMENT ON FUNCTION task_switches(of_pool bigint, of_company bigint, of_country text, of_submitter text) IS
    'Returns the switches that hold a task of a pool, company, country (null: unknown) and submitter: the kind and the name of what is off. shared_senders: no active route of the company serves the task, and the company does not use shared senders. It returns no row if nothing holds the task.';
COMMENT ON TABLE messages IS
    'A task as it was submitted, with its submission. Written once by internal/dispatch/queue; only the erasure of a person changes it. Partitioned by task_id, which ascends with time. The state of the task is in queue until the task is settled, then in report_logs; the view tasks shows both. There are no foreign keys, because each submission would lock rows of other tables.';
COMMENT ON COLUMN messages.recipient IS
    'the recipient: on the channel sms the number in E.164, on other channels the address; empty if the person has no address, or was erased';
COMMENT ON COLUMN messages.content IS
    'the text without signature; for a task with a rendering only the beginning';
COMMENT ON COLUMN messages.dedup_key IS
    'the submitter''s name for the message, as in dedup_keys; null: no key';
COMMENT ON COLUMN messages.segments IS
    'short messages that the text with its signature takes, counted at the submission';
COMMENT ON COLUMN messages.is_test IS
    'marked as a test by its submitter; statistics count tests separately, and a setting can prevent their sending';
COMMENT ON COLUMN messages.expires_at IS
    'the message is not sent after this time; null: it never expires. A withdrawal sets an earlier time in queue';
COMMENT ON COLUMN messages.on_unclear IS
    'overrides senders.on_unclear; null: the value of the sender';
COMMENT ON COLUMN messages.submission_id IS
    'receive_logs.id';
COMMENT ON COLUMN messages.request_data IS
    'the unchanged request. For a message from a template, the member template, which no request has, contains the number, version and language of the text';
COMMENT ON COLUMN messages.batch_id IS
    'the uploaded list of the task; null: no list. There is no foreign key, because each submission would lock the batch';
COMMENT ON COLUMN messages.contact_values IS
    'the values of the placeholders ${contact.…} for this person. If set, the rendering is a template that is filled with its params and these values; null: the rendering is already filled';
COMMENT ON TABLE report_logs IS
    'What ended a lease or a task, reports that changed nothing, receipts of providers, and who requeued a task. Written by internal/dispatch/queue. A requeue clears the outcome of a row, and the erasure of a person clears its texts; nothing else changes rows. Partitioned like messages, so that all data of a task is dropped together.';
COMMENT ON COLUMN report_logs.company_id IS
    'as messages.company_id';
COMMENT ON COLUMN report_logs.lease_id IS
    'the lease that was ended, or that the report named; null: no lease';
COMMENT ON COLUMN report_logs.event IS
    'past_receipt: a receipt of an attempt from before the task was requeued; simulated: a test message that no sender got; other names explain themselves';
COMMENT ON COLUMN report_logs.effect IS
    'success, failed: settled the task; retry: the task waits for a retry; exhausted: FAILED without another retry; unclear: FAILED because it is unknown whether the message was sent; untried, troubled: the lease was given back; ignored, refused: changed nothing; cancelled, expired; delivered, undelivered: a receipt; requeued: the task waits again like a new task';
COMMENT ON COLUMN report_logs.error_message IS
    'the text of a report or of a release; for a requeue its remark; null: no text';
COMMENT ON COLUMN report_logs.request_data IS
    'the unchanged report; for a cancellation or a requeue the user (by); null: no data';
COMMENT ON COLUMN report_logs.outcome IS
    'the state that this event gave the task: 2 SUCCESS, 3 FAILED, 4 CANCELLED; null: the event did not settle the task, or the task was requeued since';
COMMENT ON COLUMN report_logs.result IS
    'the outcome for operators; for a receipt its status code; null: the task was not settled';
COMMENT ON COLUMN report_logs.retry_count IS
    'number of retries before this event; null: it changed nothing';
COMMENT ON COLUMN report_logs.due_at IS
    'the time at which the task could be claimed; null: the event changed nothing, or is older than this column';
COMMENT ON COLUMN report_logs.leased_at IS
    'the beginning of the ended lease; null: no lease was ended, or an earlier row ended it. The following columns are about this lease';
COMMENT ON COLUMN report_logs.lease_segments IS
    'short messages that the lease cost; null: the sender had no limits';
COMMENT ON COLUMN report_logs.lease_sign IS
    'signature of the sender, used if the message has no signature; null: the sender had none';
COMMENT ON COLUMN report_logs.lease_limit IS
    'the limit of the claim';
COMMENT ON COLUMN report_logs.pool_id IS
    'the pool of the task; for a receipt the pool of the submission; null: the event changed nothing, or is older than this column';
COMMENT ON COLUMN report_logs.message_type IS
    'as messages.message_type; null in the same cases as pool_id';
COMMENT ON COLUMN report_logs.segments IS
    'as messages.segments; null in the same cases as pool_id';
COMMENT ON COLUMN report_logs.entered_at IS
    'as queue.entered_at; also null if the task was never in the queue, and for a receipt';
COMMENT ON COLUMN report_logs.batch_id IS
    'as messages.batch_id; null: no batch, or the row is older than this column';
COMMENT ON COLUMN report_logs.country_no IS
    'as messages.country_no; null: no country, or the row is older than this column';
COMMENT ON COLUMN report_logs.is_test IS
    'as messages.is_test; also false for rows that are older than this column';
COMMENT ON COLUMN report_logs.lease_sign_mode IS
    'sign_mode of the sender when it claimed the task; null: in_text';
COMMENT ON VIEW tasks IS
    'The state of each task: submitted data from messages, waiting and leased tasks from queue, outcomes from report_logs. Read it by task_id or rendering_id, because other columns have no index. For a settled task, pool_id and expires_at are those of its submission, and failed_app_id is null. due_at is null while the task is held, and for a task that ended while it was held.';
COMMENT ON FUNCTION tasks_between(from_id text, to_id text) IS
    'The rows of the view tasks with task_id from from_id to to_id, both included. It opens only the partitions of this range. The function and the view have the same definition in two forms: change both together.';
COMMENT ON FUNCTION unsigned_text(content text, sign text) IS
    'Removes the signatures sign at the beginning of a text, like segment.Unsigned of internal/dispatch/segment.';
COMMENT ON FUNCTION wait_bucket(wait interval) IS
    'Returns the bucket of a duration in a histogram, as one byte: 0 up to 1 ms; n above 1.1^(n-1) ms and up to 1.1^n ms; 255 also for all longer durations (416 days); null for null. internal/insight/statistics has the same bounds.';
COMMENT ON VIEW lksms.outgoing IS
    'lksms.enqueue as a relation: an INSERT calls the function, and RETURNING task_id returns its result. It has no rows.';
COMMENT ON COLUMN alert_deliveries.told_at IS
    'the time at which the receiver was last notified that the alert fires: the call of a program, or the queueing of the messages to people; null: not yet';
COMMENT ON COLUMN alert_deliveries.end_told_at IS
    'the time at which the receiver was notified that the alert is resolved; null: not yet, or the receiver was never notified that the alert fires';
COMMENT ON COLUMN alert_deliveries.tries IS
    'number of tries that have an outcome; part of the dedup key of the next try';
COMMENT ON COLUMN alert_deliveries.next_at IS
    'the next try is not before this time';
COMMENT ON COLUMN alert_deliveries.awaits IS
    'notifications that the alert fires, of which a message can still be sent; empty: no such notification is left; null: told_at is the time of the delivery';
COMMENT ON COLUMN alert_deliveries.sent_at IS
    'the time at which the first message of the last notifications that the alert fires was sent; null: no message was sent';
COMMENT ON COLUMN alert_deliveries.end_awaits IS
    'as awaits, for the end of the alert';
COMMENT ON COLUMN alert_deliveries.end_sent_at IS
    'as sent_at, for the end of the alert';
COMMENT ON COLUMN alert_deliveries.escalate_at IS
    'the time at which the delivery escalates, unless a message is sent before; null: it never escalates, or no longer';
COMMENT ON COLUMN alert_deliveries.escalated_from IS
    'the receiver whose delivery escalated to this delivery, which does not escalate further. There is no foreign key, as for receiver_id; null: the rule names the receiver';
COMMENT ON TABLE alert_receiver_states IS
    'The outcomes of the last calls of a receiver of the kind alertmanager, one row for each receiver. Written by internal/insight/alert. Separate from alert_receivers, because no admin changes it.';
COMMENT ON COLUMN alert_receiver_states.next_call_at IS
    'the next call is not before this time, because a call failed or a server is calling';
COMMENT ON COLUMN alert_receivers.kind IS
    'notification: notifies users, through channels; alertmanager: calls a program with the API of Alertmanager, at url';
COMMENT ON COLUMN alert_receivers.channels IS
    'There are no foreign keys: a deleted channel is an error of each delivery, and the other channels are still used';
COMMENT ON COLUMN alert_receivers.escalate_seconds IS
    'seconds after which an alert that was not sent to the receiver escalates; 0: never';
COMMENT ON COLUMN alert_rules.threshold IS
    'unit and direction depend on the kind; null: for wait_time the setting of its level, for balance_low the low_warning of each sender; pool_unserved and provider_trouble have no threshold';
COMMENT ON COLUMN alert_rules.window_seconds IS
    'null: the kind has no window';
COMMENT ON COLUMN alert_rules.for_seconds IS
    'seconds for which the condition must hold before the alert fires';
COMMENT ON COLUMN alert_rules.resolve_seconds IS
    'seconds for which the condition must not hold before the alert is resolved';
COMMENT ON COLUMN alerts.subject IS
    'the subject of the condition, depending on the kind: a sender_no, a channel, a pool, a file system';
COMMENT ON COLUMN alerts.value IS
    'the measured value when the condition last held';
COMMENT ON COLUMN alerts.threshold IS
    'the threshold that the value is compared with; null: the kind has no threshold';
COMMENT ON COLUMN alerts.started_at IS
    'the time at which the condition began to hold';
COMMENT ON COLUMN alerts.seen_at IS
    'the last time at which the condition held';
COMMENT ON COLUMN alerts.fired_at IS
    'null: pending, because the condition has not held for long enough; such a row is deleted when the condition ends';
COMMENT ON COLUMN alerts.cleared_at IS
    'the time since which the condition does not hold; null: it holds';
COMMENT ON COLUMN alerts.only_own_channel IS
    'whether people can be notified only through the channel that the alert is about, or for an alert about all channels, only through one channel';
COMMENT ON COLUMN announcements.tag IS
    'the tag whose contacts get the notifications; user_ids is then empty; null: the people are in user_ids';
COMMENT ON COLUMN audit.actor IS
    'name of the user who requested the change, or cli: and the name of the user of the operating system; null: the service itself or an SQL statement changed the row';
COMMENT ON COLUMN audit.entity_key IS
    'name of the entity in the API; parts are joined by a slash';
COMMENT ON COLUMN audit.company_no IS
    'company that the entity belongs to or is; null: the entity belongs to no company';
COMMENT ON COLUMN audit.before IS
    'for a change: the old values of the changed columns; for a deletion: all columns; null: the entity is new';
COMMENT ON COLUMN audit.after IS
    'for a change: the new values of the changed columns; for a creation: all columns; null: the entity was deleted';
COMMENT ON TABLE batch_counts IS
    'The numbers of tasks of a batch in each state, by sender, without the facts that are not folded yet. Written by internal/audience/batch, which consumes facts.';
COMMENT ON COLUMN batch_counts.sender_no IS
    'empty: no sender';
COMMENT ON COLUMN batch_counts.segments IS
    'short messages of the leases that were reported SUCCESS';
COMMENT ON COLUMN batch_rows.batch_id IS
    'There is no foreign key: its check took two thirds of the time when a million rows were added. Statements that add or delete rows have locked the batch';
COMMENT ON COLUMN batch_rows.row_no IS
    'the number of the row in the list, as a spreadsheet program shows it; for a tag the position of the contact';
COMMENT ON COLUMN batch_rows.content IS
    'the text without signature, on a channel other than sms its beginning; empty: it could not be rendered';
COMMENT ON COLUMN batch_rows.fault IS
    'the field, the rule that the field violates, and the limit of the rule; null: code says everything';
COMMENT ON COLUMN batch_rows.contact_values IS
    'the values of the placeholders of the rendering; null: the text has none';
COMMENT ON TABLE batch_rows_default IS
    'Rows of batches from before partitions were introduced.';
COMMENT ON TABLE facts IS
    'Changes by one statement to the tasks of one company, pool, type, country and batch that one sender holds, held or reported; or to tasks that no sender holds. Tests are counted separately. Written by triggers of queue and report_logs only. internal/insight/history deletes the rows within seconds, and adds them to the figures of all consumers in the same transaction; until then, readers add them to these figures. There is no cursor: a deleted row is consumed exactly once, in whatever order transactions commit, and also after a dump is restored into another cluster.';
COMMENT ON COLUMN facts.at IS
    'the time of the change: for leases leased_at, for reports created_at, the latest of the row';
COMMENT ON COLUMN facts.response_ms IS
    'sum over the reports of the milliseconds from claim to report; from recovery to report if the lease had expired';
COMMENT ON COLUMN facts.sender_no IS
    'null: no sender. There is no foreign key: each claim would lock the sender, and app_id can be any text for tasks that were inserted by hand';
COMMENT ON COLUMN facts.pool_id IS
    'as in queue and report_logs; pool_channels contains its channel; null: report_logs has no pool';
COMMENT ON COLUMN facts.message_type IS
    'as messages.message_type; null: report_logs has no message type';
COMMENT ON COLUMN facts.segments IS
    'short messages of the leases that were reported SUCCESS';
COMMENT ON COLUMN facts.waits IS
    'one byte for each task that was claimed for the first time: wait_bucket of the time since entered_at, in any order; null: no such task';
COMMENT ON COLUMN facts.durations IS
    'one byte for each task that became SUCCESS or FAILED: wait_bucket of the time since entered_at, in any order; null: no such task';
COMMENT ON COLUMN facts.batch_id IS
    'as messages.batch_id; null: no batch';
COMMENT ON COLUMN facts.country_no IS
    'as messages.country_no; null: no country';
COMMENT ON COLUMN facts.is_test IS
    'as messages.is_test';
COMMENT ON COLUMN facts.accepted_at IS
    'for receipts of delivered messages: the minute in which their sender reported SUCCESS; null: for all other rows, or if no report of this sender settled the task';
COMMENT ON VIEW batch_totals IS
    'The exact figures of each batch and sender: batch_counts plus the facts that are not folded yet. Both are read in one snapshot.';
COMMENT ON COLUMN batches.priority IS
    'as messages.priority; null: the priority of the message type';
COMMENT ON COLUMN batches.upload_id IS
    'the uploaded list; null: the list is checked, or the rows come from a tag';
COMMENT ON COLUMN batches.tag IS
    'the tag whose contacts are the rows; empty: several tags select the contacts; null: an uploaded list';
COMMENT ON COLUMN batches.phone_column IS
    'the column with the addresses';
COMMENT ON COLUMN batches.template_no IS
    'the template that gave content; null: content was in the request';
COMMENT ON COLUMN batches.is_deferred IS
    'when the batch is confirmed, its time is set to the next full interval, as the template requires';
COMMENT ON COLUMN batches.is_confirmed IS
    'the batch starts when its check has ended; until then nothing is sent';
COMMENT ON COLUMN batches.confirmed_by IS
    'null: not confirmed, or confirmed by its request (auto_confirm)';
COMMENT ON COLUMN batches.is_held IS
    'tasks of the batch are possibly held, because the batch is or was paused';
COMMENT ON COLUMN batches.is_settled IS
    'a sweep has no work: the batch waits to be confirmed, or has ended and none of its tasks waits or is leased';
COMMENT ON COLUMN batches.is_read IS
    'for a tag: the rows are those of the contacts at the start of the batch';
COMMENT ON COLUMN batches.segments IS
    'short messages of the valid rows';
COMMENT ON COLUMN batches.fed_row IS
    'the last row that became a task or was rejected at its submission: no row up to it is read again';
COMMENT ON COLUMN batches.fault IS
    'the reason why the server cancelled the batch, as batch_rows.fault; null: the server did not cancel it';
COMMENT ON COLUMN batches.changed_by IS
    'the user who last confirmed, paused, resumed or cancelled the batch; null: no user, or older than this column. There is no foreign key, as for submitted_by';
COMMENT ON COLUMN batches.sign_column IS
    'the column with the signatures of the rows; null: every row has the signature of the batch';
COMMENT ON COLUMN batches.by_country IS
    'the valid rows and their segments by country when the check ended: [{"country_no", "rows", "segments", "unsigned", "by_sender"}]. by_sender has the segments as senders count them that do so in a way of their own: [{"sign", "forbids_signs", "segment_size", "segments"}]. They follow from the first 1,000 rows of the batch: from those to the country, or from all of them if none is. null: it is being checked';
COMMENT ON COLUMN batches.subject IS
    'the title with its placeholders; null: a short message, or no title';
COMMENT ON COLUMN batches.biz_type IS
    'the business type of the notification template that gave the text; null: another text';
COMMENT ON COLUMN batches.rendering_id IS
    'the common text of its rows; null: short messages, whose texts are in batch_rows';
COMMENT ON COLUMN batches.encoding IS
    'the encoding with which the list is read; null: a workbook, a tag, or unknown';
COMMENT ON COLUMN batches.is_encoding_doubtful IS
    'encoding was guessed, and the text could also be Latin letters in another encoding (internal/audience/sheet)';
COMMENT ON COLUMN business_ends.awaits_start IS
    'the end was reported before the start; the next start without a time belongs to this end';
COMMENT ON COLUMN business_ends.recorded_at IS
    'the time at which this row was stored; ended_at is the caller''s time, which can be much earlier';
COMMENT ON TABLE business_locks IS
    'A lock of the transaction that processes business events of the tasks whose hash modulo 256 is its slot. The rows never change.';
COMMENT ON COLUMN callbacks.left_out IS
    'number of unreadable items among readable ones';
COMMENT ON TABLE channel_countries IS
    'A country that a channel serves, or that is switched off for the channel. If no country is on, channels.any_country decides whether the channel serves the other countries. Written by internal/dispatch/directory.';
COMMENT ON COLUMN channel_countries.status IS
    'on or off; off: tasks of the channel to the country are held';
COMMENT ON COLUMN channels.signature_required IS
    'a message without a signature is rejected';
COMMENT ON COLUMN channels.version IS
    'incremented by each update; a caller names the version that it read';
COMMENT ON COLUMN channels.retry_minutes IS
    'for driven senders: minutes before each retry; the length of the array is the number of retries; null: the configuration of the server';
COMMENT ON COLUMN channels.status IS
    'on or off; off: tasks of the channel are held';
COMMENT ON COLUMN channels.any_country IS
    'the channel serves every country that is not switched off in channel_countries; used only while no country there is on';
COMMENT ON COLUMN companies.weight IS
    'share of the service among the companies with waiting tasks';
COMMENT ON COLUMN companies.version IS
    'incremented by each update; a caller names the version that it read';
COMMENT ON COLUMN companies.status IS
    'on or off; off: tasks of the company are held, and it cannot submit';
COMMENT ON COLUMN companies.any_country IS
    'the company can send to every country that is not switched off in company_countries; used only while no country there is on';
COMMENT ON COLUMN companies.uses_shared_senders IS
    'shared senders can send the tasks that no active route of the company serves; false: these tasks are held';
COMMENT ON COLUMN companies.default_region IS
    'ISO 3166-1 code of the region of numbers without a country code; empty: such numbers are rejected, except mobile numbers of mainland China';
COMMENT ON TABLE company_countries IS
    'A country to which a company can send, or that is switched off for the company. If no country is on, companies.any_country decides whether the company can send to the other countries. Written by internal/dispatch/directory.';
COMMENT ON COLUMN company_countries.status IS
    'on or off; off: tasks of the company to the country are held';
COMMENT ON TABLE company_notification_templates IS
    'The title and text of a business type on a channel, of one company, which replaces the row in notification_templates. Written by internal/audience/notification.';
COMMENT ON COLUMN company_notification_templates.external_id IS
    'template of the provider; empty: no template';
COMMENT ON COLUMN company_notification_templates.sign IS
    'signature of notifications without their own signature; null: the signature of the sender';
COMMENT ON TABLE contact_counts IS
    'The number of contacts of a company; a company that never had contacts has no row. Written by triggers of contacts. internal/audience/contact locks the row before it changes contacts or tags of the company, so that these changes wait for each other.';
COMMENT ON TABLE contact_import_errors IS
    'A row of a list that was not stored; for each import the first 10,000 such rows. Written by internal/audience/contact with its portion. It contains no value of the row.';
COMMENT ON COLUMN contact_import_errors.failure IS
    'the first error: a fault.Field as JSON';
COMMENT ON TABLE contact_imports IS
    'An uploaded list of contacts, and the progress of storing its rows. Written by internal/audience/contact: a portion of rows and its counts are stored in one transaction, so that any server can continue after row_no.';
COMMENT ON COLUMN contact_imports.failure IS
    'the reason why the rest of the list could not be read: a fault.Field as JSON; null: no error';
COMMENT ON COLUMN contacts.user_id IS
    'the person in the systems of the company; not a row of users';
COMMENT ON COLUMN contacts.phone IS
    'null: no address on the channel sms';
COMMENT ON COLUMN contacts.dingtalk_name IS
    'null: no address on the channel dingtalk';
COMMENT ON COLUMN contacts.wechat_openid IS
    'null: no address on the channel wechat';
COMMENT ON COLUMN contacts.email IS
    'null: no address on the channel email';
COMMENT ON COLUMN contacts.attributes IS
    'texts by name, for the placeholders of templates';
COMMENT ON COLUMN countries.dial_prefix IS
    'the prefix without the +; if several prefixes match a number, the longest counts';
COMMENT ON COLUMN countries.signature_required IS
    'a message without a signature is rejected';
COMMENT ON COLUMN countries.version IS
    'incremented by each update; a caller names the version that it read';
COMMENT ON COLUMN countries.region IS
    'ISO 3166-1 code: only numbers of this region belong to the country; null: all numbers with the prefix';
COMMENT ON COLUMN countries.status IS
    'on or off; off: tasks to the country are held';
COMMENT ON TABLE credentials_version IS
    'One row: the last transaction that changed users or API keys. Written by triggers of these tables. Servers compare it with the version of the credentials in their memory. The row is missing until the first change.';
COMMENT ON COLUMN credentials_version.is_only IS
    'always true: as the primary key it allows only one row';
COMMENT ON TABLE daily_totals IS
    'What a sender did for a company on one day of the setting monitoring.time_zone, in messages of one type to one country. Tests have separate rows: no company sees them, but a provider counts them. Written by internal/insight/reconcile alone, in the transaction that deletes the facts; kept for ever.';
COMMENT ON COLUMN daily_totals.message_type IS
    'as messages.message_type; empty: unknown';
COMMENT ON COLUMN daily_totals.country_no IS
    'empty: no country, as on channels other than SMS';
COMMENT ON COLUMN daily_totals.delivered IS
    'receipts of delivered messages, on the day on which the message was accepted';
COMMENT ON COLUMN daily_totals.cost IS
    'cost of the segments, by the price of the sender when they were counted; in 1/10000 of the currency';
COMMENT ON TABLE dedup_keys IS
    'The task that a submitter named with a dedup_key. Written by internal/dispatch/queue with the message, and kept when the message is dropped, for as long as the setting history.dedup_keep_days says.';
COMMENT ON COLUMN dedup_keys.made_on IS
    'the day (UTC) of the submission; for a key that is older than the column the day of the upgrade';
COMMENT ON TABLE default_contents IS
    'The text for a phone number when a submission has no text; it is sent once. Written by internal/dispatch/template.';
COMMENT ON COLUMN default_contents.recipient IS
    'the number in E.164, so that it is unique in every notation';
COMMENT ON COLUMN default_contents.use_template IS
    'render the active template with the content as its parameters';
COMMENT ON COLUMN default_contents.is_sent IS
    'a submission used the content; an administrator can reset it';
COMMENT ON COLUMN default_contents.company_id IS
    'the company whose users send the content; unique together with recipient';
COMMENT ON TABLE deleted_tags IS
    'A deleted tag that possibly still has rows in tag_contacts. Written by a trigger of tags, and deleted by internal/audience/contact after these rows.';
COMMENT ON TABLE deliveries IS
    'An attempt to send a task through a provider: what a report said (the number of the provider), or why the outcome is unclear. Written by internal/dispatch/queue; the erasure of a person takes its texts. No foreign keys: each insert would lock rows of other tables.';
COMMENT ON COLUMN deliveries.recipient IS
    'the recipient of the task, which matches receipts';
COMMENT ON TABLE directory_version IS
    'One row: the last transaction that changed the directory: companies, channels, countries, pools, routes, or a column of senders that concerns others. Written by triggers of these tables. Servers compare it with the version of the directory in their memory. The row is missing until the first change.';
COMMENT ON COLUMN directory_version.is_only IS
    'always true: as the primary key it allows only one row';
COMMENT ON COLUMN notification_templates.biz_type IS
    'see notifications.biz_type; 32767: an alert';
COMMENT ON COLUMN notification_templates.external_id IS
    'template of the provider; empty: no template';
COMMENT ON COLUMN notification_templates.sign IS
    'signature of notifications without their own signature; null: the signature of the sender';
COMMENT ON VIEW effective_notification_templates IS
    'The notification template that a company uses, its own or the platform''s, by business type and channel.';
COMMENT ON COLUMN erasures.user_ids IS
    'contacts.user_id of the person; empty: finished, or unknown';
COMMENT ON COLUMN erasures.recipients IS
    'phone numbers in E.164 and e-mail addresses of the person; empty: finished, or unknown. A message to one of them is erased unless it was created for another user';
COMMENT ON COLUMN erasures.asked_recipients IS
    'those of recipients that the request named: every contact with one of them, and every message to one of them, belongs to the person; empty: finished, or the request named a user';
COMMENT ON COLUMN erasures.held IS
    'tasks that senders held, and lists that were being read, at the last check';
COMMENT ON COLUMN events.subject IS
    'the sender_no, the category and name of a setting, or queue';
COMMENT ON COLUMN events.detail IS
    'values that depend on the kind';
COMMENT ON TABLE fair_ranks IS
    'The last range of ranks that a company got in a pool and priority (start-time fair queueing: a task uses 1 / weight of its company). Written by internal/dispatch/queue, and deleted with its pool by internal/dispatch/directory. pool_id has no foreign key, because each submission would lock the pool.';
COMMENT ON COLUMN fair_ranks.start IS
    'rank of the first task of the range';
COMMENT ON COLUMN fair_ranks.finish IS
    'the smallest rank at which the next range can begin';
COMMENT ON COLUMN fair_ranks.flow IS
    'the only flow (task_flow) of the tasks that got ranks since the company last had no waiting task; null: several flows, or unknown';
COMMENT ON COLUMN fair_ranks.flow_finish IS
    'the rank at which the tasks of flow without a flow_rank end: after this rank, another flow of the company waits too, and each task gets a flow_rank; null: only flow waits';
COMMENT ON TABLE feed IS
    'An event for submitters, kept for a week. Written by internal/events/feed from feed_staged, by one transaction at a time: ids ascend in the order in which the rows become visible, so that a reader who continues after the last id misses no event. The table has no personal data: the content of an event of a task is read from messages and report_logs when the event is read.';
COMMENT ON COLUMN feed.company_id IS
    '0: an event of the service itself, only for listeners to every company. There is no foreign key, because the row is kept when the company is deleted';
COMMENT ON COLUMN feed.type IS
    'as in the contract, such as message.sent';
COMMENT ON COLUMN feed.log_id IS
    'the row of report_logs with the event; null: the event is not about a task';
COMMENT ON TABLE feed_listeners IS
    'A company whose events are recorded, because it has webhooks, or its events were pulled within a week. Written by internal/events/feed and internal/events/webhook. Nothing is recorded for a company without a row here.';
COMMENT ON COLUMN feed_listeners.company_id IS
    'null: every company';
COMMENT ON COLUMN feed_listeners.since_id IS
    'the id of feed after which all events of the company were recorded';
COMMENT ON TABLE feed_staged IS
    'A future row of feed, stored in the transaction of its event. Written by triggers of report_logs, batches, notifications and events, only if the events are recorded. internal/events/feed moves the row to feed within a second. For one task, a later event has a larger id.';
COMMENT ON TABLE feed_state IS
    'One row: the progress of the deletion of feed. Written by internal/events/feed in the transaction of the deletion.';
COMMENT ON COLUMN feed_state.pruned_id IS
    'the largest deleted id';
COMMENT ON COLUMN fruitless_submissions.task_id IS
    'the task that was repeated; null: the submission was rejected';
COMMENT ON COLUMN fruitless_submissions.response_data IS
    'the answer; data.deduplicated is true if the submission repeated a dedup_key';
COMMENT ON COLUMN idempotency_keys.response IS
    'the answer to repeat';
COMMENT ON TABLE inbounds IS
    'A description how the posts of one other program become messages of a company. Written by internal/transport/inbound; the erasure of a person removes a number from phone_numbers.';
COMMENT ON COLUMN inbounds.preset IS
    'name of the description that internal/transport/inbound has for a program; custom: no such description';
COMMENT ON COLUMN inbounds.description IS
    'members that replace those of the preset; null: the unchanged preset';
COMMENT ON COLUMN inbounds.message_type IS
    'as messages.message_type';
COMMENT ON COLUMN inbounds.repeat_seconds IS
    'seconds after which a repeated post is sent again; null: never';
COMMENT ON TABLE notifications IS
    'An announcement to some people on one channel. Written by internal/audience/notification. The texts of its messages are in renderings, and the messages are tasks of these renderings. submitted_by has no foreign key, because the configured user is in no table.';
COMMENT ON COLUMN notifications.dedup_key IS
    'unique among the visible notifications of a channel and a company whose keys have the same owner, see dedup_key_owner; null: no key';
COMMENT ON COLUMN notifications.repeat_minutes IS
    'minutes from the end of a run to the next run; null: no repetition';
COMMENT ON COLUMN notifications.started_at IS
    'for a node timeout: the time at which the node started';
COMMENT ON COLUMN notifications.deleted_at IS
    'the notification is hidden from this time on; null: visible. Rows are never deleted.';
COMMENT ON COLUMN notifications.sign IS
    'signature before the text; null: the signature of the template, or else of the sender';
COMMENT ON COLUMN notifications.replaced_at IS
    'the time at which its dedup_key was released: its node started again, its orbit was planned for another time, or it had reached nobody and was announced again; null: not released';
COMMENT ON COLUMN notifications.expires_at IS
    'nothing is sent after this time; null: it never expires';
COMMENT ON COLUMN notifications.own_payload IS
    'values of this notification in addition to its announcement, such as the number of an orbit; they override the announcement';
COMMENT ON COLUMN notifications.forgotten_at IS
    'the time at which its tasks were about to be dropped. From then on no list contains the notification, its payload is empty, and ended_as is its last state; null: its tasks are kept';
COMMENT ON COLUMN notifications.run_after IS
    'the last contact who got a task in this run';
COMMENT ON COLUMN notifications.is_companys IS
    'true: its dedup_key is unique in the company; false: the row is of a version in which each submitter had its own keys';
COMMENT ON COLUMN notifications.changed_by IS
    'the user of LKSMS who last ended, deleted or resumed the notification; null: no user, or older than this column. There is no foreign key, as for submitted_by';
COMMENT ON COLUMN renderings.template_id IS
    'template of the provider; empty: no template';
COMMENT ON COLUMN renderings.page IS
    'page that a WeChat message opens; empty: no page';
COMMENT ON COLUMN renderings.is_template IS
    'the placeholders are filled for each recipient, with messages.contact_values. A run that is continued reads this column, because possibly none of its messages exists any more';
COMMENT ON COLUMN renderings.channel_id IS
    'for a batch: its channel; null: the text of a notification, or of a send-once message';
COMMENT ON COLUMN number_partitions.first_number IS
    'the first lease_id or batch_id of the partition; 0: the table from before partitions were introduced, which also contains the rows without lease_id';
COMMENT ON COLUMN number_partitions.entered_at IS
    'the time at which its first number was assigned, or somewhat later; null: not yet';
COMMENT ON COLUMN number_partitions.left_at IS
    'the time since which no more of its numbers are assigned; null: numbers are or will be assigned';
COMMENT ON TABLE phone_leases IS
    'A lease that a phone claimed and has not ended yet, or had when it last pulled: if the answer was lost, the phone gets these messages again. This table replaces an index of queue by holder, which would add a cost to each claim of every sender. Written by internal/transport/smsgate/mobile.';
COMMENT ON COLUMN phones.code_until IS
    'the time until which the code can be used';
COMMENT ON COLUMN phones.sim_number IS
    'the SIM that sends, counted from 1; null: the phone chooses';
COMMENT ON COLUMN phones.troubles IS
    'how often the phone was paused since it last sent a message, at most 20';
COMMENT ON COLUMN phones.rest_until IS
    'the time until which the phone gets no new messages, because it could not send; null: it is not paused';
COMMENT ON COLUMN phones.pull_until IS
    'the time until which one pull of the phone excludes others; null: no pull is in progress';
COMMENT ON COLUMN pools.message_type IS
    'as messages.message_type; null: see company_id';
COMMENT ON COLUMN pools.country_id IS
    'null: every country without its own pool';
COMMENT ON COLUMN pools.retired_at IS
    'the time at which the last route was deleted; only the channel is kept, to move tasks that return to the pool; null: in use';
COMMENT ON COLUMN pools.unsettled_since IS
    'the time at which the pool got its first active route; its tasks possibly still wait in broader pools, from which a sweep moves them; null: no task waits there';
COMMENT ON COLUMN pools.sender_id IS
    'the only sender; such a pool has one route, to this sender, and is deleted when it is empty and unused; null: any sender';
COMMENT ON COLUMN receipts.provider_no IS
    'the number that the provider gave the message, as deliveries.provider_no';
COMMENT ON COLUMN receipts.look_at IS
    'the time of the next search for the task; null: the task was found, or the search has ended';
COMMENT ON VIEW receive_logs IS
    'Each submission, with the columns of the documented log: submissions that created a task, and all others.';
COMMENT ON COLUMN received_messages.company_id IS
    'the company that can read the message: that of task_id, or else senders.inbox_company_id, or else the company default';
COMMENT ON COLUMN received_messages.phone_number IS
    'the number of the person in E.164; a number that could not be parsed, such as a short code or a name, as it was received';
COMMENT ON COLUMN received_messages.task_id IS
    'the last task to the person that the sender had a lease for; null: no such task within recipient.reply_days';
COMMENT ON COLUMN received_messages.raw IS
    'the message as it was received, cut to 20,000 characters; null: it had no other fields';
COMMENT ON TABLE statistics_staged IS
    'The counts of one fold for a minute of one company, channel, sender, message type and outcome. Written by internal/insight/statistics in the transaction of the fold; a sweep moves the rows to statistics when their minute has passed.';
COMMENT ON COLUMN statistics_staged.at IS
    'the minute';
COMMENT ON COLUMN statistics_staged.claimed IS
    'number of leases; all counts are as in facts';
COMMENT ON COLUMN statistics_staged.message_type IS
    'as messages.message_type; test: tests of any type; empty: unknown';
COMMENT ON COLUMN statistics_staged.waits IS
    'as facts.waits; empty: no waits';
COMMENT ON COLUMN statistics_staged.durations IS
    'as facts.durations; empty: no durations';
COMMENT ON VIEW recent_statistics IS
    'Counts that are not in statistics yet: staged minutes, and facts that are not folded. A statement that reads this view and statistics counts everything once.';
COMMENT ON TABLE reconciliation_differences IS
    'A message for which a provider''s file and LKSMS differ; for each kind and reconciliation the first 10,000. Written by internal/insight/reconcile with its portion.';
COMMENT ON COLUMN reconciliation_differences.provider_no IS
    'null: the row of the file has no readable number';
COMMENT ON COLUMN reconciliation_differences.accepted_at IS
    'the time at which the attempt was reported; for missing_here, on another day';
COMMENT ON COLUMN reconciliation_differences.ours IS
    'the state, the segments or the number of messages in LKSMS, depending on the kind; null: no value';
COMMENT ON COLUMN reconciliation_differences.theirs IS
    'the value in the file; for unreadable the reason, a fault.Rule';
COMMENT ON TABLE reconciliation_rows IS
    'A message of a provider''s file that is being compared. Written by internal/insight/reconcile, which deletes the row when the file is compared.';
COMMENT ON COLUMN reconciliation_rows.row_no IS
    'the first row that has the number, as a spreadsheet program shows it';
COMMENT ON COLUMN reconciliation_rows.copies IS
    'the number of rows with the number';
COMMENT ON COLUMN reconciliation_rows.status IS
    'the status in all of these rows; null: not compared, or the rows differ';
COMMENT ON COLUMN reconciliation_rows.segments IS
    'sum of these rows; null: not compared';
COMMENT ON TABLE reconciliations IS
    'The comparison of a provider''s statement about a sender and a day with LKSMS. Written by internal/insight/reconcile: a total in one statement, the rows of a file in portions, each in one transaction with its end position, so that any server can continue there.';
COMMENT ON COLUMN reconciliations.from_at IS
    'the beginning of the day, by the setting monitoring.time_zone when it was created';
COMMENT ON COLUMN reconciliations.unit IS
    'the unit of ours and theirs, if the provider gave a total; null: the provider gave a file, which counts messages';
COMMENT ON COLUMN reconciliations.ours IS
    'for a total the sum of daily_totals, tests included; for a file the messages with a number that are in the file, or should be';
COMMENT ON COLUMN reconciliations.theirs IS
    'the provider''s total; for a file the number of its different numbers';
COMMENT ON COLUMN reconciliations.tests IS
    'the part of ours that are tests; 0 for a file';
COMMENT ON COLUMN reconciliations.upload_id IS
    'the uploaded file. There is no foreign key, because the file is deleted after it was read; null: the file was read';
COMMENT ON COLUMN reconciliations.pending_values IS
    'values of status_column that are not final, in lower case; all others mean undelivered';
COMMENT ON COLUMN reconciliations.phase IS
    'read: the file is copied to reconciliation_rows; match: the attempts of these rows are searched; search: attempts of the day without a row are searched; clear: the rows are deleted; null: the reconciliation has ended';
COMMENT ON COLUMN reconciliations.row_no IS
    'read: the last stored row of the file';
COMMENT ON COLUMN reconciliations.after_no IS
    'match: the last number that was searched';
COMMENT ON COLUMN reconciliations.after_at IS
    'search: with after_id the last attempt that was checked; null: no attempt yet';
COMMENT ON COLUMN reconciliations.rows IS
    'rows of the file that were read, except empty rows';
COMMENT ON COLUMN reconciliations.near_midnight IS
    'attempts without a row within five minutes of the beginning or end of the day; no difference, because a neighbouring statement possibly contains them';
COMMENT ON COLUMN reconciliations.differences IS
    'the difference between ours and theirs; for a file the number of differences; 0: the day matches';
COMMENT ON COLUMN reconciliations.failure IS
    'the reason why the file could not be read completely: a fault.Field as JSON';
COMMENT ON TABLE routes IS
    'A sender that serves a pool. Written by internal/dispatch/directory; served, last_turn and next_turn by the claims of internal/dispatch/queue.';
COMMENT ON COLUMN routes.weight IS
    'share of the sender among the routes with the same sort';
COMMENT ON COLUMN routes.served IS
    'number of tasks taken, divided by the weight; the route with the smallest value is served first';
COMMENT ON COLUMN routes.version IS
    'incremented by each update; a caller names the version that it read';
COMMENT ON COLUMN routes.last_turn IS
    'the time at which the sender last served the pool, in the virtual time of the sender';
COMMENT ON COLUMN routes.next_turn IS
    'the next time at which the sender serves the pool, in the same virtual time; a value in the past counts as now';
COMMENT ON VIEW send_logs IS
    'Each lease, with the columns of the documented log: ended leases, and the current leases of queue.';
COMMENT ON TABLE sender_answers IS
    'One of the last ten outcomes of calls of a driven sender. Written by internal/dispatch/push, which deletes older rows. task_id has no foreign key, because the task can be dropped earlier.';
COMMENT ON COLUMN sender_ledger.id IS
    'unique, and the order of the list; no primary key, because the table is partitioned by lease_id';
COMMENT ON COLUMN sender_ledger.change IS
    'segments added; negative: a charge; 0: changed thresholds';
COMMENT ON COLUMN sender_ledger.balance IS
    'segments after the change';
COMMENT ON COLUMN sender_ledger.username IS
    'the user who changed the balance or the thresholds; null: an attempt';
COMMENT ON COLUMN sender_ledger.low_warning IS
    'the new threshold, for changed thresholds and an opening balance; otherwise null';
COMMENT ON COLUMN sender_ledger.low_switch IS
    'as low_warning';
COMMENT ON TABLE sender_ledger_default IS
    'Rows of sender_ledger without lease_id, and charges and refunds from before partitions were introduced.';
COMMENT ON TABLE sender_states IS
    'The counters and the circuit breaker of a sender, one row for each row of senders. Written by internal/dispatch/queue (claims, refunds), internal/dispatch/push (circuit breaker) and internal/dispatch/sender. Separate from senders, so that a claim updates a short row in place.';
COMMENT ON COLUMN sender_states.next_available_at IS
    'the sender is ready from this time on: one interval for each call of the last claim, and not while the circuit breaker is open; -infinity: always ready';
COMMENT ON COLUMN sender_states.last_taken IS
    'number of calls of the last claim; a changed interval is counted again from it';
COMMENT ON COLUMN sender_states.minute_used IS
    'segments used in the minute of last_taken_at; in any other minute zero';
COMMENT ON COLUMN sender_states.hour_used IS
    'as minute_used, for the hour';
COMMENT ON COLUMN sender_states.day_used IS
    'as minute_used, for the day';
COMMENT ON COLUMN sender_states.month_used IS
    'as minute_used, for the month';
COMMENT ON COLUMN sender_states.seen_at IS
    'last poll, claim or report, recorded at intervals; null: never';
COMMENT ON COLUMN sender_states.attempts IS
    'number of leases ever; succeeded counts the leases that were reported SUCCESS';
COMMENT ON COLUMN sender_states.response_ms IS
    'sum of the milliseconds from claim to report, over succeeded and failed';
COMMENT ON COLUMN sender_states.shared_last_turn IS
    'routes.last_turn for the shared pool, of a shared sender that also has routes';
COMMENT ON COLUMN sender_states.shared_next_turn IS
    'routes.next_turn for the shared pool, of a shared sender that also has routes';
COMMENT ON COLUMN sender_states.openings IS
    'how often the circuit breaker opened since a message was sent; 0: closed';
COMMENT ON COLUMN sender_states.rest_until IS
    'the circuit breaker is open until this time and half-open afterwards; null: closed';
COMMENT ON COLUMN sender_states.probe_until IS
    'half-open: one worker tries one message until this time; null: no worker tries';
COMMENT ON COLUMN sender_states.granted IS
    'sum of top-ups and corrections; granted - balance was consumed';
COMMENT ON COLUMN sender_states.attempts_today IS
    'number of leases on attempts_on; zero on any other day';
COMMENT ON COLUMN sender_states.failed_tasks IS
    'tasks that became FAILED with the sender; failed counts its FAILED reports, even if the task is retried';
COMMENT ON COLUMN senders.sender_no IS
    'the name in requests; of an app its app_id';
COMMENT ON COLUMN senders.kind IS
    'app: the sender polls; otherwise the name of the driver';
COMMENT ON COLUMN senders.status IS
    'on, off, or retired: off and hidden from explanations';
COMMENT ON COLUMN senders.is_shared IS
    'the sender also serves the shared pool of its channel: tasks without a route';
COMMENT ON COLUMN senders.low_warning IS
    'an event is added when the balance falls to this value; null: no event';
COMMENT ON COLUMN senders.low_switch IS
    'no task is leased at this balance or below; null: 0';
COMMENT ON COLUMN senders.has_balance IS
    'attempts are charged to sender_states.balance';
COMMENT ON COLUMN senders.is_paced IS
    'generated: the sender has an interval, limits or a balance, so that a claim must lock its row in sender_states';
COMMENT ON COLUMN senders.version IS
    'incremented by each update; a caller names the version that it read';
COMMENT ON COLUMN senders.on_unclear IS
    'after an attempt with an unknown outcome, when its lease has expired: retry sends the message again, fail ends the task';
COMMENT ON COLUMN senders.is_self_registered IS
    'an app created the sender by polling; also false for senders older than this column';
COMMENT ON COLUMN senders.segment_price IS
    'price of a segment, in 1/10000 of the currency in the setting monitoring.currency; null: unknown, and counts as 0';
COMMENT ON COLUMN senders.sign_mode IS
    'in_text: the sender gets the text with the signature before it; by_provider: the provider adds the signature; none: the message is sent without a signature';
COMMENT ON COLUMN senders.inbox_company_id IS
    'the company that gets the messages to this sender that answer no task; null, or a company that was deleted: the company default. No foreign key: adding it would lock companies';
COMMENT ON VIEW sender_standings IS
    'View: each sender with its state that other senders need. A claim reads it by sender_id.';
COMMENT ON COLUMN sender_standings.is_rested IS
    'next_available_at has passed';
COMMENT ON COLUMN sender_standings.has_quota IS
    'each limit has segments left';
COMMENT ON COLUMN sender_standings.has_funds IS
    'the sender has no balance, or a balance above low_switch';
COMMENT ON COLUMN sender_standings.is_available IS
    'on, with quota and funds, and with a closed circuit breaker; sort and shares compare only available senders';
COMMENT ON COLUMN sender_standings.room IS
    'the largest number of segments, as counted at the submission, of a task that the sender can certainly send; its own segment size or signature can allow more';
COMMENT ON COLUMN sender_tokens.fetches IS
    'number of permissions to fetch the token; only the holder of the last can store a token';
COMMENT ON COLUMN sender_tokens.fetch_until IS
    'one server fetches the token until this time; null: no server fetches it';
COMMENT ON COLUMN servers.seen_at IS
    'The last time at which the server wrote this row. A server writes it every few seconds, and deletes it when it stops.';
COMMENT ON COLUMN sessions.password_proof IS
    'HMAC-SHA-256, with the token as its key, of the stored password that was proved: the session ends if the password changes. The token is stored nowhere, so this value reveals nothing about the password.';
COMMENT ON COLUMN settings.updated_by IS
    'null: no user changed the value, which is the default; only inside the transaction of the first change. There is no foreign key, because the configured user is in no table';
COMMENT ON TABLE smsgate_messages IS
    'A message that a program submitted through the third-party API of SMSGate: one task for each recipient. Written by internal/transport/smsgate/thirdparty in the transaction that submits the tasks, so that a message_id exists once; deleted when the days of its tasks are dropped.';
COMMENT ON COLUMN smsgate_messages.submitted_by IS
    'as messages.submitted_by: the user name, without a foreign key';
COMMENT ON TABLE sql_roles IS
    'A role of PostgreSQL that is allowed to call the functions of the schema lksms, and the user for whom it submits. Written by internal/transport/sqlinbox, with the grants. The role needs both: a migration that creates a function of lksms again must grant it to these roles.';
COMMENT ON TABLE statistics IS
    'The counts of one minute, hour or day: of all tasks of a company, or of one key of a dimension. Written by internal/insight/statistics only, from statistics_staged; minutes and hours are deleted later.';
COMMENT ON COLUMN statistics.dimension IS
    'company: only with company_id 0';
COMMENT ON COLUMN statistics.at IS
    'the beginning: hours are in UTC, days in the time zone monitoring.time_zone at the time of the sweep';
COMMENT ON COLUMN statistics.key IS
    'for the dimension company its id, for the others the column of statistics_staged with the name of the dimension (sender: sender_no); empty: as there, or the dimension is total. Tests are only in the row of the message type test';
COMMENT ON COLUMN statistics.claimed IS
    'number of leases; all counts are as in facts';
COMMENT ON COLUMN statistics.waits IS
    'histogram of the times from entered_at to the first claim: for each bucket with tasks, ascending, its number (one byte, see wait_bucket) and the number of its tasks (varint of Go''s encoding/binary)';
COMMENT ON COLUMN statistics.durations IS
    'histogram of the times from entered_at to SUCCESS or FAILED, in the format of waits';
COMMENT ON TABLE subscribe_messages IS
    'A message that a person gets once for a business object and template type. Written by internal/audience/notification. task_id has no foreign key, because the row is created before its task.';
COMMENT ON COLUMN subscribe_messages.template_id IS
    'template of the provider in the last attempt to send';
COMMENT ON COLUMN subscribe_messages.task_id IS
    'the last task of the message; the state of the message is the state of this task';
COMMENT ON COLUMN subscribe_messages.submitted_by IS
    'the user who first requested the message; empty: its task no longer existed when this column was added';
COMMENT ON COLUMN subscribe_messages.is_companys IS
    'true: the only message with its key in the company; false: the row is of a version in which each submitter had its own messages';
COMMENT ON VIEW switches IS
    'View with one row: whether task_switches can return a row for any task. may_hold covers all switches except users, has_disabled_users covers users. Claims read it, so that they call task_switches only if needed; disabled users are common.';
COMMENT ON TABLE tag_contacts IS
    'A contact of a tag. Written by internal/audience/contact. tag_id has no foreign key: a tag can contain a million contacts, and is deleted at once; a sweep then deletes its rows here, by deleted_tags.';
COMMENT ON TABLE tags IS
    'A tag of a company, which groups contacts. Written by internal/audience/contact; contacts by triggers of tag_contacts.';
COMMENT ON COLUMN tags.contacts IS
    'the number of its contacts';
COMMENT ON TABLE task_counts IS
    'The numbers of tasks of one company in each state, without the facts that are not folded yet. Written by internal/insight/history, which folds facts.';
COMMENT ON COLUMN task_counts.pending_new IS
    'PENDING with retry_count 0';
COMMENT ON COLUMN task_counts.pending_retry IS
    'PENDING with retry_count above 0';
COMMENT ON TABLE task_job_parts IS
    'Tasks that a job has not changed yet, some hundred in the order of their ids. Written by internal/dispatch/job, which deletes a part in the transaction that changes its tasks.';
COMMENT ON TABLE task_jobs IS
    'A request to cancel or requeue all tasks of a filter, and its progress. Written by internal/dispatch/job; a portion of tasks and its counts are changed in one transaction.';
COMMENT ON COLUMN task_jobs.filter IS
    'the filter of the request; the selected tasks are in task_job_parts';
COMMENT ON COLUMN task_jobs.skipped_by IS
    'skipped by reason, as the API names reasons: {"task.expired": 3}. Tasks that a server skipped which does not know this column are missing';
COMMENT ON TABLE task_partitions IS
    'The days that have or had a partition of messages and a partition of report_logs. Written by the functions task_partition_make and task_partition_drop, in the transaction that creates or drops the partitions.';
COMMENT ON COLUMN task_partitions.last_day IS
    'the day after its last one';
COMMENT ON COLUMN task_partitions.dropped_at IS
    'null: the partitions exist';
COMMENT ON COLUMN task_partitions.history_at IS
    'the time since which the partition is history: its tasks are settled, and it is in the tablespace history.tablespace; null: not yet';
COMMENT ON COLUMN task_partitions.imported_at IS
    'the time at which the partition was imported from an export, or created again for the tasks that were kept when it was dropped: its retention begins again; null: neither';
COMMENT ON COLUMN task_partitions.exported_late IS
    'the ids, in order, of the tasks that the last export skipped because they had not ended; null: no tasks';
COMMENT ON COLUMN task_partitions.late_tasks IS
    'number of tasks that were moved to the default partition when the partition was dropped; null: not dropped, or dropped by a server that did not know the column';
COMMENT ON COLUMN task_partitions.held_by IS
    'the reason why the last run of the sweep could not make the partition history or drop it: no_folder, too_many_late, locked or failed; null: it could, or did not try';
COMMENT ON TABLE templates IS
    'A text for submissions. Written by internal/dispatch/template.';
COMMENT ON COLUMN templates.send_type IS
    'realtime: sent at once; scheduled: sent at the next full interval of the setting sms.scheduled_every_seconds, unless the submission has its own time';
COMMENT ON COLUMN templates.given_no IS
    'template_no as an administrator chose it; null: it is derived from the id';
COMMENT ON COLUMN templates.status IS
    'messages can use only active templates; voided is final';
COMMENT ON COLUMN templates.version IS
    'counts the changes of template_content, language, translations and sign; 1: unchanged since its creation';
COMMENT ON TABLE upload_parts IS
    '262,144 bytes of an upload, less in the last part. Written once by internal/audience/upload.';
COMMENT ON COLUMN uploads.size IS
    'bytes; null: the file is still being received, or its request was broken off';
COMMENT ON COLUMN uploads.used_by IS
    'the user of the file, as in "batch 17"; null: not used yet, and the file is deleted after an hour';
COMMENT ON COLUMN uploads.encoding IS
    'the encoding of the text, as its owner names it: a name of sheet.Encodings; null: the server detects it';
COMMENT ON TABLE webhook_deliveries IS
    'One post of an event: the last hundred of each webhook, and the last post of each event that another event waits for. Written by internal/events/webhook in the transaction that advances the webhook. The body of the post is not stored, because it can be created from feed again.';
COMMENT ON COLUMN webhook_deliveries.status_code IS
    'null: no answer arrived';
COMMENT ON COLUMN webhook_deliveries.error IS
    'null: the post was accepted';
COMMENT ON TABLE webhook_retries IS
    'An event up to after_id that a webhook must still post: the post failed, the event waits for an earlier event of its task, or it is replayed. Written by internal/events/webhook; deleted when the event is accepted, and with the event.';
COMMENT ON COLUMN webhook_retries.task_id IS
    'as feed.task_id: events of one task are posted in their order';
COMMENT ON COLUMN webhook_retries.due_at IS
    'null: the event waits for an earlier event of its task';
COMMENT ON TABLE webhook_secrets IS
    'A secret with which the posts of a webhook are signed, encrypted. Written by internal/events/webhook.';
COMMENT ON COLUMN webhook_secrets.valid_until IS
    'the secret was replaced, and still signs until this time; null: the current secret';
COMMENT ON TABLE webhooks IS
    'An address to which events of the feed are posted, and the position in the feed. Written by internal/events/webhook. A run reads events after after_id, posts them, and records the new after_id and the failed events in one transaction, guarded by the after_id that it read: each event is posted at least once, even if a server is killed.';
COMMENT ON COLUMN webhooks.user_id IS
    'only events of what this user submitted are posted; the webhook is deleted with the user. Null: all events of the company';
COMMENT ON COLUMN webhooks.owner IS
    'the group of webhooks in which it is counted';
COMMENT ON COLUMN webhooks.status IS
    'off: nothing is posted';
COMMENT ON COLUMN webhooks.rest_until IS
    'nothing is posted before this time; null: not paused';
COMMENT ON COLUMN webhooks.form IS
    'format and signature of posts: standard (Standard Webhooks), or smsgate (as in the app of SMSGate)';
COMMENT ON COLUMN webhooks.external_id IS
    'for the form smsgate: the id that the program gave, or a generated id; unique for one user. Null: another form';
COMMENT ON COLUMN reconciliations.to_at IS
    NULL;
COMMENT ON COLUMN sender_states.attempts_on IS
    'a day in the time zone of the sender; null: no lease yet';
COMMENT ON COLUMN subscribe_messages.sends IS
    'number of tasks';
COMMENT ON COLUMN contact_imports.added IS
    'contacts that did not exist';
COMMENT ON COLUMN contact_imports.changed IS
    'contacts that existed and were changed';

-- The tables and views lock_…: the lock of each is taken before its comment is written, so that the migration never waits for a running sweep. A lock that a
-- sweep holds at this moment keeps its former comment.
DO $$
DECLARE
    lock record;
    text text;
BEGIN
    FOR lock IN
        SELECT c.oid::regclass AS name, c.relkind AS kind, replace(substr(c.relname, 6), '_', '-') AS sweep, obj_description(c.oid, 'pg_class') AS former
        FROM pg_class c
        WHERE c.relnamespace = (SELECT m.relnamespace FROM pg_class m WHERE m.oid = 'messages'::regclass) AND c.relname LIKE 'lock\_%' AND c.relkind IN ('r', 'v')
        ORDER BY c.relname COLLATE "C"
    LOOP
        text := CASE
            WHEN lock.kind = 'v' THEN 'locks ' || substring(lock.former FROM 'lock_\w+') || ', for servers of version 1.0.0'
            ELSE 'no rows: the server that does ' || lock.sweep || ' locks the table, so that only one does it'
        END;
        IF lock_table_try(lock.name) THEN
            EXECUTE format('COMMENT ON %s %s IS %L', CASE lock.kind WHEN 'v' THEN 'VIEW' ELSE 'TABLE' END, lock.name, text);
        END IF;
    END LOOP;
END $$;
