-- Locks no table.
-- migrate:up
CREATE FUNCTION is_in_check(b batches) RETURNS boolean LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT b.status = 'checking' OR b.status = 'paused' AND b.checked_at IS NULL
$$;
COMMENT ON FUNCTION is_in_check(batches) IS 'Whether the rows of a batch are being read and checked. A batch that is paused while it reads its tag again is read to the end';

-- migrate:down
DROP FUNCTION is_in_check(batches);
