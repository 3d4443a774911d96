-- migrate:up
-- A person gets a message once for a business object and a template type from the whole company, whichever of its users asks. Rows that exist may
-- share a key, one for each submitter: they stay, and are outside of the new index. The server looks for them before it adds a row.
-- A server of the version before adds rows with the default, under subscribe_messages_once_idx, which stays until the next version.
-- Adding the column rewrites nothing. Building the index, which is empty, holds writes to subscribe_messages while it reads the table once.
ALTER TABLE subscribe_messages ADD COLUMN is_companys boolean NOT NULL DEFAULT false;
COMMENT ON COLUMN subscribe_messages.is_companys IS 'the only message of its key in the company; false: the row is of a version in which each submitter had messages of its own';
COMMENT ON COLUMN subscribe_messages.submitted_by IS 'the user who asked first; empty: its task no longer existed when this column was added';
COMMENT ON TABLE subscribe_messages IS 'A message that a person gets once for a business object and template type. Written by internal/notification. task_id has no foreign key: the row is created before its task.';
-- squawk-ignore require-concurrent-index-creation
CREATE UNIQUE INDEX subscribe_messages_company_idx
ON subscribe_messages (company_id, business_type, business_id, template_type, receiver_user_id)
WHERE is_companys;

-- migrate:down
DROP INDEX subscribe_messages_company_idx;
ALTER TABLE subscribe_messages DROP COLUMN is_companys;
COMMENT ON COLUMN subscribe_messages.submitted_by IS 'the username; empty: its task no longer existed when this column was added';
COMMENT ON TABLE subscribe_messages IS 'A message that a person gets once for a business object and template type, by submitter. Written by internal/notification. task_id has no foreign key: the row is created before its task.';
