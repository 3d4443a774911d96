-- migrate:up
-- A sender of several pools serves them in turn, by the weights of the companies that wait. Each pool's turns are kept in the
-- sender's own virtual time, so that claims of one task are as fair as claims of a thousand. A column with a constant default
-- does not rewrite a table; the short lock of ALTER TABLE is all that running claims wait for.
-- squawk-ignore-file require-concurrent-index-creation
ALTER TABLE routes ADD COLUMN last_turn double precision NOT NULL DEFAULT 0;
ALTER TABLE routes ADD COLUMN next_turn double precision NOT NULL DEFAULT 0;
COMMENT ON COLUMN routes.last_turn IS 'when the sender last served the pool, in the virtual time of the sender';
COMMENT ON COLUMN routes.next_turn IS 'when it is the turn of the pool again, in the same time; the past counts as now';
COMMENT ON COLUMN routes.sort IS 'of the ready senders of a pool, only those of the largest sort are served';
ALTER TABLE sender_states ADD COLUMN shared_last_turn double precision NOT NULL DEFAULT 0;
ALTER TABLE sender_states ADD COLUMN shared_next_turn double precision NOT NULL DEFAULT 0;
COMMENT ON COLUMN sender_states.shared_last_turn IS 'last_turn of the shared pool, see routes; kept for a shared sender that also has routes';
COMMENT ON COLUMN senders.sort IS 'of the ready senders of a shared pool, only those of the largest sort are served';
-- Asked by every claim from a shared pool: is somebody of a larger sort there?
CREATE INDEX senders_shared_sort_idx ON senders (channel_id, sort) WHERE is_shared AND status = 'on';

-- migrate:down
DROP INDEX senders_shared_sort_idx;
COMMENT ON COLUMN senders.sort IS NULL;
COMMENT ON COLUMN routes.sort IS NULL;
ALTER TABLE sender_states DROP COLUMN shared_last_turn, DROP COLUMN shared_next_turn;
ALTER TABLE routes DROP COLUMN last_turn, DROP COLUMN next_turn;
