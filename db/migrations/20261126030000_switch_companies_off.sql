-- migrate:up
-- Adds columns, which rewrites nothing: locks each table for a moment. A server of the version before reads lists of countries as it did, and a list
-- that it writes means the same to this version. It does not know the switches: switch nothing off before every server has this version.
SET LOCAL lock_timeout = '5s';
ALTER TABLE companies ADD COLUMN status text NOT NULL DEFAULT 'on';
ALTER TABLE companies ADD COLUMN any_country boolean NOT NULL DEFAULT true;
ALTER TABLE companies ADD COLUMN uses_shared_senders boolean NOT NULL DEFAULT true;
ALTER TABLE companies ADD CONSTRAINT companies_status_known CHECK (status IN ('on', 'off')) NOT VALID;
COMMENT ON COLUMN companies.status IS 'on or off; off: its tasks are held, and it submits none';
COMMENT ON COLUMN companies.any_country IS
    'the company may send to every country that is not switched off in company_countries; counts only while no country there is on';
COMMENT ON COLUMN companies.uses_shared_senders IS
    'shared senders may send the tasks of the company that none of its routes serves; false: these tasks are held';

ALTER TABLE channels ADD COLUMN status text NOT NULL DEFAULT 'on';
ALTER TABLE channels ADD COLUMN any_country boolean NOT NULL DEFAULT true;
ALTER TABLE channels ADD CONSTRAINT channels_status_known CHECK (status IN ('on', 'off')) NOT VALID;
COMMENT ON COLUMN channels.status IS 'on or off; off: its tasks are held';
COMMENT ON COLUMN channels.any_country IS
    'the channel serves every country that is not switched off in channel_countries; counts only while no country there is on';

ALTER TABLE countries ADD COLUMN status text NOT NULL DEFAULT 'on';
ALTER TABLE countries ADD CONSTRAINT countries_status_known CHECK (status IN ('on', 'off')) NOT VALID;
COMMENT ON COLUMN countries.status IS 'on or off; off: tasks to the country are held';

ALTER TABLE company_countries ADD COLUMN status text NOT NULL DEFAULT 'on';
ALTER TABLE company_countries ADD CONSTRAINT company_countries_status_known CHECK (status IN ('on', 'off')) NOT VALID;
COMMENT ON COLUMN company_countries.status IS 'on or off; off: tasks of the company to the country are held';
COMMENT ON TABLE company_countries IS
    'A country to which a company may send, or that is switched off for it. Without a row that is on, companies.any_country says whether the company may send to the others. Written by internal/directory.';

ALTER TABLE channel_countries ADD COLUMN status text NOT NULL DEFAULT 'on';
ALTER TABLE channel_countries ADD CONSTRAINT channel_countries_status_known CHECK (status IN ('on', 'off')) NOT VALID;
COMMENT ON COLUMN channel_countries.status IS 'on or off; off: tasks of the channel to the country are held';
COMMENT ON TABLE channel_countries IS
    'A country that a channel serves, or that is switched off for it. Without a row that is on, channels.any_country says whether the channel serves the others. Written by internal/directory.';

ALTER TABLE queue ADD COLUMN submitted_by text;
COMMENT ON COLUMN queue.submitted_by IS
    'the user whose task it is, as in messages; null: the task was stored by a server that did not know the column';

-- migrate:down
SET LOCAL lock_timeout = '5s';
COMMENT ON TABLE channel_countries IS
    'A country that a channel serves; a channel without rows serves every country. Written by internal/directory.';
COMMENT ON TABLE company_countries IS
    'A country to which a company may send; a company without rows may send to every country. Written by internal/directory.';
ALTER TABLE queue DROP COLUMN submitted_by;
DELETE FROM channel_countries WHERE status = 'off';
DELETE FROM company_countries WHERE status = 'off';
ALTER TABLE channel_countries DROP COLUMN status;
ALTER TABLE company_countries DROP COLUMN status;
ALTER TABLE countries DROP COLUMN status;
ALTER TABLE channels DROP COLUMN any_country, DROP COLUMN status;
ALTER TABLE companies DROP COLUMN uses_shared_senders, DROP COLUMN any_country, DROP COLUMN status;
