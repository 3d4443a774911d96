-- migrate:up
-- Adds columns with constant defaults: PostgreSQL locks the table only for a moment, and rewrites no rows.
ALTER TABLE verifications ADD COLUMN country text, ADD COLUMN subjects text[] DEFAULT '{}' NOT NULL;
COMMENT ON COLUMN verifications.country IS 'ISO code of the country of the number, such as CN; null: unknown, or the channel is not sms';
COMMENT ON COLUMN verifications.subjects IS 'the subjects of verification_hours that count the verification';

CREATE TABLE verification_hours (
    company_id bigint NOT NULL,
    subject text COLLATE "C" NOT NULL,
    hour timestamptz NOT NULL,
    started bigint DEFAULT 0 NOT NULL,
    approved bigint DEFAULT 0 NOT NULL,
    CONSTRAINT verification_hours_pkey PRIMARY KEY (company_id, subject, hour)
) WITH (fillfactor = 80);
CREATE INDEX verification_hours_hour_idx ON verification_hours (hour);
COMMENT ON TABLE verification_hours IS
    'The verifications of one company and subject that were started in one hour. A verification counts for all its subjects. '
    'Package audience/verification writes it, and deletes rows by age';
COMMENT ON COLUMN verification_hours.subject IS
    'a prefix of phone numbers (+8613), or a network of clients (203.0.113.0/24)';
COMMENT ON COLUMN verification_hours.hour IS 'when the verifications were started, as the beginning of an hour (UTC)';
COMMENT ON COLUMN verification_hours.started IS 'codes that were sent, including those that were sent again';
COMMENT ON COLUMN verification_hours.approved IS 'how many of the verifications were approved, whenever that was';
COMMENT ON COLUMN verification_hours.company_id IS 'no foreign key: the rows of a deleted company are deleted by age';

CREATE TABLE verification_hours_staged (
    company_id bigint NOT NULL,
    hour timestamptz NOT NULL,
    subjects text[] NOT NULL,
    started bigint NOT NULL,
    approved bigint NOT NULL
);
COMMENT ON TABLE verification_hours_staged IS
    'What one code, or one approval, adds to verification_hours. It is stored together with its cause. The sweep count-verifications moves it. '
    'Package audience/verification writes it';

CREATE TABLE verification_subjects (
    company_id bigint NOT NULL,
    subject text COLLATE "C" NOT NULL,
    started bigint NOT NULL,
    approved bigint NOT NULL,
    is_proven boolean NOT NULL,
    since timestamptz DEFAULT now() NOT NULL,
    derived_at timestamptz DEFAULT now() NOT NULL,
    CONSTRAINT verification_subjects_pkey PRIMARY KEY (company_id, subject)
);
CREATE INDEX verification_subjects_derived_at_idx ON verification_subjects (derived_at);
CREATE INDEX verification_subjects_suspected_idx ON verification_subjects (started) WHERE NOT is_proven;
COMMENT ON TABLE verification_subjects IS
    'A prefix of phone numbers, or a network of clients, whose codes of the last 24 hours prove that people use it, or that is suspected. '
    'Package audience/verification derives it from verification_hours';
COMMENT ON COLUMN verification_subjects.is_proven IS
    'true: codes are approved, so codes are not limited. false: many codes were started and too few approved. Subjects without a row are not proven either';
COMMENT ON COLUMN verification_subjects.started IS 'within the 24 hours before derived_at';
COMMENT ON COLUMN verification_subjects.since IS 'when is_proven changed for the last time';

CREATE TABLE verification_safe (
    id bigint GENERATED ALWAYS AS IDENTITY,
    company_id bigint,
    subject text COLLATE "C" NOT NULL,
    expires_at timestamptz,
    note text,
    created_by text NOT NULL,
    created_at timestamptz DEFAULT now() NOT NULL,
    CONSTRAINT verification_safe_pkey PRIMARY KEY (id),
    CONSTRAINT verification_safe_subject_key UNIQUE NULLS NOT DISTINCT (subject, company_id),
    CONSTRAINT verification_safe_company_id_fkey FOREIGN KEY (company_id) REFERENCES companies(id) ON DELETE CASCADE
);
CREATE TRIGGER audited AFTER INSERT OR UPDATE OR DELETE ON verification_safe FOR EACH ROW EXECUTE FUNCTION audit_change('verification_safe', 'subject');
CREATE TRIGGER verification_safe_rows_bound AFTER INSERT ON verification_safe
REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION rows_bound(10000);
COMMENT ON TABLE verification_safe IS 'A prefix of phone numbers, or a network of clients, that is never suspected. Package audience/verification writes it';
COMMENT ON COLUMN verification_safe.company_id IS 'null: the row applies to all companies';
COMMENT ON COLUMN verification_safe.subject IS 'as in verification_hours; a prefix can have any length, but is not a whole number';
COMMENT ON COLUMN verification_safe.expires_at IS 'null: the row applies until it is deleted';

CREATE VIEW verification_suspects AS
SELECT s.company_id, s.subject, s.started, s.approved, s.since
FROM verification_subjects s
WHERE NOT s.is_proven AND NOT EXISTS (
    SELECT FROM verification_safe f
    WHERE (f.company_id IS NULL OR f.company_id = s.company_id) AND (f.expires_at IS NULL OR f.expires_at > now()) AND starts_with(s.subject, f.subject)
);
COMMENT ON VIEW verification_suspects IS 'the subjects of verification_subjects that are neither proven nor safe';

CREATE TABLE lock_count_verifications ();
COMMENT ON TABLE lock_count_verifications IS 'Has no rows. The server that runs the sweep count-verifications locks this table.';

-- migrate:down
DROP TABLE lock_count_verifications;
DROP VIEW verification_suspects;
DROP TABLE verification_safe;
DROP TABLE verification_subjects;
DROP TABLE verification_hours_staged;
DROP TABLE verification_hours;
ALTER TABLE verifications DROP COLUMN subjects, DROP COLUMN country;
