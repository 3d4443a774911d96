-- migrate:up
CREATE TABLE received_parts (
    sender_no text NOT NULL REFERENCES senders (sender_no) ON DELETE CASCADE,
    from_no text NOT NULL,
    to_no text NOT NULL,
    reference bigint NOT NULL,
    total smallint NOT NULL,
    nth smallint NOT NULL,
    alphabet text NOT NULL,
    octets bytea NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (sender_no, from_no, to_no, reference, total, nth),
    CONSTRAINT received_parts_alphabet_known CHECK (alphabet IN ('ascii', 'gsm7', 'latin1', 'ucs2'))
);
CREATE INDEX received_parts_created_at_idx ON received_parts (created_at);
COMMENT ON TABLE received_parts IS 'A part of a long message from a person. When all parts are there, they become one row of received_messages. Package dispatch/received writes it';
COMMENT ON COLUMN received_parts.alphabet IS 'the encoding of octets';
COMMENT ON COLUMN received_parts.octets IS 'the text of the part, without its header. A character can begin in one part and end in the next';
COMMENT ON COLUMN received_parts.from_no IS 'the number of the person';
COMMENT ON COLUMN received_parts.reference IS 'the number that the phone gave to all parts of a message. Phones repeat numbers';
CREATE TABLE lock_join_received_parts ();
COMMENT ON TABLE lock_join_received_parts IS 'Has no rows. The server that runs the sweep join-received-parts locks this table.';

-- migrate:down
DROP TABLE lock_join_received_parts;
DROP TABLE received_parts;
