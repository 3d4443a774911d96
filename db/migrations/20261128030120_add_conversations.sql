-- migrate:up
CREATE TABLE conversations (
    company_id bigint NOT NULL,
    phone_number text NOT NULL,
    submitted_by text DEFAULT '' NOT NULL,
    last_id bigint NOT NULL,
    unread bigint NOT NULL,
    CONSTRAINT conversations_pkey PRIMARY KEY (company_id, phone_number, submitted_by)
);

COMMENT ON TABLE conversations IS 'The last message that a company received from a phone number, and the number of unread messages. The table exists because a list of conversations would otherwise read all received messages. A number has one row with an empty submitted_by for all its messages, and one row for each user whose tasks it answered, so that each list reads one index in its order. Written by triggers of received_messages, in the transaction of the message; a row is deleted when its last message is deleted or erased.';
COMMENT ON COLUMN conversations.phone_number IS 'received_messages.phone_number';
COMMENT ON COLUMN conversations.submitted_by IS 'only messages with this received_messages.submitted_by; empty: all messages';
COMMENT ON COLUMN conversations.last_id IS 'the largest received_messages.id of these messages';
COMMENT ON COLUMN conversations.unread IS 'the number of these messages without read_at';

CREATE INDEX conversations_last_idx ON conversations (submitted_by, last_id);
CREATE INDEX conversations_unread_idx ON conversations (submitted_by, last_id) WHERE unread > 0;
CREATE INDEX conversations_company_idx ON conversations (company_id, submitted_by, last_id);
CREATE INDEX conversations_unread_company_idx ON conversations (company_id, submitted_by, last_id) WHERE unread > 0;

CREATE FUNCTION conversations_add() RETURNS trigger LANGUAGE plpgsql AS $$
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
COMMENT ON FUNCTION conversations_add() IS 'Trigger of received_messages: adds new messages to the rows of conversations.';

CREATE FUNCTION conversations_subtract(company_ids bigint[], phone_numbers text[], submitters text[], unread_messages bigint[], gone_ids bigint[])
RETURNS void LANGUAGE plpgsql AS $$
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
COMMENT ON FUNCTION conversations_subtract(bigint[], text[], text[], bigint[], bigint[]) IS 'Subtracts unread messages from rows of conversations, and deletes rows without messages. The elements i of the arrays belong together; gone_ids contains the last message that left the conversation (null: none).';

CREATE FUNCTION conversations_read() RETURNS trigger LANGUAGE plpgsql AS $$
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
COMMENT ON FUNCTION conversations_read() IS 'Trigger of received_messages: updates the number of unread messages in conversations. An erased message loses its number, and leaves its conversation. Nothing else changes the company, number or submitter of a message.';

CREATE FUNCTION conversations_remove() RETURNS trigger LANGUAGE plpgsql AS $$
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
COMMENT ON FUNCTION conversations_remove() IS 'Trigger of received_messages: removes deleted messages from the rows of conversations, and deletes rows without messages.';

-- The triggers come first: the lock of received_messages that they take keeps other transactions from adding messages until the rows below are committed.
CREATE TRIGGER conversations_add AFTER INSERT ON received_messages REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION conversations_add();
CREATE TRIGGER conversations_read AFTER UPDATE ON received_messages REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows
    FOR EACH STATEMENT EXECUTE FUNCTION conversations_read();
CREATE TRIGGER conversations_remove AFTER DELETE ON received_messages REFERENCING OLD TABLE AS removed FOR EACH STATEMENT EXECUTE FUNCTION conversations_remove();

INSERT INTO conversations (company_id, phone_number, submitted_by, last_id, unread)
SELECT r.company_id, r.phone_number, v.submitted_by, max(r.id), count(*) FILTER (WHERE r.read_at IS NULL)
FROM received_messages r
CROSS JOIN LATERAL (SELECT '' UNION SELECT r.submitted_by) v (submitted_by)
WHERE r.phone_number <> ''
GROUP BY r.company_id, r.phone_number, v.submitted_by;

-- migrate:down
DROP TRIGGER conversations_add ON received_messages;
DROP TRIGGER conversations_read ON received_messages;
DROP TRIGGER conversations_remove ON received_messages;
DROP FUNCTION conversations_add();
DROP FUNCTION conversations_read();
DROP FUNCTION conversations_remove();
DROP FUNCTION conversations_subtract(bigint[], text[], text[], bigint[], bigint[]);
DROP TABLE conversations;
