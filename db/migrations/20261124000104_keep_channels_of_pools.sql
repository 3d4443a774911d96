-- migrate:up
-- Writers of pools wait for this, and it for those that write.
SET LOCAL lock_timeout = '5s';
CREATE TABLE pool_channels (
    pool_id bigint NOT NULL,
    channel text NOT NULL,
    CONSTRAINT pool_channels_pkey PRIMARY KEY (pool_id)
);
COMMENT ON TABLE pool_channels IS
    'The channel of each pool that ever existed: facts, and receipts of old tasks, name pools that were deleted since. Written by a trigger of '
    'pools only. No foreign keys: the rows outlive both.';
CREATE FUNCTION pool_channel_keep() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO pool_channels (pool_id, channel) SELECT NEW.id, c.channel FROM channels c WHERE c.id = NEW.channel_id;
    RETURN NULL;
END
$$;
CREATE TRIGGER pool_channels_kept AFTER INSERT ON pools FOR EACH ROW EXECUTE FUNCTION pool_channel_keep();
-- The trigger locks pools until the end, so that no pool is made between it and this statement.
INSERT INTO pool_channels (pool_id, channel) SELECT p.id, c.channel FROM pools p JOIN channels c ON c.id = p.channel_id
ON CONFLICT (pool_id) DO NOTHING;

-- migrate:down
SET LOCAL lock_timeout = '5s';
DROP TRIGGER pool_channels_kept ON pools;
DROP FUNCTION pool_channel_keep();
DROP TABLE pool_channels;
