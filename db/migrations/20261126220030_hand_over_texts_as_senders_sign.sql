-- migrate:up
-- handed_text is the text that a sender gets. sign is the signature of the attempt; NULL: none. A content that begins with it is not signed twice, and loses it
-- where it must not be in the text.
CREATE FUNCTION handed_text(content text, sign text, sign_mode text) RETURNS text
LANGUAGE sql IMMUTABLE
RETURN CASE
    WHEN sign IS NULL THEN content
    WHEN coalesce(sign_mode, 'in_text') = 'in_text' THEN
        CASE WHEN starts_with(content, '【' || sign || '】') THEN content ELSE '【' || sign || '】' || content END
    WHEN starts_with(content, '【' || sign || '】') THEN substr(content, char_length(sign) + 3)
    ELSE content
END;

-- unsigned_segments counts a text that is sent without signature: GSM 03.38 in septets, of which a character of the extension takes two; any other text as
-- attempt_segments does.
CREATE FUNCTION unsigned_segments(content text) RETURNS bigint
LANGUAGE sql IMMUTABLE
RETURN CASE
    WHEN content !~ '[^@£$¥èéùìòÇ\nØø\rÅåΔ_ΦΓΛΩΠΨΣΘΞÆæßÉ !"#¤%&''()*+,\-./0-9:;<=>?¡A-ZÄÖÑÜ§¿a-zäöñüà\f^{}\\[~\]|€]' THEN CASE
        WHEN char_length(content) + char_length(regexp_replace(content, '[^\f^{}\\[~\]|€]', '', 'g')) <= 160 THEN 1
        ELSE ceil((char_length(content) + char_length(regexp_replace(content, '[^\f^{}\\[~\]|€]', '', 'g'))) / 153.0)
    END
    ELSE attempt_segments(content, NULL, NULL, true)
END;

-- segments_as_sent counts where a sender has a segment size or a signature, or forbids that of the message: sent_segments asks it only then. It is plpgsql, because
-- an SQL function would be copied into each place of the claim that counts, and each claim would prepare it.
CREATE FUNCTION segments_as_sent(
    content text, sign text, counted smallint, sender_sign text, sign_mode text, segment_size bigint
) RETURNS bigint
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

-- sent_segments is what an attempt of a task costs a sender. It replaces task_segments, which servers of the version before call. counted are the segments
-- with the message's own signature. A signature counts once, whoever adds it, and not at a sender that forbids it.
CREATE FUNCTION sent_segments(
    content text, sign text, counted smallint, sender_sign text, sign_mode text, segment_size bigint, counts_segments boolean
) RETURNS bigint
LANGUAGE sql IMMUTABLE
RETURN CASE
    WHEN NOT counts_segments THEN 1
    WHEN segment_size IS NULL AND CASE WHEN sign IS NULL THEN sender_sign IS NULL ELSE sign_mode <> 'none' END THEN counted
    ELSE segments_as_sent(content, sign, counted, sender_sign, sign_mode, segment_size)
END;

CREATE OR REPLACE VIEW send_logs AS
SELECT l.lease_id AS id, l.task_id, l.app_id, m.phone_number, handed_text(m.content, coalesce(m.sign, l.lease_sign), l.lease_sign_mode) AS content,
    (l.retry_count + 1)::smallint AS attempt, l.lease_until,
    jsonb_build_object('app_id', l.app_id, 'limit', l.lease_limit) AS request_data,
    jsonb_build_object('lease_id', l.lease_id, 'attempt', l.retry_count + 1, 'lease_until', l.lease_until) AS response_data,
    l.leased_at AS created_at, l.lease_segments AS segments
FROM (
    SELECT task_id, app_id, lease_id, retry_count, leased_at, lease_until, lease_segments, lease_sign, lease_sign_mode, lease_limit
    FROM report_logs
    WHERE leased_at IS NOT NULL
    UNION ALL
    SELECT task_id, processing_app_id, lease_id, retry_count, updated_at, lease_until, lease_segments, lease_sign, lease_sign_mode, lease_limit
    FROM queue
    WHERE lease_until IS NOT NULL
) l
JOIN messages m ON m.task_id = l.task_id;

-- migrate:down
CREATE OR REPLACE VIEW send_logs AS
SELECT l.lease_id AS id, l.task_id, l.app_id, m.phone_number, coalesce('【' || coalesce(m.sign, l.lease_sign) || '】', '') || m.content AS content,
    (l.retry_count + 1)::smallint AS attempt, l.lease_until,
    jsonb_build_object('app_id', l.app_id, 'limit', l.lease_limit) AS request_data,
    jsonb_build_object('lease_id', l.lease_id, 'attempt', l.retry_count + 1, 'lease_until', l.lease_until) AS response_data,
    l.leased_at AS created_at, l.lease_segments AS segments
FROM (
    SELECT task_id, app_id, lease_id, retry_count, leased_at, lease_until, lease_segments, lease_sign, lease_limit FROM report_logs WHERE leased_at IS NOT NULL
    UNION ALL
    SELECT task_id, processing_app_id, lease_id, retry_count, updated_at, lease_until, lease_segments, lease_sign, lease_limit
    FROM queue
    WHERE lease_until IS NOT NULL
) l
JOIN messages m ON m.task_id = l.task_id;
DROP FUNCTION sent_segments, segments_as_sent, unsigned_segments, handed_text;
