-- migrate:up
-- Reads small tables, and locks out nobody.
ALTER TABLE companies VALIDATE CONSTRAINT companies_status_known;
ALTER TABLE channels VALIDATE CONSTRAINT channels_status_known;
ALTER TABLE countries VALIDATE CONSTRAINT countries_status_known;
ALTER TABLE company_countries VALIDATE CONSTRAINT company_countries_status_known;
ALTER TABLE channel_countries VALIDATE CONSTRAINT channel_countries_status_known;

-- migrate:down
-- What holds for all rows holds for the new ones.
SELECT 1;
