-- migrate:up
-- Charges leave by partitions of leases. A charge and its refund are in the same partition, because they have the same lease. The table of before becomes the
-- default partition as it is; only it is locked, for a moment. Servers of the version before go on: their statements name the same table and columns.
SET LOCAL lock_timeout = '5s';
-- squawk-ignore renaming-table
ALTER TABLE sender_ledger RENAME TO sender_ledger_default;
ALTER TABLE sender_ledger_default RENAME CONSTRAINT sender_ledger_pkey TO sender_ledger_default_pkey;
ALTER INDEX sender_ledger_lease_key RENAME TO sender_ledger_default_lease_key;
ALTER INDEX sender_ledger_sender_id_idx RENAME TO sender_ledger_default_sender_id_idx;
CREATE TABLE sender_ledger (
    id bigint NOT NULL,
    sender_id bigint NOT NULL,
    change bigint NOT NULL,
    balance bigint NOT NULL,
    lease_id bigint,
    remark text,
    username text,
    created_at timestamptz NOT NULL DEFAULT now(),
    low_warning bigint,
    low_switch bigint,
    company_id bigint,
    CONSTRAINT sender_ledger_remark_length CHECK (char_length(remark) <= 500)
) PARTITION BY RANGE (lease_id);
-- There is no primary key, because the partitions are not cut by the id. In the default partition it is one.
CREATE UNIQUE INDEX sender_ledger_lease_key ON sender_ledger (lease_id, (change > 0)) WHERE lease_id IS NOT NULL;
CREATE INDEX sender_ledger_sender_id_idx ON sender_ledger (sender_id, id);
DO $$
DECLARE
    next bigint;
    granted record;
BEGIN
    SELECT CASE WHEN is_called THEN last_value + 1 ELSE last_value END INTO next FROM sender_ledger_id_seq;
    ALTER TABLE sender_ledger_default ALTER COLUMN id DROP IDENTITY; -- PostgreSQL 17 attaches no table that has one
    ALTER TABLE sender_ledger ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (SEQUENCE NAME sender_ledger_id_seq);
    PERFORM setval('sender_ledger_id_seq', next, false);
    FOR granted IN
        SELECT x.privilege_type, x.is_grantable, CASE WHEN x.grantee = 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(x.grantee)) END AS role
        FROM pg_class c
        CROSS JOIN aclexplode(c.relacl) x
        WHERE c.oid = 'sender_ledger_default'::regclass
    LOOP
        EXECUTE format('GRANT %s ON sender_ledger TO %s', granted.privilege_type, granted.role)
            || CASE WHEN granted.is_grantable THEN ' WITH GRANT OPTION' ELSE '' END;
    END LOOP;
END
$$;
ALTER TABLE sender_ledger ATTACH PARTITION sender_ledger_default DEFAULT;
SELECT number_partitions_ahead('sender_ledger', '1 year'); -- makes the partition without end
COMMENT ON TABLE sender_ledger_default IS 'Rows of sender_ledger without lease_id, and charges and refunds from before there were partitions.';
COMMENT ON TABLE sender_ledger IS
    'A change of the balance of a sender, or of its thresholds. Written by internal/queue (charges, refunds) and internal/sender (top-ups, corrections, thresholds). '
    'Partitioned by lease_id, see number_partitions; rows without one are in the default partition. No foreign keys: each charge would lock rows of senders and send_logs.';
COMMENT ON COLUMN sender_ledger.id IS 'unique, and the order of the list; no primary key, because the table is partitioned by lease_id';
COMMENT ON COLUMN sender_ledger.change IS 'segments added; negative: a charge; 0: changed thresholds';
COMMENT ON COLUMN sender_ledger.balance IS 'segments after the change';
COMMENT ON COLUMN sender_ledger.lease_id IS 'the charged or refunded lease; null: top-up, correction, thresholds, or the sum of a day';
COMMENT ON COLUMN sender_ledger.username IS 'who changed the balance or the thresholds; null: an attempt';
COMMENT ON COLUMN sender_ledger.low_warning IS 'the new threshold, of changed thresholds and an opening balance; null otherwise';
COMMENT ON COLUMN sender_ledger.low_switch IS 'as low_warning';
COMMENT ON COLUMN sender_ledger.company_id IS 'whose tasks were charged or refunded; null: top-up, correction or thresholds';

-- migrate:down
SET LOCAL lock_timeout = '5s';
-- Rows of partitions move to the table of before; meanwhile others wait.
DO $$
DECLARE
    p record;
    next bigint;
BEGIN
    LOCK TABLE sender_ledger IN ACCESS EXCLUSIVE MODE;
    SELECT CASE WHEN is_called THEN last_value + 1 ELSE last_value END INTO next FROM sender_ledger_id_seq;
    ALTER TABLE sender_ledger DETACH PARTITION sender_ledger_default;
    ALTER TABLE sender_ledger_default DROP CONSTRAINT sender_ledger_default_leases;
    INSERT INTO sender_ledger_default SELECT * FROM sender_ledger;
    DROP TABLE sender_ledger;
    ALTER TABLE sender_ledger_default RENAME TO sender_ledger;
    ALTER TABLE sender_ledger RENAME CONSTRAINT sender_ledger_default_pkey TO sender_ledger_pkey;
    ALTER INDEX sender_ledger_default_lease_key RENAME TO sender_ledger_lease_key;
    ALTER INDEX sender_ledger_default_sender_id_idx RENAME TO sender_ledger_sender_id_idx;
    ALTER TABLE sender_ledger ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (SEQUENCE NAME sender_ledger_id_seq);
    PERFORM setval('sender_ledger_id_seq', next, false);
    UPDATE number_partitions SET before_number = (SELECT (last_value / 1000000000 + 2) * 1000000000 FROM lease_ids)
    WHERE parent = 'sender_ledger' AND first_number = 0;
    DELETE FROM number_partitions WHERE parent = 'sender_ledger' AND first_number > 0;
    EXECUTE format('ALTER TABLE sender_ledger ADD CONSTRAINT sender_ledger_default_leases CHECK (lease_id IS NULL OR lease_id < %s)',
        (SELECT before_number FROM number_partitions WHERE parent = 'sender_ledger'));
END
$$;
COMMENT ON TABLE sender_ledger IS
    'A change of the balance of a sender, or of its thresholds. Written by internal/queue (charges, refunds) and internal/sender (top-ups, corrections, thresholds). '
    'No foreign keys: each charge would lock rows of senders and send_logs.';
