-- migrate:up
CREATE OR REPLACE FUNCTION sql_inbox_check_content(given sql_inbox, place integer) RETURNS void LANGUAGE plpgsql STABLE AS $$
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

-- migrate:down
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
