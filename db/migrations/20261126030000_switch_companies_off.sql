-- migrate:up
-- Adds columns, which rewrites nothing: locks the table for a moment. A server of the version before reads lists of countries as it did, and a list
-- that it writes means the same to this version. It does not know the switches: switch nothing off before every server has this version.
ALTER TABLE companies ADD COLUMN status text NOT NULL DEFAULT 'on';
ALTER TABLE companies ADD COLUMN any_country boolean NOT NULL DEFAULT true;
ALTER TABLE companies ADD COLUMN uses_shared_senders boolean NOT NULL DEFAULT true;
ALTER TABLE companies ADD CONSTRAINT companies_status_known CHECK (status IN ('on', 'off')) NOT VALID;
COMMENT ON COLUMN companies.status IS 'on or off; off: its tasks are held, and it submits none';
COMMENT ON COLUMN companies.any_country IS
    'the company may send to every country that is not switched off in company_countries; counts only while no country there is on';
COMMENT ON COLUMN companies.uses_shared_senders IS
    'shared senders may send the tasks of the company that none of its routes serves; false: these tasks are held';

-- migrate:down
ALTER TABLE companies DROP COLUMN uses_shared_senders, DROP COLUMN any_country, DROP COLUMN status;
