-- migrate:up
-- Adds columns, which rewrites nothing: locks the table for a moment.
ALTER TABLE channels ADD COLUMN status text NOT NULL DEFAULT 'on';
ALTER TABLE channels ADD COLUMN any_country boolean NOT NULL DEFAULT true;
ALTER TABLE channels ADD CONSTRAINT channels_status_known CHECK (status IN ('on', 'off')) NOT VALID;
COMMENT ON COLUMN channels.status IS 'on or off; off: its tasks are held';
COMMENT ON COLUMN channels.any_country IS
    'the channel serves every country that is not switched off in channel_countries; counts only while no country there is on';

-- migrate:down
ALTER TABLE channels DROP COLUMN any_country, DROP COLUMN status;
