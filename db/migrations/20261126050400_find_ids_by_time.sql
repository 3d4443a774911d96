-- migrate:up
-- Callbacks and receipts are listed between two times, without an index of their times: their ids ascend with them, but for the length of a transaction.
-- A bisection of ids finds the first row of a time with some thirty look-ups by primary key, whatever the number of rows. No lock.
CREATE FUNCTION first_id_since(of_table regclass, since timestamptz) RETURNS bigint
    LANGUAGE plpgsql STABLE
    AS $$
DECLARE
    low bigint;
    high bigint; -- rows before low are older than since, and rows from high on are not
    middle bigint;
    nearest record;
BEGIN
    EXECUTE format('SELECT min(id), max(id) + 1 FROM %s', of_table) INTO low, high;
    WHILE low < high LOOP
        middle := low + (high - low) / 2;
        EXECUTE format('SELECT id, created_at FROM %s WHERE id >= $1 ORDER BY id LIMIT 1', of_table) INTO nearest USING middle;
        IF nearest.created_at < since THEN
            low := nearest.id + 1;
        ELSE
            high := middle;
        END IF;
    END LOOP;
    RETURN coalesce(low, 0);
END $$;
COMMENT ON FUNCTION first_id_since(regclass, timestamptz) IS
    'The first id from which on the rows of callbacks or receipts are not older than a time; about, because created_at is when a transaction began. Callers allow for that, and compare created_at too.';

-- migrate:down
DROP FUNCTION first_id_since(regclass, timestamptz);
