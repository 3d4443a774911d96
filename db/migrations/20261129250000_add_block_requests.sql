-- migrate:up
CREATE FUNCTION network_time(received_at timestamptz, stored_at timestamptz) RETURNS timestamptz LANGUAGE sql STABLE
RETURN CASE WHEN received_at < stored_at + interval '24 hours' THEN received_at END;
COMMENT ON FUNCTION network_time(timestamptz, timestamptz) IS
    'Returns the time that a network gave to a message; null: unknown. A time more than a day after the message was stored comes from a wrong clock, and counts as unknown. '
    'Otherwise, later messages of the person would count as earlier.';

CREATE FUNCTION is_later_request(network_at timestamptz, received_id bigint, than_network_at timestamptz, than_received_id bigint) RETURNS boolean
LANGUAGE sql IMMUTABLE
RETURN CASE WHEN network_at <> than_network_at THEN network_at > than_network_at ELSE received_id > than_received_id END;
COMMENT ON FUNCTION is_later_request(timestamptz, bigint, timestamptz, bigint) IS
    'Returns whether one message of a person is later than another: by the time of the network if both times are known and differ, otherwise by the id.';

CREATE TABLE block_requests (
    company_id bigint NOT NULL,
    recipient_hash bytea NOT NULL,
    received_id bigint NOT NULL,
    network_at timestamptz,
    is_opt_out boolean NOT NULL,
    CONSTRAINT block_requests_pkey PRIMARY KEY (company_id, recipient_hash),
    CONSTRAINT block_requests_received_id_fkey FOREIGN KEY (received_id) REFERENCES received_messages (id) ON DELETE CASCADE,
    CONSTRAINT block_requests_recipient_hash_length CHECK (octet_length(recipient_hash) = 32)
);
CREATE INDEX block_requests_received_idx ON block_requests (received_id);

COMMENT ON TABLE block_requests IS 'The latest received message by which a person asked a company for no more messages, or for messages again. Written by internal/dispatch/block. An earlier request that is handled later has no effect. The row is deleted with the message.';
COMMENT ON COLUMN block_requests.recipient_hash IS 'SHA-256 of the number';
COMMENT ON COLUMN block_requests.network_at IS 'network_time of the message, copied because a statement that waits for the row does not see a message that was stored meanwhile; null: unknown';
COMMENT ON COLUMN block_requests.is_opt_out IS 'true: the person asked for no more messages; false: for messages again';

INSERT INTO block_requests (company_id, recipient_hash, received_id, network_at, is_opt_out)
SELECT b.company_id, b.recipient_hash, r.id, network_time(r.received_at, r.created_at), true
FROM blocks b
JOIN received_messages r ON r.id = b.received_id
WHERE b.company_id IS NOT NULL
ON CONFLICT DO NOTHING;

-- migrate:down
DROP TABLE block_requests;
DROP FUNCTION is_later_request(timestamptz, bigint, timestamptz, bigint);
DROP FUNCTION network_time(timestamptz, timestamptz);
