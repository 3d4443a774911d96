-- Run once on a database that was restored to an earlier point, before LKSMS starts on it. Ids that were given out after the point are known outside:
-- receivers drop an event whose id they have had, a sender app reports with the id of its lease, a program asks for its batch. No id is given out a
-- second time: all sequences go on a billion later.
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
