-- migrate:up
CREATE TABLE received_part_identities (
    identity bytea PRIMARY KEY,
    created_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX received_part_identities_created_at_idx ON received_part_identities (created_at);
COMMENT ON TABLE received_part_identities IS 'A part of a long message from a person that arrived in the last hours, so that a repeat of the part is not stored again. Package dispatch/received writes it';
COMMENT ON COLUMN received_part_identities.identity IS 'SHA-256 of the columns of received_parts: a part with the same identity is the same part. An erasure leaves it, as received_messages.identity';
COMMENT ON TABLE received_parts IS 'A part of a long message from a person. When all parts are there, they become one row of received_messages. Package dispatch/received writes it. The erasure of a person deletes it';

-- migrate:down
COMMENT ON TABLE received_parts IS 'A part of a long message from a person. When all parts are there, they become one row of received_messages. Package dispatch/received writes it';
DROP TABLE received_part_identities;
