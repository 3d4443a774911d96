-- migrate:up
-- Sweeps are named by what they do, and the table that a sweep locks is named after it. Under its former name it is a view: a lock on a view locks its table
-- too, so that a server of the version before and one of this version do not run the same sweep at once. The views go when no such server is left. Locks
-- each of these tables, which are empty, for a moment: a server that runs the sweep makes the migration wait.
DO $$
DECLARE
    owner CONSTANT name := (SELECT pg_get_userbyid(c.relowner) FROM pg_class c WHERE c.oid = 'messages'::regclass);
    former text;
    name text;
BEGIN
    FOR former, name IN VALUES
        ('forget_audit', 'delete-expired-audit'),
        ('forget_batches', 'delete-expired-batches'),
        ('forget_callbacks', 'delete-expired-callbacks'),
        ('forget_contact_imports', 'delete-expired-contact-imports'),
        ('forget_erasures', 'delete-expired-erasures'),
        ('forget_events', 'delete-expired-events'),
        ('forget_feed', 'delete-expired-feed'),
        ('forget_idempotency_keys', 'delete-expired-idempotency-keys'),
        ('forget_reconciliations', 'delete-expired-reconciliations'),
        ('forget_retired_pools', 'delete-retired-pools'),
        ('forget_servers', 'delete-stopped-servers'),
        ('forget_sessions', 'delete-expired-sessions'),
        ('forget_smsgate_messages', 'delete-expired-smsgate-messages'),
        ('forget_statistics', 'delete-expired-statistics'),
        ('forget_submissions', 'delete-expired-submissions'),
        ('forget_task_jobs', 'delete-expired-task-jobs'),
        ('forget_texts', 'delete-unused-texts'),
        ('forget_uploads', 'delete-unused-uploads'),
        ('forget_webhooks', 'stop-unused-listeners'),
        ('take_messages_of_sql', 'submit-sql-inbox'),
        ('tell_alerts', 'notify-alerts')
    LOOP
        EXECUTE format('ALTER TABLE %I RENAME TO %I', 'lock_' || former, 'lock_' || replace(name, '-', '_'));
        EXECUTE format('COMMENT ON TABLE %I IS %L', 'lock_' || replace(name, '-', '_'),
            'no rows: the server that does ' || name || ' locks the table, so that only one does it');
        EXECUTE format('CREATE VIEW %I AS SELECT FROM %I', 'lock_' || former, 'lock_' || replace(name, '-', '_'));
        IF owner <> current_user THEN
            EXECUTE format('ALTER VIEW %I OWNER TO %I', 'lock_' || former, owner);
        END IF;
        EXECUTE format('COMMENT ON VIEW %I IS %L', 'lock_' || former, 'locks lock_' || replace(name, '-', '_') || ', for servers of version 1.0.0');
    END LOOP;
END $$;

-- migrate:down
DO $$
DECLARE
    former text;
    name text;
BEGIN
    FOR former, name IN VALUES
        ('forget_audit', 'delete_expired_audit'),
        ('forget_batches', 'delete_expired_batches'),
        ('forget_callbacks', 'delete_expired_callbacks'),
        ('forget_contact_imports', 'delete_expired_contact_imports'),
        ('forget_erasures', 'delete_expired_erasures'),
        ('forget_events', 'delete_expired_events'),
        ('forget_feed', 'delete_expired_feed'),
        ('forget_idempotency_keys', 'delete_expired_idempotency_keys'),
        ('forget_reconciliations', 'delete_expired_reconciliations'),
        ('forget_retired_pools', 'delete_retired_pools'),
        ('forget_servers', 'delete_stopped_servers'),
        ('forget_sessions', 'delete_expired_sessions'),
        ('forget_smsgate_messages', 'delete_expired_smsgate_messages'),
        ('forget_statistics', 'delete_expired_statistics'),
        ('forget_submissions', 'delete_expired_submissions'),
        ('forget_task_jobs', 'delete_expired_task_jobs'),
        ('forget_texts', 'delete_unused_texts'),
        ('forget_uploads', 'delete_unused_uploads'),
        ('forget_webhooks', 'stop_unused_listeners'),
        ('take_messages_of_sql', 'submit_sql_inbox'),
        ('tell_alerts', 'notify_alerts')
    LOOP
        EXECUTE format('DROP VIEW %I', 'lock_' || former);
        EXECUTE format('ALTER TABLE %I RENAME TO %I', 'lock_' || name, 'lock_' || former);
        EXECUTE format('COMMENT ON TABLE %I IS %L', 'lock_' || former,
            'no rows: the server that does ' || replace(former, '_', '-') || ' locks the table, so that only one does it');
    END LOOP;
END $$;
