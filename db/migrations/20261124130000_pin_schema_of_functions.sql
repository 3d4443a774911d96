-- migrate:up
-- A later migration makes a schema lksms. A role of that name has it first in its search path, as "$user": functions that create tables must not
-- create them there. They get the schema of the tables alone as their search path.
DO $$
DECLARE
    home CONSTANT regnamespace := (SELECT c.relnamespace FROM pg_class c WHERE c.oid = 'messages'::regclass);
    made regprocedure;
BEGIN
    FOR made IN
        SELECT p.oid::regprocedure FROM pg_proc p
        WHERE p.pronamespace = home
            AND array_to_string(p.proconfig, ',') LIKE '%search_path=%$user%'
        ORDER BY p.oid
    LOOP
        EXECUTE format('ALTER FUNCTION %s SET search_path = %s, pg_temp', made, home);
    END LOOP;
END $$;

-- migrate:down
-- Nothing: without the schema lksms both mean the same.
SELECT 1;
