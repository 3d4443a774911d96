-- migrate:up
-- Partitions of tables that are cut by numbers that ascend with time. A partition begins when the sequence of these numbers is moved on to its first one, so
-- the numbers have gaps. The last partition has no end, so that no number is without one: also not after a restore, which moves sequences on.
-- The functions run as their owner: the server's role may not change the schema. Only roles to which they are granted may call them (db/roles.sql).
CREATE TABLE number_partitions (
    parent text NOT NULL,
    first_number bigint NOT NULL,
    before_number bigint,
    entered_at timestamptz,
    left_at timestamptz,
    CONSTRAINT number_partitions_pkey PRIMARY KEY (parent, first_number),
    CONSTRAINT number_partitions_parent_known CHECK (parent IN ('sender_ledger', 'batch_rows')),
    CONSTRAINT number_partitions_numbers CHECK (before_number > first_number)
);
COMMENT ON TABLE number_partitions IS
    'A partition of sender_ledger or batch_rows. Written by the functions number_partitions_ahead, ledger_partition_drop and batch_partition_drop.';
COMMENT ON COLUMN number_partitions.first_number IS
    'the first lease_id or batch_id that it takes; 0: the table of before there were partitions, which also has the rows without lease_id';
COMMENT ON COLUMN number_partitions.before_number IS 'the first one that it does not take any more; null: it has no end';
COMMENT ON COLUMN number_partitions.entered_at IS 'when its first number was given out, or somewhat later; null: not yet';
COMMENT ON COLUMN number_partitions.left_at IS 'since when no more of its numbers are given out; null: they are, or will be';

-- number_partitions_ahead makes a partition that the sequence has not reached, if none is, or moves the sequence on to it, if the present partition was
-- entered longer than width ago. It returns what it changed: 1, or 0 if nothing was to do. The sequence moves only to a partition that another transaction
-- made, because no rollback moves it back.
CREATE FUNCTION number_partitions_ahead(of_parent text, width interval) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET lock_timeout = '3s' AS $$
DECLARE
    numbers CONSTANT text := CASE of_parent WHEN 'sender_ledger' THEN 'lease_ids' ELSE 'batches_id_seq' END;
    step CONSTANT bigint := CASE of_parent WHEN 'sender_ledger' THEN 1000000000 ELSE 10000 END; -- numbers of a partition; one that gets more goes on in the next
    options CONSTANT text := CASE of_parent WHEN 'batch_rows' THEN 'WITH (fillfactor = 85)' ELSE '' END; -- those of the default partition
    part text;
    last bigint;
    present number_partitions%ROWTYPE;
    next number_partitions%ROWTYPE;
    endless number_partitions%ROWTYPE;
BEGIN
    LOCK TABLE number_partitions IN SHARE ROW EXCLUSIVE MODE; -- one caller at a time
    EXECUTE pg_catalog.format('SELECT s.last_value FROM %I s', numbers) INTO STRICT last;
    UPDATE number_partitions p SET entered_at = clock_timestamp() WHERE p.parent = of_parent AND p.entered_at IS NULL AND p.first_number <= last;
    UPDATE number_partitions p SET left_at = clock_timestamp() WHERE p.parent = of_parent AND p.left_at IS NULL AND p.before_number <= last;
    SELECT * INTO STRICT present FROM number_partitions p
    WHERE p.parent = of_parent AND p.first_number <= last ORDER BY p.first_number DESC LIMIT 1;
    SELECT * INTO next FROM number_partitions p
    WHERE p.parent = of_parent AND p.first_number > last AND p.before_number IS NOT NULL ORDER BY p.first_number LIMIT 1;
    IF NOT FOUND THEN
        -- The partition without end gets one, behind all numbers that may be given out meanwhile. It is empty, or the sequence was moved into it: then
        -- attaching it reads its rows.
        PERFORM pg_catalog.set_config('lock_timeout', '100ms', true);
        SELECT * INTO endless FROM number_partitions p WHERE p.parent = of_parent AND p.before_number IS NULL;
        IF FOUND THEN
            endless.before_number := (greatest(endless.first_number, last) / step + 2) * step;
            UPDATE number_partitions p SET before_number = endless.before_number
            WHERE p.parent = of_parent AND p.first_number = endless.first_number;
            part := of_parent || '_' || endless.first_number;
            EXECUTE pg_catalog.format('LOCK TABLE ONLY %I IN ACCESS EXCLUSIVE MODE', of_parent); -- in the order of readers: before its partitions
            EXECUTE pg_catalog.format('ALTER TABLE %I DETACH PARTITION %I', of_parent, part);
            EXECUTE pg_catalog.format(
                'ALTER TABLE %I ATTACH PARTITION %I FOR VALUES FROM (%s) TO (%s)', of_parent, part, endless.first_number, endless.before_number
            );
        ELSE -- the first one
            SELECT p.before_number INTO STRICT endless.before_number FROM number_partitions p WHERE p.parent = of_parent AND p.first_number = 0;
        END IF;
        part := of_parent || '_' || endless.before_number;
        INSERT INTO number_partitions (parent, first_number) VALUES (of_parent, endless.before_number);
        EXECUTE pg_catalog.format('CREATE TABLE %I (LIKE %I INCLUDING DEFAULTS INCLUDING CONSTRAINTS) %s', part, of_parent, options);
        EXECUTE pg_catalog.format('ALTER TABLE %I ATTACH PARTITION %I FOR VALUES FROM (%s) TO (MAXVALUE)', of_parent, part, endless.before_number);
        RETURN 1;
    END IF;
    -- Near the end of a partition the sequence comes to the next one by itself: moved, it could give out a number twice that others take at this moment.
    IF present.entered_at < now() - width AND last > present.first_number AND next.first_number - last > step / 10 THEN
        PERFORM pg_catalog.setval(numbers::regclass, next.first_number, false);
        UPDATE number_partitions p SET left_at = clock_timestamp() WHERE p.parent = of_parent AND p.first_number = present.first_number;
        UPDATE number_partitions p SET entered_at = clock_timestamp() WHERE p.parent = of_parent AND p.first_number = next.first_number;
        RETURN 1;
    END IF;
    RETURN 0;
END
$$;

-- ledger_partition_drop drops the first partition of the ledger whose leases all began longer than keep ago, and adds the sums of its charges and refunds by
-- sender, company and day (UTC), with remark and the last balance of the day. It returns how many partitions it dropped: 1 or 0. Nobody adds to such a
-- partition: a lease lasts a week at most, and its refund looks for its charge. Others wait while the table is dropped, not while it is read.
CREATE FUNCTION ledger_partition_drop(keep interval, remark text) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET lock_timeout = '3s' AS $$
DECLARE
    part text;
    first bigint;
    tries integer := 0;
BEGIN
    SELECT p.first_number INTO first FROM number_partitions p
    WHERE p.parent = 'sender_ledger' AND p.first_number > 0 AND p.left_at < now() - greatest(keep, interval '8 days')
    ORDER BY p.first_number
    LIMIT 1
    FOR UPDATE;
    IF NOT FOUND THEN
        RETURN 0;
    END IF;
    part := 'sender_ledger_' || first;
    EXECUTE pg_catalog.format('LOCK TABLE %I IN SHARE MODE', part);
    EXECUTE pg_catalog.format(
        'INSERT INTO sender_ledger_default (id, sender_id, change, balance, company_id, remark, created_at) ' -- the id is the place in the list
        'SELECT max(r.id), r.sender_id, sum(r.change), (max(ARRAY[r.id, r.balance]))[2], r.company_id, $1, max(r.created_at) '
        'FROM %I r GROUP BY r.sender_id, r.company_id, date_trunc(''day'', r.created_at, ''UTC'')', part
    ) USING remark;
    PERFORM pg_catalog.set_config('lock_timeout', '100ms', true);
    LOOP -- tried here, because reading the partition takes longer than the lock
        tries := tries + 1;
        BEGIN
            LOCK TABLE ONLY sender_ledger IN ACCESS EXCLUSIVE MODE; -- in the order of readers: before its partitions
            EXIT;
        EXCEPTION WHEN lock_not_available THEN
            IF tries = 20 THEN
                RAISE;
            END IF;
        END;
        PERFORM pg_catalog.pg_sleep(1);
    END LOOP;
    EXECUTE pg_catalog.format('DROP TABLE %I', part);
    DELETE FROM number_partitions p WHERE p.parent = 'sender_ledger' AND p.first_number = first;
    RETURN 1;
END
$$;

-- batch_partition_drop drops the first partition of rows of batches whose batches all ended, or were never confirmed, longer than keep ago, and deletes these
-- batches. It returns how many partitions it dropped: 1 or 0. Batches are locked before their rows, as everywhere.
CREATE FUNCTION batch_partition_drop(keep interval) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET lock_timeout = '3s' AS $$
DECLARE
    over CONSTANT timestamptz := now() - keep;
    dropped number_partitions%ROWTYPE;
BEGIN
    SELECT p.* INTO dropped FROM number_partitions p
    WHERE p.parent = 'batch_rows' AND p.first_number > 0 AND p.left_at < over
        AND NOT EXISTS (
            SELECT FROM batches b
            WHERE b.id >= p.first_number AND b.id < p.before_number AND (b.is_settled AND coalesce(b.ended_at, b.checked_at) < over) IS NOT TRUE
        )
    ORDER BY p.first_number
    LIMIT 1
    FOR UPDATE;
    IF NOT FOUND THEN
        RETURN 0;
    END IF;
    PERFORM FROM batches b WHERE b.id >= dropped.first_number AND b.id < dropped.before_number ORDER BY b.id FOR UPDATE;
    IF EXISTS (
        SELECT FROM batches b
        WHERE b.id >= dropped.first_number AND b.id < dropped.before_number AND (b.is_settled AND coalesce(b.ended_at, b.checked_at) < over) IS NOT TRUE
    ) THEN
        RETURN 0; -- one runs again meanwhile
    END IF;
    DELETE FROM batches b WHERE b.id >= dropped.first_number AND b.id < dropped.before_number;
    PERFORM pg_catalog.set_config('lock_timeout', '100ms', true);
    LOCK TABLE ONLY batch_rows IN ACCESS EXCLUSIVE MODE; -- in the order of readers: before its partitions
    EXECUTE pg_catalog.format('DROP TABLE %I', 'batch_rows_' || dropped.first_number);
    DELETE FROM number_partitions p WHERE p.parent = 'batch_rows' AND p.first_number = dropped.first_number;
    RETURN 1;
END
$$;

DO $$
DECLARE
    home CONSTANT regnamespace := (SELECT c.relnamespace FROM pg_class c WHERE c.oid = 'sender_ledger'::regclass); -- and never "$user"
    function text;
BEGIN
    FOREACH function IN ARRAY ARRAY['number_partitions_ahead(text, interval)', 'ledger_partition_drop(interval, text)', 'batch_partition_drop(interval)'] LOOP
        EXECUTE pg_catalog.format('ALTER FUNCTION %s SET search_path = %s, pg_temp', function, home);
        EXECUTE pg_catalog.format('REVOKE ALL ON FUNCTION %s FROM PUBLIC', function);
    END LOOP;
END
$$;

-- migrate:down
DROP FUNCTION batch_partition_drop(interval), ledger_partition_drop(interval, text), number_partitions_ahead(text, interval);
DROP TABLE number_partitions;
