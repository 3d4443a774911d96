-- migrate:up
-- Rows of batches leave by partitions of batches. The table of before becomes the default partition as it is; only it is locked, for a moment. Servers of the
-- version before go on: their statements name the same table and columns.
SET LOCAL lock_timeout = '5s';
-- squawk-ignore renaming-table
ALTER TABLE batch_rows RENAME TO batch_rows_default;
ALTER TABLE batch_rows_default RENAME CONSTRAINT batch_rows_pkey TO batch_rows_default_pkey;
ALTER INDEX batch_rows_wrong_idx RENAME TO batch_rows_default_wrong_idx;
CREATE TABLE batch_rows (
    batch_id bigint NOT NULL,
    row_no bigint NOT NULL,
    recipient text NOT NULL,
    content text NOT NULL,
    segments smallint NOT NULL,
    country_no text,
    code smallint,
    fault jsonb,
    task_id text COLLATE "C",
    sign text,
    contact_values jsonb,
    CONSTRAINT batch_rows_pkey PRIMARY KEY (batch_id, row_no),
    CONSTRAINT batch_rows_code_known CHECK (code BETWEEN 1 AND 7),
    CONSTRAINT batch_rows_fault_set CHECK (code IS NOT NULL OR fault IS NULL),
    CONSTRAINT batch_rows_tasks_are_valid CHECK (code IS NULL OR task_id IS NULL)
) PARTITION BY RANGE (batch_id);
CREATE INDEX batch_rows_wrong_idx ON batch_rows (batch_id, row_no) WHERE code IS NOT NULL;
DO $$
DECLARE
    granted record;
BEGIN
    FOR granted IN
        SELECT x.privilege_type, x.is_grantable, CASE WHEN x.grantee = 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(x.grantee)) END AS role
        FROM pg_class c
        CROSS JOIN aclexplode(c.relacl) x
        WHERE c.oid = 'batch_rows_default'::regclass
    LOOP
        EXECUTE format('GRANT %s ON batch_rows TO %s', granted.privilege_type, granted.role)
            || CASE WHEN granted.is_grantable THEN ' WITH GRANT OPTION' ELSE '' END;
    END LOOP;
END
$$;
ALTER TABLE batch_rows ATTACH PARTITION batch_rows_default DEFAULT;
SELECT number_partitions_ahead('batch_rows', '1 year'); -- makes the partition without end
COMMENT ON TABLE batch_rows_default IS 'Rows of batches from before there were partitions.';
COMMENT ON TABLE batch_rows IS
    'A row of a batch, as it was checked. Written by internal/batch: added once, and changed once, when it becomes a task or is refused then. Partitioned by '
    'batch_id, see number_partitions.';
COMMENT ON COLUMN batch_rows.batch_id IS
    'no foreign key: its check took two thirds of the time in which a million rows are added. Who adds or deletes rows has locked the batch.';
COMMENT ON COLUMN batch_rows.row_no IS 'the number of the row in the list, as a spreadsheet program shows it; of a tag the position of the contact';
COMMENT ON COLUMN batch_rows.recipient IS 'the address on the channel: a phone number in E.164; as it is in the list if it is not valid';
COMMENT ON COLUMN batch_rows.content IS 'the text without signature, of another channel than sms its beginning; empty: it could not be made';
COMMENT ON COLUMN batch_rows.code IS
    'why it is not sent: 1 phone number, 2 content, 3 segments, 4 signature, 5 duplicate, 6 blocked, 7 refused when it was to become a task; null: it is valid';
COMMENT ON COLUMN batch_rows.fault IS 'the field, the rule that it broke, and the limit of the rule; null: code says everything';
COMMENT ON COLUMN batch_rows.task_id IS 'null: the row has not become a task';
COMMENT ON COLUMN batch_rows.sign IS 'the signature of the row; null: that of the batch';
COMMENT ON COLUMN batch_rows.contact_values IS 'the values of the placeholders of the rendering; null: the text has none';

-- migrate:down
SET LOCAL lock_timeout = '5s';
-- Rows of partitions move to the table of before; meanwhile others wait.
DO $$
BEGIN
    LOCK TABLE batch_rows IN ACCESS EXCLUSIVE MODE;
    ALTER TABLE batch_rows DETACH PARTITION batch_rows_default;
    ALTER TABLE batch_rows_default DROP CONSTRAINT batch_rows_default_batches;
    INSERT INTO batch_rows_default SELECT * FROM batch_rows;
    DROP TABLE batch_rows;
    ALTER TABLE batch_rows_default RENAME TO batch_rows;
    ALTER TABLE batch_rows RENAME CONSTRAINT batch_rows_default_pkey TO batch_rows_pkey;
    ALTER INDEX batch_rows_default_wrong_idx RENAME TO batch_rows_wrong_idx;
    UPDATE number_partitions SET before_number = (SELECT (last_value / 10000 + 2) * 10000 FROM batches_id_seq)
    WHERE parent = 'batch_rows' AND first_number = 0;
    DELETE FROM number_partitions WHERE parent = 'batch_rows' AND first_number > 0;
    EXECUTE format('ALTER TABLE batch_rows ADD CONSTRAINT batch_rows_default_batches CHECK (batch_id < %s)',
        (SELECT before_number FROM number_partitions WHERE parent = 'batch_rows'));
END
$$;
COMMENT ON TABLE batch_rows IS
    'A row of a batch, as it was checked. Written by internal/batch: added once, and changed once, when it becomes a task or is refused then.';
