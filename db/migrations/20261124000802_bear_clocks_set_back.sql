-- migrate:up
-- A time that is kept for later must not stop its reader for as long as the clock of the database is set back.
CREATE FUNCTION is_due(at timestamptz, longest_wait interval) RETURNS boolean LANGUAGE sql STABLE
RETURN at <= now() OR at > now() + longest_wait + interval '1 minute';
COMMENT ON FUNCTION is_due(timestamptz, interval) IS
    'Whether a time has come that was set at most longest_wait ahead. One that is further ahead was set before the clock was set back, and counts as come. '
    'The minute is for transactions that began at other times.';

-- migrate:down
DROP FUNCTION is_due(timestamptz, interval);
