-- migrate:up
-- The ledger becomes the default partition of a partitioned table: it keeps its rows, and those without lease_id. Its other rows have smaller numbers than
-- all partitions. A billion of leases is more than are given out until the next migrations are applied. The constraint, once validated, tells PostgreSQL that a
-- new partition needs no look at the rows. The table is locked for a moment.
SET LOCAL lock_timeout = '5s';
DO $$
DECLARE
    before bigint;
BEGIN
    SELECT (last_value / 1000000000 + 2) * 1000000000 INTO before FROM lease_ids;
    INSERT INTO number_partitions (parent, first_number, before_number, entered_at)
    VALUES ('sender_ledger', 0, before, CASE WHEN EXISTS (SELECT FROM sender_ledger WHERE lease_id IS NOT NULL) THEN '-infinity' ELSE now() END);
    EXECUTE format(
        'ALTER TABLE sender_ledger ADD CONSTRAINT sender_ledger_default_leases CHECK (lease_id IS NULL OR lease_id < %s) NOT VALID', before
    );
END
$$;

-- migrate:down
SET LOCAL lock_timeout = '5s';
ALTER TABLE sender_ledger DROP CONSTRAINT sender_ledger_default_leases;
DELETE FROM number_partitions WHERE parent = 'sender_ledger';
