
CREATE SCHEMA lksms;

COMMENT ON SCHEMA lksms IS 'Objects with which a role of sql_roles submits messages in its own transaction, see docs/integrations.md. The schema contains nothing else.';

CREATE FUNCTION lksms.enqueue(phone_number text, content text DEFAULT NULL::text, dedup_key text DEFAULT NULL::text, message_type text DEFAULT NULL::text, priority integer DEFAULT NULL::integer, expect_send_time timestamp with time zone DEFAULT NULL::timestamp with time zone, expires_at timestamp with time zone DEFAULT NULL::timestamp with time zone, sign text DEFAULT NULL::text, source text DEFAULT NULL::text, test boolean DEFAULT NULL::boolean, template_no text DEFAULT NULL::text, params jsonb DEFAULT NULL::jsonb, language text DEFAULT NULL::text) RETURNS text
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'public', 'pg_temp'
    AS $$
BEGIN
    RETURN sql_inbox_put(
        sql_inbox_user(), nextval(pg_get_serial_sequence('sql_inbox', 'id')), NULL, phone_number, content, dedup_key, message_type, priority,
        expect_send_time, expires_at, sign, source, test, template_no, params, language
    );
END
$$;

COMMENT ON FUNCTION lksms.enqueue(phone_number text, content text, dedup_key text, message_type text, priority integer, expect_send_time timestamp with time zone, expires_at timestamp with time zone, sign text, source text, test boolean, template_no text, params jsonb, language text) IS 'Submits a message in the transaction of the caller, and returns the id of its task. A NULL parameter is not set. See docs/integrations.md.';

CREATE FUNCTION lksms.enqueue_all(messages jsonb) RETURNS TABLE(place integer, task_id text)
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'public', 'pg_temp'
    AS $$
DECLARE
    known CONSTANT text[] := ARRAY[
        'phone_number', 'content', 'dedup_key', 'message_type', 'priority', 'expect_send_time', 'expires_at', 'sign', 'source', 'test', 'template_no',
        'params', 'language'
    ];
    most CONSTANT integer := 1000;
    caller CONSTANT users := sql_inbox_user();
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
        PERFORM sql_inbox_refuse('LK014', 'messages', 'wrong_type', 'must be an array of objects');
    ELSIF jsonb_array_length(messages) > most THEN
        PERFORM sql_inbox_refuse('LK016', 'messages', 'too_many_items', pg_catalog.format('has too many items, at most %s are allowed', most));
    END IF;
    -- The order in which tasks are made is that of the ids. The order of the loop is that of the keys: two sets with the same keys cannot deadlock.
    ids := ARRAY(SELECT nextval(pg_get_serial_sequence('sql_inbox', 'id')) FROM generate_series(1, jsonb_array_length(messages)));
    FOR message, n IN
        SELECT e.value, e.ordinality FROM jsonb_array_elements(messages) WITH ORDINALITY AS e (value, ordinality)
        ORDER BY (e.value ->> 'dedup_key') COLLATE "C" NULLS FIRST, e.ordinality
    LOOP
        IF jsonb_typeof(message) <> 'object' THEN
            PERFORM sql_inbox_refuse('LK014', 'messages', 'wrong_type', 'must be an array of objects', n);
        END IF;
        SELECT k INTO stranger FROM jsonb_object_keys(message) AS k WHERE k <> ALL (known) ORDER BY k LIMIT 1;
        IF stranger IS NOT NULL THEN
            PERFORM sql_inbox_refuse('LK015', left(stranger, 63), 'unknown_field', 'is not a known field', n);
        ELSIF jsonb_typeof(message -> 'priority') NOT IN ('number', 'null') THEN
            PERFORM sql_inbox_refuse('LK014', 'priority', 'wrong_type', 'must be an integer', n);
        ELSIF jsonb_typeof(message -> 'test') NOT IN ('boolean', 'null') THEN
            PERFORM sql_inbox_refuse('LK014', 'test', 'wrong_type', 'must be true or false', n);
        END IF;
        urgency := (message ->> 'priority')::numeric;
        IF urgency IS NOT NULL THEN
            urgency := least(greatest(urgency, -1), 10);
        END IF;
        IF urgency <> trunc(urgency) THEN
            PERFORM sql_inbox_refuse('LK014', 'priority', 'wrong_type', 'must be an integer', n);
        END IF;
        made[n] := sql_inbox_put(
            caller, ids[n], n, sql_inbox_text(message, 'phone_number', n), sql_inbox_text(message, 'content', n),
            sql_inbox_text(message, 'dedup_key', n), sql_inbox_text(message, 'message_type', n), urgency::integer, sql_inbox_time(message, 'expect_send_time', n),
            sql_inbox_time(message, 'expires_at', n), sql_inbox_text(message, 'sign', n), sql_inbox_text(message, 'source', n),
            (message ->> 'test')::boolean, sql_inbox_text(message, 'template_no', n), message -> 'params', sql_inbox_text(message, 'language', n)
        );
    END LOOP;
    RETURN QUERY SELECT i.i, made[i.i] FROM generate_series(1, jsonb_array_length(messages)) AS i (i) ORDER BY i.i;
END
$$;

COMMENT ON FUNCTION lksms.enqueue_all(messages jsonb) IS 'Submits up to 1000 messages, all or none, and returns the ids of their tasks by position, counted from 1. Each message is an object with the parameters of enqueue.';

CREATE FUNCTION public.alert_rank(level text) RETURNS integer
    LANGUAGE sql IMMUTABLE
    RETURN array_position(ARRAY['warning'::text, 'critical'::text, 'emergency'::text], level);

COMMENT ON FUNCTION public.alert_rank(level text) IS 'Returns the rank of alerts.level: the more severe the level, the larger the rank.';

CREATE FUNCTION public.attempt_segments(text_sent text, counted smallint, segment_size bigint, signs boolean) RETURNS bigint
    LANGUAGE sql IMMUTABLE
    RETURN CASE WHEN (segment_size IS NOT NULL) THEN GREATEST((1)::numeric, ceil(((char_length(text_sent))::numeric / (segment_size)::numeric))) WHEN (NOT signs) THEN (counted)::numeric WHEN ((char_length(text_sent) + char_length(regexp_replace(text_sent, '[^\U00010000-\U0010FFFF]'::text, ''::text, 'g'::text))) <= 70) THEN (1)::numeric ELSE ceil((((char_length(text_sent) + char_length(regexp_replace(text_sent, '[^\U00010000-\U0010FFFF]'::text, ''::text, 'g'::text))))::numeric / 67.0)) END;

CREATE FUNCTION public.audit_change() RETURNS trigger
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    AS $$
DECLARE
    kept CONSTANT text[] := string_to_array(TG_ARGV[1], ',');
    left_out CONSTANT text[] := ARRAY['id', 'version', 'created_at', 'updated_at'] || coalesce(string_to_array(TG_ARGV[2], ','), '{}');
    hidden CONSTANT text[] := coalesce(string_to_array(TG_ARGV[3], ','), '{}');
    shown CONSTANT text[] := coalesce(string_to_array(TG_ARGV[4], ','), '{}');
    was jsonb := '{}';
    became jsonb := '{}';
    whole jsonb;
    name text;
BEGIN
    IF TG_OP <> 'INSERT' THEN
        was := to_jsonb(OLD);
    END IF;
    IF TG_OP <> 'DELETE' THEN
        became := to_jsonb(NEW);
    END IF;
    IF TG_OP = 'UPDATE' AND was - left_out = became - left_out THEN
        RETURN NULL;
    END IF;
    was := audit_named(was);
    became := audit_named(became);
    whole := was || became;
    FOREACH name IN ARRAY hidden LOOP
        IF name LIKE '%.*' THEN
            was := audit_spread(was, rtrim(name, '.*'));
            became := audit_spread(became, rtrim(name, '.*'));
        END IF;
    END LOOP;

    INSERT INTO audit (action, entity, entity_key, company_no, before, after)
    SELECT CASE TG_OP WHEN 'INSERT' THEN 'created' WHEN 'UPDATE' THEN 'changed' ELSE 'deleted' END,
        TG_ARGV[0], (SELECT string_agg(whole ->> k.name, '/' ORDER BY k.place) FROM unnest(kept) WITH ORDINALITY AS k (name, place)),
        whole ->> 'company_no',
        CASE WHEN TG_OP <> 'INSERT' THEN coalesce(jsonb_object_agg(c.name, c.shown_before) FILTER (WHERE was ? c.name), '{}') END,
        -- A secret that changed is shown as changed, without its values.
        CASE WHEN TG_OP <> 'DELETE' THEN coalesce(jsonb_object_agg(c.name, CASE
            WHEN c.shown_before = c.shown_after THEN to_jsonb((c.shown_after #>> '{}') || ' (changed)')
            ELSE c.shown_after
        END) FILTER (WHERE became ? c.name), '{}') END
    FROM (
        SELECT n.name,
            audit_shown(n.name, was -> n.name, audit_is_secret(n.name, was -> n.name, hidden, shown)) AS shown_before,
            audit_shown(n.name, became -> n.name, audit_is_secret(n.name, became -> n.name, hidden, shown)) AS shown_after
        FROM jsonb_object_keys(was || became) AS n (name)
        WHERE n.name <> ALL (left_out) AND (was -> n.name) IS DISTINCT FROM (became -> n.name)
    ) c
    HAVING count(*) > 0;
    RETURN NULL;
END
$$;

CREATE FUNCTION public.audit_countries() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    INSERT INTO audit (action, entity, entity_key, company_no, before, after)
    SELECT 'changed', TG_ARGV[0], o.named ->> TG_ARGV[2], o.named ->> 'company_no',
        CASE TG_OP WHEN 'DELETE' THEN o.countries ELSE '{}' END, CASE TG_OP WHEN 'INSERT' THEN o.countries ELSE '{}' END
    FROM (
        SELECT audit_named(jsonb_build_object(TG_ARGV[1], l.link -> TG_ARGV[1])) AS named,
            jsonb_strip_nulls(jsonb_build_object(
                'countries',
                jsonb_agg(coalesce(c.country_no, '#' || (l.link ->> 'country_id')) ORDER BY c.country_no) FILTER (WHERE l.link ->> 'status' = 'on'),
                'countries_off',
                jsonb_agg(coalesce(c.country_no, '#' || (l.link ->> 'country_id')) ORDER BY c.country_no) FILTER (WHERE l.link ->> 'status' = 'off')
            )) AS countries
        FROM (SELECT to_jsonb(a) AS link FROM links a) l
        LEFT JOIN countries c ON c.id = (l.link ->> 'country_id')::bigint
        GROUP BY l.link -> TG_ARGV[1]
    ) o;
    RETURN NULL;
END
$$;

CREATE FUNCTION public.audit_is_secret(name text, value jsonb, hidden text[], shown text[]) RETURNS boolean
    LANGUAGE sql IMMUTABLE
    AS $$
    SELECT name = ANY (hidden) OR value::text LIKE '%"sealed:%' OR (
        split_part(name, '.', 1) || '.*' = ANY (hidden) AND strpos(name, '.') > 0 AND substr(name, strpos(name, '.') + 1) <> ALL (shown)
    )
$$;

CREATE FUNCTION public.audit_named(data jsonb) RETURNS jsonb
    LANGUAGE plpgsql STABLE
    AS $$
DECLARE
    pool jsonb;
BEGIN
    IF data ? 'pool_id' THEN
        SELECT jsonb_build_object(
            'channel', c.channel, 'company_no', o.company_no, 'country_no', n.country_no,
            'message_type', CASE p.message_type WHEN 0 THEN 'verification' WHEN 1 THEN 'notification' WHEN 2 THEN 'marketing' END
        ) INTO pool
        FROM pools p
        JOIN channels c ON c.id = p.channel_id
        LEFT JOIN companies o ON o.id = p.company_id
        LEFT JOIN countries n ON n.id = p.country_id
        WHERE p.id = (data ->> 'pool_id')::bigint;
        data := data - 'pool_id' || coalesce(pool, jsonb_build_object('pool', '#' || (data ->> 'pool_id')));
    END IF;
    IF data ? 'company_id' THEN
        data := data - 'company_id' || jsonb_build_object('company_no', coalesce(
            (SELECT c.company_no FROM companies c WHERE c.id = (data ->> 'company_id')::bigint), '#' || (data ->> 'company_id')
        ));
    END IF;
    IF data ? 'channel_id' THEN
        data := data - 'channel_id' || jsonb_build_object('channel', coalesce(
            (SELECT c.channel FROM channels c WHERE c.id = (data ->> 'channel_id')::bigint), '#' || (data ->> 'channel_id')
        ));
    END IF;
    IF data ? 'country_id' THEN
        data := data - 'country_id' || jsonb_build_object('country_no', coalesce(
            (SELECT c.country_no FROM countries c WHERE c.id = (data ->> 'country_id')::bigint), '#' || (data ->> 'country_id')
        ));
    END IF;
    IF data ? 'sender_id' THEN
        data := data - 'sender_id' || jsonb_build_object('sender_no', coalesce(
            (SELECT s.sender_no FROM senders s WHERE s.id = (data ->> 'sender_id')::bigint), '#' || (data ->> 'sender_id')
        ));
    END IF;
    IF jsonb_typeof(data -> 'user_id') = 'number' THEN -- the user_id of a contact is a text, and its name
        data := data - 'user_id' || jsonb_build_object('username', coalesce(
            (SELECT u.username FROM users u WHERE u.id = (data ->> 'user_id')::bigint), '#' || (data ->> 'user_id')
        ));
    END IF;
    RETURN data;
END
$$;

CREATE FUNCTION public.audit_shown(name text, value jsonb, is_secret boolean) RETURNS jsonb
    LANGUAGE sql IMMUTABLE
    AS $_$
    SELECT CASE
        WHEN value IS NULL OR jsonb_typeof(value) = 'null' THEN value
        WHEN is_secret THEN '"***"'
        WHEN substring(name FROM '[^.]*$') NOT IN ('phone', 'phone_number', 'recipient') THEN value
        -- A caller may write a number with spaces and dashes: four digits are hidden still.
        WHEN char_length(translate(value #>> '{}', ' -', '')) < 8 THEN '"****"'
        ELSE to_jsonb(regexp_replace(translate(value #>> '{}', ' -', ''), '.{4}(.{4})$', '****\1'))
    END
$_$;

CREATE FUNCTION public.audit_spread(data jsonb, spread text) RETURNS jsonb
    LANGUAGE sql IMMUTABLE
    AS $$
    SELECT data - spread || CASE
        WHEN jsonb_typeof(data -> spread) = 'object'
            THEN (SELECT coalesce(jsonb_object_agg(spread || '.' || f.key, f.value), '{}') FROM jsonb_each(data -> spread) f)
        WHEN data ? spread THEN jsonb_build_object(spread || '.', data -> spread)
        ELSE '{}'
    END
$$;

CREATE FUNCTION public.batch_partition_drop(keep interval) RETURNS integer
    LANGUAGE plpgsql SECURITY DEFINER
    SET lock_timeout TO '3s'
    SET search_path TO 'public', 'pg_temp'
    AS $$
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

CREATE FUNCTION public.batch_segments_counted(of_batch bigint, sender_sign text, forbids_signs boolean, segment_size bigint, max_rows integer) RETURNS TABLE(country_no text, submitted bigint, counted bigint)
    LANGUAGE sql STABLE
    AS $$
    SELECT f.country_no, sum(f.segments), sum(sent_segments(
        f.content, f.sign, f.segments, sender_sign, CASE WHEN forbids_signs THEN 'none' ELSE 'in_text' END, segment_size, true
    ))
    FROM (
        SELECT coalesce(r.country_no, '') AS country_no, unsigned_text(r.content, coalesce(r.sign, b.sign)) AS content,
            coalesce(r.sign, b.sign) AS sign, r.segments
        FROM batches b
        JOIN batch_rows r ON r.batch_id = b.id
        WHERE b.id = of_batch AND r.code IS NULL
        ORDER BY r.row_no
        LIMIT max_rows
    ) f
    GROUP BY GROUPING SETS ((f.country_no), ())
    HAVING sum(f.segments) > 0
$$;

COMMENT ON FUNCTION public.batch_segments_counted(of_batch bigint, sender_sign text, forbids_signs boolean, segment_size bigint, max_rows integer) IS 'Counts the segments of the first max_rows valid rows of a batch: as they were submitted, and as a sender with the given signature, rule about signatures and segment size counts them. The result has one row for each country. country_no is empty for numbers of no known country. The row with country_no null contains the sums of all countries.';

CREATE FUNCTION public.batches_feed() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    IF feed_is_heard(NEW.company_id) THEN
        INSERT INTO feed_staged (company_id, submitted_by, type, at, data)
        SELECT NEW.company_id, NEW.submitted_by, 'batch.finished', now(), jsonb_build_object(
            'batch_id', NEW.id, 'company_no', (SELECT c.company_no FROM companies c WHERE c.id = NEW.company_id), 'name', NEW.name,
            'status', NEW.status, 'test', NEW.is_test, 'created_at', to_jsonb(NEW.created_at), 'ended_at', to_jsonb(NEW.ended_at),
            'counts', jsonb_build_object(
                'rows', NEW.rows, 'valid', NEW.valid, 'invalid', NEW.invalid, 'duplicate', NEW.duplicate, 'blocked', NEW.blocked,
                'success', coalesce(t.success, 0), 'failed', coalesce(t.failed, 0),
                'cancelled', greatest(0, NEW.valid - coalesce(t.success, 0) - coalesce(t.failed, 0)),
                'delivered', coalesce(t.delivered, 0), 'undelivered', coalesce(t.undelivered, 0)
            )
        )
        FROM (
            SELECT sum(x.success)::bigint AS success, sum(x.failed)::bigint AS failed, sum(x.delivered)::bigint AS delivered,
                sum(x.undelivered)::bigint AS undelivered
            FROM batch_totals x
            WHERE x.batch_id = NEW.id
        ) t;
    END IF;
    RETURN NULL;
END
$$;

COMMENT ON FUNCTION public.batches_feed() IS 'Trigger of batches: stages the event batch.finished, if the events of the company are recorded.';

CREATE TABLE public.blocks (
    id bigint NOT NULL,
    company_id bigint,
    recipient text,
    recipient_hash bytea NOT NULL,
    scope text NOT NULL,
    reason text,
    received_id bigint,
    asked_at timestamp with time zone,
    created_by text NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    expires_at timestamp with time zone,
    is_enforced boolean DEFAULT false NOT NULL,
    is_confirmed boolean DEFAULT false NOT NULL,
    CONSTRAINT blocks_asked_by_message CHECK (((received_id IS NULL) OR (asked_at IS NOT NULL))),
    CONSTRAINT blocks_reason_length CHECK (((char_length(reason) >= 1) AND (char_length(reason) <= 200))),
    CONSTRAINT blocks_recipient_hash_length CHECK ((octet_length(recipient_hash) = 32)),
    CONSTRAINT blocks_recipient_length CHECK (((char_length(recipient) >= 1) AND (char_length(recipient) <= 50))),
    CONSTRAINT blocks_scope_known CHECK ((scope = ANY (ARRAY['marketing'::text, 'notification'::text, 'all'::text])))
);

COMMENT ON TABLE public.blocks IS 'One row blocks messages to one phone number. Written by internal/dispatch/block. There are no foreign keys, because they would lock companies; rows of a deleted company have no effect.';

COMMENT ON COLUMN public.blocks.company_id IS 'only messages of this company are blocked; null: messages of all companies';

COMMENT ON COLUMN public.blocks.recipient IS 'the number in E.164; null: the person was erased, and the block stays';

COMMENT ON COLUMN public.blocks.recipient_hash IS 'SHA-256 of the number';

COMMENT ON COLUMN public.blocks.scope IS 'the message type that is blocked; all: every message type';

COMMENT ON COLUMN public.blocks.received_id IS 'the last received message by which the person asked for the block; null: a user added or imported the block';

COMMENT ON COLUMN public.blocks.asked_at IS 'the time at which the person asked for the block: that of the network, or else the time at which the message was stored; null: a user added the block';

COMMENT ON COLUMN public.blocks.created_by IS 'the user who added or imported the block; system:opt_out: a received message added it';

COMMENT ON COLUMN public.blocks.expires_at IS 'the block has no effect from this time on; null: no end';

COMMENT ON COLUMN public.blocks.is_enforced IS 'true: no task waits that the block forbids; false: a server still cancels such tasks';

COMMENT ON COLUMN public.blocks.is_confirmed IS 'true: the company confirmed the block to the person (opt_out_reply)';

CREATE FUNCTION public.blocks_of(of_recipient text, of_company bigint, of_type smallint) RETURNS SETOF public.blocks
    LANGUAGE sql STABLE
    AS $$
    SELECT b.* FROM blocks b
    WHERE b.recipient_hash = sha256(convert_to(of_recipient, 'UTF8'))
        AND b.scope IN ('all', CASE of_type WHEN 1 THEN 'notification' WHEN 2 THEN 'marketing' END)
        AND (b.company_id = of_company OR b.company_id IS NULL)
        AND (b.expires_at IS NULL OR b.expires_at > now())
$$;

COMMENT ON FUNCTION public.blocks_of(of_recipient text, of_company bigint, of_type smallint) IS 'Returns the blocks that forbid a message of a company and type to a recipient. Read it with LIMIT 1 in a LATERAL subquery, so that the planner uses blocks_asked_key.';

CREATE FUNCTION public.channels_waiting(since timestamp with time zone) RETURNS TABLE(channel_id bigint)
    LANGUAGE sql STABLE
    AS $$
    SELECT p.channel_id FROM pools p WHERE p.company_id IS NULL AND p.retired_at IS NULL AND pool_waits(p.id, since)
$$;

COMMENT ON FUNCTION public.channels_waiting(since timestamp with time zone) IS 'Returns the channels whose shared pool contains a task that became due at the given time or earlier.';

CREATE FUNCTION public.contacts_count() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
DECLARE
    most CONSTANT bigint := TG_ARGV[0];
BEGIN
    IF TG_OP = 'DELETE' THEN
        UPDATE contact_counts c SET contacts = c.contacts - r.contacts
        FROM (SELECT o.company_id, count(*) AS contacts FROM removed o GROUP BY o.company_id) r
        WHERE c.company_id = r.company_id;
        RETURN NULL;
    END IF;
    INSERT INTO contact_counts AS c (company_id, contacts)
    SELECT a.company_id, count(*) FROM added a GROUP BY a.company_id ORDER BY a.company_id
    ON CONFLICT (company_id) DO UPDATE SET contacts = c.contacts + excluded.contacts;
    IF EXISTS (SELECT FROM contact_counts c WHERE c.contacts > most AND c.company_id IN (SELECT a.company_id FROM added a)) THEN
        RAISE EXCEPTION 'contacts holds as many rows of the company as it may' -- as rows_bound
        USING ERRCODE = 'check_violation', CONSTRAINT = 'rows_bound', TABLE = 'contacts', DETAIL = most::text;
    END IF;
    RETURN NULL;
END
$$;

CREATE FUNCTION public.conversations_add() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    INSERT INTO conversations AS c (company_id, phone_number, submitted_by, last_id, unread)
    SELECT a.company_id, a.phone_number, v.submitted_by, max(a.id), count(*) FILTER (WHERE a.read_at IS NULL)
    FROM added a
    CROSS JOIN LATERAL (SELECT '' UNION SELECT a.submitted_by) v (submitted_by)
    WHERE a.phone_number <> '' -- empty: erased
    GROUP BY a.company_id, a.phone_number, v.submitted_by
    ORDER BY a.company_id, a.phone_number, v.submitted_by -- all triggers lock rows in this order, so that transactions do not deadlock
    ON CONFLICT (company_id, phone_number, submitted_by) DO UPDATE SET last_id = greatest(c.last_id, excluded.last_id), unread = c.unread + excluded.unread;
    RETURN NULL;
END
$$;

COMMENT ON FUNCTION public.conversations_add() IS 'Trigger of received_messages: adds new messages to the rows of conversations.';

CREATE FUNCTION public.conversations_read() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    PERFORM conversations_subtract(array_agg(d.company_id), array_agg(d.phone_number), array_agg(d.submitted_by), array_agg(d.unread), array_agg(d.erased_id))
    FROM (
        SELECT o.company_id, o.phone_number, v.submitted_by, max(o.id) FILTER (WHERE n.phone_number <> o.phone_number) AS erased_id,
            count(*) FILTER (WHERE o.read_at IS NULL) - count(*) FILTER (WHERE n.read_at IS NULL AND n.phone_number = o.phone_number) AS unread
        FROM old_rows o
        JOIN new_rows n ON n.id = o.id
        CROSS JOIN LATERAL (SELECT '' UNION SELECT o.submitted_by) v (submitted_by)
        WHERE o.phone_number <> ''
        GROUP BY o.company_id, o.phone_number, v.submitted_by
    ) d;
    RETURN NULL;
END
$$;

COMMENT ON FUNCTION public.conversations_read() IS 'Trigger of received_messages: updates the number of unread messages in conversations. An erased message loses its number, and leaves its conversation. Nothing else changes the company, number or submitter of a message.';

CREATE FUNCTION public.conversations_remove() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    PERFORM conversations_subtract(array_agg(d.company_id), array_agg(d.phone_number), array_agg(d.submitted_by), array_agg(d.unread), array_agg(d.last_id))
    FROM (
        SELECT o.company_id, o.phone_number, v.submitted_by, max(o.id) AS last_id, count(*) FILTER (WHERE o.read_at IS NULL) AS unread
        FROM removed o
        CROSS JOIN LATERAL (SELECT '' UNION SELECT o.submitted_by) v (submitted_by)
        WHERE o.phone_number <> ''
        GROUP BY o.company_id, o.phone_number, v.submitted_by
    ) d;
    RETURN NULL;
END
$$;

COMMENT ON FUNCTION public.conversations_remove() IS 'Trigger of received_messages: removes deleted messages from the rows of conversations, and deletes rows without messages.';

CREATE FUNCTION public.conversations_subtract(company_ids bigint[], phone_numbers text[], submitters text[], unread_messages bigint[], gone_ids bigint[]) RETURNS void
    LANGUAGE plpgsql
    AS $$
BEGIN
    PERFORM FROM conversations c
    WHERE (c.company_id, c.phone_number) IN (SELECT * FROM unnest(company_ids, phone_numbers))
    ORDER BY c.company_id, c.phone_number, c.submitted_by
    FOR UPDATE;
    UPDATE conversations c SET unread = c.unread - d.unread, last_id = CASE WHEN d.gone_id IS NULL OR c.last_id > d.gone_id THEN c.last_id ELSE coalesce((
        SELECT max(r.id) FROM received_messages r
        WHERE r.company_id = c.company_id AND r.phone_number = c.phone_number AND (c.submitted_by = '' OR r.submitted_by = c.submitted_by)
    ), 0) END
    FROM unnest(company_ids, phone_numbers, submitters, unread_messages, gone_ids) d (company_id, phone_number, submitted_by, unread, gone_id)
    WHERE c.company_id = d.company_id AND c.phone_number = d.phone_number AND c.submitted_by = d.submitted_by;
    DELETE FROM conversations c
    WHERE c.last_id = 0 AND (c.company_id, c.phone_number) IN (SELECT * FROM unnest(company_ids, phone_numbers)); -- 0: no message remains
END
$$;

COMMENT ON FUNCTION public.conversations_subtract(company_ids bigint[], phone_numbers text[], submitters text[], unread_messages bigint[], gone_ids bigint[]) IS 'Subtracts unread messages from rows of conversations, and deletes rows without messages. The elements i of the arrays belong together; gone_ids contains the last message that left the conversation (null: none).';

CREATE FUNCTION public.credentials_version_change() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    INSERT INTO credentials_version AS v (version) VALUES (pg_current_xact_id())
    ON CONFLICT (is_only) DO UPDATE SET version = excluded.version WHERE v.version <> excluded.version;
    RETURN NULL;
END
$$;

CREATE FUNCTION public.dedup_key_owner(biz_task_id bigint, submitted_by text) RETURNS text
    LANGUAGE sql IMMUTABLE
    RETURN CASE WHEN (biz_task_id IS NOT NULL) THEN 'event'::text WHEN (submitted_by ~~ 'system:%'::text) THEN submitted_by ELSE ''::text END;

COMMENT ON FUNCTION public.dedup_key_owner(biz_task_id bigint, submitted_by text) IS 'Returns the owner of the dedup_key of a notification within its company: business events, the service itself (system:...), or the callers (empty). Each owner has its own keys, so the same key of two owners names two notifications.';

CREATE FUNCTION public.directory_version_change() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    INSERT INTO directory_version AS v (version) VALUES (pg_current_xact_id())
    ON CONFLICT (is_only) DO UPDATE SET version = excluded.version WHERE v.version <> excluded.version;
    RETURN NULL;
END
$$;

CREATE FUNCTION public.events_feed() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    IF NOT feed_is_heard(0) THEN
        RETURN NULL;
    END IF;
    IF NEW.event IN ('sender.low_warning', 'sender.low_switch') THEN
        INSERT INTO feed_staged (company_id, submitted_by, type, at, data)
        SELECT 0, '', 'sender.low_balance', NEW.created_at, jsonb_build_object(
            'sender_no', s.sender_no, 'channel', h.channel, 'balance', NEW.detail -> 'balance', 'mark', x.mark, 'threshold', NEW.detail -> x.mark
        )
        FROM senders s
        JOIN channels h ON h.id = s.channel_id
        CROSS JOIN (SELECT substr(NEW.event, length('sender.') + 1) AS mark) x
        WHERE s.sender_no = NEW.subject;
        RETURN NULL;
    END IF;
    INSERT INTO feed_staged (company_id, submitted_by, type, at, data)
    SELECT 0, '', NEW.event, NEW.created_at, jsonb_strip_nulls(jsonb_build_object(
        'alert_id', a.id, 'rule_no', a.rule_id, 'kind', a.kind, 'level', a.level, 'subject', a.subject, 'company_no', a.company_no,
        'channel', a.channel, 'sender_no', a.sender_no, 'value', a.value, 'threshold', a.threshold, 'started_at', a.started_at,
        'fired_at', a.fired_at, 'resolved_at', a.resolved_at, 'ended_by', a.ended_by, 'receiver_no', NEW.detail -> 'receiver_no',
        'escalated_channels', NEW.detail -> 'escalated_channels', 'escalated_receivers', NEW.detail -> 'escalated_receivers'
    ))
    FROM alerts a
    WHERE a.id = (NEW.detail ->> 'alert_id')::bigint;
    IF NEW.detail ->> 'kind' = 'sender_silent' AND NEW.event <> 'alert.not_sent' THEN
        -- The alert also ends when the app is switched off, is gone for good, or the rule changes: only a poll says that it is there again.
        INSERT INTO feed_staged (company_id, submitted_by, type, at, data)
        SELECT 0, '', CASE NEW.event WHEN 'alert.firing' THEN 'sender.silent' ELSE 'sender.recovered' END, NEW.created_at, jsonb_strip_nulls(jsonb_build_object(
            'sender_no', s.sender_no, 'channel', h.channel, 'alert_id', a.id, 'seen_at', t.seen_at
        ))
        FROM alerts a
        JOIN senders s ON s.sender_no = a.sender_no
        JOIN sender_states t ON t.sender_id = s.id
        JOIN channels h ON h.id = s.channel_id
        WHERE a.id = (NEW.detail ->> 'alert_id')::bigint AND (NEW.event = 'alert.firing' OR a.ended_by = 'condition' AND t.seen_at > a.started_at);
    END IF;
    RETURN NULL;
END
$$;

COMMENT ON FUNCTION public.events_feed() IS 'Trigger of events: stages the feed events of alerts and senders, if a listener to all companies exists. A sender counts as silent from the time at which its alert of the kind sender_silent fires, until this alert ends because the sender polled.';

CREATE FUNCTION public.fact_outcome(success integer, failed integer, cancelled integer) RETURNS text
    LANGUAGE sql IMMUTABLE
    RETURN CASE WHEN (success > 0) THEN 'SUCCESS'::text WHEN (failed > 0) THEN 'FAILED'::text WHEN (cancelled > 0) THEN 'CANCELLED'::text ELSE ''::text END;

COMMENT ON FUNCTION public.fact_outcome(success integer, failed integer, cancelled integer) IS 'Returns the outcome of the tasks that a row of facts counts. The values are those of statistics_staged.outcome.';

CREATE FUNCTION public.facts_guard() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    IF current_setting('lksms.facts_version', true) IS DISTINCT FROM TG_ARGV[0] THEN
        RAISE EXCEPTION 'this server does not know all columns of facts: stop it, and start the version to which the database was upgraded'
            USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
    RETURN NULL;
END
$$;

CREATE FUNCTION public.feed_is_heard(of_company bigint) RETURNS boolean
    LANGUAGE sql STABLE
    AS $$
    SELECT EXISTS (
        SELECT FROM feed_listeners l WHERE (l.is_pushed OR l.listens_until > now()) AND (l.company_id IS NULL OR l.company_id = of_company)
    )
$$;

COMMENT ON FUNCTION public.feed_is_heard(of_company bigint) IS 'Returns whether the events of a company are recorded. of_company 0 means the events of the service itself.';

CREATE FUNCTION public.first_id_since(of_table regclass, since timestamp with time zone) RETURNS bigint
    LANGUAGE plpgsql STABLE
    AS $_$
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
END $_$;

COMMENT ON FUNCTION public.first_id_since(of_table regclass, since timestamp with time zone) IS 'Returns approximately the smallest id of the rows that were created at or after a time, for example of receipts or callbacks. The id is approximate, because created_at is the beginning of a transaction. Callers therefore also compare created_at.';

CREATE FUNCTION public.fold_case(written text) RETURNS text
    LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE
    AS $$
BEGIN
    -- translate() compares each character with the whole list. Most texts have no capital letters outside ASCII: they take the fast way.
    IF written COLLATE "C" ~ '[\u00C0-\u0556\u10A0-\u13F5\u1C90-\u1FFC\u2126-\u2183\u24B6-\u24CF\u2C00-\u2CF2\uA640-\uA7F5\uFF21-\uFF3A\U00010400-\U0001E921]' THEN
        RETURN translate(written,
            'ABCDEFGHIJKLMNOPQRSTUVWXYZÀÁÂÃÄÅÆÇÈÉÊËÌÍÎÏÐÑÒÓÔÕÖØÙÚÛÜÝÞĀĂĄĆĈĊČĎĐĒĔĖĘĚĜĞĠĢĤĦĨĪĬĮİĲĴĶĹĻĽĿŁŃŅŇŊŌŎŐŒŔŖŘŚŜŞŠŢŤŦŨŪŬŮŰŲŴŶŸŹŻŽƁ'
            'ƂƄƆƇƉƊƋƎƏƐƑƓƔƖƗƘƜƝƟƠƢƤƦƧƩƬƮƯƱƲƳƵƷƸƼǄǅǇǈǊǋǍǏǑǓǕǗǙǛǞǠǢǤǦǨǪǬǮǱǲǴǶǷǸǺǼǾȀȂȄȆȈȊȌȎȐȒȔȖȘȚȜȞȠȢȤȦȨȪȬȮȰȲȺȻȽȾɁɃɄɅɆɈɊɌɎͰͲͶͿΆΈΉΊΌΎΏΑΒΓ'
            'ΔΕΖΗΘΙΚΛΜΝΞΟΠΡΣΤΥΦΧΨΩΪΫϏϘϚϜϞϠϢϤϦϨϪϬϮϴϷϹϺϽϾϿЀЁЂЃЄЅІЇЈЉЊЋЌЍЎЏАБВГДЕЖЗИЙКЛМНОПРСТУФХЦЧШЩЪЫЬЭЮЯѠѢѤѦѨѪѬѮѰѲѴѶѸѺѼѾҀҊҌҎҐҒҔҖҘҚҜҞҠ'
            'ҢҤҦҨҪҬҮҰҲҴҶҸҺҼҾӀӁӃӅӇӉӋӍӐӒӔӖӘӚӜӞӠӢӤӦӨӪӬӮӰӲӴӶӸӺӼӾԀԂԄԆԈԊԌԎԐԒԔԖԘԚԜԞԠԢԤԦԨԪԬԮԱԲԳԴԵԶԷԸԹԺԻԼԽԾԿՀՁՂՃՄՅՆՇՈՉՊՋՌՍՎՏՐՑՒՓՔՕՖႠႡႢႣႤႥႦႧႨႩႪ'
            'ႫႬႭႮႯႰႱႲႳႴႵႶႷႸႹႺႻႼႽႾႿჀჁჂჃჄჅჇჍᎠᎡᎢᎣᎤᎥᎦᎧᎨᎩᎪᎫᎬᎭᎮᎯᎰᎱᎲᎳᎴᎵᎶᎷᎸᎹᎺᎻᎼᎽᎾᎿᏀᏁᏂᏃᏄᏅᏆᏇᏈᏉᏊᏋᏌᏍᏎᏏᏐᏑᏒᏓᏔᏕᏖᏗᏘᏙᏚᏛᏜᏝᏞᏟᏠᏡᏢᏣᏤᏥᏦᏧᏨᏩᏪᏫᏬᏭᏮᏯᏰᏱᏲᏳᏴᏵᲐᲑᲒᲓᲔ'
            'ᲕᲖᲗᲘᲙᲚᲛᲜᲝᲞᲟᲠᲡᲢᲣᲤᲥᲦᲧᲨᲩᲪᲫᲬᲭᲮᲯᲰᲱᲲᲳᲴᲵᲶᲷᲸᲹᲺᲽᲾᲿḀḂḄḆḈḊḌḎḐḒḔḖḘḚḜḞḠḢḤḦḨḪḬḮḰḲḴḶḸḺḼḾṀṂṄṆṈṊṌṎṐṒṔṖṘṚṜṞṠṢṤṦṨṪṬṮṰṲṴṶṸṺṼṾẀẂẄẆẈẊẌẎẐẒẔẞẠẢẤ'
            'ẦẨẪẬẮẰẲẴẶẸẺẼẾỀỂỄỆỈỊỌỎỐỒỔỖỘỚỜỞỠỢỤỦỨỪỬỮỰỲỴỶỸỺỼỾἈἉἊἋἌἍἎἏἘἙἚἛἜἝἨἩἪἫἬἭἮἯἸἹἺἻἼἽἾἿὈὉὊὋὌὍὙὛὝὟὨὩὪὫὬὭὮὯᾈᾉᾊᾋᾌᾍᾎᾏᾘᾙᾚᾛᾜᾝᾞᾟᾨᾩᾪᾫᾬᾭᾮᾯᾸᾹᾺ'
            'ΆᾼῈΈῊΉῌῘῙῚΊῨῩῪΎῬῸΌῺΏῼΩKÅℲⅠⅡⅢⅣⅤⅥⅦⅧⅨⅩⅪⅫⅬⅭⅮⅯↃⒶⒷⒸⒹⒺⒻⒼⒽⒾⒿⓀⓁⓂⓃⓄⓅⓆⓇⓈⓉⓊⓋⓌⓍⓎⓏⰀⰁⰂⰃⰄⰅⰆⰇⰈⰉⰊⰋⰌⰍⰎⰏⰐⰑⰒⰓⰔⰕⰖⰗⰘⰙⰚⰛⰜⰝⰞⰟⰠⰡⰢⰣⰤⰥⰦⰧⰨⰩⰪⰫⰬⰭⰮⰯⱠⱢⱣⱤ'
            'ⱧⱩⱫⱭⱮⱯⱰⱲⱵⱾⱿⲀⲂⲄⲆⲈⲊⲌⲎⲐⲒⲔⲖⲘⲚⲜⲞⲠⲢⲤⲦⲨⲪⲬⲮⲰⲲⲴⲶⲸⲺⲼⲾⳀⳂⳄⳆⳈⳊⳌⳎⳐⳒⳔⳖⳘⳚⳜⳞⳠⳢⳫⳭⳲꙀꙂꙄꙆꙈꙊꙌꙎꙐꙒꙔꙖꙘꙚꙜꙞꙠꙢꙤꙦꙨꙪꙬꚀꚂꚄꚆꚈꚊꚌꚎꚐꚒꚔꚖꚘꚚꜢꜤꜦꜨꜪꜬꜮꜲꜴꜶꜸꜺꜼꜾꝀꝂꝄꝆꝈ'
            'ꝊꝌꝎꝐꝒꝔꝖꝘꝚꝜꝞꝠꝢꝤꝦꝨꝪꝬꝮꝹꝻꝽꝾꞀꞂꞄꞆꞋꞍꞐꞒꞖꞘꞚꞜꞞꞠꞢꞤꞦꞨꞪꞫꞬꞭꞮꞰꞱꞲꞳꞴꞶꞸꞺꞼꞾꟀꟂꟄꟅꟆꟇꟉꟐꟖꟘꟵＡＢＣＤＥＦＧＨＩＪＫＬＭＮＯＰＱＲＳＴＵＶＷＸＹＺ𐐀𐐁𐐂𐐃𐐄𐐅𐐆𐐇𐐈𐐉𐐊𐐋𐐌𐐍𐐎𐐏𐐐𐐑𐐒𐐓𐐔𐐕𐐖𐐗𐐘𐐙𐐚'
            '𐐛𐐜𐐝𐐞𐐟𐐠𐐡𐐢𐐣𐐤𐐥𐐦𐐧𐒰𐒱𐒲𐒳𐒴𐒵𐒶𐒷𐒸𐒹𐒺𐒻𐒼𐒽𐒾𐒿𐓀𐓁𐓂𐓃𐓄𐓅𐓆𐓇𐓈𐓉𐓊𐓋𐓌𐓍𐓎𐓏𐓐𐓑𐓒𐓓𐕰𐕱𐕲𐕳𐕴𐕵𐕶𐕷𐕸𐕹𐕺𐕼𐕽𐕾𐕿𐖀𐖁𐖂𐖃𐖄𐖅𐖆𐖇𐖈𐖉𐖊𐖌𐖍𐖎𐖏𐖐𐖑𐖒𐖔𐖕𐲀𐲁𐲂𐲃𐲄𐲅𐲆𐲇𐲈𐲉𐲊𐲋𐲌𐲍𐲎𐲏𐲐𐲑𐲒𐲓𐲔𐲕𐲖𐲗𐲘𐲙𐲚𐲛𐲜𐲝𐲞𐲟𐲠𐲡𐲢𐲣'
            '𐲤𐲥𐲦𐲧𐲨𐲩𐲪𐲫𐲬𐲭𐲮𐲯𐲰𐲱𐲲𑢠𑢡𑢢𑢣𑢤𑢥𑢦𑢧𑢨𑢩𑢪𑢫𑢬𑢭𑢮𑢯𑢰𑢱𑢲𑢳𑢴𑢵𑢶𑢷𑢸𑢹𑢺𑢻𑢼𑢽𑢾𑢿𖹀𖹁𖹂𖹃𖹄𖹅𖹆𖹇𖹈𖹉𖹊𖹋𖹌𖹍𖹎𖹏𖹐𖹑𖹒𖹓𖹔𖹕𖹖𖹗𖹘𖹙𖹚𖹛𖹜𖹝𖹞𖹟𞤀𞤁𞤂𞤃𞤄𞤅𞤆𞤇𞤈𞤉𞤊𞤋𞤌𞤍𞤎𞤏𞤐𞤑𞤒𞤓𞤔𞤕𞤖𞤗𞤘𞤙𞤚𞤛𞤜𞤝𞤞𞤟𞤠𞤡',
            'abcdefghijklmnopqrstuvwxyzàáâãäåæçèéêëìíîïðñòóôõöøùúûüýþāăąćĉċčďđēĕėęěĝğġģĥħĩīĭįiĳĵķĺļľŀłńņňŋōŏőœŕŗřśŝşšţťŧũūŭůűųŵŷÿźżžɓ'
            'ƃƅɔƈɖɗƌǝəɛƒɠɣɩɨƙɯɲɵơƣƥʀƨʃƭʈưʊʋƴƶʒƹƽǆǆǉǉǌǌǎǐǒǔǖǘǚǜǟǡǣǥǧǩǫǭǯǳǳǵƕƿǹǻǽǿȁȃȅȇȉȋȍȏȑȓȕȗșțȝȟƞȣȥȧȩȫȭȯȱȳⱥȼƚⱦɂƀʉʌɇɉɋɍɏͱͳͷϳάέήίόύώαβγ'
            'δεζηθικλμνξοπρστυφχψωϊϋϗϙϛϝϟϡϣϥϧϩϫϭϯθϸϲϻͻͼͽѐёђѓєѕіїјљњћќѝўџабвгдежзийклмнопрстуфхцчшщъыьэюяѡѣѥѧѩѫѭѯѱѳѵѷѹѻѽѿҁҋҍҏґғҕҗҙқҝҟҡ'
            'ңҥҧҩҫҭүұҳҵҷҹһҽҿӏӂӄӆӈӊӌӎӑӓӕӗәӛӝӟӡӣӥӧөӫӭӯӱӳӵӷӹӻӽӿԁԃԅԇԉԋԍԏԑԓԕԗԙԛԝԟԡԣԥԧԩԫԭԯաբգդեզէըթժիլխծկհձղճմյնշոչպջռսվտրցւփքօֆⴀⴁⴂⴃⴄⴅⴆⴇⴈⴉⴊ'
            'ⴋⴌⴍⴎⴏⴐⴑⴒⴓⴔⴕⴖⴗⴘⴙⴚⴛⴜⴝⴞⴟⴠⴡⴢⴣⴤⴥⴧⴭꭰꭱꭲꭳꭴꭵꭶꭷꭸꭹꭺꭻꭼꭽꭾꭿꮀꮁꮂꮃꮄꮅꮆꮇꮈꮉꮊꮋꮌꮍꮎꮏꮐꮑꮒꮓꮔꮕꮖꮗꮘꮙꮚꮛꮜꮝꮞꮟꮠꮡꮢꮣꮤꮥꮦꮧꮨꮩꮪꮫꮬꮭꮮꮯꮰꮱꮲꮳꮴꮵꮶꮷꮸꮹꮺꮻꮼꮽꮾꮿᏸᏹᏺᏻᏼᏽაბგდე'
            'ვზთიკლმნოპჟრსტუფქღყშჩცძწჭხჯჰჱჲჳჴჵჶჷჸჹჺჽჾჿḁḃḅḇḉḋḍḏḑḓḕḗḙḛḝḟḡḣḥḧḩḫḭḯḱḳḵḷḹḻḽḿṁṃṅṇṉṋṍṏṑṓṕṗṙṛṝṟṡṣṥṧṩṫṭṯṱṳṵṷṹṻṽṿẁẃẅẇẉẋẍẏẑẓẕßạảấ'
            'ầẩẫậắằẳẵặẹẻẽếềểễệỉịọỏốồổỗộớờởỡợụủứừửữựỳỵỷỹỻỽỿἀἁἂἃἄἅἆἇἐἑἒἓἔἕἠἡἢἣἤἥἦἧἰἱἲἳἴἵἶἷὀὁὂὃὄὅὑὓὕὗὠὡὢὣὤὥὦὧᾀᾁᾂᾃᾄᾅᾆᾇᾐᾑᾒᾓᾔᾕᾖᾗᾠᾡᾢᾣᾤᾥᾦᾧᾰᾱὰ'
            'άᾳὲέὴήῃῐῑὶίῠῡὺύῥὸόὼώῳωkåⅎⅰⅱⅲⅳⅴⅵⅶⅷⅸⅹⅺⅻⅼⅽⅾⅿↄⓐⓑⓒⓓⓔⓕⓖⓗⓘⓙⓚⓛⓜⓝⓞⓟⓠⓡⓢⓣⓤⓥⓦⓧⓨⓩⰰⰱⰲⰳⰴⰵⰶⰷⰸⰹⰺⰻⰼⰽⰾⰿⱀⱁⱂⱃⱄⱅⱆⱇⱈⱉⱊⱋⱌⱍⱎⱏⱐⱑⱒⱓⱔⱕⱖⱗⱘⱙⱚⱛⱜⱝⱞⱟⱡɫᵽɽ'
            'ⱨⱪⱬɑɱɐɒⱳⱶȿɀⲁⲃⲅⲇⲉⲋⲍⲏⲑⲓⲕⲗⲙⲛⲝⲟⲡⲣⲥⲧⲩⲫⲭⲯⲱⲳⲵⲷⲹⲻⲽⲿⳁⳃⳅⳇⳉⳋⳍⳏⳑⳓⳕⳗⳙⳛⳝⳟⳡⳣⳬⳮⳳꙁꙃꙅꙇꙉꙋꙍꙏꙑꙓꙕꙗꙙꙛꙝꙟꙡꙣꙥꙧꙩꙫꙭꚁꚃꚅꚇꚉꚋꚍꚏꚑꚓꚕꚗꚙꚛꜣꜥꜧꜩꜫꜭꜯꜳꜵꜷꜹꜻꜽꜿꝁꝃꝅꝇꝉ'
            'ꝋꝍꝏꝑꝓꝕꝗꝙꝛꝝꝟꝡꝣꝥꝧꝩꝫꝭꝯꝺꝼᵹꝿꞁꞃꞅꞇꞌɥꞑꞓꞗꞙꞛꞝꞟꞡꞣꞥꞧꞩɦɜɡɬɪʞʇʝꭓꞵꞷꞹꞻꞽꞿꟁꟃꞔʂᶎꟈꟊꟑꟗꟙꟶａｂｃｄｅｆｇｈｉｊｋｌｍｎｏｐｑｒｓｔｕｖｗｘｙｚ𐐨𐐩𐐪𐐫𐐬𐐭𐐮𐐯𐐰𐐱𐐲𐐳𐐴𐐵𐐶𐐷𐐸𐐹𐐺𐐻𐐼𐐽𐐾𐐿𐑀𐑁𐑂'
            '𐑃𐑄𐑅𐑆𐑇𐑈𐑉𐑊𐑋𐑌𐑍𐑎𐑏𐓘𐓙𐓚𐓛𐓜𐓝𐓞𐓟𐓠𐓡𐓢𐓣𐓤𐓥𐓦𐓧𐓨𐓩𐓪𐓫𐓬𐓭𐓮𐓯𐓰𐓱𐓲𐓳𐓴𐓵𐓶𐓷𐓸𐓹𐓺𐓻𐖗𐖘𐖙𐖚𐖛𐖜𐖝𐖞𐖟𐖠𐖡𐖣𐖤𐖥𐖦𐖧𐖨𐖩𐖪𐖫𐖬𐖭𐖮𐖯𐖰𐖱𐖳𐖴𐖵𐖶𐖷𐖸𐖹𐖻𐖼𐳀𐳁𐳂𐳃𐳄𐳅𐳆𐳇𐳈𐳉𐳊𐳋𐳌𐳍𐳎𐳏𐳐𐳑𐳒𐳓𐳔𐳕𐳖𐳗𐳘𐳙𐳚𐳛𐳜𐳝𐳞𐳟𐳠𐳡𐳢𐳣'
            '𐳤𐳥𐳦𐳧𐳨𐳩𐳪𐳫𐳬𐳭𐳮𐳯𐳰𐳱𐳲𑣀𑣁𑣂𑣃𑣄𑣅𑣆𑣇𑣈𑣉𑣊𑣋𑣌𑣍𑣎𑣏𑣐𑣑𑣒𑣓𑣔𑣕𑣖𑣗𑣘𑣙𑣚𑣛𑣜𑣝𑣞𑣟𖹠𖹡𖹢𖹣𖹤𖹥𖹦𖹧𖹨𖹩𖹪𖹫𖹬𖹭𖹮𖹯𖹰𖹱𖹲𖹳𖹴𖹵𖹶𖹷𖹸𖹹𖹺𖹻𖹼𖹽𖹾𖹿𞤢𞤣𞤤𞤥𞤦𞤧𞤨𞤩𞤪𞤫𞤬𞤭𞤮𞤯𞤰𞤱𞤲𞤳𞤴𞤵𞤶𞤷𞤸𞤹𞤺𞤻𞤼𞤽𞤾𞤿𞥀𞥁𞥂𞥃'
        );
    END IF;
    RETURN lower(written COLLATE "C");
END
$$;

COMMENT ON FUNCTION public.fold_case(written text) IS 'Returns a text in lower case, like strings.ToLower of Go. The result is the same in each locale. Compare such texts with COLLATE "C".';

CREATE TABLE public.queue (
    task_id text NOT NULL COLLATE pg_catalog."C",
    pool_id bigint NOT NULL,
    lane smallint,
    rank double precision,
    due_at timestamp with time zone DEFAULT now() NOT NULL,
    expires_at timestamp with time zone,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    updated_at timestamp with time zone DEFAULT now() NOT NULL,
    company_id bigint NOT NULL,
    message_type smallint NOT NULL,
    country_no text,
    priority smallint NOT NULL,
    segments smallint NOT NULL,
    retry_count smallint DEFAULT 0 NOT NULL,
    troubles smallint DEFAULT 0 NOT NULL,
    result text,
    failed_app_id text,
    processing_app_id text,
    lease_id bigint,
    lease_until timestamp with time zone,
    lease_segments smallint,
    lease_sign text,
    lease_limit smallint,
    phone_number text NOT NULL,
    recipient text NOT NULL,
    content text NOT NULL,
    sign text,
    rendering_id bigint,
    user_id text,
    on_unclear text,
    entered_at timestamp with time zone DEFAULT now(),
    was_claimed boolean DEFAULT false NOT NULL,
    traceparent text,
    batch_id bigint,
    is_test boolean DEFAULT false NOT NULL,
    contact_values jsonb,
    start_until timestamp with time zone,
    due_when_resumed timestamp with time zone,
    submitted_by text,
    flow_rank double precision,
    lease_sign_mode text,
    quiet_from timestamp with time zone,
    lease_sim smallint,
    exemption text,
    taken_back_by text,
    taken_back_result text,
    sealed text,
    CONSTRAINT queue_lease_complete CHECK (((lease_until IS NULL) OR ((processing_app_id IS NOT NULL) AND (lease_id IS NOT NULL)))),
    CONSTRAINT queue_retry_count_range CHECK (((retry_count >= 0) AND (retry_count <= 20))),
    CONSTRAINT queue_times_range CHECK ((((due_at >= '1970-01-01 00:00:00+00'::timestamp with time zone) AND (due_at <= '9999-01-01 00:00:00+00'::timestamp with time zone)) AND ((lease_until >= '1970-01-01 00:00:00+00'::timestamp with time zone) AND (lease_until <= '9999-01-01 00:00:00+00'::timestamp with time zone)) AND ((updated_at >= '1970-01-01 00:00:00+00'::timestamp with time zone) AND (updated_at <= '9999-01-01 00:00:00+00'::timestamp with time zone))))
)
WITH (autovacuum_vacuum_scale_factor='0.02', autovacuum_vacuum_threshold='20000', autovacuum_vacuum_cost_delay='0', autovacuum_analyze_scale_factor='0.05');

COMMENT ON TABLE public.queue IS 'A task that waits for a sender, or that a sender holds. Written by internal/dispatch/queue: inserted together with its message, updated when the task is leased or waits again, and deleted when the task ends. It repeats the columns of the message that a claim and a report need, so that claims and reports do not read messages. There are no foreign keys, because each change would lock rows of other tables.';

COMMENT ON COLUMN public.queue.pool_id IS 'the pool in which the task waits, or from which it was leased. There is no foreign key, because each insert would lock the row of the pool';

COMMENT ON COLUMN public.queue.lane IS 'the first part of the order of the tasks in a pool: 32 * priority for a new task, 32 * priority + retry_count for a retry. A task that has waited too long is queued in a smaller lane. null: the task is not queued yet';

COMMENT ON COLUMN public.queue.rank IS 'the order of the tasks within a lane, which divides the pool fairly between companies (start-time fair queueing). A rank is valid only in the pool and priority in which it was assigned. A claim can swap the ranks of two tasks of a company, see flow_rank. null: no rank is assigned yet';

COMMENT ON COLUMN public.queue.due_at IS 'the task can be claimed from this time on. If the time is held_due_at(), the task is held';

COMMENT ON COLUMN public.queue.expires_at IS 'no claim returns the task after this time; null: no limit. If taken_back_by is set, the time at which the task was taken back';

COMMENT ON COLUMN public.queue.updated_at IS 'the time of the last change of state. For a leased task, this is the time of the claim';

COMMENT ON COLUMN public.queue.retry_count IS 'number of retries so far';

COMMENT ON COLUMN public.queue.troubles IS 'number of leases that were given back because their sender could not send the message';

COMMENT ON COLUMN public.queue.result IS 'the reason of the retry, for operators; null: not retried yet';

COMMENT ON COLUMN public.queue.failed_app_id IS 'sender_no of the last sender that failed with the task; null: no sender failed. Claims prefer other senders for the task';

COMMENT ON COLUMN public.queue.processing_app_id IS 'sender_no of the sender that holds the task; null: no sender holds it';

COMMENT ON COLUMN public.queue.lease_id IS 'the current lease. After a lease expired and was taken back, lease_id remains this lease, and failed_app_id is its sender. null: no lease, or its sender ended the lease';

COMMENT ON COLUMN public.queue.lease_until IS 'the time at which the lease expires; the task is then PROCESSING. null: the task is PENDING';

COMMENT ON COLUMN public.queue.lease_segments IS 'the segments that the lease costs; null: the sender has no limits, and the lease costs as many segments as the column segments';

COMMENT ON COLUMN public.queue.lease_sign IS 'the signature that the sender adds, because the message has no signature; null: the sender adds none';

COMMENT ON COLUMN public.queue.lease_limit IS 'the number of tasks that the claim asked for';

COMMENT ON COLUMN public.queue.entered_at IS 'the time from which the waiting time of the task counts: the due_at of its submission. For a requeued task, this is the time of the requeue. For a task that was held before its first attempt, it is the due_at after its release. null: the task was submitted before this column existed';

COMMENT ON COLUMN public.queue.was_claimed IS 'true: the task had a lease before, even if retry_count is 0. Its lease was released, or the task had ended and was requeued';

COMMENT ON COLUMN public.queue.traceparent IS 'see messages.traceparent';

COMMENT ON COLUMN public.queue.batch_id IS 'see messages.batch_id';

COMMENT ON COLUMN public.queue.is_test IS 'see messages.is_test; false for tasks that are older than this column';

COMMENT ON COLUMN public.queue.contact_values IS 'see messages.contact_values';

COMMENT ON COLUMN public.queue.start_until IS 'equal to lease_until: the sender has not started the lease, and must start it before this time. Any other value, or null: the lease is started, or needs no start. A server that does not know this column leaves old values in it, but they never equal lease_until';

COMMENT ON COLUMN public.queue.due_when_resumed IS 'the due_at from before the task was held, moved behind quiet hours, or delayed by a cap. A held task gets it again when it is released; if the time has passed by then, or is null, the task is due at once. After an attempt, the column can still contain the value from before it';

COMMENT ON COLUMN public.queue.submitted_by IS 'see messages.submitted_by; null: a server that did not know this column stored the task';

COMMENT ON COLUMN public.queue.flow_rank IS 'the order of the tasks of one company within a pool and lane, in the unit of rank, and never larger than rank. A claim finds a task by its rank, and then takes the task of the same company with the smallest flow_rank instead. null: equal to rank. A server that does not know this column leaves old values in it';

COMMENT ON COLUMN public.queue.lease_sign_mode IS 'senders.sign_mode at the time of the claim; null: in_text';

COMMENT ON COLUMN public.queue.quiet_from IS 'the beginning of the next quiet hours of the recipient. No claim returns the task after this time. The sweep move-quiet-tasks then sets due_at to a time after the quiet hours, and quiet_from to the beginning of the next ones. epoch: the sweep has not computed the time yet; null: the task has no quiet hours';

COMMENT ON COLUMN public.queue.lease_sim IS 'the slot of the SIM through which the sender must send the message; null: the sender has no SIMs, or chooses one itself';

COMMENT ON COLUMN public.queue.exemption IS 'see messages.exemption';

COMMENT ON COLUMN public.queue.taken_back_by IS 'the user who cancelled the message while a sender held it. The task then counts as expired, and is cancelled if its lease ends without an outcome. null: not cancelled';

COMMENT ON COLUMN public.queue.taken_back_result IS 'the result of the task if it is cancelled at the end of this lease; null: the result of its last attempt';

COMMENT ON COLUMN public.queue.sealed IS 'the text and the contact_values of a sensitive message, encrypted with SECRETS_KEY. They are deleted with the row when the task ends. null: the message is not sensitive';

CREATE FUNCTION public.former_due_at(task public.queue) RETURNS timestamp with time zone
    LANGUAGE sql IMMUTABLE
    RETURN CASE WHEN ((((task).retry_count = 0) AND ((task).troubles = 0)) OR ((task).due_when_resumed >= (task).updated_at)) THEN (task).due_when_resumed ELSE NULL::timestamp with time zone END;

COMMENT ON FUNCTION public.former_due_at(task public.queue) IS 'Returns due_when_resumed of a waiting task. If the column is from before the last attempt, it is null: a retry has another due time.';

CREATE FUNCTION public.handed_text(content text, sign text, sign_mode text) RETURNS text
    LANGUAGE sql IMMUTABLE
    RETURN CASE WHEN (sign IS NULL) THEN content WHEN (COALESCE(sign_mode, 'in_text'::text) = 'in_text'::text) THEN CASE WHEN starts_with(content, (('【'::text || sign) || '】'::text)) THEN content ELSE ((('【'::text || sign) || '】'::text) || content) END WHEN starts_with(content, (('【'::text || sign) || '】'::text)) THEN substr(content, (char_length(sign) + 3)) ELSE content END;

CREATE TABLE public.companies (
    id bigint NOT NULL,
    company_no text NOT NULL,
    name text NOT NULL,
    weight double precision DEFAULT 1 NOT NULL,
    version bigint DEFAULT 1 NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    updated_at timestamp with time zone DEFAULT now() NOT NULL,
    status text DEFAULT 'on'::text NOT NULL,
    any_country boolean DEFAULT true NOT NULL,
    uses_shared_senders boolean DEFAULT true NOT NULL,
    default_region text DEFAULT ''::text NOT NULL,
    recipient jsonb DEFAULT '{}'::jsonb NOT NULL,
    CONSTRAINT companies_company_no_length CHECK (((char_length(company_no) >= 1) AND (char_length(company_no) <= 50))),
    CONSTRAINT companies_default_region_form CHECK ((default_region ~ '^([A-Z]{2})?$'::text)),
    CONSTRAINT companies_name_length CHECK (((char_length(name) >= 1) AND (char_length(name) <= 100))),
    CONSTRAINT companies_status_known CHECK ((status = ANY (ARRAY['on'::text, 'off'::text]))),
    CONSTRAINT companies_weight_range CHECK (((weight >= (0.01)::double precision) AND (weight <= (1000)::double precision)))
);

COMMENT ON TABLE public.companies IS 'A tenant: it owns users, tasks, routes and contacts, and is the unit of fairness. Written by internal/dispatch/directory. A migration creates the first row, default.';

COMMENT ON COLUMN public.companies.company_no IS 'the name in requests';

COMMENT ON COLUMN public.companies.weight IS 'share of the service, compared with the weights of other companies with waiting tasks';

COMMENT ON COLUMN public.companies.version IS 'incremented by each update. An update names the version that its caller has read, and is rejected if the version has changed since';

COMMENT ON COLUMN public.companies.status IS 'on or off. off: tasks of the company are held, and the company cannot submit';

COMMENT ON COLUMN public.companies.any_country IS 'true: the company can send to every country that is not off in company_countries. The value is used only while no country there is on';

COMMENT ON COLUMN public.companies.uses_shared_senders IS 'true: shared senders can send the tasks that no active route of the company serves. false: these tasks are held';

COMMENT ON COLUMN public.companies.default_region IS 'ISO 3166-1 code of the region of numbers without a country code. empty: such numbers are rejected, except mobile numbers of mainland China';

COMMENT ON COLUMN public.companies.recipient IS 'the company''s own rules about recipients: quiet_hours (hours by message type) and time_zone. A rule that is missing or null is the rule of the platform';

CREATE TABLE public.settings (
    category text NOT NULL,
    name text NOT NULL,
    value jsonb NOT NULL,
    updated_by text,
    updated_at timestamp with time zone DEFAULT now() NOT NULL
);

COMMENT ON TABLE public.settings IS 'A setting that was changed from its default. Written by internal/platform/setting, which defines the names, defaults and bounds.';

COMMENT ON COLUMN public.settings.updated_by IS 'the user who changed the value; null: the row contains the default. Such a row exists only inside the transaction of the first change. There is no foreign key, because the configured user is in no table';

CREATE FUNCTION public.has_caps(company_id bigint, message_type smallint) RETURNS boolean
    LANGUAGE sql STABLE
    RETURN (EXISTS (SELECT FROM public.settings s WHERE ((s.category = 'recipient'::text) AND (s.name = 'caps_total_per_day'::text) AND (s.value > '0'::jsonb)) UNION ALL SELECT FROM ((((SELECT (ARRAY['verification'::text, 'notification'::text, 'marketing'::text])[(has_caps.message_type + 1)] AS name) y CROSS JOIN (VALUES ('per_minute'::text), ('per_hour'::text), ('per_day'::text)) w(name)) LEFT JOIN public.companies c ON ((c.id = has_caps.company_id))) LEFT JOIN public.settings s ON (((s.category = 'recipient'::text) AND (s.name = ((('caps_'::text || y.name) || '_'::text) || w.name))))) WHERE (COALESCE(NULLIF((c.recipient #> ARRAY['caps'::text, y.name, w.name]), 'null'::jsonb), s.value) > '0'::jsonb)));

COMMENT ON FUNCTION public.has_caps(company_id bigint, message_type smallint) IS 'Returns whether any cap limits the messages of a company and type to one person. Package caps has the same rule. Statements that give many tasks another due time call the function once for each company and type.';

CREATE FUNCTION public.held_due_at() RETURNS timestamp with time zone
    LANGUAGE sql IMMUTABLE
    RETURN '9999-01-01 00:00:00+00'::timestamp with time zone;

COMMENT ON FUNCTION public.held_due_at() IS 'Returns the due_at of a held task: a task whose batch is paused, or that a switch holds. It is the largest value that queue allows, so that no statement treats a held task as due.';

CREATE FUNCTION public.in_hours(hours text, zone text, at timestamp with time zone) RETURNS boolean
    LANGUAGE sql STABLE
    AS $$
    SELECT CASE
        WHEN hours IS NULL THEN true
        WHEN left(hours, 5) < right(hours, 5) COLLATE "C" THEN to_char(at AT TIME ZONE zone, 'HH24:MI') COLLATE "C" >= left(hours, 5)
            AND to_char(at AT TIME ZONE zone, 'HH24:MI') COLLATE "C" < right(hours, 5)
        ELSE to_char(at AT TIME ZONE zone, 'HH24:MI') COLLATE "C" >= left(hours, 5) -- the hours contain midnight
            OR to_char(at AT TIME ZONE zone, 'HH24:MI') COLLATE "C" < right(hours, 5)
    END
$$;

COMMENT ON FUNCTION public.in_hours(hours text, zone text, at timestamp with time zone) IS 'Whether hours of each day, such as 08:00-22:00, contain a time in a time zone. The end is excluded. hours null: true. One expression, so that PostgreSQL inlines it';

CREATE FUNCTION public.is_counted_by_caps(task public.queue) RETURNS boolean
    LANGUAGE sql IMMUTABLE
    RETURN (((task).retry_count = 0) AND ((task).troubles = 0) AND ((task).exemption IS NULL) AND starts_with((task).recipient, '+'::text));

COMMENT ON FUNCTION public.is_counted_by_caps(task public.queue) IS 'Returns whether a waiting task is counted for its due time if has_caps: a task without an attempt, to a phone number, and without an exemption.';

CREATE FUNCTION public.is_due(at timestamp with time zone, longest_wait interval) RETURNS boolean
    LANGUAGE sql STABLE
    RETURN ((at <= now()) OR (at > ((now() + longest_wait) + '00:01:00'::interval)));

COMMENT ON FUNCTION public.is_due(at timestamp with time zone, longest_wait interval) IS 'Returns whether a stored time has come. longest_wait is the longest time between the moment of storing and the stored time. If the stored time is further ahead, it was stored before the clock was set back, and also counts as come. One more minute is allowed, because transactions begin at different times.';

CREATE TABLE public.batches (
    id bigint NOT NULL,
    company_id bigint NOT NULL,
    submitted_by text NOT NULL,
    name text NOT NULL,
    message_type smallint NOT NULL,
    priority smallint,
    upload_id bigint,
    tag text,
    phone_column text NOT NULL,
    template_no text,
    template_id bigint,
    template_version bigint,
    template_language text,
    is_deferred boolean DEFAULT false NOT NULL,
    content text NOT NULL,
    sign text,
    sender_no text,
    dedup text NOT NULL,
    is_test boolean DEFAULT false NOT NULL,
    is_confirmed boolean DEFAULT false NOT NULL,
    confirmed_by text,
    expect_send_time timestamp with time zone,
    expires_at timestamp with time zone,
    status text DEFAULT 'checking'::text NOT NULL,
    is_held boolean DEFAULT false NOT NULL,
    is_settled boolean DEFAULT false NOT NULL,
    is_read boolean DEFAULT false NOT NULL,
    last_row bigint DEFAULT 0 NOT NULL,
    rows bigint DEFAULT 0 NOT NULL,
    valid bigint DEFAULT 0 NOT NULL,
    invalid bigint DEFAULT 0 NOT NULL,
    duplicate bigint DEFAULT 0 NOT NULL,
    blocked bigint DEFAULT 0 NOT NULL,
    segments bigint DEFAULT 0 NOT NULL,
    fed_row bigint DEFAULT 0 NOT NULL,
    fed bigint DEFAULT 0 NOT NULL,
    fault jsonb,
    request_id text NOT NULL,
    source_ip text NOT NULL,
    user_agent text NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    checked_at timestamp with time zone,
    confirmed_at timestamp with time zone,
    started_at timestamp with time zone,
    ended_at timestamp with time zone,
    changed_by text,
    default_region text DEFAULT ''::text NOT NULL,
    sign_column text,
    by_country jsonb,
    channel text DEFAULT 'sms'::text NOT NULL,
    subject text,
    biz_type smallint,
    rendering_id bigint,
    tags_all text[] DEFAULT '{}'::text[] NOT NULL,
    tags_any text[] DEFAULT '{}'::text[] NOT NULL,
    tags_none text[] DEFAULT '{}'::text[] NOT NULL,
    encoding text,
    is_encoding_doubtful boolean DEFAULT false NOT NULL,
    CONSTRAINT batches_content_length CHECK (((char_length(content) >= 1) AND (char_length(content) <= 20000))),
    CONSTRAINT batches_dedup_known CHECK ((dedup = ANY (ARRAY['none'::text, 'phone'::text, 'row'::text]))),
    CONSTRAINT batches_default_region_form CHECK ((default_region ~ '^([A-Z]{2})?$'::text)),
    CONSTRAINT batches_ended_at_set CHECK (((status = ANY (ARRAY['finished'::text, 'cancelled'::text])) = (ended_at IS NOT NULL))),
    CONSTRAINT batches_message_type_known CHECK (((message_type >= 0) AND (message_type <= 2))),
    CONSTRAINT batches_name_length CHECK (((char_length(name) >= 1) AND (char_length(name) <= 100))),
    CONSTRAINT batches_priority_range CHECK (((priority >= 0) AND (priority <= 9))),
    CONSTRAINT batches_rendering_of_channel CHECK (((rendering_id IS NULL) = (channel = 'sms'::text))),
    CONSTRAINT batches_rows_counted CHECK (((rows = (((valid + invalid) + duplicate) + blocked)) AND (fed <= valid))),
    CONSTRAINT batches_sign_length CHECK (((char_length(sign) >= 1) AND (char_length(sign) <= 20))),
    CONSTRAINT batches_source_known CHECK (((upload_id IS NULL) OR (tag IS NULL))),
    CONSTRAINT batches_status_known CHECK ((status = ANY (ARRAY['checking'::text, 'ready'::text, 'running'::text, 'paused'::text, 'finished'::text, 'cancelled'::text]))),
    CONSTRAINT batches_template_complete CHECK ((num_nulls(template_no, template_id, template_version) = ANY (ARRAY[0, 3])))
);

COMMENT ON TABLE public.batches IS 'A list of messages that a company uploaded, and its progress: checked, confirmed, fed to the queue. Written by internal/audience/batch. Every change of status is guarded by the status that it expects.';

COMMENT ON COLUMN public.batches.submitted_by IS 'the username. There is no foreign key, because the configured user is in no table';

COMMENT ON COLUMN public.batches.priority IS 'see messages.priority; null: the priority of the message type';

COMMENT ON COLUMN public.batches.upload_id IS 'the uploaded list; null: the list was checked, or the rows come from a tag';

COMMENT ON COLUMN public.batches.tag IS 'the tag whose contacts are the rows; empty: the contacts are selected by tags_all, tags_any and tags_none; null: an uploaded list';

COMMENT ON COLUMN public.batches.phone_column IS 'the column of the list that contains the addresses';

COMMENT ON COLUMN public.batches.template_no IS 'the template that content comes from; null: the request contained content';

COMMENT ON COLUMN public.batches.template_id IS 'There is no foreign key, because the template can be deleted';

COMMENT ON COLUMN public.batches.template_language IS 'the language of content; null: unknown';

COMMENT ON COLUMN public.batches.is_deferred IS 'true: the template requires a start at a full interval. When the batch is confirmed, its time is set to the next full interval';

COMMENT ON COLUMN public.batches.content IS 'the text, with the names of columns in braces';

COMMENT ON COLUMN public.batches.sender_no IS 'the only sender that is allowed to send the batch; null: any sender of the routes';

COMMENT ON COLUMN public.batches.dedup IS 'which rows are duplicates: none, phone (the address of an earlier row), or row (the address, signature and text of an earlier row)';

COMMENT ON COLUMN public.batches.is_confirmed IS 'true: the batch starts when its check has ended. false: nothing is sent';

COMMENT ON COLUMN public.batches.confirmed_by IS 'the user who confirmed the batch; null: not confirmed, or confirmed by its request (auto_confirm)';

COMMENT ON COLUMN public.batches.status IS 'checking, ready, running, paused, finished or cancelled. finished and cancelled are final, except that a requeue of failed tasks sets a finished batch to running';

COMMENT ON COLUMN public.batches.is_held IS 'true: tasks of the batch are possibly held, because the batch is paused, or was paused before';

COMMENT ON COLUMN public.batches.is_settled IS 'true: sweeps have nothing to do for the batch. It waits for its confirmation, or it has ended and none of its tasks waits or is leased';

COMMENT ON COLUMN public.batches.is_read IS 'for a batch of a tag: true: the contacts were read again at the start of the batch, so the rows are final';

COMMENT ON COLUMN public.batches.last_row IS 'the last row of the list that is stored in batch_rows';

COMMENT ON COLUMN public.batches.rows IS 'number of rows in batch_rows: the sum of valid, invalid, duplicate and blocked';

COMMENT ON COLUMN public.batches.segments IS 'segments of the valid rows';

COMMENT ON COLUMN public.batches.fed_row IS 'the last row that became a task or was rejected at its submission. The rows up to this row are not read again';

COMMENT ON COLUMN public.batches.fed IS 'number of rows that became tasks';

COMMENT ON COLUMN public.batches.fault IS 'the reason why the server cancelled the batch, in the form of batch_rows.fault; null: the server did not cancel it';

COMMENT ON COLUMN public.batches.checked_at IS 'the time at which the check was complete';

COMMENT ON COLUMN public.batches.started_at IS 'the time at which the first row became a task';

COMMENT ON COLUMN public.batches.changed_by IS 'the user who last confirmed, paused, resumed or cancelled the batch; null: no user, or the batch is older than this column. There is no foreign key, as for submitted_by';

COMMENT ON COLUMN public.batches.default_region IS 'ISO 3166-1 code of the region of numbers without a country code in the list; empty: the region of the company when the list is read';

COMMENT ON COLUMN public.batches.sign_column IS 'the column of the list that contains the signatures of the rows; null: every row has the signature of the batch';

COMMENT ON COLUMN public.batches.by_country IS 'the valid rows and their segments by country, when the check ended: [{"country_no", "rows", "segments", "unsigned", "by_sender"}]. null: the check has not ended. by_sender contains the segments as senders count them that count differently: [{"sign", "forbids_signs", "segment_size", "segments"}]. by_sender is an estimate from the first 1,000 rows of the batch. It uses the rows to the same country, or all these rows if none is to this country';

COMMENT ON COLUMN public.batches.channel IS 'the name of the channel. There is no foreign key, because the channel can be deleted before the batch';

COMMENT ON COLUMN public.batches.subject IS 'the title with its placeholders; null: an SMS batch, or no title';

COMMENT ON COLUMN public.batches.biz_type IS 'the business type of the notification template from which the text comes; null: the text comes from elsewhere';

COMMENT ON COLUMN public.batches.rendering_id IS 'the common text of all rows; null: an SMS batch, whose texts are in batch_rows';

COMMENT ON COLUMN public.batches.tags_all IS 'each row is a contact with all of these tags';

COMMENT ON COLUMN public.batches.tags_any IS 'each row is a contact with at least one of these tags; empty: no such condition';

COMMENT ON COLUMN public.batches.tags_none IS 'no row is a contact with one of these tags';

COMMENT ON COLUMN public.batches.encoding IS 'the encoding of the list; null: a workbook, a tag, or an unknown encoding';

COMMENT ON COLUMN public.batches.is_encoding_doubtful IS 'true: the encoding was guessed, but the text could also be Latin letters in another encoding (internal/audience/sheet)';

CREATE FUNCTION public.is_in_check(b public.batches) RETURNS boolean
    LANGUAGE sql STABLE PARALLEL SAFE
    AS $$
    SELECT b.status = 'checking' OR b.status = 'paused' AND b.checked_at IS NULL
$$;

COMMENT ON FUNCTION public.is_in_check(b public.batches) IS 'Whether the rows of a batch are being read and checked. A batch that is paused while it reads its tag again is read to the end';

CREATE FUNCTION public.is_later_request(network_at timestamp with time zone, received_id bigint, than_network_at timestamp with time zone, than_received_id bigint) RETURNS boolean
    LANGUAGE sql IMMUTABLE
    RETURN CASE WHEN (network_at <> than_network_at) THEN (network_at > than_network_at) ELSE (received_id > than_received_id) END;

COMMENT ON FUNCTION public.is_later_request(network_at timestamp with time zone, received_id bigint, than_network_at timestamp with time zone, than_received_id bigint) IS 'Returns whether one message of a person is later than another: by the time of the network if both times are known and differ, otherwise by the id.';

CREATE FUNCTION public.ledger_partition_drop(keep interval, remark text) RETURNS integer
    LANGUAGE plpgsql SECURITY DEFINER
    SET lock_timeout TO '3s'
    SET search_path TO 'public', 'pg_temp'
    AS $_$
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
$_$;

CREATE TABLE public.sender_links (
    sender_id bigint NOT NULL,
    nth smallint NOT NULL,
    held_by text NOT NULL,
    host text NOT NULL,
    held_until timestamp with time zone NOT NULL,
    bound_at timestamp with time zone,
    in_flight bigint DEFAULT 0 NOT NULL,
    sent bigint DEFAULT 0 NOT NULL,
    received bigint DEFAULT 0 NOT NULL,
    error text,
    failed_at timestamp with time zone,
    traced_from timestamp with time zone,
    traced_until timestamp with time zone,
    trace jsonb DEFAULT '[]'::jsonb NOT NULL,
    CONSTRAINT sender_links_error_length CHECK ((char_length(error) <= 500)),
    CONSTRAINT sender_links_nth_range CHECK (((nth >= 1) AND (nth <= 32)))
);

COMMENT ON TABLE public.sender_links IS 'A permanent connection of a sender to its carrier. Only the server that holds the row opens the connection. Package dispatch/push writes it';

COMMENT ON COLUMN public.sender_links.nth IS 'number of the connection, from 1';

COMMENT ON COLUMN public.sender_links.held_by IS 'the process that holds the connection';

COMMENT ON COLUMN public.sender_links.host IS 'the host of held_by';

COMMENT ON COLUMN public.sender_links.held_until IS 'after this time, another process can take over the connection, unless held_by renews the time; past: no process holds the connection';

COMMENT ON COLUMN public.sender_links.bound_at IS 'since when the carrier accepts messages; null: the connection is not open';

COMMENT ON COLUMN public.sender_links.in_flight IS 'messages without an answer of the carrier, at the last renewal';

COMMENT ON COLUMN public.sender_links.sent IS 'messages that the carrier answered, since the process holds the connection';

COMMENT ON COLUMN public.sender_links.received IS 'receipts and messages from the carrier, since the process holds the connection';

COMMENT ON COLUMN public.sender_links.error IS 'the last failure of the connection; null: none';

COMMENT ON COLUMN public.sender_links.failed_at IS 'time of the last failure';

COMMENT ON COLUMN public.sender_links.traced_from IS 'when the last recording of PDUs was asked for; null: never';

COMMENT ON COLUMN public.sender_links.traced_until IS 'end of the last recording; null: none was asked for';

COMMENT ON COLUMN public.sender_links.trace IS 'the last PDUs of the last recording, in their order; without texts, passwords and whole numbers of people';

CREATE FUNCTION public.links_are_bound(of_sender bigint, kind text) RETURNS boolean
    LANGUAGE sql STABLE
    RETURN CASE WHEN (kind = ANY (ARRAY['smpp'::text, 'cmpp'::text])) THEN (EXISTS (SELECT FROM public.sender_links l WHERE ((l.sender_id = links_are_bound.of_sender) AND (l.bound_at IS NOT NULL) AND (l.held_until > now())))) ELSE true END;

COMMENT ON FUNCTION public.links_are_bound(of_sender bigint, kind text) IS 'Whether a link of a sender to its carrier is open. It is true for kinds of senders without links.';

CREATE FUNCTION public.lock_of_version_before(key bigint) RETURNS void
    LANGUAGE plpgsql
    AS $$
BEGIN
    IF NOT pg_try_advisory_xact_lock(key) AND EXISTS (
        SELECT FROM pg_locks l
        JOIN pg_stat_activity a USING (pid)
        WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 1 AND l.classid::bigint = (key >> 32) & 4294967295
            AND l.objid::bigint = key & 4294967295 AND a.datname = current_database() AND a.usename = current_user
    ) THEN
        PERFORM pg_advisory_xact_lock(key);
    END IF;
END $$;

COMMENT ON FUNCTION public.lock_of_version_before(key bigint) IS 'Takes an advisory lock. Only servers before version 1.0 call it; the next version drops it.';

CREATE FUNCTION public.lock_table(locked regclass) RETURNS void
    LANGUAGE plpgsql
    AS $$
BEGIN
    EXECUTE format('LOCK TABLE %s IN SHARE UPDATE EXCLUSIVE MODE', locked);
END $$;

COMMENT ON FUNCTION public.lock_table(locked regclass) IS 'Takes the lock of lock_table_try. Waits while another transaction holds this lock. The lock lasts until the end of the transaction.';

CREATE FUNCTION public.lock_table_try(locked regclass) RETURNS boolean
    LANGUAGE plpgsql
    AS $$
BEGIN
    EXECUTE format('LOCK TABLE %s IN SHARE UPDATE EXCLUSIVE MODE NOWAIT', locked);
    RETURN true;
EXCEPTION WHEN lock_not_available THEN
    RETURN false;
END $$;

COMMENT ON FUNCTION public.lock_table_try(locked regclass) IS 'Locks a table until the end of the transaction, and returns true. Returns false at once if another transaction holds this lock.';

CREATE FUNCTION public.mirror_renamed_setting() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
DECLARE
    changed CONSTANT settings := coalesce(NEW, OLD);
    is_present CONSTANT boolean := changed.name ~ '^max_';
    other CONSTANT text := CASE
        WHEN is_present THEN regexp_replace(changed.name, '^max_(content|segments)_', '\1_most_')
        ELSE regexp_replace(changed.name, '^(content|segments)_most_', 'max_\1_')
    END;
BEGIN
    IF changed.category <> 'sms' OR other = changed.name THEN
        RETURN NULL; -- it was not renamed
    ELSIF TG_OP = 'DELETE' THEN
        DELETE FROM settings s WHERE s.category = changed.category AND s.name = other;
    ELSIF NOT is_present AND EXISTS (
        SELECT FROM settings own
        JOIN settings present ON present.category = own.category AND present.name = other
        WHERE own.category = changed.category AND own.name = changed.name
            -- The row of the present name has replaced this row, or the same statement wrote both rows: they have the same transaction and command.
            AND (own.value <> changed.value OR own.xmin = present.xmin AND own.cmin = present.cmin)
    ) THEN
        RETURN NULL;
    ELSE
        INSERT INTO settings (category, name, value, updated_by, updated_at)
        VALUES (changed.category, other, changed.value, changed.updated_by, changed.updated_at)
        ON CONFLICT (category, name) DO UPDATE SET value = excluded.value, updated_by = excluded.updated_by, updated_at = excluded.updated_at;
    END IF;
    RETURN NULL;
END
$$;

COMMENT ON FUNCTION public.mirror_renamed_setting() IS 'Trigger of settings: copies a change of a renamed setting to the row with its other name. So servers of version 1.0.0 and later servers read the same value. If a statement writes both names, the row with the present name counts. The function is dropped together with the rows of the former names.';

CREATE FUNCTION public.network_time(received_at timestamp with time zone, stored_at timestamp with time zone) RETURNS timestamp with time zone
    LANGUAGE sql STABLE
    RETURN CASE WHEN (received_at < (stored_at + '24:00:00'::interval)) THEN received_at ELSE NULL::timestamp with time zone END;

COMMENT ON FUNCTION public.network_time(received_at timestamp with time zone, stored_at timestamp with time zone) IS 'Returns the time that a network gave to a message; null: unknown. A time more than a day after the message was stored comes from a wrong clock, and counts as unknown. Otherwise, later messages of the person would count as earlier.';

CREATE FUNCTION public.note_changer() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    NEW.changed_by := current_setting('lksms.actor', true);
    RETURN NEW;
END
$$;

COMMENT ON FUNCTION public.note_changer() IS 'Trigger: records the user who requested a change of a row, see postgres.As.';

CREATE FUNCTION public.notifications_feed() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    IF feed_is_heard(NEW.company_id) THEN
        INSERT INTO feed_staged (company_id, submitted_by, type, at, data)
        VALUES (NEW.company_id, NEW.submitted_by, 'notification.finished', now(), jsonb_build_object('notification_id', NEW.id));
    END IF;
    RETURN NULL;
END
$$;

COMMENT ON FUNCTION public.notifications_feed() IS 'Trigger of notifications: stages an event if a notification has possibly ended, and the events of its company are recorded.';

CREATE FUNCTION public.number_digits(number text) RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN replace(regexp_replace(regexp_replace(translate(number, '０１２３４５６７８９٠١٢٣٤٥٦٧٨٩۰۱۲۳۴۵۶۷۸۹．·•。'::text, '012345678901234567890123456789....'::text), '[^0-9.]'::text, ''::text, 'g'::text), '^([0-9]{7,})\.0{1,2}$'::text, '\1'::text), '.'::text, ''::text);

COMMENT ON FUNCTION public.number_digits(number text) IS 'Returns the digits of a phone number, as ASCII. It accepts any notation that internal/dispatch/phone reads. Statements use the digits to find candidates. internal/dispatch/phone then decides which number each candidate is.';

CREATE FUNCTION public.number_partitions_ahead(of_parent text, width interval) RETURNS integer
    LANGUAGE plpgsql SECURITY DEFINER
    SET lock_timeout TO '3s'
    SET search_path TO 'public', 'pg_temp'
    AS $$
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

CREATE FUNCTION public.phone_margin(leased_at timestamp with time zone, lease_until timestamp with time zone, longest interval) RETURNS interval
    LANGUAGE sql IMMUTABLE
    RETURN LEAST(longest, ((lease_until - leased_at) / (3)::double precision));

COMMENT ON FUNCTION public.phone_margin(leased_at timestamp with time zone, lease_until timestamp with time zone, longest interval) IS 'The time that a lease of a phone allows for the clock error of the phone, and for a message that the radio is already sending.';

CREATE FUNCTION public.phone_valid_until(leased_at timestamp with time zone, lease_until timestamp with time zone, send_before timestamp with time zone, longest_margin interval) RETURNS timestamp with time zone
    LANGUAGE sql STABLE
    RETURN CASE WHEN ((send_before >= leased_at) AND (send_before <= lease_until)) THEN send_before ELSE (lease_until - public.phone_margin(leased_at, lease_until, longest_margin)) END;

COMMENT ON FUNCTION public.phone_valid_until(leased_at timestamp with time zone, lease_until timestamp with time zone, send_before timestamp with time zone, longest_margin interval) IS 'The time until which a phone can send the message of a lease. It is the margin before the end of the lease. If the lease ends because the message must not be sent any more, it is this time (send_before). send_before is earlier than the lease if a change of quiet hours has set quiet_from to epoch.';

CREATE FUNCTION public.phones_end() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    DELETE FROM phones p WHERE p.sender_id = OLD.id;
    RETURN OLD;
END
$$;

COMMENT ON FUNCTION public.phones_end() IS 'Trigger of senders: deletes the phone of a deleted sender.';

CREATE FUNCTION public.phones_end_user() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    DELETE FROM users u WHERE u.id = OLD.user_id;
    RETURN NULL;
END
$$;

COMMENT ON FUNCTION public.phones_end_user() IS 'Trigger of phones: deletes the user of a deleted phone.';

CREATE FUNCTION public.pool_channel_keep() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    INSERT INTO pool_channels (pool_id, channel) SELECT NEW.id, c.channel FROM channels c WHERE c.id = NEW.channel_id;
    RETURN NULL;
END
$$;

CREATE FUNCTION public.pool_has_sender(of_pool bigint) RETURNS boolean
    LANGUAGE sql STABLE
    AS $$
    SELECT EXISTS (SELECT FROM pools p WHERE p.id = of_pool AND p.sender_id IS NOT NULL)
$$;

CREATE FUNCTION public.pool_serving(of_pool bigint, of_company bigint, of_type smallint, of_country text) RETURNS bigint
    LANGUAGE sql STABLE
    AS $$
    SELECT coalesce((
        SELECT p.id
        FROM pools here
        CROSS JOIN LATERAL (VALUES
            (1, of_company, of_type::integer, (SELECT c.id FROM countries c WHERE c.country_no = of_country)),
            (2, of_company, of_type::integer, 0),
            (3, 0, -1, 0)
        ) AS k (step, company_id, message_type, country_id)
        JOIN pools p ON p.channel_id = here.channel_id AND coalesce(p.company_id, 0) = k.company_id
            AND coalesce(p.message_type, -1) = k.message_type AND coalesce(p.country_id, 0) = k.country_id AND coalesce(p.sender_id, 0) = 0
            AND p.retired_at IS NULL
        WHERE here.id = of_pool AND here.sender_id IS NULL
            AND (k.step = 3 OR EXISTS (SELECT FROM routes r WHERE r.pool_id = p.id AND r.status = 'on'))
        ORDER BY k.step
        LIMIT 1
    ), of_pool)
$$;

CREATE FUNCTION public.pool_waits(of_pool bigint, since timestamp with time zone) RETURNS boolean
    LANGUAGE sql STABLE
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_sort TO 'off'
    AS $$
    SELECT EXISTS (
        SELECT FROM (
            SELECT t.due_at FROM queue t WHERE t.pool_id = of_pool AND t.lease_until IS NULL AND t.lane IS NULL ORDER BY t.due_at LIMIT 1
        ) d
        WHERE d.due_at <= since
    ) OR EXISTS (
        SELECT FROM (
            SELECT t.due_at FROM queue t
            WHERE t.pool_id = of_pool AND t.lease_until IS NULL AND t.lane IS NOT NULL
            ORDER BY t.lane, t.rank
            LIMIT 100
        ) q
        WHERE q.due_at <= since
    )
$$;

COMMENT ON FUNCTION public.pool_waits(of_pool bigint, since timestamp with time zone) IS 'Returns whether a task of the pool became due at the given time or earlier. It checks only the tasks that senders take first.';

CREATE FUNCTION public.queue_facts() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        INSERT INTO facts (
            company_id, pool_id, message_type, country_no, batch_id, is_test, sender_no, at, pending_new, pending_retry, processing, submitted, requeued
        )
        SELECT company_id, pool_id, message_type, country_no, batch_id, is_test, processing_app_id, max(updated_at),
            count(*) FILTER (WHERE lease_until IS NULL AND retry_count = 0), count(*) FILTER (WHERE lease_until IS NULL AND retry_count > 0),
            count(lease_until), count(*) FILTER (WHERE NOT was_claimed), count(*) FILTER (WHERE was_claimed)
        FROM added
        GROUP BY company_id, pool_id, message_type, country_no, batch_id, is_test, processing_app_id;
    ELSIF TG_OP = 'UPDATE' THEN
        INSERT INTO facts (
            company_id, pool_id, message_type, country_no, batch_id, is_test, sender_no, at, pending_new, pending_retry, processing, leases, waits
        )
        SELECT c.company_id, c.pool_id, c.message_type, c.country_no, c.batch_id, c.is_test, c.processing_app_id, coalesce(c.at, clock_timestamp()),
            c.pending_new, c.pending_retry, c.processing, greatest(0, c.processing), CASE WHEN c.processing > 0 THEN c.waits END
        FROM (
            SELECT company_id, pool_id, message_type, country_no, batch_id, is_test, processing_app_id, max(updated_at) FILTER (WHERE n = 1) AS at,
                coalesce(sum(n) FILTER (WHERE lease_until IS NULL AND retry_count = 0), 0) AS pending_new,
                coalesce(sum(n) FILTER (WHERE lease_until IS NULL AND retry_count > 0), 0) AS pending_retry,
                coalesce(sum(n) FILTER (WHERE lease_until IS NOT NULL), 0) AS processing,
                string_agg(wait_bucket(updated_at - entered_at), '')
                    FILTER (WHERE n = 1 AND lease_until IS NOT NULL AND retry_count = 0 AND NOT was_claimed) AS waits
            FROM (
                SELECT company_id, pool_id, message_type, country_no, batch_id, is_test, processing_app_id, lease_until, retry_count, updated_at,
                    entered_at, was_claimed, 1 AS n
                FROM added
                UNION ALL
                SELECT company_id, pool_id, message_type, country_no, batch_id, is_test, processing_app_id, lease_until, retry_count, updated_at,
                    entered_at, was_claimed, -1
                FROM removed
            ) x
            GROUP BY company_id, pool_id, message_type, country_no, batch_id, is_test, processing_app_id
        ) c
        WHERE (c.pending_new, c.pending_retry, c.processing) <> (0, 0, 0);
    ELSE
        INSERT INTO facts (
            company_id, pool_id, message_type, country_no, batch_id, is_test, sender_no, at, pending_new, pending_retry, processing
        )
        SELECT company_id, pool_id, message_type, country_no, batch_id, is_test, processing_app_id, clock_timestamp(),
            -count(*) FILTER (WHERE lease_until IS NULL AND retry_count = 0), -count(*) FILTER (WHERE lease_until IS NULL AND retry_count > 0),
            -count(lease_until)
        FROM removed
        GROUP BY company_id, pool_id, message_type, country_no, batch_id, is_test, processing_app_id;
    END IF;
    RETURN NULL;
END
$$;

CREATE FUNCTION public.queue_transactions() RETURNS SETOF text
    LANGUAGE sql STABLE
    AS $$
    SELECT DISTINCT l.virtualtransaction FROM pg_locks l
    WHERE l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database()) AND l.relation = 'queue'::regclass
        AND l.mode = 'RowShareLock' AND l.granted AND l.pid <> pg_backend_pid()
$$;

COMMENT ON FUNCTION public.queue_transactions() IS 'Returns the open transactions that lock rows of queue, as claims do. A claim that began before a change of the directory can still lease tasks that the change holds. A claim that began after the change cannot.';

CREATE FUNCTION public.queue_writers() RETURNS SETOF text
    LANGUAGE sql STABLE
    AS $$
    SELECT DISTINCT l.virtualtransaction FROM pg_locks l
    WHERE l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database()) AND l.relation = 'queue'::regclass
        AND l.mode = 'RowExclusiveLock' AND l.granted AND l.pid <> pg_backend_pid()
$$;

COMMENT ON FUNCTION public.queue_writers() IS 'Returns the open transactions that write queue. A submission that began before a block was added can still store a task that the block forbids; a later submission cannot.';

CREATE FUNCTION public.quiet_begins(task public.queue) RETURNS boolean
    LANGUAGE sql STABLE
    RETURN ((task).quiet_from <= (now() + '00:00:30'::interval));

COMMENT ON FUNCTION public.quiet_begins(task public.queue) IS 'Returns whether no claim returns a task because quiet hours of its recipient have begun, or begin within 30 seconds: the lease ends then, and a shorter lease would often end before the report. null: the task has no quiet hours.';

CREATE FUNCTION public.quiet_hours_change() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
DECLARE
    of_company bigint := (to_jsonb(NEW) ->> 'id')::bigint; -- null: settings have no id
BEGIN
    -- Servers use the former hours for up to four seconds. The second row finds the tasks that they added in long transactions.
    INSERT INTO quiet_changes (company_id, begins_at) VALUES (of_company, now() + interval '5 seconds'), (of_company, now() + interval '15 seconds');
    RETURN NULL;
END
$$;

COMMENT ON FUNCTION public.quiet_hours_change() IS 'Records a change of quiet hours, or of their time zone, in quiet_changes.';

CREATE FUNCTION public.quiet_moved(task public.queue) RETURNS boolean
    LANGUAGE sql IMMUTABLE
    RETURN ((public.former_due_at(task) IS NOT NULL) AND ((task).quiet_from IS NOT NULL));

COMMENT ON FUNCTION public.quiet_moved(task public.queue) IS 'Returns whether a waiting task was moved behind quiet hours. due_when_resumed then contains its former due time, which it gets again if the quiet hours end earlier.';

CREATE FUNCTION public.quiet_tasks_wait() RETURNS boolean
    LANGUAGE sql STABLE
    RETURN (EXISTS (SELECT FROM public.queue t WHERE ((t.lease_until IS NULL) AND (t.quiet_from <= (now() + '00:00:30'::interval)) AND (t.due_at < public.held_due_at()))));

COMMENT ON FUNCTION public.quiet_tasks_wait() IS 'Returns whether tasks wait that no claim returns because of quiet hours (task_fits), and that the sweep move-quiet-tasks has not moved behind the quiet hours yet.';

CREATE FUNCTION public.received_messages_feed() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    IF feed_is_heard(NEW.company_id) THEN
        INSERT INTO feed_staged (company_id, submitted_by, type, at, data)
        VALUES (NEW.company_id, NEW.submitted_by, 'message.received', now(), jsonb_build_object('received_id', NEW.id));
    END IF;
    RETURN NULL;
END
$$;

COMMENT ON FUNCTION public.received_messages_feed() IS 'Trigger of received_messages: stages the event message.received, if the events of the company are recorded.';

CREATE FUNCTION public.reply_actions_add() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    INSERT INTO reply_actions (received_id, company_id, phone_number)
    SELECT a.id, a.company_id, a.phone_number FROM added a
    WHERE a.phone_number <> '' AND (
        EXISTS (SELECT FROM reply_rules r WHERE r.company_id = a.company_id)
        OR a.kind = 'opt_out' AND EXISTS (SELECT FROM companies c WHERE c.id = a.company_id AND c.recipient ? 'opt_out_reply')
    )
    ORDER BY a.id;
    RETURN NULL;
END
$$;

COMMENT ON FUNCTION public.reply_actions_add() IS 'Trigger of received_messages: adds new messages to reply_actions: those of companies with rules, and those that opt out of the messages of a company with opt_out_reply.';

CREATE FUNCTION public.reply_actions_remove() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    DELETE FROM reply_actions a WHERE a.received_id = ANY (ARRAY(SELECT r.id FROM removed r));
    RETURN NULL;
END
$$;

COMMENT ON FUNCTION public.reply_actions_remove() IS 'Trigger of received_messages: deletes what rules did with deleted messages.';

CREATE FUNCTION public.report_logs_facts() RETURNS trigger
    LANGUAGE plpgsql
    AS $_$
DECLARE
    delivered_ids text[] := ARRAY(SELECT a.task_id FROM added a WHERE a.event IN ('receipt', 'past_receipt') AND a.effect = 'delivered');
    accepted_ids text[];
    accepted_by text[];
    accepted_ats timestamptz[];
    listening bigint[] := ARRAY( -- a null is every company
        SELECT l.company_id FROM feed_listeners l
        WHERE (l.is_pushed OR l.listens_until > now()) AND (l.company_id IS NULL OR l.company_id = ANY (ARRAY(SELECT a.company_id FROM added a)))
    );
BEGIN
    IF cardinality(delivered_ids) > 0 THEN
        -- EXECUTE plans it with the ids, so that it opens their partitions alone.
        EXECUTE 'SELECT array_agg(r.task_id), array_agg(r.app_id), array_agg(date_trunc(''minute'', r.created_at, ''UTC'')) FROM report_logs r '
            'WHERE r.task_id = ANY ($1) AND r.outcome = 2' -- SUCCESS, of which a task has one row
        INTO accepted_ids, accepted_by, accepted_ats USING delivered_ids;
    END IF;
    INSERT INTO facts (
        company_id, pool_id, message_type, country_no, batch_id, is_test, sender_no, at, accepted_at, success, failed, cancelled, delivered,
        undelivered, submitted, reported_success, reported_failed, unreported, response_ms, segments, durations
    )
    SELECT n.company_id, n.pool_id, n.message_type, n.country_no, n.batch_id, n.is_test, n.app_id, max(n.created_at), n.accepted_at,
        count(*) FILTER (WHERE n.outcome = 2), count(*) FILTER (WHERE n.outcome = 3), -- SUCCESS, FAILED
        count(*) FILTER (WHERE n.outcome = 4), -- CANCELLED
        count(*) FILTER (WHERE n.event IN ('receipt', 'past_receipt') AND n.effect = 'delivered'),
        count(*) FILTER (WHERE n.event IN ('receipt', 'past_receipt') AND n.effect = 'undelivered'),
        count(*) FILTER (WHERE n.event IN ('unreachable', 'simulated')), count(*) FILTER (WHERE n.status = 2), count(*) FILTER (WHERE n.status = 3),
        count(*) FILTER (WHERE n.event = 'recovered' AND n.effect <> 'untried'),
        coalesce(
            sum(greatest(0, extract(epoch FROM n.created_at - coalesce(n.leased_at, n.due_at)) * 1000)) FILTER (WHERE n.status IS NOT NULL), 0
        ),
        coalesce(sum(coalesce(n.lease_segments, n.segments)) FILTER (WHERE n.status = 2), 0),
        string_agg(wait_bucket(n.created_at - n.entered_at), '') FILTER (WHERE n.outcome IN (2, 3))
    FROM (
        SELECT a.*, r.accepted_at
        FROM added a
        LEFT JOIN unnest(accepted_ids, accepted_by, accepted_ats) AS r (task_id, app_id, accepted_at)
            ON r.task_id = a.task_id AND r.app_id = a.app_id AND a.event IN ('receipt', 'past_receipt') AND a.effect = 'delivered'
        WHERE a.outcome IS NOT NULL OR a.effect = 'retry' OR a.event IN ('receipt', 'past_receipt')
    ) n
    GROUP BY n.company_id, n.pool_id, n.message_type, n.country_no, n.batch_id, n.is_test, n.app_id, n.accepted_at, n.outcome;
    IF cardinality(listening) > 0 THEN
        -- A past_receipt says nothing about the life that the task has now. A report that asks for a retry ends nothing.
        INSERT INTO feed_staged (company_id, type, task_id, log_id, at)
        SELECT a.company_id, CASE a.outcome
                WHEN 2 THEN 'message.sent' -- SUCCESS
                WHEN 3 THEN CASE a.effect WHEN 'expired' THEN 'message.expired' ELSE 'message.failed' END -- FAILED
                WHEN 4 THEN 'message.cancelled' -- CANCELLED
                ELSE 'message.' || a.effect
            END, a.task_id, a.id, a.created_at
        FROM added a
        WHERE (a.outcome IS NOT NULL OR a.event = 'receipt' AND a.effect IN ('delivered', 'undelivered'))
            AND (array_position(listening, NULL) IS NOT NULL OR a.company_id = ANY (listening))
        ORDER BY a.id;
    END IF;
    RETURN NULL;
END
$_$;

CREATE FUNCTION public.report_logs_outcome_facts() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    INSERT INTO facts (company_id, pool_id, message_type, country_no, batch_id, is_test, sender_no, at, success, failed)
    SELECT c.company_id, c.pool_id, c.message_type, c.country_no, c.batch_id, c.is_test, c.app_id, clock_timestamp(), c.success, c.failed
    FROM (
        SELECT x.company_id, x.pool_id, x.message_type, x.country_no, x.batch_id, x.is_test, x.app_id,
            coalesce(sum(x.n) FILTER (WHERE x.outcome = 2), 0) AS success, -- SUCCESS
            coalesce(sum(x.n) FILTER (WHERE x.outcome = 3), 0) AS failed -- FAILED
        FROM (
            SELECT company_id, pool_id, message_type, country_no, batch_id, is_test, app_id, outcome, 1 AS n FROM added
            UNION ALL
            SELECT company_id, pool_id, message_type, country_no, batch_id, is_test, app_id, outcome, -1 FROM removed
        ) x
        GROUP BY x.company_id, x.pool_id, x.message_type, x.country_no, x.batch_id, x.is_test, x.app_id
    ) c
    WHERE (c.success, c.failed) <> (0, 0);
    RETURN NULL;
END
$$;

CREATE FUNCTION public.rows_bound() RETURNS trigger
    LANGUAGE plpgsql
    SET enable_seqscan TO 'off'
    SET jit TO 'off'
    AS $_$
DECLARE
    most bigint := TG_ARGV[0];
    is_passed boolean;
BEGIN
    EXECUTE format(
        'SELECT EXISTS (
            SELECT FROM (SELECT DISTINCT %2$s AS owner FROM added) a
            WHERE (SELECT count(*) FROM (SELECT FROM %1$s WHERE %2$s = a.owner LIMIT $1 + 1) r) > $1
        )', TG_RELID::regclass, coalesce(TG_ARGV[1], 'true')
    ) INTO is_passed USING most;
    IF is_passed THEN
        RAISE EXCEPTION '% holds as many rows as it may', TG_TABLE_NAME
        USING ERRCODE = 'check_violation', CONSTRAINT = 'rows_bound', TABLE = TG_TABLE_NAME, DETAIL = most::text;
    END IF;
    RETURN NULL;
END
$_$;

CREATE FUNCTION public.segments_as_sent(content text, sign text, counted smallint, sender_sign text, sign_mode text, segment_size bigint) RETURNS bigint
    LANGUAGE plpgsql IMMUTABLE
    AS $$
BEGIN
    IF segment_size IS NOT NULL THEN
        RETURN attempt_segments(
            handed_text(content, coalesce(sign, sender_sign), CASE sign_mode WHEN 'none' THEN 'none' ELSE 'in_text' END), counted, segment_size, true
        );
    ELSIF sign_mode = 'none' THEN
        RETURN unsigned_segments(handed_text(content, sign, 'none'));
    ELSIF starts_with(content, '【' || sender_sign || '】') THEN
        RETURN counted;
    END IF;
    RETURN attempt_segments('【' || sender_sign || '】' || content, counted, NULL, true);
END
$$;

CREATE FUNCTION public.send_before(task public.queue) RETURNS timestamp with time zone
    LANGUAGE sql IMMUTABLE
    RETURN LEAST((task).expires_at, (task).quiet_from);

COMMENT ON FUNCTION public.send_before(task public.queue) IS 'Returns the time from which the message of a task must not be sent: when it expires, or when quiet hours of its recipient begin. Its lease ends at this time at the latest. After this time, no sender gets the task, and the holder of the lease can still report for a limited time. epoch: the quiet hours changed, and the sweep move-quiet-tasks has not computed the time yet; null: no limit.';

CREATE FUNCTION public.sender_obstacle(is_on boolean, has_sim boolean, has_funds boolean, is_silent boolean, has_quota boolean, is_working boolean, is_rested boolean) RETURNS text
    LANGUAGE sql IMMUTABLE
    RETURN CASE WHEN (NOT is_on) THEN 'off'::text WHEN (NOT has_sim) THEN 'sims_off'::text WHEN (NOT has_funds) THEN 'no_funds'::text WHEN is_silent THEN 'silent'::text WHEN (NOT has_quota) THEN 'no_quota'::text WHEN (NOT is_working) THEN 'outside_hours'::text WHEN (NOT is_rested) THEN 'paused'::text ELSE NULL::text END;

COMMENT ON FUNCTION public.sender_obstacle(is_on boolean, has_sim boolean, has_funds boolean, is_silent boolean, has_quota boolean, is_working boolean, is_rested boolean) IS 'The reasons without not_bound, for servers of the previous version. A later version drops this function.';

CREATE FUNCTION public.sender_obstacle(is_on boolean, has_sim boolean, has_funds boolean, is_silent boolean, is_bound boolean, has_quota boolean, is_working boolean, is_rested boolean) RETURNS text
    LANGUAGE sql IMMUTABLE
    RETURN CASE WHEN (NOT is_on) THEN 'off'::text WHEN (NOT has_sim) THEN 'sims_off'::text WHEN (NOT has_funds) THEN 'no_funds'::text WHEN is_silent THEN 'silent'::text WHEN (NOT is_bound) THEN 'not_bound'::text WHEN (NOT has_quota) THEN 'no_quota'::text WHEN (NOT is_working) THEN 'outside_hours'::text WHEN (NOT is_rested) THEN 'paused'::text ELSE NULL::text END;

COMMENT ON FUNCTION public.sender_obstacle(is_on boolean, has_sim boolean, has_funds boolean, is_silent boolean, is_bound boolean, has_quota boolean, is_working boolean, is_rested boolean) IS 'Returns why a sender cannot claim tasks; null: it can. If several reasons apply, a reason that somebody must remove comes before those that end by themselves.';

CREATE FUNCTION public.sender_serves(of_sender bigint, of_company bigint) RETURNS boolean
    LANGUAGE sql STABLE
    AS $$
    SELECT EXISTS (
        SELECT FROM senders s
        WHERE s.id = of_sender AND s.status <> 'retired' AND (
            EXISTS (
                SELECT FROM routes r JOIN pools p ON p.id = r.pool_id
                WHERE r.sender_id = s.id AND r.status = 'on' AND p.company_id = of_company AND p.sender_id IS NULL
            )
            OR (
                s.is_shared AND EXISTS (SELECT FROM companies c WHERE c.id = of_company AND c.uses_shared_senders)
                AND NOT EXISTS (SELECT FROM routes r JOIN pools p ON p.id = r.pool_id WHERE r.sender_id = s.id AND p.sender_id IS NULL)
            )
        )
    )
$$;

COMMENT ON FUNCTION public.sender_serves(of_sender bigint, of_company bigint) IS 'Returns whether a company can name a sender for its tasks, and the sender can take these tasks. This is true if an active route of the company names the sender. It is also true if the sender is shared, no route names it, and the company uses shared senders. A sender that is off can still be named. A retired sender cannot.';

CREATE FUNCTION public.sender_silences(silent_after interval, noted_apart interval) RETURNS TABLE(sender_id bigint, is_silent boolean, slack interval)
    LANGUAGE sql STABLE
    AS $$
    SELECT s.id, s.kind = 'app' AND coalesce(st.seen_at <= now() - silent_after - l.slack, true), l.slack
    FROM senders s
    JOIN sender_states st ON st.sender_id = s.id
    CROSS JOIN LATERAL (
        SELECT CASE
            WHEN EXISTS (SELECT FROM routes r WHERE r.sender_id = s.id AND r.status = 'on') THEN interval '0'
            -- The sweep stores polls every five seconds.
            WHEN s.is_shared AND st.next_available_at <= now() - silent_after AND s.channel_id IN (
                SELECT w.channel_id FROM channels_waiting(now() - greatest(silent_after, interval '20 seconds')) w
            ) THEN greatest(interval '0', interval '20 seconds' - silent_after)
            ELSE noted_apart
        END AS slack
    ) l
$$;

COMMENT ON FUNCTION public.sender_silences(silent_after interval, noted_apart interval) IS 'Returns for each app whether it is silent. An app is silent if its last recorded poll is older than silent_after plus slack. slack is the longest delay with which polls of the app are recorded: zero if a route names the app; up to 20 seconds if tasks have waited in its shared pool for longer than silent_after; otherwise noted_apart. The sweep of internal/dispatch/sender records polls by the same rule.';

CREATE FUNCTION public.sent_segments(content text, sign text, counted smallint, sender_sign text, sign_mode text, segment_size bigint, counts_segments boolean) RETURNS bigint
    LANGUAGE sql IMMUTABLE
    RETURN CASE WHEN (NOT counts_segments) THEN (1)::bigint WHEN ((segment_size IS NULL) AND CASE WHEN (sign IS NULL) THEN (sender_sign IS NULL) ELSE (sign_mode <> 'none'::text) END) THEN (counted)::bigint ELSE public.segments_as_sent(content, sign, counted, sender_sign, sign_mode, segment_size) END;

CREATE FUNCTION public.sim_standings(of_sender bigint, at timestamp with time zone) RETURNS TABLE(slot smallint, phone_number text, is_on boolean, per_day bigint, per_month bigint, recipients_per_month bigint, day_used bigint, month_used bigint, recipients_used bigint, segments_left bigint, recipients_left bigint, month date)
    LANGUAGE sql STABLE
    AS $$
    SELECT m.slot, m.phone_number, m.is_on, m.per_day, m.per_month, m.recipients_per_month, u.day_used, u.month_used, u.recipients_used,
        least(m.per_day - u.day_used, m.per_month - u.month_used), m.recipients_per_month - u.recipients_used,
        date_trunc('month', at AT TIME ZONE s.time_zone)::date
    FROM senders s
    JOIN sender_sims m ON m.sender_id = s.id
    LEFT JOIN sim_usages g ON g.sender_id = m.sender_id AND g.slot = m.slot
    CROSS JOIN LATERAL (
        SELECT used_in_window('day', at, s.time_zone, g.day_used, g.last_taken_at) AS day_used,
            used_in_window('month', at, s.time_zone, g.month_used, g.last_taken_at) AS month_used,
            used_in_window('month', at, s.time_zone, g.recipients_used, g.last_taken_at) AS recipients_used
    ) u
    WHERE s.id = of_sender
    ORDER BY m.slot
$$;

COMMENT ON FUNCTION public.sim_standings(of_sender bigint, at timestamp with time zone) IS 'The SIMs of a sender with their usage at a time. segments_left and recipients_left: what the limits still allow; null: no limit. month: the first day of the month.';

CREATE TABLE public.sender_sims (
    sender_id bigint NOT NULL,
    slot smallint NOT NULL,
    phone_number text,
    is_on boolean DEFAULT true NOT NULL,
    per_day bigint,
    per_month bigint,
    recipients_per_month bigint,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    updated_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT sender_sims_limits_range CHECK (((per_day >= 0) AND (per_month >= 0) AND (recipients_per_month >= 0))),
    CONSTRAINT sender_sims_phone_number_length CHECK (((char_length(phone_number) >= 1) AND (char_length(phone_number) <= 50))),
    CONSTRAINT sender_sims_slot_range CHECK (((slot >= 1) AND (slot <= 10)))
);

COMMENT ON TABLE public.sender_sims IS 'A SIM of a sender, with its limits. Written by internal/dispatch/sender.';

COMMENT ON COLUMN public.sender_sims.slot IS 'the slot of the SIM in the phone, from 1';

COMMENT ON COLUMN public.sender_sims.phone_number IS 'the number of the SIM, as an administrator or the phone gave it; null: unknown';

COMMENT ON COLUMN public.sender_sims.is_on IS 'false: no message is sent through the SIM';

COMMENT ON COLUMN public.sender_sims.per_day IS 'segments in a day of the time zone of the sender; null: no limit';

COMMENT ON COLUMN public.sender_sims.per_month IS 'segments in a month of the time zone of the sender; null: no limit';

COMMENT ON COLUMN public.sender_sims.recipients_per_month IS 'different recipients in a month of the time zone of the sender; null: no limit';

CREATE FUNCTION public.sims_are_on(of_sender bigint, has_sims boolean) RETURNS boolean
    LANGUAGE sql STABLE
    RETURN CASE WHEN has_sims THEN (EXISTS (SELECT FROM public.sender_sims s WHERE ((s.sender_id = sims_are_on.of_sender) AND s.is_on))) ELSE true END;

COMMENT ON FUNCTION public.sims_are_on(of_sender bigint, has_sims boolean) IS 'Whether a SIM of a sender is on. It is true for a sender without SIMs.';

CREATE FUNCTION public.sims_fit(of_sender bigint, recipient text, segments bigint, at timestamp with time zone) RETURNS boolean
    LANGUAGE sql STABLE
    AS $$
    SELECT EXISTS (
        SELECT FROM sim_standings(of_sender, at) s
        WHERE s.is_on AND coalesce(s.segments_left >= segments, true) AND (coalesce(s.recipients_left > 0, true) OR EXISTS (
            SELECT FROM sim_recipients r
            WHERE r.sender_id = of_sender AND r.recipient_hash = sha256(convert_to(recipient, 'UTF8')) AND r.slot = s.slot
                AND r.month >= s.month AND r.messages > 0
        ))
    )
$$;

COMMENT ON FUNCTION public.sims_fit(of_sender bigint, recipient text, segments bigint, at timestamp with time zone) IS 'Whether one of the SIMs of a sender can send a message with this number of segments to this recipient. A SIM without room for new recipients can send to the recipients that it already counts in this month.';

CREATE FUNCTION public.sims_room(of_sender bigint, at timestamp with time zone) RETURNS bigint
    LANGUAGE sql STABLE
    AS $$
    SELECT coalesce(max(coalesce(s.segments_left, 1000000000)), 0)
    FROM sim_standings(of_sender, at) s
    WHERE s.is_on AND coalesce(s.recipients_left > 0, true)
$$;

COMMENT ON FUNCTION public.sims_room(of_sender bigint, at timestamp with time zone) IS 'The segments of the largest message that a sender can send to a new recipient through one of its SIMs; 1000000000: no limit; 0 or less: all its SIMs are used up.';

CREATE FUNCTION public.sql_door_number(number text) RETURNS text
    LANGUAGE sql IMMUTABLE
    AS $_$
SELECT regexp_replace(
    regexp_replace(
        regexp_replace(
            translate(number, E'０１２３４５６７８９＋．（）－［］·•。‘’＇', E'0123456789+.()-[]...\'\'\''),
            E'[\\s\u0085\u00a0\u00ad\u061c\u1680\u180e\u2000-\u200f\u2010-\u2015\u2028-\u202f\u205f\u2060-\u206f\u2212\u3000\ufe63\ufeff()\\[\\]-]', '', 'g'
        ),
        '^(\+?[0-9]{7,})\.0{1,2}$', '\1'
    ),
    E'\\.|^\'+', '', 'g'
)
$_$;

COMMENT ON FUNCTION public.sql_door_number(number text) IS 'The former name of sql_inbox_number, for calls that run during an upgrade. The next version drops the function.';

CREATE FUNCTION public.sql_door_outgoing() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    NEW.task_id := lksms.enqueue(
        NEW.phone_number, NEW.content, NEW.dedup_key, NEW.message_type, NEW.priority, NEW.expect_send_time, NEW.expires_at, NEW.sign, NEW.source,
        NEW.test, NEW.template_no, NEW.params, NEW.language
    );
    RETURN NEW;
END
$$;

COMMENT ON FUNCTION public.sql_door_outgoing() IS 'The former name of sql_inbox_outgoing, for calls that run during an upgrade. The next version drops the function.';

CREATE TABLE public.users (
    id bigint NOT NULL,
    username text NOT NULL,
    role text NOT NULL,
    app_id text,
    password_hash text,
    is_disabled boolean DEFAULT false NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    updated_at timestamp with time zone DEFAULT now() NOT NULL,
    company_id bigint DEFAULT 1 NOT NULL,
    top_priority smallint DEFAULT 1 NOT NULL,
    version bigint DEFAULT 1 NOT NULL,
    has_company boolean DEFAULT false NOT NULL,
    CONSTRAINT users_app_id_of_senders CHECK (((app_id IS NULL) OR ((role = 'send'::text) AND ((char_length(app_id) >= 1) AND (char_length(app_id) <= 50))))),
    CONSTRAINT users_company_binds_role CHECK (((NOT has_company) OR (role = ANY (ARRAY['submit'::text, 'read'::text])))),
    CONSTRAINT users_role_known CHECK ((role = ANY (ARRAY['submit'::text, 'send'::text, 'read'::text, 'admin'::text]))),
    CONSTRAINT users_top_priority_range CHECK (((top_priority >= 0) AND (top_priority <= 9))),
    CONSTRAINT users_username_form CHECK ((((char_length(username) >= 1) AND (char_length(username) <= 50)) AND (strpos(username, ':'::text) = 0)))
);

COMMENT ON TABLE public.users IS 'A user of the API: a system, a sender or a person. Written by internal/platform/access.';

COMMENT ON COLUMN public.users.role IS 'submit, send, read or admin';

COMMENT ON COLUMN public.users.app_id IS 'for the role send: the only sender_no for which the user can claim and report; null: any sender_no';

COMMENT ON COLUMN public.users.password_hash IS 'the argon2id hash of the password; null: the user has only API keys';

COMMENT ON COLUMN public.users.company_id IS 'the company for which the user submits; 1 is the company named default';

COMMENT ON COLUMN public.users.top_priority IS 'the most urgent priority that its submissions can request';

COMMENT ON COLUMN public.users.version IS 'incremented by each update. An update names the version that its caller has read, and is rejected if the version has changed since';

COMMENT ON COLUMN public.users.has_company IS 'true: the user sees only this company. false: the user submits for company_id, but with the role read it sees every company';

CREATE FUNCTION public.sql_door_put(caller public.users, of_id bigint, place integer, phone_number text, content text, dedup_key text, message_type text, priority integer, expect_send_time timestamp with time zone, expires_at timestamp with time zone, sign text, source text, test boolean, template_no text, params jsonb, language text) RETURNS text
    LANGUAGE plpgsql
    AS $_$
#variable_conflict use_column
DECLARE
    -- The white space of Unicode: a text of nothing else is blank.
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
    bare := sql_door_number(given.phone_number);
    IF given.phone_number IS NULL THEN
        PERFORM sql_door_refuse('LK001', 'phone_number', 'required', 'is missing', place);
    ELSIF char_length(given.phone_number) > 50 OR bare !~ '^\+?[0-9]{5,17}$'
        OR bare ~ '^(\+|00)861[3-9]' AND bare !~ '^(\+|00)861[3-9][0-9]{9}$' AND bare !~ '^(\+|00)8616[08]' THEN
        PERFORM sql_door_refuse('LK005', 'phone_number', 'not_a_phone_number', 'is not a valid phone number', place);
    ELSIF bare !~ '^(\+|00)' AND bare !~ '^(86)?1[3-9][0-9]{9}$'
        AND (SELECT c.default_region FROM companies c WHERE c.id = caller.company_id) = '' THEN
        PERFORM sql_door_refuse('LK005', 'phone_number', 'region_not_known',
            'is no mobile number of mainland China, and its country is not known: write it with + and the country code', place);
    END IF;

    -- The fields that exclude each other.
    IF given.template_no IS NOT NULL AND $5 <> '' THEN
        PERFORM sql_door_refuse('LK013', 'content', 'not_together', 'cannot be used together with template_no', place);
    ELSIF given.template_no IS NULL AND given.content IS NULL THEN
        PERFORM sql_door_refuse('LK001', 'content', 'required', 'is missing: give a text, or template_no', place);
    ELSIF given.template_no IS NULL AND given.params IS NOT NULL THEN
        PERFORM sql_door_refuse('LK013', 'params', 'only_together', 'can only be used together with template_no', place);
    ELSIF given.template_no IS NULL AND given.language IS NOT NULL THEN
        PERFORM sql_door_refuse('LK013', 'language', 'only_together', 'can only be used together with template_no', place);
    END IF;

    -- A repeat gets the first task, whatever has changed since: its times have passed, say, or its template is voided.
    SELECT coalesce(
        (
            SELECT k.task_id FROM dedup_keys k
            WHERE k.company_id = given.company_id AND k.submitted_by = given.submitted_by AND k.dedup_key = given.dedup_key
        ),
        (
            SELECT i.task_id FROM sql_inbox i
            WHERE i.company_id = given.company_id AND i.submitted_by = given.submitted_by AND i.dedup_key = given.dedup_key AND NOT i.is_repeat
        )
    ) INTO earlier;

    <<checks>>
    BEGIN
        EXIT checks WHEN earlier IS NOT NULL;

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
            SELECT t.status INTO status FROM templates t
            WHERE t.template_no = given.template_no
                AND (t.companies = '{}' OR (SELECT c.company_no FROM companies c WHERE c.id = caller.company_id) = ANY (t.companies));
            IF status IS NULL THEN
                PERFORM sql_door_refuse('LK012', 'template_no', 'not_there', 'names no template that this company may use', place);
            ELSIF status <> 'active' THEN
                PERFORM sql_door_refuse('LK012', 'template_no', 'not_active', 'names a template that is not active', place);
            END IF;
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
    END checks;

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
$_$;

COMMENT ON FUNCTION public.sql_door_put(caller public.users, of_id bigint, place integer, phone_number text, content text, dedup_key text, message_type text, priority integer, expect_send_time timestamp with time zone, expires_at timestamp with time zone, sign text, source text, test boolean, template_no text, params jsonb, language text) IS 'The former name of sql_inbox_put, for calls that run during an upgrade. The next version drops the function.';

CREATE FUNCTION public.sql_door_refuse(code text, field text, rule text, text_of_error text, place integer DEFAULT NULL::integer) RETURNS void
    LANGUAGE plpgsql
    AS $$
BEGIN
    IF place IS NULL THEN
        RAISE EXCEPTION USING ERRCODE = code, MESSAGE = field || ': ' || text_of_error, COLUMN = field, CONSTRAINT = rule;
    END IF;
    RAISE EXCEPTION USING ERRCODE = code, MESSAGE = field || ': ' || text_of_error, COLUMN = field, CONSTRAINT = rule,
        DETAIL = pg_catalog.format('Message %s of the set, counted from 1.', place);
END
$$;

COMMENT ON FUNCTION public.sql_door_refuse(code text, field text, rule text, text_of_error text, place integer) IS 'The former name of sql_inbox_refuse, for calls that run during an upgrade. The next version drops the function.';

CREATE FUNCTION public.sql_door_segments(signed text) RETURNS integer
    LANGUAGE plpgsql IMMUTABLE
    AS $_$
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
$_$;

COMMENT ON FUNCTION public.sql_door_segments(signed text) IS 'The former name of sql_inbox_segments, for calls that run during an upgrade. The next version drops the function.';

CREATE FUNCTION public.sql_door_setting(of_name text, otherwise bigint) RETURNS bigint
    LANGUAGE sql STABLE
    AS $$
    SELECT coalesce((SELECT (s.value #>> '{}')::bigint FROM settings s WHERE s.category = 'sms' AND s.name = of_name), otherwise)
$$;

COMMENT ON FUNCTION public.sql_door_setting(of_name text, otherwise bigint) IS 'The former name of sql_inbox_setting, for calls that run during an upgrade. The next version drops the function.';

CREATE FUNCTION public.sql_door_task_id(at timestamp with time zone, ordinal integer) RETURNS text
    LANGUAGE plpgsql
    AS $$
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

COMMENT ON FUNCTION public.sql_door_task_id(at timestamp with time zone, ordinal integer) IS 'The former name of sql_inbox_task_id, for calls that run during an upgrade. The next version drops the function.';

CREATE FUNCTION public.sql_door_text(message jsonb, field text, place integer) RETURNS text
    LANGUAGE plpgsql STABLE
    AS $$
BEGIN
    IF jsonb_typeof(message -> field) NOT IN ('string', 'null') THEN
        PERFORM sql_door_refuse('LK014', field, 'wrong_type', 'must be a text', place);
    END IF;
    RETURN message ->> field;
END
$$;

COMMENT ON FUNCTION public.sql_door_text(message jsonb, field text, place integer) IS 'The former name of sql_inbox_text, for calls that run during an upgrade. The next version drops the function.';

CREATE FUNCTION public.sql_door_time(message jsonb, field text, place integer) RETURNS timestamp with time zone
    LANGUAGE plpgsql STABLE
    AS $_$
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
$_$;

COMMENT ON FUNCTION public.sql_door_time(message jsonb, field text, place integer) IS 'The former name of sql_inbox_time, for calls that run during an upgrade. The next version drops the function.';

CREATE FUNCTION public.sql_door_user() RETURNS public.users
    LANGUAGE plpgsql STABLE
    AS $$
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

COMMENT ON FUNCTION public.sql_door_user() IS 'The former name of sql_inbox_user, for calls that run during an upgrade. The next version drops the function.';

CREATE TABLE public.sql_inbox (
    id bigint NOT NULL,
    task_id text NOT NULL COLLATE pg_catalog."C",
    company_id bigint NOT NULL,
    submitted_by text NOT NULL,
    role_name text NOT NULL,
    source_ip text,
    request_id text NOT NULL,
    phone_number text NOT NULL,
    content text,
    template_no text,
    params jsonb,
    language text,
    source text,
    dedup_key text,
    is_repeat boolean DEFAULT false NOT NULL,
    message_type smallint NOT NULL,
    priority smallint,
    expect_send_time timestamp with time zone,
    expires_at timestamp with time zone,
    sign text,
    is_test boolean NOT NULL,
    created_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    tries smallint DEFAULT 0 NOT NULL,
    due_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    CONSTRAINT sql_inbox_dedup_key_length CHECK (((char_length(dedup_key) >= 1) AND (char_length(dedup_key) <= 100))),
    CONSTRAINT sql_inbox_has_text CHECK (((content IS NULL) <> (template_no IS NULL))),
    CONSTRAINT sql_inbox_message_type_known CHECK (((message_type >= 0) AND (message_type <= 2))),
    CONSTRAINT sql_inbox_priority_range CHECK (((priority >= 0) AND (priority <= 9))),
    CONSTRAINT sql_inbox_repeat_has_key CHECK (((NOT is_repeat) OR (dedup_key IS NOT NULL))),
    CONSTRAINT sql_inbox_task_id_length CHECK (((char_length(task_id) >= 1) AND (char_length(task_id) <= 50)))
)
WITH (autovacuum_vacuum_scale_factor='0.02', autovacuum_vacuum_threshold='1000', autovacuum_vacuum_cost_delay='0', autovacuum_analyze_scale_factor='0.05');

COMMENT ON TABLE public.sql_inbox IS 'A message that was submitted by SQL, until it is a task. lksms.enqueue inserts the row in the transaction of its caller. This transaction can be long, so the insert locks no row for which others wait. internal/transport/sqlinbox creates the task and deletes the row in one transaction. There are no foreign keys, because they would lock rows of companies.';

COMMENT ON COLUMN public.sql_inbox.task_id IS 'the id of the future task, which the caller has received. A message that repeats a dedup key has an id that is never used';

COMMENT ON COLUMN public.sql_inbox.submitted_by IS 'see messages.submitted_by';

COMMENT ON COLUMN public.sql_inbox.role_name IS 'the session_user of the caller';

COMMENT ON COLUMN public.sql_inbox.source_ip IS 'the address of the caller''s connection to PostgreSQL; null: the connection uses a socket';

COMMENT ON COLUMN public.sql_inbox.request_id IS 'sql- followed by the number of the transaction';

COMMENT ON COLUMN public.sql_inbox.content IS 'null: the text comes from the template template_no';

COMMENT ON COLUMN public.sql_inbox.is_repeat IS 'true: an earlier message has the same dedup key, so the row is only logged and creates no task';

COMMENT ON COLUMN public.sql_inbox.message_type IS 'see messages.message_type';

COMMENT ON COLUMN public.sql_inbox.priority IS 'null: the default priority of the message type';

COMMENT ON COLUMN public.sql_inbox.created_at IS 'the time of the submission. Its transaction committed later';

COMMENT ON COLUMN public.sql_inbox.tries IS 'how often the database rejected the task of this message when only this task was created';

COMMENT ON COLUMN public.sql_inbox.due_at IS 'the task is not created before this time. After a failed try, the time is later than created_at';

CREATE FUNCTION public.sql_inbox_check_content(given public.sql_inbox, place integer) RETURNS void
    LANGUAGE plpgsql STABLE
    AS $$
DECLARE
    -- The white space of Unicode: a text of nothing else is blank. PostgreSQL has no escape \v.
    blank CONSTANT text := E'\t\n\x0b\f\r \u0085\u00a0\u1680'
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

COMMENT ON FUNCTION public.sql_inbox_check_content(given public.sql_inbox, place integer) IS 'Rejects a text that is blank, or longer than its message type allows.';

CREATE FUNCTION public.sql_inbox_check_fields(given public.sql_inbox, content text, place integer) RETURNS void
    LANGUAGE plpgsql IMMUTABLE
    AS $$
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

COMMENT ON FUNCTION public.sql_inbox_check_fields(given public.sql_inbox, content text, place integer) IS 'Rejects a message with two fields that exclude each other, or without a field that another field requires. content is the text of the caller. given.content is null if the message uses a template.';

CREATE FUNCTION public.sql_inbox_check_lengths(given public.sql_inbox, place integer) RETURNS void
    LANGUAGE plpgsql IMMUTABLE
    AS $_$
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
$_$;

COMMENT ON FUNCTION public.sql_inbox_check_lengths(given public.sql_inbox, place integer) IS 'Rejects a message with a field that is too long, too short, or malformed.';

CREATE FUNCTION public.sql_inbox_check_number(caller public.users, phone_number text, place integer) RETURNS void
    LANGUAGE plpgsql STABLE
    AS $_$
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
$_$;

COMMENT ON FUNCTION public.sql_inbox_check_number(caller public.users, phone_number text, place integer) IS 'Rejects a text that is not a phone number, and a number of an unknown country.';

CREATE FUNCTION public.sql_inbox_check_priority(caller public.users, given public.sql_inbox, place integer) RETURNS void
    LANGUAGE plpgsql STABLE
    AS $$
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

COMMENT ON FUNCTION public.sql_inbox_check_priority(caller public.users, given public.sql_inbox, place integer) IS 'Rejects a priority that is more urgent than the user and the message type allow.';

CREATE FUNCTION public.sql_inbox_check_template(caller public.users, given public.sql_inbox, place integer) RETURNS void
    LANGUAGE plpgsql STABLE
    AS $$
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

COMMENT ON FUNCTION public.sql_inbox_check_template(caller public.users, given public.sql_inbox, place integer) IS 'Rejects a template that does not exist, is not active, or belongs to other companies.';

CREATE FUNCTION public.sql_inbox_check_times(given public.sql_inbox, place integer) RETURNS void
    LANGUAGE plpgsql IMMUTABLE
    AS $$
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

COMMENT ON FUNCTION public.sql_inbox_check_times(given public.sql_inbox, place integer) IS 'Rejects times in the past, times that are too far ahead, and times outside of the range of the server.';

CREATE FUNCTION public.sql_inbox_first(given public.sql_inbox) RETURNS text
    LANGUAGE sql STABLE
    AS $$
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

COMMENT ON FUNCTION public.sql_inbox_first(given public.sql_inbox) IS 'Returns the task of the first message with the same dedup key, or null.';

CREATE FUNCTION public.sql_inbox_number(number text) RETURNS text
    LANGUAGE sql IMMUTABLE
    AS $_$
SELECT regexp_replace(
    regexp_replace(
        regexp_replace(
            translate(number, E'０１２３４５６７８９٠١٢٣٤٥٦٧٨٩۰۱۲۳۴۵۶۷۸۹＋．（）－［］·•。‘’＇', E'012345678901234567890123456789+.()-[]...\'\'\''),
            E'[\\s\u0085\u00a0\u00ad\u061c\u1680\u180e\u2000-\u200f\u2010-\u2015\u2028-\u202f\u205f\u2060-\u206f\u2212\u3000\ufe63\ufeff()\\[\\]-]', '', 'g'
        ),
        '^(\+?[0-9]{7,})\.0{1,2}$', '\1'
    ),
    E'\\.|^\'+', '', 'g'
)
$_$;

COMMENT ON FUNCTION public.sql_inbox_number(number text) IS 'Removes the characters between the digits of a number, in the same way as package phone. A test compares the two.';

CREATE FUNCTION public.sql_inbox_outgoing() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    NEW.task_id := lksms.enqueue(
        NEW.phone_number, NEW.content, NEW.dedup_key, NEW.message_type, NEW.priority, NEW.expect_send_time, NEW.expires_at, NEW.sign, NEW.source,
        NEW.test, NEW.template_no, NEW.params, NEW.language
    );
    RETURN NEW;
END
$$;

COMMENT ON FUNCTION public.sql_inbox_outgoing() IS 'Trigger of lksms.outgoing: submits the row, with the rights of the caller.';

CREATE FUNCTION public.sql_inbox_put(caller public.users, of_id bigint, place integer, phone_number text, content text, dedup_key text, message_type text, priority integer, expect_send_time timestamp with time zone, expires_at timestamp with time zone, sign text, source text, test boolean, template_no text, params jsonb, language text) RETURNS text
    LANGUAGE plpgsql
    AS $_$
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
$_$;

COMMENT ON FUNCTION public.sql_inbox_put(caller public.users, of_id bigint, place integer, phone_number text, content text, dedup_key text, message_type text, priority integer, expect_send_time timestamp with time zone, expires_at timestamp with time zone, sign text, source text, test boolean, template_no text, params jsonb, language text) IS 'Checks a message like package queue, in the same order, and stores it in the inbox. Returns the id of its task. If the message repeats a dedup key, this is the id of the first task.';

CREATE FUNCTION public.sql_inbox_refuse(code text, field text, rule text, text_of_error text, place integer DEFAULT NULL::integer) RETURNS void
    LANGUAGE plpgsql
    AS $$
BEGIN
    IF place IS NULL THEN
        RAISE EXCEPTION USING ERRCODE = code, MESSAGE = field || ': ' || text_of_error, COLUMN = field, CONSTRAINT = rule;
    END IF;
    RAISE EXCEPTION USING ERRCODE = code, MESSAGE = field || ': ' || text_of_error, COLUMN = field, CONSTRAINT = rule,
        DETAIL = pg_catalog.format('Message %s of the set, counted from 1.', place);
END
$$;

COMMENT ON FUNCTION public.sql_inbox_refuse(code text, field text, rule text, text_of_error text, place integer) IS 'Rejects a message with an error. The SQLSTATE is the kind of the error. The column of the error names the field, and the constraint names the rule of package fault. place is the position of the message in a set.';

CREATE FUNCTION public.sql_inbox_segments(signed text) RETURNS integer
    LANGUAGE plpgsql IMMUTABLE
    AS $_$
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
$_$;

COMMENT ON FUNCTION public.sql_inbox_segments(signed text) IS 'Returns the number of segments of a text, like package segment. A test compares the two.';

CREATE FUNCTION public.sql_inbox_setting(of_name text, otherwise bigint) RETURNS bigint
    LANGUAGE sql STABLE
    AS $$
    SELECT coalesce((SELECT (s.value #>> '{}')::bigint FROM settings s WHERE s.category = 'sms' AND s.name = of_name), otherwise)
$$;

COMMENT ON FUNCTION public.sql_inbox_setting(of_name text, otherwise bigint) IS 'Returns a setting of the category sms. The default is that of package setting. A test compares the two.';

CREATE FUNCTION public.sql_inbox_store(given public.sql_inbox, earlier text) RETURNS text
    LANGUAGE plpgsql
    AS $$
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

COMMENT ON FUNCTION public.sql_inbox_store(given public.sql_inbox, earlier text) IS 'Stores a checked message in the inbox, and returns the id of its task. If the message repeats a dedup key, this is the id of the first task. A caller that already knows the first task passes it as earlier.';

CREATE FUNCTION public.sql_inbox_task_id(at timestamp with time zone, ordinal integer) RETURNS text
    LANGUAGE plpgsql
    AS $$
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

COMMENT ON FUNCTION public.sql_inbox_task_id(at timestamp with time zone, ordinal integer) IS 'Returns a task id in the form of package queue: the day and a ULID. The ids ascend with the microsecond, and within a microsecond with ordinal. ordinal is the position in a set, below 1024.';

CREATE FUNCTION public.sql_inbox_text(message jsonb, field text, place integer) RETURNS text
    LANGUAGE plpgsql STABLE
    AS $$
BEGIN
    IF jsonb_typeof(message -> field) NOT IN ('string', 'null') THEN
        PERFORM sql_inbox_refuse('LK014', field, 'wrong_type', 'must be a text', place);
    END IF;
    RETURN message ->> field;
END
$$;

COMMENT ON FUNCTION public.sql_inbox_text(message jsonb, field text, place integer) IS 'Returns a text member of a message of a set; null if the member is missing. Rejects the message if the member is not a text.';

CREATE FUNCTION public.sql_inbox_time(message jsonb, field text, place integer) RETURNS timestamp with time zone
    LANGUAGE plpgsql STABLE
    AS $_$
DECLARE
    given CONSTANT text := sql_inbox_text(message, field, place);
BEGIN
    IF given ~ '^[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?([Zz]|[+-][0-9]{2}:[0-9]{2})$' THEN
        RETURN given::timestamptz;
    ELSIF given IS NOT NULL THEN
        PERFORM sql_inbox_refuse('LK014', field, 'wrong_format', 'must be a time such as 2026-01-31T08:00:00Z', place);
    END IF;
    RETURN NULL;
EXCEPTION WHEN data_exception THEN
    PERFORM sql_inbox_refuse('LK014', field, 'wrong_format', 'must be a time such as 2026-01-31T08:00:00Z', place);
END
$_$;

COMMENT ON FUNCTION public.sql_inbox_time(message jsonb, field text, place integer) IS 'Returns a member of a message of a set as a time; null if the member is missing. Rejects the message if the member is not a time.';

CREATE FUNCTION public.sql_inbox_user() RETURNS public.users
    LANGUAGE plpgsql STABLE
    AS $$
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

COMMENT ON FUNCTION public.sql_inbox_user() IS 'Returns the user for whom the session submits. It uses session_user: in a function that runs with the rights of its owner, current_user is the owner.';

CREATE FUNCTION public.sql_role_grant(role_name text) RETURNS void
    LANGUAGE plpgsql
    AS $_$
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
$_$;

COMMENT ON FUNCTION public.sql_role_grant(role_name text) IS 'Grants a role the required privileges in the schema lksms. It runs with the rights of its caller, who must own the schema. It fails while roles other than the owner can create functions in the schema of the tables: functions of lksms could call such a function instead of a function of PostgreSQL.';

CREATE FUNCTION public.sql_role_revoke(role_name text) RETURNS void
    LANGUAGE plpgsql
    AS $$
BEGIN
    IF to_regrole(quote_ident(role_name)) IS NULL THEN
        RETURN; -- its grants left with it
    END IF;
    EXECUTE format('REVOKE ALL ON lksms.outgoing FROM %I', role_name);
    EXECUTE format('REVOKE ALL ON ALL FUNCTIONS IN SCHEMA lksms FROM %I', role_name);
    EXECUTE format('REVOKE ALL ON SCHEMA lksms FROM %I', role_name);
    IF EXISTS (SELECT FROM sql_roles r WHERE r.role_name = sql_role_revoke.role_name AND r.is_connect_granted) THEN
        EXECUTE format('REVOKE CONNECT ON DATABASE %I FROM %I', current_database(), role_name);
    END IF;
END
$$;

COMMENT ON FUNCTION public.sql_role_revoke(role_name text) IS 'Revokes the privileges that sql_role_grant granted. Run it before the row of sql_roles is deleted: is_connect_granted of this row says whether CONNECT is revoked, too.';

CREATE FUNCTION public.tag_contacts_count() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    IF TG_OP = 'DELETE' THEN
        UPDATE tags t SET contacts = t.contacts - r.contacts
        FROM (SELECT o.tag_id, count(*) AS contacts FROM removed o GROUP BY o.tag_id) r
        WHERE t.id = r.tag_id;
    ELSE
        UPDATE tags t SET contacts = t.contacts + a.contacts
        FROM (SELECT o.tag_id, count(*) AS contacts FROM added o GROUP BY o.tag_id) a
        WHERE t.id = a.tag_id;
    END IF;
    RETURN NULL;
END
$$;

CREATE FUNCTION public.tags_forget() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    INSERT INTO deleted_tags (tag_id) VALUES (OLD.id);
    RETURN NULL;
END
$$;

CREATE FUNCTION public.task_channel(of_rendering bigint) RETURNS bigint
    LANGUAGE sql STABLE
    AS $$
    SELECT CASE
        WHEN of_rendering IS NULL THEN (SELECT c.id FROM channels c WHERE c.channel = 'sms')
        ELSE coalesce(
            (SELECT n.channel_id FROM renderings r JOIN notifications n ON n.id = r.notification_id WHERE r.id = of_rendering),
            (SELECT c.id FROM renderings r JOIN channels c ON c.id = coalesce(
                r.channel_id, (SELECT w.id FROM channels w WHERE w.channel = 'wechat')
            ) WHERE r.id = of_rendering)
        )
    END
$$;

CREATE FUNCTION public.task_day_id(day date) RETURNS text
    LANGUAGE sql IMMUTABLE
    RETURN ((('task_'::text || lpad((EXTRACT(year FROM day))::text, 4, '0'::text)) || lpad((EXTRACT(month FROM day))::text, 2, '0'::text)) || lpad((EXTRACT(day FROM day))::text, 2, '0'::text));

CREATE FUNCTION public.task_fits(task public.queue, sender_no text, min_lease interval, from_segments bigint, rival_room bigint, retry_max_wait interval) RETURNS boolean
    LANGUAGE sql STABLE
    RETURN ((((task).expires_at IS NULL) OR ((task).expires_at > (now() + min_lease))) AND (public.quiet_begins(task) IS NOT TRUE) AND ((task).segments >= from_segments) AND (NOT (((task).segments <= rival_room) AND (NOT ((task).failed_app_id IS DISTINCT FROM sender_no)) AND COALESCE(((task).due_at > (now() - retry_max_wait)), true))));

COMMENT ON FUNCTION public.task_fits(task public.queue, sender_no text, min_lease interval, from_segments bigint, rival_room bigint, retry_max_wait interval) IS 'Returns whether a task can be offered to a sender. The task must not expire within min_lease, quiet hours of its recipient must not begin soon (quiet_begins), and the task must have at least from_segments segments. If the last attempt of the task failed with this sender, and the task has at most rival_room segments, the task is reserved for other senders. It is then offered to this sender only after it has been due for retry_max_wait (null: never).';

CREATE FUNCTION public.task_flow(batch_id bigint, submitted_by text) RETURNS text
    LANGUAGE sql IMMUTABLE
    RETURN COALESCE(('#'::text || (batch_id)::text), submitted_by, ''::text);

COMMENT ON FUNCTION public.task_flow(batch_id bigint, submitted_by text) IS 'Returns the flow of a task within its company: the batch of the task. A task without a batch belongs to the flow of its submitter.';

CREATE FUNCTION public.task_flow_start(of_pool bigint, of_priority smallint, of_company bigint, of_flow text, gap double precision) RETURNS double precision
    LANGUAGE plpgsql
    AS $$
BEGIN
    RETURN task_flow_start(of_pool, of_priority, of_company, of_flow, gap, 'infinity');
END
$$;

COMMENT ON FUNCTION public.task_flow_start(of_pool bigint, of_priority smallint, of_company bigint, of_flow text, gap double precision) IS 'Returns the smallest flow_rank that a new task of a flow can receive, if the caller has reserved no ranks.';

CREATE FUNCTION public.task_flow_start(of_pool bigint, of_priority smallint, of_company bigint, of_flow text, gap double precision, range_start double precision) RETURNS double precision
    LANGUAGE plpgsql
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_sort TO 'off'
    SET jit TO 'off'
    AS $$
BEGIN
    -- VOLATILE: it sees what was committed until the caller got the lock of the company's fair_ranks.
    RETURN greatest(
        least(
            (
                SELECT q.flow_rank FROM queue q
                WHERE q.pool_id = of_pool AND q.lane = 32 * of_priority AND q.company_id = of_company
                    AND q.lease_until IS NULL AND q.lane IS NOT NULL AND q.flow_rank IS NOT NULL
                ORDER BY q.flow_rank
                LIMIT 1
            ),
            task_queue_front(of_pool, of_priority), -- in an empty queue, after the ranks that the caller has reserved
            range_start
        ),
        (
            -- The last entry of queue_flows_idx that is not behind the flow. The order names all columns of the index, so that no other one serves.
            SELECT CASE WHEN (l.pool_id, l.lane, l.company_id, l.flow) = (of_pool, 32 * of_priority, of_company, of_flow) THEN l.flow_rank + gap END
            FROM (
                SELECT q.pool_id, q.lane, q.company_id, task_flow(q.batch_id, q.submitted_by) AS flow, q.flow_rank FROM queue q
                WHERE (q.pool_id, q.lane, q.company_id, task_flow(q.batch_id, q.submitted_by)) <= (of_pool, 32 * of_priority, of_company, of_flow)
                    AND q.lease_until IS NULL AND q.lane IS NOT NULL AND q.flow_rank IS NOT NULL
                ORDER BY q.pool_id DESC, q.lane DESC, q.company_id DESC, task_flow(q.batch_id, q.submitted_by) DESC, q.flow_rank DESC
                LIMIT 1
            ) l
        )
    );
END
$$;

COMMENT ON FUNCTION public.task_flow_start(of_pool bigint, of_priority smallint, of_company bigint, of_flow text, gap double precision, range_start double precision) IS 'Returns the smallest flow_rank that a new task of a flow can receive. It is greater than every flow_rank in the flow, and not before the first waiting task of the company. gap is 1 / weight of the company. A null flow has no tasks. range_start is the first of the ranks that the caller has reserved for the company.';

CREATE FUNCTION public.task_is_withdrawn(of_task text, of_company bigint, of_rendering bigint, of_user text) RETURNS boolean
    LANGUAGE plpgsql STABLE
    AS $$
DECLARE
    notification bigint;
    of_batch boolean;
BEGIN
    IF NOT EXISTS (SELECT FROM companies c WHERE c.id = of_company) THEN
        RETURN true;
    END IF;
    IF of_rendering IS NULL THEN
        RETURN false;
    END IF;
    SELECT r.notification_id, r.channel_id IS NOT NULL INTO notification, of_batch FROM renderings r WHERE r.id = of_rendering;
    IF NOT FOUND THEN
        RETURN true;
    END IF;
    IF of_batch THEN
        RETURN false;
    END IF;
    IF notification IS NULL THEN
        RETURN NOT EXISTS (SELECT FROM subscribe_messages s WHERE s.task_id = of_task);
    END IF;
    RETURN NOT EXISTS (
            SELECT FROM notifications n
            WHERE n.id = notification AND n.ended_as IS NULL AND n.deleted_at IS NULL AND n.replaced_at IS NULL AND n.forgotten_at IS NULL
        )
        OR EXISTS (
            SELECT FROM renderings l
            JOIN messages m ON m.rendering_id = l.id
            WHERE l.notification_id = notification AND l.id > of_rendering AND m.user_id = of_user
        );
END
$$;

CREATE FUNCTION public.task_partition_attach(of_first_day date, of_last_day date) RETURNS void
    LANGUAGE plpgsql
    SET lock_timeout TO '3s'
    SET search_path TO 'public', 'pg_temp'
    AS $$
DECLARE
    parent text;
    part text;
    first_id CONSTANT text := task_day_id(of_first_day);
    before_id CONSTANT text := task_day_id(of_last_day);
BEGIN
    LOCK TABLE messages_default, report_logs_default IN SHARE UPDATE EXCLUSIVE MODE; -- see task_partition_move
    PERFORM pg_catalog.set_config('lock_timeout', '100ms', true);
    LOCK TABLE ONLY messages, ONLY report_logs IN ACCESS EXCLUSIVE MODE;
    LOCK TABLE messages_default, report_logs_default IN ACCESS EXCLUSIVE MODE;
    FOREACH parent IN ARRAY ARRAY['report_logs', 'messages'] LOOP -- messages_default last: it says which tasks were left behind
        part := parent || substr(first_id, 5);
        EXECUTE pg_catalog.format(
            'DELETE FROM %I p USING messages_default d WHERE p.task_id = d.task_id AND d.task_id >= %L AND d.task_id < %L', part, first_id, before_id
        );
        EXECUTE pg_catalog.format('WITH moved AS (DELETE FROM %I WHERE task_id >= %L AND task_id < %L RETURNING *) INSERT INTO %I SELECT * FROM moved',
            parent || '_default', first_id, before_id, part);
        EXECUTE pg_catalog.format('ALTER TABLE %I ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)', parent, part, first_id, before_id);
        EXECUTE pg_catalog.format('ALTER TABLE %I DROP CONSTRAINT days', part);
    END LOOP;
    INSERT INTO task_partitions AS p (first_day, last_day, history_at, imported_at) VALUES (of_first_day, of_last_day, now(), now())
    ON CONFLICT (first_day) DO UPDATE
    SET last_day = excluded.last_day, created_at = excluded.created_at, history_at = excluded.history_at, exported_at = NULL, exported_to = NULL,
        exported_messages = NULL, exported_reports = NULL, exported_late = NULL, late_tasks = NULL, imported_at = excluded.imported_at, dropped_at = NULL;
END
$$;

CREATE FUNCTION public.task_partition_drop(of_first_day date, only_exported boolean DEFAULT false, late text[] DEFAULT '{}'::text[]) RETURNS text
    LANGUAGE plpgsql SECURITY DEFINER
    SET lock_timeout TO '3s'
    SET search_path TO 'public', 'pg_temp'
    AS $_$
DECLARE
    p task_partitions%ROWTYPE;
    part_of_messages text;
    part_of_reports text;
    is_exported boolean;
    late_messages messages[];
    late_reports report_logs[];
BEGIN
    late := coalesce(late, '{}'); -- with null, no task would wait
    SELECT * INTO p FROM task_partitions t WHERE t.first_day = of_first_day AND t.dropped_at IS NULL FOR UPDATE;
    IF NOT FOUND THEN
        RETURN 'absent';
    END IF;
    IF p.last_day >= (now() AT TIME ZONE 'UTC')::date THEN
        RETURN 'open';
    END IF;
    part_of_messages := 'messages' || substr(p.first_id, 5);
    part_of_reports := 'report_logs' || substr(p.first_id, 5);
    EXECUTE pg_catalog.format('LOCK TABLE %I, %I IN SHARE UPDATE EXCLUSIVE MODE', part_of_messages, part_of_reports);
    PERFORM pg_catalog.set_config('lock_timeout', '500ms', true);
    -- No row can be added from here on. A submission that has stored its message, and not yet its row of the queue, holds a lock of the partition.
    EXECUTE pg_catalog.format('LOCK TABLE %I, %I IN SHARE MODE', part_of_messages, part_of_reports);
    IF EXISTS (SELECT FROM queue q WHERE q.task_id >= p.first_id AND q.task_id < p.before_id AND q.task_id <> ALL (late)) THEN
        RETURN 'unsettled';
    END IF;
    IF only_exported THEN
        -- An export that left out others has as many rows by chance only, but a row of it may be missing then.
        IF late <> '{}' AND late IS DISTINCT FROM p.exported_late THEN
            RETURN 'unexported';
        END IF;
        EXECUTE pg_catalog.format(
            'SELECT (SELECT count(*) FROM %1$I) - (SELECT count(*) FROM %1$I WHERE task_id = ANY ($3)) = $1 '
            'AND (SELECT count(*) FROM %2$I) - (SELECT count(*) FROM %2$I WHERE task_id = ANY ($3)) = $2', part_of_messages, part_of_reports
        )
        INTO is_exported USING p.exported_messages, p.exported_reports, late;
        IF is_exported IS NOT TRUE THEN
            RETURN 'unexported';
        END IF;
    END IF;
    SELECT array_agg(m) INTO late_messages FROM messages m WHERE m.task_id = ANY (late) AND m.task_id >= p.first_id AND m.task_id < p.before_id;
    SELECT array_agg(r) INTO late_reports FROM report_logs r WHERE r.task_id = ANY (late) AND r.task_id >= p.first_id AND r.task_id < p.before_id;
    -- In the order of readers: the table before its partitions. Only now everybody waits.
    PERFORM pg_catalog.set_config('lock_timeout', '100ms', true);
    LOCK TABLE ONLY messages, ONLY report_logs IN ACCESS EXCLUSIVE MODE;
    EXECUTE pg_catalog.format('DROP TABLE %I', part_of_messages);
    EXECUTE pg_catalog.format('DROP TABLE %I', part_of_reports);
    -- into the default partitions themselves: through the tables, triggers would count the rows once more
    INSERT INTO messages_default SELECT m.* FROM unnest(late_messages) m;
    INSERT INTO report_logs_default SELECT r.* FROM unnest(late_reports) r;
    UPDATE task_partitions t SET dropped_at = clock_timestamp(), late_tasks = coalesce(cardinality(late_messages), 0), held_by = NULL
    WHERE t.first_day = p.first_day;
    RETURN 'dropped';
END
$_$;

CREATE FUNCTION public.task_partition_gather(of_first_day date) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'public', 'pg_temp'
    AS $$
DECLARE
    of_last_day date;
BEGIN
    LOCK TABLE task_partitions IN SHARE ROW EXCLUSIVE MODE; -- one caller at a time, see task_partitions_ahead
    SELECT t.last_day INTO of_last_day FROM task_partitions t WHERE t.first_day = of_first_day AND t.dropped_at IS NOT NULL;
    IF FOUND THEN
        PERFORM task_partition_make(of_first_day, of_last_day);
        UPDATE task_partitions t SET imported_at = now(), exported_late = NULL, late_tasks = NULL WHERE t.first_day = of_first_day;
    END IF;
END
$$;

CREATE FUNCTION public.task_partition_index(of_first_day date, of_last_day date) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'public', 'pg_temp'
    AS $$
DECLARE
    parent text;
    part text;
    made record;
BEGIN
    FOREACH parent IN ARRAY ARRAY['messages', 'report_logs'] LOOP
        part := parent || substr(task_day_id(of_first_day), 5);
        FOR made IN
            SELECT i.indexrelid, i.indisprimary, c.oid AS constraint_id
            FROM pg_index i
            LEFT JOIN pg_constraint c ON c.conindid = i.indexrelid AND c.contype = 'p'
            WHERE i.indrelid = parent::regclass
            ORDER BY i.indexrelid
        LOOP
            IF made.indisprimary THEN
                EXECUTE pg_catalog.format('ALTER TABLE %I ADD %s', part, pg_get_constraintdef(made.constraint_id));
            ELSE
                EXECUTE regexp_replace(
                    pg_get_indexdef(made.indexrelid), '^CREATE (UNIQUE )?INDEX \S+ ON (ONLY )?\S+', pg_catalog.format('CREATE \1INDEX ON %I', part)
                );
            END IF;
        END LOOP;
        EXECUTE pg_catalog.format(
            'ALTER TABLE %I ADD CONSTRAINT days CHECK (task_id >= %L AND task_id < %L)', part, task_day_id(of_first_day), task_day_id(of_last_day)
        );
        EXECUTE pg_catalog.format('ANALYZE %I', part);
    END LOOP;
END
$$;

CREATE FUNCTION public.task_partition_make(of_first_day date, of_last_day date) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET lock_timeout TO '3s'
    SET search_path TO 'public', 'pg_temp'
    AS $$
DECLARE
    parent text;
    part text;
    first_id CONSTANT text := task_day_id(of_first_day);
    before_id CONSTANT text := task_day_id(of_last_day);
BEGIN
    LOCK TABLE messages_default, report_logs_default IN SHARE UPDATE EXCLUSIVE MODE; -- see task_partition_move
    PERFORM pg_catalog.set_config('lock_timeout', '100ms', true);
    IF EXISTS (SELECT FROM messages_default m WHERE m.task_id >= first_id AND m.task_id < before_id)
        OR EXISTS (SELECT FROM report_logs_default r WHERE r.task_id >= first_id AND r.task_id < before_id) THEN
        LOCK TABLE ONLY messages, ONLY report_logs IN ACCESS EXCLUSIVE MODE;
    END IF;
    INSERT INTO task_partitions AS p (first_day, last_day) VALUES (of_first_day, of_last_day)
    ON CONFLICT (first_day) DO UPDATE
    SET last_day = excluded.last_day, created_at = excluded.created_at, history_at = NULL, exported_at = NULL, exported_to = NULL,
        exported_messages = NULL, exported_reports = NULL, imported_at = NULL, dropped_at = NULL
    WHERE p.dropped_at IS NOT NULL;
    FOREACH parent IN ARRAY ARRAY['messages', 'report_logs'] LOOP
        part := parent || substr(first_id, 5);
        -- Nobody may add rows of these days to the default partition until the new one is attached.
        EXECUTE pg_catalog.format('LOCK TABLE %I IN ACCESS EXCLUSIVE MODE', parent || '_default');
        EXECUTE pg_catalog.format('CREATE TABLE %I (LIKE %I INCLUDING DEFAULTS INCLUDING CONSTRAINTS)', part, parent);
        EXECUTE pg_catalog.format('WITH moved AS (DELETE FROM %I WHERE task_id >= %L AND task_id < %L RETURNING *) INSERT INTO %I SELECT * FROM moved',
            parent || '_default', first_id, before_id, part);
        EXECUTE pg_catalog.format('ALTER TABLE %I ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)', parent, part, first_id, before_id);
    END LOOP;
END
$$;

CREATE FUNCTION public.task_partition_move(of_first_day date, to_tablespace text) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER
    SET lock_timeout TO '3s'
    SET search_path TO 'public', 'pg_temp'
    AS $$
DECLARE
    suffix text;
    relation regclass;
    kind "char";
BEGIN
    SELECT substr(t.first_id, 5) INTO STRICT suffix FROM task_partitions t WHERE t.first_day = of_first_day AND t.dropped_at IS NULL;
    SELECT r.oid, r.relkind INTO relation, kind
    FROM pg_class t
    CROSS JOIN LATERAL (
        SELECT t.oid UNION ALL SELECT i.indexrelid FROM pg_index i WHERE i.indrelid = t.oid
    ) x (oid)
    JOIN pg_class r ON r.oid = x.oid
    WHERE t.oid IN (to_regclass('messages' || suffix), to_regclass('report_logs' || suffix))
        -- the tablespace of the database is 0 here
        AND coalesce(nullif(r.reltablespace, 0), (SELECT d.dattablespace FROM pg_database d WHERE d.datname = current_database()))
            <> (SELECT s.oid FROM pg_tablespace s WHERE s.spcname = to_tablespace)
    ORDER BY r.oid
    LIMIT 1;
    IF relation IS NULL THEN
        PERFORM FROM pg_tablespace s WHERE s.spcname = to_tablespace;
        IF NOT FOUND THEN
            RAISE EXCEPTION 'tablespace "%" does not exist', to_tablespace USING ERRCODE = 'undefined_object';
        END IF;
        RETURN false;
    END IF;
    EXECUTE pg_catalog.format('LOCK TABLE %I, %I IN SHARE UPDATE EXCLUSIVE MODE', 'messages' || suffix, 'report_logs' || suffix);
    PERFORM pg_catalog.set_config('lock_timeout', '100ms', true);
    EXECUTE pg_catalog.format(
        'ALTER %s %s SET TABLESPACE %I', CASE kind WHEN 'i' THEN 'INDEX' ELSE 'TABLE' END, relation::regclass, to_tablespace
    );
    RETURN true;
END
$$;

CREATE FUNCTION public.task_partition_stage(of_first_day date, of_last_day date) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'public', 'pg_temp'
    AS $$
DECLARE
    parent text;
BEGIN
    IF EXISTS (SELECT FROM task_partitions t WHERE t.dropped_at IS NULL AND t.first_day < of_last_day AND t.last_day > of_first_day) THEN
        RAISE EXCEPTION 'there are partitions for % to %', of_first_day, of_last_day - 1 USING ERRCODE = 'duplicate_table';
    END IF;
    PERFORM FROM task_partitions t WHERE t.first_day < of_last_day AND t.last_day > of_first_day ORDER BY t.first_day FOR UPDATE;
    FOREACH parent IN ARRAY ARRAY['messages', 'report_logs'] LOOP
        EXECUTE pg_catalog.format(
            'CREATE TABLE %I (LIKE %I INCLUDING DEFAULTS INCLUDING CONSTRAINTS)', parent || substr(task_day_id(of_first_day), 5), parent
        );
        EXECUTE pg_catalog.format(
            'ALTER TABLE %I OWNER TO %I', parent || substr(task_day_id(of_first_day), 5),
            (SELECT pg_get_userbyid(c.relowner) FROM pg_class c WHERE c.oid = parent::regclass)
        );
    END LOOP;
END
$$;

CREATE FUNCTION public.task_partitions_ahead(width text, first_at timestamp with time zone, last_at timestamp with time zone) RETURNS integer
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'public', 'pg_temp'
    AS $$
DECLARE
    day date := greatest(
        date_trunc(width, first_at AT TIME ZONE 'UTC')::date,
        (SELECT max(p.last_day) FROM task_partitions p WHERE p.dropped_at IS NOT NULL AND p.last_day <= (first_at AT TIME ZONE 'UTC')::date)
    );
    until CONSTANT date := date_trunc('day', last_at AT TIME ZONE 'UTC');
    after date;
    made integer := 0;
BEGIN
    IF width NOT IN ('day', 'week', 'month') THEN
        RAISE EXCEPTION 'partitions are a day, week or month wide, not %', width;
    END IF;
    LOCK TABLE task_partitions IN SHARE ROW EXCLUSIVE MODE; -- one caller at a time
    WHILE day <= until LOOP
        SELECT p.last_day INTO after FROM task_partitions p WHERE p.first_day <= day AND p.last_day > day AND p.dropped_at IS NULL;
        IF after IS NULL THEN
            after := least(
                (date_trunc(width, day::timestamp) + ('1 ' || width)::interval)::date,
                (SELECT min(p.first_day) FROM task_partitions p WHERE p.first_day > day)
            );
            PERFORM task_partition_make(day, after);
            made := made + 1;
        END IF;
        day := after;
    END LOOP;
    RETURN made;
END
$$;

CREATE FUNCTION public.task_queue_front(of_pool bigint, of_priority smallint) RETURNS double precision
    LANGUAGE plpgsql STABLE COST 1
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_sort TO 'off'
    SET jit TO 'off'
    AS $$
BEGIN
    RETURN coalesce(
        (
            SELECT q.rank FROM queue q
            WHERE q.pool_id = of_pool AND q.lane = 32 * of_priority AND q.lease_until IS NULL AND q.lane IS NOT NULL
            ORDER BY q.rank
            LIMIT 1
        ),
        (SELECT max(f.finish) FROM fair_ranks f WHERE f.pool_id = of_pool AND f.priority = of_priority),
        0
    );
END
$$;

CREATE FUNCTION public.task_ranks_reserve(task_ids text[], pool_ids bigint[], priorities smallint[], company_ids bigint[], flows text[]) RETURNS TABLE(task_id text, rank double precision, flow_rank double precision)
    LANGUAGE plpgsql STRICT ROWS 100
    AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    WITH asked AS MATERIALIZED (
        -- The collation of an argument becomes the collation of all texts of the function. task_flow_start needs the collation of queue_flows_idx.
        SELECT a.task_id, a.pool_id, a.priority, a.company_id, a.flow COLLATE "default" AS flow, 1 / c.weight AS gap,
            row_number() OVER (PARTITION BY a.pool_id, a.priority, a.company_id ORDER BY a.i) - 1 AS nth
        FROM unnest(task_ids, pool_ids, priorities, company_ids, flows) WITH ORDINALITY AS a (task_id, pool_id, priority, company_id, flow, i)
        JOIN companies c ON c.id = a.company_id
    ),
    reserved AS (
        INSERT INTO fair_ranks AS f (pool_id, priority, company_id, start, finish, flow, flow_finish)
        SELECT g.pool_id, g.priority, g.company_id, v.front, v.front + g.width, g.flow, CASE WHEN g.flow IS NULL THEN v.front END
        FROM (
            SELECT a.pool_id, a.priority, a.company_id, count(*) * a.gap AS width, CASE WHEN min(a.flow) = max(a.flow) THEN min(a.flow) END AS flow
            FROM asked a
            GROUP BY a.pool_id, a.priority, a.company_id, a.gap
        ) g
        CROSS JOIN LATERAL (SELECT task_queue_front(g.pool_id, g.priority) AS front OFFSET 0) v -- OFFSET 0: task_queue_front is called once for each group
        ORDER BY g.pool_id, g.priority, g.company_id
        ON CONFLICT (pool_id, priority, company_id) DO UPDATE
        SET start = greatest(f.finish, excluded.start),
            finish = greatest(f.finish, excluded.start) + (excluded.finish - excluded.start),
            flow = CASE WHEN f.finish <= excluded.start THEN excluded.flow ELSE f.flow END, -- if finish is before the front, no task of the company waits
            flow_finish = CASE
                WHEN f.finish <= excluded.start AND excluded.flow IS NOT NULL THEN NULL
                WHEN f.flow = excluded.flow THEN f.flow_finish
                ELSE coalesce(f.flow_finish, f.finish)
            END
        RETURNING f.pool_id, f.priority, f.company_id, f.start, f.flow, f.flow_finish
    ),
    flow_ranks AS ( -- of companies with several flows; for the others, this reads nothing
        SELECT t.task_id,
            -- The first task of a flow determines where the flow starts.
            t.nth_of_flow * t.gap + max(CASE WHEN t.nth_of_flow = 0 THEN greatest(
                task_flow_start(t.pool_id, t.priority, t.company_id, t.flow, t.gap, t.start),
                CASE WHEN t.only_flow = t.flow OR t.only_flow IS NULL THEN t.flow_finish END
            ) END) OVER (PARTITION BY t.pool_id, t.priority, t.company_id, t.flow) AS flow_rank
        FROM (
            SELECT a.*, r.start, r.flow AS only_flow, r.flow_finish,
                row_number() OVER (PARTITION BY a.pool_id, a.priority, a.company_id, a.flow ORDER BY a.nth) - 1 AS nth_of_flow
            FROM reserved r
            JOIN asked a ON a.pool_id = r.pool_id AND a.priority = r.priority AND a.company_id = r.company_id
            WHERE r.flow_finish IS NOT NULL
        ) t
    )
    SELECT a.task_id, r.start + a.nth * a.gap, w.flow_rank
    FROM asked a
    JOIN reserved r ON r.pool_id = a.pool_id AND r.priority = a.priority AND r.company_id = a.company_id
    LEFT JOIN flow_ranks w ON w.task_id = a.task_id;
END
$$;

COMMENT ON FUNCTION public.task_ranks_reserve(task_ids text[], pool_ids bigint[], priorities smallint[], company_ids bigint[], flows text[]) IS 'Reserves the ranks of tasks by start-time fair queueing, and returns the rank and the flow_rank of each task. The arrays have one element for each task, in the order of the tasks. A group is the tasks of one pool, priority and company. A group receives the next range of ranks of its company, but never a range before the head of the queue. A task uses 1 / weight of its company. While tasks of one flow of a company wait, tasks of its other flows receive a flow_rank, by start-time fair queueing within the company. The rows of fair_ranks are locked in one order until the transaction ends, so that ranks ascend in the order in which tasks become visible.';

CREATE FUNCTION public.task_segments(content text, sign text, counted smallint, sender_sign text, segment_size bigint, counts_segments boolean) RETURNS bigint
    LANGUAGE sql IMMUTABLE
    RETURN CASE WHEN (NOT counts_segments) THEN (1)::bigint WHEN ((segment_size IS NULL) AND ((sender_sign IS NULL) OR (sign IS NOT NULL))) THEN (counted)::bigint ELSE public.attempt_segments((COALESCE((('【'::text || COALESCE(sign, sender_sign)) || '】'::text), ''::text) || content), counted, segment_size, ((sender_sign IS NOT NULL) AND (sign IS NULL))) END;

CREATE FUNCTION public.task_submitter(of_task text) RETURNS text
    LANGUAGE plpgsql STABLE
    AS $$
DECLARE
    submitter text;
BEGIN
    EXECUTE format('SELECT m.submitted_by FROM messages m WHERE m.task_id = %L', of_task) INTO submitter;
    RETURN submitter;
END
$$;

COMMENT ON FUNCTION public.task_submitter(of_task text) IS 'Returns the submitter of a task, from messages. Statements call it for a task that was stored by a server that did not know queue.submitted_by.';

CREATE FUNCTION public.task_switches(of_pool bigint, of_company bigint, of_country text, of_submitter text) RETURNS TABLE(switch text, name text)
    LANGUAGE sql STABLE
    AS $$
    SELECT 'company', c.company_no FROM companies c WHERE c.id = of_company AND c.status = 'off'
    UNION ALL
    SELECT 'user', u.username FROM users u WHERE u.username = of_submitter AND u.is_disabled
    UNION ALL
    SELECT 'channel', k.channel FROM pools p JOIN channels k ON k.id = p.channel_id WHERE p.id = of_pool AND k.status = 'off'
    UNION ALL
    SELECT 'country', n.country_no FROM countries n WHERE n.country_no = of_country AND n.status = 'off'
    UNION ALL
    SELECT 'company_country', coalesce(of_country, '')
    FROM pools p
    JOIN channels k ON k.id = p.channel_id AND k.channel = 'sms' -- only its recipients have countries
    JOIN companies c ON c.id = of_company
    WHERE p.id = of_pool AND CASE
        WHEN EXISTS (SELECT FROM company_countries x WHERE x.company_id = of_company AND x.status = 'on') THEN NOT EXISTS (
            SELECT FROM countries n JOIN company_countries x ON x.country_id = n.id
            WHERE n.country_no = of_country AND x.company_id = of_company AND x.status = 'on'
        )
        WHEN c.any_country THEN EXISTS (
            SELECT FROM countries n JOIN company_countries x ON x.country_id = n.id
            WHERE n.country_no = of_country AND x.company_id = of_company AND x.status = 'off'
        )
        ELSE true
    END
    UNION ALL
    SELECT 'channel_country', coalesce(of_country, '')
    FROM pools p
    JOIN channels k ON k.id = p.channel_id AND k.channel = 'sms'
    WHERE p.id = of_pool AND CASE
        WHEN EXISTS (SELECT FROM channel_countries x WHERE x.channel_id = k.id AND x.status = 'on') THEN NOT EXISTS (
            SELECT FROM countries n JOIN channel_countries x ON x.country_id = n.id
            WHERE n.country_no = of_country AND x.channel_id = k.id AND x.status = 'on'
        )
        WHEN k.any_country THEN EXISTS (
            SELECT FROM countries n JOIN channel_countries x ON x.country_id = n.id
            WHERE n.country_no = of_country AND x.channel_id = k.id AND x.status = 'off'
        )
        ELSE true
    END
    UNION ALL
    SELECT 'shared_senders', c.company_no
    FROM pools p
    JOIN companies c ON c.id = of_company
    WHERE p.id = of_pool AND p.company_id IS NULL AND p.retired_at IS NULL AND NOT c.uses_shared_senders
$$;

COMMENT ON FUNCTION public.task_switches(of_pool bigint, of_company bigint, of_country text, of_submitter text) IS 'Returns the switches that hold a task of a pool, company, country (null: unknown) and submitter. Each row has the kind and the name of a switch that is off. If nothing holds the task, the function returns no row. The kind shared_senders means: no active route of the company serves the task, and the company does not use shared senders.';

CREATE SEQUENCE public.submission_ids
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;

CREATE TABLE public.messages (
    task_id text NOT NULL COLLATE pg_catalog."C",
    phone_number text NOT NULL,
    recipient text NOT NULL,
    content text NOT NULL,
    source text,
    submitted_by text NOT NULL,
    dedup_key text,
    company_id bigint NOT NULL,
    pool_id bigint NOT NULL,
    message_type smallint NOT NULL,
    country_no text,
    priority smallint NOT NULL,
    segments smallint NOT NULL,
    sign text,
    is_test boolean DEFAULT false NOT NULL,
    expect_send_time timestamp with time zone,
    expires_at timestamp with time zone,
    rendering_id bigint,
    user_id text,
    on_unclear text,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    submission_id bigint DEFAULT nextval('public.submission_ids'::regclass) NOT NULL,
    request_id text,
    submitted_content text,
    use_template boolean,
    source_ip text,
    user_agent text,
    request_data jsonb,
    traceparent text,
    batch_id bigint,
    sender_no text,
    contact_values jsonb,
    exemption text,
    is_sensitive boolean DEFAULT false NOT NULL,
    CONSTRAINT messages_content_length CHECK (((char_length(content) >= 1) AND (char_length(content) <= 1024))),
    CONSTRAINT messages_created_at_range CHECK (((created_at >= '1970-01-01 00:00:00+00'::timestamp with time zone) AND (created_at <= '9999-01-01 00:00:00+00'::timestamp with time zone))),
    CONSTRAINT messages_message_type_known CHECK (((message_type >= 0) AND (message_type <= 2))),
    CONSTRAINT messages_on_unclear_known CHECK ((on_unclear = ANY (ARRAY['retry'::text, 'fail'::text]))),
    CONSTRAINT messages_priority_range CHECK (((priority >= 0) AND (priority <= 9))),
    CONSTRAINT messages_segments_range CHECK (((segments >= 1) AND (segments <= 100))),
    CONSTRAINT messages_source_length CHECK (((char_length(source) >= 1) AND (char_length(source) <= 50))),
    CONSTRAINT messages_task_id_length CHECK (((char_length(task_id) >= 1) AND (char_length(task_id) <= 50)))
)
PARTITION BY RANGE (task_id);

COMMENT ON TABLE public.messages IS 'A task as it was submitted, with its submission. Written once by internal/dispatch/queue; only the erasure of a person changes it. Partitioned by task_id, which ascends with time. The state of the task is in queue until the task ends, and then in report_logs. The view tasks shows both. There are no foreign keys, because each submission would lock rows of other tables.';

COMMENT ON COLUMN public.messages.task_id IS 'contains the day and ascends with time';

COMMENT ON COLUMN public.messages.phone_number IS 'the recipient as the caller wrote it';

COMMENT ON COLUMN public.messages.recipient IS 'on the channel sms the phone number in E.164, on other channels the address. empty: the person has no address, or was erased';

COMMENT ON COLUMN public.messages.content IS 'the text without signature. For a task with a rendering, it is only the beginning of the text';

COMMENT ON COLUMN public.messages.source IS 'the submitting system, as its caller names it; null: not given';

COMMENT ON COLUMN public.messages.submitted_by IS 'the username; a user with the role submit sees only its own tasks; empty: unknown';

COMMENT ON COLUMN public.messages.dedup_key IS 'the submitter''s name for the message, see dedup_keys; null: no key';

COMMENT ON COLUMN public.messages.pool_id IS 'the pool in which the task was first queued';

COMMENT ON COLUMN public.messages.message_type IS '0 verification, 1 notification, 2 marketing';

COMMENT ON COLUMN public.messages.country_no IS 'the country at the time of the submission; null: the number belongs to no known country';

COMMENT ON COLUMN public.messages.priority IS '0 to 9, smaller is more urgent';

COMMENT ON COLUMN public.messages.segments IS 'number of segments of the text with its signature, counted at the submission';

COMMENT ON COLUMN public.messages.sign IS 'the signature without brackets; null: the signature of the sender';

COMMENT ON COLUMN public.messages.is_test IS 'true: the submitter marked the message as a test. Statistics count tests separately, and a setting can prevent the sending of tests';

COMMENT ON COLUMN public.messages.expect_send_time IS 'the time at which the submitter wants the message to be sent, or the next interval of a scheduled template; null: at once';

COMMENT ON COLUMN public.messages.expires_at IS 'the message is not sent after this time; null: it never expires. The withdrawal of a notification does not change this time: it sets an earlier time in queue';

COMMENT ON COLUMN public.messages.rendering_id IS 'the rendering of a task of a notification, send-once message or batch; null: the task has its own text';

COMMENT ON COLUMN public.messages.user_id IS 'contacts.user_id of the recipient; null: a submitted message';

COMMENT ON COLUMN public.messages.on_unclear IS 'what happens if it is unknown whether the message was sent, see senders.on_unclear; null: the value of the sender';

COMMENT ON COLUMN public.messages.submission_id IS 'the id of the submission in receive_logs';

COMMENT ON COLUMN public.messages.submitted_content IS 'the content of the request, or the params for its template_no; null: the same as content';

COMMENT ON COLUMN public.messages.request_data IS 'the unchanged request. For a message from a template, the server adds the member template: the number, version and language of the text';

COMMENT ON COLUMN public.messages.traceparent IS 'the header traceparent of the submission (W3C Trace Context); null: the submission had none';

COMMENT ON COLUMN public.messages.batch_id IS 'the batch of the task; null: no batch. There is no foreign key, because each submission would lock the batch';

COMMENT ON COLUMN public.messages.sender_no IS 'the only sender that is allowed to send the task; null: any sender of its pool';

COMMENT ON COLUMN public.messages.contact_values IS 'the values of this person for the placeholders ${contact.…}. The rendering is then a template, which is filled with its params and these values. null: the text of the rendering is complete';

COMMENT ON COLUMN public.messages.exemption IS 'the rules about recipients that do not concern the message, also if it is requeued. caps: caps neither delay nor refuse nor count it. caps_and_quiet: the same, and it has no quiet hours. null: all rules concern it, or a server that did not know this column stored it';

COMMENT ON COLUMN public.messages.is_sensitive IS 'content, submitted_content, request_data and contact_values contain a mask instead of the sensitive text. While the message waits, queue.sealed contains this text';

CREATE SEQUENCE public.report_ids
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;

CREATE TABLE public.report_logs (
    id bigint DEFAULT nextval('public.report_ids'::regclass) NOT NULL,
    task_id text NOT NULL COLLATE pg_catalog."C",
    company_id bigint NOT NULL,
    app_id text,
    lease_id bigint,
    event text NOT NULL,
    status smallint,
    effect text NOT NULL,
    error_message text,
    request_data jsonb,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    outcome smallint,
    result text,
    retry_count smallint,
    due_at timestamp with time zone,
    leased_at timestamp with time zone,
    lease_until timestamp with time zone,
    lease_segments smallint,
    lease_sign text,
    lease_limit smallint,
    pool_id bigint,
    message_type smallint,
    segments smallint,
    entered_at timestamp with time zone,
    batch_id bigint,
    country_no text,
    is_test boolean DEFAULT false NOT NULL,
    lease_sign_mode text,
    lease_sim smallint,
    CONSTRAINT report_logs_effect_known CHECK ((effect = ANY (ARRAY['success'::text, 'failed'::text, 'retry'::text, 'exhausted'::text, 'unclear'::text, 'untried'::text, 'troubled'::text, 'ignored'::text, 'refused'::text, 'cancelled'::text, 'expired'::text, 'delivered'::text, 'undelivered'::text, 'requeued'::text]))),
    CONSTRAINT report_logs_error_message_length CHECK ((char_length(error_message) <= 500)),
    CONSTRAINT report_logs_event_known CHECK ((event = ANY (ARRAY['reported'::text, 'recovered'::text, 'released'::text, 'cancelled'::text, 'expired'::text, 'receipt'::text, 'past_receipt'::text, 'unreachable'::text, 'requeued'::text, 'simulated'::text]))),
    CONSTRAINT report_logs_lease_complete CHECK (((leased_at IS NULL) OR ((app_id IS NOT NULL) AND (lease_id IS NOT NULL) AND (lease_until IS NOT NULL) AND (retry_count IS NOT NULL)))),
    CONSTRAINT report_logs_outcome_known CHECK ((outcome = ANY (ARRAY[2, 3, 4]))),
    CONSTRAINT report_logs_result_length CHECK ((char_length(result) <= 500)),
    CONSTRAINT report_logs_times_range CHECK ((((created_at >= '1970-01-01 00:00:00+00'::timestamp with time zone) AND (created_at <= '9999-01-01 00:00:00+00'::timestamp with time zone)) AND ((due_at >= '1970-01-01 00:00:00+00'::timestamp with time zone) AND (due_at <= '9999-01-01 00:00:00+00'::timestamp with time zone)) AND ((leased_at >= '1970-01-01 00:00:00+00'::timestamp with time zone) AND (leased_at <= '9999-01-01 00:00:00+00'::timestamp with time zone)) AND ((lease_until >= '1970-01-01 00:00:00+00'::timestamp with time zone) AND (lease_until <= '9999-01-01 00:00:00+00'::timestamp with time zone))))
)
PARTITION BY RANGE (task_id);

COMMENT ON TABLE public.report_logs IS 'An event of a task: the end of a lease or of the task, a report that changed nothing, a receipt of a provider, or a requeue. Written by internal/dispatch/queue. A requeue clears the outcome of the row that ended the task. The erasure of a person clears its texts. Nothing else changes rows. Partitioned like messages, so that all data of a task is dropped together.';

COMMENT ON COLUMN public.report_logs.company_id IS 'see messages.company_id';

COMMENT ON COLUMN public.report_logs.app_id IS 'sender_no; null: the row is not about a sender';

COMMENT ON COLUMN public.report_logs.lease_id IS 'the lease that the event ended, or that the report named; null: no lease';

COMMENT ON COLUMN public.report_logs.event IS 'the kind of the event. past_receipt: a receipt of an attempt from before the task was requeued. simulated: a test message that no sender received. The other names explain themselves';

COMMENT ON COLUMN public.report_logs.status IS '2 SUCCESS or 3 FAILED, as reported; null: not a report';

COMMENT ON COLUMN public.report_logs.effect IS 'success, failed: ended the task. retry: the task waits for a retry. exhausted: FAILED, because no retry is left. unclear: FAILED, because it is unknown whether the message was sent. untried, troubled: the lease was given back. ignored, refused: changed nothing. cancelled, expired: ended the task. delivered, undelivered: a receipt. requeued: the task waits again like a new task';

COMMENT ON COLUMN public.report_logs.error_message IS 'the text of a report or of a release. For a requeue, it is the remark of the user. null: no text';

COMMENT ON COLUMN public.report_logs.request_data IS 'the unchanged report. For a cancellation or a requeue, it is the user: {"by": ...}. null: no data';

COMMENT ON COLUMN public.report_logs.outcome IS 'the state in which this event ended the task: 2 SUCCESS, 3 FAILED, 4 CANCELLED; null: the event did not end the task, or the task was requeued since';

COMMENT ON COLUMN public.report_logs.result IS 'the outcome as a text for operators. For a receipt, it is the status code of the provider. null: the event did not end the task';

COMMENT ON COLUMN public.report_logs.retry_count IS 'number of retries before this event; null: the event changed nothing';

COMMENT ON COLUMN public.report_logs.due_at IS 'the time from which the task could be claimed; null: the event changed nothing, or the row is older than this column';

COMMENT ON COLUMN public.report_logs.leased_at IS 'the beginning of the lease that the event ended; null: the event ended no lease, or an earlier row ended it. The columns lease_... describe the same lease';

COMMENT ON COLUMN public.report_logs.lease_segments IS 'see queue.lease_segments';

COMMENT ON COLUMN public.report_logs.lease_sign IS 'see queue.lease_sign';

COMMENT ON COLUMN public.report_logs.lease_limit IS 'see queue.lease_limit';

COMMENT ON COLUMN public.report_logs.pool_id IS 'the pool of the task. For a receipt, it is the pool of the submission. null: the event changed nothing, or the row is older than this column';

COMMENT ON COLUMN public.report_logs.message_type IS 'see messages.message_type; null in the same cases as pool_id';

COMMENT ON COLUMN public.report_logs.segments IS 'see messages.segments; null in the same cases as pool_id';

COMMENT ON COLUMN public.report_logs.entered_at IS 'see queue.entered_at; also null if the task was never in the queue, and for a receipt';

COMMENT ON COLUMN public.report_logs.batch_id IS 'see messages.batch_id; null: no batch, or the row is older than this column';

COMMENT ON COLUMN public.report_logs.country_no IS 'see messages.country_no; null: no country, or the row is older than this column';

COMMENT ON COLUMN public.report_logs.is_test IS 'see messages.is_test; false for rows that are older than this column';

COMMENT ON COLUMN public.report_logs.lease_sign_mode IS 'see queue.lease_sign_mode';

COMMENT ON COLUMN public.report_logs.lease_sim IS 'see queue.lease_sim';

CREATE VIEW public.tasks AS
 SELECT m.task_id,
    m.phone_number,
    m.recipient,
    m.content,
    (
        CASE
            WHEN (q.task_id IS NULL) THEN COALESCE((e.outcome)::integer, 3)
            WHEN (q.lease_until IS NULL) THEN 0
            ELSE 1
        END)::smallint AS status,
    m.source,
    m.submitted_by,
    m.dedup_key,
    (COALESCE((q.retry_count)::integer, (e.retry_count)::integer, 0))::smallint AS retry_count,
    NULLIF(COALESCE(q.due_at, e.due_at, m.created_at), public.held_due_at()) AS due_at,
    COALESCE(q.processing_app_id,
        CASE
            WHEN ((e.event = 'reported'::text) AND (e.effect <> 'exhausted'::text)) THEN e.app_id
            ELSE NULL::text
        END) AS processing_app_id,
    COALESCE(q.lease_id, e.lease_id) AS lease_id,
    q.lease_until,
    COALESCE(q.result, e.result) AS result,
    m.created_at,
    COALESCE(q.updated_at, e.created_at, m.created_at) AS updated_at,
        CASE
            WHEN ((e.outcome = 2) AND (e.event = 'reported'::text)) THEN e.created_at
            ELSE NULL::timestamp with time zone
        END AS sent_at,
        CASE
            WHEN (e.outcome = ANY (ARRAY[2, 3])) THEN e.created_at
            ELSE NULL::timestamp with time zone
        END AS reported_at,
    m.company_id,
    COALESCE(q.pool_id, m.pool_id) AS pool_id,
    m.message_type,
    m.country_no,
    m.priority,
    m.segments,
    m.sign,
    m.is_test,
    m.expect_send_time,
    COALESCE(
        CASE
            WHEN (q.taken_back_by IS NULL) THEN q.expires_at
            ELSE NULL::timestamp with time zone
        END, m.expires_at) AS expires_at,
    q.failed_app_id,
    q.lane,
    q.rank,
    m.rendering_id,
    m.user_id,
    (
        CASE
            WHEN (d.task_id IS NOT NULL) THEN 1
            WHEN (u.task_id IS NOT NULL) THEN 2
            ELSE NULL::integer
        END)::smallint AS delivery,
        CASE
            WHEN (d.task_id IS NOT NULL) THEN d.result
            ELSE u.result
        END AS delivery_code,
    d.created_at AS delivered_at,
    m.on_unclear,
    m.batch_id,
    m.sender_no
   FROM ((((public.messages m
     LEFT JOIN public.queue q ON ((q.task_id = m.task_id)))
     LEFT JOIN public.report_logs e ON (((e.task_id = m.task_id) AND (e.outcome IS NOT NULL))))
     LEFT JOIN public.report_logs d ON (((d.task_id = m.task_id) AND (d.event = 'receipt'::text) AND (d.effect = 'delivered'::text))))
     LEFT JOIN public.report_logs u ON (((u.task_id = m.task_id) AND (u.event = 'receipt'::text) AND (u.effect = 'undelivered'::text))));

COMMENT ON VIEW public.tasks IS 'The state of each task. The view joins messages (submitted data), queue (waiting and leased tasks) and report_logs (outcomes). Read it by task_id or rendering_id, because other columns have no index. For a task that has ended, pool_id and expires_at are the values of its submission, and failed_app_id is null. due_at is null while the task is held, and for a task that ended while it was held.';

CREATE FUNCTION public.tasks_between(from_id text, to_id text) RETURNS SETOF public.tasks
    LANGUAGE sql STABLE
    AS $$
    SELECT m.task_id, m.phone_number, m.recipient, m.content,
        CASE WHEN q.task_id IS NULL THEN coalesce(e.outcome, 3) WHEN q.lease_until IS NULL THEN 0 ELSE 1 END::smallint AS status,
        m.source, m.submitted_by, m.dedup_key,
        coalesce(q.retry_count, e.retry_count, 0)::smallint AS retry_count,
        nullif(coalesce(q.due_at, e.due_at, m.created_at), held_due_at())::timestamptz AS due_at,
        coalesce(q.processing_app_id, CASE WHEN e.event = 'reported' AND e.effect <> 'exhausted' THEN e.app_id END) AS processing_app_id,
        coalesce(q.lease_id, e.lease_id) AS lease_id,
        q.lease_until, coalesce(q.result, e.result) AS result, m.created_at,
        coalesce(q.updated_at, e.created_at, m.created_at)::timestamptz AS updated_at,
        CASE WHEN e.outcome = 2 AND e.event = 'reported' THEN e.created_at END AS sent_at,
        CASE WHEN e.outcome IN (2, 3) THEN e.created_at END AS reported_at,
        m.company_id, coalesce(q.pool_id, m.pool_id)::bigint AS pool_id, m.message_type, m.country_no, m.priority, m.segments, m.sign,
        m.is_test, m.expect_send_time, coalesce(CASE WHEN q.taken_back_by IS NULL THEN q.expires_at END, m.expires_at) AS expires_at, q.failed_app_id, q.lane, q.rank,
        m.rendering_id, m.user_id,
        CASE r.effect WHEN 'delivered' THEN 1 WHEN 'undelivered' THEN 2 END::smallint AS delivery,
        r.result AS delivery_code, CASE r.effect WHEN 'delivered' THEN r.created_at END AS delivered_at, m.on_unclear,
        m.batch_id, m.sender_no
    FROM messages m
    LEFT JOIN queue q ON q.task_id = m.task_id
    LEFT JOIN report_logs e ON e.task_id = m.task_id AND e.task_id BETWEEN from_id AND to_id AND e.outcome IS NOT NULL
    LEFT JOIN LATERAL (
        SELECT d.effect, d.result, d.created_at FROM report_logs d
        WHERE d.task_id = m.task_id AND d.task_id BETWEEN from_id AND to_id AND d.event = 'receipt' AND d.effect IN ('delivered', 'undelivered')
        ORDER BY d.effect -- delivered before undelivered
        LIMIT 1
    ) r ON true
    WHERE m.task_id BETWEEN from_id AND to_id
$$;

COMMENT ON FUNCTION public.tasks_between(from_id text, to_id text) IS 'Returns the rows of the view tasks from from_id to to_id, including both. It opens only the partitions of this range. The function and the view have the same definition in two forms: change both together.';

CREATE FUNCTION public.unsigned_segments(content text) RETURNS bigint
    LANGUAGE sql IMMUTABLE
    RETURN CASE WHEN (content !~ '[^@£$¥èéùìòÇ\nØø\rÅåΔ_ΦΓΛΩΠΨΣΘΞÆæßÉ !"#¤%&''()*+,\-./0-9:;<=>?¡A-ZÄÖÑÜ§¿a-zäöñüà\f^{}\\[~\]|€]'::text) THEN CASE WHEN ((char_length(content) + char_length(regexp_replace(content, '[^\f^{}\\[~\]|€]'::text, ''::text, 'g'::text))) <= 160) THEN (1)::numeric ELSE ceil((((char_length(content) + char_length(regexp_replace(content, '[^\f^{}\\[~\]|€]'::text, ''::text, 'g'::text))))::numeric / 153.0)) END ELSE (public.attempt_segments(content, NULL::smallint, NULL::bigint, true))::numeric END;

CREATE FUNCTION public.unsigned_text(content text, sign text) RETURNS text
    LANGUAGE plpgsql IMMUTABLE
    AS $$
BEGIN
    WHILE starts_with(content, '【' || sign || '】') LOOP -- no sign: null, which ends the loop
        content := substr(content, char_length(sign) + 3);
    END LOOP;
    RETURN content;
END
$$;

COMMENT ON FUNCTION public.unsigned_text(content text, sign text) IS 'Removes the signature sign from the beginning of a text, also if it is repeated there. segment.Unsigned of internal/dispatch/segment does the same.';

CREATE FUNCTION public.used_in_window(unit text, at timestamp with time zone, time_zone text, used bigint, used_at timestamp with time zone) RETURNS bigint
    LANGUAGE sql STABLE
    RETURN CASE WHEN (date_trunc(unit, used_at, time_zone) >= date_trunc(unit, at, time_zone)) THEN used ELSE (0)::bigint END;

CREATE FUNCTION public.users_end_sessions() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    DELETE FROM sessions s WHERE s.username = old.username;
    RETURN NULL;
END
$$;

CREATE FUNCTION public.users_end_webhooks() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    DELETE FROM webhooks w WHERE w.user_id = NEW.id;
    RETURN NULL;
END
$$;

CREATE FUNCTION public.users_forgive_webhooks() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    UPDATE webhooks w SET failing_since = NULL, failed_runs = 0, rest_until = NULL WHERE w.user_id = NEW.id AND w.failing_since IS NOT NULL;
    RETURN NULL;
END
$$;

CREATE FUNCTION public.verifications_feed() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    IF feed_is_heard(NEW.company_id) THEN
        INSERT INTO feed_staged (company_id, submitted_by, type, at, data)
        VALUES (NEW.company_id, NEW.submitted_by, CASE NEW.status WHEN 'approved' THEN 'verification.approved' ELSE 'verification.failed' END, NEW.ended_at,
            jsonb_strip_nulls(jsonb_build_object('verification_id', NEW.verification_id, 'reason', CASE
                WHEN NEW.status = 'approved' THEN NULL
                -- A pending verification exists only if the same statement started it. Its unique index makes other transactions wait.
                WHEN NEW.status = 'cancelled' AND EXISTS (
                    SELECT FROM verifications v
                    WHERE v.company_id = NEW.company_id AND v.channel = NEW.channel AND v.recipient = NEW.recipient AND v.purpose = NEW.purpose AND v.status = 'pending'
                ) THEN 'replaced'
                ELSE NEW.status
            END)));
    END IF;
    RETURN NULL;
END
$$;

COMMENT ON FUNCTION public.verifications_feed() IS 'Trigger of verifications: stages the event verification.approved or verification.failed, if the events of the company are recorded.';

CREATE FUNCTION public.wait_bucket(wait interval) RETURNS bytea
    LANGUAGE sql IMMUTABLE
    RETURN CASE WHEN (wait IS NOT NULL) THEN set_byte('\x00'::bytea, 0, (LEAST((255)::double precision, ceil((ln(GREATEST((1)::double precision, (date_part('epoch'::text, wait) * (1000)::double precision))) / (0.0953101798043249)::double precision))))::integer) ELSE NULL::bytea END;

COMMENT ON FUNCTION public.wait_bucket(wait interval) IS 'Returns the bucket of a duration in a histogram, as one byte; null for null. Bucket 0 contains durations up to 1 ms. Bucket n contains durations above 1.1^(n-1) ms and up to 1.1^n ms. Bucket 255 also contains all longer durations (more than 416 days). internal/insight/statistics uses the same bounds.';

CREATE VIEW lksms.outgoing AS
 SELECT NULL::text AS task_id,
    NULL::text AS phone_number,
    NULL::text AS content,
    NULL::text AS dedup_key,
    NULL::text AS message_type,
    NULL::integer AS priority,
    NULL::timestamp with time zone AS expect_send_time,
    NULL::timestamp with time zone AS expires_at,
    NULL::text AS sign,
    NULL::text AS source,
    NULL::boolean AS test,
    NULL::text AS template_no,
    NULL::jsonb AS params,
    NULL::text AS language
  WHERE false;

COMMENT ON VIEW lksms.outgoing IS 'Another form of lksms.enqueue: an INSERT into the view calls the function, and RETURNING task_id returns its result. The view has no rows.';

CREATE TABLE public.alert_deliveries (
    alert_id bigint NOT NULL,
    receiver_id bigint NOT NULL,
    told_at timestamp with time zone,
    end_told_at timestamp with time zone,
    tries bigint DEFAULT 0 NOT NULL,
    failures bigint DEFAULT 0 NOT NULL,
    error text,
    next_at timestamp with time zone DEFAULT now() NOT NULL,
    awaits bigint[],
    sent_at timestamp with time zone,
    end_awaits bigint[],
    end_sent_at timestamp with time zone,
    escalate_at timestamp with time zone,
    escalated_at timestamp with time zone,
    escalated_from bigint
);

COMMENT ON TABLE public.alert_deliveries IS 'The state of the notification of one receiver about one alert. Written by internal/insight/alert. receiver_id has no foreign key, because the row is kept when the receiver is deleted.';

COMMENT ON COLUMN public.alert_deliveries.told_at IS 'the time at which the receiver was last notified of the firing alert: a program was called, or the messages to people were queued; null: not yet';

COMMENT ON COLUMN public.alert_deliveries.end_told_at IS 'the time at which the receiver was notified that the alert is resolved; null: not yet, or the receiver was never notified of the firing alert';

COMMENT ON COLUMN public.alert_deliveries.tries IS 'number of tries with a known outcome. The number is part of the dedup key of the next try';

COMMENT ON COLUMN public.alert_deliveries.failures IS 'number of failed tries since the last successful try';

COMMENT ON COLUMN public.alert_deliveries.error IS 'the reason why the last try failed, partly or completely; null: it succeeded, or there was no try';

COMMENT ON COLUMN public.alert_deliveries.next_at IS 'the receiver is not notified again before this time';

COMMENT ON COLUMN public.alert_deliveries.awaits IS 'the notifications about the firing alert that can still send a message. empty: no such notification is left. null: no messages are awaited, and told_at is the time of the delivery';

COMMENT ON COLUMN public.alert_deliveries.sent_at IS 'the time at which the first message about the firing alert was sent, since the last notification; null: no message was sent';

COMMENT ON COLUMN public.alert_deliveries.end_awaits IS 'like awaits, for the resolved alert';

COMMENT ON COLUMN public.alert_deliveries.end_sent_at IS 'like sent_at, for the resolved alert';

COMMENT ON COLUMN public.alert_deliveries.escalate_at IS 'the time at which the delivery escalates, unless a message is sent before; null: it does not escalate';

COMMENT ON COLUMN public.alert_deliveries.escalated_at IS 'the time at which the delivery escalated to other channels of the receiver, or to other receivers; null: it did not escalate';

COMMENT ON COLUMN public.alert_deliveries.escalated_from IS 'the receiver whose delivery escalated to this delivery; null: the rule names the receiver. This delivery does not escalate further. There is no foreign key, as for receiver_id';

CREATE TABLE public.alert_receiver_states (
    receiver_id bigint NOT NULL,
    failing_since timestamp with time zone,
    failures bigint DEFAULT 0 NOT NULL,
    error text,
    next_call_at timestamp with time zone DEFAULT now() NOT NULL
);

COMMENT ON TABLE public.alert_receiver_states IS 'The result of the last calls of a receiver of the kind alertmanager. Each such receiver has one row. Written by internal/insight/alert. The columns are not in alert_receivers, because administrators do not change them.';

COMMENT ON COLUMN public.alert_receiver_states.failing_since IS 'the time of the first of the consecutive failed calls; null: the last call succeeded';

COMMENT ON COLUMN public.alert_receiver_states.failures IS 'number of failed calls since the last successful call';

COMMENT ON COLUMN public.alert_receiver_states.next_call_at IS 'the receiver is not called before this time, because its last call failed, or because a server is calling it now';

CREATE TABLE public.alert_receivers (
    id bigint NOT NULL,
    name text NOT NULL,
    kind text NOT NULL,
    language text DEFAULT 'zh'::text NOT NULL,
    company_id bigint,
    channels text[],
    user_ids text[],
    url text,
    sealed_authorization text,
    version bigint DEFAULT 1 NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    updated_at timestamp with time zone DEFAULT now() NOT NULL,
    escalate_seconds bigint DEFAULT 300 NOT NULL,
    CONSTRAINT alert_receivers_escalate_seconds_range CHECK (((escalate_seconds >= 0) AND (escalate_seconds <= 86400))),
    CONSTRAINT alert_receivers_kind_complete CHECK (
CASE kind
    WHEN 'notification'::text THEN ((company_id IS NOT NULL) AND (cardinality(channels) > 0) AND (cardinality(user_ids) > 0) AND (url IS NULL) AND (sealed_authorization IS NULL))
    WHEN 'alertmanager'::text THEN ((url IS NOT NULL) AND (company_id IS NULL) AND (channels IS NULL) AND (user_ids IS NULL))
    ELSE false
END),
    CONSTRAINT alert_receivers_language_known CHECK ((language = ANY (ARRAY['zh'::text, 'en'::text]))),
    CONSTRAINT alert_receivers_name_length CHECK (((char_length(name) >= 1) AND (char_length(name) <= 100)))
);

COMMENT ON TABLE public.alert_receivers IS 'People, or a program, that are notified of alerts. Written by internal/insight/alert.';

COMMENT ON COLUMN public.alert_receivers.kind IS 'notification: users are notified through channels. alertmanager: a program at url is called, which has the API of Alertmanager';

COMMENT ON COLUMN public.alert_receivers.channels IS 'the channels through which users are notified. There are no foreign keys: if a channel was deleted, each delivery has an error, but the other channels are still used';

COMMENT ON COLUMN public.alert_receivers.sealed_authorization IS 'the encrypted header Authorization; null: no header';

COMMENT ON COLUMN public.alert_receivers.escalate_seconds IS 'seconds after which an alert escalates if no message about it was sent to the receiver; 0: never';

ALTER TABLE public.alert_receivers ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.alert_receivers_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.alert_rules (
    id bigint NOT NULL,
    name text,
    kind text NOT NULL,
    level text NOT NULL,
    threshold double precision,
    window_seconds bigint,
    for_seconds bigint NOT NULL,
    resolve_seconds bigint NOT NULL,
    repeat_seconds bigint NOT NULL,
    silenced_until timestamp with time zone,
    company_id bigint,
    channel_id bigint,
    sender_id bigint,
    receivers bigint[],
    is_enabled boolean DEFAULT true NOT NULL,
    version bigint DEFAULT 1 NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    updated_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT alert_rules_kind_known CHECK ((kind ~ '^[a-z]+(_[a-z]+)*$'::text)),
    CONSTRAINT alert_rules_level_known CHECK ((level = ANY (ARRAY['warning'::text, 'critical'::text, 'emergency'::text]))),
    CONSTRAINT alert_rules_name_length CHECK (((char_length(name) >= 1) AND (char_length(name) <= 100))),
    CONSTRAINT alert_rules_seconds_range CHECK (((for_seconds >= 0) AND (resolve_seconds >= 0) AND (repeat_seconds >= 0) AND (window_seconds > 0)))
);

COMMENT ON TABLE public.alert_rules IS 'A condition that is watched. Written by internal/insight/alert. Companies, channels and senders that a rule names cannot be deleted.';

COMMENT ON COLUMN public.alert_rules.name IS 'null: the rule is shown with its kind and level, in the language of the reader';

COMMENT ON COLUMN public.alert_rules.threshold IS 'the unit and the direction depend on the kind. null for wait_time: the setting of the level of the rule. null for balance_low: the low_warning of each sender. pool_unserved and provider_trouble have no threshold';

COMMENT ON COLUMN public.alert_rules.window_seconds IS 'length of the window in which the condition is measured; null: the kind has no window';

COMMENT ON COLUMN public.alert_rules.for_seconds IS 'seconds for which the condition must be true before the alert fires';

COMMENT ON COLUMN public.alert_rules.resolve_seconds IS 'seconds for which the condition must be false before the alert is resolved';

COMMENT ON COLUMN public.alert_rules.repeat_seconds IS 'seconds after which a firing alert is notified again; 0: never';

COMMENT ON COLUMN public.alert_rules.receivers IS 'ids of alert_receivers, which cannot be deleted while they are listed here; null: all receivers';

ALTER TABLE public.alert_rules ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.alert_rules_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.alerts (
    id bigint NOT NULL,
    rule_id bigint NOT NULL,
    kind text NOT NULL,
    level text NOT NULL,
    subject text NOT NULL,
    company_no text,
    channel text,
    sender_no text,
    value double precision NOT NULL,
    threshold double precision,
    started_at timestamp with time zone DEFAULT now() NOT NULL,
    seen_at timestamp with time zone DEFAULT now() NOT NULL,
    fired_at timestamp with time zone,
    cleared_at timestamp with time zone,
    resolved_at timestamp with time zone,
    ended_by text,
    acknowledged_at timestamp with time zone,
    acknowledged_by text,
    remark text,
    only_own_channel boolean DEFAULT false NOT NULL,
    CONSTRAINT alerts_ended_by_known CHECK ((((resolved_at IS NULL) = (ended_by IS NULL)) AND (ended_by = ANY (ARRAY['condition'::text, 'rule_changed'::text, 'rule_disabled'::text, 'rule_deleted'::text])))),
    CONSTRAINT alerts_resolved_have_fired CHECK (((resolved_at IS NULL) OR (fired_at IS NOT NULL))),
    CONSTRAINT alerts_subject_length CHECK (((char_length(subject) >= 1) AND (char_length(subject) <= 300))),
    CONSTRAINT alerts_times_order CHECK (((fired_at >= started_at) AND (resolved_at >= fired_at)))
);

COMMENT ON TABLE public.alerts IS 'One incident: a condition of a rule about one subject, from its start to its end. Written by internal/insight/alert, which deletes old rows. There are no foreign keys: an alert is kept, with the names of its rule and its subject, when these are deleted.';

COMMENT ON COLUMN public.alerts.subject IS 'a sender_no, a channel, a pool or a file system, depending on the kind of the rule';

COMMENT ON COLUMN public.alerts.value IS 'the measured value at seen_at';

COMMENT ON COLUMN public.alerts.threshold IS 'the threshold with which value was compared; null: the kind has no threshold';

COMMENT ON COLUMN public.alerts.started_at IS 'the time at which the condition became true';

COMMENT ON COLUMN public.alerts.seen_at IS 'the last time at which the condition was true';

COMMENT ON COLUMN public.alerts.fired_at IS 'the time at which the alert fired; null: the alert is pending, because the condition has not been true for long enough. A pending alert is deleted when its condition becomes false';

COMMENT ON COLUMN public.alerts.cleared_at IS 'the time at which the condition became false; null: it is true';

COMMENT ON COLUMN public.alerts.only_own_channel IS 'true: people can be notified only through the channel that the alert is about. For an alert about all channels: only one channel is left to notify people';

ALTER TABLE public.alerts ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.alerts_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.announcements (
    id bigint NOT NULL,
    payload jsonb NOT NULL,
    user_ids text[] NOT NULL,
    tag text,
    CONSTRAINT announcements_payload_is_object CHECK ((jsonb_typeof(payload) = 'object'::text))
);

COMMENT ON TABLE public.announcements IS 'The text data and the people of the notifications of one request. Written by internal/audience/notification with the first notification of the request. user_ids has no foreign key, because a person can be without a contact.';

COMMENT ON COLUMN public.announcements.payload IS 'values for the placeholders of the template; own_payload of a notification overrides them';

COMMENT ON COLUMN public.announcements.user_ids IS 'contacts.user_id of the people';

COMMENT ON COLUMN public.announcements.tag IS 'the tag whose contacts are notified; user_ids is then empty. null: user_ids names the people';

ALTER TABLE public.announcements ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.announcements_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.api_keys (
    id bigint NOT NULL,
    user_id bigint NOT NULL,
    key_hash bytea NOT NULL,
    name text NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT api_keys_name_length CHECK (((char_length(name) >= 1) AND (char_length(name) <= 100)))
);

COMMENT ON TABLE public.api_keys IS 'An API key of a user. Written by internal/platform/access.';

COMMENT ON COLUMN public.api_keys.key_hash IS 'SHA-256 of the key. A key is 256 random bits, so it needs no slow hash.';

COMMENT ON COLUMN public.api_keys.name IS 'a label that distinguishes the keys of a user';

ALTER TABLE public.api_keys ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.api_keys_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.audit (
    id bigint NOT NULL,
    at timestamp with time zone DEFAULT now() NOT NULL,
    actor text DEFAULT NULLIF(current_setting('lksms.actor'::text, true), ''::text),
    actor_role text DEFAULT NULLIF(current_setting('lksms.actor_role'::text, true), ''::text),
    source_ip text DEFAULT NULLIF(current_setting('lksms.source_ip'::text, true), ''::text),
    request_id text DEFAULT NULLIF(current_setting('lksms.request_id'::text, true), ''::text),
    action text NOT NULL,
    entity text NOT NULL,
    entity_key text NOT NULL,
    company_no text,
    before jsonb,
    after jsonb,
    CONSTRAINT audit_action_known CHECK ((action = ANY (ARRAY['created'::text, 'changed'::text, 'deleted'::text])))
);

COMMENT ON TABLE public.audit IS 'One row is one administrative change of one entity. Written by the trigger function audit_change and by internal/insight/audit; deleted by internal/insight/audit after the setting history.log_days.';

COMMENT ON COLUMN public.audit.at IS 'the beginning of the transaction of the change';

COMMENT ON COLUMN public.audit.actor IS 'the name of the user who requested the change. For the command line: cli: and the name of the user of the operating system. null: the service itself, or an SQL statement, changed the row';

COMMENT ON COLUMN public.audit.actor_role IS 'role of the user at that time; null: not a user of the service';

COMMENT ON COLUMN public.audit.entity_key IS 'name of the entity in the API. The parts of a name are joined by a slash';

COMMENT ON COLUMN public.audit.company_no IS 'the company of the entity; null: the entity belongs to no company';

COMMENT ON COLUMN public.audit.before IS 'the old values: of the changed columns for a change, of all columns for a deletion; null: the entity is new';

COMMENT ON COLUMN public.audit.after IS 'the new values: of the changed columns for a change, of all columns for a creation; null: the entity was deleted';

ALTER TABLE public.audit ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.audit_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.batch_acts (
    batch_id bigint NOT NULL,
    id bigint NOT NULL,
    act text NOT NULL,
    username text NOT NULL,
    at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT batch_acts_act_known CHECK ((act = ANY (ARRAY['confirmed'::text, 'paused'::text, 'resumed'::text, 'cancelled'::text, 'requeued'::text])))
);

COMMENT ON TABLE public.batch_acts IS 'An action of a user on a batch. Written by internal/audience/batch, in the statement or the transaction of the change.';

COMMENT ON COLUMN public.batch_acts.username IS 'There is no foreign key, because the configured user is in no table';

ALTER TABLE public.batch_acts ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.batch_acts_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.batch_counts (
    batch_id bigint NOT NULL,
    sender_no text NOT NULL,
    waiting bigint DEFAULT 0 NOT NULL,
    processing bigint DEFAULT 0 NOT NULL,
    success bigint DEFAULT 0 NOT NULL,
    failed bigint DEFAULT 0 NOT NULL,
    delivered bigint DEFAULT 0 NOT NULL,
    undelivered bigint DEFAULT 0 NOT NULL,
    segments bigint DEFAULT 0 NOT NULL
)
WITH (fillfactor='50');

COMMENT ON TABLE public.batch_counts IS 'The numbers of tasks of one batch and sender in each state. They do not include the facts that are not folded yet. Written by internal/audience/batch, which consumes facts.';

COMMENT ON COLUMN public.batch_counts.sender_no IS 'empty: tasks of no sender';

COMMENT ON COLUMN public.batch_counts.segments IS 'segments of the leases that were reported SUCCESS';

CREATE TABLE public.batch_rows (
    batch_id bigint NOT NULL,
    row_no bigint NOT NULL,
    recipient text NOT NULL,
    content text NOT NULL,
    segments smallint NOT NULL,
    country_no text,
    code smallint,
    fault jsonb,
    task_id text COLLATE pg_catalog."C",
    sign text,
    contact_values jsonb,
    CONSTRAINT batch_rows_code_known CHECK (((code >= 1) AND (code <= 7))),
    CONSTRAINT batch_rows_fault_set CHECK (((code IS NOT NULL) OR (fault IS NULL))),
    CONSTRAINT batch_rows_tasks_are_valid CHECK (((code IS NULL) OR (task_id IS NULL)))
)
PARTITION BY RANGE (batch_id);

COMMENT ON TABLE public.batch_rows IS 'A row of a batch with the result of its check. Written by internal/audience/batch: inserted once, and changed once, when it becomes a task or its submission is rejected. Partitioned by batch_id, see number_partitions.';

COMMENT ON COLUMN public.batch_rows.batch_id IS 'There is no foreign key, because its check took two thirds of the time when a million rows were added. Instead, statements lock the batch before they add or delete rows';

COMMENT ON COLUMN public.batch_rows.row_no IS 'the number of the row in the list, as a spreadsheet program shows it. For a batch of tags, it is the position of the contact';

COMMENT ON COLUMN public.batch_rows.recipient IS 'the address on the channel: a phone number in E.164; for an invalid row the value in the list';

COMMENT ON COLUMN public.batch_rows.content IS 'the text without signature; on a channel other than sms only its beginning; empty: the text could not be rendered';

COMMENT ON COLUMN public.batch_rows.code IS 'the reason why the row is not sent: 1 phone number, 2 content, 3 segments, 4 signature, 5 duplicate, 6 blocked, 7 rejected at its submission; null: the row is valid';

COMMENT ON COLUMN public.batch_rows.fault IS 'the field, the rule that the field violates, and the limit of the rule; null: code is the whole reason';

COMMENT ON COLUMN public.batch_rows.task_id IS 'null: the row has not become a task';

COMMENT ON COLUMN public.batch_rows.sign IS 'the signature of the row; null: the signature of the batch';

COMMENT ON COLUMN public.batch_rows.contact_values IS 'the values of the contact for the placeholders of the rendering; null: no values are needed';

CREATE TABLE public.batch_rows_20000 (
    batch_id bigint NOT NULL,
    row_no bigint NOT NULL,
    recipient text NOT NULL,
    content text NOT NULL,
    segments smallint NOT NULL,
    country_no text,
    code smallint,
    fault jsonb,
    task_id text COLLATE pg_catalog."C",
    sign text,
    contact_values jsonb,
    CONSTRAINT batch_rows_code_known CHECK (((code >= 1) AND (code <= 7))),
    CONSTRAINT batch_rows_fault_set CHECK (((code IS NOT NULL) OR (fault IS NULL))),
    CONSTRAINT batch_rows_tasks_are_valid CHECK (((code IS NULL) OR (task_id IS NULL)))
)
WITH (fillfactor='85');

CREATE TABLE public.batch_rows_default (
    batch_id bigint NOT NULL,
    row_no bigint NOT NULL,
    recipient text NOT NULL,
    content text NOT NULL,
    segments smallint NOT NULL,
    country_no text,
    code smallint,
    fault jsonb,
    task_id text COLLATE pg_catalog."C",
    sign text,
    contact_values jsonb,
    CONSTRAINT batch_rows_code_known CHECK (((code >= 1) AND (code <= 7))),
    CONSTRAINT batch_rows_default_batches CHECK ((batch_id < 20000)),
    CONSTRAINT batch_rows_fault_set CHECK (((code IS NOT NULL) OR (fault IS NULL))),
    CONSTRAINT batch_rows_tasks_are_valid CHECK (((code IS NULL) OR (task_id IS NULL)))
)
WITH (fillfactor='85');

COMMENT ON TABLE public.batch_rows_default IS 'Rows of batches that are older than the partitions of batch_rows.';

CREATE TABLE public.facts (
    company_id bigint NOT NULL,
    at timestamp with time zone NOT NULL,
    response_ms bigint DEFAULT 0 NOT NULL,
    pending_new integer DEFAULT 0 NOT NULL,
    pending_retry integer DEFAULT 0 NOT NULL,
    processing integer DEFAULT 0 NOT NULL,
    success integer DEFAULT 0 NOT NULL,
    failed integer DEFAULT 0 NOT NULL,
    leases integer DEFAULT 0 NOT NULL,
    reported_success integer DEFAULT 0 NOT NULL,
    reported_failed integer DEFAULT 0 NOT NULL,
    sender_no text,
    pool_id bigint,
    message_type smallint,
    submitted integer DEFAULT 0 NOT NULL,
    requeued integer DEFAULT 0 NOT NULL,
    cancelled integer DEFAULT 0 NOT NULL,
    delivered integer DEFAULT 0 NOT NULL,
    undelivered integer DEFAULT 0 NOT NULL,
    segments integer DEFAULT 0 NOT NULL,
    waits bytea,
    durations bytea,
    batch_id bigint,
    country_no text,
    is_test boolean DEFAULT false NOT NULL,
    accepted_at timestamp with time zone,
    unreported bigint DEFAULT 0 NOT NULL
);

COMMENT ON TABLE public.facts IS 'Counts of the changes that one statement made to tasks of the same company, pool, type, country, batch and sender. The sender holds, held or reported these tasks; or no sender does. Tests are counted separately. Written by triggers of queue and report_logs only. internal/insight/history deletes the rows within seconds, and adds them to the totals of all consumers in the same transaction. Until then, readers add the rows to these totals. No cursor is needed: the deletion of a row consumes the row exactly once. It does not matter in which order transactions commit, or whether a dump is restored into another cluster.';

COMMENT ON COLUMN public.facts.company_id IS 'There is no foreign key, because each change of a task would lock the company';

COMMENT ON COLUMN public.facts.at IS 'the time of the latest change that the row counts. This time is leased_at for leases, and created_at for reports';

COMMENT ON COLUMN public.facts.response_ms IS 'sum of the milliseconds from claim to report, over all reports of the row. For an expired lease, the time counts from the recovery';

COMMENT ON COLUMN public.facts.pending_new IS 'change of the number of PENDING tasks with retry_count 0';

COMMENT ON COLUMN public.facts.pending_retry IS 'change of the number of PENDING tasks with retry_count above 0';

COMMENT ON COLUMN public.facts.processing IS 'change of the number of PROCESSING tasks, which the sender holds';

COMMENT ON COLUMN public.facts.success IS 'change of the number of SUCCESS tasks';

COMMENT ON COLUMN public.facts.failed IS 'change of the number of FAILED tasks; negative if tasks were requeued';

COMMENT ON COLUMN public.facts.leases IS 'number of leases that the sender claimed';

COMMENT ON COLUMN public.facts.reported_success IS 'number of leases that the sender ended by reporting SUCCESS';

COMMENT ON COLUMN public.facts.reported_failed IS 'number of leases that the sender ended by reporting FAILED, even if the task is retried';

COMMENT ON COLUMN public.facts.sender_no IS 'null: no sender. There is no foreign key, because each claim would lock the sender, and because tasks that were inserted by hand can have any text in app_id';

COMMENT ON COLUMN public.facts.pool_id IS 'the pool in queue or report_logs; null: report_logs has no pool. pool_channels contains the channel of the pool';

COMMENT ON COLUMN public.facts.message_type IS 'see messages.message_type; null: report_logs has no message type';

COMMENT ON COLUMN public.facts.submitted IS 'number of stored tasks, including tasks of people without an address, which failed at once';

COMMENT ON COLUMN public.facts.requeued IS 'number of settled tasks that were requeued';

COMMENT ON COLUMN public.facts.cancelled IS 'number of tasks that became CANCELLED';

COMMENT ON COLUMN public.facts.delivered IS 'number of receipts of delivered messages';

COMMENT ON COLUMN public.facts.undelivered IS 'number of receipts of undelivered messages';

COMMENT ON COLUMN public.facts.segments IS 'segments of the leases that were reported SUCCESS';

COMMENT ON COLUMN public.facts.waits IS 'one byte for each task that was claimed for the first time, in any order: wait_bucket of the time from entered_at to the claim; null: no such task';

COMMENT ON COLUMN public.facts.durations IS 'one byte for each task that became SUCCESS or FAILED, in any order: wait_bucket of the time from entered_at to this end; null: no such task';

COMMENT ON COLUMN public.facts.batch_id IS 'see messages.batch_id; null: no batch';

COMMENT ON COLUMN public.facts.country_no IS 'see messages.country_no; null: no country';

COMMENT ON COLUMN public.facts.is_test IS 'see messages.is_test';

COMMENT ON COLUMN public.facts.accepted_at IS 'only for receipts of delivered messages: the minute in which their sender reported SUCCESS. null: all other rows, or no report of this sender ended the task';

COMMENT ON COLUMN public.facts.unreported IS 'number of leases that ended without a report, after they were started or needed no start. It is unknown whether their messages were sent. A later report of the same lease does not change the number';

CREATE VIEW public.batch_totals AS
 SELECT c.batch_id,
    c.sender_no,
    (sum(c.waiting))::bigint AS waiting,
    (sum(c.processing))::bigint AS processing,
    (sum(c.success))::bigint AS success,
    (sum(c.failed))::bigint AS failed,
    (sum(c.delivered))::bigint AS delivered,
    (sum(c.undelivered))::bigint AS undelivered,
    (sum(c.segments))::bigint AS segments
   FROM ( SELECT batch_counts.batch_id,
            batch_counts.sender_no,
            batch_counts.waiting,
            batch_counts.processing,
            batch_counts.success,
            batch_counts.failed,
            batch_counts.delivered,
            batch_counts.undelivered,
            batch_counts.segments
           FROM public.batch_counts
        UNION ALL
         SELECT f.batch_id,
            COALESCE(f.sender_no, ''::text) AS "coalesce",
            (f.pending_new + f.pending_retry),
            f.processing,
            f.success,
            f.failed,
            f.delivered,
            f.undelivered,
            f.segments
           FROM public.facts f
          WHERE (f.batch_id IS NOT NULL)) c
  GROUP BY c.batch_id, c.sender_no;

COMMENT ON VIEW public.batch_totals IS 'The exact numbers of tasks of each batch and sender: batch_counts plus the facts that are not folded yet. Both are read in one snapshot.';

ALTER TABLE public.batches ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.batches_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.block_requests (
    company_id bigint NOT NULL,
    recipient_hash bytea NOT NULL,
    received_id bigint NOT NULL,
    network_at timestamp with time zone,
    is_opt_out boolean NOT NULL,
    CONSTRAINT block_requests_recipient_hash_length CHECK ((octet_length(recipient_hash) = 32))
);

COMMENT ON TABLE public.block_requests IS 'The latest received message by which a person asked a company for no more messages, or for messages again. Written by internal/dispatch/block. An earlier request that is handled later has no effect. The row is deleted with the message.';

COMMENT ON COLUMN public.block_requests.recipient_hash IS 'SHA-256 of the number';

COMMENT ON COLUMN public.block_requests.network_at IS 'network_time of the message, copied because a statement that waits for the row does not see a message that was stored meanwhile; null: unknown';

COMMENT ON COLUMN public.block_requests.is_opt_out IS 'true: the person asked for no more messages; false: for messages again';

ALTER TABLE public.blocks ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.blocks_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.business_ends (
    company_id bigint NOT NULL,
    subject text NOT NULL,
    subject_id bigint NOT NULL,
    ended_at timestamp with time zone NOT NULL,
    awaits_start boolean DEFAULT false NOT NULL,
    recorded_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT business_ends_subject_known CHECK ((subject = ANY (ARRAY['task'::text, 'node'::text])))
);

COMMENT ON TABLE public.business_ends IS 'A business task or one of its nodes that has ended. Written by internal/audience/notification from business events. The row of a node is deleted when the node starts again. The row of a task is kept, because late starts are compared with it.';

COMMENT ON COLUMN public.business_ends.subject IS 'task or node';

COMMENT ON COLUMN public.business_ends.subject_id IS 'the number of the task or node in the system of the caller';

COMMENT ON COLUMN public.business_ends.awaits_start IS 'true: the end was reported before the start. The next start without a time belongs to this end';

COMMENT ON COLUMN public.business_ends.recorded_at IS 'the time at which this row was stored. ended_at is the time of the caller, which can be much earlier';

CREATE TABLE public.business_locks (
    slot smallint NOT NULL
);

COMMENT ON TABLE public.business_locks IS 'A lock that orders the business events of tasks. A transaction that processes an event of a task locks the row whose slot is the hash of the task modulo 256. So two transactions never process events of the same task at once. The 256 rows never change.';

CREATE TABLE public.callbacks (
    id bigint NOT NULL,
    sender_no text NOT NULL,
    source_ip text NOT NULL,
    body text NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    refused text,
    left_out bigint DEFAULT 0 NOT NULL,
    body_hash bytea,
    repeats bigint DEFAULT 0 NOT NULL,
    take_at timestamp with time zone,
    received_ids bigint[],
    mask_when_taken boolean DEFAULT false NOT NULL
);

COMMENT ON TABLE public.callbacks IS 'An HTTP callback of a provider, stored unchanged. Written by internal/dispatch/receipt, which deletes old rows. sender_no has no foreign key, so that a callback does not prevent the deletion of its sender.';

COMMENT ON COLUMN public.callbacks.body IS 'the body in UTF-8, without characters that PostgreSQL cannot store; ********: it contained messages of people that are erased or deleted';

COMMENT ON COLUMN public.callbacks.refused IS 'the error reason that the provider got; null: the callback was accepted';

COMMENT ON COLUMN public.callbacks.left_out IS 'number of items that could not be read, although the callback was accepted';

COMMENT ON COLUMN public.callbacks.body_hash IS 'SHA-256 of the body; null: the row is older than this column';

COMMENT ON COLUMN public.callbacks.repeats IS 'how often the same body arrived again';

COMMENT ON COLUMN public.callbacks.take_at IS 'the time from which the messages of the callback are to be stored in received_messages; null: it has no such messages, or they are stored';

COMMENT ON COLUMN public.callbacks.received_ids IS 'the received_messages of the callback; null: none are stored';

COMMENT ON COLUMN public.callbacks.mask_when_taken IS 'the body contains an erased person, and is masked when its messages are stored';

ALTER TABLE public.callbacks ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.callbacks_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.capped_recipients (
    recipient_hash bytea NOT NULL,
    company_id bigint NOT NULL,
    message_type smallint NOT NULL,
    task_ids text[] DEFAULT '{}'::text[] NOT NULL COLLATE pg_catalog."C",
    times timestamp with time zone[] DEFAULT '{}'::timestamp with time zone[] NOT NULL,
    last_on date NOT NULL,
    CONSTRAINT capped_recipients_recipient_hash_length CHECK ((octet_length(recipient_hash) = 32)),
    CONSTRAINT capped_recipients_same_length CHECK ((cardinality(task_ids) = cardinality(times)))
)
WITH (fillfactor='80');

COMMENT ON TABLE public.capped_recipients IS 'The recent messages to one phone number that a cap counts. Written by internal/dispatch/caps. A submission locks the row until its transaction ends, so no two submissions use the same free message of a cap. There are no foreign keys, because they would lock companies.';

COMMENT ON COLUMN public.capped_recipients.recipient_hash IS 'SHA-256 of the number in E.164';

COMMENT ON COLUMN public.capped_recipients.company_id IS '0: the row counts the messages of all companies and types';

COMMENT ON COLUMN public.capped_recipients.message_type IS '-1 in the rows with company_id 0';

COMMENT ON COLUMN public.capped_recipients.task_ids IS 'the tasks of the messages, in the order of times';

COMMENT ON COLUMN public.capped_recipients.times IS 'when the messages are due, ascending';

COMMENT ON COLUMN public.capped_recipients.last_on IS 'the day (UTC) of the last of times; a sweep deletes the row two days later';

CREATE TABLE public.channel_countries (
    channel_id bigint NOT NULL,
    country_id bigint NOT NULL,
    status text DEFAULT 'on'::text NOT NULL,
    CONSTRAINT channel_countries_status_known CHECK ((status = ANY (ARRAY['on'::text, 'off'::text])))
);

COMMENT ON TABLE public.channel_countries IS 'A country that is on or off for a channel. If at least one country is on, the channel serves only the countries that are on. Otherwise channels.any_country decides. Written by internal/dispatch/directory.';

COMMENT ON COLUMN public.channel_countries.status IS 'on or off. off: tasks of the channel to the country are held';

CREATE TABLE public.channels (
    id bigint NOT NULL,
    channel text NOT NULL,
    name text NOT NULL,
    signature_required boolean DEFAULT false NOT NULL,
    version bigint DEFAULT 1 NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    updated_at timestamp with time zone DEFAULT now() NOT NULL,
    retry_minutes bigint[],
    status text DEFAULT 'on'::text NOT NULL,
    any_country boolean DEFAULT true NOT NULL,
    CONSTRAINT channels_channel_length CHECK (((char_length(channel) >= 1) AND (char_length(channel) <= 50))),
    CONSTRAINT channels_name_length CHECK (((char_length(name) >= 1) AND (char_length(name) <= 100))),
    CONSTRAINT channels_retry_minutes_range CHECK (((cardinality(retry_minutes) <= 20) AND (0 <= ALL (retry_minutes)) AND (10080 >= ALL (retry_minutes)))),
    CONSTRAINT channels_status_known CHECK ((status = ANY (ARRAY['on'::text, 'off'::text])))
);

COMMENT ON TABLE public.channels IS 'A kind of delivery: sms, oa, dingtalk, wechat, email. Written by internal/dispatch/directory.';

COMMENT ON COLUMN public.channels.channel IS 'the name in requests';

COMMENT ON COLUMN public.channels.signature_required IS 'true: a message without a signature is rejected';

COMMENT ON COLUMN public.channels.version IS 'incremented by each update. An update names the version that its caller has read, and is rejected if the version has changed since';

COMMENT ON COLUMN public.channels.retry_minutes IS 'for driven senders: the minutes to wait before each retry. The length of the array is the number of retries. null: the configuration of the server';

COMMENT ON COLUMN public.channels.status IS 'on or off. off: tasks of the channel are held';

COMMENT ON COLUMN public.channels.any_country IS 'true: the channel serves every country that is not off in channel_countries. The value is used only while no country there is on';

ALTER TABLE public.channels ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.channels_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

ALTER TABLE public.companies ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.companies_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.company_countries (
    company_id bigint NOT NULL,
    country_id bigint NOT NULL,
    status text DEFAULT 'on'::text NOT NULL,
    CONSTRAINT company_countries_status_known CHECK ((status = ANY (ARRAY['on'::text, 'off'::text])))
);

COMMENT ON TABLE public.company_countries IS 'A country that is on or off for a company. If at least one country is on, the company can send only to the countries that are on. Otherwise companies.any_country decides. Written by internal/dispatch/directory.';

COMMENT ON COLUMN public.company_countries.status IS 'on or off. off: tasks of the company to the country are held';

CREATE TABLE public.company_notification_templates (
    id bigint NOT NULL,
    company_id bigint NOT NULL,
    biz_type smallint NOT NULL,
    channel_id bigint NOT NULL,
    title text NOT NULL,
    content text NOT NULL,
    html text,
    external_id text DEFAULT ''::text NOT NULL,
    sign text,
    is_enabled boolean DEFAULT true NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    updated_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT company_notification_templates_lengths CHECK ((((char_length(title) >= 1) AND (char_length(title) <= 200)) AND ((char_length(content) >= 1) AND (char_length(content) <= 20000)) AND (char_length(external_id) <= 64) AND ((char_length(html) >= 1) AND (char_length(html) <= 100000)) AND ((char_length(sign) >= 1) AND (char_length(sign) <= 20))))
);

COMMENT ON TABLE public.company_notification_templates IS 'The title and text of a business type on a channel, for one company. It replaces the row in notification_templates. Written by internal/audience/notification.';

COMMENT ON COLUMN public.company_notification_templates.biz_type IS 'see notifications.biz_type';

COMMENT ON COLUMN public.company_notification_templates.html IS 'the content as HTML, for e-mail; null: no HTML';

COMMENT ON COLUMN public.company_notification_templates.external_id IS 'the template of the provider; empty: no template';

COMMENT ON COLUMN public.company_notification_templates.sign IS 'the signature of notifications that have no signature of their own; null: the signature of the sender';

COMMENT ON COLUMN public.company_notification_templates.is_enabled IS 'false: the template of the platform is used';

ALTER TABLE public.company_notification_templates ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.company_notification_templates_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.contact_counts (
    company_id bigint NOT NULL,
    contacts bigint NOT NULL,
    CONSTRAINT contact_counts_contacts_range CHECK ((contacts >= 0))
)
WITH (fillfactor='50');

COMMENT ON TABLE public.contact_counts IS 'The number of contacts of a company. A company that never had contacts has no row. Written by triggers of contacts. internal/audience/contact locks the row before it changes contacts or tags of the company, so that only one transaction at a time changes them.';

CREATE TABLE public.contact_import_errors (
    import_id bigint NOT NULL,
    row_no bigint NOT NULL,
    failure jsonb NOT NULL
);

COMMENT ON TABLE public.contact_import_errors IS 'A row of an imported list that was not stored. Each import keeps only the first 10,000 such rows. Written by internal/audience/contact in the transaction of the portion that contains the row. It does not contain the values of the row.';

COMMENT ON COLUMN public.contact_import_errors.failure IS 'the first error of the row, as JSON of fault.Field';

CREATE TABLE public.contact_imports (
    id bigint NOT NULL,
    company_id bigint NOT NULL,
    file_name text NOT NULL,
    upload_id bigint,
    sheet text NOT NULL,
    tag text,
    status text DEFAULT 'running'::text NOT NULL,
    row_no bigint DEFAULT 0 NOT NULL,
    rows bigint DEFAULT 0 NOT NULL,
    added bigint DEFAULT 0 NOT NULL,
    changed bigint DEFAULT 0 NOT NULL,
    invalid bigint DEFAULT 0 NOT NULL,
    failure jsonb,
    created_by text NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    finished_at timestamp with time zone,
    default_region text DEFAULT ''::text NOT NULL,
    CONSTRAINT contact_imports_failed_says_why CHECK (((status = 'failed'::text) = (failure IS NOT NULL))),
    CONSTRAINT contact_imports_progress CHECK (((added >= 0) AND (changed >= 0) AND (invalid >= 0) AND (((added + changed) + invalid) <= rows) AND (rows <= row_no))),
    CONSTRAINT contact_imports_running_has_upload CHECK ((((status = 'running'::text) = (upload_id IS NOT NULL)) AND ((status = 'running'::text) = (finished_at IS NULL)))),
    CONSTRAINT contact_imports_status_known CHECK ((status = ANY (ARRAY['running'::text, 'finished'::text, 'failed'::text])))
);

COMMENT ON TABLE public.contact_imports IS 'An uploaded list of contacts, and the progress of storing its rows. Written by internal/audience/contact. One transaction stores a portion of rows and the new counts, so that any server can continue after row_no.';

COMMENT ON COLUMN public.contact_imports.upload_id IS 'the uploaded list. There is no foreign key, because the upload is deleted when the import ends; null: the import has ended';

COMMENT ON COLUMN public.contact_imports.sheet IS 'the sheet of a workbook; empty: the first sheet that is not hidden';

COMMENT ON COLUMN public.contact_imports.tag IS 'the tag to which the contacts are added; null: no tag';

COMMENT ON COLUMN public.contact_imports.row_no IS 'number of the last processed row, as a spreadsheet program shows it';

COMMENT ON COLUMN public.contact_imports.rows IS 'processed rows, except empty rows';

COMMENT ON COLUMN public.contact_imports.added IS 'number of contacts that the import created';

COMMENT ON COLUMN public.contact_imports.changed IS 'number of existing contacts that the import changed';

COMMENT ON COLUMN public.contact_imports.invalid IS 'rows that were not stored';

COMMENT ON COLUMN public.contact_imports.failure IS 'the reason why the rest of the list could not be read, as JSON of fault.Field; null: no error';

COMMENT ON COLUMN public.contact_imports.created_by IS 'the user. There is no foreign key, because the configured user is in no table';

COMMENT ON COLUMN public.contact_imports.default_region IS 'region (ISO 3166-1) of phone numbers without a country code; empty: the region of the company';

ALTER TABLE public.contact_imports ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.contact_imports_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.contacts (
    company_id bigint NOT NULL,
    user_id text NOT NULL,
    phone text,
    dingtalk_name text,
    wechat_openid text,
    email text,
    updated_at timestamp with time zone DEFAULT now() NOT NULL,
    name text,
    attributes jsonb DEFAULT '{}'::jsonb NOT NULL,
    CONSTRAINT contacts_attributes_are_texts CHECK (((jsonb_typeof(attributes) = 'object'::text) AND (NOT (attributes @? '$.*?(@.type() != "string")'::jsonpath)) AND (char_length((attributes)::text) <= 200000))),
    CONSTRAINT contacts_lengths CHECK ((((char_length(user_id) >= 1) AND (char_length(user_id) <= 64)) AND ((char_length(phone) >= 1) AND (char_length(phone) <= 20)) AND ((char_length(dingtalk_name) >= 1) AND (char_length(dingtalk_name) <= 100)) AND ((char_length(wechat_openid) >= 1) AND (char_length(wechat_openid) <= 100)) AND ((char_length(email) >= 1) AND (char_length(email) <= 254)))),
    CONSTRAINT contacts_name_length CHECK (((char_length(name) >= 1) AND (char_length(name) <= 100)))
);

COMMENT ON TABLE public.contacts IS 'A person whom a company can notify, with the addresses on each channel. Written by internal/audience/contact.';

COMMENT ON COLUMN public.contacts.user_id IS 'the id of the person in the systems of the company. It does not refer to users';

COMMENT ON COLUMN public.contacts.phone IS 'the address on the channel sms; null: no address';

COMMENT ON COLUMN public.contacts.dingtalk_name IS 'the address on the channel dingtalk; null: no address';

COMMENT ON COLUMN public.contacts.wechat_openid IS 'the address on the channel wechat; null: no address';

COMMENT ON COLUMN public.contacts.email IS 'the address on the channel email; null: no address';

COMMENT ON COLUMN public.contacts.name IS 'the name of the person in messages; null: unknown';

COMMENT ON COLUMN public.contacts.attributes IS 'values for the placeholders of templates, by name';

CREATE TABLE public.conversations (
    company_id bigint NOT NULL,
    phone_number text NOT NULL,
    submitted_by text DEFAULT ''::text NOT NULL,
    last_id bigint NOT NULL,
    unread bigint NOT NULL
);

COMMENT ON TABLE public.conversations IS 'The last message that a company received from a phone number, and the number of unread messages. The table exists because a list of conversations would otherwise read all received messages. A number has one row with an empty submitted_by for all its messages, and one row for each user whose tasks it answered, so that each list reads one index in its order. Written by triggers of received_messages, in the transaction of the message; a row is deleted when its last message is deleted or erased.';

COMMENT ON COLUMN public.conversations.phone_number IS 'received_messages.phone_number';

COMMENT ON COLUMN public.conversations.submitted_by IS 'only messages with this received_messages.submitted_by; empty: all messages';

COMMENT ON COLUMN public.conversations.last_id IS 'the largest received_messages.id of these messages';

COMMENT ON COLUMN public.conversations.unread IS 'the number of these messages without read_at';

CREATE TABLE public.countries (
    id bigint NOT NULL,
    country_no text NOT NULL,
    name text NOT NULL,
    dial_prefix text NOT NULL,
    signature_required boolean DEFAULT false NOT NULL,
    version bigint DEFAULT 1 NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    updated_at timestamp with time zone DEFAULT now() NOT NULL,
    region text,
    status text DEFAULT 'on'::text NOT NULL,
    CONSTRAINT countries_country_no_length CHECK (((char_length(country_no) >= 1) AND (char_length(country_no) <= 50))),
    CONSTRAINT countries_dial_prefix_form CHECK ((dial_prefix ~ '^[1-9][0-9]{0,6}$'::text)),
    CONSTRAINT countries_name_length CHECK (((char_length(name) >= 1) AND (char_length(name) <= 100))),
    CONSTRAINT countries_region_form CHECK ((region ~ '^[A-Z]{2}$'::text)),
    CONSTRAINT countries_status_known CHECK ((status = ANY (ARRAY['on'::text, 'off'::text])))
);

COMMENT ON TABLE public.countries IS 'A country, or any other set of phone numbers that routes can name. Written by internal/dispatch/directory.';

COMMENT ON COLUMN public.countries.country_no IS 'the name in requests';

COMMENT ON COLUMN public.countries.dial_prefix IS 'the prefix without the +. If several prefixes match a number, the longest counts';

COMMENT ON COLUMN public.countries.signature_required IS 'true: a message without a signature is rejected';

COMMENT ON COLUMN public.countries.version IS 'incremented by each update. An update names the version that its caller has read, and is rejected if the version has changed since';

COMMENT ON COLUMN public.countries.region IS 'ISO 3166-1 code: only the numbers of this region belong to the country; null: all numbers with the prefix';

COMMENT ON COLUMN public.countries.status IS 'on or off. off: tasks to the country are held';

ALTER TABLE public.countries ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.countries_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.credentials_version (
    is_only boolean DEFAULT true NOT NULL,
    version xid8 NOT NULL,
    CONSTRAINT credentials_version_is_one_row CHECK (is_only)
);

COMMENT ON TABLE public.credentials_version IS 'One row: the number of the last transaction that changed users or API keys. Written by triggers of these tables. Servers compare it with the number of the credentials in their memory. The row is missing until the first change.';

COMMENT ON COLUMN public.credentials_version.is_only IS 'always true. As the primary key, it allows only one row';

CREATE TABLE public.daily_totals (
    id bigint NOT NULL,
    day date NOT NULL,
    company_id bigint NOT NULL,
    sender_no text NOT NULL,
    message_type text NOT NULL,
    country_no text NOT NULL,
    is_test boolean NOT NULL,
    attempted bigint NOT NULL,
    accepted bigint NOT NULL,
    delivered bigint NOT NULL,
    segments bigint NOT NULL,
    cost bigint NOT NULL
);

COMMENT ON TABLE public.daily_totals IS 'The totals of a sender, a company and a day, for messages of one type to one country. The day is in the time zone of the setting monitoring.time_zone. Tests have their own rows: companies do not see tests, but a provider counts them. Written only by internal/insight/reconcile, in the transaction that deletes the facts. The rows are kept for ever.';

COMMENT ON COLUMN public.daily_totals.day IS 'the day on which the attempts ended, and on which the provider accepted them';

COMMENT ON COLUMN public.daily_totals.company_id IS 'There is no foreign key, because the row is kept when the company is deleted';

COMMENT ON COLUMN public.daily_totals.sender_no IS 'There is no foreign key, as for facts.sender_no';

COMMENT ON COLUMN public.daily_totals.message_type IS 'see messages.message_type; empty: unknown';

COMMENT ON COLUMN public.daily_totals.country_no IS 'see messages.country_no; empty: no country, for example on other channels than sms';

COMMENT ON COLUMN public.daily_totals.attempted IS 'leases that the sender ended by a report';

COMMENT ON COLUMN public.daily_totals.accepted IS 'attempts that were reported SUCCESS';

COMMENT ON COLUMN public.daily_totals.delivered IS 'receipts of delivered messages, counted on the day on which the message was accepted';

COMMENT ON COLUMN public.daily_totals.segments IS 'segments of the accepted messages';

COMMENT ON COLUMN public.daily_totals.cost IS 'price of the segments, in 1/10000 of the currency. The price is that of the sender at the time of counting';

ALTER TABLE public.daily_totals ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.daily_totals_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.dedup_keys (
    company_id bigint NOT NULL,
    submitted_by text NOT NULL,
    dedup_key text NOT NULL,
    task_id text NOT NULL COLLATE pg_catalog."C",
    made_on date DEFAULT ((now() AT TIME ZONE 'UTC'::text))::date NOT NULL,
    CONSTRAINT dedup_keys_dedup_key_length CHECK (((char_length(dedup_key) >= 1) AND (char_length(dedup_key) <= 100)))
);

COMMENT ON TABLE public.dedup_keys IS 'A dedup_key of a submitter, and the task that it names. Written by internal/dispatch/queue with the message. It is kept when the message is dropped, for the time of the setting history.dedup_keep_days.';

COMMENT ON COLUMN public.dedup_keys.made_on IS 'the day (UTC) of the submission. For a key that is older than this column, it is the day of the upgrade';

CREATE TABLE public.default_contents (
    id bigint NOT NULL,
    phone_number text NOT NULL,
    recipient text NOT NULL,
    content text NOT NULL,
    use_template boolean DEFAULT false NOT NULL,
    is_sent boolean DEFAULT false NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    updated_at timestamp with time zone DEFAULT now() NOT NULL,
    company_id bigint DEFAULT 1 NOT NULL,
    CONSTRAINT default_contents_content_length CHECK (((char_length(content) >= 1) AND (char_length(content) <= 1024)))
);

COMMENT ON TABLE public.default_contents IS 'The text that is sent to a phone number when a submission has no text. It is sent once. Written by internal/dispatch/template.';

COMMENT ON COLUMN public.default_contents.phone_number IS 'the number as the caller wrote it';

COMMENT ON COLUMN public.default_contents.recipient IS 'the number in E.164, so that the number is unique whatever its notation';

COMMENT ON COLUMN public.default_contents.use_template IS 'true: the active template is rendered with the content as its parameters';

COMMENT ON COLUMN public.default_contents.is_sent IS 'true: a submission has used the content. An administrator can reset it';

COMMENT ON COLUMN public.default_contents.company_id IS 'the company whose users send the content. A recipient is unique in the company';

ALTER TABLE public.default_contents ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.default_contents_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.deleted_tags (
    tag_id bigint NOT NULL
);

COMMENT ON TABLE public.deleted_tags IS 'A deleted tag that possibly still has rows in tag_contacts. A trigger of tags adds the row. internal/audience/contact deletes it after the rows in tag_contacts.';

CREATE TABLE public.deliveries (
    id bigint NOT NULL,
    task_id text NOT NULL COLLATE pg_catalog."C",
    lease_id bigint NOT NULL,
    sender_no text NOT NULL,
    recipient text NOT NULL,
    provider_no text,
    error text,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    answer text,
    in_part boolean DEFAULT false NOT NULL,
    CONSTRAINT deliveries_error_length CHECK ((char_length(error) <= 500)),
    CONSTRAINT deliveries_provider_no_length CHECK (((char_length(provider_no) >= 1) AND (char_length(provider_no) <= 200)))
);

COMMENT ON TABLE public.deliveries IS 'An attempt to send a task through a provider: the number that the provider gave to the message, or the reason why the outcome is unclear. Written by internal/dispatch/queue. The erasure of a person clears its texts. There are no foreign keys, because each insert would lock rows of other tables.';

COMMENT ON COLUMN public.deliveries.lease_id IS 'the lease of the attempt';

COMMENT ON COLUMN public.deliveries.recipient IS 'the recipient of the task. Receipts are matched by it';

COMMENT ON COLUMN public.deliveries.provider_no IS 'the number that the provider gave to the message; null: it is unknown whether the message was sent';

COMMENT ON COLUMN public.deliveries.error IS 'the reason why it is unknown whether the message was sent; null: the provider accepted the message';

COMMENT ON COLUMN public.deliveries.answer IS 'the unchanged answer of the provider, without secrets, at most 2,000 characters; null: no answer, or the report contains it';

COMMENT ON COLUMN public.deliveries.in_part IS 'the provider took only some parts of the message: the receipts of these parts do not change its outcome';

ALTER TABLE public.deliveries ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.deliveries_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.directory_version (
    is_only boolean DEFAULT true NOT NULL,
    version xid8 NOT NULL,
    CONSTRAINT directory_version_is_one_row CHECK (is_only)
);

COMMENT ON TABLE public.directory_version IS 'One row: the number of the last transaction that changed the directory: companies, channels, countries, pools, routes, or a column of senders that concerns others. Written by triggers of these tables. Servers compare it with the number of the directory in their memory. The row is missing until the first change.';

COMMENT ON COLUMN public.directory_version.is_only IS 'always true. As the primary key, it allows only one row';

CREATE TABLE public.disk_spaces (
    host text NOT NULL,
    folder text NOT NULL,
    bytes bigint NOT NULL,
    free_bytes bigint NOT NULL,
    measured_at timestamp with time zone DEFAULT now() NOT NULL
);

COMMENT ON TABLE public.disk_spaces IS 'The file system of a folder that one server uses. Written by internal/insight/alert on that server, once a minute; rows of stopped servers are deleted after a day.';

COMMENT ON COLUMN public.disk_spaces.free_bytes IS 'the space that an ordinary user can still use';

CREATE TABLE public.notification_templates (
    id bigint NOT NULL,
    biz_type smallint NOT NULL,
    channel_id bigint NOT NULL,
    title text NOT NULL,
    content text NOT NULL,
    external_id text DEFAULT ''::text NOT NULL,
    is_enabled boolean DEFAULT true NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    updated_at timestamp with time zone DEFAULT now() NOT NULL,
    sign text,
    html text,
    CONSTRAINT notification_templates_html_length CHECK (((char_length(html) >= 1) AND (char_length(html) <= 100000))),
    CONSTRAINT notification_templates_lengths CHECK ((((char_length(title) >= 1) AND (char_length(title) <= 200)) AND ((char_length(content) >= 1) AND (char_length(content) <= 20000)) AND (char_length(external_id) <= 64))),
    CONSTRAINT notification_templates_sign_length CHECK (((char_length(sign) >= 1) AND (char_length(sign) <= 20)))
);

COMMENT ON TABLE public.notification_templates IS 'The title and text of a business type on a channel. Written by internal/audience/notification.';

COMMENT ON COLUMN public.notification_templates.biz_type IS 'see notifications.biz_type; 32767 is the type of alerts';

COMMENT ON COLUMN public.notification_templates.external_id IS 'the template of the provider; empty: no template';

COMMENT ON COLUMN public.notification_templates.sign IS 'the signature of notifications that have no signature of their own; null: the signature of the sender';

COMMENT ON COLUMN public.notification_templates.html IS 'the content as HTML, for e-mail; null: no HTML';

CREATE VIEW public.effective_notification_templates AS
 SELECT c.id AS company_id,
    t.biz_type,
    t.channel_id,
    t.title,
    t.content,
    t.html,
    t.external_id,
    t.sign
   FROM (public.companies c
     CROSS JOIN public.notification_templates t)
  WHERE (t.is_enabled AND (NOT (EXISTS ( SELECT
           FROM public.company_notification_templates o
          WHERE ((o.company_id = c.id) AND (o.biz_type = t.biz_type) AND (o.channel_id = t.channel_id) AND o.is_enabled)))))
UNION ALL
 SELECT o.company_id,
    o.biz_type,
    o.channel_id,
    o.title,
    o.content,
    o.html,
    o.external_id,
    o.sign
   FROM public.company_notification_templates o
  WHERE o.is_enabled;

COMMENT ON VIEW public.effective_notification_templates IS 'The notification template that a company uses for a business type and channel: its own template, or else the template of the platform.';

CREATE TABLE public.erasures (
    id bigint NOT NULL,
    company_id bigint NOT NULL,
    user_ids text[] NOT NULL,
    recipients text[] NOT NULL,
    asked_recipients text[] NOT NULL,
    status text DEFAULT 'running'::text NOT NULL,
    held bigint DEFAULT 0 NOT NULL,
    counts jsonb DEFAULT '{}'::jsonb NOT NULL,
    exports text[] DEFAULT '{}'::text[] NOT NULL,
    created_by text NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    next_at timestamp with time zone DEFAULT now() NOT NULL,
    finished_at timestamp with time zone,
    CONSTRAINT erasures_finished_knows_nobody CHECK ((((status = 'finished'::text) = (finished_at IS NOT NULL)) AND ((status = 'running'::text) OR (((user_ids || recipients) || asked_recipients) = '{}'::text[])))),
    CONSTRAINT erasures_status_known CHECK ((status = ANY (ARRAY['running'::text, 'finished'::text])))
);

COMMENT ON TABLE public.erasures IS 'A request to erase a person from the stored data of a company. Written by internal/audience/erasure, which clears the identity of the person when the erasure has ended.';

COMMENT ON COLUMN public.erasures.user_ids IS 'contacts.user_id of the person; empty: the erasure has ended, or no user id is known';

COMMENT ON COLUMN public.erasures.recipients IS 'phone numbers in E.164 and e-mail addresses of the person; empty: the erasure has ended, or no address is known. A message to one of them is erased, unless it was created for another user';

COMMENT ON COLUMN public.erasures.asked_recipients IS 'the part of recipients that the request named. Every contact with one of them, and every message to one of them, belongs to the person. empty: the erasure has ended, or the request named a user';

COMMENT ON COLUMN public.erasures.held IS 'number of tasks that senders held, and of lists that were being read, at the last check';

COMMENT ON COLUMN public.erasures.counts IS 'the number of erased rows, by kind';

COMMENT ON COLUMN public.erasures.exports IS 'folders of exports of history that contain erased tasks';

COMMENT ON COLUMN public.erasures.next_at IS 'the time at which the erasure continues';

ALTER TABLE public.erasures ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.erasures_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.events (
    id bigint NOT NULL,
    event text NOT NULL,
    subject text NOT NULL,
    detail jsonb DEFAULT '{}'::jsonb NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL
);

COMMENT ON TABLE public.events IS 'An operator event: a changed setting, a sender with a low balance, an open circuit breaker, a slow queue. Written by internal/insight/alert, internal/dispatch/push, internal/dispatch/queue and internal/platform/setting in the transaction of the change.';

COMMENT ON COLUMN public.events.event IS 'the kind, such as sender.low_warning';

COMMENT ON COLUMN public.events.subject IS 'what the event is about: a sender_no, the category and name of a setting, or queue';

COMMENT ON COLUMN public.events.detail IS 'values of the event, which depend on its kind';

ALTER TABLE public.events ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.events_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.fair_ranks (
    pool_id bigint NOT NULL,
    priority smallint NOT NULL,
    company_id bigint NOT NULL,
    start double precision NOT NULL,
    finish double precision NOT NULL,
    flow text,
    flow_finish double precision,
    CONSTRAINT fair_ranks_priority_range CHECK (((priority >= 0) AND (priority <= 9)))
)
WITH (fillfactor='50');

COMMENT ON TABLE public.fair_ranks IS 'The last range of ranks that a company received in a pool and priority. Ranks divide a pool fairly between companies (start-time fair queueing): each task uses 1 / weight of its company. Written by internal/dispatch/queue. internal/dispatch/directory deletes the row together with its pool. pool_id has no foreign key, because each submission would lock the pool.';

COMMENT ON COLUMN public.fair_ranks.start IS 'the beginning of the range: the rank of its first task';

COMMENT ON COLUMN public.fair_ranks.finish IS 'the end of the range. The next range of the company begins here or later';

COMMENT ON COLUMN public.fair_ranks.flow IS 'the flow (see task_flow) of all tasks that received ranks since the company last had no waiting task; null: several flows, or unknown';

COMMENT ON COLUMN public.fair_ranks.flow_finish IS 'the end of the ranks that were given while only the tasks of flow waited. Up to this rank, tasks of flow have no flow_rank. All later tasks of the company have one, because several flows wait. null: only flow waits';

CREATE SEQUENCE public.feed_ids
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;

CREATE TABLE public.feed (
    id bigint DEFAULT nextval('public.feed_ids'::regclass) NOT NULL,
    company_id bigint NOT NULL,
    submitted_by text NOT NULL,
    type text NOT NULL,
    task_id text COLLATE pg_catalog."C",
    log_id bigint,
    at timestamp with time zone NOT NULL,
    data jsonb,
    CONSTRAINT feed_task_has_log CHECK ((((task_id IS NULL) = (log_id IS NULL)) AND ((task_id IS NULL) = (data IS NOT NULL))))
);

COMMENT ON TABLE public.feed IS 'An event for submitters, kept for a week. internal/events/feed writes the rows from feed_staged. Only one transaction at a time does this, so ids ascend in the order in which the rows become visible. A reader that continues after the last id therefore misses no event. The table contains no personal data: the content of an event of a task is read from messages and report_logs when the event is read.';

COMMENT ON COLUMN public.feed.company_id IS '0: an event of the service itself, which only listeners to all companies receive. There is no foreign key, because the row is kept when the company is deleted';

COMMENT ON COLUMN public.feed.submitted_by IS 'the user who submitted the task or the batch; empty: no longer known';

COMMENT ON COLUMN public.feed.type IS 'the type of the event, as in the contract: for example message.sent';

COMMENT ON COLUMN public.feed.task_id IS 'null: the event is not about a task';

COMMENT ON COLUMN public.feed.log_id IS 'the row of report_logs about the event; null: the event is not about a task';

COMMENT ON COLUMN public.feed.at IS 'the time of the event';

COMMENT ON COLUMN public.feed.data IS 'the data of the event; null: the data is read from the task';

CREATE TABLE public.feed_listeners (
    id bigint NOT NULL,
    company_id bigint,
    since_id bigint NOT NULL,
    is_pushed boolean NOT NULL,
    listens_until timestamp with time zone NOT NULL
);

COMMENT ON TABLE public.feed_listeners IS 'A company whose events are recorded, because it has webhooks, or because its events were read within a week. Written by internal/events/feed and internal/events/webhook. The events of a company without a row are not recorded.';

COMMENT ON COLUMN public.feed_listeners.company_id IS 'null: all companies';

COMMENT ON COLUMN public.feed_listeners.since_id IS 'all events of the company after this id of feed were recorded';

COMMENT ON COLUMN public.feed_listeners.is_pushed IS 'true: an active webhook exists';

COMMENT ON COLUMN public.feed_listeners.listens_until IS 'events are recorded until this time, with or without a webhook';

ALTER TABLE public.feed_listeners ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.feed_listeners_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.feed_staged (
    id bigint NOT NULL,
    company_id bigint NOT NULL,
    submitted_by text,
    type text NOT NULL,
    task_id text COLLATE pg_catalog."C",
    log_id bigint,
    at timestamp with time zone NOT NULL,
    data jsonb
);

COMMENT ON TABLE public.feed_staged IS 'An event that becomes a row of feed. Triggers of report_logs, batches, notifications, events, received_messages and verifications store it in the transaction that causes the event, only if the events are recorded. internal/events/feed moves the row to feed within a second. Of two events of a task, the later event has the larger id.';

COMMENT ON COLUMN public.feed_staged.company_id IS '0: an event of the service itself';

COMMENT ON COLUMN public.feed_staged.submitted_by IS 'null: an event of a task; its message contains the user';

ALTER TABLE public.feed_staged ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.feed_staged_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.feed_state (
    is_only boolean DEFAULT true NOT NULL,
    pruned_id bigint DEFAULT 0 NOT NULL,
    CONSTRAINT feed_state_one_row CHECK (is_only)
);

COMMENT ON TABLE public.feed_state IS 'One row: how far the feed was deleted. Written by internal/events/feed in the transaction of the deletion.';

COMMENT ON COLUMN public.feed_state.pruned_id IS 'the largest id that was deleted from feed';

CREATE TABLE public.fruitless_submissions (
    id bigint DEFAULT nextval('public.submission_ids'::regclass) NOT NULL,
    request_id text,
    task_id text COLLATE pg_catalog."C",
    phone_number text,
    content text,
    use_template boolean,
    source_ip text,
    user_agent text,
    request_data jsonb,
    response_data jsonb,
    status_code smallint NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    company_id bigint
);

COMMENT ON TABLE public.fruitless_submissions IS 'A submission that created no task: it was rejected, or it repeated a dedup_key. Written by internal/dispatch/queue.';

COMMENT ON COLUMN public.fruitless_submissions.task_id IS 'the task that the submission repeated; null: the submission was rejected';

COMMENT ON COLUMN public.fruitless_submissions.phone_number IS 'the number as the caller wrote it; null: not given or unreadable';

COMMENT ON COLUMN public.fruitless_submissions.response_data IS 'the answer. data.deduplicated is true if the submission repeated a dedup_key';

COMMENT ON COLUMN public.fruitless_submissions.status_code IS 'HTTP status of the answer';

COMMENT ON COLUMN public.fruitless_submissions.company_id IS 'the company of the submitter. There is no foreign key, as in messages; null: stored before this column existed';

CREATE TABLE public.idempotency_keys (
    username text NOT NULL,
    operation text NOT NULL,
    key text NOT NULL,
    request_hash bytea NOT NULL,
    response bytea NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL
);

COMMENT ON TABLE public.idempotency_keys IS 'The response to a request with an Idempotency-Key. Written by internal/platform/idempotency, which deletes rows after a day. username has no foreign key, because the configured user is in no table.';

COMMENT ON COLUMN public.idempotency_keys.operation IS 'operation of the API; a caller can use the same key for different operations';

COMMENT ON COLUMN public.idempotency_keys.request_hash IS 'SHA-256 of the request; the same key with another request is rejected';

COMMENT ON COLUMN public.idempotency_keys.response IS 'the answer that a repeated request receives';

CREATE TABLE public.idempotency_secret (
    is_only boolean DEFAULT true NOT NULL,
    secret bytea NOT NULL,
    CONSTRAINT idempotency_secret_is_only CHECK (is_only)
);

COMMENT ON TABLE public.idempotency_secret IS 'One row: the secret of the installation, which the migration generates and nobody changes. platform/idempotency hashes the keys of its advisory locks with it. Every database role can hold an advisory lock, but only roles that read this table can know the key of the lock.';

COMMENT ON COLUMN public.idempotency_secret.is_only IS 'Always true, so that the table has at most one row.';

CREATE TABLE public.inbounds (
    id bigint NOT NULL,
    inbound_no text NOT NULL,
    company_id bigint NOT NULL,
    preset text NOT NULL,
    description jsonb,
    phone_numbers text[],
    message_type smallint NOT NULL,
    priority smallint,
    template_no text,
    sign text,
    repeat_seconds bigint,
    is_test boolean DEFAULT false NOT NULL,
    status text DEFAULT 'on'::text NOT NULL,
    version bigint DEFAULT 1 NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    updated_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT inbounds_description_is_object CHECK ((jsonb_typeof(description) = 'object'::text)),
    CONSTRAINT inbounds_inbound_no_length CHECK (((char_length(inbound_no) >= 1) AND (char_length(inbound_no) <= 50))),
    CONSTRAINT inbounds_message_type_range CHECK (((message_type >= 0) AND (message_type <= 2))),
    CONSTRAINT inbounds_phone_numbers_size CHECK ((cardinality(phone_numbers) <= 100)),
    CONSTRAINT inbounds_preset_length CHECK (((char_length(preset) >= 1) AND (char_length(preset) <= 50))),
    CONSTRAINT inbounds_priority_range CHECK (((priority >= 0) AND (priority <= 9))),
    CONSTRAINT inbounds_repeat_seconds_range CHECK ((repeat_seconds > 0)),
    CONSTRAINT inbounds_status_known CHECK ((status = ANY (ARRAY['on'::text, 'off'::text])))
);

COMMENT ON TABLE public.inbounds IS 'A description of how the posts of one other program become messages of a company. Written by internal/transport/inbound. The erasure of a person removes its number from phone_numbers.';

COMMENT ON COLUMN public.inbounds.preset IS 'the name of the preset. A preset is a description of a program that internal/transport/inbound contains. custom: no preset';

COMMENT ON COLUMN public.inbounds.description IS 'the members that replace members of the preset; null: the preset is unchanged';

COMMENT ON COLUMN public.inbounds.phone_numbers IS 'recipients of every post, in E.164; null: the body of the post names them; empty: an erasure removed the last recipient, and posts are rejected';

COMMENT ON COLUMN public.inbounds.message_type IS 'see messages.message_type';

COMMENT ON COLUMN public.inbounds.priority IS 'null: the priority of the message type';

COMMENT ON COLUMN public.inbounds.template_no IS 'template of the messages; null: the description contains their text. There is no foreign key: a deleted template is an error of each post';

COMMENT ON COLUMN public.inbounds.sign IS 'null: the signature of the template or the sender';

COMMENT ON COLUMN public.inbounds.repeat_seconds IS 'seconds after which a repeated post is sent again; null: a repeated post is never sent again';

ALTER TABLE public.inbounds ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.inbounds_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE SEQUENCE public.lease_ids
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;

CREATE TABLE public.lock_age_tasks (
);

COMMENT ON TABLE public.lock_age_tasks IS 'No rows. The lock of the sweep age-tasks: the server that runs the sweep locks this table, so two servers never run the sweep at once.';

CREATE TABLE public.lock_apply_reply_rules (
);

COMMENT ON TABLE public.lock_apply_reply_rules IS 'No rows. The lock of the sweep apply-reply-rules: the server that applies rules locks this table, so two servers never count the replies to a number at once.';

CREATE TABLE public.lock_check_batches (
);

COMMENT ON TABLE public.lock_check_batches IS 'No rows. The lock of the sweep check-batches: the server that runs the sweep locks this table, so two servers never run the sweep at once.';

CREATE TABLE public.lock_close_rank_gaps (
);

COMMENT ON TABLE public.lock_close_rank_gaps IS 'No rows. The lock of the sweep close-rank-gaps: the server that runs the sweep locks this table, so two servers never run the sweep at once.';

CREATE TABLE public.lock_compare_statements (
);

COMMENT ON TABLE public.lock_compare_statements IS 'No rows. The lock of the sweep compare-statements: the server that runs the sweep locks this table, so two servers never run the sweep at once.';

CREATE TABLE public.lock_count_verifications (
);

COMMENT ON TABLE public.lock_count_verifications IS 'Has no rows. The server that runs the sweep count-verifications locks this table.';

CREATE TABLE public.lock_delete_expired_audit (
);

COMMENT ON TABLE public.lock_delete_expired_audit IS 'No rows. The lock of the sweep delete-expired-audit: the server that runs the sweep locks this table, so two servers never run the sweep at once.';

CREATE TABLE public.lock_delete_expired_batches (
);

COMMENT ON TABLE public.lock_delete_expired_batches IS 'No rows. The lock of the sweep delete-expired-batches: the server that runs the sweep locks this table, so two servers never run the sweep at once.';

CREATE TABLE public.lock_delete_expired_blocks (
);

COMMENT ON TABLE public.lock_delete_expired_blocks IS 'No rows. The lock of the sweep delete-expired-blocks: the server that runs the sweep locks this table, so two servers never run the sweep at once.';

CREATE TABLE public.lock_delete_expired_callbacks (
);

COMMENT ON TABLE public.lock_delete_expired_callbacks IS 'No rows. The lock of the sweep delete-expired-callbacks: the server that runs the sweep locks this table, so two servers never run the sweep at once.';

CREATE TABLE public.lock_delete_expired_caps (
);

COMMENT ON TABLE public.lock_delete_expired_caps IS 'Has no rows. The server that runs the sweep delete-expired-caps locks this table.';

CREATE TABLE public.lock_delete_expired_contact_imports (
);

COMMENT ON TABLE public.lock_delete_expired_contact_imports IS 'No rows. The lock of the sweep delete-expired-contact-imports: the server that runs the sweep locks this table, so two servers never run the sweep at once.';

CREATE TABLE public.lock_delete_expired_erasures (
);

COMMENT ON TABLE public.lock_delete_expired_erasures IS 'No rows. The lock of the sweep delete-expired-erasures: the server that runs the sweep locks this table, so two servers never run the sweep at once.';

CREATE TABLE public.lock_delete_expired_events (
);

COMMENT ON TABLE public.lock_delete_expired_events IS 'No rows. The lock of the sweep delete-expired-events: the server that runs the sweep locks this table, so two servers never run the sweep at once.';

CREATE TABLE public.lock_delete_expired_feed (
);

COMMENT ON TABLE public.lock_delete_expired_feed IS 'No rows. The lock of the sweep delete-expired-feed: the server that runs the sweep locks this table, so two servers never run the sweep at once.';

CREATE TABLE public.lock_delete_expired_idempotency_keys (
);

COMMENT ON TABLE public.lock_delete_expired_idempotency_keys IS 'No rows. The lock of the sweep delete-expired-idempotency-keys: the server that runs the sweep locks this table, so two servers never run the sweep at once.';

CREATE TABLE public.lock_delete_expired_received (
);

COMMENT ON TABLE public.lock_delete_expired_received IS 'No rows. The lock of the sweep delete-expired-received: the server that runs the sweep locks this table, so two servers never run the sweep at once.';

CREATE TABLE public.lock_delete_expired_reconciliations (
);

COMMENT ON TABLE public.lock_delete_expired_reconciliations IS 'No rows. The lock of the sweep delete-expired-reconciliations: the server that runs the sweep locks this table, so two servers never run the sweep at once.';

CREATE TABLE public.lock_delete_expired_reply_actions (
);

COMMENT ON TABLE public.lock_delete_expired_reply_actions IS 'No rows. The lock of a former sweep, for servers of earlier versions. A later version drops this table.';

CREATE TABLE public.lock_delete_expired_sessions (
);

COMMENT ON TABLE public.lock_delete_expired_sessions IS 'No rows. The lock of the sweep delete-expired-sessions: the server that runs the sweep locks this table, so two servers never run the sweep at once.';

CREATE TABLE public.lock_delete_expired_sim_recipients (
);

COMMENT ON TABLE public.lock_delete_expired_sim_recipients IS 'Has no rows. The server that runs the sweep delete-expired-sim-recipients locks this table.';

CREATE TABLE public.lock_delete_expired_smpp (
);

COMMENT ON TABLE public.lock_delete_expired_smpp IS 'Has no rows. The server that runs the sweep delete-expired-smpp locks this table.';

CREATE TABLE public.lock_delete_expired_smsgate_messages (
);

COMMENT ON TABLE public.lock_delete_expired_smsgate_messages IS 'No rows. The lock of the sweep delete-expired-smsgate-messages: the server that runs the sweep locks this table, so two servers never run the sweep at once.';

CREATE TABLE public.lock_delete_expired_statistics (
);

COMMENT ON TABLE public.lock_delete_expired_statistics IS 'No rows. The lock of the sweep delete-expired-statistics: the server that runs the sweep locks this table, so two servers never run the sweep at once.';

CREATE TABLE public.lock_delete_expired_submissions (
);

COMMENT ON TABLE public.lock_delete_expired_submissions IS 'No rows. The lock of the sweep delete-expired-submissions: the server that runs the sweep locks this table, so two servers never run the sweep at once.';

CREATE TABLE public.lock_delete_expired_task_jobs (
);

COMMENT ON TABLE public.lock_delete_expired_task_jobs IS 'No rows. The lock of the sweep delete-expired-task-jobs: the server that runs the sweep locks this table, so two servers never run the sweep at once.';

CREATE TABLE public.lock_delete_expired_verifications (
);

COMMENT ON TABLE public.lock_delete_expired_verifications IS 'Has no rows. The server that runs the sweep delete-expired-verifications locks this table.';

CREATE TABLE public.lock_delete_retired_pools (
);

COMMENT ON TABLE public.lock_delete_retired_pools IS 'No rows. The lock of the sweep delete-retired-pools: the server that runs the sweep locks this table, so two servers never run the sweep at once.';

CREATE TABLE public.lock_delete_stopped_servers (
);

COMMENT ON TABLE public.lock_delete_stopped_servers IS 'No rows. The lock of the sweep delete-stopped-servers: the server that runs the sweep locks this table, so two servers never run the sweep at once.';

CREATE TABLE public.lock_delete_unused_texts (
);

COMMENT ON TABLE public.lock_delete_unused_texts IS 'No rows. The lock of the sweep delete-unused-texts: the server that runs the sweep locks this table, so two servers never run the sweep at once.';

CREATE TABLE public.lock_delete_unused_uploads (
);

COMMENT ON TABLE public.lock_delete_unused_uploads IS 'No rows. The lock of the sweep delete-unused-uploads: the server that runs the sweep locks this table, so two servers never run the sweep at once.';

CREATE TABLE public.lock_empty_deleted_tags (
);

COMMENT ON TABLE public.lock_empty_deleted_tags IS 'No rows. The lock of the sweep empty-deleted-tags: the server that runs the sweep locks this table, so two servers never run the sweep at once.';

CREATE TABLE public.lock_end_smpp_messages (
);

COMMENT ON TABLE public.lock_end_smpp_messages IS 'Has no rows. The server that runs the sweep end-smpp-messages locks this table.';

CREATE TABLE public.lock_enforce_blocks (
);

COMMENT ON TABLE public.lock_enforce_blocks IS 'No rows. The lock of the sweep enforce-blocks: the server that runs the sweep locks this table, so two servers never run the sweep at once.';

CREATE TABLE public.lock_erase_people (
);

COMMENT ON TABLE public.lock_erase_people IS 'No rows. The lock of the sweep erase-people: the server that runs the sweep locks this table, so two servers never run the sweep at once.';

CREATE TABLE public.lock_evaluate_alert_rules (
);

COMMENT ON TABLE public.lock_evaluate_alert_rules IS 'No rows. The lock of the sweep evaluate-alert-rules: the server that runs the sweep locks this table, so two servers never run the sweep at once.';

CREATE TABLE public.lock_expire_tasks (
);

COMMENT ON TABLE public.lock_expire_tasks IS 'No rows. The lock of the sweep expire-tasks: the server that runs the sweep locks this table, so two servers never run the sweep at once.';

CREATE TABLE public.lock_expire_verifications (
);

COMMENT ON TABLE public.lock_expire_verifications IS 'Has no rows. The server that runs the sweep expire-verifications locks this table.';

CREATE TABLE public.lock_feed (
);

COMMENT ON TABLE public.lock_feed IS 'No rows. The lock of the feed: a transaction that moves events to feed locks this table, so two transactions never assign ids of feed at once.';

CREATE TABLE public.lock_feed_batches (
);

COMMENT ON TABLE public.lock_feed_batches IS 'No rows. The lock of the sweep feed-batches: the server that runs the sweep locks this table, so two servers never run the sweep at once.';

CREATE TABLE public.lock_fold_facts (
);

COMMENT ON TABLE public.lock_fold_facts IS 'No rows. The lock of the sweep fold-facts: the server that runs the sweep locks this table, so two servers never run the sweep at once.';

CREATE TABLE public.lock_follow_switches (
);

COMMENT ON TABLE public.lock_follow_switches IS 'No rows. The lock of the sweep follow-switches: the server that runs the sweep locks this table, so two servers never run the sweep at once.';

CREATE VIEW public.lock_forget_audit AS
 SELECT
   FROM public.lock_delete_expired_audit;

COMMENT ON VIEW public.lock_forget_audit IS 'The former name of lock_delete_expired_audit, for servers of version 1.0.0: a lock on this view also locks the table.';

CREATE VIEW public.lock_forget_batches AS
 SELECT
   FROM public.lock_delete_expired_batches;

COMMENT ON VIEW public.lock_forget_batches IS 'The former name of lock_delete_expired_batches, for servers of version 1.0.0: a lock on this view also locks the table.';

CREATE VIEW public.lock_forget_callbacks AS
 SELECT
   FROM public.lock_delete_expired_callbacks;

COMMENT ON VIEW public.lock_forget_callbacks IS 'The former name of lock_delete_expired_callbacks, for servers of version 1.0.0: a lock on this view also locks the table.';

CREATE VIEW public.lock_forget_contact_imports AS
 SELECT
   FROM public.lock_delete_expired_contact_imports;

COMMENT ON VIEW public.lock_forget_contact_imports IS 'The former name of lock_delete_expired_contact_imports, for servers of version 1.0.0: a lock on this view also locks the table.';

CREATE VIEW public.lock_forget_erasures AS
 SELECT
   FROM public.lock_delete_expired_erasures;

COMMENT ON VIEW public.lock_forget_erasures IS 'The former name of lock_delete_expired_erasures, for servers of version 1.0.0: a lock on this view also locks the table.';

CREATE VIEW public.lock_forget_events AS
 SELECT
   FROM public.lock_delete_expired_events;

COMMENT ON VIEW public.lock_forget_events IS 'The former name of lock_delete_expired_events, for servers of version 1.0.0: a lock on this view also locks the table.';

CREATE VIEW public.lock_forget_feed AS
 SELECT
   FROM public.lock_delete_expired_feed;

COMMENT ON VIEW public.lock_forget_feed IS 'The former name of lock_delete_expired_feed, for servers of version 1.0.0: a lock on this view also locks the table.';

CREATE VIEW public.lock_forget_idempotency_keys AS
 SELECT
   FROM public.lock_delete_expired_idempotency_keys;

COMMENT ON VIEW public.lock_forget_idempotency_keys IS 'The former name of lock_delete_expired_idempotency_keys, for servers of version 1.0.0: a lock on this view also locks the table.';

CREATE VIEW public.lock_forget_reconciliations AS
 SELECT
   FROM public.lock_delete_expired_reconciliations;

COMMENT ON VIEW public.lock_forget_reconciliations IS 'The former name of lock_delete_expired_reconciliations, for servers of version 1.0.0: a lock on this view also locks the table.';

CREATE VIEW public.lock_forget_retired_pools AS
 SELECT
   FROM public.lock_delete_retired_pools;

COMMENT ON VIEW public.lock_forget_retired_pools IS 'The former name of lock_delete_retired_pools, for servers of version 1.0.0: a lock on this view also locks the table.';

CREATE VIEW public.lock_forget_servers AS
 SELECT
   FROM public.lock_delete_stopped_servers;

COMMENT ON VIEW public.lock_forget_servers IS 'The former name of lock_delete_stopped_servers, for servers of version 1.0.0: a lock on this view also locks the table.';

CREATE VIEW public.lock_forget_sessions AS
 SELECT
   FROM public.lock_delete_expired_sessions;

COMMENT ON VIEW public.lock_forget_sessions IS 'The former name of lock_delete_expired_sessions, for servers of version 1.0.0: a lock on this view also locks the table.';

CREATE VIEW public.lock_forget_smsgate_messages AS
 SELECT
   FROM public.lock_delete_expired_smsgate_messages;

COMMENT ON VIEW public.lock_forget_smsgate_messages IS 'The former name of lock_delete_expired_smsgate_messages, for servers of version 1.0.0: a lock on this view also locks the table.';

CREATE VIEW public.lock_forget_statistics AS
 SELECT
   FROM public.lock_delete_expired_statistics;

COMMENT ON VIEW public.lock_forget_statistics IS 'The former name of lock_delete_expired_statistics, for servers of version 1.0.0: a lock on this view also locks the table.';

CREATE VIEW public.lock_forget_submissions AS
 SELECT
   FROM public.lock_delete_expired_submissions;

COMMENT ON VIEW public.lock_forget_submissions IS 'The former name of lock_delete_expired_submissions, for servers of version 1.0.0: a lock on this view also locks the table.';

CREATE VIEW public.lock_forget_task_jobs AS
 SELECT
   FROM public.lock_delete_expired_task_jobs;

COMMENT ON VIEW public.lock_forget_task_jobs IS 'The former name of lock_delete_expired_task_jobs, for servers of version 1.0.0: a lock on this view also locks the table.';

CREATE VIEW public.lock_forget_texts AS
 SELECT
   FROM public.lock_delete_unused_texts;

COMMENT ON VIEW public.lock_forget_texts IS 'The former name of lock_delete_unused_texts, for servers of version 1.0.0: a lock on this view also locks the table.';

CREATE VIEW public.lock_forget_uploads AS
 SELECT
   FROM public.lock_delete_unused_uploads;

COMMENT ON VIEW public.lock_forget_uploads IS 'The former name of lock_delete_unused_uploads, for servers of version 1.0.0: a lock on this view also locks the table.';

CREATE TABLE public.lock_stop_unused_listeners (
);

COMMENT ON TABLE public.lock_stop_unused_listeners IS 'No rows. The lock of the sweep stop-unused-listeners: the server that runs the sweep locks this table, so two servers never run the sweep at once.';

CREATE VIEW public.lock_forget_webhooks AS
 SELECT
   FROM public.lock_stop_unused_listeners;

COMMENT ON VIEW public.lock_forget_webhooks IS 'The former name of lock_stop_unused_listeners, for servers of version 1.0.0: a lock on this view also locks the table.';

CREATE TABLE public.lock_import_contacts (
);

COMMENT ON TABLE public.lock_import_contacts IS 'No rows. The lock of the sweep import-contacts: the server that runs the sweep locks this table, so two servers never run the sweep at once.';

CREATE TABLE public.lock_join_received_parts (
);

COMMENT ON TABLE public.lock_join_received_parts IS 'Has no rows. The server that runs the sweep join-received-parts locks this table.';

CREATE TABLE public.lock_keep_history (
);

COMMENT ON TABLE public.lock_keep_history IS 'No rows. The lock of the sweep keep-history: the server that runs the sweep locks this table, so two servers never run the sweep at once.';

CREATE TABLE public.lock_make_partitions (
);

COMMENT ON TABLE public.lock_make_partitions IS 'No rows. The lock of the sweep make-partitions: the server that runs the sweep locks this table, so two servers never run the sweep at once.';

CREATE TABLE public.lock_match_receipts (
);

COMMENT ON TABLE public.lock_match_receipts IS 'No rows. The lock of the sweep match-receipts: the server that runs the sweep locks this table, so two servers never run the sweep at once.';

CREATE TABLE public.lock_move_quiet_tasks (
);

COMMENT ON TABLE public.lock_move_quiet_tasks IS 'Has no rows. The server that runs the sweep move-quiet-tasks locks this table.';

CREATE TABLE public.lock_move_tasks_to_their_routes (
);

COMMENT ON TABLE public.lock_move_tasks_to_their_routes IS 'No rows. The lock of the sweep move-tasks-to-their-routes: the server that runs the sweep locks this table, so two servers never run the sweep at once.';

CREATE TABLE public.lock_notify_alerts (
);

COMMENT ON TABLE public.lock_notify_alerts IS 'No rows. The lock of the sweep notify-alerts: the server that runs the sweep locks this table, so two servers never run the sweep at once.';

CREATE TABLE public.lock_post_webhooks (
);

COMMENT ON TABLE public.lock_post_webhooks IS 'No rows. The lock of the sweep post-webhooks: the server that runs the sweep locks this table, so two servers never run the sweep at once.';

CREATE TABLE public.lock_queue_due_tasks (
);

COMMENT ON TABLE public.lock_queue_due_tasks IS 'No rows. The lock of the sweep queue-due-tasks: the server that runs the sweep locks this table, so two servers never run the sweep at once.';

CREATE TABLE public.lock_recover_zombie_tasks (
);

COMMENT ON TABLE public.lock_recover_zombie_tasks IS 'No rows. The lock of the sweep recover-zombie-tasks: the server that runs the sweep locks this table, so two servers never run the sweep at once.';

CREATE TABLE public.lock_roll_up_statistics (
);

COMMENT ON TABLE public.lock_roll_up_statistics IS 'No rows. The lock of the sweep roll-up-statistics: the server that runs the sweep locks this table, so two servers never run the sweep at once.';

CREATE TABLE public.lock_run_notifications (
);

COMMENT ON TABLE public.lock_run_notifications IS 'No rows. The lock of the sweep run-notifications: the server that runs the sweep locks this table, so two servers never run the sweep at once.';

CREATE TABLE public.lock_run_task_jobs (
);

COMMENT ON TABLE public.lock_run_task_jobs IS 'No rows. The lock of the sweep run-task-jobs: the server that runs the sweep locks this table, so two servers never run the sweep at once.';

CREATE TABLE public.lock_sequence_feed (
);

COMMENT ON TABLE public.lock_sequence_feed IS 'No rows. The lock of the sweep sequence-feed: the server that runs the sweep locks this table, so two servers never run the sweep at once.';

CREATE TABLE public.lock_statistics (
);

COMMENT ON TABLE public.lock_statistics IS 'No rows. The lock of statistics: a transaction that adds staged rows locks this table, so two transactions never replace a histogram at once.';

CREATE TABLE public.lock_submit_sql_inbox (
);

COMMENT ON TABLE public.lock_submit_sql_inbox IS 'No rows. The lock of the sweep submit-sql-inbox: the server that runs the sweep locks this table, so two servers never run the sweep at once.';

CREATE TABLE public.lock_sum_up_ledger (
);

COMMENT ON TABLE public.lock_sum_up_ledger IS 'No rows. The lock of the sweep sum-up-ledger: the server that runs the sweep locks this table, so two servers never run the sweep at once.';

CREATE VIEW public.lock_take_messages_of_sql AS
 SELECT
   FROM public.lock_submit_sql_inbox;

COMMENT ON VIEW public.lock_take_messages_of_sql IS 'The former name of lock_submit_sql_inbox, for servers of version 1.0.0: a lock on this view also locks the table.';

CREATE TABLE public.lock_take_received (
);

COMMENT ON TABLE public.lock_take_received IS 'no rows: the server that does take-received locks the table, so that only one does it';

CREATE TABLE public.lock_task_jobs (
);

COMMENT ON TABLE public.lock_task_jobs IS 'No rows. The lock of new jobs: a transaction that creates a job locks this table, so the number of running jobs does not change before its commit.';

CREATE VIEW public.lock_tell_alerts AS
 SELECT
   FROM public.lock_notify_alerts;

COMMENT ON VIEW public.lock_tell_alerts IS 'The former name of lock_notify_alerts, for servers of version 1.0.0: a lock on this view also locks the table.';

CREATE TABLE public.messages_default (
    task_id text NOT NULL COLLATE pg_catalog."C",
    phone_number text NOT NULL,
    recipient text NOT NULL,
    content text NOT NULL,
    source text,
    submitted_by text NOT NULL,
    dedup_key text,
    company_id bigint NOT NULL,
    pool_id bigint NOT NULL,
    message_type smallint NOT NULL,
    country_no text,
    priority smallint NOT NULL,
    segments smallint NOT NULL,
    sign text,
    is_test boolean DEFAULT false NOT NULL,
    expect_send_time timestamp with time zone,
    expires_at timestamp with time zone,
    rendering_id bigint,
    user_id text,
    on_unclear text,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    submission_id bigint DEFAULT nextval('public.submission_ids'::regclass) NOT NULL,
    request_id text,
    submitted_content text,
    use_template boolean,
    source_ip text,
    user_agent text,
    request_data jsonb,
    traceparent text,
    batch_id bigint,
    sender_no text,
    contact_values jsonb,
    exemption text,
    is_sensitive boolean DEFAULT false NOT NULL,
    CONSTRAINT messages_content_length CHECK (((char_length(content) >= 1) AND (char_length(content) <= 1024))),
    CONSTRAINT messages_created_at_range CHECK (((created_at >= '1970-01-01 00:00:00+00'::timestamp with time zone) AND (created_at <= '9999-01-01 00:00:00+00'::timestamp with time zone))),
    CONSTRAINT messages_message_type_known CHECK (((message_type >= 0) AND (message_type <= 2))),
    CONSTRAINT messages_on_unclear_known CHECK ((on_unclear = ANY (ARRAY['retry'::text, 'fail'::text]))),
    CONSTRAINT messages_priority_range CHECK (((priority >= 0) AND (priority <= 9))),
    CONSTRAINT messages_segments_range CHECK (((segments >= 1) AND (segments <= 100))),
    CONSTRAINT messages_source_length CHECK (((char_length(source) >= 1) AND (char_length(source) <= 50))),
    CONSTRAINT messages_task_id_length CHECK (((char_length(task_id) >= 1) AND (char_length(task_id) <= 50)))
);

CREATE TABLE public.notifications (
    id bigint NOT NULL,
    company_id bigint NOT NULL,
    channel_id bigint NOT NULL,
    biz_type smallint NOT NULL,
    biz_id bigint NOT NULL,
    biz_task_id bigint,
    dedup_key text,
    next_run_at timestamp with time zone,
    repeat_minutes bigint,
    started_at timestamp with time zone,
    ended_as smallint,
    remark text,
    operator text,
    submitted_by text NOT NULL,
    deleted_at timestamp with time zone,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    updated_at timestamp with time zone DEFAULT now() NOT NULL,
    sign text,
    replaced_at timestamp with time zone,
    expires_at timestamp with time zone,
    announcement_id bigint NOT NULL,
    own_payload jsonb DEFAULT '{}'::jsonb NOT NULL,
    forgotten_at timestamp with time zone,
    run_rendering_id bigint,
    run_after text,
    is_companys boolean DEFAULT false NOT NULL,
    changed_by text,
    CONSTRAINT notifications_dedup_key_length CHECK (((char_length(dedup_key) >= 1) AND (char_length(dedup_key) <= 128))),
    CONSTRAINT notifications_ended_as_known CHECK (((ended_as = ANY (ARRAY[1, 2, 3, 4])) OR ((ended_as = 5) AND (forgotten_at IS NOT NULL)))),
    CONSTRAINT notifications_repeat_minutes_range CHECK (((repeat_minutes >= 1) AND (repeat_minutes <= 525600)))
);

COMMENT ON TABLE public.notifications IS 'An announcement to some people on one channel. Written by internal/audience/notification. Its messages are tasks, and their texts are in renderings. submitted_by has no foreign key, because the configured user is in no table.';

COMMENT ON COLUMN public.notifications.biz_type IS '0 task created, 1 node done, 2 orbit reminder, 3 task finished, 4 task abnormal, 5 node timeout; callers can use other numbers';

COMMENT ON COLUMN public.notifications.biz_id IS 'the object in the system of the caller, such as a task or a node';

COMMENT ON COLUMN public.notifications.biz_task_id IS 'the business task of a business event; null: the notification was not created by a business event';

COMMENT ON COLUMN public.notifications.dedup_key IS 'unique among the visible notifications of a channel and company, for each owner of keys, see dedup_key_owner; null: no key';

COMMENT ON COLUMN public.notifications.next_run_at IS 'the time at which messages are sent next; null: no further run';

COMMENT ON COLUMN public.notifications.repeat_minutes IS 'minutes from the end of a run to the next run; null: the notification runs once';

COMMENT ON COLUMN public.notifications.started_at IS 'only for a node timeout: the time at which the node started';

COMMENT ON COLUMN public.notifications.ended_as IS '1 set to success, 2 could not be sent, 3 cancelled, 4 ended abnormally, 5 partly failed (only if its tasks were dropped); null: the state is computed from the tasks';

COMMENT ON COLUMN public.notifications.remark IS 'the reason why the last run failed; null: it did not fail';

COMMENT ON COLUMN public.notifications.operator IS 'the person who last changed the notification in the system of the caller';

COMMENT ON COLUMN public.notifications.deleted_at IS 'the time at which the notification was deleted. It is then hidden, but its row remains. null: visible';

COMMENT ON COLUMN public.notifications.sign IS 'the signature before the text; null: the signature of the template, or else of the sender';

COMMENT ON COLUMN public.notifications.replaced_at IS 'the time at which its dedup_key was released for a later notification. The reason is that its task or node began again, its node got another deadline, its orbit was planned for another time, or it reached nobody and was announced again. null: not released';

COMMENT ON COLUMN public.notifications.expires_at IS 'nothing is sent after this time; null: the notification never expires';

COMMENT ON COLUMN public.notifications.own_payload IS 'values that only this notification has, such as the number of an orbit. They override values of its announcement';

COMMENT ON COLUMN public.notifications.forgotten_at IS 'the time at which its tasks were going to be dropped. Since then, no list contains the notification, its payload is empty, and ended_as is its last state. null: its tasks are kept';

COMMENT ON COLUMN public.notifications.run_rendering_id IS 'for a notification to a tag: the text of the current run; null: no run is in progress';

COMMENT ON COLUMN public.notifications.run_after IS 'the last contact who received a task in this run';

COMMENT ON COLUMN public.notifications.is_companys IS 'true: the dedup_key is unique in the company. false: the row comes from a version in which each submitter had its own keys';

COMMENT ON COLUMN public.notifications.changed_by IS 'the user of LKSMS who last ended, deleted or resumed the notification; null: no user, or the row is older than this column. There is no foreign key, as for submitted_by';

CREATE TABLE public.renderings (
    id bigint NOT NULL,
    title text NOT NULL,
    content text NOT NULL,
    template_id text DEFAULT ''::text NOT NULL,
    params jsonb DEFAULT '{}'::jsonb NOT NULL,
    page text DEFAULT ''::text NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    notification_id bigint,
    html text DEFAULT ''::text NOT NULL,
    is_template boolean DEFAULT false NOT NULL,
    channel_id bigint,
    CONSTRAINT renderings_content_length CHECK ((char_length(content) <= 100000)),
    CONSTRAINT renderings_title_length CHECK ((char_length(title) <= 1000))
);

COMMENT ON TABLE public.renderings IS 'The common text of the tasks of one run of a notification, of one send-once message, or of one batch. Written by internal/audience/notification. notification_id has no foreign key, because rows of notifications are never deleted.';

COMMENT ON COLUMN public.renderings.template_id IS 'the template of the provider; empty: no template';

COMMENT ON COLUMN public.renderings.params IS 'values for the template of the provider';

COMMENT ON COLUMN public.renderings.page IS 'the page that a WeChat message opens; empty: no page';

COMMENT ON COLUMN public.renderings.notification_id IS 'null: the text of a send-once message, or of a batch';

COMMENT ON COLUMN public.renderings.html IS 'the content as HTML; empty: no HTML';

COMMENT ON COLUMN public.renderings.is_template IS 'true: the placeholders are filled for each recipient, with messages.contact_values. A run that continues reads this column, because possibly none of its messages exists any more';

COMMENT ON COLUMN public.renderings.channel_id IS 'the channel of a batch; null: the text of a notification, or of a send-once message';

CREATE VIEW public.notification_standings AS
 SELECT n.id AS notification_id,
    (
        CASE
            WHEN (n.ended_as IS NOT NULL) THEN (n.ended_as)::integer
            WHEN ((n.next_run_at IS NOT NULL) OR (told.waiting > 0)) THEN 0
            WHEN (told.succeeded = told.people) THEN 1
            WHEN (told.succeeded > 0) THEN 5
            WHEN (told.cancelled = told.people) THEN 3
            ELSE 2
        END)::smallint AS status,
    LEAST(n.next_run_at, told.next_try) AS next_run_time,
    told.people,
    told.succeeded,
    told.retries
   FROM (public.notifications n
     CROSS JOIN LATERAL ( SELECT count(*) AS people,
            count(*) FILTER (WHERE (p.status = 2)) AS succeeded,
            count(*) FILTER (WHERE (p.status = ANY (ARRAY[0, 1]))) AS waiting,
            count(*) FILTER (WHERE (p.status = 4)) AS cancelled,
            (COALESCE((max(p.retry_count))::integer, 0))::smallint AS retries,
            min(p.due_at) FILTER (WHERE ((p.status = 0) AND ((p.retry_count > 0) OR (p.due_at > now())))) AS next_try
           FROM ( SELECT DISTINCT ON (t.user_id) t.status,
                    t.retry_count,
                    t.due_at
                   FROM (public.renderings r
                     JOIN public.tasks t ON ((t.rendering_id = r.id)))
                  WHERE (r.notification_id = n.id)
                  ORDER BY t.user_id, t.task_id DESC) p) told);

ALTER TABLE public.notification_templates ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.notification_templates_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

ALTER TABLE public.notifications ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.notifications_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.number_partitions (
    parent text NOT NULL,
    first_number bigint NOT NULL,
    before_number bigint,
    entered_at timestamp with time zone,
    left_at timestamp with time zone,
    CONSTRAINT number_partitions_numbers CHECK ((before_number > first_number)),
    CONSTRAINT number_partitions_parent_known CHECK ((parent = ANY (ARRAY['sender_ledger'::text, 'batch_rows'::text])))
);

COMMENT ON TABLE public.number_partitions IS 'A partition of sender_ledger or batch_rows. Written by the functions number_partitions_ahead, ledger_partition_drop and batch_partition_drop.';

COMMENT ON COLUMN public.number_partitions.first_number IS 'the first lease_id or batch_id of the partition. 0: the table that existed before partitions were introduced. It also contains the rows without lease_id';

COMMENT ON COLUMN public.number_partitions.before_number IS 'the first number after the partition; null: the partition has no end';

COMMENT ON COLUMN public.number_partitions.entered_at IS 'the time at which the first number of the partition was assigned, or somewhat later; null: not yet';

COMMENT ON COLUMN public.number_partitions.left_at IS 'the time after which no number of the partition was assigned; null: its numbers are still assigned, or will be';

CREATE TABLE public.phone_inboxes (
    sender_id bigint NOT NULL,
    device_no text NOT NULL,
    signing_key text NOT NULL,
    hooked_at timestamp with time zone,
    export_since timestamp with time zone,
    export_until timestamp with time zone,
    CONSTRAINT phone_inboxes_export_complete CHECK (((export_since IS NULL) = (export_until IS NULL)))
);

COMMENT ON TABLE public.phone_inboxes IS 'A phone with the app of SMSGate that posts received messages to this server. Written by internal/transport/smsgate/mobile when the phone reads its settings. The row of a phone that was replaced is overwritten by the next phone.';

COMMENT ON COLUMN public.phone_inboxes.device_no IS 'the phone that has the key, see phones.device_no';

COMMENT ON COLUMN public.phone_inboxes.signing_key IS 'the encrypted key with which the phone signs its posts';

COMMENT ON COLUMN public.phone_inboxes.hooked_at IS 'the last time at which the phone read the address of its posts; null: never';

COMMENT ON COLUMN public.phone_inboxes.export_since IS 'the phone is asked to post the messages from this time up to export_until again; null: it is not asked';

CREATE TABLE public.phone_leases (
    sender_id bigint NOT NULL,
    lease_id bigint NOT NULL,
    task_id text NOT NULL COLLATE pg_catalog."C"
);

COMMENT ON TABLE public.phone_leases IS 'A lease that a phone has claimed and not ended, or that the phone had at its last pull. If the answer to a pull is lost, the phone gets the messages of these leases again. The table replaces an index of queue by holder, which would slow down each claim of every sender. Written by internal/transport/smsgate/mobile.';

COMMENT ON COLUMN public.phone_leases.task_id IS 'There is no foreign key, because it would lock rows of queue';

CREATE TABLE public.phones (
    sender_id bigint NOT NULL,
    code_hash bytea,
    code_until timestamp with time zone,
    code_sim_number smallint,
    sim_number smallint,
    device_no text,
    user_id bigint,
    model text,
    registered_at timestamp with time zone,
    claimed_at timestamp with time zone,
    troubles smallint DEFAULT 0 NOT NULL,
    rest_until timestamp with time zone,
    pull_until timestamp with time zone,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT phones_code_complete CHECK (((code_hash IS NULL) = (code_until IS NULL))),
    CONSTRAINT phones_code_sim_number_range CHECK (((code_sim_number >= 1) AND (code_sim_number <= 3))),
    CONSTRAINT phones_device_no_length CHECK (((char_length(device_no) >= 1) AND (char_length(device_no) <= 50))),
    CONSTRAINT phones_model_length CHECK ((char_length(model) <= 128)),
    CONSTRAINT phones_sim_number_range CHECK (((sim_number >= 1) AND (sim_number <= 3)))
);

COMMENT ON TABLE public.phones IS 'A phone with the app of SMSGate that is a sender, or will become one. Written by internal/transport/smsgate/mobile.';

COMMENT ON COLUMN public.phones.code_hash IS 'SHA-256 of the code with which one phone can register; null: no code is valid';

COMMENT ON COLUMN public.phones.code_until IS 'the time at which the code expires';

COMMENT ON COLUMN public.phones.code_sim_number IS 'the sim_number of the phone that registers with the code';

COMMENT ON COLUMN public.phones.sim_number IS 'the SIM that sends, from 1; null: the phone chooses';

COMMENT ON COLUMN public.phones.device_no IS 'the name by which the phone identifies itself; null: no phone has registered';

COMMENT ON COLUMN public.phones.user_id IS 'the user of the phone, whose API key is its token; null: no phone has registered, or its user was deleted';

COMMENT ON COLUMN public.phones.model IS 'the model as the phone reports it; null: not reported';

COMMENT ON COLUMN public.phones.claimed_at IS 'the last time at which the phone got new messages; null: never';

COMMENT ON COLUMN public.phones.troubles IS 'unused; a later version drops the column';

COMMENT ON COLUMN public.phones.rest_until IS 'unused; a later version drops the column';

COMMENT ON COLUMN public.phones.pull_until IS 'no other pull of the phone begins until this time; null: no pull is in progress';

CREATE TABLE public.pool_channels (
    pool_id bigint NOT NULL,
    channel text NOT NULL
);

COMMENT ON TABLE public.pool_channels IS 'The channel of each pool that ever existed, because facts and receipts of old tasks can name deleted pools. Written by a trigger of pools only. There are no foreign keys, because the rows are kept when the pool and the channel are deleted.';

CREATE TABLE public.pools (
    id bigint NOT NULL,
    channel_id bigint NOT NULL,
    company_id bigint,
    message_type smallint,
    country_id bigint,
    retired_at timestamp with time zone,
    unsettled_since timestamp with time zone,
    sender_id bigint,
    CONSTRAINT pools_of_company_have_type CHECK (((company_id IS NULL) = (message_type IS NULL))),
    CONSTRAINT pools_of_sender_have_company CHECK (((sender_id IS NULL) OR ((company_id IS NOT NULL) AND (country_id IS NULL))))
);

COMMENT ON TABLE public.pools IS 'A set of waiting tasks that the same routes serve: tasks of a company, message type and country. A pool without a company is the shared pool of a channel, for tasks without a route. A pool with a sender contains the tasks that only this sender is allowed to send. Written by internal/dispatch/directory; unsettled_since also by internal/dispatch/queue.';

COMMENT ON COLUMN public.pools.company_id IS 'null: the shared pool of a channel, or a retired pool';

COMMENT ON COLUMN public.pools.message_type IS 'see messages.message_type; null in the same cases as company_id';

COMMENT ON COLUMN public.pools.country_id IS 'null: all countries without their own pool';

COMMENT ON COLUMN public.pools.retired_at IS 'the time at which the last route of the pool was deleted; null: the pool is in use. A retired pool keeps only its channel, which is needed to move tasks that return to the pool';

COMMENT ON COLUMN public.pools.unsettled_since IS 'the time at which the pool got its first active route. Tasks of the pool possibly still wait in broader pools, and a sweep moves them. null: no task waits in a broader pool';

COMMENT ON COLUMN public.pools.sender_id IS 'the only sender of the pool; null: any sender. A pool with this value has one route, to this sender, and is deleted when it is empty and unused';

ALTER TABLE public.pools ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.pools_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.quiet_changes (
    id bigint NOT NULL,
    company_id bigint,
    begins_at timestamp with time zone NOT NULL,
    after_id text DEFAULT ''::text NOT NULL COLLATE pg_catalog."C"
);

COMMENT ON TABLE public.quiet_changes IS 'A change of quiet hours that waiting tasks do not know yet. The sweep move-quiet-tasks sets quiet_from of these tasks, in portions, and deletes the row after the last portion. Triggers of companies and settings add the rows, internal/dispatch/queue changes and deletes them. There is no foreign key, because it would lock companies; rows of a deleted company have no effect.';

COMMENT ON COLUMN public.quiet_changes.company_id IS 'only tasks of this company; null: all tasks';

COMMENT ON COLUMN public.quiet_changes.begins_at IS 'the sweep does not begin earlier';

COMMENT ON COLUMN public.quiet_changes.after_id IS 'the last task of the previous portion';

ALTER TABLE public.quiet_changes ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.quiet_changes_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE VIEW public.quiet_waits AS
 SELECT ( SELECT (count(*) > 0)
           FROM ( SELECT
                   FROM public.queue t
                  WHERE ((t.lease_until IS NULL) AND public.quiet_begins(t.*) AND (t.due_at < public.held_due_at()))
                  ORDER BY t.quiet_from, t.task_id
                 LIMIT 1) w) AS has_quiet;

COMMENT ON VIEW public.quiet_waits IS 'One row that tells whether tasks wait that no claim returns because of quiet hours (quiet_begins), and that the sweep move-quiet-tasks has not moved behind the quiet hours yet.';

CREATE TABLE public.receipts (
    id bigint NOT NULL,
    callback_id bigint NOT NULL,
    sender_no text NOT NULL,
    provider_no text NOT NULL,
    recipient text DEFAULT ''::text NOT NULL,
    state smallint NOT NULL,
    code text DEFAULT ''::text NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    matched_at timestamp with time zone,
    look_at timestamp with time zone DEFAULT now(),
    other_nos text[],
    CONSTRAINT receipts_lengths CHECK ((((char_length(provider_no) >= 1) AND (char_length(provider_no) <= 200)) AND (char_length(recipient) <= 100) AND (char_length(code) <= 100))),
    CONSTRAINT receipts_state_known CHECK ((state = ANY (ARRAY[0, 1, 2])))
);

COMMENT ON TABLE public.receipts IS 'A later report of a provider about one accepted message. Written by internal/dispatch/receipt, which deletes old rows. callback_id and sender_no have no foreign keys: a receipt can be kept longer than its callback, and does not prevent the deletion of its sender.';

COMMENT ON COLUMN public.receipts.provider_no IS 'the number that the provider gave to the message, see deliveries.provider_no';

COMMENT ON COLUMN public.receipts.recipient IS 'the recipient as the provider wrote it; empty: not given';

COMMENT ON COLUMN public.receipts.state IS '0 in transit, 1 delivered, 2 undelivered';

COMMENT ON COLUMN public.receipts.code IS 'status code of the provider; empty: no code';

COMMENT ON COLUMN public.receipts.matched_at IS 'the time at which the task of the message was found; null: not yet';

COMMENT ON COLUMN public.receipts.look_at IS 'the next time at which the task is searched; null: the task was found, or the search has ended';

COMMENT ON COLUMN public.receipts.other_nos IS 'other forms of provider_no, such as in another base. If no message has provider_no, the message with one of them and with the recipient gets the receipt, and provider_no becomes its number; null: none';

ALTER TABLE public.receipts ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.receipts_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE VIEW public.receive_logs AS
 SELECT m.submission_id AS id,
    m.request_id,
    m.task_id,
    m.phone_number,
    COALESCE(m.submitted_content, m.content) AS content,
    m.use_template,
    m.source_ip,
    m.user_agent,
    m.request_data,
    jsonb_build_object('code', 200, 'message', 'success', 'data', jsonb_build_object('task_id', m.task_id, 'status', 0, 'final_content', (COALESCE((('【'::text || m.sign) || '】'::text), ''::text) || m.content))) AS response_data,
    (200)::smallint AS status_code,
    m.created_at,
    NULLIF(m.recipient, ''::text) AS recipient
   FROM public.messages m
UNION ALL
 SELECT fruitless_submissions.id,
    fruitless_submissions.request_id,
    fruitless_submissions.task_id,
    fruitless_submissions.phone_number,
    fruitless_submissions.content,
    fruitless_submissions.use_template,
    fruitless_submissions.source_ip,
    fruitless_submissions.user_agent,
    fruitless_submissions.request_data,
    fruitless_submissions.response_data,
    fruitless_submissions.status_code,
    fruitless_submissions.created_at,
    NULL::text AS recipient
   FROM public.fruitless_submissions;

COMMENT ON VIEW public.receive_logs IS 'All submissions, with the columns of the documented log. A submission created a task, or it is in fruitless_submissions.';

CREATE TABLE public.received_messages (
    id bigint NOT NULL,
    company_id bigint NOT NULL,
    sender_no text NOT NULL,
    sim smallint,
    phone_number text NOT NULL,
    own_number text,
    content text NOT NULL,
    kind text DEFAULT 'text'::text NOT NULL,
    received_at timestamp with time zone,
    message_no text,
    identity bytea,
    message_identity bytea,
    task_id text COLLATE pg_catalog."C",
    submitted_by text DEFAULT ''::text NOT NULL,
    raw text,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    read_at timestamp with time zone,
    read_by text,
    CONSTRAINT received_messages_content_length CHECK ((char_length(content) <= 20000)),
    CONSTRAINT received_messages_kind_known CHECK ((kind = ANY (ARRAY['text'::text, 'opt_out'::text, 'opt_in'::text, 'keyword'::text, 'auto_reply'::text]))),
    CONSTRAINT received_messages_message_no_length CHECK (((char_length(message_no) >= 1) AND (char_length(message_no) <= 200))),
    CONSTRAINT received_messages_own_number_length CHECK (((char_length(own_number) >= 1) AND (char_length(own_number) <= 50))),
    CONSTRAINT received_messages_phone_number_length CHECK ((char_length(phone_number) <= 50)),
    CONSTRAINT received_messages_raw_length CHECK ((char_length(raw) <= 20000)),
    CONSTRAINT received_messages_sim_range CHECK (((sim >= 1) AND (sim <= 10)))
);

COMMENT ON TABLE public.received_messages IS 'A message that a person sent to the number of a sender. Written by internal/dispatch/received; rows are deleted when they are older than history.received_days. The erasure of a person empties a row, so that a repeat of the message is not stored again. There are no foreign keys, because each insert would lock rows of other tables.';

COMMENT ON COLUMN public.received_messages.company_id IS 'the company that can read the message. It is the company of task_id. Without a task, it is senders.inbox_company_id, and without this value the company named default';

COMMENT ON COLUMN public.received_messages.sender_no IS 'the sender that received the message';

COMMENT ON COLUMN public.received_messages.sim IS 'the slot of the SIM card, from 1; null: unknown';

COMMENT ON COLUMN public.received_messages.phone_number IS 'the number of the person in E.164. A number that could not be parsed, such as a short code or a name, is stored as it was received';

COMMENT ON COLUMN public.received_messages.own_number IS 'the number of the sender; null: unknown';

COMMENT ON COLUMN public.received_messages.received_at IS 'the time that the network gave to the message, in whole seconds; null: unknown';

COMMENT ON COLUMN public.received_messages.message_no IS 'the id that the phone or the provider gave to the message; null: no id';

COMMENT ON COLUMN public.received_messages.identity IS 'SHA-256 of sender_no, sim, phone_number, content and received_at: a message with the same identity is the same message; null: received_at is unknown';

COMMENT ON COLUMN public.received_messages.message_identity IS 'SHA-256 of sender_no, phone_number, content and message_no: a message with the same value is the same message; null: no message_no';

COMMENT ON COLUMN public.received_messages.task_id IS 'the last task to the person for which the sender had a lease; null: no such task within the setting recipient.reply_days';

COMMENT ON COLUMN public.received_messages.submitted_by IS 'the submitter of task_id; a user with the role submit reads only replies to its own tasks; empty: no task';

COMMENT ON COLUMN public.received_messages.raw IS 'the message as it was received, cut to 20,000 characters; null: it had no fields besides the columns of this table';

COMMENT ON COLUMN public.received_messages.read_at IS 'the time at which a user marked the message as read; null: unread';

ALTER TABLE public.received_messages ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.received_messages_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.received_part_identities (
    identity bytea NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL
);

COMMENT ON TABLE public.received_part_identities IS 'A part of a long message from a person that arrived in the last hours, so that a repeat of the part is not stored again. Package dispatch/received writes it';

COMMENT ON COLUMN public.received_part_identities.identity IS 'SHA-256 of the columns of received_parts: a part with the same identity is the same part. An erasure leaves it, as received_messages.identity';

CREATE TABLE public.received_parts (
    sender_no text NOT NULL,
    from_no text NOT NULL,
    to_no text NOT NULL,
    reference bigint NOT NULL,
    total smallint NOT NULL,
    nth smallint NOT NULL,
    alphabet text NOT NULL,
    octets bytea NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT received_parts_alphabet_known CHECK ((alphabet = ANY (ARRAY['ascii'::text, 'gbk'::text, 'gsm7'::text, 'latin1'::text, 'ucs2'::text])))
);

COMMENT ON TABLE public.received_parts IS 'A part of a long message from a person. When all parts are there, they become one row of received_messages. Package dispatch/received writes it. The erasure of a person deletes it';

COMMENT ON COLUMN public.received_parts.from_no IS 'the number of the person';

COMMENT ON COLUMN public.received_parts.reference IS 'the number that the phone gave to all parts of a message. Phones repeat numbers';

COMMENT ON COLUMN public.received_parts.alphabet IS 'the encoding of octets';

COMMENT ON COLUMN public.received_parts.octets IS 'the text of the part, without its header. A character can begin in one part and end in the next';

CREATE TABLE public.statistics_staged (
    at timestamp with time zone NOT NULL,
    company_id bigint NOT NULL,
    submitted bigint NOT NULL,
    requeued bigint NOT NULL,
    claimed bigint NOT NULL,
    succeeded bigint NOT NULL,
    failed bigint NOT NULL,
    reported_failed bigint NOT NULL,
    cancelled bigint NOT NULL,
    delivered bigint NOT NULL,
    undelivered bigint NOT NULL,
    segments bigint NOT NULL,
    channel text NOT NULL,
    sender_no text NOT NULL,
    message_type text NOT NULL,
    outcome text NOT NULL,
    waits bytea NOT NULL,
    durations bytea NOT NULL,
    unreported bigint DEFAULT 0 NOT NULL
);

COMMENT ON TABLE public.statistics_staged IS 'The counts that one fold added to a minute of one company, channel, sender, message type and outcome. Written by internal/insight/statistics in the transaction of the fold. When the minute has passed, a sweep moves the row to statistics.';

COMMENT ON COLUMN public.statistics_staged.at IS 'the beginning of the minute';

COMMENT ON COLUMN public.statistics_staged.company_id IS 'There is no foreign key, because figures are kept when their company is deleted';

COMMENT ON COLUMN public.statistics_staged.claimed IS 'number of leases. All counts mean the same as in facts';

COMMENT ON COLUMN public.statistics_staged.channel IS 'channels.channel; empty: unknown';

COMMENT ON COLUMN public.statistics_staged.sender_no IS 'empty: no sender';

COMMENT ON COLUMN public.statistics_staged.message_type IS 'see messages.message_type; test: tests of any type; empty: unknown';

COMMENT ON COLUMN public.statistics_staged.outcome IS 'SUCCESS, FAILED or CANCELLED; empty: events that do not end a task';

COMMENT ON COLUMN public.statistics_staged.waits IS 'see facts.waits; empty: no waits';

COMMENT ON COLUMN public.statistics_staged.durations IS 'see facts.durations; empty: no durations';

CREATE VIEW public.recent_statistics AS
 SELECT statistics_staged.at,
    statistics_staged.company_id,
    statistics_staged.channel,
    statistics_staged.sender_no,
    statistics_staged.message_type,
    statistics_staged.outcome,
    statistics_staged.submitted,
    statistics_staged.requeued,
    statistics_staged.claimed,
    statistics_staged.succeeded,
    statistics_staged.failed,
    statistics_staged.reported_failed,
    statistics_staged.cancelled,
    statistics_staged.delivered,
    statistics_staged.undelivered,
    statistics_staged.segments,
    statistics_staged.waits,
    statistics_staged.durations,
    statistics_staged.unreported
   FROM public.statistics_staged
UNION ALL
 SELECT date_trunc('minute'::text, f.at, 'UTC'::text) AS at,
    f.company_id,
    COALESCE(p.channel, ''::text) AS channel,
    COALESCE(f.sender_no, ''::text) AS sender_no,
        CASE
            WHEN f.is_test THEN 'test'::text
            ELSE COALESCE((f.message_type)::text, ''::text)
        END AS message_type,
    public.fact_outcome(f.success, f.failed, f.cancelled) AS outcome,
    f.submitted,
    f.requeued,
    f.leases AS claimed,
    GREATEST(0, f.success) AS succeeded,
    GREATEST(0, f.failed) AS failed,
    f.reported_failed,
    f.cancelled,
    f.delivered,
    f.undelivered,
    f.segments,
    COALESCE(f.waits, '\x'::bytea) AS waits,
    COALESCE(f.durations, '\x'::bytea) AS durations,
    f.unreported
   FROM (public.facts f
     LEFT JOIN public.pool_channels p ON ((p.pool_id = f.pool_id)))
  WHERE ((f.submitted > 0) OR (f.requeued > 0) OR (f.leases > 0) OR (f.success > 0) OR (f.failed > 0) OR (f.reported_failed > 0) OR (f.unreported > 0) OR (f.cancelled > 0) OR (f.delivered > 0) OR (f.undelivered > 0));

COMMENT ON VIEW public.recent_statistics IS 'Counts that are not in statistics yet: the rows of statistics_staged, and the facts that are not folded. A statement that reads this view and statistics counts everything once.';

CREATE TABLE public.reconciliation_differences (
    reconciliation_id bigint NOT NULL,
    id bigint NOT NULL,
    kind text NOT NULL,
    provider_no text,
    row_no bigint,
    task_id text COLLATE pg_catalog."C",
    accepted_at timestamp with time zone,
    ours text,
    theirs text,
    CONSTRAINT reconciliation_differences_kind_known CHECK ((kind = ANY (ARRAY['missing_here'::text, 'missing_there'::text, 'status_differs'::text, 'segments_differ'::text, 'repeated'::text, 'unreadable'::text, 'near_midnight'::text])))
);

COMMENT ON TABLE public.reconciliation_differences IS 'A message for which a provider''s file and LKSMS differ. Each reconciliation keeps the first 10,000 differences of each kind. Written by internal/insight/reconcile in the transaction of the portion that contains the message.';

COMMENT ON COLUMN public.reconciliation_differences.provider_no IS 'the provider''s number of the message; null: the row of the file has no readable number';

COMMENT ON COLUMN public.reconciliation_differences.row_no IS 'the row of the file, as a spreadsheet program shows it; null: the file has no such row';

COMMENT ON COLUMN public.reconciliation_differences.task_id IS 'null: no attempt has the number. There is no foreign key, because tasks are dropped with their partitions';

COMMENT ON COLUMN public.reconciliation_differences.accepted_at IS 'the time at which the attempt was reported. For the kind missing_here, it is an attempt on another day';

COMMENT ON COLUMN public.reconciliation_differences.ours IS 'the value in LKSMS: the state, the segments or the number of messages, depending on the kind; null: no value';

COMMENT ON COLUMN public.reconciliation_differences.theirs IS 'the value in the file. For the kind unreadable, it is the reason: a fault.Rule';

ALTER TABLE public.reconciliation_differences ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.reconciliation_differences_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.reconciliation_rows (
    reconciliation_id bigint NOT NULL,
    provider_no text NOT NULL COLLATE pg_catalog."C",
    row_no bigint NOT NULL,
    copies bigint NOT NULL,
    status text,
    segments bigint
);

COMMENT ON TABLE public.reconciliation_rows IS 'A message of a provider''s file that is being compared. All rows of the file with the same number are one row here. Written by internal/insight/reconcile, which deletes the row when the file is compared.';

COMMENT ON COLUMN public.reconciliation_rows.row_no IS 'the first row of the file with the number, as a spreadsheet program shows it';

COMMENT ON COLUMN public.reconciliation_rows.copies IS 'the number of rows of the file with the number';

COMMENT ON COLUMN public.reconciliation_rows.status IS 'the state in these rows of the file; null: states are not compared, or the rows have different states';

COMMENT ON COLUMN public.reconciliation_rows.segments IS 'the sum of the segments in these rows of the file; null: segments are not compared, or a row has no readable number of segments';

CREATE TABLE public.reconciliations (
    id bigint NOT NULL,
    sender_no text NOT NULL,
    day date NOT NULL,
    from_at timestamp with time zone NOT NULL,
    to_at timestamp with time zone NOT NULL,
    unit text,
    ours bigint DEFAULT 0 NOT NULL,
    theirs bigint DEFAULT 0 NOT NULL,
    tests bigint DEFAULT 0 NOT NULL,
    file_name text,
    upload_id bigint,
    sheet text DEFAULT ''::text NOT NULL,
    number_column text DEFAULT ''::text NOT NULL,
    status_column text DEFAULT ''::text NOT NULL,
    segments_column text DEFAULT ''::text NOT NULL,
    delivered_values text[] DEFAULT '{}'::text[] NOT NULL,
    pending_values text[] DEFAULT '{}'::text[] NOT NULL,
    status text NOT NULL,
    phase text,
    row_no bigint DEFAULT 0 NOT NULL,
    after_no text DEFAULT ''::text NOT NULL COLLATE pg_catalog."C",
    after_at timestamp with time zone,
    after_id bigint DEFAULT 0 NOT NULL,
    rows bigint DEFAULT 0 NOT NULL,
    matched bigint DEFAULT 0 NOT NULL,
    missing_here bigint DEFAULT 0 NOT NULL,
    missing_there bigint DEFAULT 0 NOT NULL,
    status_differs bigint DEFAULT 0 NOT NULL,
    segments_differ bigint DEFAULT 0 NOT NULL,
    repeated bigint DEFAULT 0 NOT NULL,
    unreadable bigint DEFAULT 0 NOT NULL,
    near_midnight bigint DEFAULT 0 NOT NULL,
    differences bigint GENERATED ALWAYS AS (
CASE
    WHEN (unit IS NULL) THEN (((((missing_here + missing_there) + status_differs) + segments_differ) + repeated) + unreadable)
    ELSE abs((ours - theirs))
END) STORED NOT NULL,
    failure jsonb,
    created_by text NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    finished_at timestamp with time zone,
    CONSTRAINT reconciliations_day_bounds CHECK ((to_at > from_at)),
    CONSTRAINT reconciliations_ended_has_time CHECK (((status = 'running'::text) = (finished_at IS NULL))),
    CONSTRAINT reconciliations_failed_says_why CHECK (((status <> 'failed'::text) OR (failure IS NOT NULL))),
    CONSTRAINT reconciliations_phase_known CHECK ((((status = 'running'::text) = (phase IS NOT NULL)) AND (phase = ANY (ARRAY['read'::text, 'match'::text, 'search'::text, 'clear'::text])))),
    CONSTRAINT reconciliations_reading_has_upload CHECK ((COALESCE((phase = 'read'::text), false) = (upload_id IS NOT NULL))),
    CONSTRAINT reconciliations_status_known CHECK ((status = ANY (ARRAY['running'::text, 'finished'::text, 'failed'::text]))),
    CONSTRAINT reconciliations_unit_known CHECK ((((unit = ANY (ARRAY['messages'::text, 'segments'::text])) AND (file_name IS NULL)) OR ((unit IS NULL) AND (file_name IS NOT NULL))))
);

COMMENT ON TABLE public.reconciliations IS 'The comparison of a provider''s statement with LKSMS, for one sender and day. Written by internal/insight/reconcile. A total is compared at once. A file is compared in portions of rows. One transaction compares a portion and stores the position after it, so that any server can continue there.';

COMMENT ON COLUMN public.reconciliations.sender_no IS 'There is no foreign key, because the row is kept when the sender is deleted';

COMMENT ON COLUMN public.reconciliations.from_at IS 'the beginning of the day. The time zone is the one that the setting monitoring.time_zone named when the reconciliation was created';

COMMENT ON COLUMN public.reconciliations.to_at IS 'the end of the day, in the same time zone as from_at';

COMMENT ON COLUMN public.reconciliations.unit IS 'the unit of ours and theirs, if the provider gave a total: segments or messages. null: the provider gave a file, and ours and theirs count messages';

COMMENT ON COLUMN public.reconciliations.ours IS 'the count of LKSMS. For a total: the sum of daily_totals, including tests. For a file: the messages whose provider''s number is in the file, or should be';

COMMENT ON COLUMN public.reconciliations.theirs IS 'the count of the provider. For a total: the number that the provider gave. For a file: the number of different provider''s numbers in it';

COMMENT ON COLUMN public.reconciliations.tests IS 'the tests that ours includes; 0 for a file';

COMMENT ON COLUMN public.reconciliations.upload_id IS 'the uploaded file; null: the file was read and deleted. There is no foreign key, because the file is deleted before the row';

COMMENT ON COLUMN public.reconciliations.sheet IS 'the sheet of a workbook; empty: the first sheet that is not hidden';

COMMENT ON COLUMN public.reconciliations.number_column IS 'the column with the provider''s numbers';

COMMENT ON COLUMN public.reconciliations.status_column IS 'empty: states are not compared';

COMMENT ON COLUMN public.reconciliations.segments_column IS 'empty: segments are not compared';

COMMENT ON COLUMN public.reconciliations.delivered_values IS 'values of status_column that mean delivered, in lower case';

COMMENT ON COLUMN public.reconciliations.pending_values IS 'values of status_column that are not final, in lower case. All values that are neither here nor in delivered_values mean undelivered';

COMMENT ON COLUMN public.reconciliations.phase IS 'read: the file is copied to reconciliation_rows. match: the attempts of these rows are searched. search: attempts of the day without a row are searched. clear: the rows are deleted. null: the reconciliation has ended';

COMMENT ON COLUMN public.reconciliations.row_no IS 'in the phase read: the last row of the file that was stored';

COMMENT ON COLUMN public.reconciliations.after_no IS 'in the phase match: the last provider''s number that was searched';

COMMENT ON COLUMN public.reconciliations.after_at IS 'in the phase search: after_at and after_id are the last attempt that was checked; null: no attempt yet';

COMMENT ON COLUMN public.reconciliations.rows IS 'number of rows of the file that were read, without empty rows';

COMMENT ON COLUMN public.reconciliations.near_midnight IS 'number of attempts without a row within five minutes of the beginning or the end of the day. They do not count as differences, because the statement of the neighbouring day possibly contains them';

COMMENT ON COLUMN public.reconciliations.differences IS 'for a total: the difference between ours and theirs. For a file: the number of differences. 0: the day matches';

COMMENT ON COLUMN public.reconciliations.failure IS 'the reason why the file could not be read completely, as JSON of fault.Field; null: no error';

COMMENT ON COLUMN public.reconciliations.created_by IS 'the user. There is no foreign key, because the configured user is in no table';

ALTER TABLE public.reconciliations ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.reconciliations_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

ALTER TABLE public.renderings ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.renderings_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.reply_actions (
    received_id bigint NOT NULL,
    company_id bigint NOT NULL,
    phone_number text NOT NULL,
    rule_id bigint,
    action text,
    outcome text,
    tries bigint DEFAULT 0 NOT NULL,
    due_at timestamp with time zone DEFAULT now() NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    done_at timestamp with time zone,
    refused text[],
    CONSTRAINT reply_actions_done CHECK (((outcome IS NULL) = (done_at IS NULL))),
    CONSTRAINT reply_actions_phone_number_length CHECK ((char_length(phone_number) <= 50))
);

COMMENT ON TABLE public.reply_actions IS 'A received message to which the rules of its company are still to be applied, or to which one was applied. Triggers of received_messages add the row in the transaction of the message, so that no crash loses an action, and delete it with the message; internal/audience/replyrule changes it in the transaction of the action, so that none is done twice, and deletes it if no rule matches.';

COMMENT ON COLUMN public.reply_actions.received_id IS 'received_messages.id';

COMMENT ON COLUMN public.reply_actions.phone_number IS 'received_messages.phone_number';

COMMENT ON COLUMN public.reply_actions.rule_id IS 'the rule that matched; null: none is applied yet, or the message opted out without a rule';

COMMENT ON COLUMN public.reply_actions.action IS 'the action of the rule; null: none is applied yet';

COMMENT ON COLUMN public.reply_actions.outcome IS 'done, partly (see refused), or why the action was not performed; null: the rules are not applied yet';

COMMENT ON COLUMN public.reply_actions.tries IS 'the number of failed attempts';

COMMENT ON COLUMN public.reply_actions.due_at IS 'the time from which on the rules are applied; infinity: when the company is on';

COMMENT ON COLUMN public.reply_actions.created_at IS 'the time at which the message arrived: the replies to a number within an hour are counted by it, so that messages that waited count like others';

COMMENT ON COLUMN public.reply_actions.refused IS 'the receivers that did not get a forward of which others got it (outcome partly): numbers in E.164, and webhook; null: none';

CREATE TABLE public.reply_rules (
    id bigint NOT NULL,
    company_id bigint NOT NULL,
    match text NOT NULL,
    words text[] NOT NULL,
    action text NOT NULL,
    content text,
    template_no text,
    tag text,
    phone_numbers text[],
    webhook_id bigint,
    sort bigint DEFAULT 0 NOT NULL,
    version bigint DEFAULT 1 NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    updated_at timestamp with time zone DEFAULT now() NOT NULL,
    sign text,
    CONSTRAINT reply_rules_action_known CHECK ((action = ANY (ARRAY['reply'::text, 'tag'::text, 'untag'::text, 'opt_out'::text, 'opt_in'::text, 'forward'::text, 'acknowledge'::text]))),
    CONSTRAINT reply_rules_content_length CHECK (((char_length(content) >= 1) AND (char_length(content) <= 1024))),
    CONSTRAINT reply_rules_forward_has_target CHECK (((action = 'forward'::text) = (num_nonnulls(phone_numbers, webhook_id) > 0))),
    CONSTRAINT reply_rules_match_known CHECK ((match = ANY (ARRAY['exact'::text, 'prefix'::text, 'contains'::text, 'regexp'::text]))),
    CONSTRAINT reply_rules_phone_numbers_count CHECK ((cardinality(phone_numbers) <= 20)),
    CONSTRAINT reply_rules_reply_has_text CHECK (((action = 'reply'::text) = (num_nonnulls(content, template_no) = 1))),
    CONSTRAINT reply_rules_sign_length CHECK (((char_length(sign) >= 1) AND (char_length(sign) <= 20))),
    CONSTRAINT reply_rules_tag_is_named CHECK (((action = ANY (ARRAY['tag'::text, 'untag'::text])) = (tag IS NOT NULL))),
    CONSTRAINT reply_rules_tag_length CHECK (((char_length(tag) >= 1) AND (char_length(tag) <= 100))),
    CONSTRAINT reply_rules_template_no_length CHECK (((char_length(template_no) >= 1) AND (char_length(template_no) <= 50))),
    CONSTRAINT reply_rules_words_count CHECK (((cardinality(words) >= 1) AND (cardinality(words) <= 50)))
);

COMMENT ON TABLE public.reply_rules IS 'A rule about received messages of a company: a message that matches it causes an action. Written by internal/audience/replyrule.';

COMMENT ON COLUMN public.reply_rules.words IS 'the rule applies to a message that one of these texts matches, or one of these regular expressions';

COMMENT ON COLUMN public.reply_rules.tag IS 'the name of the tag that the contact of the number gets or loses';

COMMENT ON COLUMN public.reply_rules.phone_numbers IS 'the numbers in E.164 to which messages are forwarded; empty: the last number was erased';

COMMENT ON COLUMN public.reply_rules.webhook_id IS 'the webhook that gets the event message.received of the message. There is no foreign key: if the webhook is deleted, the rule forwards nothing to it';

COMMENT ON COLUMN public.reply_rules.sort IS 'the rule with the smallest value is tried first; of equal values, the rule with the smallest id';

COMMENT ON COLUMN public.reply_rules.sign IS 'the signature of replies and forwards; null: the signature of the template, or, without a template, of the task that the message answers';

ALTER TABLE public.reply_rules ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.reply_rules_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.report_logs_default (
    id bigint DEFAULT nextval('public.report_ids'::regclass) NOT NULL,
    task_id text NOT NULL COLLATE pg_catalog."C",
    company_id bigint NOT NULL,
    app_id text,
    lease_id bigint,
    event text NOT NULL,
    status smallint,
    effect text NOT NULL,
    error_message text,
    request_data jsonb,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    outcome smallint,
    result text,
    retry_count smallint,
    due_at timestamp with time zone,
    leased_at timestamp with time zone,
    lease_until timestamp with time zone,
    lease_segments smallint,
    lease_sign text,
    lease_limit smallint,
    pool_id bigint,
    message_type smallint,
    segments smallint,
    entered_at timestamp with time zone,
    batch_id bigint,
    country_no text,
    is_test boolean DEFAULT false NOT NULL,
    lease_sign_mode text,
    lease_sim smallint,
    CONSTRAINT report_logs_effect_known CHECK ((effect = ANY (ARRAY['success'::text, 'failed'::text, 'retry'::text, 'exhausted'::text, 'unclear'::text, 'untried'::text, 'troubled'::text, 'ignored'::text, 'refused'::text, 'cancelled'::text, 'expired'::text, 'delivered'::text, 'undelivered'::text, 'requeued'::text]))),
    CONSTRAINT report_logs_error_message_length CHECK ((char_length(error_message) <= 500)),
    CONSTRAINT report_logs_event_known CHECK ((event = ANY (ARRAY['reported'::text, 'recovered'::text, 'released'::text, 'cancelled'::text, 'expired'::text, 'receipt'::text, 'past_receipt'::text, 'unreachable'::text, 'requeued'::text, 'simulated'::text]))),
    CONSTRAINT report_logs_lease_complete CHECK (((leased_at IS NULL) OR ((app_id IS NOT NULL) AND (lease_id IS NOT NULL) AND (lease_until IS NOT NULL) AND (retry_count IS NOT NULL)))),
    CONSTRAINT report_logs_outcome_known CHECK ((outcome = ANY (ARRAY[2, 3, 4]))),
    CONSTRAINT report_logs_result_length CHECK ((char_length(result) <= 500)),
    CONSTRAINT report_logs_times_range CHECK ((((created_at >= '1970-01-01 00:00:00+00'::timestamp with time zone) AND (created_at <= '9999-01-01 00:00:00+00'::timestamp with time zone)) AND ((due_at >= '1970-01-01 00:00:00+00'::timestamp with time zone) AND (due_at <= '9999-01-01 00:00:00+00'::timestamp with time zone)) AND ((leased_at >= '1970-01-01 00:00:00+00'::timestamp with time zone) AND (leased_at <= '9999-01-01 00:00:00+00'::timestamp with time zone)) AND ((lease_until >= '1970-01-01 00:00:00+00'::timestamp with time zone) AND (lease_until <= '9999-01-01 00:00:00+00'::timestamp with time zone))))
);

CREATE TABLE public.routes (
    id bigint NOT NULL,
    pool_id bigint NOT NULL,
    sender_id bigint NOT NULL,
    weight bigint DEFAULT 1 NOT NULL,
    sort numeric(4,2) DEFAULT 0 NOT NULL,
    status text DEFAULT 'on'::text NOT NULL,
    served double precision DEFAULT 0 NOT NULL,
    version bigint DEFAULT 1 NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    updated_at timestamp with time zone DEFAULT now() NOT NULL,
    last_turn double precision DEFAULT 0 NOT NULL,
    next_turn double precision DEFAULT 0 NOT NULL,
    CONSTRAINT routes_status_known CHECK ((status = ANY (ARRAY['on'::text, 'off'::text]))),
    CONSTRAINT routes_weight_range CHECK (((weight >= 1) AND (weight <= 10000)))
)
WITH (fillfactor='70');

COMMENT ON TABLE public.routes IS 'A sender that serves a pool. Written by internal/dispatch/directory. The claims of internal/dispatch/queue write served, last_turn and next_turn.';

COMMENT ON COLUMN public.routes.weight IS 'share of the sender among the routes of the pool with the same sort';

COMMENT ON COLUMN public.routes.sort IS 'among the available senders of a pool, only those with the largest sort are served';

COMMENT ON COLUMN public.routes.served IS 'number of tasks that the sender took through the route, divided by the weight. Of several routes, the route with the smallest value is served first';

COMMENT ON COLUMN public.routes.version IS 'incremented by each update. An update names the version that its caller has read, and is rejected if the version has changed since';

COMMENT ON COLUMN public.routes.last_turn IS 'the fairness position of the last task that the sender took from the pool. A sender with several pools takes the task with the smallest position first, and each task moves the position of its pool forward';

COMMENT ON COLUMN public.routes.next_turn IS 'the fairness position of the next task in the pool for this sender, see last_turn. The position of a pool that was empty can be far behind. It then counts as the largest last_turn of all pools of the sender, so that an empty pool saves no share';

ALTER TABLE public.routes ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.routes_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE VIEW public.send_logs AS
 SELECT l.lease_id AS id,
    l.task_id,
    l.app_id,
    m.phone_number,
    public.handed_text(m.content, COALESCE(m.sign, l.lease_sign), l.lease_sign_mode) AS content,
    ((l.retry_count + 1))::smallint AS attempt,
    l.lease_until,
    jsonb_build_object('app_id', l.app_id, 'limit', l.lease_limit) AS request_data,
    jsonb_build_object('lease_id', l.lease_id, 'attempt', (l.retry_count + 1), 'lease_until', l.lease_until) AS response_data,
    l.leased_at AS created_at,
    l.lease_segments AS segments
   FROM (( SELECT report_logs.task_id,
            report_logs.app_id,
            report_logs.lease_id,
            report_logs.retry_count,
            report_logs.leased_at,
            report_logs.lease_until,
            report_logs.lease_segments,
            report_logs.lease_sign,
            report_logs.lease_sign_mode,
            report_logs.lease_limit
           FROM public.report_logs
          WHERE (report_logs.leased_at IS NOT NULL)
        UNION ALL
         SELECT queue.task_id,
            queue.processing_app_id,
            queue.lease_id,
            queue.retry_count,
            queue.updated_at,
            queue.lease_until,
            queue.lease_segments,
            queue.lease_sign,
            queue.lease_sign_mode,
            queue.lease_limit
           FROM public.queue
          WHERE (queue.lease_until IS NOT NULL)) l
     JOIN public.messages m ON ((m.task_id = l.task_id)));

COMMENT ON VIEW public.send_logs IS 'All leases, with the columns of the documented log: the ended leases, and the current leases of queue.';

CREATE TABLE public.sender_answers (
    id bigint NOT NULL,
    sender_id bigint NOT NULL,
    task_id text NOT NULL COLLATE pg_catalog."C",
    outcome text NOT NULL,
    code text,
    error text,
    answer text,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT sender_answers_outcome_known CHECK ((outcome = ANY (ARRAY['sent'::text, 'refused'::text, 'unclear'::text, 'trouble'::text])))
);

COMMENT ON TABLE public.sender_answers IS 'One of the last ten outcomes of calls of a driven sender. Written by internal/dispatch/push, which deletes older rows. task_id has no foreign key, because the task can be dropped before the row.';

COMMENT ON COLUMN public.sender_answers.code IS 'the code of a failure, from the provider or the driver; null: no code';

COMMENT ON COLUMN public.sender_answers.error IS 'the failure as text; null: the message was sent';

COMMENT ON COLUMN public.sender_answers.answer IS 'the unchanged answer of the provider, without secrets, at most 2,000 characters; null: no answer';

ALTER TABLE public.sender_answers ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.sender_answers_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.sender_ledger (
    id bigint NOT NULL,
    sender_id bigint NOT NULL,
    change bigint NOT NULL,
    balance bigint NOT NULL,
    lease_id bigint,
    remark text,
    username text,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    low_warning bigint,
    low_switch bigint,
    company_id bigint,
    CONSTRAINT sender_ledger_remark_length CHECK ((char_length(remark) <= 500))
)
PARTITION BY RANGE (lease_id);

COMMENT ON TABLE public.sender_ledger IS 'A change of the balance of a sender, or of its thresholds. Written by internal/dispatch/queue (charges, refunds) and internal/dispatch/sender (top-ups, corrections, thresholds). Partitioned by lease_id, see number_partitions; rows without a lease_id are in the default partition. There are no foreign keys, because each charge would lock rows of other tables.';

COMMENT ON COLUMN public.sender_ledger.id IS 'unique, and the order of the list. It is not a primary key, because the table is partitioned by lease_id';

COMMENT ON COLUMN public.sender_ledger.change IS 'the change of the balance in segments; negative: a charge; 0: the thresholds changed';

COMMENT ON COLUMN public.sender_ledger.balance IS 'the balance after the change, in segments';

COMMENT ON COLUMN public.sender_ledger.lease_id IS 'the charged or refunded lease; null: top-up, correction, thresholds, or the sum of a day';

COMMENT ON COLUMN public.sender_ledger.username IS 'the user who changed the balance or the thresholds; null: a charge or a refund';

COMMENT ON COLUMN public.sender_ledger.low_warning IS 'the new threshold, if the row is a change of thresholds or an opening balance; otherwise null';

COMMENT ON COLUMN public.sender_ledger.low_switch IS 'the new threshold low_switch, in the same rows as low_warning';

COMMENT ON COLUMN public.sender_ledger.company_id IS 'the company whose tasks were charged or refunded; null: top-up, correction or thresholds';

CREATE TABLE public.sender_ledger_2000000000 (
    id bigint NOT NULL,
    sender_id bigint NOT NULL,
    change bigint NOT NULL,
    balance bigint NOT NULL,
    lease_id bigint,
    remark text,
    username text,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    low_warning bigint,
    low_switch bigint,
    company_id bigint,
    CONSTRAINT sender_ledger_remark_length CHECK ((char_length(remark) <= 500))
);

CREATE TABLE public.sender_ledger_default (
    id bigint NOT NULL,
    sender_id bigint NOT NULL,
    change bigint NOT NULL,
    balance bigint NOT NULL,
    lease_id bigint,
    remark text,
    username text,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    low_warning bigint,
    low_switch bigint,
    company_id bigint,
    CONSTRAINT sender_ledger_default_leases CHECK (((lease_id IS NULL) OR (lease_id < 2000000000))),
    CONSTRAINT sender_ledger_remark_length CHECK ((char_length(remark) <= 500))
);

COMMENT ON TABLE public.sender_ledger_default IS 'Rows of sender_ledger without lease_id, and rows that are older than the partitions of sender_ledger.';

ALTER TABLE public.sender_ledger ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.sender_ledger_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.sender_states (
    sender_id bigint NOT NULL,
    next_available_at timestamp with time zone DEFAULT '-infinity'::timestamp with time zone NOT NULL,
    last_taken bigint DEFAULT 0 NOT NULL,
    last_taken_at timestamp with time zone,
    balance bigint,
    minute_used bigint DEFAULT 0 NOT NULL,
    hour_used bigint DEFAULT 0 NOT NULL,
    day_used bigint DEFAULT 0 NOT NULL,
    month_used bigint DEFAULT 0 NOT NULL,
    seen_at timestamp with time zone,
    sent_at timestamp with time zone,
    attempts bigint DEFAULT 0 NOT NULL,
    succeeded bigint DEFAULT 0 NOT NULL,
    failed bigint DEFAULT 0 NOT NULL,
    response_ms bigint DEFAULT 0 NOT NULL,
    shared_last_turn double precision DEFAULT 0 NOT NULL,
    shared_next_turn double precision DEFAULT 0 NOT NULL,
    openings bigint DEFAULT 0 NOT NULL,
    rest_until timestamp with time zone,
    rest_reason text,
    probe_until timestamp with time zone,
    granted bigint DEFAULT 0 NOT NULL,
    attempts_today bigint DEFAULT 0 NOT NULL,
    attempts_on date,
    failed_tasks bigint DEFAULT 0 NOT NULL,
    unreported bigint DEFAULT 0 NOT NULL,
    CONSTRAINT sender_states_balance_range CHECK ((balance >= 0))
)
WITH (fillfactor='50');

COMMENT ON TABLE public.sender_states IS 'The counters and the circuit breaker of a sender. Each row of senders has one row. Written by internal/dispatch/queue (claims, refunds) and internal/dispatch/sender. The columns are not in senders, so that a claim updates a short row in place.';

COMMENT ON COLUMN public.sender_states.next_available_at IS 'the sender is ready from this time on. A claim adds one interval for each of its calls. The time is never before the end of an open circuit breaker. -infinity: the sender never had to wait';

COMMENT ON COLUMN public.sender_states.last_taken IS 'number of calls of the last claim. If the interval is changed, next_available_at is calculated again from this number';

COMMENT ON COLUMN public.sender_states.last_taken_at IS 'time of the last claim that leased a task while the sender had an interval, limits or a balance; null: never';

COMMENT ON COLUMN public.sender_states.balance IS 'remaining segments; null: no balance';

COMMENT ON COLUMN public.sender_states.minute_used IS 'segments that were used in the minute of last_taken_at. In any other minute, the used segments are zero';

COMMENT ON COLUMN public.sender_states.hour_used IS 'like minute_used, for the hour';

COMMENT ON COLUMN public.sender_states.day_used IS 'like minute_used, for the day';

COMMENT ON COLUMN public.sender_states.month_used IS 'like minute_used, for the month';

COMMENT ON COLUMN public.sender_states.seen_at IS 'the time of the last poll, claim or report; null: never. Polls are recorded at intervals';

COMMENT ON COLUMN public.sender_states.sent_at IS 'the time of the last reported SUCCESS; null: never';

COMMENT ON COLUMN public.sender_states.attempts IS 'number of all leases of the sender. succeeded is the number of leases that were reported SUCCESS';

COMMENT ON COLUMN public.sender_states.response_ms IS 'sum of the milliseconds from claim to report, over the leases in succeeded and failed';

COMMENT ON COLUMN public.sender_states.shared_last_turn IS 'like routes.last_turn, for the shared pool. It is used if a shared sender also has routes';

COMMENT ON COLUMN public.sender_states.shared_next_turn IS 'like routes.next_turn, for the shared pool. It is used if a shared sender also has routes';

COMMENT ON COLUMN public.sender_states.openings IS 'how often the circuit breaker has opened since the sender last sent a message; 0: closed';

COMMENT ON COLUMN public.sender_states.rest_until IS 'the circuit breaker is open until this time, and half-open after it; null: closed';

COMMENT ON COLUMN public.sender_states.rest_reason IS 'error of the provider when the circuit breaker opened; null: closed';

COMMENT ON COLUMN public.sender_states.probe_until IS 'while the circuit breaker is half-open, one worker tries one message until this time; null: no worker tries';

COMMENT ON COLUMN public.sender_states.granted IS 'sum of top-ups and corrections. The consumed segments are granted - balance';

COMMENT ON COLUMN public.sender_states.attempts_today IS 'number of leases on the day attempts_on. On any other day, the number is zero';

COMMENT ON COLUMN public.sender_states.attempts_on IS 'the day that attempts_today counts, in the time zone of the sender; null: no lease yet';

COMMENT ON COLUMN public.sender_states.failed_tasks IS 'number of tasks that became FAILED with the sender. The column failed also counts FAILED reports after which the task is retried';

COMMENT ON COLUMN public.sender_states.unreported IS 'number of leases that ended without a report, since the upgrade that added the column; see facts.unreported';

CREATE TABLE public.senders (
    id bigint NOT NULL,
    sender_no text NOT NULL,
    name text NOT NULL,
    channel_id bigint DEFAULT 1 NOT NULL,
    kind text DEFAULT 'app'::text NOT NULL,
    status text DEFAULT 'on'::text NOT NULL,
    sort numeric(4,2) DEFAULT 0 NOT NULL,
    is_shared boolean DEFAULT true NOT NULL,
    interval_ms bigint DEFAULT 0 NOT NULL,
    per_minute bigint,
    per_hour bigint,
    per_day bigint,
    per_month bigint,
    time_zone text DEFAULT 'Asia/Shanghai'::text NOT NULL,
    lease_seconds bigint,
    sign text,
    segment_size bigint,
    low_warning bigint,
    low_switch bigint,
    config jsonb DEFAULT '{}'::jsonb NOT NULL,
    has_balance boolean DEFAULT false NOT NULL,
    is_paced boolean GENERATED ALWAYS AS (((interval_ms > 0) OR (COALESCE(per_minute, per_hour, per_day, per_month) IS NOT NULL) OR has_balance)) STORED NOT NULL,
    version bigint DEFAULT 1 NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    updated_at timestamp with time zone DEFAULT now() NOT NULL,
    on_unclear text DEFAULT 'retry'::text NOT NULL,
    is_self_registered boolean DEFAULT false NOT NULL,
    segment_price bigint,
    sign_mode text DEFAULT 'in_text'::text NOT NULL,
    inbox_company_id bigint,
    has_sims boolean DEFAULT false NOT NULL,
    hours text,
    CONSTRAINT senders_hours_check CHECK (((hours ~ '^([01][0-9]|2[0-3]):[0-5][0-9]-([01][0-9]|2[0-3]):[0-5][0-9]$'::text) AND ("left"(hours, 5) <> "right"(hours, 5)))),
    CONSTRAINT senders_kind_length CHECK (((char_length(kind) >= 1) AND (char_length(kind) <= 50))),
    CONSTRAINT senders_name_length CHECK (((char_length(name) >= 1) AND (char_length(name) <= 100))),
    CONSTRAINT senders_numbers_range CHECK ((((interval_ms >= 0) AND (interval_ms <= 86400000)) AND ((lease_seconds >= 1) AND (lease_seconds <= 86400)) AND ((segment_size >= 1) AND (segment_size <= 1000)) AND (per_minute >= 0) AND (per_hour >= 0) AND (per_day >= 0) AND (per_month >= 0))),
    CONSTRAINT senders_on_unclear_known CHECK ((on_unclear = ANY (ARRAY['retry'::text, 'fail'::text]))),
    CONSTRAINT senders_segment_price_range CHECK (((segment_price >= 0) AND (segment_price <= 1000000000))),
    CONSTRAINT senders_sender_no_length CHECK (((char_length(sender_no) >= 1) AND (char_length(sender_no) <= 50))),
    CONSTRAINT senders_sign_allowed CHECK (((sign_mode <> 'none'::text) OR (sign IS NULL))),
    CONSTRAINT senders_sign_length CHECK (((char_length(sign) >= 1) AND (char_length(sign) <= 50))),
    CONSTRAINT senders_sign_mode_known CHECK ((sign_mode = ANY (ARRAY['in_text'::text, 'by_provider'::text, 'none'::text]))),
    CONSTRAINT senders_status_known CHECK ((status = ANY (ARRAY['on'::text, 'off'::text, 'retired'::text])))
);

COMMENT ON TABLE public.senders IS 'A sender: an app that polls, or a provider account that the server drives. Written by internal/dispatch/sender.';

COMMENT ON COLUMN public.senders.sender_no IS 'the name in requests. For an app, it is the app_id';

COMMENT ON COLUMN public.senders.kind IS 'app: the sender polls. Any other value is the name of the driver';

COMMENT ON COLUMN public.senders.status IS 'on, off or retired. A retired sender is off, and explanations do not show it';

COMMENT ON COLUMN public.senders.sort IS 'among the available senders of a shared pool, only those with the largest sort are served';

COMMENT ON COLUMN public.senders.is_shared IS 'true: the sender also serves the shared pool of its channel, which contains the tasks without a route';

COMMENT ON COLUMN public.senders.interval_ms IS 'milliseconds from one call to the next; 0: no limit';

COMMENT ON COLUMN public.senders.per_minute IS 'segments in a minute of time_zone; null: no limit';

COMMENT ON COLUMN public.senders.per_hour IS 'segments in an hour of time_zone; null: no limit';

COMMENT ON COLUMN public.senders.per_day IS 'segments in a day of time_zone; null: no limit';

COMMENT ON COLUMN public.senders.per_month IS 'segments in a month of time_zone; null: no limit';

COMMENT ON COLUMN public.senders.lease_seconds IS 'null: the configuration of the server';

COMMENT ON COLUMN public.senders.sign IS 'signature of texts without their own signature, without brackets; null: no signature';

COMMENT ON COLUMN public.senders.segment_size IS 'characters that the provider counts as one segment; null: counted by GSM 03.38';

COMMENT ON COLUMN public.senders.low_warning IS 'an event is added when the balance falls to this value or below; null: no event';

COMMENT ON COLUMN public.senders.low_switch IS 'no task is leased while the balance is at this value or below; null: 0';

COMMENT ON COLUMN public.senders.config IS 'configuration of the driver; secrets are encrypted';

COMMENT ON COLUMN public.senders.has_balance IS 'true: attempts are charged to sender_states.balance';

COMMENT ON COLUMN public.senders.is_paced IS 'generated: true if the sender has an interval, limits or a balance. A claim must then lock its row in sender_states';

COMMENT ON COLUMN public.senders.version IS 'incremented by each update. An update names the version that its caller has read, and is rejected if the version has changed since';

COMMENT ON COLUMN public.senders.on_unclear IS 'what happens if the lease of an attempt has expired and its outcome is unknown. retry: the message is sent again. fail: the task ends';

COMMENT ON COLUMN public.senders.is_self_registered IS 'true: an app created the sender by polling. false also for senders that are older than this column';

COMMENT ON COLUMN public.senders.segment_price IS 'price of a segment, in 1/10000 of the currency in the setting monitoring.currency; null: unknown, counted as 0';

COMMENT ON COLUMN public.senders.sign_mode IS 'in_text: the sender gets the text with the signature before it. by_provider: the provider adds the signature. none: the message is sent without a signature';

COMMENT ON COLUMN public.senders.inbox_company_id IS 'the company of the messages that people send to this sender without answering a task. null, or a deleted company: the company named default. There is no foreign key, because adding it would have locked companies';

COMMENT ON COLUMN public.senders.has_sims IS 'true: rows in sender_sims exist. A claim then locks the row of the sender in sender_states, and chooses the SIM of each task. The column exists so that claims of other senders need not read sender_sims';

COMMENT ON COLUMN public.senders.hours IS 'the hours of each day, in time_zone, in which the sender gets tasks, such as 08:00-22:00; null: all hours';

CREATE VIEW public.sender_standings AS
 SELECT s.id AS sender_id,
    s.sender_no,
    s.channel_id,
    s.kind,
    s.status,
    s.is_shared,
    s.sort,
    st.next_available_at,
    st.seen_at,
    st.balance,
    u.minute_used,
    u.hour_used,
    u.day_used,
    u.month_used,
    (s.status = 'on'::text) AS is_on,
    (st.next_available_at <= now()) AS is_rested,
    q.has_quota,
    f.has_funds,
    COALESCE(((u.day_used)::double precision / (NULLIF(s.per_day, 0))::double precision), (0)::double precision) AS day_share,
    COALESCE((st.response_ms / NULLIF((st.succeeded + st.failed), 0)), (0)::bigint) AS response_ms,
    ((s.status = 'on'::text) AND q.has_quota AND f.has_funds AND (st.rest_until IS NULL) AND public.in_hours(s.hours, s.time_zone, now()) AND public.links_are_bound(s.id, s.kind)) AS is_available,
    l.segments_left,
        CASE
            WHEN (l.segments_left IS NULL) THEN (1000000000)::bigint
            ELSE GREATEST((0)::bigint, ((l.segments_left / (ceil((160.0 / (COALESCE(s.segment_size, (160)::bigint))::numeric)))::bigint) -
            CASE
                WHEN (s.sign IS NULL) THEN 0
                ELSE 1
            END))
        END AS room
   FROM ((((((public.senders s
     JOIN public.sender_states st ON ((st.sender_id = s.id)))
     CROSS JOIN LATERAL ( SELECT public.used_in_window('minute'::text, now(), s.time_zone, st.minute_used, st.last_taken_at) AS minute_used,
            public.used_in_window('hour'::text, now(), s.time_zone, st.hour_used, st.last_taken_at) AS hour_used,
            public.used_in_window('day'::text, now(), s.time_zone, st.day_used, st.last_taken_at) AS day_used,
            public.used_in_window('month'::text, now(), s.time_zone, st.month_used, st.last_taken_at) AS month_used) u)
     CROSS JOIN LATERAL ( SELECT
                CASE
                    WHEN s.has_sims THEN public.sims_room(s.id, now())
                    ELSE NULL::bigint
                END AS room
         OFFSET 0) m)
     CROSS JOIN LATERAL ( SELECT (COALESCE((s.per_minute > u.minute_used), true) AND COALESCE((s.per_hour > u.hour_used), true) AND COALESCE((s.per_day > u.day_used), true) AND COALESCE((s.per_month > u.month_used), true) AND COALESCE((m.room > 0), true)) AS has_quota) q)
     CROSS JOIN LATERAL ( SELECT ((NOT s.has_balance) OR (COALESCE(st.balance, (0)::bigint) > COALESCE(s.low_switch, (0)::bigint))) AS has_funds) f)
     CROSS JOIN LATERAL ( SELECT LEAST((s.per_minute - u.minute_used), (s.per_hour - u.hour_used), (s.per_day - u.day_used), (s.per_month - u.month_used),
                CASE
                    WHEN s.has_balance THEN COALESCE(st.balance, (0)::bigint)
                    ELSE NULL::bigint
                END, m.room) AS segments_left) l);

COMMENT ON VIEW public.sender_standings IS 'Each sender, with the part of its state that claims of other senders need. A claim reads it by sender_id.';

COMMENT ON COLUMN public.sender_standings.is_rested IS 'true: next_available_at has passed';

COMMENT ON COLUMN public.sender_standings.has_quota IS 'true: each limit has segments left, and a SIM can send to a new recipient. Senders without SIMs have no limits of SIMs';

COMMENT ON COLUMN public.sender_standings.has_funds IS 'true: the sender has no balance, or a balance above low_switch';

COMMENT ON COLUMN public.sender_standings.day_share IS 'used part of the daily limit; 0 without a limit';

COMMENT ON COLUMN public.sender_standings.response_ms IS 'average milliseconds from claim to report';

COMMENT ON COLUMN public.sender_standings.is_available IS 'true: the sender is on, in its hours, has quota and funds, its circuit breaker is closed, and one of its links is open if it has links. Only available senders count for sort and for shares';

COMMENT ON COLUMN public.sender_standings.segments_left IS 'segments that its limits and balance still allow, and that the SIM with the largest rest still allows for a new recipient; null: no limit';

COMMENT ON COLUMN public.sender_standings.room IS 'the size of the largest task that the sender can certainly send, in segments as counted at the submission. The segment size or the signature of the sender can allow a larger task';

CREATE TABLE public.sender_tokens (
    sender_id bigint NOT NULL,
    token text DEFAULT ''::text NOT NULL,
    expires_at timestamp with time zone DEFAULT '-infinity'::timestamp with time zone NOT NULL,
    fetches bigint DEFAULT 0 NOT NULL,
    fetch_until timestamp with time zone
);

COMMENT ON TABLE public.sender_tokens IS 'The access token of a driven sender at its provider. Written by internal/dispatch/push.';

COMMENT ON COLUMN public.sender_tokens.token IS 'the encrypted token; empty: no token was fetched yet';

COMMENT ON COLUMN public.sender_tokens.expires_at IS '-infinity: no token was fetched yet';

COMMENT ON COLUMN public.sender_tokens.fetches IS 'number of permissions to fetch the token. Only the holder of the last permission can store a token';

COMMENT ON COLUMN public.sender_tokens.fetch_until IS 'the permission of one server to fetch the token ends at this time; null: no server fetches it';

CREATE VIEW public.sender_totals AS
 SELECT st.sender_id,
    (st.attempts + COALESCE(f.leases, (0)::bigint)) AS attempts,
    (st.succeeded + COALESCE(f.reported_success, (0)::bigint)) AS succeeded,
    (st.failed + COALESCE(f.reported_failed, (0)::bigint)) AS failed,
    (((st.response_ms)::numeric + COALESCE(f.response_ms, (0)::numeric)))::bigint AS response_ms,
    GREATEST(st.seen_at, f.at) AS seen_at,
    GREATEST(st.sent_at, f.sent_at) AS sent_at,
    (st.failed_tasks + COALESCE(f.failed_tasks, (0)::bigint)) AS failed_tasks,
    (((st.unreported)::numeric + COALESCE(f.unreported, (0)::numeric)))::bigint AS unreported
   FROM ((public.sender_states st
     JOIN public.senders s ON ((s.id = st.sender_id)))
     LEFT JOIN ( SELECT f_1.sender_no,
            sum(f_1.leases) AS leases,
            sum(f_1.reported_success) AS reported_success,
            sum(f_1.reported_failed) AS reported_failed,
            sum(f_1.response_ms) AS response_ms,
            max(f_1.at) FILTER (WHERE ((f_1.leases > 0) OR (f_1.reported_success > 0) OR (f_1.reported_failed > 0))) AS at,
            max(f_1.at) FILTER (WHERE (f_1.reported_success > 0)) AS sent_at,
            sum(GREATEST(0, f_1.failed)) AS failed_tasks,
            sum(f_1.unreported) AS unreported
           FROM public.facts f_1
          WHERE ((f_1.leases > 0) OR (f_1.reported_success > 0) OR (f_1.reported_failed > 0) OR (f_1.unreported > 0) OR (f_1.failed > 0))
          GROUP BY f_1.sender_no) f ON ((f.sender_no = s.sender_no)));

COMMENT ON VIEW public.sender_totals IS 'The totals of each sender: sender_states plus the facts that are not folded yet. Both are read in one snapshot.';

COMMENT ON COLUMN public.sender_totals.attempts IS 'number of leases';

COMMENT ON COLUMN public.sender_totals.seen_at IS 'the last poll, claim or report; null: never';

COMMENT ON COLUMN public.sender_totals.sent_at IS 'the time of the last reported SUCCESS; null: never';

COMMENT ON COLUMN public.sender_totals.failed_tasks IS 'tasks that became FAILED with the sender';

COMMENT ON COLUMN public.sender_totals.unreported IS 'number of leases that ended without a report; see facts.unreported';

ALTER TABLE public.senders ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.senders_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.servers (
    server_id text NOT NULL COLLATE pg_catalog."C",
    host text NOT NULL,
    roles text[] NOT NULL,
    version text NOT NULL,
    started_at timestamp with time zone DEFAULT now() NOT NULL,
    seen_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT servers_roles_check CHECK ((cardinality(roles) > 0))
);

COMMENT ON TABLE public.servers IS 'A server that is running, or ran within a day. Written by internal/platform/servers.';

COMMENT ON COLUMN public.servers.seen_at IS 'the last time at which the server wrote this row. A server writes it every few seconds, and deletes it when it stops';

CREATE TABLE public.sessions (
    id bigint NOT NULL,
    token_hash bytea NOT NULL,
    username text NOT NULL,
    password_proof bytea NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    last_seen_at timestamp with time zone DEFAULT now() NOT NULL,
    source_ip text NOT NULL,
    user_agent text NOT NULL,
    CONSTRAINT sessions_password_proof_length CHECK ((octet_length(password_proof) = 32)),
    CONSTRAINT sessions_token_hash_length CHECK ((octet_length(token_hash) = 32))
);

COMMENT ON TABLE public.sessions IS 'One session of a web page. Written by internal/platform/access. username has no foreign key, because the configured user is in no table. A trigger of users ends the sessions of a user that is disabled or gets another password.';

COMMENT ON COLUMN public.sessions.token_hash IS 'SHA-256 of the token in the cookie. A token is 256 random bits, so it needs no slow hash.';

COMMENT ON COLUMN public.sessions.password_proof IS 'HMAC-SHA-256 of the stored password, with the token as its key. If the password changes, the proof no longer matches, and the session ends. The token is stored nowhere, so this value reveals nothing about the password';

COMMENT ON COLUMN public.sessions.last_seen_at IS 'the time of the last request, or up to a minute earlier';

COMMENT ON COLUMN public.sessions.source_ip IS 'the address from which the user signed in';

COMMENT ON COLUMN public.sessions.user_agent IS 'the browser in which the user signed in, as the browser reports it';

ALTER TABLE public.sessions ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.sessions_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.sim_recipients (
    sender_id bigint NOT NULL,
    recipient_hash bytea NOT NULL,
    slot smallint NOT NULL,
    month date NOT NULL,
    messages bigint NOT NULL,
    last_at timestamp with time zone NOT NULL,
    last_messages bigint,
    previous_at timestamp with time zone,
    CONSTRAINT sim_recipients_recipient_hash_length CHECK ((octet_length(recipient_hash) = 32))
)
WITH (fillfactor='80');

COMMENT ON TABLE public.sim_recipients IS 'A recipient to whom a SIM of a sender sends messages. Written by internal/dispatch/queue, like sim_usages; a sweep deletes the row when it is older than a month and its conversation has ended. The erasure of a person deletes the rows of the person; sim_usages keeps their number. There is no foreign key, because each insert would lock the sender.';

COMMENT ON COLUMN public.sim_recipients.recipient_hash IS 'SHA-256 of the number in E.164';

COMMENT ON COLUMN public.sim_recipients.month IS 'the first day of the month that messages counts, in the time zone of the sender';

COMMENT ON COLUMN public.sim_recipients.messages IS 'leases in the month, without leases that were given back; 0: the recipient does not count';

COMMENT ON COLUMN public.sim_recipients.last_at IS 'time of the last claim whose leases were not all given back; -infinity: none';

COMMENT ON COLUMN public.sim_recipients.last_messages IS 'leases of this claim that were not given back; null: unknown, because a later claim was given back';

COMMENT ON COLUMN public.sim_recipients.previous_at IS 'last_at from before this claim: the value if all its leases are given back; null: none';

CREATE TABLE public.sim_usages (
    sender_id bigint NOT NULL,
    slot smallint NOT NULL,
    day_used bigint NOT NULL,
    month_used bigint NOT NULL,
    recipients_used bigint NOT NULL,
    last_taken_at timestamp with time zone NOT NULL
)
WITH (fillfactor='50');

COMMENT ON TABLE public.sim_usages IS 'The usage of a SIM of a sender. Written by internal/dispatch/queue: claims add to it and refunds subtract from it, while they lock the row of the sender in sender_states. A row remains if its SIM is removed, so that a SIM that is added again has not lost its usage.';

COMMENT ON COLUMN public.sim_usages.day_used IS 'segments that were used on the day of last_taken_at. On any other day, the used segments are zero';

COMMENT ON COLUMN public.sim_usages.month_used IS 'like day_used, for the month';

COMMENT ON COLUMN public.sim_usages.recipients_used IS 'different recipients in the month of last_taken_at. In any other month, the number is zero';

COMMENT ON COLUMN public.sim_usages.last_taken_at IS 'time of the last claim that leased a task for the SIM';

CREATE TABLE public.smpp_long_messages (
    id bigint NOT NULL,
    company_id bigint NOT NULL,
    username text NOT NULL,
    source text NOT NULL,
    recipient text NOT NULL,
    reference bigint NOT NULL,
    total smallint NOT NULL,
    task_id text NOT NULL,
    parts bytea[] NOT NULL,
    message jsonb NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT smpp_long_messages_total_range CHECK (((total >= 1) AND (total <= 255)))
);

COMMENT ON TABLE public.smpp_long_messages IS 'A long message that a program submits over SMPP in parts. When all parts are there, it becomes a task. Written by internal/transport/smppserver';

COMMENT ON COLUMN public.smpp_long_messages.source IS 'the source address of the program';

COMMENT ON COLUMN public.smpp_long_messages.recipient IS 'the recipient, in E.164';

COMMENT ON COLUMN public.smpp_long_messages.reference IS 'the number that the program gave to all parts of the message. Programs repeat numbers';

COMMENT ON COLUMN public.smpp_long_messages.task_id IS 'the id of the future task, which is in the answers to all parts';

COMMENT ON COLUMN public.smpp_long_messages.parts IS 'the texts of the parts in the encoding of the message; null: the part is missing. A character can begin in one part and end in the next';

COMMENT ON COLUMN public.smpp_long_messages.message IS 'the other fields of the part that came first';

ALTER TABLE public.smpp_long_messages ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.smpp_long_messages_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.smpp_numbers (
    number bigint NOT NULL,
    task_id text NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL
);

COMMENT ON TABLE public.smpp_numbers IS 'A short message id, for programs that do not accept the id of a task. Written by internal/transport/smppserver';

ALTER TABLE public.smpp_numbers ALTER COLUMN number ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.smpp_numbers_number_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.smpp_passwords (
    user_id bigint NOT NULL,
    password_hash text NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL
);

COMMENT ON TABLE public.smpp_passwords IS 'The password with which a user binds over SMPP, whose specification allows only eight characters. The server chooses the password. Written by internal/platform/access';

COMMENT ON COLUMN public.smpp_passwords.password_hash IS 'the argon2id hash of the password';

CREATE TABLE public.smpp_receivers (
    company_id bigint NOT NULL,
    username text NOT NULL,
    after_id bigint NOT NULL,
    waiting bigint[] DEFAULT '{}'::bigint[] NOT NULL,
    held_by text DEFAULT ''::text NOT NULL,
    held_until timestamp with time zone DEFAULT '-infinity'::timestamp with time zone NOT NULL,
    seen_at timestamp with time zone DEFAULT now() NOT NULL
);

COMMENT ON TABLE public.smpp_receivers IS 'A user that has bound over SMPP. Only the server that holds the row sends receipts and messages to the programs of the user. Written by internal/transport/smppserver';

COMMENT ON COLUMN public.smpp_receivers.username IS 'the name of the user. There is no foreign key, because the configured admin is in no table';

COMMENT ON COLUMN public.smpp_receivers.after_id IS 'the last event of the feed that was read';

COMMENT ON COLUMN public.smpp_receivers.waiting IS 'earlier events that the programs did not take, and that are sent again';

COMMENT ON COLUMN public.smpp_receivers.held_by IS 'the process that sends';

COMMENT ON COLUMN public.smpp_receivers.held_until IS 'after this time, another process can take over, unless held_by renews the time';

COMMENT ON COLUMN public.smpp_receivers.seen_at IS 'the last bind, or the last renewal';

CREATE TABLE public.smsgate_messages (
    company_id bigint NOT NULL,
    submitted_by text NOT NULL,
    message_id text NOT NULL COLLATE pg_catalog."C",
    task_ids text[] NOT NULL COLLATE pg_catalog."C",
    sender_no text,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT smsgate_messages_message_id_length CHECK (((char_length(message_id) >= 1) AND (char_length(message_id) <= 36))),
    CONSTRAINT smsgate_messages_task_ids_size CHECK (((cardinality(task_ids) >= 1) AND (cardinality(task_ids) <= 100)))
);

COMMENT ON TABLE public.smsgate_messages IS 'A message that a program submitted through the third-party API of SMSGate. It has one task for each recipient. Written by internal/transport/smsgate/thirdparty in the transaction that submits the tasks, so that a message_id exists only once. Deleted when the days of its tasks are dropped.';

COMMENT ON COLUMN public.smsgate_messages.submitted_by IS 'see messages.submitted_by';

COMMENT ON COLUMN public.smsgate_messages.message_id IS 'the id that the program gave, or a generated id; unique for one user of a company';

COMMENT ON COLUMN public.smsgate_messages.task_ids IS 'the tasks in the order of the recipients. There is no foreign key, because messages are partitioned';

COMMENT ON COLUMN public.smsgate_messages.sender_no IS 'the only sender that is allowed to send the message, as requested; null: any sender';

ALTER TABLE public.sql_inbox ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.sql_inbox_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.sql_roles (
    role_name text NOT NULL,
    user_id bigint NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    is_connect_granted boolean DEFAULT false NOT NULL,
    CONSTRAINT sql_roles_role_name_length CHECK (((char_length(role_name) >= 1) AND (char_length(role_name) <= 63)))
);

COMMENT ON TABLE public.sql_roles IS 'A role of PostgreSQL that is allowed to call the functions of the schema lksms, and the user for whom it submits. internal/transport/sqlinbox writes the row and grants the privileges of the role. The role needs both, so a migration that creates a function of lksms again must grant the function to these roles.';

COMMENT ON COLUMN public.sql_roles.role_name IS 'session_user of the caller. There is no foreign key, because a role belongs to the cluster';

COMMENT ON COLUMN public.sql_roles.is_connect_granted IS 'true: sql_role_grant granted CONNECT on the database, and sql_role_revoke revokes it. false: the role had CONNECT, or was granted before this column';

CREATE TABLE public.statistics (
    step text NOT NULL,
    company_id bigint NOT NULL,
    dimension text NOT NULL,
    at timestamp with time zone NOT NULL,
    key text NOT NULL COLLATE pg_catalog."C",
    submitted bigint NOT NULL,
    requeued bigint NOT NULL,
    claimed bigint NOT NULL,
    succeeded bigint NOT NULL,
    failed bigint NOT NULL,
    reported_failed bigint NOT NULL,
    cancelled bigint NOT NULL,
    delivered bigint NOT NULL,
    undelivered bigint NOT NULL,
    segments bigint NOT NULL,
    waits bytea NOT NULL,
    durations bytea NOT NULL,
    unreported bigint DEFAULT 0 NOT NULL,
    CONSTRAINT statistics_dimension_known CHECK ((dimension = ANY (ARRAY['total'::text, 'company'::text, 'channel'::text, 'sender'::text, 'message_type'::text, 'outcome'::text]))),
    CONSTRAINT statistics_step_known CHECK ((step = ANY (ARRAY['minute'::text, 'hour'::text, 'day'::text])))
)
WITH (fillfactor='80');

COMMENT ON TABLE public.statistics IS 'The counts of one minute, hour or day: of all tasks of a company, or of one key of a dimension. Written only by internal/insight/statistics, from statistics_staged. Minutes and hours are deleted later.';

COMMENT ON COLUMN public.statistics.company_id IS '0: all companies. There is no foreign key, because figures are kept when their company is deleted';

COMMENT ON COLUMN public.statistics.dimension IS 'the kind of key: total (key is empty), company, channel, sender, message_type or outcome. company exists only with company_id 0';

COMMENT ON COLUMN public.statistics.at IS 'the beginning of the minute, hour or day. Hours are hours of UTC. Days are days of the time zone that the setting monitoring.time_zone named when the sweep wrote the row';

COMMENT ON COLUMN public.statistics.key IS 'the value of the dimension. For the dimension company, it is the id of the company. For the other dimensions, it is the column of statistics_staged with the name of the dimension (sender: sender_no). Tests are counted only under the key test of the dimension message_type';

COMMENT ON COLUMN public.statistics.claimed IS 'number of leases. All counts mean the same as in facts';

COMMENT ON COLUMN public.statistics.waits IS 'a histogram of the times from entered_at to the first claim. It contains each bucket with tasks, in ascending order: the number of the bucket (one byte, see wait_bucket), then the number of its tasks (varint of Go''s encoding/binary)';

COMMENT ON COLUMN public.statistics.durations IS 'a histogram of the times from entered_at to SUCCESS or FAILED, in the format of waits';

CREATE TABLE public.subscribe_messages (
    id bigint NOT NULL,
    company_id bigint NOT NULL,
    business_type text NOT NULL,
    business_id bigint NOT NULL,
    template_type text NOT NULL,
    receiver_user_id text NOT NULL,
    template_id text NOT NULL,
    task_id text NOT NULL COLLATE pg_catalog."C",
    sends bigint DEFAULT 1 NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    updated_at timestamp with time zone DEFAULT now() NOT NULL,
    submitted_by text NOT NULL,
    is_companys boolean DEFAULT false NOT NULL,
    CONSTRAINT subscribe_messages_lengths CHECK ((((char_length(business_type) >= 1) AND (char_length(business_type) <= 50)) AND ((char_length(template_type) >= 1) AND (char_length(template_type) <= 50)) AND ((char_length(receiver_user_id) >= 1) AND (char_length(receiver_user_id) <= 64)) AND ((char_length(template_id) >= 1) AND (char_length(template_id) <= 100))))
);

COMMENT ON TABLE public.subscribe_messages IS 'A send-once message: a person gets it once for a business object and a template type. Written by internal/audience/notification. task_id has no foreign key, because the row is created before its task.';

COMMENT ON COLUMN public.subscribe_messages.business_id IS 'the object in the system of the caller';

COMMENT ON COLUMN public.subscribe_messages.receiver_user_id IS 'contacts.user_id. There is no foreign key, because a person whose address is in the request needs no contact';

COMMENT ON COLUMN public.subscribe_messages.template_id IS 'the template of the provider in the last attempt to send';

COMMENT ON COLUMN public.subscribe_messages.task_id IS 'the last task of the message. Its state is the state of the message';

COMMENT ON COLUMN public.subscribe_messages.sends IS 'number of tasks of the message so far';

COMMENT ON COLUMN public.subscribe_messages.submitted_by IS 'the user who first requested the message; empty: the task no longer existed when this column was added';

COMMENT ON COLUMN public.subscribe_messages.is_companys IS 'true: no other message of the company has this key. false: the row comes from a version in which each submitter had its own messages';

ALTER TABLE public.subscribe_messages ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.subscribe_messages_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE VIEW public.switches AS
 SELECT ((EXISTS ( SELECT
           FROM public.companies c
          WHERE ((c.status = 'off'::text) OR (NOT c.uses_shared_senders) OR (NOT c.any_country)))) OR (EXISTS ( SELECT
           FROM public.countries c
          WHERE (c.status = 'off'::text))) OR (EXISTS ( SELECT
           FROM public.channels c
          WHERE ((c.status = 'off'::text) OR (NOT c.any_country)))) OR (EXISTS ( SELECT
           FROM public.company_countries)) OR (EXISTS ( SELECT
           FROM public.channel_countries))) AS may_hold,
    (EXISTS ( SELECT
           FROM public.users u
          WHERE u.is_disabled)) AS has_disabled_users;

COMMENT ON VIEW public.switches IS 'One row that tells whether task_switches can return a row for any task. has_disabled_users: a user is disabled. may_hold: another switch can hold tasks. Claims read this view first, so that they call task_switches only if needed. The two columns are separate, because disabled users are common.';

CREATE TABLE public.tag_contacts (
    tag_id bigint NOT NULL,
    company_id bigint NOT NULL,
    user_id text NOT NULL
);

COMMENT ON TABLE public.tag_contacts IS 'A contact of a tag. Written by internal/audience/contact. tag_id has no foreign key, because a tag can contain a million contacts, but is deleted at once. A sweep then deletes its rows here, see deleted_tags.';

CREATE TABLE public.tags (
    id bigint NOT NULL,
    company_id bigint NOT NULL,
    tag text NOT NULL,
    contacts bigint DEFAULT 0 NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT tags_contacts_range CHECK ((contacts >= 0)),
    CONSTRAINT tags_tag_length CHECK (((char_length(tag) >= 1) AND (char_length(tag) <= 100)))
)
WITH (fillfactor='50');

COMMENT ON TABLE public.tags IS 'A tag of a company, which groups contacts. Written by internal/audience/contact. Triggers of tag_contacts write the column contacts.';

COMMENT ON COLUMN public.tags.contacts IS 'number of contacts with the tag';

ALTER TABLE public.tags ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.tags_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.task_counts (
    company_id bigint NOT NULL,
    pending_new bigint NOT NULL,
    pending_retry bigint NOT NULL,
    processing bigint NOT NULL,
    success bigint NOT NULL,
    failed bigint NOT NULL
)
WITH (fillfactor='50');

COMMENT ON TABLE public.task_counts IS 'The numbers of tasks of one company in each state. They do not include the facts that are not folded yet. Written by internal/insight/history, which folds facts.';

COMMENT ON COLUMN public.task_counts.company_id IS 'There is no foreign key, because a fold would lock all companies';

COMMENT ON COLUMN public.task_counts.pending_new IS 'number of PENDING tasks with retry_count 0';

COMMENT ON COLUMN public.task_counts.pending_retry IS 'number of PENDING tasks with retry_count above 0';

CREATE TABLE public.task_job_parts (
    job_id bigint NOT NULL,
    part integer NOT NULL,
    task_ids text[] NOT NULL
);

COMMENT ON TABLE public.task_job_parts IS 'Some hundred tasks that a job has not changed yet, in the order of their ids. Written by internal/dispatch/job, which deletes the row in the transaction that changes the tasks.';

CREATE TABLE public.task_jobs (
    id bigint NOT NULL,
    action text NOT NULL,
    filter jsonb NOT NULL,
    remark text,
    total integer NOT NULL,
    done integer DEFAULT 0 NOT NULL,
    skipped integer DEFAULT 0 NOT NULL,
    failed integer DEFAULT 0 NOT NULL,
    status text DEFAULT 'running'::text NOT NULL,
    created_by text NOT NULL,
    stopped_by text,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    finished_at timestamp with time zone,
    skipped_by jsonb DEFAULT '{}'::jsonb NOT NULL,
    CONSTRAINT task_jobs_action_known CHECK ((action = ANY (ARRAY['cancel'::text, 'requeue'::text]))),
    CONSTRAINT task_jobs_finished_at_set CHECK (((status = 'running'::text) = (finished_at IS NULL))),
    CONSTRAINT task_jobs_progress CHECK (((total > 0) AND (done >= 0) AND (skipped >= 0) AND (failed >= 0) AND (((done + skipped) + failed) <= total) AND ((status <> 'finished'::text) OR (((done + skipped) + failed) = total)))),
    CONSTRAINT task_jobs_remark_length CHECK (((char_length(remark) >= 1) AND (char_length(remark) <= 200))),
    CONSTRAINT task_jobs_status_known CHECK ((status = ANY (ARRAY['running'::text, 'finished'::text, 'stopped'::text])))
);

COMMENT ON TABLE public.task_jobs IS 'A request to cancel or requeue all tasks of a filter, and its progress. Written by internal/dispatch/job. One transaction changes a portion of tasks and adds them to the counts.';

COMMENT ON COLUMN public.task_jobs.filter IS 'the filter of the request. task_job_parts contains the selected tasks';

COMMENT ON COLUMN public.task_jobs.total IS 'number of tasks that the filter selected when the job was created';

COMMENT ON COLUMN public.task_jobs.done IS 'number of tasks that the job cancelled or requeued';

COMMENT ON COLUMN public.task_jobs.skipped IS 'number of tasks whose state no longer allowed the action';

COMMENT ON COLUMN public.task_jobs.failed IS 'number of tasks whose change the database rejected';

COMMENT ON COLUMN public.task_jobs.stopped_by IS 'the user who stopped the job; null: not stopped';

COMMENT ON COLUMN public.task_jobs.skipped_by IS 'the number of skipped tasks for each reason, by the name of the reason in the API: {"task.expired": 3}. Tasks are missing if a server skipped them that does not know this column';

ALTER TABLE public.task_jobs ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.task_jobs_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.task_partitions (
    first_day date NOT NULL,
    last_day date NOT NULL,
    first_id text GENERATED ALWAYS AS (public.task_day_id(first_day)) STORED NOT NULL COLLATE pg_catalog."C",
    before_id text GENERATED ALWAYS AS (public.task_day_id(last_day)) STORED NOT NULL COLLATE pg_catalog."C",
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    dropped_at timestamp with time zone,
    history_at timestamp with time zone,
    exported_at timestamp with time zone,
    exported_to text,
    exported_messages bigint,
    exported_reports bigint,
    imported_at timestamp with time zone,
    exported_late text[],
    late_tasks bigint,
    held_by text,
    CONSTRAINT task_partitions_days CHECK ((last_day > first_day))
);

COMMENT ON TABLE public.task_partitions IS 'A range of days that has or had a partition of messages and a partition of report_logs. Written by the functions task_partition_make and task_partition_drop, in the transaction that creates or drops the partitions.';

COMMENT ON COLUMN public.task_partitions.last_day IS 'the day after the last day of the partitions';

COMMENT ON COLUMN public.task_partitions.first_id IS 'the first task_id of the partitions';

COMMENT ON COLUMN public.task_partitions.before_id IS 'the first task_id after the partitions';

COMMENT ON COLUMN public.task_partitions.dropped_at IS 'the time at which the partitions were dropped; null: they exist';

COMMENT ON COLUMN public.task_partitions.history_at IS 'the time at which the partitions became history: all their tasks have ended, and they are in the tablespace of the setting history.tablespace; null: not yet';

COMMENT ON COLUMN public.task_partitions.exported_at IS 'the time at which its last export was complete; null: never';

COMMENT ON COLUMN public.task_partitions.exported_to IS 'the name of the folder of its last export, in the HISTORY_DIR of the server that wrote it';

COMMENT ON COLUMN public.task_partitions.exported_messages IS 'number of rows of messages in the last export';

COMMENT ON COLUMN public.task_partitions.exported_reports IS 'number of rows of report_logs in the last export';

COMMENT ON COLUMN public.task_partitions.imported_at IS 'the time at which the partition was imported from an export, or created again for the tasks that were kept when it was dropped. Its retention begins again at this time. null: neither';

COMMENT ON COLUMN public.task_partitions.exported_late IS 'the ids, in order, of the tasks that the last export skipped because they had not ended; null: no such tasks';

COMMENT ON COLUMN public.task_partitions.late_tasks IS 'number of tasks that were moved to the default partition when the partition was dropped; null: not dropped, or dropped by a server that did not know this column';

COMMENT ON COLUMN public.task_partitions.held_by IS 'the reason why the last run of the sweep could not make the partition history, or could not drop it: no_folder, too_many_late, locked or failed; null: it succeeded, or did not try';

CREATE VIEW public.task_totals AS
 SELECT c.company_id,
    (sum(c.pending_new))::bigint AS pending_new,
    (sum(c.pending_retry))::bigint AS pending_retry,
    (sum(c.processing))::bigint AS processing,
    (sum(c.success))::bigint AS success,
    (sum(c.failed))::bigint AS failed
   FROM ( SELECT task_counts.company_id,
            task_counts.pending_new,
            task_counts.pending_retry,
            task_counts.processing,
            task_counts.success,
            task_counts.failed
           FROM public.task_counts
        UNION ALL
         SELECT facts.company_id,
            facts.pending_new,
            facts.pending_retry,
            facts.processing,
            facts.success,
            facts.failed
           FROM public.facts) c
  GROUP BY c.company_id;

COMMENT ON VIEW public.task_totals IS 'The exact numbers of tasks of each company in each state: task_counts plus the facts that are not folded yet. Both are read in one snapshot.';

CREATE TABLE public.template_versions (
    template_id bigint NOT NULL,
    version bigint NOT NULL,
    template_content text NOT NULL,
    language text,
    translations jsonb NOT NULL,
    sign text,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    created_by text DEFAULT NULLIF(current_setting('lksms.actor'::text, true), ''::text)
);

COMMENT ON TABLE public.template_versions IS 'One row is one version of the texts of a template; the row with the greatest version is current. Written by internal/dispatch/template; deleted with the template.';

COMMENT ON COLUMN public.template_versions.created_by IS 'name of the user who set these texts; null: not set through the service, or set before versions were kept';

CREATE TABLE public.templates (
    id bigint NOT NULL,
    template_name text NOT NULL,
    template_content text NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    updated_at timestamp with time zone DEFAULT now() NOT NULL,
    send_type text DEFAULT 'realtime'::text NOT NULL,
    companies text[] DEFAULT '{}'::text[] NOT NULL,
    given_no text,
    template_no text GENERATED ALWAYS AS (COALESCE(given_no, ('template-'::text || (id)::text))) STORED NOT NULL,
    scene text DEFAULT ''::text NOT NULL,
    purpose text DEFAULT ''::text NOT NULL,
    status text DEFAULT 'active'::text NOT NULL,
    is_active boolean GENERATED ALWAYS AS ((status = 'active'::text)) STORED NOT NULL,
    language text,
    translations jsonb DEFAULT '{}'::jsonb NOT NULL,
    sign text,
    version bigint DEFAULT 1 NOT NULL,
    CONSTRAINT templates_given_no_free CHECK ((given_no !~ '^template-[0-9]+$'::text)),
    CONSTRAINT templates_given_no_length CHECK (((char_length(given_no) >= 1) AND (char_length(given_no) <= 50))),
    CONSTRAINT templates_language_length CHECK (((char_length(language) >= 2) AND (char_length(language) <= 35))),
    CONSTRAINT templates_purpose_length CHECK ((char_length(purpose) <= 200)),
    CONSTRAINT templates_scene_length CHECK ((char_length(scene) <= 64)),
    CONSTRAINT templates_send_type_known CHECK ((send_type = ANY (ARRAY['realtime'::text, 'scheduled'::text]))),
    CONSTRAINT templates_sign_length CHECK (((char_length(sign) >= 1) AND (char_length(sign) <= 20))),
    CONSTRAINT templates_status_known CHECK ((status = ANY (ARRAY['draft'::text, 'in_review'::text, 'active'::text, 'disabled'::text, 'voided'::text]))),
    CONSTRAINT templates_template_content_length CHECK (((char_length(template_content) >= 1) AND (char_length(template_content) <= 1024))),
    CONSTRAINT templates_template_name_length CHECK (((char_length(template_name) >= 1) AND (char_length(template_name) <= 100))),
    CONSTRAINT templates_translations_object CHECK ((jsonb_typeof(translations) = 'object'::text))
);

COMMENT ON TABLE public.templates IS 'A template: a text that submissions can use. Written by internal/dispatch/template.';

COMMENT ON COLUMN public.templates.send_type IS 'realtime: a message is sent at once. scheduled: a message is sent at the next full interval of the setting sms.scheduled_every_seconds, unless the submission has its own time';

COMMENT ON COLUMN public.templates.companies IS 'company_no of the companies that can use the template; empty: all companies. An array cannot have a foreign key, so the deletion of a company checks this column.';

COMMENT ON COLUMN public.templates.given_no IS 'template_no, if an administrator chose it; null: template_no is derived from the id';

COMMENT ON COLUMN public.templates.scene IS 'what the message is about, such as registration; for lists only';

COMMENT ON COLUMN public.templates.purpose IS 'explanation for administrators';

COMMENT ON COLUMN public.templates.status IS 'messages can use only active templates. A voided template stays voided';

COMMENT ON COLUMN public.templates.language IS 'language of template_content (BCP 47); null: unknown';

COMMENT ON COLUMN public.templates.translations IS 'texts with the same placeholders, by language';

COMMENT ON COLUMN public.templates.sign IS 'signature of messages without their own signature; null: the signature of the sender';

COMMENT ON COLUMN public.templates.version IS 'number of changes of template_content, language, translations and sign, plus 1';

ALTER TABLE public.templates ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.templates_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.upload_parts (
    upload_id bigint NOT NULL,
    part integer NOT NULL,
    bytes bytea NOT NULL,
    CONSTRAINT upload_parts_bytes_length CHECK (((octet_length(bytes) >= 1) AND (octet_length(bytes) <= 262144)))
);
ALTER TABLE ONLY public.upload_parts ALTER COLUMN bytes SET STORAGE EXTERNAL;

COMMENT ON TABLE public.upload_parts IS '262,144 bytes of an upload; the last part can be shorter. Written once by internal/audience/upload.';

COMMENT ON COLUMN public.upload_parts.part IS 'the number of the part, from 0';

CREATE TABLE public.uploads (
    id bigint NOT NULL,
    company_id bigint NOT NULL,
    submitted_by text NOT NULL,
    name text NOT NULL,
    size bigint,
    used_by text,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    encoding text,
    CONSTRAINT uploads_name_length CHECK ((char_length(name) <= 255)),
    CONSTRAINT uploads_size_not_negative CHECK ((size >= 0)),
    CONSTRAINT uploads_used_are_complete CHECK (((used_by IS NULL) OR (size IS NOT NULL))),
    CONSTRAINT uploads_used_by_length CHECK (((char_length(used_by) >= 1) AND (char_length(used_by) <= 100)))
);

COMMENT ON TABLE public.uploads IS 'A file of a request, until it is processed. Written by internal/audience/upload; the package that processes the file deletes it.';

COMMENT ON COLUMN public.uploads.submitted_by IS 'the user who sent the file. There is no foreign key, because the configured user is in no table';

COMMENT ON COLUMN public.uploads.name IS 'the name of the file, as its owner calls it; can be empty';

COMMENT ON COLUMN public.uploads.size IS 'the size in bytes; null: the file is still being received, or its request was broken off';

COMMENT ON COLUMN public.uploads.used_by IS 'what uses the file, for example "batch 17"; null: nothing uses it yet. An unused file is deleted after an hour';

COMMENT ON COLUMN public.uploads.encoding IS 'the encoding of the text that the owner of the file chose, from sheet.Encodings; null: the server detects it';

ALTER TABLE public.uploads ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.uploads_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.user_addresses (
    network text NOT NULL,
    username text NOT NULL,
    seen_at timestamp with time zone DEFAULT now() NOT NULL
);

COMMENT ON TABLE public.user_addresses IS 'An address at which a user proved its password. Written by internal/platform/access after a correct password, at most once a day. Rows older than 30 days do not count, and are deleted when the user proves its password again.';

COMMENT ON COLUMN public.user_addresses.network IS 'an IPv4 address, or the /64 network of an IPv6 address';

COMMENT ON COLUMN public.user_addresses.username IS 'There is no foreign key, because the configured user is in no table';

ALTER TABLE public.users ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.users_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.verification_hours (
    company_id bigint NOT NULL,
    subject text NOT NULL COLLATE pg_catalog."C",
    hour timestamp with time zone NOT NULL,
    started bigint DEFAULT 0 NOT NULL,
    approved bigint DEFAULT 0 NOT NULL
)
WITH (fillfactor='80');

COMMENT ON TABLE public.verification_hours IS 'The verifications of one company and subject that were started in one hour. A verification counts for all its subjects. Package audience/verification writes it, and deletes rows by age';

COMMENT ON COLUMN public.verification_hours.company_id IS 'no foreign key: the rows of a deleted company are deleted by age';

COMMENT ON COLUMN public.verification_hours.subject IS 'a prefix of phone numbers (+8613), or a network of clients (203.0.113.0/24)';

COMMENT ON COLUMN public.verification_hours.hour IS 'when the verifications were started, as the beginning of an hour (UTC)';

COMMENT ON COLUMN public.verification_hours.started IS 'codes that were sent, including those that were sent again';

COMMENT ON COLUMN public.verification_hours.approved IS 'how many of the verifications were approved, whenever that was';

CREATE TABLE public.verification_hours_staged (
    company_id bigint NOT NULL,
    hour timestamp with time zone NOT NULL,
    subjects text[] NOT NULL,
    started bigint NOT NULL,
    approved bigint NOT NULL
);

COMMENT ON TABLE public.verification_hours_staged IS 'What one code, or one approval, adds to verification_hours, or what codes that no sender got take from it (started is then negative). It is stored together with its cause. The sweep count-verifications moves it. Package audience/verification writes it';

CREATE TABLE public.verification_safe (
    id bigint NOT NULL,
    company_id bigint,
    subject text NOT NULL COLLATE pg_catalog."C",
    expires_at timestamp with time zone,
    note text,
    created_by text NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL
);

COMMENT ON TABLE public.verification_safe IS 'A prefix of phone numbers, or a network of clients, that is never suspected. Package audience/verification writes it';

COMMENT ON COLUMN public.verification_safe.company_id IS 'null: the row applies to all companies';

COMMENT ON COLUMN public.verification_safe.subject IS 'as in verification_hours; a prefix can have any length, but is not a whole number';

COMMENT ON COLUMN public.verification_safe.expires_at IS 'null: the row applies until it is deleted';

ALTER TABLE public.verification_safe ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.verification_safe_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.verification_subjects (
    company_id bigint NOT NULL,
    subject text NOT NULL COLLATE pg_catalog."C",
    started bigint NOT NULL,
    approved bigint NOT NULL,
    is_proven boolean NOT NULL,
    since timestamp with time zone DEFAULT now() NOT NULL,
    derived_at timestamp with time zone DEFAULT now() NOT NULL
);

COMMENT ON TABLE public.verification_subjects IS 'A prefix of phone numbers, or a network of clients, whose codes of the last 24 hours prove that people use it, or that is suspected. Package audience/verification derives it from verification_hours';

COMMENT ON COLUMN public.verification_subjects.started IS 'within the 24 hours before derived_at';

COMMENT ON COLUMN public.verification_subjects.is_proven IS 'true: codes are approved, so codes are not limited. false: many codes were started and too few approved. Subjects without a row are not proven either';

COMMENT ON COLUMN public.verification_subjects.since IS 'when is_proven changed for the last time';

CREATE VIEW public.verification_suspects AS
 SELECT s.company_id,
    s.subject,
    s.started,
    s.approved,
    s.since
   FROM public.verification_subjects s
  WHERE ((NOT s.is_proven) AND (NOT (EXISTS ( SELECT
           FROM public.verification_safe f
          WHERE (((f.company_id IS NULL) OR (f.company_id = s.company_id)) AND ((f.expires_at IS NULL) OR (f.expires_at > now())) AND starts_with(s.subject, f.subject))))));

COMMENT ON VIEW public.verification_suspects IS 'the subjects of verification_subjects that are neither proven nor safe';

CREATE TABLE public.verifications (
    verification_id text NOT NULL COLLATE pg_catalog."C",
    company_id bigint NOT NULL,
    submitted_by text NOT NULL,
    channel text NOT NULL,
    recipient text NOT NULL,
    purpose text NOT NULL,
    status text DEFAULT 'pending'::text NOT NULL,
    digest text,
    sealed text,
    checks smallint DEFAULT 0 NOT NULL,
    max_checks smallint NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    expires_at timestamp with time zone NOT NULL,
    ended_at timestamp with time zone,
    task_ids text[] NOT NULL,
    options jsonb DEFAULT '{}'::jsonb NOT NULL,
    country text,
    subjects text[] DEFAULT '{}'::text[] NOT NULL,
    CONSTRAINT verifications_checks_range CHECK (((checks >= 0) AND (checks <= max_checks))),
    CONSTRAINT verifications_end_complete CHECK (((status = 'pending'::text) = (ended_at IS NULL))),
    CONSTRAINT verifications_secrets_of_pending CHECK ((((status = 'pending'::text) = (digest IS NOT NULL)) AND ((status = 'pending'::text) = (sealed IS NOT NULL)))),
    CONSTRAINT verifications_status_known CHECK ((status = ANY (ARRAY['pending'::text, 'approved'::text, 'expired'::text, 'exhausted'::text, 'cancelled'::text])))
);

COMMENT ON TABLE public.verifications IS 'one row for each code that a system asked LKSMS to send and to check. Package audience/verification writes it, and deletes rows by age';

COMMENT ON COLUMN public.verifications.company_id IS 'no foreign key: the rows of a deleted company are deleted by age';

COMMENT ON COLUMN public.verifications.status IS 'A pending verification whose expires_at has passed counts as expired, until a sweep sets this status. cancelled: by its system, or replaced by a newer one';

COMMENT ON COLUMN public.verifications.digest IS 'the code as a keyed hash, with the id of its key. null: the verification has ended';

COMMENT ON COLUMN public.verifications.sealed IS 'the code, encrypted with SECRETS_KEY, which a resend repeats. null: the verification has ended';

COMMENT ON COLUMN public.verifications.checks IS 'the number of codes that were checked, including the right one';

COMMENT ON COLUMN public.verifications.task_ids IS 'the tasks that send the code, oldest first';

COMMENT ON COLUMN public.verifications.options IS 'the template_no, language, sign, app_hash, domain and user_id of the request, which a resend repeats. A field that the request did not set is missing';

COMMENT ON COLUMN public.verifications.country IS 'ISO code of the country of the number, such as CN; null: unknown, or the channel is not sms';

COMMENT ON COLUMN public.verifications.subjects IS 'the subjects of verification_hours that count the verification';

CREATE TABLE public.webhook_deliveries (
    id bigint NOT NULL,
    webhook_id bigint NOT NULL,
    feed_id bigint NOT NULL,
    type text NOT NULL,
    task_id text COLLATE pg_catalog."C",
    at timestamp with time zone NOT NULL,
    attempt bigint NOT NULL,
    status_code bigint,
    duration_ms bigint NOT NULL,
    error text,
    response text,
    CONSTRAINT webhook_deliveries_error_known CHECK ((error = ANY (ARRAY['refused_address'::text, 'not_connected'::text, 'timeout'::text, 'status'::text, 'no_secret'::text]))),
    CONSTRAINT webhook_deliveries_response_length CHECK ((char_length(response) <= 1024))
);

COMMENT ON TABLE public.webhook_deliveries IS 'A post of an event to the address of a webhook. The last hundred posts of each webhook are kept, and the last post of each event that waits for a retry. Written by internal/events/webhook in the transaction that advances the webhook. The body of the post is not stored, because it can be created from feed again.';

COMMENT ON COLUMN public.webhook_deliveries.feed_id IS 'There is no foreign key: the row can be kept longer than the event, and a webhook.test is in no feed';

COMMENT ON COLUMN public.webhook_deliveries.attempt IS 'number of the attempt, from 1';

COMMENT ON COLUMN public.webhook_deliveries.status_code IS 'the HTTP status of the answer; null: no answer arrived';

COMMENT ON COLUMN public.webhook_deliveries.error IS 'the reason why the post failed; null: the post was accepted';

COMMENT ON COLUMN public.webhook_deliveries.response IS 'the first KB of the answer; null: no answer, or the person of the task was erased';

ALTER TABLE public.webhook_deliveries ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.webhook_deliveries_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.webhook_retries (
    webhook_id bigint NOT NULL,
    feed_id bigint NOT NULL,
    task_id text COLLATE pg_catalog."C",
    tries bigint DEFAULT 0 NOT NULL,
    due_at timestamp with time zone,
    delivery_id bigint
);

COMMENT ON TABLE public.webhook_retries IS 'An event with an id up to after_id that a webhook must still post. Its post failed, it waits for an earlier event of its task, or it is replayed. Written by internal/events/webhook. Deleted when the event is accepted, and together with the event.';

COMMENT ON COLUMN public.webhook_retries.task_id IS 'see feed.task_id. The events of a task are posted in their order';

COMMENT ON COLUMN public.webhook_retries.tries IS 'number of failed posts';

COMMENT ON COLUMN public.webhook_retries.due_at IS 'the time of the next post; null: the event waits for an earlier event of its task';

COMMENT ON COLUMN public.webhook_retries.delivery_id IS 'the row of webhook_deliveries of the last post. There is no foreign key, because both are deleted together; null: no post';

CREATE TABLE public.webhook_secrets (
    id bigint NOT NULL,
    webhook_id bigint NOT NULL,
    sealed text NOT NULL,
    valid_until timestamp with time zone
);

COMMENT ON TABLE public.webhook_secrets IS 'An encrypted secret, which signs the posts of a webhook. Written by internal/events/webhook.';

COMMENT ON COLUMN public.webhook_secrets.valid_until IS 'the secret was replaced, but still signs posts until this time; null: the current secret';

ALTER TABLE public.webhook_secrets ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.webhook_secrets_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.webhooks (
    id bigint NOT NULL,
    company_id bigint,
    user_id bigint,
    owner text GENERATED ALWAYS AS (
CASE
    WHEN (user_id IS NOT NULL) THEN ('user '::text || (user_id)::text)
    WHEN (company_id IS NOT NULL) THEN ('company '::text || (company_id)::text)
    ELSE 'all'::text
END) STORED NOT NULL,
    url text NOT NULL,
    events text[] NOT NULL,
    description text DEFAULT ''::text NOT NULL,
    status text DEFAULT 'on'::text NOT NULL,
    off_reason text,
    created_by text NOT NULL,
    rotated_at timestamp with time zone,
    after_id bigint NOT NULL,
    failing_since timestamp with time zone,
    failed_runs bigint DEFAULT 0 NOT NULL,
    rest_until timestamp with time zone,
    version bigint DEFAULT 1 NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    updated_at timestamp with time zone DEFAULT now() NOT NULL,
    form text DEFAULT 'standard'::text NOT NULL,
    external_id text COLLATE pg_catalog."C",
    CONSTRAINT webhooks_description_length CHECK ((char_length(description) <= 200)),
    CONSTRAINT webhooks_external_id_length CHECK (((char_length(external_id) >= 1) AND (char_length(external_id) <= 36))),
    CONSTRAINT webhooks_external_id_of_form CHECK (((external_id IS NOT NULL) = (form = 'smsgate'::text))),
    CONSTRAINT webhooks_form_known CHECK ((form = ANY (ARRAY['standard'::text, 'smsgate'::text]))),
    CONSTRAINT webhooks_off_reason_known CHECK (((off_reason IS NULL) OR ((off_reason = ANY (ARRAY['gone'::text, 'failing'::text])) AND (status = 'off'::text)))),
    CONSTRAINT webhooks_status_known CHECK ((status = ANY (ARRAY['on'::text, 'off'::text]))),
    CONSTRAINT webhooks_url_length CHECK (((char_length(url) >= 1) AND (char_length(url) <= 2000))),
    CONSTRAINT webhooks_user_has_company CHECK (((user_id IS NULL) OR (company_id IS NOT NULL)))
);

COMMENT ON TABLE public.webhooks IS 'An address to which events of the feed are posted, and the position in the feed. Written by internal/events/webhook. A run reads the events after after_id and posts them. One transaction then stores the new after_id and the failed events, if after_id is still the value that the run has read. So each event is posted at least once, even if a server is killed.';

COMMENT ON COLUMN public.webhooks.company_id IS 'the company whose events are posted; null: the events of every company';

COMMENT ON COLUMN public.webhooks.user_id IS 'only the events about submissions of this user are posted, and the webhook is deleted together with the user; null: all events of the company';

COMMENT ON COLUMN public.webhooks.owner IS 'generated: all webhooks with the same value count for one limit';

COMMENT ON COLUMN public.webhooks.events IS 'the types of events that are posted';

COMMENT ON COLUMN public.webhooks.status IS 'on or off. off: nothing is posted';

COMMENT ON COLUMN public.webhooks.off_reason IS 'the reason why the server switched the webhook off: the receiver answered 410 (gone), or failed for five days (failing); null: not switched off by the server';

COMMENT ON COLUMN public.webhooks.rotated_at IS 'the time at which the webhook last got another secret; null: never';

COMMENT ON COLUMN public.webhooks.after_id IS 'the last id of feed that was posted, skipped, or stored in webhook_retries';

COMMENT ON COLUMN public.webhooks.failing_since IS 'the time of the first failed post since the last accepted post; null: the last post was accepted';

COMMENT ON COLUMN public.webhooks.failed_runs IS 'consecutive runs in which no post was accepted';

COMMENT ON COLUMN public.webhooks.rest_until IS 'the end of a pause: nothing is posted before this time; null: not paused';

COMMENT ON COLUMN public.webhooks.form IS 'format and signature of posts. standard: Standard Webhooks. smsgate: as in the app of SMSGate';

COMMENT ON COLUMN public.webhooks.external_id IS 'only for the form smsgate: the id that the program gave, or a generated id. It is unique for one user. null: another form';

ALTER TABLE public.webhooks ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.webhooks_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

ALTER TABLE ONLY public.batch_rows ATTACH PARTITION public.batch_rows_20000 FOR VALUES FROM ('20000') TO (MAXVALUE);

ALTER TABLE ONLY public.batch_rows ATTACH PARTITION public.batch_rows_default DEFAULT;

ALTER TABLE ONLY public.messages ATTACH PARTITION public.messages_default DEFAULT;

ALTER TABLE ONLY public.report_logs ATTACH PARTITION public.report_logs_default DEFAULT;

ALTER TABLE ONLY public.sender_ledger ATTACH PARTITION public.sender_ledger_2000000000 FOR VALUES FROM ('2000000000') TO (MAXVALUE);

ALTER TABLE ONLY public.sender_ledger ATTACH PARTITION public.sender_ledger_default DEFAULT;

ALTER TABLE ONLY public.alert_deliveries
    ADD CONSTRAINT alert_deliveries_pkey PRIMARY KEY (alert_id, receiver_id);

ALTER TABLE ONLY public.alert_receiver_states
    ADD CONSTRAINT alert_receiver_states_pkey PRIMARY KEY (receiver_id);

ALTER TABLE ONLY public.alert_receivers
    ADD CONSTRAINT alert_receivers_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.alert_rules
    ADD CONSTRAINT alert_rules_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.alerts
    ADD CONSTRAINT alerts_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.announcements
    ADD CONSTRAINT announcements_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.api_keys
    ADD CONSTRAINT api_keys_key_hash_key UNIQUE (key_hash);

ALTER TABLE ONLY public.api_keys
    ADD CONSTRAINT api_keys_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.audit
    ADD CONSTRAINT audit_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.batch_acts
    ADD CONSTRAINT batch_acts_pkey PRIMARY KEY (batch_id, id);

ALTER TABLE ONLY public.batch_counts
    ADD CONSTRAINT batch_counts_pkey PRIMARY KEY (batch_id, sender_no);

ALTER TABLE ONLY public.batch_rows
    ADD CONSTRAINT batch_rows_pkey PRIMARY KEY (batch_id, row_no);

ALTER TABLE ONLY public.batch_rows_20000
    ADD CONSTRAINT batch_rows_20000_pkey PRIMARY KEY (batch_id, row_no);

ALTER TABLE ONLY public.batch_rows_default
    ADD CONSTRAINT batch_rows_default_pkey PRIMARY KEY (batch_id, row_no);

ALTER TABLE ONLY public.batches
    ADD CONSTRAINT batches_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.block_requests
    ADD CONSTRAINT block_requests_pkey PRIMARY KEY (company_id, recipient_hash);

ALTER TABLE ONLY public.blocks
    ADD CONSTRAINT blocks_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.business_ends
    ADD CONSTRAINT business_ends_pkey PRIMARY KEY (company_id, subject, subject_id);

ALTER TABLE ONLY public.business_locks
    ADD CONSTRAINT business_locks_pkey PRIMARY KEY (slot);

ALTER TABLE ONLY public.callbacks
    ADD CONSTRAINT callbacks_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.capped_recipients
    ADD CONSTRAINT capped_recipients_pkey PRIMARY KEY (recipient_hash, company_id, message_type);

ALTER TABLE ONLY public.channel_countries
    ADD CONSTRAINT channel_countries_pkey PRIMARY KEY (channel_id, country_id);

ALTER TABLE ONLY public.channels
    ADD CONSTRAINT channels_channel_key UNIQUE (channel);

ALTER TABLE ONLY public.channels
    ADD CONSTRAINT channels_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.companies
    ADD CONSTRAINT companies_company_no_key UNIQUE (company_no);

ALTER TABLE ONLY public.companies
    ADD CONSTRAINT companies_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.company_countries
    ADD CONSTRAINT company_countries_pkey PRIMARY KEY (company_id, country_id);

ALTER TABLE ONLY public.company_notification_templates
    ADD CONSTRAINT company_notification_templates_key UNIQUE (company_id, biz_type, channel_id);

ALTER TABLE ONLY public.company_notification_templates
    ADD CONSTRAINT company_notification_templates_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.contact_counts
    ADD CONSTRAINT contact_counts_pkey PRIMARY KEY (company_id);

ALTER TABLE ONLY public.contact_import_errors
    ADD CONSTRAINT contact_import_errors_pkey PRIMARY KEY (import_id, row_no);

ALTER TABLE ONLY public.contact_imports
    ADD CONSTRAINT contact_imports_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.contacts
    ADD CONSTRAINT contacts_pkey PRIMARY KEY (company_id, user_id);

ALTER TABLE ONLY public.conversations
    ADD CONSTRAINT conversations_pkey PRIMARY KEY (company_id, phone_number, submitted_by);

ALTER TABLE ONLY public.countries
    ADD CONSTRAINT countries_country_no_key UNIQUE (country_no);

ALTER TABLE ONLY public.countries
    ADD CONSTRAINT countries_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.credentials_version
    ADD CONSTRAINT credentials_version_pkey PRIMARY KEY (is_only);

ALTER TABLE ONLY public.daily_totals
    ADD CONSTRAINT daily_totals_key UNIQUE (company_id, day, sender_no, message_type, country_no, is_test);

ALTER TABLE ONLY public.daily_totals
    ADD CONSTRAINT daily_totals_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.dedup_keys
    ADD CONSTRAINT dedup_keys_pkey PRIMARY KEY (company_id, submitted_by, dedup_key);

ALTER TABLE ONLY public.default_contents
    ADD CONSTRAINT default_contents_company_id_recipient_key UNIQUE (company_id, recipient);

ALTER TABLE ONLY public.default_contents
    ADD CONSTRAINT default_contents_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.deleted_tags
    ADD CONSTRAINT deleted_tags_pkey PRIMARY KEY (tag_id);

ALTER TABLE ONLY public.deliveries
    ADD CONSTRAINT deliveries_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.directory_version
    ADD CONSTRAINT directory_version_pkey PRIMARY KEY (is_only);

ALTER TABLE ONLY public.disk_spaces
    ADD CONSTRAINT disk_spaces_pkey PRIMARY KEY (host, folder);

ALTER TABLE ONLY public.erasures
    ADD CONSTRAINT erasures_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.events
    ADD CONSTRAINT events_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.fair_ranks
    ADD CONSTRAINT fair_ranks_pkey PRIMARY KEY (pool_id, priority, company_id);

ALTER TABLE ONLY public.feed_listeners
    ADD CONSTRAINT feed_listeners_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.feed
    ADD CONSTRAINT feed_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.feed_staged
    ADD CONSTRAINT feed_staged_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.feed_state
    ADD CONSTRAINT feed_state_pkey PRIMARY KEY (is_only);

ALTER TABLE ONLY public.fruitless_submissions
    ADD CONSTRAINT fruitless_submissions_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.idempotency_keys
    ADD CONSTRAINT idempotency_keys_pkey PRIMARY KEY (username, operation, key);

ALTER TABLE ONLY public.idempotency_secret
    ADD CONSTRAINT idempotency_secret_pkey PRIMARY KEY (is_only);

ALTER TABLE ONLY public.inbounds
    ADD CONSTRAINT inbounds_inbound_no_key UNIQUE (inbound_no);

ALTER TABLE ONLY public.inbounds
    ADD CONSTRAINT inbounds_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.messages
    ADD CONSTRAINT messages_pkey PRIMARY KEY (task_id);

ALTER TABLE ONLY public.messages_default
    ADD CONSTRAINT messages_default_pkey PRIMARY KEY (task_id);

ALTER TABLE ONLY public.notification_templates
    ADD CONSTRAINT notification_templates_biz_type_channel_id_key UNIQUE (biz_type, channel_id);

ALTER TABLE ONLY public.notification_templates
    ADD CONSTRAINT notification_templates_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.notifications
    ADD CONSTRAINT notifications_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.number_partitions
    ADD CONSTRAINT number_partitions_pkey PRIMARY KEY (parent, first_number);

ALTER TABLE ONLY public.phone_inboxes
    ADD CONSTRAINT phone_inboxes_device_no_key UNIQUE (device_no);

ALTER TABLE ONLY public.phone_inboxes
    ADD CONSTRAINT phone_inboxes_pkey PRIMARY KEY (sender_id);

ALTER TABLE ONLY public.phone_leases
    ADD CONSTRAINT phone_leases_pkey PRIMARY KEY (sender_id, lease_id);

ALTER TABLE ONLY public.phones
    ADD CONSTRAINT phones_code_hash_key UNIQUE (code_hash);

ALTER TABLE ONLY public.phones
    ADD CONSTRAINT phones_device_no_key UNIQUE (device_no);

ALTER TABLE ONLY public.phones
    ADD CONSTRAINT phones_pkey PRIMARY KEY (sender_id);

ALTER TABLE ONLY public.phones
    ADD CONSTRAINT phones_user_id_key UNIQUE (user_id);

ALTER TABLE ONLY public.pool_channels
    ADD CONSTRAINT pool_channels_pkey PRIMARY KEY (pool_id);

ALTER TABLE ONLY public.pools
    ADD CONSTRAINT pools_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.queue
    ADD CONSTRAINT queue_pkey PRIMARY KEY (task_id);

ALTER TABLE ONLY public.quiet_changes
    ADD CONSTRAINT quiet_changes_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.receipts
    ADD CONSTRAINT receipts_once_key UNIQUE (sender_no, provider_no, recipient, state, code);

ALTER TABLE ONLY public.receipts
    ADD CONSTRAINT receipts_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.received_messages
    ADD CONSTRAINT received_messages_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.received_part_identities
    ADD CONSTRAINT received_part_identities_pkey PRIMARY KEY (identity);

ALTER TABLE ONLY public.received_parts
    ADD CONSTRAINT received_parts_pkey PRIMARY KEY (sender_no, from_no, to_no, reference, total, nth);

ALTER TABLE ONLY public.reconciliation_differences
    ADD CONSTRAINT reconciliation_differences_pkey PRIMARY KEY (reconciliation_id, id);

ALTER TABLE ONLY public.reconciliation_rows
    ADD CONSTRAINT reconciliation_rows_pkey PRIMARY KEY (reconciliation_id, provider_no);

ALTER TABLE ONLY public.reconciliations
    ADD CONSTRAINT reconciliations_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.renderings
    ADD CONSTRAINT renderings_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.reply_actions
    ADD CONSTRAINT reply_actions_pkey PRIMARY KEY (received_id);

ALTER TABLE ONLY public.reply_rules
    ADD CONSTRAINT reply_rules_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.report_logs
    ADD CONSTRAINT report_logs_pkey PRIMARY KEY (task_id, id);

ALTER TABLE ONLY public.report_logs_default
    ADD CONSTRAINT report_logs_default_pkey PRIMARY KEY (task_id, id);

ALTER TABLE ONLY public.routes
    ADD CONSTRAINT routes_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.routes
    ADD CONSTRAINT routes_pool_id_sender_id_key UNIQUE (pool_id, sender_id);

ALTER TABLE ONLY public.sender_answers
    ADD CONSTRAINT sender_answers_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.sender_links
    ADD CONSTRAINT sender_links_pkey PRIMARY KEY (sender_id, nth);

ALTER TABLE ONLY public.sender_sims
    ADD CONSTRAINT sender_sims_pkey PRIMARY KEY (sender_id, slot);

ALTER TABLE ONLY public.sender_states
    ADD CONSTRAINT sender_states_pkey PRIMARY KEY (sender_id);

ALTER TABLE ONLY public.sender_tokens
    ADD CONSTRAINT sender_tokens_pkey PRIMARY KEY (sender_id);

ALTER TABLE ONLY public.senders
    ADD CONSTRAINT senders_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.senders
    ADD CONSTRAINT senders_sender_no_key UNIQUE (sender_no);

ALTER TABLE ONLY public.servers
    ADD CONSTRAINT servers_pkey PRIMARY KEY (server_id);

ALTER TABLE ONLY public.sessions
    ADD CONSTRAINT sessions_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.sessions
    ADD CONSTRAINT sessions_token_hash_key UNIQUE (token_hash);

ALTER TABLE ONLY public.settings
    ADD CONSTRAINT settings_pkey PRIMARY KEY (category, name);

ALTER TABLE ONLY public.sim_recipients
    ADD CONSTRAINT sim_recipients_pkey PRIMARY KEY (sender_id, recipient_hash, slot);

ALTER TABLE ONLY public.sim_usages
    ADD CONSTRAINT sim_usages_pkey PRIMARY KEY (sender_id, slot);

ALTER TABLE ONLY public.smpp_long_messages
    ADD CONSTRAINT smpp_long_messages_key UNIQUE (company_id, username, source, recipient, reference, total);

ALTER TABLE ONLY public.smpp_long_messages
    ADD CONSTRAINT smpp_long_messages_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.smpp_numbers
    ADD CONSTRAINT smpp_numbers_pkey PRIMARY KEY (number);

ALTER TABLE ONLY public.smpp_passwords
    ADD CONSTRAINT smpp_passwords_pkey PRIMARY KEY (user_id);

ALTER TABLE ONLY public.smpp_receivers
    ADD CONSTRAINT smpp_receivers_pkey PRIMARY KEY (company_id, username);

ALTER TABLE ONLY public.smsgate_messages
    ADD CONSTRAINT smsgate_messages_pkey PRIMARY KEY (company_id, submitted_by, message_id);

ALTER TABLE ONLY public.sql_inbox
    ADD CONSTRAINT sql_inbox_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.sql_roles
    ADD CONSTRAINT sql_roles_pkey PRIMARY KEY (role_name);

ALTER TABLE ONLY public.statistics
    ADD CONSTRAINT statistics_pkey PRIMARY KEY (step, company_id, dimension, at, key);

ALTER TABLE ONLY public.subscribe_messages
    ADD CONSTRAINT subscribe_messages_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.tag_contacts
    ADD CONSTRAINT tag_contacts_pkey PRIMARY KEY (tag_id, user_id);

ALTER TABLE ONLY public.tags
    ADD CONSTRAINT tags_company_id_tag_key UNIQUE (company_id, tag);

ALTER TABLE ONLY public.tags
    ADD CONSTRAINT tags_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.task_counts
    ADD CONSTRAINT task_counts_pkey PRIMARY KEY (company_id);

ALTER TABLE ONLY public.task_job_parts
    ADD CONSTRAINT task_job_parts_pkey PRIMARY KEY (job_id, part);

ALTER TABLE ONLY public.task_jobs
    ADD CONSTRAINT task_jobs_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.task_partitions
    ADD CONSTRAINT task_partitions_pkey PRIMARY KEY (first_day);

ALTER TABLE ONLY public.template_versions
    ADD CONSTRAINT template_versions_pkey PRIMARY KEY (template_id, version);

ALTER TABLE ONLY public.templates
    ADD CONSTRAINT templates_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.templates
    ADD CONSTRAINT templates_template_no_key UNIQUE (template_no);

ALTER TABLE ONLY public.upload_parts
    ADD CONSTRAINT upload_parts_pkey PRIMARY KEY (upload_id, part);

ALTER TABLE ONLY public.uploads
    ADD CONSTRAINT uploads_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.user_addresses
    ADD CONSTRAINT user_addresses_pkey PRIMARY KEY (network, username);

ALTER TABLE ONLY public.users
    ADD CONSTRAINT users_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.users
    ADD CONSTRAINT users_username_key UNIQUE (username);

ALTER TABLE ONLY public.verification_hours
    ADD CONSTRAINT verification_hours_pkey PRIMARY KEY (company_id, subject, hour);

ALTER TABLE ONLY public.verification_safe
    ADD CONSTRAINT verification_safe_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.verification_safe
    ADD CONSTRAINT verification_safe_subject_key UNIQUE NULLS NOT DISTINCT (subject, company_id);

ALTER TABLE ONLY public.verification_subjects
    ADD CONSTRAINT verification_subjects_pkey PRIMARY KEY (company_id, subject);

ALTER TABLE ONLY public.verifications
    ADD CONSTRAINT verifications_pkey PRIMARY KEY (verification_id);

ALTER TABLE ONLY public.webhook_deliveries
    ADD CONSTRAINT webhook_deliveries_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.webhook_retries
    ADD CONSTRAINT webhook_retries_pkey PRIMARY KEY (webhook_id, feed_id);

ALTER TABLE ONLY public.webhook_secrets
    ADD CONSTRAINT webhook_secrets_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.webhooks
    ADD CONSTRAINT webhooks_pkey PRIMARY KEY (id);

CREATE INDEX alerts_level_idx ON public.alerts USING btree (level, id);

CREATE UNIQUE INDEX alerts_open_key ON public.alerts USING btree (rule_id, subject) WHERE (resolved_at IS NULL);

CREATE INDEX alerts_resolved_idx ON public.alerts USING btree (resolved_at);

CREATE INDEX alerts_rule_idx ON public.alerts USING btree (rule_id, id);

CREATE INDEX announcements_user_ids_idx ON public.announcements USING gin (user_ids);

CREATE INDEX api_keys_user_id_idx ON public.api_keys USING btree (user_id);

CREATE INDEX audit_action_idx ON public.audit USING btree (action, at, id);

CREATE INDEX audit_actor_idx ON public.audit USING btree (actor, at, id);

CREATE INDEX audit_at_idx ON public.audit USING btree (at, id);

CREATE INDEX audit_entity_idx ON public.audit USING btree (entity, at, id);

CREATE INDEX audit_entity_key_idx ON public.audit USING btree (entity_key, at, id);

CREATE INDEX batch_rows_wrong_idx ON ONLY public.batch_rows USING btree (batch_id, row_no) WHERE (code IS NOT NULL);

CREATE INDEX batch_rows_20000_batch_id_row_no_idx ON public.batch_rows_20000 USING btree (batch_id, row_no) WHERE (code IS NOT NULL);

CREATE INDEX batch_rows_default_batch_id_row_no_idx ON public.batch_rows_default USING btree (batch_id, row_no) WHERE (code IS NOT NULL);

CREATE INDEX batches_company_idx ON public.batches USING btree (company_id, id);

CREATE INDEX batches_rendering_idx ON public.batches USING btree (rendering_id) WHERE (rendering_id IS NOT NULL);

CREATE INDEX batches_unsettled_idx ON public.batches USING btree (id) WHERE (NOT is_settled);

CREATE INDEX block_requests_received_idx ON public.block_requests USING btree (received_id);

CREATE UNIQUE INDEX blocks_asked_key ON public.blocks USING btree (recipient_hash, scope, COALESCE(company_id, (0)::bigint), ((asked_at IS NULL)));

CREATE INDEX blocks_company_idx ON public.blocks USING btree (company_id, id);

CREATE INDEX blocks_expires_at_idx ON public.blocks USING btree (expires_at) WHERE (expires_at IS NOT NULL);

CREATE INDEX blocks_unenforced_idx ON public.blocks USING btree (id) WHERE (NOT is_enforced);

CREATE INDEX business_ends_recorded_at_idx ON public.business_ends USING btree (recorded_at);

CREATE UNIQUE INDEX callbacks_once_idx ON public.callbacks USING btree (sender_no, body_hash) WHERE (body_hash IS NOT NULL);

CREATE INDEX callbacks_received_idx ON public.callbacks USING gin (received_ids) WHERE (received_ids IS NOT NULL);

CREATE INDEX callbacks_sender_idx ON public.callbacks USING btree (sender_no, id);

CREATE INDEX callbacks_take_idx ON public.callbacks USING btree (take_at, id) WHERE (take_at IS NOT NULL);

CREATE INDEX callbacks_unreadable_idx ON public.callbacks USING btree (sender_no, id) WHERE ((refused IS NOT NULL) OR (left_out > 0));

CREATE INDEX capped_recipients_last_on_idx ON public.capped_recipients USING btree (last_on);

CREATE INDEX companies_switched_idx ON public.companies USING btree (id) WHERE ((status = 'off'::text) OR (NOT uses_shared_senders) OR (NOT any_country));

CREATE INDEX company_notification_templates_channel_idx ON public.company_notification_templates USING btree (channel_id);

CREATE INDEX contact_imports_company_idx ON public.contact_imports USING btree (company_id, id);

CREATE INDEX contact_imports_running_idx ON public.contact_imports USING btree (id) WHERE (status = 'running'::text);

CREATE INDEX contacts_dingtalk_name_folded_idx ON public.contacts USING btree (company_id, public.fold_case(dingtalk_name) COLLATE "C", user_id) WHERE (dingtalk_name IS NOT NULL);

CREATE INDEX contacts_email_folded_idx ON public.contacts USING btree (company_id, public.fold_case(email) COLLATE "C", user_id) WHERE (email IS NOT NULL);

CREATE INDEX contacts_phone_idx ON public.contacts USING btree (company_id, phone COLLATE "C", user_id) WHERE (phone IS NOT NULL);

CREATE INDEX contacts_user_id_folded_idx ON public.contacts USING btree (company_id, lower((user_id COLLATE "C")), user_id) WHERE (lower((user_id COLLATE "C")) IS NOT NULL);

CREATE INDEX conversations_company_idx ON public.conversations USING btree (company_id, submitted_by, last_id);

CREATE INDEX conversations_last_idx ON public.conversations USING btree (submitted_by, last_id);

CREATE INDEX conversations_unread_company_idx ON public.conversations USING btree (company_id, submitted_by, last_id) WHERE (unread > 0);

CREATE INDEX conversations_unread_idx ON public.conversations USING btree (submitted_by, last_id) WHERE (unread > 0);

CREATE UNIQUE INDEX countries_dial_prefix_region_key ON public.countries USING btree (dial_prefix, COALESCE(region, ''::text));

CREATE INDEX countries_off_idx ON public.countries USING btree (country_no) WHERE (status = 'off'::text);

CREATE INDEX daily_totals_day_idx ON public.daily_totals USING btree (day, id);

CREATE INDEX dedup_keys_made_on_idx ON public.dedup_keys USING btree (made_on);

CREATE INDEX deliveries_created_at_idx ON public.deliveries USING brin (created_at) WITH (pages_per_range='32', autosummarize='true');

CREATE INDEX deliveries_provider_no_idx ON public.deliveries USING btree (sender_no, provider_no) WHERE (provider_no IS NOT NULL);

CREATE INDEX deliveries_task_idx ON public.deliveries USING btree (task_id);

CREATE INDEX erasures_company_idx ON public.erasures USING btree (company_id, id);

CREATE INDEX erasures_running_idx ON public.erasures USING btree (next_at) WHERE (status = 'running'::text);

CREATE INDEX feed_at_idx ON public.feed USING btree (at, id);

CREATE INDEX feed_company_idx ON public.feed USING btree (company_id, id);

CREATE UNIQUE INDEX feed_listeners_company_idx ON public.feed_listeners USING btree (COALESCE(company_id, (0)::bigint));

CREATE INDEX feed_staged_notification_idx ON public.feed_staged USING btree (((data ->> 'notification_id'::text))) WHERE (type = 'notification.finished'::text);

CREATE INDEX feed_staged_task_idx ON public.feed_staged USING btree (task_id) WHERE (task_id IS NOT NULL);

CREATE INDEX feed_submitter_idx ON public.feed USING btree (company_id, submitted_by, id);

CREATE INDEX fruitless_submissions_digits_idx ON public.fruitless_submissions USING btree (company_id, "right"(public.number_digits(phone_number), 8)) WHERE ((company_id IS NOT NULL) AND (phone_number IS NOT NULL));

CREATE INDEX fruitless_submissions_task_id_idx ON public.fruitless_submissions USING btree (task_id) WHERE (task_id IS NOT NULL);

CREATE INDEX idempotency_keys_created_at_idx ON public.idempotency_keys USING btree (created_at);

CREATE INDEX inbounds_company_idx ON public.inbounds USING btree (company_id, id);

CREATE INDEX messages_batch_idx ON ONLY public.messages USING btree (batch_id, task_id) WHERE (batch_id IS NOT NULL);

CREATE INDEX messages_default_batch_id_task_id_idx ON public.messages_default USING btree (batch_id, task_id) WHERE (batch_id IS NOT NULL);

CREATE INDEX messages_submitted_by_idx ON ONLY public.messages USING btree (company_id, submitted_by, task_id);

CREATE INDEX messages_default_company_id_submitted_by_task_id_idx ON public.messages_default USING btree (company_id, submitted_by, task_id);

CREATE INDEX messages_user_idx ON ONLY public.messages USING btree (company_id, user_id, task_id) WHERE (user_id IS NOT NULL);

CREATE INDEX messages_default_company_id_user_id_task_id_idx ON public.messages_default USING btree (company_id, user_id, task_id) WHERE (user_id IS NOT NULL);

CREATE INDEX messages_recipient_idx ON ONLY public.messages USING btree (recipient, task_id);

CREATE INDEX messages_default_recipient_task_id_idx ON public.messages_default USING btree (recipient, task_id);

CREATE INDEX messages_rendering_idx ON ONLY public.messages USING btree (rendering_id) WHERE (rendering_id IS NOT NULL);

CREATE INDEX messages_default_rendering_id_idx ON public.messages_default USING btree (rendering_id) WHERE (rendering_id IS NOT NULL);

CREATE INDEX notifications_announcement_idx ON public.notifications USING btree (announcement_id);

CREATE INDEX notifications_biz_idx ON public.notifications USING btree (company_id, biz_type, biz_id);

CREATE INDEX notifications_biz_task_idx ON public.notifications USING btree (company_id, biz_task_id) WHERE (biz_task_id IS NOT NULL);

CREATE UNIQUE INDEX notifications_company_dedup_key_idx ON public.notifications USING btree (company_id, channel_id, dedup_key, public.dedup_key_owner(biz_task_id, submitted_by)) WHERE ((dedup_key IS NOT NULL) AND (deleted_at IS NULL) AND (replaced_at IS NULL) AND is_companys);

CREATE INDEX notifications_company_due_idx ON public.notifications USING btree (company_id, next_run_at) WHERE (next_run_at IS NOT NULL);

CREATE INDEX notifications_due_idx ON public.notifications USING btree (next_run_at) WHERE (next_run_at IS NOT NULL);

CREATE INDEX notifications_kept_idx ON public.notifications USING btree (created_at) WHERE (forgotten_at IS NULL);

CREATE UNIQUE INDEX notifications_submitter_dedup_key_idx ON public.notifications USING btree (company_id, channel_id, dedup_key, (
CASE
    WHEN (biz_task_id IS NULL) THEN submitted_by
    ELSE ''::text
END)) WHERE ((dedup_key IS NOT NULL) AND (deleted_at IS NULL) AND (replaced_at IS NULL));

CREATE UNIQUE INDEX pools_key_idx ON public.pools USING btree (channel_id, COALESCE(company_id, (0)::bigint), COALESCE((message_type)::integer, '-1'::integer), COALESCE(country_id, (0)::bigint), COALESCE(sender_id, (0)::bigint)) WHERE (retired_at IS NULL);

CREATE INDEX queue_batch_idx ON public.queue USING btree (batch_id, task_id) WHERE ((batch_id IS NOT NULL) AND (lease_until IS NULL));

CREATE INDEX queue_expiry_idx ON public.queue USING btree (expires_at) WHERE ((lease_until IS NULL) AND (expires_at IS NOT NULL));

CREATE INDEX queue_flow_ranks_idx ON public.queue USING btree (pool_id, lane, company_id, flow_rank, task_id) WHERE ((lease_until IS NULL) AND (lane IS NOT NULL) AND (flow_rank IS NOT NULL));

CREATE INDEX queue_flows_idx ON public.queue USING btree (pool_id, lane, company_id, public.task_flow(batch_id, submitted_by), flow_rank) WHERE ((lease_until IS NULL) AND (lane IS NOT NULL) AND (flow_rank IS NOT NULL));

CREATE INDEX queue_lease_idx ON public.queue USING btree (lease_until) WHERE (lease_until IS NOT NULL);

CREATE INDEX queue_order_idx ON public.queue USING btree (pool_id, lane, rank) WHERE ((lease_until IS NULL) AND (lane IS NOT NULL));

CREATE INDEX queue_quiet_idx ON public.queue USING btree (quiet_from, task_id) WHERE ((lease_until IS NULL) AND (quiet_from IS NOT NULL) AND (due_at < public.held_due_at()));

CREATE INDEX queue_rendering_idx ON public.queue USING btree (rendering_id) WHERE (rendering_id IS NOT NULL);

CREATE INDEX queue_retry_idx ON public.queue USING btree (due_at) WHERE ((lease_until IS NULL) AND (((lane)::integer % 32) > 0));

CREATE INDEX queue_top_idx ON public.queue USING btree (due_at) WHERE ((lease_until IS NULL) AND (lane < 32));

CREATE INDEX queue_unqueued_idx ON public.queue USING btree (pool_id, due_at, priority) WHERE ((lease_until IS NULL) AND (lane IS NULL));

CREATE INDEX queue_waits_idx ON public.queue USING btree (due_at, lane) WHERE ((lease_until IS NULL) AND (lane >= 32));

CREATE INDEX receipts_look_at_idx ON public.receipts USING btree (look_at) WHERE (look_at IS NOT NULL);

CREATE INDEX receipts_other_nos_idx ON public.receipts USING gin (other_nos) WHERE (matched_at IS NULL);

CREATE INDEX receipts_sender_idx ON public.receipts USING btree (sender_no, id);

CREATE INDEX receipts_unmatched_idx ON public.receipts USING btree (sender_no, id) WHERE (matched_at IS NULL);

CREATE INDEX received_messages_company_idx ON public.received_messages USING btree (company_id, id);

CREATE INDEX received_messages_conversation_idx ON public.received_messages USING btree (company_id, phone_number, id);

CREATE INDEX received_messages_digits_idx ON public.received_messages USING btree (company_id, "right"(public.number_digits(phone_number), 8), id);

CREATE UNIQUE INDEX received_messages_identity_key ON public.received_messages USING btree (identity) WHERE (identity IS NOT NULL);

CREATE UNIQUE INDEX received_messages_message_identity_key ON public.received_messages USING btree (message_identity) WHERE (message_identity IS NOT NULL);

CREATE INDEX received_messages_own_number_idx ON public.received_messages USING btree ("right"(public.number_digits(own_number), 8)) WHERE (own_number IS NOT NULL);

CREATE INDEX received_messages_phone_number_idx ON public.received_messages USING btree (phone_number, id);

CREATE INDEX received_messages_sender_idx ON public.received_messages USING btree (sender_no, id);

CREATE INDEX received_messages_unread_company_idx ON public.received_messages USING btree (company_id, id) WHERE (read_at IS NULL);

CREATE INDEX received_messages_unread_conversation_idx ON public.received_messages USING btree (company_id, phone_number, id) WHERE (read_at IS NULL);

CREATE INDEX received_messages_unread_idx ON public.received_messages USING btree (id) WHERE (read_at IS NULL);

CREATE INDEX received_part_identities_created_at_idx ON public.received_part_identities USING btree (created_at);

CREATE INDEX received_parts_created_at_idx ON public.received_parts USING btree (created_at);

CREATE INDEX reconciliation_differences_kind_idx ON public.reconciliation_differences USING btree (reconciliation_id, kind, id);

CREATE INDEX reconciliations_day_idx ON public.reconciliations USING btree (sender_no, day, id) WHERE (status = 'finished'::text);

CREATE INDEX reconciliations_finished_at_idx ON public.reconciliations USING btree (finished_at);

CREATE INDEX reconciliations_running_idx ON public.reconciliations USING btree (id) WHERE (status = 'running'::text);

CREATE INDEX renderings_created_at_idx ON public.renderings USING brin (created_at);

CREATE INDEX renderings_notification_idx ON public.renderings USING btree (notification_id) WHERE (notification_id IS NOT NULL);

CREATE INDEX reply_actions_counted_idx ON public.reply_actions USING btree (company_id, phone_number, created_at) WHERE (outcome = ANY (ARRAY['done'::text, 'partly'::text]));

CREATE INDEX reply_actions_refused_idx ON public.reply_actions USING btree (company_id) WHERE (refused IS NOT NULL);

CREATE INDEX reply_actions_waiting_idx ON public.reply_actions USING btree (company_id, received_id) WHERE (outcome IS NULL);

CREATE INDEX reply_rules_company_idx ON public.reply_rules USING btree (company_id, sort, id);

CREATE INDEX report_logs_app_id_idx ON ONLY public.report_logs USING btree (app_id, task_id) WHERE ((outcome IS NOT NULL) AND (app_id IS NOT NULL));

CREATE INDEX report_logs_company_failed_idx ON ONLY public.report_logs USING btree (company_id, outcome, task_id) WHERE (outcome = ANY (ARRAY[3, 4]));

CREATE INDEX report_logs_default_app_id_task_id_idx ON public.report_logs_default USING btree (app_id, task_id) WHERE ((outcome IS NOT NULL) AND (app_id IS NOT NULL));

CREATE INDEX report_logs_default_company_id_outcome_task_id_idx ON public.report_logs_default USING btree (company_id, outcome, task_id) WHERE (outcome = ANY (ARRAY[3, 4]));

CREATE UNIQUE INDEX report_logs_receipt_key ON ONLY public.report_logs USING btree (effect, task_id) WHERE (event = 'receipt'::text);

CREATE UNIQUE INDEX report_logs_default_effect_task_id_idx ON public.report_logs_default USING btree (effect, task_id) WHERE (event = 'receipt'::text);

CREATE INDEX report_logs_failed_idx ON ONLY public.report_logs USING btree (outcome, task_id) WHERE (outcome = ANY (ARRAY[3, 4]));

CREATE INDEX report_logs_default_outcome_task_id_idx ON public.report_logs_default USING btree (outcome, task_id) WHERE (outcome = ANY (ARRAY[3, 4]));

CREATE UNIQUE INDEX report_logs_outcome_key ON ONLY public.report_logs USING btree (task_id) WHERE (outcome IS NOT NULL);

CREATE UNIQUE INDEX report_logs_default_task_id_idx ON public.report_logs_default USING btree (task_id) WHERE (outcome IS NOT NULL);

CREATE INDEX routes_sender_id_idx ON public.routes USING btree (sender_id, id);

CREATE INDEX sender_answers_sender_idx ON public.sender_answers USING btree (sender_id, id);

CREATE UNIQUE INDEX sender_ledger_lease_key ON ONLY public.sender_ledger USING btree (lease_id, ((change > 0))) WHERE (lease_id IS NOT NULL);

CREATE UNIQUE INDEX sender_ledger_2000000000_lease_id_expr_idx ON public.sender_ledger_2000000000 USING btree (lease_id, ((change > 0))) WHERE (lease_id IS NOT NULL);

CREATE INDEX sender_ledger_sender_id_idx ON ONLY public.sender_ledger USING btree (sender_id, id);

CREATE INDEX sender_ledger_2000000000_sender_id_id_idx ON public.sender_ledger_2000000000 USING btree (sender_id, id);

CREATE UNIQUE INDEX sender_ledger_default_lease_id_expr_idx ON public.sender_ledger_default USING btree (lease_id, ((change > 0))) WHERE (lease_id IS NOT NULL);

CREATE INDEX sender_ledger_default_sender_id_id_idx ON public.sender_ledger_default USING btree (sender_id, id);

CREATE INDEX sender_states_open_idx ON public.sender_states USING btree (sender_id) WHERE (openings > 0);

CREATE INDEX senders_shared_driven_idx ON public.senders USING btree (channel_id) WHERE (is_shared AND (status = 'on'::text) AND (kind <> 'app'::text));

CREATE INDEX senders_shared_sort_idx ON public.senders USING btree (channel_id, sort) WHERE (is_shared AND (status = 'on'::text));

CREATE INDEX sessions_username_idx ON public.sessions USING btree (username, id);

CREATE INDEX sim_recipients_last_at_idx ON public.sim_recipients USING btree (last_at);

CREATE INDEX sim_recipients_recipient_hash_idx ON public.sim_recipients USING btree (recipient_hash);

CREATE INDEX smpp_long_messages_created_at_idx ON public.smpp_long_messages USING btree (created_at);

CREATE INDEX smpp_numbers_created_at_idx ON public.smpp_numbers USING btree (created_at);

CREATE INDEX smsgate_messages_created_idx ON public.smsgate_messages USING btree (created_at);

CREATE INDEX smsgate_messages_list_idx ON public.smsgate_messages USING btree (company_id, submitted_by, created_at, message_id) INCLUDE (sender_no);

CREATE INDEX sql_inbox_company_idx ON public.sql_inbox USING btree (company_id, id);

CREATE UNIQUE INDEX sql_inbox_dedup_key_idx ON public.sql_inbox USING btree (company_id, submitted_by, dedup_key) WHERE ((dedup_key IS NOT NULL) AND (NOT is_repeat));

CREATE INDEX sql_roles_user_id_idx ON public.sql_roles USING btree (user_id);

CREATE INDEX statistics_key_idx ON public.statistics USING btree (step, company_id, dimension, key, at);

CREATE INDEX statistics_short_idx ON public.statistics USING btree (step, at) WHERE (step <> 'day'::text);

CREATE INDEX statistics_staged_at_idx ON public.statistics_staged USING btree (at);

CREATE UNIQUE INDEX subscribe_messages_company_idx ON public.subscribe_messages USING btree (company_id, business_type, business_id, template_type, receiver_user_id) WHERE is_companys;

CREATE UNIQUE INDEX subscribe_messages_once_idx ON public.subscribe_messages USING btree (company_id, business_type, business_id, template_type, receiver_user_id, submitted_by);

CREATE INDEX subscribe_messages_receiver_idx ON public.subscribe_messages USING btree (company_id, receiver_user_id, id);

CREATE INDEX subscribe_messages_task_idx ON public.subscribe_messages USING btree (task_id);

CREATE INDEX tag_contacts_contact_idx ON public.tag_contacts USING btree (company_id, user_id);

CREATE INDEX task_jobs_running_idx ON public.task_jobs USING btree (id) WHERE (status = 'running'::text);

CREATE INDEX uploads_company_id_idx ON public.uploads USING btree (company_id);

CREATE INDEX uploads_unused_idx ON public.uploads USING btree (created_at) WHERE (used_by IS NULL);

CREATE INDEX user_addresses_username_idx ON public.user_addresses USING btree (username);

CREATE INDEX users_disabled_idx ON public.users USING btree (username) WHERE is_disabled;

CREATE INDEX verification_hours_hour_idx ON public.verification_hours USING btree (hour);

CREATE INDEX verification_subjects_derived_at_idx ON public.verification_subjects USING btree (derived_at);

CREATE INDEX verification_subjects_suspected_idx ON public.verification_subjects USING btree (started) WHERE (NOT is_proven);

CREATE INDEX verifications_created_at_idx ON public.verifications USING btree (created_at);

CREATE INDEX verifications_expires_at_idx ON public.verifications USING btree (expires_at) WHERE (status = 'pending'::text);

CREATE UNIQUE INDEX verifications_pending_key ON public.verifications USING btree (company_id, channel, recipient, purpose) WHERE (status = 'pending'::text);

CREATE INDEX verifications_recipient_idx ON public.verifications USING btree (company_id, recipient, created_at);

CREATE INDEX webhook_deliveries_task_idx ON public.webhook_deliveries USING btree (task_id) WHERE (task_id IS NOT NULL);

CREATE INDEX webhook_deliveries_webhook_idx ON public.webhook_deliveries USING btree (webhook_id, id);

CREATE INDEX webhook_retries_due_idx ON public.webhook_retries USING btree (webhook_id, due_at);

CREATE INDEX webhook_retries_feed_idx ON public.webhook_retries USING btree (feed_id);

CREATE INDEX webhook_retries_task_idx ON public.webhook_retries USING btree (webhook_id, task_id, feed_id) WHERE (task_id IS NOT NULL);

CREATE UNIQUE INDEX webhook_secrets_current_idx ON public.webhook_secrets USING btree (webhook_id) WHERE (valid_until IS NULL);

CREATE INDEX webhook_secrets_webhook_idx ON public.webhook_secrets USING btree (webhook_id, id);

CREATE INDEX webhooks_company_id_idx ON public.webhooks USING btree (company_id);

CREATE UNIQUE INDEX webhooks_external_id_key ON public.webhooks USING btree (user_id, external_id) WHERE (external_id IS NOT NULL);

CREATE INDEX webhooks_owner_idx ON public.webhooks USING btree (owner, id);

CREATE INDEX webhooks_user_id_idx ON public.webhooks USING btree (user_id);

ALTER INDEX public.batch_rows_wrong_idx ATTACH PARTITION public.batch_rows_20000_batch_id_row_no_idx;

ALTER INDEX public.batch_rows_pkey ATTACH PARTITION public.batch_rows_20000_pkey;

ALTER INDEX public.batch_rows_wrong_idx ATTACH PARTITION public.batch_rows_default_batch_id_row_no_idx;

ALTER INDEX public.batch_rows_pkey ATTACH PARTITION public.batch_rows_default_pkey;

ALTER INDEX public.messages_batch_idx ATTACH PARTITION public.messages_default_batch_id_task_id_idx;

ALTER INDEX public.messages_submitted_by_idx ATTACH PARTITION public.messages_default_company_id_submitted_by_task_id_idx;

ALTER INDEX public.messages_user_idx ATTACH PARTITION public.messages_default_company_id_user_id_task_id_idx;

ALTER INDEX public.messages_pkey ATTACH PARTITION public.messages_default_pkey;

ALTER INDEX public.messages_recipient_idx ATTACH PARTITION public.messages_default_recipient_task_id_idx;

ALTER INDEX public.messages_rendering_idx ATTACH PARTITION public.messages_default_rendering_id_idx;

ALTER INDEX public.report_logs_app_id_idx ATTACH PARTITION public.report_logs_default_app_id_task_id_idx;

ALTER INDEX public.report_logs_company_failed_idx ATTACH PARTITION public.report_logs_default_company_id_outcome_task_id_idx;

ALTER INDEX public.report_logs_receipt_key ATTACH PARTITION public.report_logs_default_effect_task_id_idx;

ALTER INDEX public.report_logs_failed_idx ATTACH PARTITION public.report_logs_default_outcome_task_id_idx;

ALTER INDEX public.report_logs_pkey ATTACH PARTITION public.report_logs_default_pkey;

ALTER INDEX public.report_logs_outcome_key ATTACH PARTITION public.report_logs_default_task_id_idx;

ALTER INDEX public.sender_ledger_lease_key ATTACH PARTITION public.sender_ledger_2000000000_lease_id_expr_idx;

ALTER INDEX public.sender_ledger_sender_id_idx ATTACH PARTITION public.sender_ledger_2000000000_sender_id_id_idx;

ALTER INDEX public.sender_ledger_lease_key ATTACH PARTITION public.sender_ledger_default_lease_id_expr_idx;

ALTER INDEX public.sender_ledger_sender_id_idx ATTACH PARTITION public.sender_ledger_default_sender_id_id_idx;

CREATE TRIGGER outgoing_insert INSTEAD OF INSERT ON lksms.outgoing FOR EACH ROW EXECUTE FUNCTION public.sql_inbox_outgoing();

CREATE TRIGGER alert_receivers_rows_bound AFTER INSERT ON public.alert_receivers REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION public.rows_bound('100');

CREATE TRIGGER alert_rules_rows_bound AFTER INSERT ON public.alert_rules REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION public.rows_bound('1000');

CREATE TRIGGER api_keys_rows_bound AFTER INSERT ON public.api_keys REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION public.rows_bound('1000', 'user_id');

CREATE TRIGGER audited AFTER INSERT OR DELETE OR UPDATE ON public.alert_receivers FOR EACH ROW EXECUTE FUNCTION public.audit_change('alert_receiver', 'id', '', 'sealed_authorization');

CREATE TRIGGER audited AFTER INSERT OR DELETE OR UPDATE ON public.alert_rules FOR EACH ROW EXECUTE FUNCTION public.audit_change('alert_rule', 'id');

CREATE TRIGGER audited AFTER UPDATE OF acknowledged_at ON public.alerts FOR EACH ROW EXECUTE FUNCTION public.audit_change('alert', 'id', 'rule_id,kind,level,subject,company_no,channel,sender_no,value,threshold,started_at,seen_at,fired_at,cleared_at,resolved_at,ended_by,acknowledged_at,only_own_channel');

CREATE TRIGGER audited AFTER INSERT OR DELETE OR UPDATE OF user_id, key_hash, name ON public.api_keys FOR EACH ROW EXECUTE FUNCTION public.audit_change('api_key', 'username,id', '', 'key_hash');

CREATE TRIGGER audited AFTER UPDATE OF status ON public.batches FOR EACH ROW WHEN ((current_setting('lksms.actor'::text, true) <> ''::text)) EXECUTE FUNCTION public.audit_change('batch', 'id', 'is_held,is_settled,is_read,last_row,rows,valid,invalid,duplicate,blocked,segments,fed_row,fed,fault,upload_id,confirmed_at,started_at,ended_at,changed_by');

CREATE TRIGGER audited AFTER INSERT OR DELETE OR UPDATE OF reason, expires_at ON public.blocks FOR EACH ROW WHEN ((COALESCE(current_setting('lksms.block_import'::text, true), ''::text) = ''::text)) EXECUTE FUNCTION public.audit_change('block', 'id', 'recipient_hash,is_enforced,is_confirmed');

CREATE TRIGGER audited AFTER INSERT OR DELETE OR UPDATE ON public.channels FOR EACH ROW EXECUTE FUNCTION public.audit_change('channel', 'channel');

CREATE TRIGGER audited AFTER INSERT OR DELETE OR UPDATE ON public.companies FOR EACH ROW EXECUTE FUNCTION public.audit_change('company', 'company_no');

CREATE TRIGGER audited AFTER INSERT OR DELETE OR UPDATE ON public.company_notification_templates FOR EACH ROW EXECUTE FUNCTION public.audit_change('notification_template', 'company_no,biz_type,channel');

CREATE TRIGGER audited AFTER INSERT ON public.contact_imports FOR EACH ROW EXECUTE FUNCTION public.audit_change('contact_import', 'id', 'upload_id,sheet,status,row_no,rows,added,changed,invalid,failure,created_by,finished_at');

CREATE TRIGGER audited AFTER INSERT OR DELETE OR UPDATE OF user_id, name, phone, dingtalk_name, wechat_openid, email, attributes ON public.contacts FOR EACH ROW WHEN ((COALESCE(current_setting('lksms.contact_import'::text, true), ''::text) = ''::text)) EXECUTE FUNCTION public.audit_change('contact', 'user_id', '', 'name,dingtalk_name,wechat_openid,email,attributes.*');

CREATE TRIGGER audited AFTER INSERT OR DELETE OR UPDATE ON public.countries FOR EACH ROW EXECUTE FUNCTION public.audit_change('country', 'country_no');

CREATE TRIGGER audited AFTER INSERT OR DELETE OR UPDATE OF company_id, phone_number, recipient, content, use_template ON public.default_contents FOR EACH ROW EXECUTE FUNCTION public.audit_change('default_content', 'id');

CREATE TRIGGER audited AFTER INSERT ON public.erasures FOR EACH ROW EXECUTE FUNCTION public.audit_change('erasure', 'id', 'user_ids,recipients,asked_recipients,status,held,counts,exports,created_by,next_at,finished_at');

CREATE TRIGGER audited AFTER INSERT OR DELETE OR UPDATE ON public.inbounds FOR EACH ROW EXECUTE FUNCTION public.audit_change('inbound', 'inbound_no', '', 'phone_numbers');

CREATE TRIGGER audited AFTER INSERT OR DELETE OR UPDATE ON public.notification_templates FOR EACH ROW EXECUTE FUNCTION public.audit_change('notification_template', 'biz_type,channel');

CREATE TRIGGER audited AFTER UPDATE OF ended_as, next_run_at, deleted_at ON public.notifications FOR EACH ROW WHEN (((current_setting('lksms.actor'::text, true) <> ''::text) AND (current_setting('lksms.actor'::text, true) <> new.submitted_by))) EXECUTE FUNCTION public.audit_change('notification', 'id', 'announcement_id,own_payload,run_rendering_id,run_after,remark,changed_by');

CREATE TRIGGER audited AFTER INSERT OR DELETE OR UPDATE OF code_hash, code_sim_number, sim_number, device_no, user_id ON public.phones FOR EACH ROW EXECUTE FUNCTION public.audit_change('phone', 'sender_no', 'claimed_at,troubles,rest_until,pull_until', 'code_hash');

CREATE TRIGGER audited AFTER INSERT ON public.reconciliations FOR EACH ROW EXECUTE FUNCTION public.audit_change('reconciliation', 'id', 'from_at,to_at,upload_id,sheet,number_column,status_column,segments_column,delivered_values,pending_values,status,phase,row_no,after_no,after_at,after_id,rows,matched,missing_here,missing_there,status_differs,segments_differ,repeated,unreadable,near_midnight,failure,created_by,finished_at');

CREATE TRIGGER audited AFTER INSERT OR DELETE OR UPDATE ON public.reply_rules FOR EACH ROW EXECUTE FUNCTION public.audit_change('reply_rule', 'id', '', 'phone_numbers');

CREATE TRIGGER audited AFTER INSERT OR UPDATE OF pool_id, sender_id, weight, sort, status ON public.routes FOR EACH ROW WHEN ((NOT public.pool_has_sender(new.pool_id))) EXECUTE FUNCTION public.audit_change('route', 'id', 'served,last_turn,next_turn');

CREATE TRIGGER audited AFTER INSERT OR DELETE OR UPDATE ON public.sender_sims FOR EACH ROW EXECUTE FUNCTION public.audit_change('sender_sim', 'sender_no,slot');

CREATE TRIGGER audited AFTER UPDATE OF granted ON public.sender_states FOR EACH ROW WHEN ((old.granted <> new.granted)) EXECUTE FUNCTION public.audit_change('sender_balance', 'sender_no', 'granted');

CREATE TRIGGER audited AFTER INSERT OR DELETE OR UPDATE ON public.senders FOR EACH ROW EXECUTE FUNCTION public.audit_change('sender', 'sender_no', 'is_paced,has_sims', 'config.*', 'agentId,corpId,appId,miniprogramState,lang,host,port,tls,username,from,replyTo,method,format,answer,callback,atOnce,timeoutSeconds,showContent,hosts,system_id,system_type,bind,binds,window,per_second,enquire_link_seconds,active_test_seconds,response_seconds,source_addr,source_ton,source_npi,dest_ton,dest_npi,data_coding,long_messages,registered_delivery,service_type,statuses,message_ids,version,allow_unproven,service_id,src_id,extensions,country_code,msg_fmt,fee_user_type,fee_type,fee_code');

CREATE TRIGGER audited AFTER DELETE OR UPDATE ON public.settings FOR EACH ROW WHEN ((NOT ((old.category = 'sms'::text) AND (old.name ~ '^(content|segments)_most_'::text)))) EXECUTE FUNCTION public.audit_change('setting', 'category,name', 'updated_by');

CREATE TRIGGER audited AFTER INSERT OR DELETE OR UPDATE ON public.smpp_passwords FOR EACH ROW EXECUTE FUNCTION public.audit_change('smpp_password', 'username', '', 'password_hash');

CREATE TRIGGER audited AFTER INSERT OR DELETE OR UPDATE ON public.sql_roles FOR EACH ROW EXECUTE FUNCTION public.audit_change('sql_role', 'role_name');

CREATE TRIGGER audited AFTER INSERT OR DELETE OR UPDATE OF company_id, tag ON public.tags FOR EACH ROW EXECUTE FUNCTION public.audit_change('tag', 'tag', 'contacts');

CREATE TRIGGER audited AFTER INSERT OR UPDATE OF stopped_by ON public.task_jobs FOR EACH ROW EXECUTE FUNCTION public.audit_change('task_job', 'id', 'done,skipped,skipped_by,failed,status,finished_at,created_by', 'filter.*', 'status,phone_number,source,message_type,sender_no,delivery,company_no,result,created_from,created_to,batch_id,test,country_no,template_no,submitted_by,provider_no');

CREATE TRIGGER audited AFTER INSERT OR UPDATE ON public.task_partitions FOR EACH ROW WHEN ((current_setting('lksms.actor'::text, true) <> ''::text)) EXECUTE FUNCTION public.audit_change('partition', 'first_day', 'first_id,before_id');

CREATE TRIGGER audited AFTER INSERT OR DELETE OR UPDATE ON public.templates FOR EACH ROW EXECUTE FUNCTION public.audit_change('template', 'id', 'is_active,given_no');

CREATE TRIGGER audited AFTER INSERT OR DELETE OR UPDATE ON public.users FOR EACH ROW EXECUTE FUNCTION public.audit_change('user', 'username', '', 'password_hash');

CREATE TRIGGER audited AFTER INSERT OR DELETE OR UPDATE ON public.verification_safe FOR EACH ROW EXECUTE FUNCTION public.audit_change('verification_safe', 'subject');

CREATE TRIGGER audited AFTER INSERT OR DELETE OR UPDATE OF url, events, description, status, rotated_at ON public.webhooks FOR EACH ROW EXECUTE FUNCTION public.audit_change('webhook', 'id', 'owner,off_reason,created_by,after_id,failing_since,failed_runs,rest_until');

CREATE TRIGGER audited_adding AFTER INSERT ON public.channel_countries REFERENCING NEW TABLE AS links FOR EACH STATEMENT EXECUTE FUNCTION public.audit_countries('channel', 'channel_id', 'channel');

CREATE TRIGGER audited_adding AFTER INSERT ON public.company_countries REFERENCING NEW TABLE AS links FOR EACH STATEMENT EXECUTE FUNCTION public.audit_countries('company', 'company_id', 'company_no');

CREATE TRIGGER audited_adding AFTER INSERT ON public.settings FOR EACH ROW WHEN (((new.updated_by IS NOT NULL) AND (NOT ((new.category = 'sms'::text) AND (new.name ~ '^(content|segments)_most_'::text))))) EXECUTE FUNCTION public.audit_change('setting', 'category,name', 'updated_by');

CREATE TRIGGER audited_closing AFTER UPDATE OF openings ON public.sender_states FOR EACH ROW WHEN (((old.openings > 0) AND (new.openings = 0) AND (current_setting('lksms.actor'::text, true) <> ''::text))) EXECUTE FUNCTION public.audit_change('sender', 'sender_no', 'balance,next_available_at,last_taken,last_taken_at,minute_used,hour_used,day_used,month_used,seen_at,sent_at,attempts,succeeded,failed,response_ms,shared_last_turn,shared_next_turn,probe_until,granted,attempts_today,attempts_on');

CREATE TRIGGER audited_deletion AFTER DELETE ON public.routes FOR EACH ROW WHEN ((NOT public.pool_has_sender(old.pool_id))) EXECUTE FUNCTION public.audit_change('route', 'id', 'served,last_turn,next_turn');

CREATE TRIGGER audited_opening AFTER INSERT ON public.sender_states FOR EACH ROW WHEN ((new.balance IS NOT NULL)) EXECUTE FUNCTION public.audit_change('sender_balance', 'sender_no', 'next_available_at,last_taken,last_taken_at,minute_used,hour_used,day_used,month_used,seen_at,sent_at,attempts,succeeded,failed,response_ms,shared_last_turn,shared_next_turn,openings,rest_until,rest_reason,probe_until,granted,attempts_today,attempts_on');

CREATE TRIGGER audited_removing AFTER DELETE ON public.channel_countries REFERENCING OLD TABLE AS links FOR EACH STATEMENT EXECUTE FUNCTION public.audit_countries('channel', 'channel_id', 'channel');

CREATE TRIGGER audited_removing AFTER DELETE ON public.company_countries REFERENCING OLD TABLE AS links FOR EACH STATEMENT EXECUTE FUNCTION public.audit_countries('company', 'company_id', 'company_no');

CREATE TRIGGER audited_reset AFTER UPDATE OF is_sent ON public.default_contents FOR EACH ROW WHEN ((old.is_sent AND (NOT new.is_sent) AND (current_setting('lksms.actor'::text, true) <> ''::text))) EXECUTE FUNCTION public.audit_change('default_content', 'id');

CREATE TRIGGER batches_feed_updated AFTER UPDATE OF status, is_settled ON public.batches FOR EACH ROW WHEN ((new.is_settled AND (new.status = ANY (ARRAY['finished'::text, 'cancelled'::text])) AND (NOT (old.is_settled AND (old.status = ANY (ARRAY['finished'::text, 'cancelled'::text])))))) EXECUTE FUNCTION public.batches_feed();

CREATE TRIGGER batches_rows_bound AFTER INSERT ON public.batches REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION public.rows_bound('10000', 'company_id');

CREATE TRIGGER changer_noted BEFORE UPDATE OF status ON public.batches FOR EACH ROW WHEN (((current_setting('lksms.actor'::text, true) <> ''::text) AND (old.status <> new.status))) EXECUTE FUNCTION public.note_changer();

CREATE TRIGGER channels_rows_bound AFTER INSERT ON public.channels REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION public.rows_bound('1000');

CREATE TRIGGER companies_rows_bound AFTER INSERT ON public.companies REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION public.rows_bound('10000');

CREATE TRIGGER company_notification_templates_rows_bound AFTER INSERT ON public.company_notification_templates REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION public.rows_bound('1000', 'company_id');

CREATE TRIGGER contacts_counted AFTER INSERT ON public.contacts REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION public.contacts_count('2000000');

CREATE TRIGGER contacts_uncounted AFTER DELETE ON public.contacts REFERENCING OLD TABLE AS removed FOR EACH STATEMENT EXECUTE FUNCTION public.contacts_count();

CREATE TRIGGER conversations_add AFTER INSERT ON public.received_messages REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION public.conversations_add();

CREATE TRIGGER conversations_read AFTER UPDATE ON public.received_messages REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION public.conversations_read();

CREATE TRIGGER conversations_remove AFTER DELETE ON public.received_messages REFERENCING OLD TABLE AS removed FOR EACH STATEMENT EXECUTE FUNCTION public.conversations_remove();

CREATE TRIGGER countries_rows_bound AFTER INSERT ON public.countries REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION public.rows_bound('1000');

CREATE CONSTRAINT TRIGGER credentials_changed AFTER INSERT OR DELETE OR UPDATE OF user_id, key_hash ON public.api_keys DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION public.credentials_version_change();

CREATE CONSTRAINT TRIGGER credentials_changed AFTER INSERT OR DELETE OR UPDATE ON public.smpp_passwords DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION public.credentials_version_change();

CREATE CONSTRAINT TRIGGER credentials_changed AFTER INSERT OR DELETE OR UPDATE ON public.users DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION public.credentials_version_change();

CREATE TRIGGER default_contents_rows_bound AFTER INSERT ON public.default_contents REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION public.rows_bound('100000', 'company_id');

CREATE CONSTRAINT TRIGGER directory_changed AFTER INSERT OR DELETE OR UPDATE ON public.channels DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION public.directory_version_change();

CREATE CONSTRAINT TRIGGER directory_changed AFTER INSERT OR DELETE OR UPDATE ON public.companies DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION public.directory_version_change();

CREATE CONSTRAINT TRIGGER directory_changed AFTER INSERT OR DELETE OR UPDATE ON public.countries DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION public.directory_version_change();

CREATE CONSTRAINT TRIGGER directory_changed AFTER INSERT OR DELETE OR UPDATE OF retired_at ON public.pools DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION public.directory_version_change();

CREATE CONSTRAINT TRIGGER directory_changed AFTER INSERT OR DELETE OR UPDATE OF pool_id, sender_id, sort, status ON public.routes DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION public.directory_version_change();

CREATE CONSTRAINT TRIGGER directory_changed AFTER DELETE OR UPDATE ON public.senders DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION public.directory_version_change();

CREATE CONSTRAINT TRIGGER directory_changed AFTER UPDATE OF is_disabled ON public.users DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN ((old.is_disabled <> new.is_disabled)) EXECUTE FUNCTION public.directory_version_change();

CREATE CONSTRAINT TRIGGER directory_got_sender AFTER INSERT ON public.senders DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (((new.kind <> 'app'::text) OR (new.sort <> (0)::numeric))) EXECUTE FUNCTION public.directory_version_change();

CREATE TRIGGER events_feed_inserted AFTER INSERT ON public.events FOR EACH ROW WHEN ((new.event = ANY (ARRAY['alert.firing'::text, 'alert.resolved'::text, 'alert.not_sent'::text, 'sender.low_warning'::text, 'sender.low_switch'::text]))) EXECUTE FUNCTION public.events_feed();

CREATE TRIGGER facts_guard BEFORE DELETE ON public.facts FOR EACH STATEMENT EXECUTE FUNCTION public.facts_guard('4');

CREATE TRIGGER inbounds_rows_bound AFTER INSERT ON public.inbounds REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION public.rows_bound('1000');

CREATE TRIGGER mirrored AFTER INSERT OR DELETE OR UPDATE ON public.settings FOR EACH ROW WHEN ((pg_trigger_depth() = 0)) EXECUTE FUNCTION public.mirror_renamed_setting();

CREATE TRIGGER notification_templates_rows_bound AFTER INSERT ON public.notification_templates REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION public.rows_bound('10000');

CREATE TRIGGER notifications_feed_inserted AFTER INSERT ON public.notifications FOR EACH ROW WHEN ((new.ended_as IS NOT NULL)) EXECUTE FUNCTION public.notifications_feed();

CREATE TRIGGER notifications_feed_updated AFTER UPDATE OF ended_as, next_run_at ON public.notifications FOR EACH ROW WHEN (((new.deleted_at IS NULL) AND (new.forgotten_at IS NULL) AND (((new.ended_as IS NOT NULL) AND (new.ended_as IS DISTINCT FROM old.ended_as)) OR ((new.ended_as IS NULL) AND (new.next_run_at IS NULL) AND (old.next_run_at IS NOT NULL))))) EXECUTE FUNCTION public.notifications_feed();

CREATE TRIGGER phones_end BEFORE DELETE ON public.senders FOR EACH ROW EXECUTE FUNCTION public.phones_end();

CREATE TRIGGER phones_end_user AFTER DELETE ON public.phones FOR EACH ROW EXECUTE FUNCTION public.phones_end_user();

CREATE TRIGGER pool_channels_kept AFTER INSERT ON public.pools FOR EACH ROW EXECUTE FUNCTION public.pool_channel_keep();

CREATE TRIGGER pools_rows_bound AFTER INSERT ON public.pools REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION public.rows_bound('200000');

CREATE TRIGGER queue_facts_deleted AFTER DELETE ON public.queue REFERENCING OLD TABLE AS removed FOR EACH STATEMENT EXECUTE FUNCTION public.queue_facts();

CREATE TRIGGER queue_facts_inserted AFTER INSERT ON public.queue REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION public.queue_facts();

CREATE TRIGGER queue_facts_updated AFTER UPDATE ON public.queue REFERENCING OLD TABLE AS removed NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION public.queue_facts();

CREATE TRIGGER quiet_hours_changed AFTER UPDATE ON public.companies FOR EACH ROW WHEN ((((old.recipient -> 'quiet_hours'::text) IS DISTINCT FROM (new.recipient -> 'quiet_hours'::text)) OR ((old.recipient -> 'time_zone'::text) IS DISTINCT FROM (new.recipient -> 'time_zone'::text)))) EXECUTE FUNCTION public.quiet_hours_change();

CREATE TRIGGER quiet_hours_changed AFTER INSERT OR UPDATE ON public.settings FOR EACH ROW WHEN ((((new.category = 'recipient'::text) AND starts_with(new.name, 'quiet_hours_'::text)) OR ((new.category = 'monitoring'::text) AND (new.name = 'time_zone'::text)))) EXECUTE FUNCTION public.quiet_hours_change();

CREATE TRIGGER received_messages_feed AFTER INSERT ON public.received_messages FOR EACH ROW EXECUTE FUNCTION public.received_messages_feed();

CREATE TRIGGER reply_actions_add AFTER INSERT ON public.received_messages REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION public.reply_actions_add();

CREATE TRIGGER reply_actions_remove AFTER DELETE ON public.received_messages REFERENCING OLD TABLE AS removed FOR EACH STATEMENT EXECUTE FUNCTION public.reply_actions_remove();

CREATE TRIGGER reply_rules_rows_bound AFTER INSERT ON public.reply_rules REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION public.rows_bound('100', 'company_id');

CREATE TRIGGER report_logs_facts_inserted AFTER INSERT ON public.report_logs REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION public.report_logs_facts();

CREATE TRIGGER report_logs_facts_updated AFTER UPDATE ON public.report_logs REFERENCING OLD TABLE AS removed NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION public.report_logs_outcome_facts();

CREATE TRIGGER routes_rows_bound AFTER INSERT ON public.routes REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION public.rows_bound('100000');

CREATE TRIGGER senders_rows_bound AFTER INSERT ON public.senders REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION public.rows_bound('10000', 'is_self_registered');

CREATE TRIGGER tag_contacts_counted AFTER INSERT ON public.tag_contacts REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION public.tag_contacts_count();

CREATE TRIGGER tag_contacts_uncounted AFTER DELETE ON public.tag_contacts REFERENCING OLD TABLE AS removed FOR EACH STATEMENT EXECUTE FUNCTION public.tag_contacts_count();

CREATE TRIGGER tags_forgotten AFTER DELETE ON public.tags FOR EACH ROW EXECUTE FUNCTION public.tags_forget();

CREATE TRIGGER tags_rows_bound AFTER INSERT ON public.tags REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION public.rows_bound('10000', 'company_id');

CREATE TRIGGER template_versions_rows_bound AFTER INSERT ON public.template_versions REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION public.rows_bound('1000', 'template_id');

CREATE TRIGGER templates_rows_bound AFTER INSERT ON public.templates REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION public.rows_bound('10000');

CREATE TRIGGER users_end_sessions AFTER UPDATE ON public.users FOR EACH ROW WHEN ((new.is_disabled OR (new.password_hash IS DISTINCT FROM old.password_hash) OR (new.username <> old.username))) EXECUTE FUNCTION public.users_end_sessions();

CREATE TRIGGER users_end_sessions_of_deleted AFTER DELETE ON public.users FOR EACH ROW EXECUTE FUNCTION public.users_end_sessions();

CREATE TRIGGER users_end_webhooks AFTER UPDATE ON public.users FOR EACH ROW WHEN (((new.company_id <> old.company_id) OR (new.role <> old.role))) EXECUTE FUNCTION public.users_end_webhooks();

CREATE TRIGGER users_forgive_webhooks AFTER UPDATE ON public.users FOR EACH ROW WHEN ((old.is_disabled AND (NOT new.is_disabled))) EXECUTE FUNCTION public.users_forgive_webhooks();

CREATE TRIGGER users_rows_bound AFTER INSERT ON public.users REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION public.rows_bound('100000');

CREATE TRIGGER verification_safe_rows_bound AFTER INSERT ON public.verification_safe REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION public.rows_bound('10000');

CREATE TRIGGER verifications_feed AFTER UPDATE OF status ON public.verifications FOR EACH ROW WHEN (((old.status = 'pending'::text) AND (new.status <> 'pending'::text))) EXECUTE FUNCTION public.verifications_feed();

CREATE TRIGGER webhooks_rows_bound AFTER INSERT ON public.webhooks REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION public.rows_bound('20', 'owner');

ALTER TABLE ONLY public.alert_deliveries
    ADD CONSTRAINT alert_deliveries_alert_id_fkey FOREIGN KEY (alert_id) REFERENCES public.alerts(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.alert_receiver_states
    ADD CONSTRAINT alert_receiver_states_receiver_id_fkey FOREIGN KEY (receiver_id) REFERENCES public.alert_receivers(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.alert_receivers
    ADD CONSTRAINT alert_receivers_company_id_fkey FOREIGN KEY (company_id) REFERENCES public.companies(id);

ALTER TABLE ONLY public.alert_rules
    ADD CONSTRAINT alert_rules_channel_id_fkey FOREIGN KEY (channel_id) REFERENCES public.channels(id);

ALTER TABLE ONLY public.alert_rules
    ADD CONSTRAINT alert_rules_company_id_fkey FOREIGN KEY (company_id) REFERENCES public.companies(id);

ALTER TABLE ONLY public.alert_rules
    ADD CONSTRAINT alert_rules_sender_id_fkey FOREIGN KEY (sender_id) REFERENCES public.senders(id);

ALTER TABLE ONLY public.api_keys
    ADD CONSTRAINT api_keys_user_id_fkey FOREIGN KEY (user_id) REFERENCES public.users(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.batch_acts
    ADD CONSTRAINT batch_acts_batch_id_fkey FOREIGN KEY (batch_id) REFERENCES public.batches(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.batch_counts
    ADD CONSTRAINT batch_counts_batch_id_fkey FOREIGN KEY (batch_id) REFERENCES public.batches(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.batches
    ADD CONSTRAINT batches_company_id_fkey FOREIGN KEY (company_id) REFERENCES public.companies(id);

ALTER TABLE ONLY public.block_requests
    ADD CONSTRAINT block_requests_received_id_fkey FOREIGN KEY (received_id) REFERENCES public.received_messages(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.business_ends
    ADD CONSTRAINT business_ends_company_id_fkey FOREIGN KEY (company_id) REFERENCES public.companies(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.channel_countries
    ADD CONSTRAINT channel_countries_channel_id_fkey FOREIGN KEY (channel_id) REFERENCES public.channels(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.channel_countries
    ADD CONSTRAINT channel_countries_country_id_fkey FOREIGN KEY (country_id) REFERENCES public.countries(id);

ALTER TABLE ONLY public.company_countries
    ADD CONSTRAINT company_countries_company_id_fkey FOREIGN KEY (company_id) REFERENCES public.companies(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.company_countries
    ADD CONSTRAINT company_countries_country_id_fkey FOREIGN KEY (country_id) REFERENCES public.countries(id);

ALTER TABLE ONLY public.company_notification_templates
    ADD CONSTRAINT company_notification_templates_channel_id_fkey FOREIGN KEY (channel_id) REFERENCES public.channels(id);

ALTER TABLE ONLY public.company_notification_templates
    ADD CONSTRAINT company_notification_templates_company_id_fkey FOREIGN KEY (company_id) REFERENCES public.companies(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.contact_counts
    ADD CONSTRAINT contact_counts_company_id_fkey FOREIGN KEY (company_id) REFERENCES public.companies(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.contact_import_errors
    ADD CONSTRAINT contact_import_errors_import_id_fkey FOREIGN KEY (import_id) REFERENCES public.contact_imports(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.contact_imports
    ADD CONSTRAINT contact_imports_company_id_fkey FOREIGN KEY (company_id) REFERENCES public.companies(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.contacts
    ADD CONSTRAINT contacts_company_id_fkey FOREIGN KEY (company_id) REFERENCES public.companies(id);

ALTER TABLE ONLY public.default_contents
    ADD CONSTRAINT default_contents_company_id_fkey FOREIGN KEY (company_id) REFERENCES public.companies(id);

ALTER TABLE ONLY public.erasures
    ADD CONSTRAINT erasures_company_id_fkey FOREIGN KEY (company_id) REFERENCES public.companies(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.fair_ranks
    ADD CONSTRAINT fair_ranks_company_id_fkey FOREIGN KEY (company_id) REFERENCES public.companies(id);

ALTER TABLE ONLY public.feed_listeners
    ADD CONSTRAINT feed_listeners_company_id_fkey FOREIGN KEY (company_id) REFERENCES public.companies(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.inbounds
    ADD CONSTRAINT inbounds_company_id_fkey FOREIGN KEY (company_id) REFERENCES public.companies(id);

ALTER TABLE ONLY public.notification_templates
    ADD CONSTRAINT notification_templates_channel_id_fkey FOREIGN KEY (channel_id) REFERENCES public.channels(id);

ALTER TABLE ONLY public.notifications
    ADD CONSTRAINT notifications_announcement_id_fkey FOREIGN KEY (announcement_id) REFERENCES public.announcements(id);

ALTER TABLE ONLY public.notifications
    ADD CONSTRAINT notifications_channel_id_fkey FOREIGN KEY (channel_id) REFERENCES public.channels(id);

ALTER TABLE ONLY public.notifications
    ADD CONSTRAINT notifications_company_id_fkey FOREIGN KEY (company_id) REFERENCES public.companies(id);

ALTER TABLE ONLY public.phone_inboxes
    ADD CONSTRAINT phone_inboxes_sender_id_fkey FOREIGN KEY (sender_id) REFERENCES public.phones(sender_id) ON DELETE CASCADE;

ALTER TABLE ONLY public.phone_leases
    ADD CONSTRAINT phone_leases_sender_id_fkey FOREIGN KEY (sender_id) REFERENCES public.phones(sender_id) ON DELETE CASCADE;

ALTER TABLE ONLY public.phones
    ADD CONSTRAINT phones_sender_id_fkey FOREIGN KEY (sender_id) REFERENCES public.senders(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.phones
    ADD CONSTRAINT phones_user_id_fkey FOREIGN KEY (user_id) REFERENCES public.users(id) ON DELETE SET NULL;

ALTER TABLE ONLY public.pools
    ADD CONSTRAINT pools_channel_id_fkey FOREIGN KEY (channel_id) REFERENCES public.channels(id);

ALTER TABLE ONLY public.pools
    ADD CONSTRAINT pools_company_id_fkey FOREIGN KEY (company_id) REFERENCES public.companies(id);

ALTER TABLE ONLY public.pools
    ADD CONSTRAINT pools_country_id_fkey FOREIGN KEY (country_id) REFERENCES public.countries(id);

ALTER TABLE ONLY public.pools
    ADD CONSTRAINT pools_sender_id_fkey FOREIGN KEY (sender_id) REFERENCES public.senders(id);

ALTER TABLE ONLY public.received_parts
    ADD CONSTRAINT received_parts_sender_no_fkey FOREIGN KEY (sender_no) REFERENCES public.senders(sender_no) ON DELETE CASCADE;

ALTER TABLE ONLY public.reconciliation_differences
    ADD CONSTRAINT reconciliation_differences_reconciliation_id_fkey FOREIGN KEY (reconciliation_id) REFERENCES public.reconciliations(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.reconciliation_rows
    ADD CONSTRAINT reconciliation_rows_reconciliation_id_fkey FOREIGN KEY (reconciliation_id) REFERENCES public.reconciliations(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.reply_rules
    ADD CONSTRAINT reply_rules_company_id_fkey FOREIGN KEY (company_id) REFERENCES public.companies(id);

ALTER TABLE ONLY public.routes
    ADD CONSTRAINT routes_pool_id_fkey FOREIGN KEY (pool_id) REFERENCES public.pools(id);

ALTER TABLE ONLY public.routes
    ADD CONSTRAINT routes_sender_id_fkey FOREIGN KEY (sender_id) REFERENCES public.senders(id);

ALTER TABLE ONLY public.sender_answers
    ADD CONSTRAINT sender_answers_sender_id_fkey FOREIGN KEY (sender_id) REFERENCES public.senders(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.sender_links
    ADD CONSTRAINT sender_links_sender_id_fkey FOREIGN KEY (sender_id) REFERENCES public.senders(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.sender_sims
    ADD CONSTRAINT sender_sims_sender_id_fkey FOREIGN KEY (sender_id) REFERENCES public.senders(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.sender_states
    ADD CONSTRAINT sender_states_sender_id_fkey FOREIGN KEY (sender_id) REFERENCES public.senders(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.sender_tokens
    ADD CONSTRAINT sender_tokens_sender_id_fkey FOREIGN KEY (sender_id) REFERENCES public.senders(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.senders
    ADD CONSTRAINT senders_channel_id_fkey FOREIGN KEY (channel_id) REFERENCES public.channels(id);

ALTER TABLE ONLY public.sim_usages
    ADD CONSTRAINT sim_usages_sender_id_fkey FOREIGN KEY (sender_id) REFERENCES public.senders(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.smpp_long_messages
    ADD CONSTRAINT smpp_long_messages_company_id_fkey FOREIGN KEY (company_id) REFERENCES public.companies(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.smpp_passwords
    ADD CONSTRAINT smpp_passwords_user_id_fkey FOREIGN KEY (user_id) REFERENCES public.users(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.smpp_receivers
    ADD CONSTRAINT smpp_receivers_company_id_fkey FOREIGN KEY (company_id) REFERENCES public.companies(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.sql_roles
    ADD CONSTRAINT sql_roles_user_id_fkey FOREIGN KEY (user_id) REFERENCES public.users(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.subscribe_messages
    ADD CONSTRAINT subscribe_messages_company_id_fkey FOREIGN KEY (company_id) REFERENCES public.companies(id);

ALTER TABLE ONLY public.tag_contacts
    ADD CONSTRAINT tag_contacts_contact_fkey FOREIGN KEY (company_id, user_id) REFERENCES public.contacts(company_id, user_id) ON DELETE CASCADE;

ALTER TABLE ONLY public.tags
    ADD CONSTRAINT tags_company_id_fkey FOREIGN KEY (company_id) REFERENCES public.companies(id);

ALTER TABLE ONLY public.task_job_parts
    ADD CONSTRAINT task_job_parts_job_id_fkey FOREIGN KEY (job_id) REFERENCES public.task_jobs(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.template_versions
    ADD CONSTRAINT template_versions_template_id_fkey FOREIGN KEY (template_id) REFERENCES public.templates(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.upload_parts
    ADD CONSTRAINT upload_parts_upload_id_fkey FOREIGN KEY (upload_id) REFERENCES public.uploads(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.uploads
    ADD CONSTRAINT uploads_company_id_fkey FOREIGN KEY (company_id) REFERENCES public.companies(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.users
    ADD CONSTRAINT users_company_id_fkey FOREIGN KEY (company_id) REFERENCES public.companies(id);

ALTER TABLE ONLY public.verification_safe
    ADD CONSTRAINT verification_safe_company_id_fkey FOREIGN KEY (company_id) REFERENCES public.companies(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.webhook_deliveries
    ADD CONSTRAINT webhook_deliveries_webhook_id_fkey FOREIGN KEY (webhook_id) REFERENCES public.webhooks(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.webhook_retries
    ADD CONSTRAINT webhook_retries_feed_id_fkey FOREIGN KEY (feed_id) REFERENCES public.feed(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.webhook_retries
    ADD CONSTRAINT webhook_retries_webhook_id_fkey FOREIGN KEY (webhook_id) REFERENCES public.webhooks(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.webhook_secrets
    ADD CONSTRAINT webhook_secrets_webhook_id_fkey FOREIGN KEY (webhook_id) REFERENCES public.webhooks(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.webhooks
    ADD CONSTRAINT webhooks_company_id_fkey FOREIGN KEY (company_id) REFERENCES public.companies(id);

ALTER TABLE ONLY public.webhooks
    ADD CONSTRAINT webhooks_user_id_fkey FOREIGN KEY (user_id) REFERENCES public.users(id) ON DELETE CASCADE;

