-- migrate:up
-- What a person is told once is told once by each submitter: another user's message of the name is neither shown nor replaced. Reads
-- and writes of subscribe_messages wait until the rows have their submitters and the index is built.
ALTER TABLE subscribe_messages ADD COLUMN submitted_by text NOT NULL DEFAULT '';
COMMENT ON COLUMN subscribe_messages.submitted_by IS 'the user whose message it is; empty: its task was gone when this column was added';
UPDATE subscribe_messages m SET submitted_by = t.submitted_by FROM tasks t WHERE t.task_id = m.task_id AND t.submitted_by IS NOT NULL;
ALTER TABLE subscribe_messages ALTER COLUMN submitted_by DROP DEFAULT;
-- squawk-ignore require-concurrent-index-creation
CREATE UNIQUE INDEX subscribe_messages_once_idx
ON subscribe_messages (company_id, business_type, business_id, template_type, receiver_user_id, submitted_by);
ALTER TABLE subscribe_messages DROP CONSTRAINT subscribe_messages_once_key;

-- migrate:down
-- A name that was used twice stays with the first message.
DELETE FROM subscribe_messages m WHERE EXISTS (
    SELECT FROM subscribe_messages f
    WHERE f.company_id = m.company_id AND f.business_type = m.business_type AND f.business_id = m.business_id
        AND f.template_type = m.template_type AND f.receiver_user_id = m.receiver_user_id AND f.id < m.id
);
ALTER TABLE subscribe_messages
ADD CONSTRAINT subscribe_messages_once_key UNIQUE (company_id, business_type, business_id, template_type, receiver_user_id);
DROP INDEX subscribe_messages_once_idx;
ALTER TABLE subscribe_messages DROP COLUMN submitted_by;
