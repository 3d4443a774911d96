-- migrate:up
ALTER TABLE blocks ADD COLUMN is_confirmed boolean DEFAULT false NOT NULL;
COMMENT ON COLUMN blocks.is_confirmed IS 'true: the company confirmed the block to the person (opt_out_reply)';
DROP TRIGGER audited ON blocks;
CREATE TRIGGER audited AFTER INSERT OR DELETE OR UPDATE OF reason, expires_at ON blocks FOR EACH ROW
    WHEN (coalesce(current_setting('lksms.block_import', true), '') = '') EXECUTE FUNCTION audit_change('block', 'id', 'recipient_hash,is_enforced,is_confirmed');

-- migrate:down
DROP TRIGGER audited ON blocks;
CREATE TRIGGER audited AFTER INSERT OR DELETE OR UPDATE OF reason, expires_at ON blocks FOR EACH ROW
    WHEN (coalesce(current_setting('lksms.block_import', true), '') = '') EXECUTE FUNCTION audit_change('block', 'id', 'recipient_hash,is_enforced');
ALTER TABLE blocks DROP COLUMN is_confirmed;
