-- migrate:up
-- Adds columns, which rewrites nothing: locks the table for a moment.
ALTER TABLE channel_countries ADD COLUMN status text NOT NULL DEFAULT 'on';
ALTER TABLE channel_countries ADD CONSTRAINT channel_countries_status_known CHECK (status IN ('on', 'off')) NOT VALID;
COMMENT ON COLUMN channel_countries.status IS 'on or off; off: tasks of the channel to the country are held';
COMMENT ON TABLE channel_countries IS
    'A country that a channel serves, or that is switched off for it. Without a row that is on, channels.any_country says whether the channel serves the others. Written by internal/directory.';

-- migrate:down
COMMENT ON TABLE channel_countries IS
    'A country that a channel serves; a channel without rows serves every country. Written by internal/directory.';
DELETE FROM channel_countries WHERE status = 'off';
ALTER TABLE channel_countries DROP COLUMN status;
