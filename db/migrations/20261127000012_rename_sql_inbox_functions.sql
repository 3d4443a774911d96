-- migrate:up
-- The package that takes these messages is called sqlinbox, and so are its functions now. sql_inbox_put is split into functions of one subject. The former
-- functions stay until the next version, for calls that run meanwhile. Locks the view lksms.outgoing for a moment: it waits for transactions that inserted
-- into it, and tries again.
DO $$
DECLARE
    schemas CONSTANT oid[] := ARRAY(SELECT c.relnamespace FROM pg_class c WHERE c.oid = 'messages'::regclass) || 'lksms'::regnamespace::oid;
    made record;
BEGIN
    FOR made IN
        SELECT p.oid FROM pg_proc p
        WHERE p.pronamespace = ANY (schemas) AND (p.proname LIKE 'sql\_door\_%' OR p.prosrc LIKE '%sql\_door\_%')
        ORDER BY p.oid
    LOOP
        EXECUTE replace(pg_get_functiondef(made.oid), 'sql_door_', 'sql_inbox_');
    END LOOP;
    FOR made IN
        SELECT n.oid::regprocedure AS name, obj_description(o.oid, 'pg_proc') AS text
        FROM pg_proc o
        JOIN pg_proc n ON n.pronamespace = o.pronamespace AND n.proargtypes = o.proargtypes AND n.proname = replace(o.proname, 'sql_door_', 'sql_inbox_')
        WHERE o.pronamespace = ANY (schemas) AND o.proname LIKE 'sql\_door\_%'
        ORDER BY o.oid
    LOOP
        EXECUTE format('COMMENT ON FUNCTION %s IS %L', made.name, made.text);
    END LOOP;
END $$;

CREATE OR REPLACE TRIGGER outgoing_insert INSTEAD OF INSERT ON lksms.outgoing FOR EACH ROW EXECUTE FUNCTION sql_inbox_outgoing();

COMMENT ON SCHEMA lksms IS
    'What a role of sql_roles may use to submit messages in its own transaction, see docs/integrations.md. Nothing else belongs here.';
COMMENT ON FUNCTION lksms.enqueue(
    text, text, text, text, integer, timestamptz, timestamptz, text, text, boolean, text, jsonb, text
) IS 'Submits a message in the transaction of the caller, and returns the id of its task. NULL: not given. See docs/integrations.md.';

-- Comments of tables name the packages that write them.
DO $$
DECLARE
    made record;
BEGIN
    FOR made IN
        SELECT c.oid::regclass AS name, obj_description(c.oid, 'pg_class') AS text FROM pg_class c
        WHERE c.relkind IN ('r', 'p') AND c.relnamespace = (SELECT m.relnamespace FROM pg_class m WHERE m.oid = 'messages'::regclass)
            AND obj_description(c.oid, 'pg_class') ~ 'internal/transport/(sqldoor|smsgate)'
        ORDER BY c.oid
    LOOP
        EXECUTE format('COMMENT ON TABLE %s IS %L', made.name, regexp_replace(
            replace(replace(made.text, 'internal/transport/sqldoor', 'internal/transport/sqlinbox'),
                'internal/transport/smsgateclient', 'internal/transport/smsgate/thirdparty'),
            'internal/transport/smsgate(?![/a-z])', 'internal/transport/smsgate/mobile', 'g'
        ));
    END LOOP;
END $$;

CREATE OR REPLACE FUNCTION sql_inbox_check_lengths(given sql_inbox, place integer) RETURNS void LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF char_length(given.source) > 50 THEN
        PERFORM sql_inbox_refuse('LK003', 'source', 'too_long', 'is too long, at most 50 characters are allowed', place);
    ELSIF given.dedup_key = '' THEN
        PERFORM sql_inbox_refuse('LK004', 'dedup_key', 'too_short', 'is empty: leave it out, or give it a character', place);
    ELSIF char_length(given.dedup_key) > 100 THEN
        PERFORM sql_inbox_refuse('LK003', 'dedup_key', 'too_long', 'is too long, at most 100 characters are allowed', place);
    ELSIF given.sign = '' THEN
        PERFORM sql_inbox_refuse('LK004', 'sign', 'too_short', 'is empty: leave it out, or give it a character', place);
    ELSIF char_length(given.sign) > 20 THEN
        PERFORM sql_inbox_refuse('LK003', 'sign', 'too_long', 'is too long, at most 20 characters are allowed', place);
    ELSIF given.sign ~ E'[\u0001-\u001f【】]' THEN
        PERFORM sql_inbox_refuse('LK006', 'sign', 'bad_characters', 'has a control character, or one of 【】', place);
    ELSIF given.template_no = '' THEN
        PERFORM sql_inbox_refuse('LK004', 'template_no', 'too_short', 'is empty: leave it out, or name a template', place);
    ELSIF char_length(given.template_no) > 50 THEN
        PERFORM sql_inbox_refuse('LK003', 'template_no', 'too_long', 'is too long, at most 50 characters are allowed', place);
    ELSIF given.language !~ '^[a-z]{2,3}(-[A-Z][a-z]{3})?(-([A-Z]{2}|[0-9]{3}))?$' THEN
        PERFORM sql_inbox_refuse('LK006', 'language', 'bad_characters', 'is no language such as en or zh-Hant', place);
    ELSIF jsonb_typeof(given.params) NOT IN ('object', 'string') THEN
        PERFORM sql_inbox_refuse('LK014', 'params', 'wrong_type', 'must be an object or a text', place);
    ELSIF char_length(given.params::text) > 131072 THEN
        PERFORM sql_inbox_refuse('LK003', 'params', 'too_long', 'is too long', place);
    ELSIF char_length(given.content) > 1024 THEN
        PERFORM sql_inbox_refuse('LK003', 'content', 'too_long', 'is too long, at most 1024 characters are allowed', place);
    ELSIF given.priority < 0 THEN
        PERFORM sql_inbox_refuse('LK008', 'priority', 'too_small', 'must be at least 0', place);
    ELSIF given.priority > 9 THEN
        PERFORM sql_inbox_refuse('LK008', 'priority', 'too_big', 'must be at most 9', place);
    END IF;
END
$$;
COMMENT ON FUNCTION sql_inbox_check_lengths(sql_inbox, integer) IS 'Refuses a message with a field that is too long, too short, or of a wrong form.';

CREATE OR REPLACE FUNCTION sql_inbox_check_number(caller users, phone_number text, place integer) RETURNS void LANGUAGE plpgsql STABLE AS $$
-- A mobile number of mainland China is known to be right or wrong (16[08] begins short numbers too). Of other numbers the server knows more.
DECLARE
    bare CONSTANT text := sql_inbox_number(phone_number);
BEGIN
    IF phone_number IS NULL THEN
        PERFORM sql_inbox_refuse('LK001', 'phone_number', 'required', 'is missing', place);
    ELSIF char_length(phone_number) > 50 OR bare !~ '^\+?[0-9]{5,17}$'
        OR bare ~ '^(\+|00)861[3-9]' AND bare !~ '^(\+|00)861[3-9][0-9]{9}$' AND bare !~ '^(\+|00)8616[08]' THEN
        PERFORM sql_inbox_refuse('LK005', 'phone_number', 'not_a_phone_number', 'is not a valid phone number', place);
    ELSIF bare !~ '^(\+|00)' AND bare !~ '^(86)?1[3-9][0-9]{9}$'
        AND (SELECT c.default_region FROM companies c WHERE c.id = caller.company_id) = '' THEN
        PERFORM sql_inbox_refuse('LK005', 'phone_number', 'region_not_known',
            'is no mobile number of mainland China, and its country is not known: write it with + and the country code', place);
    END IF;
END
$$;
COMMENT ON FUNCTION sql_inbox_check_number(users, text, integer) IS 'Refuses a text that is no phone number, and a number whose country is not known.';

CREATE OR REPLACE FUNCTION sql_inbox_check_fields(given sql_inbox, content text, place integer) RETURNS void LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF given.template_no IS NOT NULL AND content <> '' THEN
        PERFORM sql_inbox_refuse('LK013', 'content', 'not_together', 'cannot be used together with template_no', place);
    ELSIF given.template_no IS NULL AND given.content IS NULL THEN
        PERFORM sql_inbox_refuse('LK001', 'content', 'required', 'is missing: give a text, or template_no', place);
    ELSIF given.template_no IS NULL AND given.params IS NOT NULL THEN
        PERFORM sql_inbox_refuse('LK013', 'params', 'only_together', 'can only be used together with template_no', place);
    ELSIF given.template_no IS NULL AND given.language IS NOT NULL THEN
        PERFORM sql_inbox_refuse('LK013', 'language', 'only_together', 'can only be used together with template_no', place);
    END IF;
END
$$;
COMMENT ON FUNCTION sql_inbox_check_fields(sql_inbox, text, integer) IS 'Refuses fields that exclude or need each other. content is what the caller gave: given.content is null beside a template.';

CREATE OR REPLACE FUNCTION sql_inbox_check_priority(caller users, given sql_inbox, place integer) RETURNS void LANGUAGE plpgsql STABLE AS $$
DECLARE
    usual CONSTANT bigint := CASE given.message_type
        WHEN 0 THEN sql_inbox_setting('priority_verification', 1)
        WHEN 1 THEN sql_inbox_setting('priority_notification', 5)
        ELSE sql_inbox_setting('priority_marketing', 8)
    END;
BEGIN
    IF given.priority < least(usual, caller.top_priority) THEN
        PERFORM sql_inbox_refuse('LK009', 'priority', 'too_urgent',
            pg_catalog.format('is more urgent than allowed, the smallest number is %s', least(usual, caller.top_priority)), place);
    END IF;
END
$$;
COMMENT ON FUNCTION sql_inbox_check_priority(users, sql_inbox, integer) IS 'Refuses a priority that is more urgent than the user and the message type allow.';

CREATE OR REPLACE FUNCTION sql_inbox_check_times(given sql_inbox, place integer) RETURNS void LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF given.expect_send_time > given.created_at + interval '366 days' THEN
        PERFORM sql_inbox_refuse('LK011', 'expect_send_time', 'too_far_ahead', 'is too far ahead, at most 366 days are allowed', place);
    ELSIF given.expect_send_time < '0001-01-01 00:00:00+00' THEN
        PERFORM sql_inbox_refuse('LK010', 'expect_send_time', 'in_the_past', 'is before the year 1', place);
    ELSIF given.expires_at < given.created_at OR given.expires_at < given.expect_send_time THEN
        PERFORM sql_inbox_refuse('LK010', 'expires_at', 'in_the_past', 'is in the past, or before expect_send_time', place);
    ELSIF given.expires_at > given.created_at + interval '732 days' THEN
        PERFORM sql_inbox_refuse('LK011', 'expires_at', 'too_far_ahead', 'is too far ahead, at most 732 days are allowed', place);
    END IF;
END
$$;
COMMENT ON FUNCTION sql_inbox_check_times(sql_inbox, integer) IS 'Refuses times that are past or too far ahead, also those that no clock of the server can show.';

CREATE OR REPLACE FUNCTION sql_inbox_check_template(caller users, given sql_inbox, place integer) RETURNS void LANGUAGE plpgsql STABLE AS $$
DECLARE
    status CONSTANT text := (
        SELECT t.status FROM templates t
        WHERE t.template_no = given.template_no
            AND (t.companies = '{}' OR (SELECT c.company_no FROM companies c WHERE c.id = caller.company_id) = ANY (t.companies))
    );
BEGIN
    IF status IS NULL THEN
        PERFORM sql_inbox_refuse('LK012', 'template_no', 'not_there', 'names no template that this company may use', place);
    ELSIF status <> 'active' THEN
        PERFORM sql_inbox_refuse('LK012', 'template_no', 'not_active', 'names a template that is not active', place);
    END IF;
END
$$;
COMMENT ON FUNCTION sql_inbox_check_template(users, sql_inbox, integer) IS 'Refuses a template that does not exist, is not active, or belongs to others.';

CREATE OR REPLACE FUNCTION sql_inbox_check_content(given sql_inbox, place integer) RETURNS void LANGUAGE plpgsql STABLE AS $$
DECLARE
    -- The white space of Unicode: a text of nothing else is blank.
    blank CONSTANT text := E'\t\n\v\f\r \u0085\u00a0\u1680'
        '\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000';
    kind CONSTANT text := (ARRAY['verification', 'notification', 'marketing'])[given.message_type + 1];
    max_characters CONSTANT bigint := sql_inbox_setting('max_content_' || kind, 200);
    max_segments CONSTANT bigint := sql_inbox_setting('max_segments_' || kind, 16);
    signed CONSTANT text := coalesce('【' || given.sign || '】', '') || given.content;
BEGIN
    IF btrim(given.content, blank) = '' THEN
        PERFORM sql_inbox_refuse('LK002', 'content', 'blank', 'must not be blank', place);
    ELSIF char_length(given.content) > max_characters THEN
        PERFORM sql_inbox_refuse('LK003', 'content', 'too_many_characters',
            pg_catalog.format('is too long: %s characters, at most %s', char_length(given.content), max_characters), place);
    ELSIF 2 * char_length(signed) > 66 * max_segments AND sql_inbox_segments(signed) > max_segments THEN -- the first is cheap: 66 units and more fit in a part
        PERFORM sql_inbox_refuse('LK003', 'content', 'too_many_segments',
            pg_catalog.format('takes too many short messages: %s, at most %s', sql_inbox_segments(signed), max_segments), place);
    END IF;
END
$$;
COMMENT ON FUNCTION sql_inbox_check_content(sql_inbox, integer) IS 'Refuses a text that is blank, or longer than its message type may be.';

CREATE OR REPLACE FUNCTION sql_inbox_first(given sql_inbox) RETURNS text LANGUAGE sql STABLE AS $$
SELECT coalesce(
    (
        SELECT k.task_id FROM dedup_keys k
        WHERE k.company_id = given.company_id AND k.submitted_by = given.submitted_by AND k.dedup_key = given.dedup_key
    ),
    (
        SELECT i.task_id FROM sql_inbox i
        WHERE i.company_id = given.company_id AND i.submitted_by = given.submitted_by AND i.dedup_key = given.dedup_key AND NOT i.is_repeat
    )
)
$$;
COMMENT ON FUNCTION sql_inbox_first(sql_inbox) IS 'The task of the first message with the same dedup key, or null.';

CREATE OR REPLACE FUNCTION sql_inbox_store(given sql_inbox, earlier text) RETURNS text LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
BEGIN
    IF given.dedup_key IS NULL THEN
        INSERT INTO sql_inbox SELECT given.*;
        RETURN given.task_id;
    END IF;
    -- A transaction that has inserted the same key and is not over makes the INSERT wait. After it, each statement has a new snapshot, with what was
    -- committed meanwhile: the inbox has the first message, or dedup_keys has its task.
    WHILE earlier IS NULL LOOP
        INSERT INTO sql_inbox SELECT given.*
        ON CONFLICT (company_id, submitted_by, dedup_key) WHERE dedup_key IS NOT NULL AND NOT is_repeat DO NOTHING;
        IF FOUND THEN
            SELECT k.task_id INTO earlier FROM dedup_keys k
            WHERE k.company_id = given.company_id AND k.submitted_by = given.submitted_by AND k.dedup_key = given.dedup_key;
            IF earlier IS NULL THEN
                RETURN given.task_id;
            END IF;
            UPDATE sql_inbox i SET is_repeat = true WHERE i.id = given.id;
            RETURN earlier;
        END IF;
        SELECT i.task_id INTO earlier FROM sql_inbox i
        WHERE i.company_id = given.company_id AND i.submitted_by = given.submitted_by AND i.dedup_key = given.dedup_key AND NOT i.is_repeat;
    END LOOP;
    given.is_repeat := true;
    INSERT INTO sql_inbox SELECT given.*;
    RETURN earlier;
END
$$;
COMMENT ON FUNCTION sql_inbox_store(sql_inbox, text) IS 'Puts a checked message in the inbox, and returns the id of its task: of a repeated dedup key the first one, which is earlier if it was known before.';

CREATE OR REPLACE FUNCTION sql_inbox_put(
    caller users, of_id bigint, place integer, phone_number text, content text, dedup_key text, message_type text, priority integer,
    expect_send_time timestamptz, expires_at timestamptz, sign text, source text, test boolean, template_no text, params jsonb, language text
) RETURNS text LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    called_at CONSTANT timestamptz := clock_timestamp();
    given sql_inbox;
    earlier text;
BEGIN
    given.id := of_id;
    given.task_id := sql_inbox_task_id(called_at, coalesce(place, 0));
    given.company_id := caller.company_id;
    given.submitted_by := caller.username;
    given.role_name := session_user;
    given.source_ip := host(inet_client_addr());
    given.request_id := 'sql-' || pg_current_xact_id()::text;
    given.phone_number := $4;
    given.content := CASE WHEN $14 IS NULL THEN $5 END;
    given.dedup_key := $6;
    given.priority := CASE WHEN $8 IS NOT NULL THEN least(greatest($8, -1), 10) END;
    given.expect_send_time := $9;
    given.expires_at := $10;
    given.sign := $11;
    given.source := nullif($12, '');
    given.is_test := coalesce($13, false);
    given.template_no := $14;
    given.params := nullif($15, 'null');
    given.language := $16;
    given.is_repeat := false;
    given.tries := 0;
    given.created_at := called_at;
    given.due_at := called_at;

    PERFORM sql_inbox_check_lengths(given, place);
    given.message_type := pg_catalog.array_position(ARRAY['verification', 'notification', 'marketing'], coalesce($7, 'notification')) - 1;
    IF given.message_type IS NULL THEN
        PERFORM sql_inbox_refuse('LK007', 'message_type', 'not_allowed', 'must be verification, notification or marketing', place);
    END IF;
    PERFORM sql_inbox_check_number(caller, given.phone_number, place);
    PERFORM sql_inbox_check_fields(given, $5, place);
    earlier := sql_inbox_first(given);
    IF earlier IS NULL THEN -- a repeat gets the first task, whatever has changed since: its times have passed, say, or its template is disabled
        PERFORM sql_inbox_check_priority(caller, given, place);
        PERFORM sql_inbox_check_times(given, place);
        IF given.template_no IS NOT NULL THEN
            PERFORM sql_inbox_check_template(caller, given, place);
        ELSE
            PERFORM sql_inbox_check_content(given, place);
        END IF;
    END IF;
    RETURN sql_inbox_store(given, earlier);
END
$$;

-- Roles may call the functions of the schema lksms alone, which call these with the rights of the owner of the tables.
DO $$
DECLARE
    schemas CONSTANT oid[] := ARRAY(SELECT c.relnamespace FROM pg_class c WHERE c.oid = 'messages'::regclass);
    owner CONSTANT name := (SELECT pg_get_userbyid(c.relowner) FROM pg_class c WHERE c.oid = 'messages'::regclass);
    made record;
BEGIN
    FOR made IN
        SELECT p.oid::regprocedure AS name, pg_get_userbyid(p.proowner) AS owner FROM pg_proc p
        WHERE p.pronamespace = ANY (schemas) AND p.proname LIKE 'sql\_inbox\_%'
        ORDER BY p.oid
    LOOP
        EXECUTE format('REVOKE ALL ON FUNCTION %s FROM PUBLIC', made.name);
        IF made.owner <> owner THEN
            EXECUTE format('ALTER FUNCTION %s OWNER TO %I', made.name, owner);
        END IF;
    END LOOP;
END $$;

-- migrate:down
-- The functions of lksms get their former bodies back, and with them the former names of settings.
DO $$
DECLARE
    made record;
BEGIN
    FOR made IN SELECT p.oid FROM pg_proc p WHERE p.pronamespace = 'lksms'::regnamespace AND p.prosrc LIKE '%sql\_inbox\_%' ORDER BY p.oid LOOP
        EXECUTE replace(pg_get_functiondef(made.oid), 'sql_inbox_', 'sql_door_');
    END LOOP;
    EXECUTE 'CREATE OR REPLACE TRIGGER outgoing_insert INSTEAD OF INSERT ON lksms.outgoing FOR EACH ROW EXECUTE FUNCTION sql_door_outgoing()';
    FOR made IN
        SELECT p.oid::regprocedure AS name FROM pg_proc p
        WHERE p.proname LIKE 'sql\_inbox\_%' AND p.pronamespace = (SELECT c.relnamespace FROM pg_class c WHERE c.oid = 'messages'::regclass)
        ORDER BY p.oid
    LOOP
        EXECUTE format('DROP FUNCTION %s', made.name);
    END LOOP;
END $$;
