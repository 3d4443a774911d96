-- migrate:up
-- The functions of the schema lksms are for callers. The others help them, are for nobody else, and are found through the search_path of the first.
CREATE SCHEMA lksms;
COMMENT ON SCHEMA lksms IS 'The SQL door: what a role of sql_roles may use to submit messages in its own transaction. Nothing else belongs here.';

CREATE FUNCTION sql_door_refuse(code text, field text, rule text, text_of_error text, place integer DEFAULT NULL) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF place IS NULL THEN
        RAISE EXCEPTION USING ERRCODE = code, MESSAGE = field || ': ' || text_of_error, COLUMN = field, CONSTRAINT = rule;
    END IF;
    RAISE EXCEPTION USING ERRCODE = code, MESSAGE = field || ': ' || text_of_error, COLUMN = field, CONSTRAINT = rule,
        DETAIL = pg_catalog.format('Message %s of the set, counted from 1.', place);
END
$$;
COMMENT ON FUNCTION sql_door_refuse(text, text, text, text, integer) IS
    'Refuses a message: the SQLSTATE says what is wrong, the column which field, the constraint which rule of package fault. place is that in a set.';

CREATE FUNCTION sql_door_user() RETURNS users LANGUAGE plpgsql STABLE AS $$
DECLARE
    found_user users;
BEGIN
    SELECT u.* INTO found_user FROM sql_roles r JOIN users u ON u.id = r.user_id WHERE r.role_name = session_user::text;
    IF found_user.id IS NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege', MESSAGE = pg_catalog.format('role %I submits for no user of LKSMS', session_user),
            HINT = pg_catalog.format('The operator of LKSMS allows it with: lksms sql grant <username> %s', session_user);
    ELSIF found_user.is_disabled THEN
        RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege',
            MESSAGE = pg_catalog.format('the user of LKSMS for whom role %I submits is disabled', session_user),
            HINT = 'The operator of LKSMS enables it with: lksms user enable <username>';
    ELSIF found_user.role NOT IN ('submit', 'admin') THEN
        RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege',
            MESSAGE = pg_catalog.format('the user of LKSMS for whom role %I submits may not submit', session_user),
            HINT = 'The user needs the role submit or admin in LKSMS.';
    END IF;
    RETURN found_user;
END
$$;
COMMENT ON FUNCTION sql_door_user() IS
    'The user for whom the session submits. session_user: a function of its owner''s rights has another current_user.';

CREATE FUNCTION sql_door_setting(of_name text, otherwise bigint) RETURNS bigint LANGUAGE sql STABLE AS $$
    SELECT coalesce((SELECT (s.value #>> '{}')::bigint FROM settings s WHERE s.category = 'sms' AND s.name = of_name), otherwise)
$$;
COMMENT ON FUNCTION sql_door_setting(text, bigint) IS 'A setting of the category sms. Its default is that of package setting, which a test compares.';

CREATE FUNCTION sql_door_segments(signed text) RETURNS integer LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    extension CONSTANT text := E'\f^{}\\[~]|€';
    basic CONSTANT text := E'@£$¥èéùìòÇ\nØø\rÅåΔ_ΦΓΛΩΠΨΣΘΞÆæßÉ !"#¤%&''()*+,-./0123456789:;<=>?'
        '¡ABCDEFGHIJKLMNOPQRSTUVWXYZÄÖÑÜ§¿abcdefghijklmnopqrstuvwxyzäöñüà';
    is_gsm CONSTANT boolean := translate(signed, basic || extension, '') = '';
    alone CONSTANT integer := CASE WHEN is_gsm THEN 160 ELSE 70 END;
    in_part CONSTANT integer := CASE WHEN is_gsm THEN 153 ELSE 67 END;
    total integer := 0;
    parts integer := 1;
    filled integer := 0;
    size integer;
    one text;
BEGIN
    FOREACH one IN ARRAY regexp_split_to_array(signed, '') LOOP
        size := CASE WHEN is_gsm THEN 1 + (strpos(extension, one) > 0)::integer ELSE 1 + (ascii(one) > 65535)::integer END;
        total := total + size;
        filled := filled + size;
        IF filled > in_part THEN -- a character is never split
            parts := parts + 1;
            filled := size;
        END IF;
    END LOOP;
    RETURN CASE WHEN total <= alone THEN 1 ELSE parts END;
END
$$;
COMMENT ON FUNCTION sql_door_segments(text) IS 'The short messages that a text takes, as package segment counts them, which a test compares.';

CREATE FUNCTION sql_door_task_id(at timestamptz, ordinal integer) RETURNS text LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    alphabet CONSTANT text := '0123456789ABCDEFGHJKMNPQRSTVWXYZ';
    micros CONSTANT bigint := (extract(epoch FROM at) * 1000000)::bigint;
    dice CONSTANT bit(128) := ('x' || translate(gen_random_uuid()::text, '-', ''))::bit(128);
    -- The bits 49 to 68 of a UUID say its version and variant, in part.
    bits CONSTANT bit varying := B'00' || (micros / 1000)::bit(48) || (micros % 1000)::integer::bit(10) || ordinal::bit(10)
        || substring(dice FROM 1 FOR 48) || substring(dice FROM 117 FOR 12);
    ulid text := '';
BEGIN
    FOR place IN 0..25 LOOP
        ulid := ulid || substr(alphabet, substring(bits FROM 5 * place + 1 FOR 5)::bit(5)::integer + 1, 1);
    END LOOP;
    RETURN 'task_' || to_char(at AT TIME ZONE 'UTC', 'YYYYMMDD') || '_' || ulid;
END
$$;
COMMENT ON FUNCTION sql_door_task_id(timestamptz, integer) IS
    'A task id as package queue makes them: the day and a ULID. It ascends with the microsecond and then with ordinal, '
    'the place in a set below 1024.';

CREATE FUNCTION sql_door_put(
    caller users, of_id bigint, place integer, phone_number text, content text, dedup_key text, message_type text, priority integer,
    expect_send_time timestamptz, expires_at timestamptz, sign text, source text, test boolean, template_no text, params jsonb, language text
) RETURNS text LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
    -- What trims a text to nothing: the white space of Unicode.
    blank CONSTANT text := E'\t\n\v\f\r \u0085\u00a0\u1680'
        '\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000';
    called_at CONSTANT timestamptz := clock_timestamp();
    given sql_inbox;
    bare text;
    usual bigint;
    most bigint;
    status text;
    earlier text;
BEGIN
    given.id := of_id;
    given.task_id := sql_door_task_id(called_at, coalesce(place, 0));
    given.company_id := caller.company_id;
    given.submitted_by := caller.username;
    given.role_name := session_user;
    given.source_ip := host(inet_client_addr());
    given.request_id := 'sql-' || pg_current_xact_id()::text;
    given.phone_number := $4;
    given.content := $5;
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

    -- The lengths.
    IF char_length(given.source) > 50 THEN
        PERFORM sql_door_refuse('LK003', 'source', 'too_long', 'is too long, at most 50 characters are allowed', place);
    ELSIF given.dedup_key = '' THEN
        PERFORM sql_door_refuse('LK004', 'dedup_key', 'too_short', 'is empty: leave it out, or give it a character', place);
    ELSIF char_length(given.dedup_key) > 100 THEN
        PERFORM sql_door_refuse('LK003', 'dedup_key', 'too_long', 'is too long, at most 100 characters are allowed', place);
    ELSIF given.sign = '' THEN
        PERFORM sql_door_refuse('LK004', 'sign', 'too_short', 'is empty: leave it out, or give it a character', place);
    ELSIF char_length(given.sign) > 20 THEN
        PERFORM sql_door_refuse('LK003', 'sign', 'too_long', 'is too long, at most 20 characters are allowed', place);
    ELSIF given.sign ~ E'[\u0001-\u001f【】]' THEN
        PERFORM sql_door_refuse('LK006', 'sign', 'bad_characters', 'has a control character, or one of 【】', place);
    ELSIF given.template_no = '' THEN
        PERFORM sql_door_refuse('LK004', 'template_no', 'too_short', 'is empty: leave it out, or name a template', place);
    ELSIF char_length(given.template_no) > 50 THEN
        PERFORM sql_door_refuse('LK003', 'template_no', 'too_long', 'is too long, at most 50 characters are allowed', place);
    ELSIF given.language !~ '^[a-z]{2,3}(-[A-Z][a-z]{3})?(-([A-Z]{2}|[0-9]{3}))?$' THEN
        PERFORM sql_door_refuse('LK006', 'language', 'bad_characters', 'is no language such as en or zh-Hant', place);
    ELSIF jsonb_typeof(given.params) NOT IN ('object', 'string') THEN
        PERFORM sql_door_refuse('LK014', 'params', 'wrong_type', 'must be an object or a text', place);
    ELSIF char_length(given.params::text) > 131072 THEN
        PERFORM sql_door_refuse('LK003', 'params', 'too_long', 'is too long', place);
    ELSIF char_length(given.content) > 1024 THEN
        PERFORM sql_door_refuse('LK003', 'content', 'too_long', 'is too long, at most 1024 characters are allowed', place);
    ELSIF given.priority < 0 THEN
        PERFORM sql_door_refuse('LK008', 'priority', 'too_small', 'must be at least 0', place);
    ELSIF given.priority > 9 THEN
        PERFORM sql_door_refuse('LK008', 'priority', 'too_big', 'must be at most 9', place);
    END IF;
    given.message_type := pg_catalog.array_position(ARRAY['verification', 'notification', 'marketing'], coalesce($7, 'notification')) - 1;
    IF given.message_type IS NULL THEN
        PERFORM sql_door_refuse('LK007', 'message_type', 'not_allowed', 'must be verification, notification or marketing', place);
    END IF;

    -- The number. A mobile number of mainland China is known to be right or wrong (16[08] begins short numbers too); of others the server knows more.
    bare := regexp_replace(translate(given.phone_number, ' -', ''), '^\+86', '');
    IF given.phone_number IS NULL THEN
        PERFORM sql_door_refuse('LK001', 'phone_number', 'required', 'is missing', place);
    ELSIF char_length(given.phone_number) NOT BETWEEN 11 AND 20 OR given.phone_number !~ '^\+?[0-9][0-9 -]*[0-9]$'
        OR translate(given.phone_number, ' -', '') ~ '^\+861[3-9]' AND bare !~ '^1[3-9][0-9]{9}$' AND bare !~ '^16[08]' THEN
        PERFORM sql_door_refuse('LK005', 'phone_number', 'not_a_phone_number', 'is not a valid phone number', place);
    END IF;

    -- The fields that exclude each other.
    IF given.template_no IS NOT NULL AND given.content <> '' THEN
        PERFORM sql_door_refuse('LK013', 'content', 'not_together', 'cannot be used together with template_no', place);
    ELSIF given.template_no IS NULL AND given.params IS NOT NULL THEN
        PERFORM sql_door_refuse('LK013', 'params', 'only_together', 'can only be used together with template_no', place);
    ELSIF given.template_no IS NULL AND given.language IS NOT NULL THEN
        PERFORM sql_door_refuse('LK013', 'language', 'only_together', 'can only be used together with template_no', place);
    END IF;

    -- The priority.
    usual := CASE given.message_type
        WHEN 0 THEN sql_door_setting('priority_verification', 1)
        WHEN 1 THEN sql_door_setting('priority_notification', 5)
        ELSE sql_door_setting('priority_marketing', 8)
    END;
    IF given.priority < least(usual, caller.top_priority) THEN
        PERFORM sql_door_refuse('LK009', 'priority', 'too_urgent',
            pg_catalog.format('is more urgent than allowed, the smallest number is %s', least(usual, caller.top_priority)), place);
    END IF;

    -- The times, also those that no clock of the server can show.
    IF given.expect_send_time > called_at + interval '366 days' THEN
        PERFORM sql_door_refuse('LK011', 'expect_send_time', 'too_far_ahead', 'is too far ahead, at most 366 days are allowed', place);
    ELSIF given.expect_send_time < '0001-01-01 00:00:00+00' THEN
        PERFORM sql_door_refuse('LK010', 'expect_send_time', 'in_the_past', 'is before the year 1', place);
    ELSIF given.expires_at < called_at OR given.expires_at < given.expect_send_time THEN
        PERFORM sql_door_refuse('LK010', 'expires_at', 'in_the_past', 'is in the past, or before expect_send_time', place);
    ELSIF given.expires_at > called_at + interval '732 days' THEN
        PERFORM sql_door_refuse('LK011', 'expires_at', 'too_far_ahead', 'is too far ahead, at most 732 days are allowed', place);
    END IF;

    -- The text.
    IF given.template_no IS NOT NULL THEN
        given.content := NULL;
        SELECT t.status INTO status FROM templates t
        WHERE t.template_no = given.template_no
            AND (t.companies = '{}' OR (SELECT c.company_no FROM companies c WHERE c.id = caller.company_id) = ANY (t.companies));
        IF status IS NULL THEN
            PERFORM sql_door_refuse('LK012', 'template_no', 'not_there', 'names no template that this company may use', place);
        ELSIF status <> 'active' THEN
            PERFORM sql_door_refuse('LK012', 'template_no', 'not_active', 'names a template that is not active', place);
        END IF;
    ELSIF given.content IS NULL THEN
        PERFORM sql_door_refuse('LK001', 'content', 'required', 'is missing: give a text, or template_no', place);
    ELSIF btrim(given.content, blank) = '' THEN
        PERFORM sql_door_refuse('LK002', 'content', 'blank', 'must not be blank', place);
    ELSE
        most := CASE given.message_type
            WHEN 0 THEN sql_door_setting('content_most_verification', 200)
            WHEN 1 THEN sql_door_setting('content_most_notification', 200)
            ELSE sql_door_setting('content_most_marketing', 200)
        END;
        IF char_length(given.content) > most THEN
            PERFORM sql_door_refuse('LK003', 'content', 'too_many_characters',
                pg_catalog.format('is too long: %s characters, at most %s', char_length(given.content), most), place);
        END IF;
        most := CASE given.message_type
            WHEN 0 THEN sql_door_setting('segments_most_verification', 16)
            WHEN 1 THEN sql_door_setting('segments_most_notification', 16)
            ELSE sql_door_setting('segments_most_marketing', 16)
        END;
        bare := coalesce('【' || given.sign || '】', '') || given.content;
        IF 2 * char_length(bare) > 66 * most AND sql_door_segments(bare) > most THEN -- the first is cheap: 66 units and more fit in a part
            PERFORM sql_door_refuse('LK003', 'content', 'too_many_segments',
                pg_catalog.format('takes too many short messages: %s, at most %s', sql_door_segments(bare), most), place);
        END IF;
    END IF;

    IF given.dedup_key IS NULL THEN
        INSERT INTO sql_inbox SELECT given.*;
        RETURN given.task_id;
    END IF;
    -- A transaction that has inserted the same key and is not over makes the INSERT wait. After it, and at each turn, a new snapshot shows what was
    -- committed meanwhile: the inbox has the first message, or dedup_keys has its task.
    LOOP
        SELECT k.task_id INTO earlier FROM dedup_keys k
        WHERE k.company_id = given.company_id AND k.submitted_by = given.submitted_by AND k.dedup_key = given.dedup_key;
        EXIT WHEN earlier IS NOT NULL;
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
        EXIT WHEN earlier IS NOT NULL;
    END LOOP;
    given.is_repeat := true;
    INSERT INTO sql_inbox SELECT given.*;
    RETURN earlier;
END
$$;
COMMENT ON FUNCTION sql_door_put(
    users, bigint, integer, text, text, text, text, integer, timestamptz, timestamptz, text, text, boolean, text, jsonb, text
) IS 'Checks a message as package queue does, in the same order, puts it in the inbox, and returns the id of its task: of a repeated dedup key '
    'the first one.';

CREATE FUNCTION sql_door_text(message jsonb, field text, place integer) RETURNS text LANGUAGE plpgsql STABLE AS $$
BEGIN
    IF jsonb_typeof(message -> field) NOT IN ('string', 'null') THEN
        PERFORM sql_door_refuse('LK014', field, 'wrong_type', 'must be a text', place);
    END IF;
    RETURN message ->> field;
END
$$;
COMMENT ON FUNCTION sql_door_text(jsonb, text, integer) IS 'A member of a message of a set that must be a text; null: it is missing.';

CREATE FUNCTION sql_door_time(message jsonb, field text, place integer) RETURNS timestamptz LANGUAGE plpgsql STABLE AS $$
DECLARE
    given CONSTANT text := sql_door_text(message, field, place);
BEGIN
    IF given ~ '^[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?([Zz]|[+-][0-9]{2}:[0-9]{2})$' THEN
        RETURN given::timestamptz;
    ELSIF given IS NOT NULL THEN
        PERFORM sql_door_refuse('LK014', field, 'wrong_format', 'must be a time such as 2026-01-31T08:00:00Z', place);
    END IF;
    RETURN NULL;
EXCEPTION WHEN data_exception THEN
    PERFORM sql_door_refuse('LK014', field, 'wrong_format', 'must be a time such as 2026-01-31T08:00:00Z', place);
END
$$;
COMMENT ON FUNCTION sql_door_time(jsonb, text, integer) IS 'A member of a message of a set that must be a time; null: it is missing.';

CREATE FUNCTION lksms.enqueue(
    phone_number text, content text DEFAULT NULL, dedup_key text DEFAULT NULL, message_type text DEFAULT NULL, priority integer DEFAULT NULL,
    expect_send_time timestamptz DEFAULT NULL, expires_at timestamptz DEFAULT NULL, sign text DEFAULT NULL, source text DEFAULT NULL,
    test boolean DEFAULT NULL, template_no text DEFAULT NULL, params jsonb DEFAULT NULL, language text DEFAULT NULL
) RETURNS text LANGUAGE plpgsql VOLATILE SECURITY DEFINER AS $$
BEGIN
    RETURN sql_door_put(
        sql_door_user(), nextval(pg_get_serial_sequence('sql_inbox', 'id')), NULL, phone_number, content, dedup_key, message_type, priority,
        expect_send_time, expires_at, sign, source, test, template_no, params, language
    );
END
$$;
COMMENT ON FUNCTION lksms.enqueue(
    text, text, text, text, integer, timestamptz, timestamptz, text, text, boolean, text, jsonb, text
) IS 'Submits a message in the transaction of the caller, and returns the id of its task. NULL: not given. See docs/sql.md.';

CREATE FUNCTION lksms.enqueue_all(messages jsonb) RETURNS TABLE (place integer, task_id text)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER AS $$
DECLARE
    known CONSTANT text[] := ARRAY[
        'phone_number', 'content', 'dedup_key', 'message_type', 'priority', 'expect_send_time', 'expires_at', 'sign', 'source', 'test', 'template_no',
        'params', 'language'
    ];
    most CONSTANT integer := 1000;
    caller CONSTANT users := sql_door_user();
    ids bigint[];
    made text[];
    message jsonb;
    n integer;
    stranger text;
    urgency numeric;
BEGIN
    IF messages IS NULL OR jsonb_typeof(messages) = 'null' THEN
        RETURN; -- what jsonb_agg makes of no rows
    ELSIF jsonb_typeof(messages) <> 'array' THEN
        PERFORM sql_door_refuse('LK014', 'messages', 'wrong_type', 'must be an array of objects');
    ELSIF jsonb_array_length(messages) > most THEN
        PERFORM sql_door_refuse('LK016', 'messages', 'too_many_items', pg_catalog.format('has too many items, at most %s are allowed', most));
    END IF;
    -- The order in which tasks are made is that of the ids. The order of the loop is that of the keys: two sets with the same keys cannot deadlock.
    ids := ARRAY(SELECT nextval(pg_get_serial_sequence('sql_inbox', 'id')) FROM generate_series(1, jsonb_array_length(messages)));
    FOR message, n IN
        SELECT e.value, e.ordinality FROM jsonb_array_elements(messages) WITH ORDINALITY AS e (value, ordinality)
        ORDER BY (e.value ->> 'dedup_key') COLLATE "C" NULLS FIRST, e.ordinality
    LOOP
        IF jsonb_typeof(message) <> 'object' THEN
            PERFORM sql_door_refuse('LK014', 'messages', 'wrong_type', 'must be an array of objects', n);
        END IF;
        SELECT k INTO stranger FROM jsonb_object_keys(message) AS k WHERE k <> ALL (known) ORDER BY k LIMIT 1;
        IF stranger IS NOT NULL THEN
            PERFORM sql_door_refuse('LK015', left(stranger, 63), 'unknown_field', 'is not a known field', n);
        ELSIF jsonb_typeof(message -> 'priority') NOT IN ('number', 'null') THEN
            PERFORM sql_door_refuse('LK014', 'priority', 'wrong_type', 'must be an integer', n);
        ELSIF jsonb_typeof(message -> 'test') NOT IN ('boolean', 'null') THEN
            PERFORM sql_door_refuse('LK014', 'test', 'wrong_type', 'must be true or false', n);
        END IF;
        urgency := (message ->> 'priority')::numeric;
        IF urgency IS NOT NULL THEN
            urgency := least(greatest(urgency, -1), 10);
        END IF;
        IF urgency <> trunc(urgency) THEN
            PERFORM sql_door_refuse('LK014', 'priority', 'wrong_type', 'must be an integer', n);
        END IF;
        made[n] := sql_door_put(
            caller, ids[n], n, sql_door_text(message, 'phone_number', n), sql_door_text(message, 'content', n),
            sql_door_text(message, 'dedup_key', n), sql_door_text(message, 'message_type', n), urgency::integer, sql_door_time(message, 'expect_send_time', n),
            sql_door_time(message, 'expires_at', n), sql_door_text(message, 'sign', n), sql_door_text(message, 'source', n),
            (message ->> 'test')::boolean, sql_door_text(message, 'template_no', n), message -> 'params', sql_door_text(message, 'language', n)
        );
    END LOOP;
    RETURN QUERY SELECT i.i, made[i.i] FROM generate_series(1, jsonb_array_length(messages)) AS i (i) ORDER BY i.i;
END
$$;
COMMENT ON FUNCTION lksms.enqueue_all(jsonb) IS
    'Submits up to 1000 messages, all or none, and returns the ids of their tasks by place, counted from 1. '
    'Each is an object with the parameters of enqueue.';

-- postgres_fdw and COPY write to relations, and call no functions.
CREATE VIEW lksms.outgoing AS
SELECT NULL::text AS task_id, NULL::text AS phone_number, NULL::text AS content, NULL::text AS dedup_key, NULL::text AS message_type,
    NULL::integer AS priority, NULL::timestamptz AS expect_send_time, NULL::timestamptz AS expires_at, NULL::text AS sign, NULL::text AS source, NULL::boolean AS test,
    NULL::text AS template_no, NULL::jsonb AS params, NULL::text AS language
WHERE false;
COMMENT ON VIEW lksms.outgoing IS 'lksms.enqueue as a relation: an INSERT calls it, and RETURNING task_id returns what it returned. It has no rows.';

CREATE FUNCTION sql_door_outgoing() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.task_id := lksms.enqueue(
        NEW.phone_number, NEW.content, NEW.dedup_key, NEW.message_type, NEW.priority, NEW.expect_send_time, NEW.expires_at, NEW.sign, NEW.source,
        NEW.test, NEW.template_no, NEW.params, NEW.language
    );
    RETURN NEW;
END
$$;
COMMENT ON FUNCTION sql_door_outgoing() IS 'Trigger of lksms.outgoing: submits the row, with the rights of the caller.';
CREATE TRIGGER outgoing_insert INSTEAD OF INSERT ON lksms.outgoing FOR EACH ROW EXECUTE FUNCTION sql_door_outgoing();

CREATE FUNCTION sql_role_grant(role_name text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    home CONSTANT regnamespace := (SELECT c.relnamespace FROM pg_class c WHERE c.oid = 'messages'::regclass);
    maker oid := ( -- 0: everybody
        SELECT a.grantee
        FROM pg_namespace n
        CROSS JOIN LATERAL aclexplode(coalesce(n.nspacl, acldefault('n', n.nspowner))) a
        JOIN pg_class c ON c.oid = 'messages'::regclass
        WHERE n.oid = home::oid AND a.privilege_type = 'CREATE' AND a.grantee NOT IN (n.nspowner, c.relowner)
        ORDER BY a.grantee
        LIMIT 1
    );
BEGIN
    IF maker IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege',
            MESSAGE = format('%s may make objects in the schema %s of the tables: REVOKE CREATE ON SCHEMA %2$s FROM %3$s first',
                CASE maker WHEN 0 THEN 'everybody' ELSE 'role ' || maker::regrole END, home, CASE maker WHEN 0 THEN 'PUBLIC' ELSE maker::regrole::text END),
            DETAIL = 'A function that is made there could run with the rights of the owner of the tables.';
    END IF;
    EXECUTE format('GRANT USAGE ON SCHEMA lksms TO %I', role_name);
    EXECUTE format('GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA lksms TO %I', role_name);
    EXECUTE format('GRANT SELECT, INSERT ON lksms.outgoing TO %I', role_name);
    IF NOT has_database_privilege(role_name, current_database(), 'CONNECT') THEN
        EXECUTE format('GRANT CONNECT ON DATABASE %I TO %I', current_database(), role_name);
    END IF;
END
$$;
COMMENT ON FUNCTION sql_role_grant(text) IS
    'Gives a role what it needs of the schema lksms. It runs with the rights of its caller, who must own the schema. '
    'It refuses while others than the owner may make functions beside the tables: those of lksms could call such a function in place of one of PostgreSQL.';

CREATE FUNCTION sql_role_revoke(role_name text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF to_regrole(quote_ident(role_name)) IS NULL THEN
        RETURN; -- its grants left with it
    END IF;
    EXECUTE format('REVOKE ALL ON lksms.outgoing FROM %I', role_name);
    EXECUTE format('REVOKE ALL ON ALL FUNCTIONS IN SCHEMA lksms FROM %I', role_name);
    EXECUTE format('REVOKE ALL ON SCHEMA lksms FROM %I', role_name);
END
$$;
COMMENT ON FUNCTION sql_role_revoke(text) IS 'Takes from a role what sql_role_grant gave it, but for CONNECT, which it may need for other things.';

-- PostgreSQL lets everybody execute a new function. Those of lksms find tables and helpers by the search path of the migration, whatever the
-- caller's is, and never among the caller's temporary tables.
DO $$
DECLARE
    home CONSTANT regnamespace := (SELECT c.relnamespace FROM pg_class c WHERE c.oid = 'messages'::regclass);
    made record;
BEGIN
    -- The schema of the tables alone, and never "$user": somebody could make a schema of that name, with functions of the same names.
    FOR made IN
        SELECT p.oid::regprocedure AS name, p.prosecdef AS has_owners_rights FROM pg_proc p
        WHERE p.pronamespace = 'lksms'::regnamespace
            OR p.pronamespace = home
                AND (p.proname LIKE 'sql\_door\_%' OR p.proname IN ('sql_role_grant', 'sql_role_revoke'))
        ORDER BY p.oid
    LOOP
        EXECUTE format('REVOKE ALL ON FUNCTION %s FROM PUBLIC', made.name);
        IF made.has_owners_rights THEN
            EXECUTE format('ALTER FUNCTION %s SET search_path = %s, pg_temp', made.name, home);
        END IF;
    END LOOP;
END $$;

-- migrate:down
DROP FUNCTION sql_role_revoke(text);
DROP FUNCTION sql_role_grant(text);
DROP VIEW lksms.outgoing;
DROP FUNCTION sql_door_outgoing();
DROP FUNCTION lksms.enqueue_all(jsonb);
DROP FUNCTION lksms.enqueue(text, text, text, text, integer, timestamptz, timestamptz, text, text, boolean, text, jsonb, text);
DROP FUNCTION sql_door_time(jsonb, text, integer);
DROP FUNCTION sql_door_text(jsonb, text, integer);
DROP FUNCTION sql_door_put(users, bigint, integer, text, text, text, text, integer, timestamptz, timestamptz, text, text, boolean, text, jsonb, text);
DROP FUNCTION sql_door_task_id(timestamptz, integer);
DROP FUNCTION sql_door_segments(text);
DROP FUNCTION sql_door_setting(text, bigint);
DROP FUNCTION sql_door_user();
DROP FUNCTION sql_door_refuse(text, text, text, text, integer);
DROP SCHEMA lksms;
