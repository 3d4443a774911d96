-- migrate:up
CREATE TABLE verifications (
    verification_id text COLLATE "C" PRIMARY KEY,
    company_id bigint NOT NULL,
    submitted_by text NOT NULL,
    channel text NOT NULL,
    recipient text NOT NULL,
    purpose text NOT NULL,
    status text DEFAULT 'pending' NOT NULL,
    digest text,
    sealed text,
    checks smallint DEFAULT 0 NOT NULL,
    max_checks smallint NOT NULL,
    created_at timestamptz DEFAULT now() NOT NULL,
    expires_at timestamptz NOT NULL,
    ended_at timestamptz,
    task_ids text[] NOT NULL,
    CONSTRAINT verifications_status_known CHECK (status IN ('pending', 'approved', 'expired', 'exhausted', 'cancelled')),
    CONSTRAINT verifications_checks_range CHECK (checks BETWEEN 0 AND max_checks),
    CONSTRAINT verifications_end_complete CHECK ((status = 'pending') = (ended_at IS NULL)),
    CONSTRAINT verifications_secrets_of_pending CHECK ((status = 'pending') = (digest IS NOT NULL) AND (status = 'pending') = (sealed IS NOT NULL))
);
CREATE UNIQUE INDEX verifications_pending_key ON verifications (company_id, channel, recipient, purpose) WHERE status = 'pending';
CREATE INDEX verifications_recipient_idx ON verifications (company_id, recipient, created_at);
CREATE INDEX verifications_expires_at_idx ON verifications (expires_at) WHERE status = 'pending';
CREATE INDEX verifications_created_at_idx ON verifications (created_at);
COMMENT ON TABLE verifications IS
    'one row for each code that a system asked LKSMS to send and to check. Package audience/verification writes it, and deletes rows by age';
COMMENT ON COLUMN verifications.status IS
    'A pending verification whose expires_at has passed counts as expired, until a sweep sets this status. cancelled: by its system, or replaced by a newer one';
COMMENT ON COLUMN verifications.digest IS 'the code as a keyed hash, with the id of its key. null: the verification has ended';
COMMENT ON COLUMN verifications.sealed IS 'the code, encrypted with SECRETS_KEY, which a resend repeats. null: the verification has ended';
COMMENT ON COLUMN verifications.checks IS 'the number of codes that were checked, including the right one';
COMMENT ON COLUMN verifications.task_ids IS 'the tasks that send the code, oldest first';
COMMENT ON COLUMN verifications.company_id IS 'no foreign key: the rows of a deleted company are deleted by age';
CREATE TABLE lock_expire_verifications ();
COMMENT ON TABLE lock_expire_verifications IS 'Has no rows. The server that runs the sweep expire-verifications locks this table.';
CREATE TABLE lock_delete_expired_verifications ();
COMMENT ON TABLE lock_delete_expired_verifications IS 'Has no rows. The server that runs the sweep delete-expired-verifications locks this table.';

-- migrate:down
DROP TABLE lock_delete_expired_verifications;
DROP TABLE lock_expire_verifications;
DROP TABLE verifications;
