-- Run this file once on a database that was restored to an earlier point, before LKSMS starts on it. It moves all sequences forward by a billion, so that no id
-- is used twice. Other programs know ids from after the restore point: receivers ignore an event whose id they have received, sender apps report with lease
-- ids, and programs query their batches.
DO $$
DECLARE
    s record;
BEGIN
    FOR s IN SELECT schemaname, sequencename, data_type, max_value FROM pg_sequences WHERE schemaname = 'public' LOOP
        IF s.data_type <> 'bigint'::regtype OR s.max_value < 9223372036854775807 THEN
            RAISE EXCEPTION 'the sequence %.% has no room', s.schemaname, s.sequencename;
        END IF;
        PERFORM setval(format('%I.%I', s.schemaname, s.sequencename), nextval(format('%I.%I', s.schemaname, s.sequencename)) + 1000000000);
    END LOOP;
END $$;
