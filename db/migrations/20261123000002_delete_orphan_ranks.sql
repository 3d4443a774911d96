-- migrate:up
-- Ranks of the pools of deleted channels: until now ChannelDelete left them behind, also after migration 20261123000001. Nothing reads
-- them, but each refers to its company, which therefore cannot be deleted. Locks only these rows.
DELETE FROM fair_ranks f WHERE NOT EXISTS (SELECT FROM pools p WHERE p.id = f.pool_id);

-- migrate:down
-- Nothing reads the deleted rows, so none come back.
