-- migrate:up
CREATE FUNCTION unsigned_text(content text, sign text) RETURNS text
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    WHILE starts_with(content, '【' || sign || '】') LOOP -- no sign: null, which ends the loop
        content := substr(content, char_length(sign) + 3);
    END LOOP;
    RETURN content;
END
$$;
COMMENT ON FUNCTION unsigned_text IS 'A text without the signatures sign with which it begins, as segment.Unsigned of internal/dispatch/segment.';

-- migrate:down
DROP FUNCTION unsigned_text;
