-- migrate:up
COMMENT ON SCHEMA lksms IS
    'Objects with which a role of sql_roles submits messages in its own transaction, see docs/integrations.md. The schema contains nothing else.';
COMMENT ON FUNCTION lksms.enqueue(phone_number text, content text, dedup_key text, message_type text, priority integer, expect_send_time timestamp with time zone, expires_at timestamp with time zone, sign text, source text, test boolean, template_no text, params jsonb, language text) IS
    'Submits a message in the transaction of the caller, and returns the id of its task. A NULL parameter is not set. See docs/integrations.md.';
COMMENT ON FUNCTION lksms.enqueue_all(messages jsonb) IS
    'Submits up to 1000 messages, all or none, and returns the ids of their tasks by position, counted from 1. Each message is an object with the parameters of enqueue.';
COMMENT ON FUNCTION alert_rank(level text) IS
    'Returns the rank of alerts.level: the more severe the level, the larger the rank.';
COMMENT ON FUNCTION batches_feed() IS
    'Trigger of batches: stages the event batch.finished, if the events of the company are recorded.';
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
COMMENT ON FUNCTION held_due_at() IS
    'Returns the due_at of a task that waits until its batch is resumed. It is the largest value that queue allows, so no statement treats such a task as due.';
COMMENT ON FUNCTION is_due(at timestamp with time zone, longest_wait interval) IS
    'Returns whether a time has come that was set at most longest_wait ahead. A time that is further ahead was set before the clock was set back, and counts as come. One more minute is allowed, because transactions begin at different times.';
COMMENT ON FUNCTION lock_of_version_before(key bigint) IS
    'Takes an advisory lock. Only servers before version 1.0 call it; the next version drops it.';
COMMENT ON FUNCTION lock_table(locked regclass) IS
    'Waits until no other transaction holds the lock of lock_table_try, and holds the lock until the end of the transaction.';
COMMENT ON FUNCTION lock_table_try(locked regclass) IS
    'Locks a table until the end of the transaction, and returns false while another transaction holds this lock.';
COMMENT ON FUNCTION note_changer() IS
    'Records the user who requested a change of a row, see postgres.As.';
COMMENT ON FUNCTION notifications_feed() IS
    'Trigger of notifications: stages that a notification has possibly ended, if the events of its company are recorded.';
COMMENT ON FUNCTION number_digits(number text) IS
    'Returns the digits, as ASCII, of a phone number in any notation that internal/dispatch/phone reads. It finds candidates; internal/dispatch/phone decides which number each of them is.';
COMMENT ON FUNCTION phones_end() IS
    'Trigger of senders: deletes the phone of a deleted sender.';
COMMENT ON FUNCTION phones_end_user() IS
    'Trigger of phones: deletes the user of a deleted phone.';
COMMENT ON FUNCTION pool_waits(of_pool bigint, since timestamp with time zone) IS
    'Returns whether a task of the pool has been due since the given time or longer, among the tasks that senders take first.';
COMMENT ON FUNCTION queue_transactions() IS
    'Returns the open transactions that lock rows of queue, as claims do. A claim that began before a change of the directory can still lease tasks that the change holds; a later claim cannot.';
COMMENT ON FUNCTION sender_serves(of_sender bigint, of_company bigint) IS
    'Returns whether a company can name a sender for its tasks, and the sender can take them. Either an active route of the company names the sender; or the sender is shared, no route names it, and the company uses shared senders. A sender that is off serves; a retired sender does not.';
COMMENT ON FUNCTION sender_silences(silent_after interval, noted_apart interval) IS
    'Returns for each app whether it is silent: it has not polled for silent_after plus slack. slack is the delay with which its polls are stored: zero if a route names the app, small if tasks have waited in its shared pool for longer than silent_after, otherwise noted_apart. The sweep of internal/dispatch/sender stores the polls by the same rule.';
COMMENT ON COLUMN users.app_id IS
    'with the role send: the only sender_no for which the user can claim and report; null: any';
COMMENT ON COLUMN users.top_priority IS
    'the most urgent priority that its submissions can request';
COMMENT ON COLUMN users.version IS
    'incremented by each update; a caller names the version that it read';
COMMENT ON COLUMN users.has_company IS
    'true: the user sees only this company; false: company_id only defines for which company the user submits, and a read user sees every company';
COMMENT ON TABLE sql_inbox IS
    'A message that was submitted by SQL, until it is a task. Inserted by lksms.enqueue in the transaction of its caller. This transaction can be long, so the insert locks no row for which others wait. internal/transport/sqlinbox creates the task and deletes the row in one transaction. There are no foreign keys, because they would lock rows of companies.';
COMMENT ON COLUMN sql_inbox.task_id IS
    'the id that the task will have, and that the caller got; a repeated message has an id that is never used';
COMMENT ON COLUMN sql_inbox.source_ip IS
    'the address of the caller''s connection to PostgreSQL; null: the connection uses a socket';
COMMENT ON COLUMN sql_inbox.is_repeat IS
    'true: an earlier message has the same dedup key, so the row is only logged and creates no task';
COMMENT ON COLUMN sql_inbox.priority IS
    'null: the priority of the message type';
COMMENT ON COLUMN sql_inbox.created_at IS
    'the time of the submission; its transaction was committed later';
COMMENT ON COLUMN sql_inbox.tries IS
    'how often the database rejected the creation of the task of this message alone';
COMMENT ON COLUMN sql_inbox.due_at IS
    'the next try is not before this time; later than created_at after a failed try';
COMMENT ON FUNCTION sql_inbox_check_content(given sql_inbox, place integer) IS
    'Rejects a text that is blank, or longer than its message type allows.';
COMMENT ON FUNCTION sql_inbox_check_fields(given sql_inbox, content text, place integer) IS
    'Rejects fields that exclude or require each other. content is the value of the caller; given.content is null if a template is used.';
COMMENT ON FUNCTION sql_inbox_check_lengths(given sql_inbox, place integer) IS
    'Rejects a message with a field that is too long, too short, or malformed.';
COMMENT ON FUNCTION sql_inbox_check_number(caller users, phone_number text, place integer) IS
    'Rejects a text that is not a phone number, and a number of an unknown country.';
COMMENT ON FUNCTION sql_inbox_check_priority(caller users, given sql_inbox, place integer) IS
    'Rejects a priority that is more urgent than the user and the message type allow.';
COMMENT ON FUNCTION sql_inbox_check_template(caller users, given sql_inbox, place integer) IS
    'Rejects a template that does not exist, is not active, or belongs to other companies.';
COMMENT ON FUNCTION sql_inbox_check_times(given sql_inbox, place integer) IS
    'Rejects times that are in the past, too far ahead, or outside of the range of the server.';
COMMENT ON FUNCTION sql_inbox_first(given sql_inbox) IS
    'Returns the task of the first message with the same dedup key, or null.';
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
COMMENT ON FUNCTION sql_role_grant(role_name text) IS
    'Grants a role the required privileges in the schema lksms. It runs with the rights of its caller, who must own the schema. It fails while roles other than the owner can create functions in the schema of the tables: functions of lksms could call such a function instead of a function of PostgreSQL.';
COMMENT ON FUNCTION sql_role_revoke(role_name text) IS
    'Revokes the privileges that sql_role_grant granted, except CONNECT, which the role possibly needs for other purposes.';
COMMENT ON FUNCTION task_flow(batch_id bigint, submitted_by text) IS
    'Returns the flow of a task within its company: its batch, or else its submitter. Package queue computes the same value.';
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
COMMENT ON COLUMN messages.submitted_by IS
    'the username; a user with the role submit sees only its own tasks; empty: unknown';
COMMENT ON COLUMN messages.dedup_key IS
    'the submitter''s name for the message, as in dedup_keys; null: no key';
COMMENT ON COLUMN messages.pool_id IS
    'the pool in which the task was first queued';
COMMENT ON COLUMN messages.country_no IS
    'the country at the time of the submission; null: the number belongs to no known country';
COMMENT ON COLUMN messages.sign IS
    'the signature without brackets; null: the signature of the sender';
COMMENT ON COLUMN messages.is_test IS
    'marked as a test by its submitter; statistics count tests separately, and a setting can prevent their sending';
COMMENT ON COLUMN messages.expect_send_time IS
    'the time at which the submitter wants the message to be sent, or the next interval of a scheduled template; null: at once';
COMMENT ON COLUMN messages.expires_at IS
    'the message is not sent after this time; null: it never expires. A withdrawal sets an earlier time in queue';
COMMENT ON COLUMN messages.rendering_id IS
    'the rendering of a task of a notification, send-once message or batch; null: the task has its own text';
COMMENT ON COLUMN messages.on_unclear IS
    'overrides senders.on_unclear; null: the value of the sender';
COMMENT ON COLUMN messages.request_data IS
    'the unchanged request. For a message from a template, the member template, which no request has, contains the number, version and language of the text';
COMMENT ON COLUMN messages.traceparent IS
    'the header traceparent of the submission (W3C Trace Context); null: the submission had none';
COMMENT ON COLUMN messages.batch_id IS
    'the uploaded list of the task; null: no list. There is no foreign key, because each submission would lock the batch';
COMMENT ON COLUMN messages.sender_no IS
    'the only sender that is allowed to send the task; null: any sender of its pool';
COMMENT ON COLUMN messages.contact_values IS
    'the values of the placeholders ${contact.…} for this person. If set, the rendering is a template that is filled with its params and these values; null: the rendering is already filled';
COMMENT ON TABLE queue IS
    'A task that waits for a sender or is held by one. Written by internal/dispatch/queue: inserted with its message, updated when it is leased or waits again, deleted when the task is settled. It repeats the columns of the message that a claim and a report need, so that neither reads messages. There are no foreign keys, because each change would lock rows of other tables.';
COMMENT ON COLUMN queue.pool_id IS
    'the pool in which the task waits, or from which it was leased. There is no foreign key, because each insert would lock the row of the pool';
COMMENT ON COLUMN queue.rank IS
    'order between companies within a lane, by start-time fair queueing; valid only in the pool and priority in which it was given. A claim can swap the ranks of two tasks of a company, see flow_rank. null: not given yet';
COMMENT ON COLUMN queue.due_at IS
    'the task can be claimed from this time on; held_due_at(): the task is held';
COMMENT ON COLUMN queue.updated_at IS
    'the time of the last change of state; for a leased task the time of the claim';
COMMENT ON COLUMN queue.troubles IS
    'number of leases that were given back because their sender could not send';
COMMENT ON COLUMN queue.result IS
    'the reason of the retry, for operators; null: not retried yet';
COMMENT ON COLUMN queue.failed_app_id IS
    'sender_no of the last sender that failed with the task; a claim prefers other senders; null: no sender failed';
COMMENT ON COLUMN queue.processing_app_id IS
    'sender_no of the sender that holds the task; null: the task is not held';
COMMENT ON COLUMN queue.lease_id IS
    'the current lease, or the expired lease of a task that was taken back, which failed_app_id held; null: no lease, or its sender ended it';
COMMENT ON COLUMN queue.lease_sign IS
    'signature of the sender, used if the message has no signature; null: the sender has none';
COMMENT ON COLUMN queue.lease_limit IS
    'the limit of the claim';
COMMENT ON COLUMN queue.entered_at IS
    'the time at which the task could first be claimed: the due_at of its submission; for a requeued task the time of the requeue; for a task that was held before its first attempt the due_at of its release; null: the task was submitted before this column existed';
COMMENT ON COLUMN queue.was_claimed IS
    'the task had a lease before, even if retry_count is 0: a lease was released, or a settled task was requeued';
COMMENT ON COLUMN queue.is_test IS
    'as messages.is_test; also false for tasks that are older than this column';
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
COMMENT ON TABLE report_logs IS
    'What ended a lease or a task, reports that changed nothing, receipts of providers, and who requeued a task. Written by internal/dispatch/queue. A requeue clears the outcome of a row, and the erasure of a person clears its texts; nothing else changes rows. Partitioned like messages, so that all data of a task is dropped together.';
COMMENT ON COLUMN report_logs.app_id IS
    'sender_no; null: the row is not about a sender';
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
COMMENT ON TABLE alert_deliveries IS
    'The state of the notification of one receiver about one alert. Written by internal/insight/alert. receiver_id has no foreign key, because the row is kept when the receiver is deleted.';
COMMENT ON COLUMN alert_deliveries.told_at IS
    'the time at which the receiver was last notified that the alert fires: the call of a program, or the queueing of the messages to people; null: not yet';
COMMENT ON COLUMN alert_deliveries.end_told_at IS
    'the time at which the receiver was notified that the alert is resolved; null: not yet, or the receiver was never notified that the alert fires';
COMMENT ON COLUMN alert_deliveries.tries IS
    'number of tries that have an outcome; part of the dedup key of the next try';
COMMENT ON COLUMN alert_deliveries.failures IS
    'number of failed tries since the last successful try';
COMMENT ON COLUMN alert_deliveries.error IS
    'the reason why the last try failed, partly or completely; null: it succeeded, or there was no try';
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
COMMENT ON COLUMN alert_deliveries.escalated_at IS
    'the time at which the delivery escalated to other channels of the receiver, or to other receivers; null: it did not escalate';
COMMENT ON COLUMN alert_deliveries.escalated_from IS
    'the receiver whose delivery escalated to this delivery, which does not escalate further. There is no foreign key, as for receiver_id; null: the rule names the receiver';
COMMENT ON TABLE alert_receiver_states IS
    'The outcomes of the last calls of a receiver of the kind alertmanager, one row for each receiver. Written by internal/insight/alert. Separate from alert_receivers, because no admin changes it.';
COMMENT ON COLUMN alert_receiver_states.failing_since IS
    'the time of the first of the consecutive failed calls; null: the last call succeeded';
COMMENT ON COLUMN alert_receiver_states.failures IS
    'number of failed calls since the last successful call';
COMMENT ON COLUMN alert_receiver_states.next_call_at IS
    'the next call is not before this time, because a call failed or a server is calling';
COMMENT ON TABLE alert_receivers IS
    'People, or a program, that are notified of alerts. Written by internal/insight/alert.';
COMMENT ON COLUMN alert_receivers.kind IS
    'notification: notifies users, through channels; alertmanager: calls a program with the API of Alertmanager, at url';
COMMENT ON COLUMN alert_receivers.channels IS
    'There are no foreign keys: a deleted channel is an error of each delivery, and the other channels are still used';
COMMENT ON COLUMN alert_receivers.sealed_authorization IS
    'the encrypted header Authorization; null: no header';
COMMENT ON COLUMN alert_receivers.escalate_seconds IS
    'seconds after which an alert that was not sent to the receiver escalates; 0: never';
COMMENT ON COLUMN alert_rules.name IS
    'null: the rule is shown with its kind and level, in the language of the reader';
COMMENT ON COLUMN alert_rules.threshold IS
    'unit and direction depend on the kind; null: for wait_time the setting of its level, for balance_low the low_warning of each sender; pool_unserved and provider_trouble have no threshold';
COMMENT ON COLUMN alert_rules.for_seconds IS
    'seconds for which the condition must hold before the alert fires';
COMMENT ON COLUMN alert_rules.resolve_seconds IS
    'seconds for which the condition must not hold before the alert is resolved';
COMMENT ON COLUMN alert_rules.repeat_seconds IS
    'seconds after which a firing alert is notified again; 0: never';
COMMENT ON COLUMN alert_rules.receivers IS
    'ids of alert_receivers, which cannot be deleted while they are listed here; null: all receivers';
COMMENT ON TABLE alerts IS
    'One incident: a condition of a rule about one subject, from its start to its end. Written by internal/insight/alert, which deletes old rows. There are no foreign keys: an alert is kept, with the names of its rule and its subject, when these are deleted.';
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
COMMENT ON COLUMN alerts.cleared_at IS
    'the time since which the condition does not hold; null: it holds';
COMMENT ON COLUMN alerts.only_own_channel IS
    'whether people can be notified only through the channel that the alert is about, or for an alert about all channels, only through one channel';
COMMENT ON TABLE announcements IS
    'The text data and the people of the notifications of one request. Written by internal/audience/notification with the first notification of the request. user_ids has no foreign key, because a person can be without a contact.';
COMMENT ON COLUMN announcements.tag IS
    'the tag whose contacts get the notifications; user_ids is then empty; null: the people are in user_ids';
COMMENT ON COLUMN audit.at IS
    'the beginning of the transaction of the change';
COMMENT ON COLUMN audit.actor IS
    'name of the user who requested the change, or cli: and the name of the user of the operating system; null: the service itself or an SQL statement changed the row';
COMMENT ON COLUMN audit.actor_role IS
    'role of the user at that time; null: not a user of the service';
COMMENT ON COLUMN audit.entity_key IS
    'name of the entity in the API; parts are joined by a slash';
COMMENT ON COLUMN audit.company_no IS
    'company that the entity belongs to or is; null: the entity belongs to no company';
COMMENT ON COLUMN audit.before IS
    'for a change: the old values of the changed columns; for a deletion: all columns; null: the entity is new';
COMMENT ON COLUMN audit.after IS
    'for a change: the new values of the changed columns; for a creation: all columns; null: the entity was deleted';
COMMENT ON TABLE batch_acts IS
    'An action of a user on a batch. Written by internal/audience/batch, in the statement or the transaction of the change.';
COMMENT ON COLUMN batch_acts.username IS
    'There is no foreign key, because the configured user is in no table';
COMMENT ON TABLE batch_counts IS
    'The numbers of tasks of a batch in each state, by sender, without the facts that are not folded yet. Written by internal/audience/batch, which consumes facts.';
COMMENT ON TABLE batch_rows IS
    'A row of a batch with the result of its check. Written by internal/audience/batch: inserted once, and changed once, when it becomes a task or its submission is rejected. Partitioned by batch_id, see number_partitions.';
COMMENT ON COLUMN batch_rows.batch_id IS
    'There is no foreign key: its check took two thirds of the time when a million rows were added. Statements that add or delete rows have locked the batch';
COMMENT ON COLUMN batch_rows.row_no IS
    'the number of the row in the list, as a spreadsheet program shows it; for a tag the position of the contact';
COMMENT ON COLUMN batch_rows.recipient IS
    'the address on the channel: a phone number in E.164; for an invalid row the value in the list';
COMMENT ON COLUMN batch_rows.content IS
    'the text without signature, on a channel other than sms its beginning; empty: it could not be rendered';
COMMENT ON COLUMN batch_rows.code IS
    'the reason why the row is not sent: 1 phone number, 2 content, 3 segments, 4 signature, 5 duplicate, 6 blocked, 7 rejected at its submission; null: the row is valid';
COMMENT ON COLUMN batch_rows.fault IS
    'the field, the rule that the field violates, and the limit of the rule; null: code says everything';
COMMENT ON COLUMN batch_rows.sign IS
    'the signature of the row; null: the signature of the batch';
COMMENT ON TABLE batch_rows_default IS
    'Rows of batches from before partitions were introduced.';
COMMENT ON TABLE facts IS
    'Changes by one statement to the tasks of one company, pool, type, country and batch that one sender holds, held or reported; or to tasks that no sender holds. Tests are counted separately. Written by triggers of queue and report_logs only. internal/insight/history deletes the rows within seconds, and adds them to the figures of all consumers in the same transaction; until then, readers add them to these figures. There is no cursor: a deleted row is consumed exactly once, in whatever order transactions commit, and also after a dump is restored into another cluster.';
COMMENT ON COLUMN facts.company_id IS
    'There is no foreign key, because each change of a task would lock the company';
COMMENT ON COLUMN facts.at IS
    'the time of the change: for leases leased_at, for reports created_at, the latest of the row';
COMMENT ON COLUMN facts.pending_new IS
    'change of the number of PENDING tasks with retry_count 0';
COMMENT ON COLUMN facts.pending_retry IS
    'change of the number of PENDING tasks with retry_count above 0';
COMMENT ON COLUMN facts.processing IS
    'change of the number of PROCESSING tasks, which the sender holds';
COMMENT ON COLUMN facts.success IS
    'change of the number of SUCCESS tasks';
COMMENT ON COLUMN facts.failed IS
    'change of the number of FAILED tasks; negative if tasks were requeued';
COMMENT ON COLUMN facts.leases IS
    'number of leases that the sender claimed';
COMMENT ON COLUMN facts.reported_failed IS
    'number of leases that the sender ended by reporting FAILED, even if the task is retried';
COMMENT ON COLUMN facts.sender_no IS
    'null: no sender. There is no foreign key: each claim would lock the sender, and app_id can be any text for tasks that were inserted by hand';
COMMENT ON COLUMN facts.pool_id IS
    'as in queue and report_logs; pool_channels contains its channel; null: report_logs has no pool';
COMMENT ON COLUMN facts.message_type IS
    'as messages.message_type; null: report_logs has no message type';
COMMENT ON COLUMN facts.submitted IS
    'number of stored tasks, including tasks of people without an address, which failed at once';
COMMENT ON COLUMN facts.requeued IS
    'number of settled tasks that were requeued';
COMMENT ON COLUMN facts.delivered IS
    'number of receipts of delivered messages';
COMMENT ON COLUMN facts.undelivered IS
    'number of receipts of undelivered messages';
COMMENT ON COLUMN facts.waits IS
    'one byte for each task that was claimed for the first time: wait_bucket of the time since entered_at, in any order; null: no such task';
COMMENT ON COLUMN facts.durations IS
    'one byte for each task that became SUCCESS or FAILED: wait_bucket of the time since entered_at, in any order; null: no such task';
COMMENT ON COLUMN facts.batch_id IS
    'as messages.batch_id; null: no batch';
COMMENT ON COLUMN facts.country_no IS
    'as messages.country_no; null: no country';
COMMENT ON COLUMN facts.accepted_at IS
    'for receipts of delivered messages: the minute in which their sender reported SUCCESS; null: for all other rows, or if no report of this sender settled the task';
COMMENT ON VIEW batch_totals IS
    'The exact figures of each batch and sender: batch_counts plus the facts that are not folded yet. Both are read in one snapshot.';
COMMENT ON TABLE batches IS
    'A list of messages that a company uploaded, and its progress: checked, confirmed, fed to the queue. Written by internal/audience/batch. Every change of status is guarded by the status that it expects.';
COMMENT ON COLUMN batches.submitted_by IS
    'the username. There is no foreign key, because the configured user is in no table';
COMMENT ON COLUMN batches.priority IS
    'as messages.priority; null: the priority of the message type';
COMMENT ON COLUMN batches.upload_id IS
    'the uploaded list; null: the list is checked, or the rows come from a tag';
COMMENT ON COLUMN batches.tag IS
    'the tag whose contacts are the rows; empty: several tags select the contacts; null: an uploaded list';
COMMENT ON COLUMN batches.template_no IS
    'the template that gave content; null: content was in the request';
COMMENT ON COLUMN batches.template_id IS
    'There is no foreign key, because the template can be deleted';
COMMENT ON COLUMN batches.template_language IS
    'the language of content; null: unknown';
COMMENT ON COLUMN batches.is_deferred IS
    'when the batch is confirmed, its time is set to the next full interval, as the template requires';
COMMENT ON COLUMN batches.sender_no IS
    'the only sender that is allowed to send the batch; null: any sender of the routes';
COMMENT ON COLUMN batches.dedup IS
    'which rows are duplicates: none, phone (the address of an earlier row), or row (the address, signature and text of an earlier row)';
COMMENT ON COLUMN batches.is_confirmed IS
    'the batch starts when its check has ended; until then nothing is sent';
COMMENT ON COLUMN batches.confirmed_by IS
    'null: not confirmed, or confirmed by its request (auto_confirm)';
COMMENT ON COLUMN batches.status IS
    'checking, ready, running, paused, finished or cancelled. finished and cancelled are final, except that a requeue of failed tasks sets a finished batch to running';
COMMENT ON COLUMN batches.is_held IS
    'tasks of the batch are possibly held, because the batch is or was paused';
COMMENT ON COLUMN batches.is_settled IS
    'a sweep has no work: the batch waits to be confirmed, or has ended and none of its tasks waits or is leased';
COMMENT ON COLUMN batches.is_read IS
    'for a tag: the rows are those of the contacts at the start of the batch';
COMMENT ON COLUMN batches.last_row IS
    'the last row of the list that is stored in batch_rows';
COMMENT ON COLUMN batches.fed_row IS
    'the last row that became a task or was rejected at its submission: no row up to it is read again';
COMMENT ON COLUMN batches.fault IS
    'the reason why the server cancelled the batch, as batch_rows.fault; null: the server did not cancel it';
COMMENT ON COLUMN batches.checked_at IS
    'the time at which the check was complete';
COMMENT ON COLUMN batches.started_at IS
    'the time at which the first row became a task';
COMMENT ON COLUMN batches.changed_by IS
    'the user who last confirmed, paused, resumed or cancelled the batch; null: no user, or older than this column. There is no foreign key, as for submitted_by';
COMMENT ON COLUMN batches.default_region IS
    'ISO 3166-1 code of the region of numbers without a country code in the list; empty: the region of the company when the list is read';
COMMENT ON COLUMN batches.sign_column IS
    'the column with the signatures of the rows; null: every row has the signature of the batch';
COMMENT ON COLUMN batches.channel IS
    'the name of the channel. There is no foreign key, because the channel can be deleted before the batch';
COMMENT ON COLUMN batches.subject IS
    'the title with its placeholders; null: a short message, or no title';
COMMENT ON COLUMN batches.biz_type IS
    'the business type of the notification template that gave the text; null: another text';
COMMENT ON COLUMN batches.rendering_id IS
    'the common text of its rows; null: short messages, whose texts are in batch_rows';
COMMENT ON COLUMN batches.tags_all IS
    'each row is a contact with all of these tags';
COMMENT ON COLUMN batches.tags_any IS
    'each row is a contact with at least one of these tags; empty: no such condition';
COMMENT ON COLUMN batches.tags_none IS
    'no row is a contact with one of these tags';
COMMENT ON COLUMN batches.encoding IS
    'the encoding with which the list is read; null: a workbook, a tag, or unknown';
COMMENT ON COLUMN batches.is_encoding_doubtful IS
    'encoding was guessed, and the text could also be Latin letters in another encoding (internal/audience/sheet)';
COMMENT ON COLUMN business_ends.recorded_at IS
    'the time at which this row was stored; ended_at is the caller''s time, which can be much earlier';
COMMENT ON TABLE business_locks IS
    'A lock of the transaction that processes business events of the tasks whose hash modulo 256 is its slot. The rows never change.';
COMMENT ON TABLE callbacks IS
    'An HTTP callback of a provider, stored unchanged. Written by internal/dispatch/receipt, which deletes old rows. sender_no has no foreign key, so that a callback does not prevent the deletion of its sender.';
COMMENT ON COLUMN callbacks.body IS
    'the body, without characters that PostgreSQL cannot store';
COMMENT ON COLUMN callbacks.repeats IS
    'how often the same body arrived again';
COMMENT ON TABLE channel_countries IS
    'A country that a channel serves, or that is switched off for the channel. If no country is on, channels.any_country decides whether the channel serves the other countries. Written by internal/dispatch/directory.';
COMMENT ON COLUMN channels.version IS
    'incremented by each update; a caller names the version that it read';
COMMENT ON COLUMN channels.retry_minutes IS
    'for driven senders: minutes before each retry; the length of the array is the number of retries; null: the configuration of the server';
COMMENT ON COLUMN channels.status IS
    'on or off; off: tasks of the channel are held';
COMMENT ON COLUMN channels.any_country IS
    'the channel serves every country that is not switched off in channel_countries; used only while no country there is on';
COMMENT ON TABLE companies IS
    'A tenant: it owns users, tasks, routes and contacts, and is the unit of fairness. Written by internal/dispatch/directory. A migration creates the first row, default.';
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
COMMENT ON TABLE company_notification_templates IS
    'The title and text of a business type on a channel, of one company, which replaces the row in notification_templates. Written by internal/audience/notification.';
COMMENT ON COLUMN company_notification_templates.html IS
    'the content as HTML, for e-mail; null: no HTML';
COMMENT ON COLUMN company_notification_templates.external_id IS
    'template of the provider; empty: no template';
COMMENT ON COLUMN company_notification_templates.sign IS
    'signature of notifications without their own signature; null: the signature of the sender';
COMMENT ON COLUMN company_notification_templates.is_enabled IS
    'false: the template of the platform is used';
COMMENT ON TABLE contact_counts IS
    'The number of contacts of a company; a company that never had contacts has no row. Written by triggers of contacts. internal/audience/contact locks the row before it changes contacts or tags of the company, so that these changes wait for each other.';
COMMENT ON TABLE contact_import_errors IS
    'A row of a list that was not stored; for each import the first 10,000 such rows. Written by internal/audience/contact with its portion. It contains no value of the row.';
COMMENT ON COLUMN contact_import_errors.failure IS
    'the first error: a fault.Field as JSON';
COMMENT ON TABLE contact_imports IS
    'An uploaded list of contacts, and the progress of storing its rows. Written by internal/audience/contact: a portion of rows and its counts are stored in one transaction, so that any server can continue after row_no.';
COMMENT ON COLUMN contact_imports.upload_id IS
    'the uploaded list. There is no foreign key, because the upload is deleted when the import ends; null: the import has ended';
COMMENT ON COLUMN contact_imports.sheet IS
    'the sheet of a workbook; empty: the first sheet that is not hidden';
COMMENT ON COLUMN contact_imports.tag IS
    'the tag to which the contacts are added; null: no tag';
COMMENT ON COLUMN contact_imports.row_no IS
    'number of the last processed row, as a spreadsheet program shows it';
COMMENT ON COLUMN contact_imports.rows IS
    'processed rows, except empty rows';
COMMENT ON COLUMN contact_imports.invalid IS
    'rows that were not stored';
COMMENT ON COLUMN contact_imports.failure IS
    'the reason why the rest of the list could not be read: a fault.Field as JSON; null: no error';
COMMENT ON COLUMN contact_imports.created_by IS
    'the user. There is no foreign key, because the configured user is in no table';
COMMENT ON COLUMN contact_imports.default_region IS
    'region (ISO 3166-1) of phone numbers without a country code; empty: the region of the company';
COMMENT ON TABLE contacts IS
    'A person whom a company can notify, with the addresses on each channel. Written by internal/audience/contact.';
COMMENT ON COLUMN contacts.name IS
    'the name of the person in messages; null: unknown';
COMMENT ON COLUMN countries.dial_prefix IS
    'the prefix without the +; if several prefixes match a number, the longest counts';
COMMENT ON COLUMN countries.version IS
    'incremented by each update; a caller names the version that it read';
COMMENT ON TABLE credentials_version IS
    'One row: the last transaction that changed users or API keys. Written by triggers of these tables. Servers compare it with the version of the credentials in their memory. The row is missing until the first change.';
COMMENT ON TABLE daily_totals IS
    'What a sender did for a company on one day of the setting monitoring.time_zone, in messages of one type to one country. Tests have separate rows: no company sees them, but a provider counts them. Written by internal/insight/reconcile alone, in the transaction that deletes the facts; kept for ever.';
COMMENT ON COLUMN daily_totals.day IS
    'the day on which the attempts ended, and on which the provider accepted them';
COMMENT ON COLUMN daily_totals.company_id IS
    'There is no foreign key, because the row is kept when the company is deleted';
COMMENT ON COLUMN daily_totals.sender_no IS
    'There is no foreign key, as for facts.sender_no';
COMMENT ON COLUMN daily_totals.message_type IS
    'as messages.message_type; empty: unknown';
COMMENT ON COLUMN daily_totals.country_no IS
    'empty: no country, as on channels other than SMS';
COMMENT ON COLUMN daily_totals.accepted IS
    'attempts that were reported SUCCESS';
COMMENT ON COLUMN daily_totals.delivered IS
    'receipts of delivered messages, on the day on which the message was accepted';
COMMENT ON COLUMN daily_totals.segments IS
    'segments of the accepted messages';
COMMENT ON COLUMN daily_totals.cost IS
    'cost of the segments, by the price of the sender when they were counted; in 1/10000 of the currency';
COMMENT ON TABLE dedup_keys IS
    'The task that a submitter named with a dedup_key. Written by internal/dispatch/queue with the message, and kept when the message is dropped, for as long as the setting history.dedup_keep_days says.';
COMMENT ON COLUMN dedup_keys.made_on IS
    'the day (UTC) of the submission; for a key that is older than the column the day of the upgrade';
COMMENT ON TABLE default_contents IS
    'The text for a phone number when a submission has no text; it is sent once. Written by internal/dispatch/template.';
COMMENT ON COLUMN default_contents.phone_number IS
    'the number as the caller wrote it';
COMMENT ON COLUMN default_contents.recipient IS
    'the number in E.164, so that it is unique in every notation';
COMMENT ON COLUMN default_contents.is_sent IS
    'a submission used the content; an administrator can reset it';
COMMENT ON COLUMN default_contents.company_id IS
    'the company whose users send the content; unique together with recipient';
COMMENT ON TABLE deleted_tags IS
    'A deleted tag that possibly still has rows in tag_contacts. Written by a trigger of tags, and deleted by internal/audience/contact after these rows.';
COMMENT ON TABLE deliveries IS
    'A call of a provider to send a task: the provider''s number of the message from a report, or the reason why the outcome is unclear. Written by internal/dispatch/queue (reports) and internal/dispatch/push (unclear outcomes). There are no foreign keys, because each insert would lock rows of other tables.';
COMMENT ON COLUMN deliveries.recipient IS
    'the recipient of the task, which matches receipts';
COMMENT ON COLUMN deliveries.provider_no IS
    'the number that the provider gave to the message; null: it is unknown whether the message was sent';
COMMENT ON COLUMN deliveries.error IS
    'the reason why it is unknown whether the message was sent; null: the provider accepted the message';
COMMENT ON COLUMN deliveries.answer IS
    'the unchanged answer of the provider, without secrets, at most 2,000 characters; null: no answer, or the report contains it';
COMMENT ON TABLE directory_version IS
    'One row: the last transaction that changed the directory: companies, channels, countries, pools, routes, or a column of senders that concerns others. Written by triggers of these tables. Servers compare it with the version of the directory in their memory. The row is missing until the first change.';
COMMENT ON TABLE disk_spaces IS
    'The file system of a folder that one server uses. Written by internal/insight/alert on that server, once a minute; rows of stopped servers are deleted after a day.';
COMMENT ON COLUMN disk_spaces.free_bytes IS
    'the space that an ordinary user can still use';
COMMENT ON COLUMN notification_templates.external_id IS
    'template of the provider; empty: no template';
COMMENT ON COLUMN notification_templates.sign IS
    'signature of notifications without their own signature; null: the signature of the sender';
COMMENT ON COLUMN notification_templates.html IS
    'the content as HTML, for e-mail; null: no HTML';
COMMENT ON TABLE erasures IS
    'A request to erase a person from the stored data of a company. Written by internal/audience/erasure, which clears the identity of the person when the erasure has ended.';
COMMENT ON COLUMN erasures.user_ids IS
    'contacts.user_id of the person; empty: finished, or unknown';
COMMENT ON COLUMN erasures.recipients IS
    'phone numbers in E.164 and e-mail addresses of the person; empty: finished, or unknown. A message to one of them is erased unless it was created for another user';
COMMENT ON COLUMN erasures.asked_recipients IS
    'those of recipients that the request named: every contact with one of them, and every message to one of them, belongs to the person; empty: finished, or the request named a user';
COMMENT ON COLUMN erasures.held IS
    'tasks that senders held, and lists that were being read, at the last check';
COMMENT ON COLUMN erasures.counts IS
    'the number of erased rows, by kind';
COMMENT ON COLUMN erasures.exports IS
    'folders of exports of history that contain erased tasks';
COMMENT ON COLUMN erasures.next_at IS
    'the time at which the erasure continues';
COMMENT ON TABLE events IS
    'An operator event: a changed setting, a sender with a low balance, an open circuit breaker, a slow queue. Written by internal/insight/alert, internal/dispatch/push, internal/dispatch/queue and internal/platform/setting in the transaction of the change.';
COMMENT ON TABLE fair_ranks IS
    'The last range of ranks that a company got in a pool and priority (start-time fair queueing: a task uses 1 / weight of its company). Written by internal/dispatch/queue, and deleted with its pool by internal/dispatch/directory. pool_id has no foreign key, because each submission would lock the pool.';
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
COMMENT ON COLUMN feed.submitted_by IS
    'the user who submitted the task or the batch; empty: no longer known';
COMMENT ON COLUMN feed.task_id IS
    'null: the event is not about a task';
COMMENT ON COLUMN feed.log_id IS
    'the row of report_logs with the event; null: the event is not about a task';
COMMENT ON COLUMN feed.at IS
    'the time of the event';
COMMENT ON COLUMN feed.data IS
    'the data of the event; null: the data is read from the task';
COMMENT ON TABLE feed_listeners IS
    'A company whose events are recorded, because it has webhooks, or its events were pulled within a week. Written by internal/events/feed and internal/events/webhook. Nothing is recorded for a company without a row here.';
COMMENT ON COLUMN feed_listeners.since_id IS
    'the id of feed after which all events of the company were recorded';
COMMENT ON COLUMN feed_listeners.is_pushed IS
    'true: an active webhook exists';
COMMENT ON COLUMN feed_listeners.listens_until IS
    'events are recorded until this time, with or without a webhook';
COMMENT ON TABLE feed_staged IS
    'A future row of feed, stored in the transaction of its event. Written by triggers of report_logs, batches, notifications and events, only if the events are recorded. internal/events/feed moves the row to feed within a second. For one task, a later event has a larger id.';
COMMENT ON COLUMN feed_staged.company_id IS
    '0: an event of the service itself';
COMMENT ON COLUMN feed_staged.submitted_by IS
    'null: an event of a task; its message contains the user';
COMMENT ON TABLE feed_state IS
    'One row: the progress of the deletion of feed. Written by internal/events/feed in the transaction of the deletion.';
COMMENT ON COLUMN feed_state.pruned_id IS
    'the largest deleted id';
COMMENT ON TABLE fruitless_submissions IS
    'A submission that created no task: it was rejected, or it repeated a dedup_key. Written by internal/dispatch/queue.';
COMMENT ON COLUMN fruitless_submissions.task_id IS
    'the task that was repeated; null: the submission was rejected';
COMMENT ON COLUMN fruitless_submissions.phone_number IS
    'the number as the caller wrote it; null: not given or unreadable';
COMMENT ON COLUMN fruitless_submissions.company_id IS
    'the company of the submitter. There is no foreign key, as in messages; null: stored before this column existed';
COMMENT ON TABLE idempotency_keys IS
    'The response to a request with an Idempotency-Key. Written by internal/platform/idempotency, which deletes rows after a day. username has no foreign key, because the configured user is in no table.';
COMMENT ON COLUMN idempotency_keys.operation IS
    'operation of the API; a caller can use the same key for different operations';
COMMENT ON TABLE inbounds IS
    'A description how the posts of one other program become messages of a company. Written by internal/transport/inbound; the erasure of a person removes a number from phone_numbers.';
COMMENT ON COLUMN inbounds.preset IS
    'name of the description that internal/transport/inbound has for a program; custom: no such description';
COMMENT ON COLUMN inbounds.description IS
    'members that replace those of the preset; null: the unchanged preset';
COMMENT ON COLUMN inbounds.phone_numbers IS
    'recipients of every post, in E.164; null: the body of the post names them; empty: an erasure removed the last recipient, and posts are rejected';
COMMENT ON COLUMN inbounds.priority IS
    'null: the priority of the message type';
COMMENT ON COLUMN inbounds.template_no IS
    'template of the messages; null: the description contains their text. There is no foreign key: a deleted template is an error of each post';
COMMENT ON COLUMN inbounds.sign IS
    'null: the signature of the template or the sender';
COMMENT ON COLUMN inbounds.repeat_seconds IS
    'seconds after which a repeated post is sent again; null: never';
COMMENT ON TABLE notifications IS
    'An announcement to some people on one channel. Written by internal/audience/notification. The texts of its messages are in renderings, and the messages are tasks of these renderings. submitted_by has no foreign key, because the configured user is in no table.';
COMMENT ON COLUMN notifications.biz_type IS
    '0 task created, 1 node done, 2 orbit reminder, 3 task finished, 4 task abnormal, 5 node timeout; callers can use other numbers';
COMMENT ON COLUMN notifications.biz_task_id IS
    'the business task of a business event; null: the notification was not created by a business event';
COMMENT ON COLUMN notifications.dedup_key IS
    'unique among the visible notifications of a channel and a company whose keys have the same owner, see dedup_key_owner; null: no key';
COMMENT ON COLUMN notifications.next_run_at IS
    'the time at which messages are sent next; null: no further run';
COMMENT ON COLUMN notifications.repeat_minutes IS
    'minutes from the end of a run to the next run; null: no repetition';
COMMENT ON COLUMN notifications.started_at IS
    'for a node timeout: the time at which the node started';
COMMENT ON COLUMN notifications.ended_as IS
    '1 set to success, 2 could not be sent, 3 cancelled, 4 ended abnormally, 5 partly failed (only if its tasks were dropped); null: the state is computed from the tasks';
COMMENT ON COLUMN notifications.remark IS
    'the reason why the last run failed; null: it did not fail';
COMMENT ON COLUMN notifications.operator IS
    'the person who last changed the notification in the system of the caller';
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
COMMENT ON COLUMN notifications.run_rendering_id IS
    'for a notification to a tag: the text of the current run; null: no run is in progress';
COMMENT ON COLUMN notifications.run_after IS
    'the last contact who got a task in this run';
COMMENT ON COLUMN notifications.is_companys IS
    'true: its dedup_key is unique in the company; false: the row is of a version in which each submitter had its own keys';
COMMENT ON COLUMN notifications.changed_by IS
    'the user of LKSMS who last ended, deleted or resumed the notification; null: no user, or older than this column. There is no foreign key, as for submitted_by';
COMMENT ON TABLE renderings IS
    'The common text of the tasks of one run of a notification, of one send-once message, or of one batch. Written by internal/audience/notification. notification_id has no foreign key, because rows of notifications are never deleted.';
COMMENT ON COLUMN renderings.template_id IS
    'template of the provider; empty: no template';
COMMENT ON COLUMN renderings.page IS
    'page that a WeChat message opens; empty: no page';
COMMENT ON COLUMN renderings.notification_id IS
    'null: the text of a send-once message, or of a batch';
COMMENT ON COLUMN renderings.html IS
    'the content as HTML; empty: no HTML';
COMMENT ON COLUMN renderings.is_template IS
    'the placeholders are filled for each recipient, with messages.contact_values. A run that is continued reads this column, because possibly none of its messages exists any more';
COMMENT ON COLUMN renderings.channel_id IS
    'for a batch: its channel; null: the text of a notification, or of a send-once message';
COMMENT ON COLUMN number_partitions.first_number IS
    'the first lease_id or batch_id of the partition; 0: the table from before partitions were introduced, which also contains the rows without lease_id';
COMMENT ON COLUMN number_partitions.before_number IS
    'the first number after the partition; null: the partition has no end';
COMMENT ON COLUMN number_partitions.entered_at IS
    'the time at which its first number was assigned, or somewhat later; null: not yet';
COMMENT ON COLUMN number_partitions.left_at IS
    'the time since which no more of its numbers are assigned; null: numbers are or will be assigned';
COMMENT ON TABLE phone_leases IS
    'A lease that a phone claimed and has not ended yet, or had when it last pulled: if the answer was lost, the phone gets these messages again. This table replaces an index of queue by holder, which would add a cost to each claim of every sender. Written by internal/transport/smsgate/mobile.';
COMMENT ON COLUMN phone_leases.task_id IS
    'There is no foreign key, because it would lock rows of queue';
COMMENT ON TABLE phones IS
    'A phone with the app of SMSGate that is a sender, or will become one. Written by internal/transport/smsgate/mobile.';
COMMENT ON COLUMN phones.code_hash IS
    'SHA-256 of the code with which one phone can register; null: no code is valid';
COMMENT ON COLUMN phones.code_until IS
    'the time until which the code can be used';
COMMENT ON COLUMN phones.device_no IS
    'the name by which the phone identifies itself; null: no phone has registered';
COMMENT ON COLUMN phones.model IS
    'the model as the phone reports it; null: not reported';
COMMENT ON COLUMN phones.claimed_at IS
    'the last time at which the phone got new messages; null: never';
COMMENT ON COLUMN phones.troubles IS
    'how often the phone was paused since it last sent a message, at most 20';
COMMENT ON COLUMN phones.rest_until IS
    'the time until which the phone gets no new messages, because it could not send; null: it is not paused';
COMMENT ON COLUMN phones.pull_until IS
    'the time until which one pull of the phone excludes others; null: no pull is in progress';
COMMENT ON TABLE pool_channels IS
    'The channel of each pool that ever existed, because facts and receipts of old tasks can name deleted pools. Written by a trigger of pools only. There are no foreign keys, because the rows are kept when the pool and the channel are deleted.';
COMMENT ON TABLE pools IS
    'A set of waiting tasks that the same routes serve: tasks of a company, message type and country. A pool without a company is the shared pool of a channel, for tasks without a route. A pool with a sender contains the tasks that only this sender is allowed to send. Written by internal/dispatch/directory; unsettled_since also by internal/dispatch/queue.';
COMMENT ON COLUMN pools.country_id IS
    'null: every country without its own pool';
COMMENT ON COLUMN pools.retired_at IS
    'the time at which the last route was deleted; only the channel is kept, to move tasks that return to the pool; null: in use';
COMMENT ON COLUMN pools.unsettled_since IS
    'the time at which the pool got its first active route; its tasks possibly still wait in broader pools, from which a sweep moves them; null: no task waits there';
COMMENT ON COLUMN pools.sender_id IS
    'the only sender; such a pool has one route, to this sender, and is deleted when it is empty and unused; null: any sender';
COMMENT ON TABLE receipts IS
    'A later report of a provider about one accepted message. Written by internal/dispatch/receipt, which deletes old rows. callback_id and sender_no have no foreign keys: a receipt can be kept longer than its callback, and does not prevent the deletion of its sender.';
COMMENT ON COLUMN receipts.recipient IS
    'the recipient as the provider wrote it; empty: not given';
COMMENT ON COLUMN receipts.state IS
    '0 in transit, 1 delivered, 2 undelivered';
COMMENT ON COLUMN receipts.code IS
    'status code of the provider; empty: no code';
COMMENT ON COLUMN receipts.matched_at IS
    'the time at which the task of the message was found; null: not yet';
COMMENT ON COLUMN receipts.look_at IS
    'the time of the next search for the task; null: the task was found, or the search has ended';
COMMENT ON VIEW receive_logs IS
    'Each submission, with the columns of the documented log: submissions that created a task, and all others.';
COMMENT ON TABLE statistics_staged IS
    'The counts of one fold for a minute of one company, channel, sender, message type and outcome. Written by internal/insight/statistics in the transaction of the fold; a sweep moves the rows to statistics when their minute has passed.';
COMMENT ON COLUMN statistics_staged.company_id IS
    'There is no foreign key, because figures are kept when their company is deleted';
COMMENT ON COLUMN statistics_staged.channel IS
    'channels.channel; empty: unknown';
COMMENT ON COLUMN statistics_staged.message_type IS
    'as messages.message_type; test: tests of any type; empty: unknown';
COMMENT ON COLUMN statistics_staged.outcome IS
    'SUCCESS, FAILED or CANCELLED; empty: events that do not end a task';
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
COMMENT ON COLUMN reconciliation_differences.row_no IS
    'the row of the file, as a spreadsheet program shows it; null: the file has no such row';
COMMENT ON COLUMN reconciliation_differences.task_id IS
    'null: no attempt has the number. There is no foreign key, because tasks are dropped with their partitions';
COMMENT ON COLUMN reconciliation_differences.accepted_at IS
    'the time at which the attempt was reported; for missing_here, on another day';
COMMENT ON COLUMN reconciliation_differences.ours IS
    'the state, the segments or the number of messages in LKSMS, depending on the kind; null: no value';
COMMENT ON COLUMN reconciliation_differences.theirs IS
    'the value in the file; for unreadable the reason, a fault.Rule';
COMMENT ON TABLE reconciliation_rows IS
    'A message of a provider''s file that is being compared. Written by internal/insight/reconcile, which deletes the row when the file is compared.';
COMMENT ON COLUMN reconciliation_rows.copies IS
    'the number of rows with the number';
COMMENT ON COLUMN reconciliation_rows.status IS
    'the status in all of these rows; null: not compared, or the rows differ';
COMMENT ON TABLE reconciliations IS
    'The comparison of a provider''s statement about a sender and a day with LKSMS. Written by internal/insight/reconcile: a total in one statement, the rows of a file in portions, each in one transaction with its end position, so that any server can continue there.';
COMMENT ON COLUMN reconciliations.sender_no IS
    'There is no foreign key, because the row is kept when the sender is deleted';
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
COMMENT ON COLUMN reconciliations.sheet IS
    'the sheet of a workbook; empty: the first sheet that is not hidden';
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
COMMENT ON COLUMN reconciliations.created_by IS
    'the user. There is no foreign key, because the configured user is in no table';
COMMENT ON COLUMN routes.sort IS
    'among the available senders of a pool, only those with the largest sort are served';
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
COMMENT ON COLUMN sender_answers.code IS
    'the code of a failure, from the provider or the driver; null: no code';
COMMENT ON COLUMN sender_answers.answer IS
    'the unchanged answer of the provider, without secrets, at most 2,000 characters; null: no answer';
COMMENT ON TABLE sender_ledger IS
    'A change of the balance of a sender, or of its thresholds. Written by internal/dispatch/queue (charges, refunds) and internal/dispatch/sender (top-ups, corrections, thresholds). Partitioned by lease_id, see number_partitions; rows without a lease_id are in the default partition. There are no foreign keys, because each charge would lock rows of other tables.';
COMMENT ON COLUMN sender_ledger.username IS
    'the user who changed the balance or the thresholds; null: an attempt';
COMMENT ON COLUMN sender_ledger.low_warning IS
    'the new threshold, for changed thresholds and an opening balance; otherwise null';
COMMENT ON COLUMN sender_ledger.company_id IS
    'the company whose tasks were charged or refunded; null: top-up, correction or thresholds';
COMMENT ON TABLE sender_ledger_default IS
    'Rows of sender_ledger without lease_id, and charges and refunds from before partitions were introduced.';
COMMENT ON TABLE sender_states IS
    'The counters and the circuit breaker of a sender, one row for each row of senders. Written by internal/dispatch/queue (claims, refunds), internal/dispatch/push (circuit breaker) and internal/dispatch/sender. Separate from senders, so that a claim updates a short row in place.';
COMMENT ON COLUMN sender_states.next_available_at IS
    'the sender is ready from this time on: one interval for each call of the last claim, and not while the circuit breaker is open; -infinity: always ready';
COMMENT ON COLUMN sender_states.last_taken IS
    'number of calls of the last claim; a changed interval is counted again from it';
COMMENT ON COLUMN sender_states.last_taken_at IS
    'time of the last claim that leased a task while the sender had an interval, limits or a balance; null: never';
COMMENT ON COLUMN sender_states.balance IS
    'remaining segments; null: no balance';
COMMENT ON COLUMN sender_states.minute_used IS
    'segments used in the minute of last_taken_at; in any other minute zero';
COMMENT ON COLUMN sender_states.sent_at IS
    'the time of the last reported SUCCESS; null: never';
COMMENT ON COLUMN sender_states.attempts IS
    'number of leases ever; succeeded counts the leases that were reported SUCCESS';
COMMENT ON COLUMN sender_states.openings IS
    'how often the circuit breaker opened since a message was sent; 0: closed';
COMMENT ON COLUMN sender_states.rest_until IS
    'the circuit breaker is open until this time and half-open afterwards; null: closed';
COMMENT ON COLUMN sender_states.probe_until IS
    'half-open: one worker tries one message until this time; null: no worker tries';
COMMENT ON COLUMN sender_states.attempts_today IS
    'number of leases on attempts_on; zero on any other day';
COMMENT ON COLUMN sender_states.failed_tasks IS
    'tasks that became FAILED with the sender; failed counts its FAILED reports, even if the task is retried';
COMMENT ON COLUMN senders.kind IS
    'app: the sender polls; otherwise the name of the driver';
COMMENT ON COLUMN senders.sort IS
    'among the available senders of a shared pool, only those with the largest sort are served';
COMMENT ON COLUMN senders.is_shared IS
    'the sender also serves the shared pool of its channel: tasks without a route';
COMMENT ON COLUMN senders.lease_seconds IS
    'null: the configuration of the server';
COMMENT ON COLUMN senders.sign IS
    'signature of texts without their own signature, without brackets; null: no signature';
COMMENT ON COLUMN senders.segment_size IS
    'characters that the provider counts as one segment; null: counted by GSM 03.38';
COMMENT ON COLUMN senders.low_warning IS
    'an event is added when the balance falls to this value; null: no event';
COMMENT ON COLUMN senders.low_switch IS
    'no task is leased at this balance or below; null: 0';
COMMENT ON COLUMN senders.config IS
    'configuration of the driver; secrets are encrypted';
COMMENT ON COLUMN senders.is_paced IS
    'generated: the sender has an interval, limits or a balance, so that a claim must lock its row in sender_states';
COMMENT ON COLUMN senders.version IS
    'incremented by each update; a caller names the version that it read';
COMMENT ON COLUMN senders.is_self_registered IS
    'an app created the sender by polling; also false for senders older than this column';
COMMENT ON COLUMN senders.segment_price IS
    'price of a segment, in 1/10000 of the currency in the setting monitoring.currency; null: unknown, and counts as 0';
COMMENT ON COLUMN senders.sign_mode IS
    'in_text: the sender gets the text with the signature before it; by_provider: the provider adds the signature; none: the message is sent without a signature';
COMMENT ON VIEW sender_standings IS
    'View: each sender with its state that other senders need. A claim reads it by sender_id.';
COMMENT ON COLUMN sender_standings.has_funds IS
    'the sender has no balance, or a balance above low_switch';
COMMENT ON COLUMN sender_standings.segments_left IS
    'segments that its limits and balance still allow; null: no limit';
COMMENT ON COLUMN sender_standings.room IS
    'the largest number of segments, as counted at the submission, of a task that the sender can certainly send; its own segment size or signature can allow more';
COMMENT ON COLUMN sender_tokens.token IS
    'the encrypted token; empty: no token was fetched yet';
COMMENT ON COLUMN sender_tokens.expires_at IS
    '-infinity: no token was fetched yet';
COMMENT ON COLUMN sender_tokens.fetches IS
    'number of permissions to fetch the token; only the holder of the last can store a token';
COMMENT ON COLUMN sender_tokens.fetch_until IS
    'one server fetches the token until this time; null: no server fetches it';
COMMENT ON VIEW sender_totals IS
    'The totals of each sender: sender_states plus the facts that are not folded yet. Both are read in one snapshot.';
COMMENT ON COLUMN sender_totals.seen_at IS
    'the last poll, claim or report; null: never';
COMMENT ON COLUMN sender_totals.sent_at IS
    'the time of the last reported SUCCESS; null: never';
COMMENT ON TABLE servers IS
    'A server that is running, or ran within a day. Written by internal/platform/servers.';
COMMENT ON COLUMN servers.seen_at IS
    'The last time at which the server wrote this row. A server writes it every few seconds, and deletes it when it stops.';
COMMENT ON TABLE sessions IS
    'One session of a web page. Written by internal/platform/access. username has no foreign key, because the configured user is in no table. A trigger of users ends the sessions of a user that is disabled or gets another password.';
COMMENT ON COLUMN sessions.password_proof IS
    'HMAC-SHA-256, with the token as its key, of the stored password that was proved: the session ends if the password changes. The token is stored nowhere, so this value reveals nothing about the password.';
COMMENT ON COLUMN sessions.last_seen_at IS
    'the time of the last request, or up to a minute earlier';
COMMENT ON COLUMN sessions.source_ip IS
    'the address from which the user signed in';
COMMENT ON COLUMN sessions.user_agent IS
    'the browser in which the user signed in, as the browser reports it';
COMMENT ON TABLE settings IS
    'A setting that was changed from its default. Written by internal/platform/setting, which defines the names, defaults and bounds.';
COMMENT ON COLUMN settings.updated_by IS
    'null: no user changed the value, which is the default; only inside the transaction of the first change. There is no foreign key, because the configured user is in no table';
COMMENT ON COLUMN smsgate_messages.submitted_by IS
    'as messages.submitted_by: the user name, without a foreign key';
COMMENT ON COLUMN smsgate_messages.message_id IS
    'the id that the program gave, or a generated id; unique for one user of a company';
COMMENT ON COLUMN smsgate_messages.task_ids IS
    'the tasks in the order of the recipients. There is no foreign key, because messages are partitioned';
COMMENT ON COLUMN smsgate_messages.sender_no IS
    'the only sender that is allowed to send the message, as requested; null: any sender';
COMMENT ON TABLE sql_roles IS
    'A role of PostgreSQL that is allowed to call the functions of the schema lksms, and the user for whom it submits. Written by internal/transport/sqlinbox, with the grants. The role needs both: a migration that creates a function of lksms again must grant it to these roles.';
COMMENT ON COLUMN sql_roles.role_name IS
    'session_user of the caller. There is no foreign key, because a role belongs to the cluster';
COMMENT ON TABLE statistics IS
    'The counts of one minute, hour or day: of all tasks of a company, or of one key of a dimension. Written by internal/insight/statistics only, from statistics_staged; minutes and hours are deleted later.';
COMMENT ON COLUMN statistics.company_id IS
    '0: all companies. There is no foreign key, because figures are kept when their company is deleted';
COMMENT ON COLUMN statistics.dimension IS
    'company: only with company_id 0';
COMMENT ON COLUMN statistics.at IS
    'the beginning: hours are in UTC, days in the time zone monitoring.time_zone at the time of the sweep';
COMMENT ON COLUMN statistics.key IS
    'for the dimension company its id, for the others the column of statistics_staged with the name of the dimension (sender: sender_no); empty: as there, or the dimension is total. Tests are only in the row of the message type test';
COMMENT ON COLUMN statistics.waits IS
    'histogram of the times from entered_at to the first claim: for each bucket with tasks, ascending, its number (one byte, see wait_bucket) and the number of its tasks (varint of Go''s encoding/binary)';
COMMENT ON COLUMN statistics.durations IS
    'histogram of the times from entered_at to SUCCESS or FAILED, in the format of waits';
COMMENT ON TABLE subscribe_messages IS
    'A message that a person gets once for a business object and template type. Written by internal/audience/notification. task_id has no foreign key, because the row is created before its task.';
COMMENT ON COLUMN subscribe_messages.receiver_user_id IS
    'contacts.user_id. There is no foreign key, because a person whose address is in the request needs no contact';
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
COMMENT ON COLUMN task_counts.company_id IS
    'There is no foreign key, because a fold would lock all companies';
COMMENT ON TABLE task_jobs IS
    'A request to cancel or requeue all tasks of a filter, and its progress. Written by internal/dispatch/job; a portion of tasks and its counts are changed in one transaction.';
COMMENT ON COLUMN task_jobs.filter IS
    'the filter of the request; the selected tasks are in task_job_parts';
COMMENT ON COLUMN task_jobs.skipped IS
    'number of tasks whose state no longer allowed the action';
COMMENT ON COLUMN task_jobs.failed IS
    'number of tasks whose change the database rejected';
COMMENT ON COLUMN task_jobs.stopped_by IS
    'the user who stopped the job; null: not stopped';
COMMENT ON TABLE task_partitions IS
    'The days that have or had a partition of messages and a partition of report_logs. Written by the functions task_partition_make and task_partition_drop, in the transaction that creates or drops the partitions.';
COMMENT ON COLUMN task_partitions.first_id IS
    'the first task_id of the partitions';
COMMENT ON COLUMN task_partitions.before_id IS
    'the first task_id after the partitions';
COMMENT ON COLUMN task_partitions.history_at IS
    'the time since which the partition is history: its tasks are settled, and it is in the tablespace history.tablespace; null: not yet';
COMMENT ON COLUMN task_partitions.exported_at IS
    'the time at which its last export was complete; null: never';
COMMENT ON COLUMN task_partitions.imported_at IS
    'the time at which the partition was imported from an export, or created again for the tasks that were kept when it was dropped: its retention begins again; null: neither';
COMMENT ON COLUMN task_partitions.exported_late IS
    'the ids, in order, of the tasks that the last export skipped because they had not ended; null: no tasks';
COMMENT ON COLUMN task_partitions.late_tasks IS
    'number of tasks that were moved to the default partition when the partition was dropped; null: not dropped, or dropped by a server that did not know the column';
COMMENT ON COLUMN task_partitions.held_by IS
    'the reason why the last run of the sweep could not make the partition history or drop it: no_folder, too_many_late, locked or failed; null: it could, or did not try';
COMMENT ON VIEW task_totals IS
    'The exact numbers of tasks of each company in each state: task_counts plus the facts that are not folded yet. Both are read in one snapshot.';
COMMENT ON TABLE template_versions IS
    'One row is one version of the texts of a template; the row with the greatest version is current. Written by internal/dispatch/template; deleted with the template.';
COMMENT ON COLUMN template_versions.created_by IS
    'name of the user who set these texts; null: not set through the service, or set before versions were kept';
COMMENT ON COLUMN templates.send_type IS
    'realtime: sent at once; scheduled: sent at the next full interval of the setting sms.scheduled_every_seconds, unless the submission has its own time';
COMMENT ON COLUMN templates.companies IS
    'company_no of the companies that can use the template; empty: all companies. An array cannot have a foreign key, so the deletion of a company checks this column.';
COMMENT ON COLUMN templates.given_no IS
    'template_no as an administrator chose it; null: it is derived from the id';
COMMENT ON COLUMN templates.status IS
    'messages can use only active templates; voided is final';
COMMENT ON COLUMN templates.language IS
    'language of template_content (BCP 47); null: unknown';
COMMENT ON COLUMN templates.sign IS
    'signature of messages without their own signature; null: the signature of the sender';
COMMENT ON COLUMN templates.version IS
    'counts the changes of template_content, language, translations and sign; 1: unchanged since its creation';
COMMENT ON COLUMN upload_parts.part IS
    'the number of the part, from 0';
COMMENT ON TABLE uploads IS
    'A file of a request, until it is processed. Written by internal/audience/upload; the package that processes the file deletes it.';
COMMENT ON COLUMN uploads.submitted_by IS
    'the user who sent the file. There is no foreign key, because the configured user is in no table';
COMMENT ON COLUMN uploads.name IS
    'the name of the file, as its owner calls it; can be empty';
COMMENT ON COLUMN uploads.size IS
    'bytes; null: the file is still being received, or its request was broken off';
COMMENT ON COLUMN uploads.used_by IS
    'the user of the file, as in "batch 17"; null: not used yet, and the file is deleted after an hour';
COMMENT ON COLUMN uploads.encoding IS
    'the encoding of the text, as its owner names it: a name of sheet.Encodings; null: the server detects it';
COMMENT ON TABLE user_addresses IS
    'An address at which a user proved its password. Written by internal/platform/access after a correct password, at most once a day. Rows older than 30 days do not count, and are deleted when the user proves its password again.';
COMMENT ON COLUMN user_addresses.username IS
    'There is no foreign key, because the configured user is in no table';
COMMENT ON TABLE webhook_deliveries IS
    'One post of an event: the last hundred of each webhook, and the last post of each event that another event waits for. Written by internal/events/webhook in the transaction that advances the webhook. The body of the post is not stored, because it can be created from feed again.';
COMMENT ON COLUMN webhook_deliveries.feed_id IS
    'There is no foreign key: the row can be kept longer than the event, and a webhook.test is in no feed';
COMMENT ON COLUMN webhook_deliveries.attempt IS
    'number of the attempt, from 1';
COMMENT ON COLUMN webhook_deliveries.status_code IS
    'null: no answer arrived';
COMMENT ON COLUMN webhook_deliveries.error IS
    'null: the post was accepted';
COMMENT ON COLUMN webhook_deliveries.response IS
    'the first KB of the answer; null: no answer, or the person of the task was erased';
COMMENT ON TABLE webhook_retries IS
    'An event up to after_id that a webhook must still post: the post failed, the event waits for an earlier event of its task, or it is replayed. Written by internal/events/webhook; deleted when the event is accepted, and with the event.';
COMMENT ON COLUMN webhook_retries.tries IS
    'number of failed posts';
COMMENT ON COLUMN webhook_retries.due_at IS
    'null: the event waits for an earlier event of its task';
COMMENT ON COLUMN webhook_retries.delivery_id IS
    'the row of webhook_deliveries of the last post. There is no foreign key, because both are deleted together; null: no post';
COMMENT ON TABLE webhook_secrets IS
    'A secret with which the posts of a webhook are signed, encrypted. Written by internal/events/webhook.';
COMMENT ON COLUMN webhook_secrets.valid_until IS
    'the secret was replaced, and still signs until this time; null: the current secret';
COMMENT ON TABLE webhooks IS
    'An address to which events of the feed are posted, and the position in the feed. Written by internal/events/webhook. A run reads events after after_id, posts them, and records the new after_id and the failed events in one transaction, guarded by the after_id that it read: each event is posted at least once, even if a server is killed.';
COMMENT ON COLUMN webhooks.company_id IS
    'the company whose events are posted; null: the events of every company';
COMMENT ON COLUMN webhooks.user_id IS
    'only events of what this user submitted are posted; the webhook is deleted with the user. Null: all events of the company';
COMMENT ON COLUMN webhooks.owner IS
    'the group of webhooks in which it is counted';
COMMENT ON COLUMN webhooks.off_reason IS
    'the reason why the server switched the webhook off: the receiver answered 410 (gone), or failed for five days (failing); null: not switched off by the server';
COMMENT ON COLUMN webhooks.rotated_at IS
    'the time at which the webhook last got another secret; null: never';
COMMENT ON COLUMN webhooks.after_id IS
    'the last id of feed that was posted, skipped, or stored in webhook_retries';
COMMENT ON COLUMN webhooks.failing_since IS
    'the time of the first failed post since the last accepted post; null: the last post was accepted';
COMMENT ON COLUMN webhooks.failed_runs IS
    'consecutive runs in which no post was accepted';
COMMENT ON COLUMN webhooks.rest_until IS
    'nothing is posted before this time; null: not paused';
COMMENT ON COLUMN webhooks.form IS
    'format and signature of posts: standard (Standard Webhooks), or smsgate (as in the app of SMSGate)';
COMMENT ON COLUMN webhooks.external_id IS
    'for the form smsgate: the id that the program gave, or a generated id; unique for one user. Null: another form';

-- migrate:down
COMMENT ON SCHEMA lksms IS
    'What a role of sql_roles may use to submit messages in its own transaction, see docs/integrations.md. Nothing else belongs here.';
COMMENT ON FUNCTION lksms.enqueue(phone_number text, content text, dedup_key text, message_type text, priority integer, expect_send_time timestamp with time zone, expires_at timestamp with time zone, sign text, source text, test boolean, template_no text, params jsonb, language text) IS
    'Submits a message in the transaction of the caller, and returns the id of its task. NULL: not given. See docs/integrations.md.';
COMMENT ON FUNCTION lksms.enqueue_all(messages jsonb) IS
    'Submits up to 1000 messages, all or none, and returns the ids of their tasks by place, counted from 1. Each is an object with the parameters of enqueue.';
COMMENT ON FUNCTION alert_rank(level text) IS
    'The rank of alerts.level: the worse, the larger.';
COMMENT ON FUNCTION batches_feed() IS
    'Trigger of batches: stages the event that nothing is left to do of a batch, if its company listens.';
COMMENT ON FUNCTION channels_waiting(since timestamp with time zone) IS
    'The channels in whose shared pool a task has been due since then.';
COMMENT ON FUNCTION dedup_key_owner(biz_task_id bigint, submitted_by text) IS
    'Whose the dedup_key of a notification is within its company: of business events, of the service itself (system:...), or of the callers (empty). Nobody can take the key of another owner.';
COMMENT ON FUNCTION events_feed() IS
    'Trigger of events: stages what the feed tells of alerts and senders, if somebody listens to every company. A sender is silent from when an alert of the kind sender_silent fires until that alert ends because the sender polled.';
COMMENT ON FUNCTION fact_outcome(success integer, failed integer, cancelled integer) IS
    'The outcome of the tasks that a row of facts counts, as statistics_staged.outcome.';
COMMENT ON FUNCTION feed_is_heard(of_company bigint) IS
    'Whether somebody listens to the events of a company; 0: of the service itself.';
COMMENT ON FUNCTION first_id_since(of_table regclass, since timestamp with time zone) IS
    'The first id from which on the rows of callbacks or receipts are not older than a time; about, because created_at is when a transaction began. Callers allow for that, and compare created_at too.';
COMMENT ON FUNCTION held_due_at() IS
    'The due_at of a task that waits until its batch is resumed. It is the largest that queue allows, so no statement takes such a task for due.';
COMMENT ON FUNCTION is_due(at timestamp with time zone, longest_wait interval) IS
    'Whether a time has come that was set at most longest_wait ahead. One that is further ahead was set before the clock was set back, and counts as come. The minute is for transactions that began at other times.';
COMMENT ON FUNCTION lock_of_version_before(key bigint) IS
    'takes an advisory lock. Only servers of before 1.0 call it: the next version drops it';
COMMENT ON FUNCTION lock_table(locked regclass) IS
    'waits until no other transaction holds the lock of lock_table_try, and holds it until the end of the transaction';
COMMENT ON FUNCTION lock_table_try(locked regclass) IS
    'locks a table until the end of the transaction, and returns false while another transaction holds that lock';
COMMENT ON FUNCTION note_changer() IS
    'Notes the user who asked for a change of a row, see postgres.As.';
COMMENT ON FUNCTION notifications_feed() IS
    'Trigger of notifications: stages that a notification may be over, if its company listens.';
COMMENT ON FUNCTION number_digits(number text) IS
    'The digits of a phone number in any notation that internal/dispatch/phone reads, as ASCII. It finds candidates, of which internal/dispatch/phone says which number they are.';
COMMENT ON FUNCTION phones_end() IS
    'Trigger of senders: deletes the phone of a sender that is deleted.';
COMMENT ON FUNCTION phones_end_user() IS
    'Trigger of phones: deletes the user of a phone that is deleted.';
COMMENT ON FUNCTION pool_waits(of_pool bigint, since timestamp with time zone) IS
    'Whether a task of the pool has been due since then, among those that senders take first.';
COMMENT ON FUNCTION queue_transactions() IS
    'The open transactions that lock rows of queue, as claims do. A claim that began before a change of the directory may hand out what the change holds; one that begins later does not.';
COMMENT ON FUNCTION sender_serves(of_sender bigint, of_company bigint) IS
    'Whether a company may name a sender for its tasks, and the sender may take them: a route of the company that is on names the sender; or the sender is shared, no route names it, and the company uses shared senders. A sender that is off serves, one that is retired does not.';
COMMENT ON FUNCTION sender_silences(silent_after interval, noted_apart interval) IS
    'The rule by which an app is silent: it has not polled for silent_after and slack. slack is how much later its polls are stored: not at all if a route names it, and hardly if work waits in its shared pool for longer than silent_after; else every noted_apart. The sweep of internal/dispatch/sender stores them so.';
COMMENT ON COLUMN users.app_id IS
    'with the role send: the only sender_no for which the user may claim and report; null: any';
COMMENT ON COLUMN users.top_priority IS
    'the most urgent priority that its submissions may ask for';
COMMENT ON COLUMN users.version IS
    'incremented by each update; a caller names the version that it saw';
COMMENT ON COLUMN users.has_company IS
    'the company limits what the user sees; false: company_id only says for whom it submits, and a read user sees every company';
COMMENT ON TABLE sql_inbox IS
    'A message that was submitted by SQL, until it is a task. Inserted by lksms.enqueue in the transaction of its caller, which may be long: so it touches no row for which others wait. internal/transport/sqlinbox makes a task of it and deletes it, in one transaction. No foreign keys: they would lock rows of companies.';
COMMENT ON COLUMN sql_inbox.task_id IS
    'the id that the task will have, which the caller knows; of a repeat an id that is never used';
COMMENT ON COLUMN sql_inbox.source_ip IS
    'the address of the caller''s connection to PostgreSQL; null: a socket';
COMMENT ON COLUMN sql_inbox.is_repeat IS
    'an earlier message has the dedup key: the row is logged, and becomes no task';
COMMENT ON COLUMN sql_inbox.priority IS
    'null: that of the message type';
COMMENT ON COLUMN sql_inbox.created_at IS
    'when it was submitted; its transaction was committed later';
COMMENT ON COLUMN sql_inbox.tries IS
    'how often the database refused to make a task of it alone';
COMMENT ON COLUMN sql_inbox.due_at IS
    'not tried before; later than created_at after a failed try';
COMMENT ON FUNCTION sql_inbox_check_content(given sql_inbox, place integer) IS
    'Refuses a text that is blank, or longer than its message type may be.';
COMMENT ON FUNCTION sql_inbox_check_fields(given sql_inbox, content text, place integer) IS
    'Refuses fields that exclude or need each other. content is what the caller gave: given.content is null beside a template.';
COMMENT ON FUNCTION sql_inbox_check_lengths(given sql_inbox, place integer) IS
    'Refuses a message with a field that is too long, too short, or of a wrong form.';
COMMENT ON FUNCTION sql_inbox_check_number(caller users, phone_number text, place integer) IS
    'Refuses a text that is no phone number, and a number whose country is not known.';
COMMENT ON FUNCTION sql_inbox_check_priority(caller users, given sql_inbox, place integer) IS
    'Refuses a priority that is more urgent than the user and the message type allow.';
COMMENT ON FUNCTION sql_inbox_check_template(caller users, given sql_inbox, place integer) IS
    'Refuses a template that does not exist, is not active, or belongs to others.';
COMMENT ON FUNCTION sql_inbox_check_times(given sql_inbox, place integer) IS
    'Refuses times that are past or too far ahead, also those that no clock of the server can show.';
COMMENT ON FUNCTION sql_inbox_first(given sql_inbox) IS
    'The task of the first message with the same dedup key, or null.';
COMMENT ON FUNCTION sql_inbox_number(number text) IS
    'A number without what people write between its digits, as package phone reads it, which a test compares.';
COMMENT ON FUNCTION sql_inbox_put(caller users, of_id bigint, place integer, phone_number text, content text, dedup_key text, message_type text, priority integer, expect_send_time timestamp with time zone, expires_at timestamp with time zone, sign text, source text, test boolean, template_no text, params jsonb, language text) IS
    'Checks a message as package queue does, in the same order, puts it in the inbox, and returns the id of its task: of a repeated dedup key the first one.';
COMMENT ON FUNCTION sql_inbox_refuse(code text, field text, rule text, text_of_error text, place integer) IS
    'Refuses a message: the SQLSTATE says what is wrong, the column which field, the constraint which rule of package fault. place is that in a set.';
COMMENT ON FUNCTION sql_inbox_segments(signed text) IS
    'The short messages that a text takes, as package segment counts them, which a test compares.';
COMMENT ON FUNCTION sql_inbox_setting(of_name text, otherwise bigint) IS
    'A setting of the category sms. Its default is that of package setting, which a test compares.';
COMMENT ON FUNCTION sql_inbox_store(given sql_inbox, earlier text) IS
    'Puts a checked message in the inbox, and returns the id of its task: of a repeated dedup key the first one, which is earlier if it was known before.';
COMMENT ON FUNCTION sql_inbox_task_id(at timestamp with time zone, ordinal integer) IS
    'A task id as package queue makes them: the day and a ULID. It ascends with the microsecond and then with ordinal, the place in a set below 1024.';
COMMENT ON FUNCTION sql_inbox_text(message jsonb, field text, place integer) IS
    'A member of a message of a set that must be a text; null: it is missing.';
COMMENT ON FUNCTION sql_inbox_time(message jsonb, field text, place integer) IS
    'A member of a message of a set that must be a time; null: it is missing.';
COMMENT ON FUNCTION sql_inbox_user() IS
    'The user for whom the session submits. session_user: a function of its owner''s rights has another current_user.';
COMMENT ON FUNCTION sql_role_grant(role_name text) IS
    'Gives a role what it needs of the schema lksms. It runs with the rights of its caller, who must own the schema. It refuses while others than the owner may make functions beside the tables: those of lksms could call such a function in place of one of PostgreSQL.';
COMMENT ON FUNCTION sql_role_revoke(role_name text) IS
    'Takes from a role what sql_role_grant gave it, but for CONNECT, which it may need for other things.';
COMMENT ON FUNCTION task_flow(batch_id bigint, submitted_by text) IS
    'The flow of a task within its company: its batch, else its submitter. Package queue computes it too.';
COMMENT ON FUNCTION task_flow_start(of_pool bigint, of_priority smallint, of_company bigint, of_flow text, gap double precision) IS
    'The smallest flow_rank of a new task of a flow: behind the tasks of the flow that have a flow_rank, and not before the first waiting task of its company. gap is 1 / weight of the company; a null flow has no tasks.';
COMMENT ON FUNCTION task_submitter(of_task text) IS
    'The user whose task it is, of a task that was stored by a server that did not know queue.submitted_by.';
COMMENT ON FUNCTION task_switches(of_pool bigint, of_company bigint, of_country text, of_submitter text) IS
    'The switches that hold a task of a pool, company, country (null: that of the number is not known) and submitter: what is off, and its name. shared_senders: no route of the company serves the task, and shared senders may not. No row: nothing holds it.';
COMMENT ON TABLE messages IS
    'A task as it was submitted, with its submission. Written once by internal/dispatch/queue; only the erasure of a person changes it. Partitioned by task_id, which ascends with time. The state of the task is in queue until it is settled, then in report_logs; the view tasks shows both. No foreign keys: each submission would lock rows of other tables.';
COMMENT ON COLUMN messages.recipient IS
    'on the channel sms the same number in E.164; on others the address; empty if the person has none, or was erased';
COMMENT ON COLUMN messages.content IS
    'text without signature; of a rendering only the beginning';
COMMENT ON COLUMN messages.submitted_by IS
    'the username; with the role submit, the user sees only these tasks; empty: not known';
COMMENT ON COLUMN messages.dedup_key IS
    'the submitter''s name for the message, as in dedup_keys; null: none';
COMMENT ON COLUMN messages.pool_id IS
    'the pool in which the task was queued first';
COMMENT ON COLUMN messages.country_no IS
    'at the time of the submission; null: the number belongs to no known country';
COMMENT ON COLUMN messages.sign IS
    'signature without brackets; null: that of the sender';
COMMENT ON COLUMN messages.is_test IS
    'marked as a test by its submitter; statistics count it apart, and a setting may keep it from being sent';
COMMENT ON COLUMN messages.expect_send_time IS
    'when the submitter wants it sent, or the next interval of a scheduled template; null: at once';
COMMENT ON COLUMN messages.expires_at IS
    'not sent later; null: never. A withdrawal brings it forward in queue';
COMMENT ON COLUMN messages.rendering_id IS
    'of a task of a notification or send-once message; null: a submitted message';
COMMENT ON COLUMN messages.on_unclear IS
    'overrides senders.on_unclear; null: as the sender';
COMMENT ON COLUMN messages.request_data IS
    'the request as it came; of a message from a template with the member template, which no request has: the number, version and language of the text';
COMMENT ON COLUMN messages.traceparent IS
    'the header traceparent of the submission (W3C Trace Context); null: it had none';
COMMENT ON COLUMN messages.batch_id IS
    'the uploaded list that the task is from; null: none. No foreign key: each submission would lock the batch';
COMMENT ON COLUMN messages.sender_no IS
    'the only sender that may send the task; null: any that serves its pool';
COMMENT ON COLUMN messages.contact_values IS
    'the values of the placeholders ${contact.…} for this person: the rendering is then a template, which is filled with its params and these; null: the rendering is filled';
COMMENT ON TABLE queue IS
    'A task that waits for a sender or is held by one. Written by internal/dispatch/queue: inserted with its message, updated when it is leased or waits again, deleted when the task is settled. It repeats what a claim and a report need of the message, so that neither reads messages. No foreign keys: each change would lock rows of other tables.';
COMMENT ON COLUMN queue.pool_id IS
    'where the task waits, or the pool from which it was leased; no foreign key, because each insert would lock the row of the pool';
COMMENT ON COLUMN queue.rank IS
    'order between companies within a lane, by start-time fair queueing; valid only in the pool and priority in which it was given; a claim may exchange the ranks of two tasks of a company, see flow_rank; null: not given yet';
COMMENT ON COLUMN queue.due_at IS
    'the task can be claimed from then on; held_due_at(): its batch is paused';
COMMENT ON COLUMN queue.updated_at IS
    'the last change of state; of a leased task the time of the claim';
COMMENT ON COLUMN queue.troubles IS
    'number of leases that were given back because their sender was in trouble';
COMMENT ON COLUMN queue.result IS
    'why the task is retried, for operators; null: not retried yet';
COMMENT ON COLUMN queue.failed_app_id IS
    'sender_no of the last sender that failed; a claim prefers other senders; null: none failed';
COMMENT ON COLUMN queue.processing_app_id IS
    'sender_no of the sender that holds the task; null: none';
COMMENT ON COLUMN queue.lease_id IS
    'the current lease, or the expired lease of a task that was taken back, which failed_app_id held; null: none, or it was ended by its sender';
COMMENT ON COLUMN queue.lease_sign IS
    'signature of the sender, used if the message has none; null: none';
COMMENT ON COLUMN queue.lease_limit IS
    'how many tasks the claim asked for';
COMMENT ON COLUMN queue.entered_at IS
    'when the task first could be claimed: the due_at of its submission; of a requeued task when it was requeued; of one that was held before it was tried, the due_at of its release; null: it was submitted before this column existed';
COMMENT ON COLUMN queue.was_claimed IS
    'the task had a lease before, although its retry_count may be 0: a lease was released, or a settled task was requeued';
COMMENT ON COLUMN queue.is_test IS
    'as messages.is_test; false: also a task that is older than this column';
COMMENT ON COLUMN queue.start_until IS
    'equal to lease_until: the sender must start the lease until then, and has not; any other value, or null: the lease is started, or needs no start. A server that does not know this column leaves old values in it, which are never those of its leases';
COMMENT ON COLUMN queue.due_when_resumed IS
    'the due_at that a held task gets when its batch goes on, unless that is over by then; null: at once. A server that does not know this column leaves old values in it';
COMMENT ON COLUMN queue.submitted_by IS
    'the user whose task it is, as in messages; null: the task was stored by a server that did not know the column';
COMMENT ON COLUMN queue.flow_rank IS
    'order between the tasks of one company within its pool and lane, in the unit of rank and never larger: a claim that finds this task at its rank takes that task of the company with the smallest; null: equal to rank. A server that does not know this column leaves old values in it';
COMMENT ON COLUMN queue.lease_sign_mode IS
    'sign_mode of the sender when it took the task; null: in_text';
COMMENT ON TABLE report_logs IS
    'What ended a lease or a task, reports that changed nothing, receipts of providers, and who requeued a task. Written by internal/dispatch/queue. A requeue takes the outcome of a row, and the erasure of a person its texts; nothing else changes rows. Partitioned like messages, so that the facts of a task leave together.';
COMMENT ON COLUMN report_logs.app_id IS
    'sender_no; null: no sender did it';
COMMENT ON COLUMN report_logs.lease_id IS
    'the lease that was ended, or that the report named; null: none';
COMMENT ON COLUMN report_logs.event IS
    'past_receipt: a receipt of an attempt from before the task was requeued; simulated: a test message that no sender got; the other names say it';
COMMENT ON COLUMN report_logs.effect IS
    'success, failed: settled the task; retry: the task waits for a retry; exhausted: FAILED without another retry; unclear: FAILED because nobody knows whether it was sent; untried, troubled: the lease was given back; ignored, refused: changed nothing; cancelled, expired; delivered, undelivered: a receipt; requeued: the task waits again as if it were new';
COMMENT ON COLUMN report_logs.error_message IS
    'the text of a report or of a release; of a requeue its remark; null: none';
COMMENT ON COLUMN report_logs.request_data IS
    'the report as it came; of a cancellation or a requeue who did it (by); null: none';
COMMENT ON COLUMN report_logs.outcome IS
    'the state in which this left the task: 2 SUCCESS, 3 FAILED, 4 CANCELLED; null: the task was not settled by it, or was requeued since';
COMMENT ON COLUMN report_logs.result IS
    'the outcome for operators; of a receipt its status code; null: the task was not settled';
COMMENT ON COLUMN report_logs.retry_count IS
    'number of retries before this; null: changed nothing';
COMMENT ON COLUMN report_logs.due_at IS
    'when the task could be claimed; null: changed nothing, or older than this column';
COMMENT ON COLUMN report_logs.leased_at IS
    'when the lease began that this ended; null: no lease was ended, or an earlier row ended it. The columns that follow are of this lease';
COMMENT ON COLUMN report_logs.lease_sign IS
    'signature of the sender, used if the message has none; null: none';
COMMENT ON COLUMN report_logs.lease_limit IS
    'how many tasks the claim asked for';
COMMENT ON COLUMN report_logs.pool_id IS
    'the pool that the task was in; of a receipt that of the submission; null: changed nothing, or older than this column';
COMMENT ON COLUMN report_logs.message_type IS
    'as messages.message_type; null as pool_id';
COMMENT ON COLUMN report_logs.segments IS
    'as messages.segments; null as pool_id';
COMMENT ON COLUMN report_logs.entered_at IS
    'as queue.entered_at; null: as there, or the task never was in the queue, or a receipt';
COMMENT ON COLUMN report_logs.batch_id IS
    'as messages.batch_id; null: none, or the row is older than this column';
COMMENT ON COLUMN report_logs.country_no IS
    'as messages.country_no; null: none, or the row is older than this column';
COMMENT ON COLUMN report_logs.is_test IS
    'as messages.is_test; false: also a row that is older than this column';
COMMENT ON COLUMN report_logs.lease_sign_mode IS
    'sign_mode of the sender when it took the task; null: in_text';
COMMENT ON VIEW tasks IS
    'The state of each task: what was submitted, from messages; what is waiting or leased, from queue; how it ended, from report_logs. Read it by task_id or rendering_id; nothing else is indexed. Of a settled task, pool_id and expires_at are those of its submission, and failed_app_id is null. due_at is null while the task is held, and of a task that ended while it was.';
COMMENT ON FUNCTION tasks_between(from_id text, to_id text) IS
    'The rows of the view tasks with task_id from from_id to to_id, both included. It opens only the partitions of this range. It and the view say the same in two ways: change both together.';
COMMENT ON FUNCTION unsigned_text(content text, sign text) IS
    'A text without the signatures sign with which it begins, as segment.Unsigned of internal/dispatch/segment.';
COMMENT ON FUNCTION wait_bucket(wait interval) IS
    'The bucket of a time in a histogram, as one byte: 0 up to 1 ms; n above 1.1^(n-1) ms and up to 1.1^n ms; 255 also all above (416 days); null of null. internal/insight/statistics has the same bounds.';
COMMENT ON VIEW lksms.outgoing IS
    'lksms.enqueue as a relation: an INSERT calls it, and RETURNING task_id returns what it returned. It has no rows.';
COMMENT ON TABLE alert_deliveries IS
    'What one receiver was told of one alert. Written by internal/insight/alert. receiver_id has no foreign key: it stays when the receiver is deleted.';
COMMENT ON COLUMN alert_deliveries.told_at IS
    'when the receiver was last told that the alert fires: a program; or the queue took the messages to people; null: not yet';
COMMENT ON COLUMN alert_deliveries.end_told_at IS
    'when the receiver was told that the alert is resolved; null: not yet, or it was never told that it fires';
COMMENT ON COLUMN alert_deliveries.tries IS
    'number of tries that have an outcome; part of the dedup key of the next one';
COMMENT ON COLUMN alert_deliveries.failures IS
    'number of failed tries since the last that succeeded';
COMMENT ON COLUMN alert_deliveries.error IS
    'why the last try failed, in part or as a whole; null: it succeeded, or none was made';
COMMENT ON COLUMN alert_deliveries.next_at IS
    'it is not tried before';
COMMENT ON COLUMN alert_deliveries.awaits IS
    'notifications that tell that the alert fires and of which a message may still be sent; empty: none any more; null: told_at is the delivery';
COMMENT ON COLUMN alert_deliveries.sent_at IS
    'when the first message of the last notifications that tell that the alert fires was sent; null: none was';
COMMENT ON COLUMN alert_deliveries.end_awaits IS
    'as awaits, of the end of the alert';
COMMENT ON COLUMN alert_deliveries.end_sent_at IS
    'as sent_at, of the end of the alert';
COMMENT ON COLUMN alert_deliveries.escalate_at IS
    'when the delivery escalates, unless a message is sent before; null: never, or not any more';
COMMENT ON COLUMN alert_deliveries.escalated_at IS
    'when it escalated to other channels of the receiver, or to other receivers; null: it did not';
COMMENT ON COLUMN alert_deliveries.escalated_from IS
    'receiver whose delivery escalated to this one, which does not escalate; no foreign key, as receiver_id; null: the rule names the receiver';
COMMENT ON TABLE alert_receiver_states IS
    'How the last calls of a receiver of the kind alertmanager went, one row for each. Written by internal/insight/alert. Apart from alert_receivers, because no admin changes it.';
COMMENT ON COLUMN alert_receiver_states.failing_since IS
    'when the first of the failed calls failed; null: the last call succeeded';
COMMENT ON COLUMN alert_receiver_states.failures IS
    'number of failed calls since the last that succeeded';
COMMENT ON COLUMN alert_receiver_states.next_call_at IS
    'it is not called before: a call failed, or a server is calling';
COMMENT ON TABLE alert_receivers IS
    'People, or a program, to whom alerts are told. Written by internal/insight/alert.';
COMMENT ON COLUMN alert_receivers.kind IS
    'notification: to users, through channels; alertmanager: to a program with the API of Alertmanager, at url';
COMMENT ON COLUMN alert_receivers.channels IS
    'no foreign keys: a channel that was deleted is an error of each delivery, beside the other channels';
COMMENT ON COLUMN alert_receivers.sealed_authorization IS
    'the header Authorization, sealed; null: none';
COMMENT ON COLUMN alert_receivers.escalate_seconds IS
    'after how many seconds an alert escalates that was not sent to the receiver; 0: never';
COMMENT ON COLUMN alert_rules.name IS
    'null: it is called by its kind and level, in the language of the reader';
COMMENT ON COLUMN alert_rules.threshold IS
    'unit and direction depend on the kind; null: of wait_time the setting of its level, of balance_low the low_warning of each sender, of pool_unserved and provider_trouble none';
COMMENT ON COLUMN alert_rules.for_seconds IS
    'for how long the condition must hold before the alert fires';
COMMENT ON COLUMN alert_rules.resolve_seconds IS
    'for how long the condition must not hold before the alert is resolved';
COMMENT ON COLUMN alert_rules.repeat_seconds IS
    'after how long an alert that still fires is told again; 0: never';
COMMENT ON COLUMN alert_rules.receivers IS
    'ids of alert_receivers, which cannot be deleted then; null: all';
COMMENT ON TABLE alerts IS
    'One incident: a condition of a rule about one subject, from its start to its end. Written by internal/insight/alert, which deletes old rows. No foreign keys: an alert outlives its rule and its subject, whose names it keeps.';
COMMENT ON COLUMN alerts.subject IS
    'what the condition is about, in the words of the kind: a sender_no, a channel, a pool, a file system';
COMMENT ON COLUMN alerts.value IS
    'what was measured when the condition was last found';
COMMENT ON COLUMN alerts.threshold IS
    'with what the value is compared; null: the kind has none';
COMMENT ON COLUMN alerts.started_at IS
    'when the condition began to hold';
COMMENT ON COLUMN alerts.seen_at IS
    'when the condition was last found to hold';
COMMENT ON COLUMN alerts.cleared_at IS
    'since when the condition does not hold; null: it holds';
COMMENT ON COLUMN alerts.only_own_channel IS
    'whether people can be told only through the channel that it is about, or of an alert about all channels, only through one';
COMMENT ON TABLE announcements IS
    'The text data and the people of the notifications of one request. Written by internal/audience/notification with the first notification of the request. user_ids has no foreign key: a person may have no contact yet.';
COMMENT ON COLUMN announcements.tag IS
    'the contacts of this tag get it, and user_ids is empty; null: user_ids get it';
COMMENT ON COLUMN audit.at IS
    'begin of the transaction of the change';
COMMENT ON COLUMN audit.actor IS
    'name of the user who asked for the change, or cli: and the name of the user of the operating system; null: nobody did. The service itself changed the row, or SQL by hand';
COMMENT ON COLUMN audit.actor_role IS
    'role of the user at that time; null: no user of the service';
COMMENT ON COLUMN audit.entity_key IS
    'name of the entity by which the API knows it; parts are joined by a slash';
COMMENT ON COLUMN audit.company_no IS
    'company that the entity belongs to or is; null: all';
COMMENT ON COLUMN audit.before IS
    'of a change: the columns that changed, as they were; of a deletion: all columns; null: the entity is new';
COMMENT ON COLUMN audit.after IS
    'of a change: the columns that changed; of a creation: all columns; null: the entity is gone';
COMMENT ON TABLE batch_acts IS
    'What a user did with a batch. Written by internal/audience/batch, in the statement or the transaction of the change.';
COMMENT ON COLUMN batch_acts.username IS
    'no foreign key: the configured user is in no table';
COMMENT ON TABLE batch_counts IS
    'The numbers of tasks of a batch in each state, by the sender that facts name, without what facts still holds. Written by internal/audience/batch, which consumes facts.';
COMMENT ON TABLE batch_rows IS
    'A row of a batch, as it was checked. Written by internal/audience/batch: added once, and changed once, when it becomes a task or is refused then. Partitioned by batch_id, see number_partitions.';
COMMENT ON COLUMN batch_rows.batch_id IS
    'no foreign key: its check took two thirds of the time in which a million rows are added. Who adds or deletes rows has locked the batch.';
COMMENT ON COLUMN batch_rows.row_no IS
    'the number of the row in the list, as a spreadsheet program shows it; of a tag the position of the contact';
COMMENT ON COLUMN batch_rows.recipient IS
    'the address on the channel: a phone number in E.164; as it is in the list if it is not valid';
COMMENT ON COLUMN batch_rows.content IS
    'the text without signature, of another channel than sms its beginning; empty: it could not be made';
COMMENT ON COLUMN batch_rows.code IS
    'why it is not sent: 1 phone number, 2 content, 3 segments, 4 signature, 5 duplicate, 6 blocked, 7 refused when it was to become a task; null: it is valid';
COMMENT ON COLUMN batch_rows.fault IS
    'the field, the rule that it broke, and the limit of the rule; null: code says everything';
COMMENT ON COLUMN batch_rows.sign IS
    'the signature of the row; null: that of the batch';
COMMENT ON TABLE batch_rows_default IS
    'Rows of batches from before there were partitions.';
COMMENT ON TABLE facts IS
    'What one statement changed of the tasks of one company, pool, type, country and batch that one sender holds, held or reported; or of tasks that no sender holds. Tests are apart. Written by triggers of queue and report_logs only. internal/insight/history deletes the rows within seconds, and adds them to the figures of all consumers in the same transaction; until then, readers add them to these figures. There is no cursor: a row that is deleted is consumed exactly once, in whatever order transactions commit, and also after a dump is restored into another cluster.';
COMMENT ON COLUMN facts.company_id IS
    'no foreign key: each change of a task would lock the company';
COMMENT ON COLUMN facts.at IS
    'when it happened: of leases leased_at, of reports created_at, the latest of the row';
COMMENT ON COLUMN facts.pending_new IS
    'difference of the number of tasks PENDING with retry_count 0';
COMMENT ON COLUMN facts.pending_retry IS
    'difference of the number of tasks PENDING with retry_count above 0';
COMMENT ON COLUMN facts.processing IS
    'difference of the number of tasks PROCESSING, which the sender holds';
COMMENT ON COLUMN facts.success IS
    'difference of the number of tasks SUCCESS';
COMMENT ON COLUMN facts.failed IS
    'difference of the number of tasks FAILED; negative if tasks were requeued';
COMMENT ON COLUMN facts.leases IS
    'number of leases that the sender took';
COMMENT ON COLUMN facts.reported_failed IS
    'number of leases that the sender ended by reporting FAILED, also those that are retried';
COMMENT ON COLUMN facts.sender_no IS
    'null: no sender. No foreign key: each claim would lock the sender, and any text is the app_id of tasks that were written by hand';
COMMENT ON COLUMN facts.pool_id IS
    'as in queue and report_logs; pool_channels has its channel; null: report_logs did not say';
COMMENT ON COLUMN facts.message_type IS
    'as messages.message_type; null: report_logs did not say';
COMMENT ON COLUMN facts.submitted IS
    'number of tasks that were stored; also those of people without an address, which failed at once';
COMMENT ON COLUMN facts.requeued IS
    'number of settled tasks that were put into the queue again';
COMMENT ON COLUMN facts.delivered IS
    'number of receipts that said so';
COMMENT ON COLUMN facts.undelivered IS
    'number of receipts that said so';
COMMENT ON COLUMN facts.waits IS
    'one byte for each task that was claimed for the first time: wait_bucket of the time since entered_at, in any order; null: none';
COMMENT ON COLUMN facts.durations IS
    'one byte for each task that became SUCCESS or FAILED: wait_bucket of the time since entered_at, in any order; null: none';
COMMENT ON COLUMN facts.batch_id IS
    'as messages.batch_id; null: none';
COMMENT ON COLUMN facts.country_no IS
    'as messages.country_no; null: none';
COMMENT ON COLUMN facts.accepted_at IS
    'of receipts that say delivered: the minute in which their sender reported SUCCESS; null: of anything else, or no report of this sender settled the task';
COMMENT ON VIEW batch_totals IS
    'The exact figures of each batch and sender: batch_counts, and what facts still holds. Both are read at one moment.';
COMMENT ON TABLE batches IS
    'A list of messages that a company uploaded, and how far it is: checked, confirmed, fed to the queue. Written by internal/audience/batch. Every change of status is guarded by the status that it expects.';
COMMENT ON COLUMN batches.submitted_by IS
    'the username; no foreign key: the configured user is in no table';
COMMENT ON COLUMN batches.priority IS
    'as messages.priority; null: that of the message type';
COMMENT ON COLUMN batches.upload_id IS
    'the list; null: it is checked, or the rows come from a tag';
COMMENT ON COLUMN batches.tag IS
    'whose contacts are the rows; empty: those that several tags select; null: a list';
COMMENT ON COLUMN batches.template_no IS
    'where content is from; null: it was in the request';
COMMENT ON COLUMN batches.template_id IS
    'no foreign key: the template may be deleted';
COMMENT ON COLUMN batches.template_language IS
    'the language of content; null: not known';
COMMENT ON COLUMN batches.is_deferred IS
    'it gets the next full interval as its time when it is confirmed, as the template says';
COMMENT ON COLUMN batches.sender_no IS
    'the only sender that may send it; null: any by the routes';
COMMENT ON COLUMN batches.dedup IS
    'which rows are duplicates: none; those with a phone number of a row before; those with its text, too';
COMMENT ON COLUMN batches.is_confirmed IS
    'it starts when it is checked; until then nothing is sent';
COMMENT ON COLUMN batches.confirmed_by IS
    'null: it was not confirmed, or its request confirmed it (auto_confirm)';
COMMENT ON COLUMN batches.status IS
    'checking, ready, running, paused; finished and cancelled are ends, but a requeue of failed tasks lets a finished one run again';
COMMENT ON COLUMN batches.is_held IS
    'tasks of it may be held, because it is or was paused';
COMMENT ON COLUMN batches.is_settled IS
    'a sweep has nothing to do: it waits to be confirmed, or has ended and none of its tasks waits or is leased';
COMMENT ON COLUMN batches.is_read IS
    'of a tag: the rows are those of the contacts when it began to send';
COMMENT ON COLUMN batches.last_row IS
    'the last row of the list that is in batch_rows';
COMMENT ON COLUMN batches.fed_row IS
    'the last row that became a task or was refused then: no row up to it is looked at again';
COMMENT ON COLUMN batches.fault IS
    'why it was cancelled by itself, as batch_rows.fault; null: it was not';
COMMENT ON COLUMN batches.checked_at IS
    'when the check was complete';
COMMENT ON COLUMN batches.started_at IS
    'when the first row became a task';
COMMENT ON COLUMN batches.changed_by IS
    'the user who confirmed, paused, resumed or cancelled it last; null: nobody did, or before this column. No foreign key, as submitted_by';
COMMENT ON COLUMN batches.default_region IS
    'ISO 3166-1 code of the region of numbers without a country code in the list; empty: the one of the company when the list is read';
COMMENT ON COLUMN batches.sign_column IS
    'the column with the signatures of the rows; null: every row has that of the batch';
COMMENT ON COLUMN batches.channel IS
    'the name of the channel; no foreign key: a batch may outlive its channel';
COMMENT ON COLUMN batches.subject IS
    'the title with its placeholders; null: a short message, or none';
COMMENT ON COLUMN batches.biz_type IS
    'of the notification template whose text it has; null: another text';
COMMENT ON COLUMN batches.rendering_id IS
    'the text that its rows fill; null: short messages, whose texts are in batch_rows';
COMMENT ON COLUMN batches.tags_all IS
    'the rows are contacts that each of these tags holds';
COMMENT ON COLUMN batches.tags_any IS
    'and at least one of these; none: whichever';
COMMENT ON COLUMN batches.tags_none IS
    'and none of these';
COMMENT ON COLUMN batches.encoding IS
    'as which the text of the list is read; null: a workbook, a tag, or not known';
COMMENT ON COLUMN batches.is_encoding_doubtful IS
    'encoding is a guess, and the list looks like one of Latin letters in another encoding (internal/audience/sheet)';
COMMENT ON COLUMN business_ends.recorded_at IS
    'when this was stored; ended_at is the caller''s time, which may be long before';
COMMENT ON TABLE business_locks IS
    'one row is locked by the transaction that takes business events of the tasks whose hash modulo 256 is its slot; the rows never change';
COMMENT ON TABLE callbacks IS
    'An HTTP callback of a provider, as it came. Written by internal/dispatch/receipt, which deletes old rows. sender_no has no foreign key: a callback does not stop the deletion of its sender.';
COMMENT ON COLUMN callbacks.body IS
    'as it came, without characters that PostgreSQL cannot store';
COMMENT ON COLUMN callbacks.repeats IS
    'how often the same body came again';
COMMENT ON TABLE channel_countries IS
    'A country that a channel serves, or that is switched off for it. Without a row that is on, channels.any_country says whether the channel serves the others. Written by internal/dispatch/directory.';
COMMENT ON COLUMN channels.version IS
    'incremented by each update; a caller names the version that it saw';
COMMENT ON COLUMN channels.retry_minutes IS
    'for driven senders: minutes before each retry, so its length is the number of retries; null: as configured for the server';
COMMENT ON COLUMN channels.status IS
    'on or off; off: its tasks are held';
COMMENT ON COLUMN channels.any_country IS
    'the channel serves every country that is not switched off in channel_countries; counts only while no country there is on';
COMMENT ON TABLE companies IS
    'A tenant: it owns users, tasks, routes and contacts, and is the unit of fairness. Written by internal/dispatch/directory. The first row, default, is created by a migration.';
COMMENT ON COLUMN companies.weight IS
    'its share of the service among the companies with waiting tasks';
COMMENT ON COLUMN companies.version IS
    'incremented by each update; a caller names the version that it saw';
COMMENT ON COLUMN companies.status IS
    'on or off; off: its tasks are held, and it submits none';
COMMENT ON COLUMN companies.any_country IS
    'the company may send to every country that is not switched off in company_countries; counts only while no country there is on';
COMMENT ON COLUMN companies.uses_shared_senders IS
    'shared senders may send the tasks of the company that none of its routes serves; false: these tasks are held';
COMMENT ON COLUMN companies.default_region IS
    'ISO 3166-1 code of the region of numbers without a country code; empty: such numbers are refused, except mobile numbers of mainland China';
COMMENT ON TABLE company_countries IS
    'A country to which a company may send, or that is switched off for it. Without a row that is on, companies.any_country says whether the company may send to the others. Written by internal/dispatch/directory.';
COMMENT ON TABLE company_notification_templates IS
    'The title and text of a business type on a channel, of one company, in place of that in notification_templates. Written by internal/audience/notification.';
COMMENT ON COLUMN company_notification_templates.html IS
    'the content as HTML, for e-mail; null: none';
COMMENT ON COLUMN company_notification_templates.external_id IS
    'template of the provider; empty: none';
COMMENT ON COLUMN company_notification_templates.sign IS
    'signature before the text if the notification has none; null: that of the sender';
COMMENT ON COLUMN company_notification_templates.is_enabled IS
    'false: that of the platform counts';
COMMENT ON TABLE contact_counts IS
    'The number of contacts of a company; no row: it never had one. Written by triggers of contacts. internal/audience/contact locks the row before it changes contacts or tags of the company, so that these changes wait for each other.';
COMMENT ON TABLE contact_import_errors IS
    'A row of a list of which nothing was stored; of an import the first 10,000. Written by internal/audience/contact with its portion. It holds no value of the row.';
COMMENT ON COLUMN contact_import_errors.failure IS
    'the first thing that is wrong: a fault.Field as JSON';
COMMENT ON TABLE contact_imports IS
    'An uploaded list of contacts, and how far its rows are stored. Written by internal/audience/contact: a portion of rows and the numbers that count it are stored in one transaction, so that any server can go on behind row_no.';
COMMENT ON COLUMN contact_imports.upload_id IS
    'the list; no foreign key: the upload is deleted when the import ends; null: it has ended';
COMMENT ON COLUMN contact_imports.sheet IS
    'of a workbook; empty: the first that is not hidden';
COMMENT ON COLUMN contact_imports.tag IS
    'the tag that gets the contacts; null: none';
COMMENT ON COLUMN contact_imports.row_no IS
    'number of the last row that was worked up, as a spreadsheet program shows it';
COMMENT ON COLUMN contact_imports.rows IS
    'rows that were worked up, which are not empty';
COMMENT ON COLUMN contact_imports.invalid IS
    'rows of which nothing was stored';
COMMENT ON COLUMN contact_imports.failure IS
    'why the rest of the list could not be read: a fault.Field as JSON; null: it could';
COMMENT ON COLUMN contact_imports.created_by IS
    'the user; no foreign key: the configured user is in no table';
COMMENT ON COLUMN contact_imports.default_region IS
    'region (ISO 3166-1) of phone numbers without a country code; empty: that of the company';
COMMENT ON TABLE contacts IS
    'A person whom a company may notify, with the addresses on each channel. Written by internal/audience/contact.';
COMMENT ON COLUMN contacts.name IS
    'what messages call the person; null: not known';
COMMENT ON COLUMN countries.dial_prefix IS
    'without the +; if several prefixes match a number, the longest counts';
COMMENT ON COLUMN countries.version IS
    'incremented by each update; a caller names the version that it saw';
COMMENT ON TABLE credentials_version IS
    'One row: the last transaction that changed users or API keys. Written by triggers of these tables. Servers compare it with the version of the credentials in their memory. No row: nothing was changed yet.';
COMMENT ON TABLE daily_totals IS
    'What a sender did for a company on one day of the setting monitoring.time_zone, in messages of one type to one country. Tests are apart: no company sees them, but a provider counts them. Written by internal/insight/reconcile alone, in the transaction that deletes the facts; kept for ever.';
COMMENT ON COLUMN daily_totals.day IS
    'on which the attempts ended: the day on which the provider accepted them';
COMMENT ON COLUMN daily_totals.company_id IS
    'no foreign key: the row outlives the company';
COMMENT ON COLUMN daily_totals.sender_no IS
    'no foreign key, as facts.sender_no';
COMMENT ON COLUMN daily_totals.message_type IS
    'as messages.message_type; empty: not known';
COMMENT ON COLUMN daily_totals.country_no IS
    'empty: none, as outside of SMS';
COMMENT ON COLUMN daily_totals.accepted IS
    'of these, reported SUCCESS';
COMMENT ON COLUMN daily_totals.delivered IS
    'receipts that said so, on the day on which their message was accepted';
COMMENT ON COLUMN daily_totals.segments IS
    'of the accepted messages';
COMMENT ON COLUMN daily_totals.cost IS
    'of the segments, by the price that the sender had when they were counted; in 1/10000 of the currency';
COMMENT ON TABLE dedup_keys IS
    'The task that a submitter named with a dedup_key. Written by internal/dispatch/queue with the message, and kept when the message leaves, for as long as the setting history.dedup_keep_days says.';
COMMENT ON COLUMN dedup_keys.made_on IS
    'the day (UTC) of the submission; of a key that is older than the column the day of the upgrade';
COMMENT ON TABLE default_contents IS
    'The text that is sent once to a phone number when a submission has none. Written by internal/dispatch/template.';
COMMENT ON COLUMN default_contents.phone_number IS
    'as the caller wrote it';
COMMENT ON COLUMN default_contents.recipient IS
    'the same number in E.164, so that it is unique in every notation';
COMMENT ON COLUMN default_contents.is_sent IS
    'a submission used it; reset by an administrator';
COMMENT ON COLUMN default_contents.company_id IS
    'the company whose users send it; unique together with recipient';
COMMENT ON TABLE deleted_tags IS
    'A tag that was deleted, and may still have rows in tag_contacts. Written by a trigger of tags, and deleted by internal/audience/contact after these rows.';
COMMENT ON TABLE deliveries IS
    'An attempt to send a task through a provider: what a report said (the number of the provider), or why the outcome is unclear. Written by internal/dispatch/queue (reports) and internal/dispatch/push (unclear outcomes). No foreign keys: each insert would lock rows of other tables.';
COMMENT ON COLUMN deliveries.recipient IS
    'of the task, to match receipts';
COMMENT ON COLUMN deliveries.provider_no IS
    'the number that the provider gave the message; null: it is unknown whether the message was sent';
COMMENT ON COLUMN deliveries.error IS
    'why it is unknown whether the message was sent; null: the provider accepted it';
COMMENT ON COLUMN deliveries.answer IS
    'the answer of the provider as it came, without secrets, at most 2,000 characters; null: none came, or a report has it';
COMMENT ON TABLE directory_version IS
    'One row: the last transaction that changed the directory: companies, channels, countries, pools, routes, or a column of senders that concerns others. Written by triggers of these tables. Servers compare it with the version of the directory in their memory. No row: nothing was changed yet.';
COMMENT ON TABLE disk_spaces IS
    'The file system of a folder that one server uses. Written by internal/insight/alert on that server, once a minute; rows of servers that are gone are deleted after a day.';
COMMENT ON COLUMN disk_spaces.free_bytes IS
    'what an ordinary user may still use';
COMMENT ON COLUMN notification_templates.external_id IS
    'template of the provider; empty: none';
COMMENT ON COLUMN notification_templates.sign IS
    'signature before the text if the notification has none; null: that of the sender';
COMMENT ON COLUMN notification_templates.html IS
    'the content as HTML, for e-mail; null: none';
COMMENT ON TABLE erasures IS
    'A request to erase a person from what a company has stored. Written by internal/audience/erasure, which forgets whom it was about when it is done.';
COMMENT ON COLUMN erasures.user_ids IS
    'contacts.user_id of the person; empty: finished, or not known';
COMMENT ON COLUMN erasures.recipients IS
    'phone numbers in E.164 and e-mail addresses of the person; empty: finished, or not known. A message to one of them counts unless it was made for another user';
COMMENT ON COLUMN erasures.asked_recipients IS
    'those of recipients that the request named: every contact with one of them, and every message to it, is of the person; empty: finished, or a user was named';
COMMENT ON COLUMN erasures.held IS
    'tasks that senders held, and lists that were being read, when they were looked at last';
COMMENT ON COLUMN erasures.counts IS
    'how many rows were erased, by their kind';
COMMENT ON COLUMN erasures.exports IS
    'folders of exports of history that have erased tasks';
COMMENT ON COLUMN erasures.next_at IS
    'when it goes on';
COMMENT ON TABLE events IS
    'Something that operators should know: a changed setting, a sender with a low balance, an open circuit breaker, a slow queue. Written by internal/insight/alert, internal/dispatch/push, internal/dispatch/queue and internal/platform/setting in the transaction of the change.';
COMMENT ON TABLE fair_ranks IS
    'The last range of ranks that a company was given in a pool and priority (start-time fair queueing: a task uses 1 / weight of its company). Written by internal/dispatch/queue, and deleted with its pool by internal/dispatch/directory. pool_id has no foreign key: each submission would lock the pool.';
COMMENT ON COLUMN fair_ranks.finish IS
    'the smallest rank that the next range may begin with';
COMMENT ON COLUMN fair_ranks.flow IS
    'the only flow (task_flow) of the tasks that got ranks since the company had nothing waiting; null: several at once, or not known';
COMMENT ON COLUMN fair_ranks.flow_finish IS
    'where the tasks of flow without a flow_rank end: since then another flow of the company waits too, and each task gets a flow_rank; null: only flow waits';
COMMENT ON TABLE feed IS
    'Something that happened and of which submitters are told, kept for a week. Written by internal/events/feed from feed_staged, by one transaction at a time: ids ascend in the order in which the rows can be seen, so that a reader who goes on behind the last id misses nothing. No personal data: the content of an event of a task is read from messages and report_logs when it is told.';
COMMENT ON COLUMN feed.company_id IS
    '0: of the service itself, only for those who hear every company. No foreign key: the row outlives the company';
COMMENT ON COLUMN feed.submitted_by IS
    'the user who submitted the task or the batch; empty: not known any more';
COMMENT ON COLUMN feed.task_id IS
    'null: not about a task';
COMMENT ON COLUMN feed.log_id IS
    'the row of report_logs that says it; null: not about a task';
COMMENT ON COLUMN feed.at IS
    'when it happened';
COMMENT ON COLUMN feed.data IS
    'what is told of it; null: it is read from the task';
COMMENT ON TABLE feed_listeners IS
    'A company whose events are recorded: it has webhooks, or somebody pulled its events within a week. Written by internal/events/feed and internal/events/webhook. Nothing is recorded for a company without a row here.';
COMMENT ON COLUMN feed_listeners.since_id IS
    'the id of feed behind which all events of the company were recorded';
COMMENT ON COLUMN feed_listeners.is_pushed IS
    'it has a webhook that is on';
COMMENT ON COLUMN feed_listeners.listens_until IS
    'it listens until then, with or without a webhook';
COMMENT ON TABLE feed_staged IS
    'A row of feed to be, in the transaction in which it happened. Written by triggers of report_logs, batches, notifications and events, only if somebody listens. internal/events/feed moves it to feed within a second. Of one task, a later event has a larger id.';
COMMENT ON COLUMN feed_staged.company_id IS
    '0: of the service itself';
COMMENT ON COLUMN feed_staged.submitted_by IS
    'null: of a task, whose message says it';
COMMENT ON TABLE feed_state IS
    'One row: how much of feed is deleted. Written by internal/events/feed in the transaction of the deletion.';
COMMENT ON COLUMN feed_state.pruned_id IS
    'the largest id that was deleted';
COMMENT ON TABLE fruitless_submissions IS
    'A submission that created no task: it was refused, or it repeated a dedup_key. Written by internal/dispatch/queue.';
COMMENT ON COLUMN fruitless_submissions.task_id IS
    'the task that was repeated; null: refused';
COMMENT ON COLUMN fruitless_submissions.phone_number IS
    'as the caller wrote it; null: not given or unreadable';
COMMENT ON COLUMN fruitless_submissions.company_id IS
    'the company of the submitter; no foreign key, as in messages; null: stored before this column existed';
COMMENT ON TABLE idempotency_keys IS
    'The response to a request with an Idempotency-Key. Written by internal/platform/idempotency, which deletes rows after a day. username has no foreign key: the configured user is in no table.';
COMMENT ON COLUMN idempotency_keys.operation IS
    'operation of the API; a caller may use the same key for different operations';
COMMENT ON TABLE inbounds IS
    'How the posts of one other program become messages of a company. Written by internal/transport/inbound; the erasure of a person takes a number out of phone_numbers.';
COMMENT ON COLUMN inbounds.preset IS
    'name of the description that internal/transport/inbound has for a program; custom: none';
COMMENT ON COLUMN inbounds.description IS
    'members that replace those of the preset; null: the preset as it is';
COMMENT ON COLUMN inbounds.phone_numbers IS
    'recipients of every post, in E.164; null: the body of the post names them; empty: an erasure took the last one, and posts are refused';
COMMENT ON COLUMN inbounds.priority IS
    'null: that of the message type';
COMMENT ON COLUMN inbounds.template_no IS
    'template of the messages; null: the description has their text. No foreign key: a template that was deleted is an error of each post';
COMMENT ON COLUMN inbounds.sign IS
    'null: that of the template or the sender';
COMMENT ON COLUMN inbounds.repeat_seconds IS
    'after how long a post that says the same as before is sent again; null: never';
COMMENT ON TABLE notifications IS
    'An announcement to some people on one channel. Written by internal/audience/notification. Its messages are in renderings and their tasks. submitted_by has no foreign key: the configured user is in no table.';
COMMENT ON COLUMN notifications.biz_type IS
    '0 task created, 1 node done, 2 orbit reminder, 3 task finished, 4 task abnormal, 5 node timeout; callers may use other numbers';
COMMENT ON COLUMN notifications.biz_task_id IS
    'the business task of a business event; null: the notification comes from no business event';
COMMENT ON COLUMN notifications.dedup_key IS
    'unique among the visible notifications of a channel and a company whose keys have the same owner, see dedup_key_owner; null: none';
COMMENT ON COLUMN notifications.next_run_at IS
    'when messages are sent next; null: no further run';
COMMENT ON COLUMN notifications.repeat_minutes IS
    'minutes from the end of a run to the next; null: no repetition';
COMMENT ON COLUMN notifications.started_at IS
    'of a node timeout: when the work on the node started';
COMMENT ON COLUMN notifications.ended_as IS
    '1 set to success, 2 could not be sent, 3 cancelled, 4 ended abnormally, 5 partly failed (of a forgotten one); null: the state follows from the tasks';
COMMENT ON COLUMN notifications.remark IS
    'why the last run failed; null: it did not';
COMMENT ON COLUMN notifications.operator IS
    'who changed it last in the system of the caller';
COMMENT ON COLUMN notifications.deleted_at IS
    'hidden from then on; null: visible. Rows are never deleted.';
COMMENT ON COLUMN notifications.sign IS
    'signature before the text; null: that of the template, else of the sender';
COMMENT ON COLUMN notifications.replaced_at IS
    'when its dedup_key was freed: its node started again, its orbit was planned for another time, or it had reached nobody and was announced again; null: it was not';
COMMENT ON COLUMN notifications.expires_at IS
    'nothing is sent later; null: never';
COMMENT ON COLUMN notifications.own_payload IS
    'values of this notification beside its announcement, such as the number of an orbit; they override the announcement';
COMMENT ON COLUMN notifications.forgotten_at IS
    'when its tasks were about to be dropped: it is in no list any more, and has an empty payload; ended_as is its last state; null: not forgotten';
COMMENT ON COLUMN notifications.run_rendering_id IS
    'of a notification to a tag: the text of the run that goes on; null: none does';
COMMENT ON COLUMN notifications.run_after IS
    'the last contact who got a task of this run';
COMMENT ON COLUMN notifications.is_companys IS
    'its dedup_key is unique in the company; false: the row is of a version in which each submitter had keys of its own';
COMMENT ON COLUMN notifications.changed_by IS
    'the user of LKSMS who ended, deleted or resumed it last; null: nobody did, or before this column. No foreign key, as submitted_by';
COMMENT ON TABLE renderings IS
    'The text of one run of a notification, of one send-once message, or of one batch, which its tasks share. Written by internal/audience/notification. notification_id has no foreign key: rows of notifications are never deleted.';
COMMENT ON COLUMN renderings.template_id IS
    'template of the provider; empty: none';
COMMENT ON COLUMN renderings.page IS
    'page that a WeChat message opens; empty: none';
COMMENT ON COLUMN renderings.notification_id IS
    'null: a send-once message, or a batch';
COMMENT ON COLUMN renderings.html IS
    'the content as HTML; empty: none';
COMMENT ON COLUMN renderings.is_template IS
    'each recipient fills its placeholders, with messages.contact_values: a run that goes on knows it from here, because none of its messages may be left to show it';
COMMENT ON COLUMN renderings.channel_id IS
    'of a batch: its channel; null: of a notification, or of a send-once message';
COMMENT ON COLUMN number_partitions.first_number IS
    'the first lease_id or batch_id that it takes; 0: the table of before there were partitions, which also has the rows without lease_id';
COMMENT ON COLUMN number_partitions.before_number IS
    'the first one that it does not take any more; null: it has no end';
COMMENT ON COLUMN number_partitions.entered_at IS
    'when its first number was given out, or somewhat later; null: not yet';
COMMENT ON COLUMN number_partitions.left_at IS
    'since when no more of its numbers are given out; null: they are, or will be';
COMMENT ON TABLE phone_leases IS
    'A lease that a phone took and has not ended yet, or had when it pulled last: a phone that lost the answer gets these messages again. An index of queue by holder would cost each claim of every sender. Written by internal/transport/smsgate/mobile.';
COMMENT ON COLUMN phone_leases.task_id IS
    'no foreign key: it would lock rows of queue';
COMMENT ON TABLE phones IS
    'A phone with the app of SMSGate that is a sender, or shall become one. Written by internal/transport/smsgate/mobile.';
COMMENT ON COLUMN phones.code_hash IS
    'SHA-256 of the code with which one phone can register; null: none is open';
COMMENT ON COLUMN phones.code_until IS
    'until when the code can be used';
COMMENT ON COLUMN phones.device_no IS
    'under which name the phone knows itself; null: no phone has registered';
COMMENT ON COLUMN phones.model IS
    'what the phone says of itself; null: nothing';
COMMENT ON COLUMN phones.claimed_at IS
    'when the phone last got new messages; null: never';
COMMENT ON COLUMN phones.troubles IS
    'how often the phone was made to rest since it last sent a message, at most 20';
COMMENT ON COLUMN phones.rest_until IS
    'until when the phone gets no new messages, because it could not send; null: it can';
COMMENT ON COLUMN phones.pull_until IS
    'until when one pull of the phone keeps out others; null: none is underway';
COMMENT ON TABLE pool_channels IS
    'The channel of each pool that ever existed: facts, and receipts of old tasks, name pools that were deleted since. Written by a trigger of pools only. No foreign keys: the rows outlive both.';
COMMENT ON TABLE pools IS
    'A set of waiting tasks that the same routes serve: those of a company, message type and country. A pool without company is the shared pool of a channel, for tasks without a route. A pool with a sender has the tasks that only this sender may send. Written by internal/dispatch/directory; unsettled_since also by internal/dispatch/queue.';
COMMENT ON COLUMN pools.country_id IS
    'null: every country without a pool of its own';
COMMENT ON COLUMN pools.retired_at IS
    'when the last route was deleted; only the channel is kept, to move tasks that return to the pool; null: in use';
COMMENT ON COLUMN pools.unsettled_since IS
    'when the pool began to serve; tasks of it may still wait in broader pools, from which a sweep moves them; null: none do';
COMMENT ON COLUMN pools.sender_id IS
    'the only sender; such a pool has one route, to it, and is deleted when it is empty and unused; null: any';
COMMENT ON TABLE receipts IS
    'What a provider reported later about one accepted message. Written by internal/dispatch/receipt, which deletes old rows. callback_id and sender_no have no foreign keys: a receipt may outlive its callback, and does not stop the deletion of its sender.';
COMMENT ON COLUMN receipts.recipient IS
    'as the provider wrote it; empty: not given';
COMMENT ON COLUMN receipts.state IS
    '0 on its way, 1 delivered, 2 undelivered';
COMMENT ON COLUMN receipts.code IS
    'status code of the provider; empty: none';
COMMENT ON COLUMN receipts.matched_at IS
    'when the task of the message was found; null: not yet';
COMMENT ON COLUMN receipts.look_at IS
    'when the task is searched next; null: it was found, or the search was given up';
COMMENT ON VIEW receive_logs IS
    'Each submission, with the columns of the documented log: those that created a task, and the others.';
COMMENT ON TABLE statistics_staged IS
    'What one fold found in a minute of one company, channel, sender, message type and outcome. Written by internal/insight/statistics in the transaction of the fold; a sweep moves the rows to statistics when their minute is over.';
COMMENT ON COLUMN statistics_staged.company_id IS
    'no foreign key: figures outlive their company';
COMMENT ON COLUMN statistics_staged.channel IS
    'channels.channel; empty: not known';
COMMENT ON COLUMN statistics_staged.message_type IS
    'as messages.message_type; test: tests of any type; empty: not known';
COMMENT ON COLUMN statistics_staged.outcome IS
    'SUCCESS, FAILED or CANCELLED; empty: what is no end of a task';
COMMENT ON COLUMN statistics_staged.waits IS
    'as facts.waits; empty: none';
COMMENT ON COLUMN statistics_staged.durations IS
    'as facts.durations; empty: none';
COMMENT ON VIEW recent_statistics IS
    'What is not in statistics yet: staged minutes, and the facts that are not folded. One statement that reads this view and statistics counts everything once.';
COMMENT ON TABLE reconciliation_differences IS
    'A message about which a provider''s file and LKSMS differ; of each kind and reconciliation the first 10,000. Written by internal/insight/reconcile with its portion.';
COMMENT ON COLUMN reconciliation_differences.provider_no IS
    'null: the row of the file has none that can be read';
COMMENT ON COLUMN reconciliation_differences.row_no IS
    'of the file, as a spreadsheet program shows it; null: the file has no such row';
COMMENT ON COLUMN reconciliation_differences.task_id IS
    'null: no attempt has the number. No foreign key: tasks leave with their partitions';
COMMENT ON COLUMN reconciliation_differences.accepted_at IS
    'when the attempt was reported; of missing_here, on another day';
COMMENT ON COLUMN reconciliation_differences.ours IS
    'the state, the segments or the number of messages that LKSMS has, by kind; null: none';
COMMENT ON COLUMN reconciliation_differences.theirs IS
    'the same of the file; of unreadable why, a fault.Rule';
COMMENT ON TABLE reconciliation_rows IS
    'A message of a provider''s file that is being compared. Written by internal/insight/reconcile, which deletes it when the file is compared.';
COMMENT ON COLUMN reconciliation_rows.copies IS
    'how many rows have the number';
COMMENT ON COLUMN reconciliation_rows.status IS
    'as in all of these rows; null: not compared, or they differ';
COMMENT ON TABLE reconciliations IS
    'What a provider says it accepted of a sender on one day, compared with what LKSMS has. Written by internal/insight/reconcile: a total in one statement, the rows of a file in portions, each in one transaction with the place behind it, so that any server can go on there.';
COMMENT ON COLUMN reconciliations.sender_no IS
    'no foreign key: the row outlives the sender';
COMMENT ON COLUMN reconciliations.unit IS
    'of ours and theirs, if the provider gave a total; null: it gave a file, of messages';
COMMENT ON COLUMN reconciliations.ours IS
    'of a total daily_totals, tests included; of a file the messages with a number that it has, or should have';
COMMENT ON COLUMN reconciliations.theirs IS
    'of a file its different numbers';
COMMENT ON COLUMN reconciliations.tests IS
    'of ours, those of tests; 0 for a file';
COMMENT ON COLUMN reconciliations.upload_id IS
    'the file; no foreign key: it is deleted when it was read; null: it was';
COMMENT ON COLUMN reconciliations.sheet IS
    'of a workbook; empty: the first that is not hidden';
COMMENT ON COLUMN reconciliations.phase IS
    'read: the file goes to reconciliation_rows; match: the attempts of these rows are looked for; search: attempts of the day without a row are; clear: the rows are deleted; null: it has ended';
COMMENT ON COLUMN reconciliations.row_no IS
    'read: the last row of the file that is stored';
COMMENT ON COLUMN reconciliations.after_no IS
    'match: the last number that was looked for';
COMMENT ON COLUMN reconciliations.after_at IS
    'search: with after_id the last attempt that was looked at; null: none';
COMMENT ON COLUMN reconciliations.rows IS
    'rows of the file that were read, without empty ones';
COMMENT ON COLUMN reconciliations.near_midnight IS
    'attempts within minutes of the day''s ends without a row: no difference, a neighbouring statement may have them';
COMMENT ON COLUMN reconciliations.differences IS
    'by how much ours and theirs differ, or of a file how often; 0: the day matches';
COMMENT ON COLUMN reconciliations.failure IS
    'why the file could not be read to its end: a fault.Field as JSON';
COMMENT ON COLUMN reconciliations.created_by IS
    'the user; no foreign key: the configured user is in no table';
COMMENT ON COLUMN routes.sort IS
    'of the available senders of a pool, only those with the largest sort are served';
COMMENT ON COLUMN routes.version IS
    'incremented by each update; a caller names the version that it saw';
COMMENT ON COLUMN routes.last_turn IS
    'when the sender last served the pool, in the virtual time of the sender';
COMMENT ON COLUMN routes.next_turn IS
    'when it is the turn of the pool again, in the same virtual time; a value in the past counts as now';
COMMENT ON VIEW send_logs IS
    'Each lease, with the columns of the documented log: those that have ended, and those of queue.';
COMMENT ON TABLE sender_answers IS
    'One of the last ten outcomes of calls of a driven sender. Written by internal/dispatch/push, which deletes older rows. task_id has no foreign key: the task may leave first.';
COMMENT ON COLUMN sender_answers.code IS
    'the code of a failure, of the provider or of the driver; null: it has none';
COMMENT ON COLUMN sender_answers.answer IS
    'the answer of the provider as it came, without secrets, at most 2,000 characters; null: none came';
COMMENT ON TABLE sender_ledger IS
    'A change of the balance of a sender, or of its thresholds. Written by internal/dispatch/queue (charges, refunds) and internal/dispatch/sender (top-ups, corrections, thresholds). Partitioned by lease_id, see number_partitions; rows without one are in the default partition. No foreign keys: each charge would lock rows of senders and send_logs.';
COMMENT ON COLUMN sender_ledger.username IS
    'who changed the balance or the thresholds; null: an attempt';
COMMENT ON COLUMN sender_ledger.low_warning IS
    'the new threshold, of changed thresholds and an opening balance; null otherwise';
COMMENT ON COLUMN sender_ledger.company_id IS
    'whose tasks were charged or refunded; null: top-up, correction or thresholds';
COMMENT ON TABLE sender_ledger_default IS
    'Rows of sender_ledger without lease_id, and charges and refunds from before there were partitions.';
COMMENT ON TABLE sender_states IS
    'The counters and the circuit breaker of a sender, one row for each row of senders. Written by internal/dispatch/queue (claims, refunds), internal/dispatch/push (circuit breaker) and internal/dispatch/sender. Apart from senders, so that a claim updates a short row in place.';
COMMENT ON COLUMN sender_states.next_available_at IS
    'the sender is ready from then on: one interval for each call of the last claim, and not while the circuit breaker is open; -infinity: always ready';
COMMENT ON COLUMN sender_states.last_taken IS
    'number of calls of the last claim, from which a changed interval is counted again';
COMMENT ON COLUMN sender_states.last_taken_at IS
    'time of the last claim that took something while the sender had an interval, limits or a balance; null: never';
COMMENT ON COLUMN sender_states.balance IS
    'segments left; null: no balance';
COMMENT ON COLUMN sender_states.minute_used IS
    'segments in the minute of last_taken_at; in any other minute none are used';
COMMENT ON COLUMN sender_states.sent_at IS
    'when the last SUCCESS was reported; null: never';
COMMENT ON COLUMN sender_states.attempts IS
    'number of leases ever; succeeded of them were sent';
COMMENT ON COLUMN sender_states.openings IS
    'how often the circuit breaker opened since a message got through; 0: closed';
COMMENT ON COLUMN sender_states.rest_until IS
    'the circuit breaker is open until then and half-open afterwards; null: closed';
COMMENT ON COLUMN sender_states.probe_until IS
    'half-open: one worker tries one message until then; null: no worker does';
COMMENT ON COLUMN sender_states.attempts_today IS
    'number of leases on attempts_on; on any other day none';
COMMENT ON COLUMN sender_states.failed_tasks IS
    'tasks that became FAILED with the sender; failed counts its FAILED reports, also those that are retried';
COMMENT ON COLUMN senders.kind IS
    'app: it polls; otherwise the name of the driver';
COMMENT ON COLUMN senders.sort IS
    'of the available senders of a shared pool, only those with the largest sort are served';
COMMENT ON COLUMN senders.is_shared IS
    'it also serves the shared pool of its channel: tasks without a route';
COMMENT ON COLUMN senders.lease_seconds IS
    'null: as configured for the server';
COMMENT ON COLUMN senders.sign IS
    'signature for tasks without one, without brackets; null: none';
COMMENT ON COLUMN senders.segment_size IS
    'characters that its provider counts as one segment; null: counted by GSM 03.38';
COMMENT ON COLUMN senders.low_warning IS
    'an event is added when the balance falls to it; null: none';
COMMENT ON COLUMN senders.low_switch IS
    'nothing is leased at this balance or below; null: 0';
COMMENT ON COLUMN senders.config IS
    'configuration of the driver; secrets are sealed';
COMMENT ON COLUMN senders.is_paced IS
    'generated: it has an interval, limits or a balance, so a claim must lock its row in sender_states';
COMMENT ON COLUMN senders.version IS
    'incremented by each update; a caller names the version that it saw';
COMMENT ON COLUMN senders.is_self_registered IS
    'an app created it by polling; also false for senders older than this column';
COMMENT ON COLUMN senders.segment_price IS
    'what the provider takes for a segment, in 1/10000 of the currency in the setting monitoring.currency; null: not known, and costs nothing';
COMMENT ON COLUMN senders.sign_mode IS
    'in_text: the signature stands before the text that the sender gets; by_provider: the provider adds it; none: the message goes out without';
COMMENT ON VIEW sender_standings IS
    'View: each sender with what others need to know about it now. A claim reads it by sender_id.';
COMMENT ON COLUMN sender_standings.has_funds IS
    'it has no balance, or one above low_switch';
COMMENT ON COLUMN sender_standings.segments_left IS
    'segments that its limits and balance leave; null: no limit';
COMMENT ON COLUMN sender_standings.room IS
    'the most segments, as counted at the submission, of a task that it can surely still send; its own segment size or signature may allow more';
COMMENT ON COLUMN sender_tokens.token IS
    'sealed; empty: none was fetched yet';
COMMENT ON COLUMN sender_tokens.expires_at IS
    '-infinity: none was fetched yet';
COMMENT ON COLUMN sender_tokens.fetches IS
    'number of leases to fetch the token; only the last of them may store it';
COMMENT ON COLUMN sender_tokens.fetch_until IS
    'one server fetches the token until then; null: no server does';
COMMENT ON VIEW sender_totals IS
    'What each sender did so far: the totals of sender_states, and what facts still holds. Both are read at one moment.';
COMMENT ON COLUMN sender_totals.seen_at IS
    'the last poll, claim or report; null: none';
COMMENT ON COLUMN sender_totals.sent_at IS
    'the last reported SUCCESS; null: none';
COMMENT ON TABLE servers IS
    'A server that runs, or ran within a day. Written by internal/platform/servers.';
COMMENT ON COLUMN servers.seen_at IS
    'When the server last wrote this row. It does so every few seconds, and deletes the row when it stops.';
COMMENT ON TABLE sessions IS
    'One session of a web page. Written by internal/platform/access. username has no foreign key: the configured user is in no table. A trigger of users ends the sessions of a user that is disabled or gets another password.';
COMMENT ON COLUMN sessions.password_proof IS
    'HMAC-SHA-256, with the token as its key, of the stored password that was proved: with another password the session is over. The token is stored nowhere, so this says nothing about the password.';
COMMENT ON COLUMN sessions.last_seen_at IS
    'the last request, at most a minute earlier';
COMMENT ON COLUMN sessions.source_ip IS
    'where the user signed in';
COMMENT ON COLUMN sessions.user_agent IS
    'the browser in which the user signed in, as it names itself';
COMMENT ON TABLE settings IS
    'A setting that was changed from its default. Written by internal/platform/setting, which knows the names, defaults and bounds.';
COMMENT ON COLUMN settings.updated_by IS
    'null: nobody changed the value, which is the default; only inside the transaction of the first change. No foreign key: the configured user is in no table';
COMMENT ON COLUMN smsgate_messages.submitted_by IS
    'as messages.submitted_by: the user name, which no foreign key keeps';
COMMENT ON COLUMN smsgate_messages.message_id IS
    'the id that the program gave, or one that was made; of one user of a company';
COMMENT ON COLUMN smsgate_messages.task_ids IS
    'in the order of the recipients; no foreign key: messages are partitioned';
COMMENT ON COLUMN smsgate_messages.sender_no IS
    'the only sender that may send it, as it was asked for; null: any';
COMMENT ON TABLE sql_roles IS
    'A role of PostgreSQL that may call the functions of the schema lksms, and the user for whom it submits. Written by internal/transport/sqlinbox, with the grants. The role needs both: a migration that makes a function of lksms again must grant it to these roles.';
COMMENT ON COLUMN sql_roles.role_name IS
    'session_user of the caller; no foreign key: a role belongs to the cluster';
COMMENT ON TABLE statistics IS
    'What happened in one minute, hour or day: to all tasks of a company, or to those of one key of a dimension. Written by internal/insight/statistics only, from statistics_staged; minutes and hours are deleted later.';
COMMENT ON COLUMN statistics.company_id IS
    '0: all companies. No foreign key: figures outlive their company';
COMMENT ON COLUMN statistics.dimension IS
    'company: only of company_id 0';
COMMENT ON COLUMN statistics.at IS
    'when it begins: hours are those of UTC, days those of the setting monitoring.time_zone at the time of the sweep';
COMMENT ON COLUMN statistics.key IS
    'of the dimension company its id, of the others the column of statistics_staged that is named like the dimension (sender: sender_no); empty: as there, or the dimension is total. Tests are in no other row than that of the message type test';
COMMENT ON COLUMN statistics.waits IS
    'histogram of the times from entered_at to the first claim: for each bucket with tasks, ascending, its number (one byte, see wait_bucket), and how many tasks it has (varint of Go''s encoding/binary)';
COMMENT ON COLUMN statistics.durations IS
    'histogram of the times from entered_at to SUCCESS or FAILED, written like waits';
COMMENT ON TABLE subscribe_messages IS
    'A message that a person gets once for a business object and template type. Written by internal/audience/notification. task_id has no foreign key: the row is created before its task.';
COMMENT ON COLUMN subscribe_messages.receiver_user_id IS
    'contacts.user_id; no foreign key: a person whose address the request carries needs no contact';
COMMENT ON COLUMN subscribe_messages.template_id IS
    'template of the provider in the last send';
COMMENT ON COLUMN subscribe_messages.task_id IS
    'the last task that sent it; its state is that of the message';
COMMENT ON COLUMN subscribe_messages.submitted_by IS
    'the user who asked first; empty: its task no longer existed when this column was added';
COMMENT ON COLUMN subscribe_messages.is_companys IS
    'the only message of its key in the company; false: the row is of a version in which each submitter had messages of its own';
COMMENT ON VIEW switches IS
    'View: one row: whether task_switches may return anything for any task: may_hold, but for users; has_disabled_users, for users. Claims read it, so that they ask only then: disabled users are usual.';
COMMENT ON TABLE tag_contacts IS
    'A contact that a tag holds. Written by internal/audience/contact. tag_id has no foreign key: a tag may hold a million contacts, and is deleted at once; a sweep deletes its rows here, which deleted_tags names.';
COMMENT ON TABLE tags IS
    'A tag of a company, which holds contacts. Written by internal/audience/contact; contacts by triggers of tag_contacts.';
COMMENT ON COLUMN tags.contacts IS
    'how many contacts it holds';
COMMENT ON TABLE task_counts IS
    'The numbers of tasks of one company in each state, without what facts still holds. Written by internal/insight/history, which folds facts.';
COMMENT ON COLUMN task_counts.company_id IS
    'no foreign key: a fold would lock all companies';
COMMENT ON TABLE task_jobs IS
    'A request to cancel or requeue all tasks of a filter, and how far it is. Written by internal/dispatch/job; a batch of tasks and the numbers that count it are changed in one transaction.';
COMMENT ON COLUMN task_jobs.filter IS
    'as the request gave it; the tasks that it selected then are in task_job_parts';
COMMENT ON COLUMN task_jobs.skipped IS
    'number of tasks whose state did not allow it any more';
COMMENT ON COLUMN task_jobs.failed IS
    'number of tasks of which the database refused the change';
COMMENT ON COLUMN task_jobs.stopped_by IS
    'the user who stopped the job; null: nobody did';
COMMENT ON TABLE task_partitions IS
    'The days that have a partition of messages and one of report_logs, or had them. Written by the functions task_partition_make and task_partition_drop, in the transaction that makes or drops the partitions.';
COMMENT ON COLUMN task_partitions.first_id IS
    'the first task_id that the partitions take';
COMMENT ON COLUMN task_partitions.before_id IS
    'the first task_id that they do not take any more';
COMMENT ON COLUMN task_partitions.history_at IS
    'since when it is history: its tasks are settled, and it is where the setting history.tablespace says; null: not yet';
COMMENT ON COLUMN task_partitions.exported_at IS
    'when its last export was complete; null: never';
COMMENT ON COLUMN task_partitions.imported_at IS
    'when it was imported from an export, or made again for the tasks that its drop had left behind: its time to be kept begins anew; null: neither';
COMMENT ON COLUMN task_partitions.exported_late IS
    'the ids, in order, of the tasks that the last export left out because they were not over; null: none';
COMMENT ON COLUMN task_partitions.late_tasks IS
    'number of tasks that the drop left behind in the default partition; null: it was not dropped, or by a server that did not know the column';
COMMENT ON COLUMN task_partitions.held_by IS
    'why the last run of the sweep could not make it history or drop it: no_folder, too_many_late, locked or failed; null: it could, or did not try';
COMMENT ON VIEW task_totals IS
    'The exact numbers of tasks of each company in each state: task_counts, and what facts still holds. Both are read at one moment.';
COMMENT ON TABLE template_versions IS
    'One row is the texts of a template at one time; the one with the greatest version is current. Written by internal/dispatch/template; deleted with the template.';
COMMENT ON COLUMN template_versions.created_by IS
    'name of the user who set these texts; null: nobody did through the service, or before versions were kept';
COMMENT ON COLUMN templates.send_type IS
    'realtime: sent at once; scheduled: sent at the next full interval of the setting sms.scheduled_every_seconds, unless the submission names a time';
COMMENT ON COLUMN templates.companies IS
    'company_no of the companies that may use it; empty: all. An array cannot have a foreign key, so the deletion of a company checks it.';
COMMENT ON COLUMN templates.given_no IS
    'template_no as an administrator chose it; null: it is made from the id';
COMMENT ON COLUMN templates.status IS
    'only active ones are sent; voided is final';
COMMENT ON COLUMN templates.language IS
    'language of template_content (BCP 47); null: not known';
COMMENT ON COLUMN templates.sign IS
    'signature of a message whose submission has none; null: that of the sender';
COMMENT ON COLUMN templates.version IS
    'counts the changes of template_content, language, translations and sign; 1: as it was created';
COMMENT ON COLUMN upload_parts.part IS
    'from 0';
COMMENT ON TABLE uploads IS
    'A file that a request brought, until it is worked up. Written by internal/audience/upload; the package that works it up deletes it.';
COMMENT ON COLUMN uploads.submitted_by IS
    'the user who sent it; no foreign key: the configured user is in no table';
COMMENT ON COLUMN uploads.name IS
    'of the file, as its owner calls it; may be empty';
COMMENT ON COLUMN uploads.size IS
    'bytes; null: it is still being received, or its request was broken off';
COMMENT ON COLUMN uploads.used_by IS
    'what needs the file, as in "batch 17"; null: nothing yet, and the file is deleted after an hour';
COMMENT ON COLUMN uploads.encoding IS
    'of the text, as its owner says: a name of sheet.Encodings; null: it is found';
COMMENT ON TABLE user_addresses IS
    'An address at which a user proved its password. Written by internal/platform/access after a right password, at most once a day. Rows older than 30 days do not count, and are deleted when the user proves its password again.';
COMMENT ON COLUMN user_addresses.username IS
    'no foreign key: the configured user is in no table';
COMMENT ON TABLE webhook_deliveries IS
    'One post of an event: the last hundred of each webhook, and the last one of each event that waits for another. Written by internal/events/webhook in the transaction that moves the webhook on. The body of the post is not stored: it is made of feed again.';
COMMENT ON COLUMN webhook_deliveries.feed_id IS
    'no foreign key: it may outlive the event, and a webhook.test is in no feed';
COMMENT ON COLUMN webhook_deliveries.attempt IS
    'from 1';
COMMENT ON COLUMN webhook_deliveries.status_code IS
    'null: no answer came';
COMMENT ON COLUMN webhook_deliveries.error IS
    'null: it was taken';
COMMENT ON COLUMN webhook_deliveries.response IS
    'the first KB of the answer; null: none, or the person of the task was erased';
COMMENT ON TABLE webhook_retries IS
    'An event that a webhook has left behind its after_id and must still post: it failed, it waits for an earlier one of its task, or it is replayed. Written by internal/events/webhook; deleted when the event is taken, and with the event.';
COMMENT ON COLUMN webhook_retries.tries IS
    'posts that failed';
COMMENT ON COLUMN webhook_retries.due_at IS
    'null: it waits for an earlier event of its task';
COMMENT ON COLUMN webhook_retries.delivery_id IS
    'the row of webhook_deliveries of the last post; no foreign key: both go together. Null: none';
COMMENT ON TABLE webhook_secrets IS
    'A secret with which the posts of a webhook are signed, sealed. Written by internal/events/webhook.';
COMMENT ON COLUMN webhook_secrets.valid_until IS
    'it was replaced, and still signs until then; null: the current one';
COMMENT ON TABLE webhooks IS
    'An address to which events of the feed are posted, and how far. Written by internal/events/webhook. A run reads events behind after_id, posts them, and moves after_id in one transaction with what failed, guarded by the after_id that it read: whatever is killed, each event is posted at least once.';
COMMENT ON COLUMN webhooks.company_id IS
    'whose events; null: those of every company';
COMMENT ON COLUMN webhooks.user_id IS
    'only what this user submitted; it leaves with the user. Null: everything of the company';
COMMENT ON COLUMN webhooks.owner IS
    'among whose webhooks it is counted';
COMMENT ON COLUMN webhooks.off_reason IS
    'why it was switched off by itself: the receiver answered 410 (gone), or failed for five days (failing); null: it was not';
COMMENT ON COLUMN webhooks.rotated_at IS
    'when it last got another secret; null: never';
COMMENT ON COLUMN webhooks.after_id IS
    'the last id of feed that was posted, left out, or is in webhook_retries';
COMMENT ON COLUMN webhooks.failing_since IS
    'the first failed post since the last one that was taken; null: the last one was taken';
COMMENT ON COLUMN webhooks.failed_runs IS
    'runs in a row in which no post was taken';
COMMENT ON COLUMN webhooks.rest_until IS
    'nothing is posted before; null: no rest';
COMMENT ON COLUMN webhooks.form IS
    'how posts are written and signed: standard (Standard Webhooks), or smsgate (as the app of SMSGate does)';
COMMENT ON COLUMN webhooks.external_id IS
    'of the form smsgate: the id that the program gave, or one that was made; of one user. Null: another form';
