-- migrate:up
-- The guard looks at alerts about all channels too.
COMMENT ON COLUMN alerts.only_own_channel IS 'whether people can be told only through the channel that it is about, or of an alert about all channels, only through one';

-- migrate:down
COMMENT ON COLUMN alerts.only_own_channel IS 'whether the only ways to its receivers are the channel that it is about';
