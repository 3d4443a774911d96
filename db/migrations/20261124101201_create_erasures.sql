-- migrate:up
CREATE TABLE erasures (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    company_id bigint NOT NULL CONSTRAINT erasures_company_id_fkey REFERENCES companies ON DELETE CASCADE,
    user_ids text[] NOT NULL,
    recipients text[] NOT NULL,
    asked_recipients text[] NOT NULL,
    status text NOT NULL DEFAULT 'running' CONSTRAINT erasures_status_known CHECK (status IN ('running', 'finished')),
    held bigint NOT NULL DEFAULT 0,
    counts jsonb NOT NULL DEFAULT '{}',
    exports text[] NOT NULL DEFAULT '{}',
    created_by text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    next_at timestamptz NOT NULL DEFAULT now(),
    finished_at timestamptz,
    CONSTRAINT erasures_finished_knows_nobody CHECK (
        (status = 'finished') = (finished_at IS NOT NULL) AND (status = 'running' OR user_ids || recipients || asked_recipients = '{}')
    )
);
COMMENT ON TABLE erasures IS 'A request to erase a person from what a company has stored. Written by internal/erasure, which forgets whom it was about when it is done.';
COMMENT ON COLUMN erasures.user_ids IS 'contacts.user_id of the person; empty: finished, or not known';
COMMENT ON COLUMN erasures.recipients IS 'phone numbers in E.164 and e-mail addresses of the person; empty: finished, or not known. A message to one of them counts unless it was made for another user';
COMMENT ON COLUMN erasures.asked_recipients IS 'those of recipients that the request named: every contact with one of them, and every message to it, is of the person; empty: finished, or a user was named';
COMMENT ON COLUMN erasures.held IS 'tasks that senders held, and lists that were being read, when they were looked at last';
COMMENT ON COLUMN erasures.counts IS 'how many rows were erased, by their kind';
COMMENT ON COLUMN erasures.exports IS 'folders of exports of history that have erased tasks';
COMMENT ON COLUMN erasures.next_at IS 'when it goes on';
CREATE INDEX erasures_running_idx ON erasures (next_at) WHERE status = 'running';
CREATE INDEX erasures_company_idx ON erasures (company_id, id);
CREATE TRIGGER audited AFTER INSERT ON erasures
FOR EACH ROW EXECUTE FUNCTION audit_change('erasure', 'id', 'user_ids,recipients,asked_recipients,status,held,counts,exports,created_by,next_at,finished_at');

COMMENT ON TABLE messages IS 'A task as it was submitted, with its submission. Written once by internal/queue; only the erasure of a person changes it. Partitioned by task_id, which ascends with time. The state of the task is in queue until it is settled, then in report_logs; the view tasks shows both. No foreign keys: each submission would lock rows of other tables.';
COMMENT ON COLUMN messages.recipient IS 'on the channel sms the same number in E.164; on others the address; empty if the person has none, or was erased';
COMMENT ON TABLE report_logs IS 'What ended a lease or a task, reports that changed nothing, receipts of providers, and who requeued a task. Written by internal/queue. A requeue takes the outcome of a row, and the erasure of a person its texts; nothing else changes rows. Partitioned like messages, so that the facts of a task leave together.';

-- migrate:down
DROP TABLE erasures;
COMMENT ON TABLE messages IS 'A task as it was submitted, with its submission. Written once by internal/queue and never changed. Partitioned by task_id, which ascends with time. The state of the task is in queue until it is settled, then in report_logs; the view tasks shows both. No foreign keys: each submission would lock rows of other tables.';
COMMENT ON COLUMN messages.recipient IS 'on the channel sms the same number in E.164; on others the address, empty if the person has none';
COMMENT ON TABLE report_logs IS 'What ended a lease or a task, reports that changed nothing, receipts of providers, and who requeued a task. Written by internal/queue; only a requeue changes rows: it takes the outcome. Partitioned like messages, so that the facts of a task leave together.';
