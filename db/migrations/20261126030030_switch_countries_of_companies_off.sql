-- migrate:up
-- Adds columns, which rewrites nothing: locks the table for a moment.
ALTER TABLE company_countries ADD COLUMN status text NOT NULL DEFAULT 'on';
ALTER TABLE company_countries ADD CONSTRAINT company_countries_status_known CHECK (status IN ('on', 'off')) NOT VALID;
COMMENT ON COLUMN company_countries.status IS 'on or off; off: tasks of the company to the country are held';
COMMENT ON TABLE company_countries IS
    'A country to which a company may send, or that is switched off for it. Without a row that is on, companies.any_country says whether the company may send to the others. Written by internal/directory.';

-- migrate:down
COMMENT ON TABLE company_countries IS
    'A country to which a company may send; a company without rows may send to every country. Written by internal/directory.';
DELETE FROM company_countries WHERE status = 'off';
ALTER TABLE company_countries DROP COLUMN status;
