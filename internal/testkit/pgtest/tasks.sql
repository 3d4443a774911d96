-- This trigger lets tests write to the view tasks as if it were a table. They can insert a task in any state without a submission, a claim or a report.
CREATE FUNCTION test_tasks_write() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' THEN
        DELETE FROM queue WHERE task_id = OLD.task_id;
        DELETE FROM report_logs WHERE task_id = OLD.task_id;
        DELETE FROM messages WHERE task_id = OLD.task_id;
        RETURN OLD;
    END IF;
    NEW.created_at := coalesce(NEW.created_at, now());
    NEW.status := coalesce(NEW.status, 0);
    IF TG_OP = 'INSERT' THEN
        INSERT INTO messages (
            task_id, phone_number, recipient, content, source, submitted_by, dedup_key, company_id, pool_id, message_type, country_no,
            priority, segments, sign, is_test, expect_send_time, expires_at, rendering_id, user_id, on_unclear, created_at,
            batch_id, sender_no
        ) VALUES (
            NEW.task_id, NEW.phone_number, NEW.recipient, NEW.content, NEW.source, coalesce(NEW.submitted_by, ''), NEW.dedup_key,
            coalesce(NEW.company_id, 1), coalesce(NEW.pool_id, 1), coalesce(NEW.message_type, 1::smallint), NEW.country_no,
            coalesce(NEW.priority, 5::smallint), coalesce(NEW.segments, 1::smallint), NEW.sign, coalesce(NEW.is_test, false),
            NEW.expect_send_time, NEW.expires_at, NEW.rendering_id, NEW.user_id, NEW.on_unclear, NEW.created_at,
            NEW.batch_id, NEW.sender_no
        );
    ELSE
        UPDATE messages SET content = NEW.content, expires_at = NEW.expires_at, created_at = NEW.created_at, priority = NEW.priority
        WHERE task_id = NEW.task_id
            AND (content, expires_at, created_at, priority) IS DISTINCT FROM (NEW.content, NEW.expires_at, NEW.created_at, NEW.priority);
        IF NEW.delivery IS NULL THEN
            DELETE FROM report_logs WHERE task_id = NEW.task_id AND event = 'receipt';
        END IF;
    END IF;
    IF NEW.status IN (0, 1) THEN
        INSERT INTO queue AS q (
            task_id, pool_id, lane, rank, due_at, expires_at, created_at, updated_at, company_id, message_type, country_no, priority,
            segments, retry_count, result, failed_app_id, processing_app_id, lease_id, lease_until, phone_number, recipient, content,
            sign, rendering_id, user_id, on_unclear, batch_id, is_test
        ) VALUES (
            NEW.task_id, coalesce(NEW.pool_id, 1), NEW.lane, NEW.rank, coalesce(NEW.due_at, now()), NEW.expires_at, NEW.created_at,
            coalesce(NEW.updated_at, now()), coalesce(NEW.company_id, 1), coalesce(NEW.message_type, 1::smallint), NEW.country_no,
            coalesce(NEW.priority, 5::smallint), coalesce(NEW.segments, 1::smallint), coalesce(NEW.retry_count, 0::smallint), NEW.result,
            NEW.failed_app_id, CASE WHEN NEW.status = 1 THEN NEW.processing_app_id END, NEW.lease_id,
            CASE WHEN NEW.status = 1 THEN NEW.lease_until END, NEW.phone_number, NEW.recipient, NEW.content, NEW.sign, NEW.rendering_id,
            NEW.user_id, NEW.on_unclear, NEW.batch_id, coalesce(NEW.is_test, false)
        )
        ON CONFLICT (task_id) DO UPDATE
        SET pool_id = excluded.pool_id, lane = excluded.lane, rank = excluded.rank, due_at = excluded.due_at,
            expires_at = excluded.expires_at, created_at = excluded.created_at, updated_at = excluded.updated_at,
            priority = excluded.priority, retry_count = excluded.retry_count, result = excluded.result,
            failed_app_id = excluded.failed_app_id, processing_app_id = excluded.processing_app_id, lease_id = excluded.lease_id,
            lease_until = excluded.lease_until, content = excluded.content;
        DELETE FROM report_logs WHERE task_id = NEW.task_id AND outcome IS NOT NULL;
    ELSIF TG_OP = 'INSERT' OR OLD.status IN (0, 1) THEN
        DELETE FROM queue WHERE task_id = NEW.task_id;
        INSERT INTO report_logs (
            task_id, company_id, app_id, lease_id, event, effect, created_at, outcome, result, retry_count, due_at, batch_id, country_no, is_test
        )
        VALUES (
            NEW.task_id, coalesce(NEW.company_id, 1), NEW.processing_app_id, NEW.lease_id,
            CASE NEW.status WHEN 4 THEN 'cancelled' ELSE 'reported' END,
            CASE NEW.status WHEN 2 THEN 'success' WHEN 3 THEN 'failed' ELSE 'cancelled' END, coalesce(NEW.reported_at, now()), NEW.status,
            NEW.result, coalesce(NEW.retry_count, 0::smallint), coalesce(NEW.due_at, now()), NEW.batch_id, NEW.country_no,
            coalesce(NEW.is_test, false)
        );
    ELSE
        UPDATE report_logs SET outcome = NEW.status, created_at = coalesce(NEW.reported_at, created_at), retry_count = NEW.retry_count
        WHERE task_id = NEW.task_id AND outcome IS NOT NULL;
    END IF;
    RETURN NEW;
END
$$;
CREATE TRIGGER test_tasks_write INSTEAD OF INSERT OR UPDATE OR DELETE ON tasks FOR EACH ROW EXECUTE FUNCTION test_tasks_write();
