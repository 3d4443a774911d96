-- migrate:up
-- A server that does not know all columns of facts must not fold them: what these columns say would be missing in the statistics for ever. A server
-- names the version of the columns that it knows, in the transaction of a fold. Whoever adds a column makes this trigger again with the next version.
SET LOCAL lock_timeout = '5s';
CREATE FUNCTION facts_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF current_setting('lksms.facts_version', true) IS DISTINCT FROM TG_ARGV[0] THEN
        RAISE EXCEPTION 'this server does not know all columns of facts: stop it, and start the version to which the database was upgraded'
            USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
    RETURN NULL;
END
$$;
CREATE TRIGGER facts_guard BEFORE DELETE ON facts FOR EACH STATEMENT EXECUTE FUNCTION facts_guard('2');

-- migrate:down
SET LOCAL lock_timeout = '5s';
DROP TRIGGER facts_guard ON facts;
DROP FUNCTION facts_guard();
