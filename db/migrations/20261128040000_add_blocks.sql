-- migrate:up
CREATE TABLE blocks (
    id bigint GENERATED ALWAYS AS IDENTITY,
    company_id bigint,
    recipient text,
    recipient_hash bytea NOT NULL,
    scope text NOT NULL,
    reason text,
    received_id bigint,
    asked_at timestamptz,
    created_by text NOT NULL,
    created_at timestamptz DEFAULT now() NOT NULL,
    expires_at timestamptz,
    is_enforced boolean DEFAULT false NOT NULL,
    CONSTRAINT blocks_pkey PRIMARY KEY (id),
    CONSTRAINT blocks_scope_known CHECK (scope IN ('marketing', 'notification', 'all')),
    CONSTRAINT blocks_recipient_length CHECK (char_length(recipient) BETWEEN 1 AND 50),
    CONSTRAINT blocks_recipient_hash_length CHECK (octet_length(recipient_hash) = 32),
    CONSTRAINT blocks_asked_by_message CHECK ((received_id IS NULL) = (asked_at IS NULL)),
    CONSTRAINT blocks_reason_length CHECK (char_length(reason) BETWEEN 1 AND 200)
);

COMMENT ON TABLE blocks IS 'One row blocks messages to one phone number. Written by internal/dispatch/block. There are no foreign keys, because they would lock companies; rows of a deleted company have no effect.';
COMMENT ON COLUMN blocks.company_id IS 'only messages of this company are blocked; null: messages of all companies';
COMMENT ON COLUMN blocks.recipient IS 'the number in E.164; null: the person was erased, and the block stays';
COMMENT ON COLUMN blocks.recipient_hash IS 'SHA-256 of the number';
COMMENT ON COLUMN blocks.scope IS 'the message type that is blocked; all: every message type';
COMMENT ON COLUMN blocks.received_id IS 'the last received message by which the person asked for the block; null: a user added the block';
COMMENT ON COLUMN blocks.asked_at IS 'the time that the network gave to this message; the time at which it was stored if the network gave none';
COMMENT ON COLUMN blocks.created_by IS 'the user who added the block; system:opt_out: a received message added it';
COMMENT ON COLUMN blocks.expires_at IS 'the block has no effect from this time on; null: no end';
COMMENT ON COLUMN blocks.is_enforced IS 'true: no task waits that the block forbids; false: a server still cancels such tasks';

CREATE UNIQUE INDEX blocks_recipient_hash_key ON blocks (recipient_hash, scope, coalesce(company_id, 0), (received_id IS NULL));
CREATE INDEX blocks_company_idx ON blocks (company_id, id);
CREATE INDEX blocks_unenforced_idx ON blocks (id) WHERE NOT is_enforced;
CREATE INDEX blocks_expires_at_idx ON blocks (expires_at) WHERE expires_at IS NOT NULL;

CREATE TRIGGER audited AFTER INSERT OR DELETE OR UPDATE OF reason, expires_at ON blocks FOR EACH ROW
    WHEN (coalesce(current_setting('lksms.contact_import', true), '') = '')
    EXECUTE FUNCTION audit_change('block', 'id', 'recipient_hash,is_enforced');

CREATE FUNCTION blocks_of(of_recipient text, of_company bigint, of_type smallint) RETURNS SETOF blocks LANGUAGE sql STABLE AS $$
    SELECT b.* FROM blocks b
    WHERE b.recipient_hash = sha256(convert_to(of_recipient, 'UTF8'))
        AND b.scope IN ('all', CASE of_type WHEN 1 THEN 'notification' WHEN 2 THEN 'marketing' END)
        AND (b.company_id = of_company OR b.company_id IS NULL)
        AND (b.expires_at IS NULL OR b.expires_at > now())
$$;
COMMENT ON FUNCTION blocks_of(text, bigint, smallint) IS 'Returns the blocks that forbid a message of a company and type to a recipient. Read it with LIMIT 1 in a LATERAL subquery, so that the planner uses blocks_recipient_hash_key.';

CREATE FUNCTION queue_writers() RETURNS SETOF text LANGUAGE sql STABLE AS $$
    SELECT DISTINCT l.virtualtransaction FROM pg_locks l
    WHERE l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database()) AND l.relation = 'queue'::regclass
        AND l.mode = 'RowExclusiveLock' AND l.granted AND l.pid <> pg_backend_pid()
$$;
COMMENT ON FUNCTION queue_writers() IS 'Returns the open transactions that write queue. A submission that began before a block was added can still store a task that the block forbids; a later submission cannot.';

CREATE TABLE lock_enforce_blocks ();
COMMENT ON TABLE lock_enforce_blocks IS 'No rows. The lock of the sweep enforce-blocks: the server that runs the sweep locks this table, so two servers never run the sweep at once.';
CREATE TABLE lock_delete_expired_blocks ();
COMMENT ON TABLE lock_delete_expired_blocks IS 'No rows. The lock of the sweep delete-expired-blocks: the server that runs the sweep locks this table, so two servers never run the sweep at once.';

-- migrate:down
DROP TABLE lock_delete_expired_blocks;
DROP TABLE lock_enforce_blocks;
DROP FUNCTION queue_writers();
DROP FUNCTION blocks_of(text, bigint, smallint);
DROP TABLE blocks;
