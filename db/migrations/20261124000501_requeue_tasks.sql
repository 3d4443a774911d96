-- migrate:up
-- A FAILED or CANCELLED task can be requeued: the row of report_logs that settled it loses its outcome, and a row requeued says who did it. The
-- new constraints allow more than those before, so no row can break them: they are validated by the next migration, which blocks no writes. This
-- one locks report_logs for a moment. See measure_waits_of_queue.
SET LOCAL lock_timeout = '5s';
ALTER TABLE report_logs DROP CONSTRAINT report_logs_event_known;
ALTER TABLE report_logs ADD CONSTRAINT report_logs_event_known CHECK (event IN (
    'reported', 'recovered', 'released', 'cancelled', 'expired', 'receipt', 'past_receipt', 'unreachable', 'requeued'
)) NOT VALID;
ALTER TABLE report_logs DROP CONSTRAINT report_logs_effect_known;
ALTER TABLE report_logs ADD CONSTRAINT report_logs_effect_known CHECK (effect IN (
    'success', 'failed', 'retry', 'exhausted', 'unclear', 'untried', 'troubled', 'ignored', 'refused', 'cancelled', 'expired',
    'delivered', 'undelivered', 'requeued'
)) NOT VALID;

-- A row that loses its outcome makes a task no longer SUCCESS or FAILED. No other statement changes the outcome of a row.
CREATE FUNCTION report_logs_outcome_facts() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO facts (company_id, at, success, failed)
    SELECT c.company_id, clock_timestamp(), c.success, c.failed
    FROM (
        SELECT x.company_id, coalesce(sum(x.n) FILTER (WHERE x.outcome = 2), 0) AS success, -- SUCCESS
            coalesce(sum(x.n) FILTER (WHERE x.outcome = 3), 0) AS failed -- FAILED
        FROM (
            SELECT company_id, outcome, 1 AS n FROM added
            UNION ALL
            SELECT company_id, outcome, -1 FROM removed
        ) x
        GROUP BY x.company_id
    ) c
    WHERE (c.success, c.failed) <> (0, 0);
    RETURN NULL;
END
$$;
CREATE TRIGGER report_logs_facts_updated AFTER UPDATE ON report_logs
    REFERENCING NEW TABLE AS added OLD TABLE AS removed FOR EACH STATEMENT EXECUTE FUNCTION report_logs_outcome_facts();

-- task_channel is the channel of a task: that of its notification, wechat for a send-once message, otherwise sms. The pool in which it waited first may
-- have been deleted since.
CREATE FUNCTION task_channel(of_rendering bigint) RETURNS bigint LANGUAGE sql STABLE AS $$
    SELECT CASE
        WHEN of_rendering IS NULL THEN (SELECT c.id FROM channels c WHERE c.channel = 'sms')
        ELSE coalesce(
            (SELECT n.channel_id FROM renderings r JOIN notifications n ON n.id = r.notification_id WHERE r.id = of_rendering),
            (SELECT c.id FROM channels c WHERE c.channel = 'wechat')
        )
    END
$$;

-- task_is_withdrawn is whether a task that has ended must not be sent again: its company was deleted; or the send-once message has another task; or the
-- notification has ended, was deleted, was replaced by that of the next start of its node, or is forgotten; or the person got a later message of it.
-- In PL/pgSQL, so that a task without a rendering opens no partition of messages.
CREATE FUNCTION task_is_withdrawn(of_task text, of_company bigint, of_rendering bigint, of_user text) RETURNS boolean LANGUAGE plpgsql STABLE AS $$
DECLARE
    notification bigint;
BEGIN
    IF NOT EXISTS (SELECT FROM companies c WHERE c.id = of_company) THEN
        RETURN true;
    END IF;
    IF of_rendering IS NULL THEN
        RETURN false;
    END IF;
    SELECT r.notification_id INTO notification FROM renderings r WHERE r.id = of_rendering;
    IF NOT FOUND THEN
        RETURN true;
    END IF;
    IF notification IS NULL THEN
        RETURN NOT EXISTS (SELECT FROM subscribe_messages s WHERE s.task_id = of_task);
    END IF;
    RETURN NOT EXISTS (
            SELECT FROM notifications n
            WHERE n.id = notification AND n.ended_as IS NULL AND n.deleted_at IS NULL AND n.replaced_at IS NULL AND n.forgotten_at IS NULL
        )
        OR EXISTS (
            SELECT FROM renderings l
            JOIN messages m ON m.rendering_id = l.id
            WHERE l.notification_id = notification AND m.user_id = of_user AND m.task_id > of_task
        );
END
$$;

COMMENT ON COLUMN facts.success IS 'difference of the number of tasks SUCCESS';
COMMENT ON COLUMN facts.failed IS 'difference of the number of tasks FAILED; negative if tasks were requeued';
COMMENT ON TABLE report_logs IS
    'What ended a lease or a task, reports that changed nothing, receipts of providers, and who requeued a task. Written by internal/queue; only a '
    'requeue changes rows: it takes the outcome. Partitioned like messages, so that the facts of a task leave together.';
COMMENT ON COLUMN report_logs.event IS
    'past_receipt: a receipt of an attempt from before the task was requeued; the other names say it';
COMMENT ON COLUMN report_logs.effect IS
    'success, failed: settled the task; retry: the task waits for a retry; exhausted: FAILED without another retry; unclear: FAILED because '
    'nobody knows whether it was sent; untried, troubled: the lease was given back; ignored, refused: changed nothing; cancelled, expired; '
    'delivered, undelivered: a receipt; requeued: the task waits again as if it were new';
COMMENT ON COLUMN report_logs.outcome IS
    'the state in which this left the task: 2 SUCCESS, 3 FAILED, 4 CANCELLED; null: the task was not settled by it, or was requeued since';
COMMENT ON COLUMN report_logs.error_message IS 'the text of a report or of a release; of a requeue its remark; null: none';
COMMENT ON COLUMN report_logs.request_data IS 'the report as it came; of a cancellation or a requeue who did it (by); null: none';

-- migrate:down
-- Tasks that wait again stay as they are: nothing of them contradicts the schema before.
DROP TRIGGER report_logs_facts_updated ON report_logs;
DROP FUNCTION report_logs_outcome_facts();
DROP FUNCTION task_is_withdrawn(text, bigint, bigint, text);
DROP FUNCTION task_channel(bigint);
DELETE FROM report_logs WHERE event IN ('requeued', 'past_receipt');
ALTER TABLE report_logs DROP CONSTRAINT report_logs_event_known;
ALTER TABLE report_logs ADD CONSTRAINT report_logs_event_known CHECK (
    event IN ('reported', 'recovered', 'released', 'cancelled', 'expired', 'receipt', 'unreachable')
);
ALTER TABLE report_logs DROP CONSTRAINT report_logs_effect_known;
ALTER TABLE report_logs ADD CONSTRAINT report_logs_effect_known CHECK (effect IN (
    'success', 'failed', 'retry', 'exhausted', 'unclear', 'untried', 'troubled', 'ignored', 'refused', 'cancelled', 'expired',
    'delivered', 'undelivered'
));
COMMENT ON COLUMN facts.success IS 'number of tasks that became SUCCESS';
COMMENT ON COLUMN facts.failed IS 'number of tasks that became FAILED';
COMMENT ON TABLE report_logs IS
    'What ended a lease or a task, reports that changed nothing, and receipts of providers. Written by internal/queue and never changed. '
    'Partitioned like messages, so that the facts of a task leave together.';
COMMENT ON COLUMN report_logs.event IS NULL;
COMMENT ON COLUMN report_logs.error_message IS NULL;
COMMENT ON COLUMN report_logs.request_data IS NULL;
COMMENT ON COLUMN report_logs.effect IS
    'success, failed: settled the task; retry: the task waits for a retry; exhausted: FAILED without another retry; unclear: FAILED because '
    'nobody knows whether it was sent; untried, troubled: the lease was given back; ignored, refused: changed nothing; cancelled, expired; '
    'delivered, undelivered: a receipt';
COMMENT ON COLUMN report_logs.outcome IS
    'the state in which this left the task for good: 2 SUCCESS, 3 FAILED, 4 CANCELLED; null: the task was not settled by it';
