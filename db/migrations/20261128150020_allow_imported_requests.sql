-- migrate:up
-- Locks blocks for a moment.
ALTER TABLE blocks DROP CONSTRAINT blocks_asked_by_message;
ALTER TABLE blocks ADD CONSTRAINT blocks_asked_by_message CHECK (received_id IS NULL OR asked_at IS NOT NULL) NOT VALID;
COMMENT ON COLUMN blocks.received_id IS 'the last received message by which the person asked for the block; null: a user added or imported the block';
COMMENT ON COLUMN blocks.asked_at IS 'the time at which the person asked for the block: that of the network, or else the time at which the message was stored; null: a user added the block';
COMMENT ON COLUMN blocks.created_by IS 'the user who added or imported the block; system:opt_out: a received message added it';
COMMENT ON FUNCTION blocks_of(text, bigint, smallint) IS 'Returns the blocks that forbid a message of a company and type to a recipient. Read it with LIMIT 1 in a LATERAL subquery, so that the planner uses blocks_asked_key.';

-- An import adds many blocks. It is recorded in the audit as a whole.
DROP TRIGGER audited ON blocks;
CREATE TRIGGER audited AFTER INSERT OR DELETE OR UPDATE OF reason, expires_at ON blocks FOR EACH ROW
    WHEN (coalesce(current_setting('lksms.block_import', true), '') = '')
    EXECUTE FUNCTION audit_change('block', 'id', 'recipient_hash,is_enforced');

-- migrate:down
DROP TRIGGER audited ON blocks;
CREATE TRIGGER audited AFTER INSERT OR DELETE OR UPDATE OF reason, expires_at ON blocks FOR EACH ROW
    WHEN (coalesce(current_setting('lksms.contact_import', true), '') = '')
    EXECUTE FUNCTION audit_change('block', 'id', 'recipient_hash,is_enforced');

COMMENT ON FUNCTION blocks_of(text, bigint, smallint) IS 'Returns the blocks that forbid a message of a company and type to a recipient. Read it with LIMIT 1 in a LATERAL subquery, so that the planner uses blocks_recipient_hash_key.';
COMMENT ON COLUMN blocks.created_by IS 'the user who added the block; system:opt_out: a received message added it';
COMMENT ON COLUMN blocks.asked_at IS 'the time that the network gave to this message; the time at which it was stored if the network gave none';
COMMENT ON COLUMN blocks.received_id IS 'the last received message by which the person asked for the block; null: a user added the block';
UPDATE blocks SET asked_at = NULL WHERE received_id IS NULL AND asked_at IS NOT NULL;
ALTER TABLE blocks DROP CONSTRAINT blocks_asked_by_message;
ALTER TABLE blocks ADD CONSTRAINT blocks_asked_by_message CHECK ((received_id IS NULL) = (asked_at IS NULL));
