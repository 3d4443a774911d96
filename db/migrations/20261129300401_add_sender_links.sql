-- migrate:up
CREATE TABLE sender_links (
    sender_id bigint NOT NULL REFERENCES senders (id) ON DELETE CASCADE,
    nth smallint NOT NULL,
    held_by text NOT NULL,
    host text NOT NULL,
    held_until timestamptz NOT NULL,
    bound_at timestamptz,
    in_flight bigint NOT NULL DEFAULT 0,
    sent bigint NOT NULL DEFAULT 0,
    received bigint NOT NULL DEFAULT 0,
    error text,
    failed_at timestamptz,
    traced_from timestamptz,
    traced_until timestamptz,
    trace jsonb NOT NULL DEFAULT '[]',
    PRIMARY KEY (sender_id, nth),
    CONSTRAINT sender_links_nth_range CHECK (nth BETWEEN 1 AND 32),
    CONSTRAINT sender_links_error_length CHECK (char_length(error) <= 500)
);
COMMENT ON TABLE sender_links IS 'A permanent connection of a sender to its carrier. Only the server that holds the row opens the connection. Package dispatch/push writes it';
COMMENT ON COLUMN sender_links.nth IS 'number of the connection, from 1';
COMMENT ON COLUMN sender_links.held_by IS 'the process that holds the connection';
COMMENT ON COLUMN sender_links.host IS 'the host of held_by';
COMMENT ON COLUMN sender_links.held_until IS 'after this time, another process can take over the connection, unless held_by renews the time; past: no process holds the connection';
COMMENT ON COLUMN sender_links.bound_at IS 'since when the carrier accepts messages; null: the connection is not open';
COMMENT ON COLUMN sender_links.in_flight IS 'messages without an answer of the carrier, at the last renewal';
COMMENT ON COLUMN sender_links.sent IS 'messages that the carrier answered, since the process holds the connection';
COMMENT ON COLUMN sender_links.received IS 'receipts and messages from the carrier, since the process holds the connection';
COMMENT ON COLUMN sender_links.error IS 'the last failure of the connection; null: none';
COMMENT ON COLUMN sender_links.failed_at IS 'time of the last failure';
COMMENT ON COLUMN sender_links.traced_from IS 'when the last recording of PDUs was asked for; null: never';
COMMENT ON COLUMN sender_links.traced_until IS 'end of the last recording; null: none was asked for';
COMMENT ON COLUMN sender_links.trace IS 'the last PDUs of the last recording, in their order; without texts, passwords and whole numbers of people';

-- migrate:down
DROP TABLE sender_links;
