-- migrate:up
-- Several countries share a dial prefix: 25 share +1. The region that a number belongs to tells them apart. The table is small: its
-- lock is held for a moment.
ALTER TABLE countries ADD COLUMN region text;
-- squawk-ignore constraint-missing-not-valid
ALTER TABLE countries ADD CONSTRAINT countries_region_form CHECK (region ~ '^[A-Z]{2}$');
COMMENT ON COLUMN countries.region IS 'ISO 3166-1: only its numbers belong to the country; null: every number with the dial prefix';
ALTER TABLE countries DROP CONSTRAINT countries_dial_prefix_key;
-- squawk-ignore require-concurrent-index-creation
CREATE UNIQUE INDEX countries_dial_prefix_region_key ON countries (dial_prefix, coalesce(region, ''));

-- A country that is numbered by its region, and shares its prefix with others, had the numbers of the others too.
UPDATE countries SET region = country_no, version = version + 1, updated_at = now()
WHERE country_no = ANY (CASE dial_prefix
    WHEN '1' THEN ARRAY['US', 'CA', 'PR', 'DO', 'JM', 'BS', 'BB', 'TT']
    WHEN '7' THEN ARRAY['RU', 'KZ']
    WHEN '39' THEN ARRAY['IT', 'VA']
    WHEN '44' THEN ARRAY['GB', 'GG', 'IM', 'JE']
    WHEN '47' THEN ARRAY['NO', 'SJ']
    WHEN '61' THEN ARRAY['AU', 'CC', 'CX']
    WHEN '212' THEN ARRAY['MA', 'EH']
    WHEN '262' THEN ARRAY['RE', 'YT']
    WHEN '358' THEN ARRAY['FI', 'AX']
    WHEN '590' THEN ARRAY['GP', 'BL', 'MF']
    WHEN '599' THEN ARRAY['CW', 'BQ']
END);

-- migrate:down
-- Of several countries with a prefix, the oldest keeps it: the prefix was of one country, and what refers to the others stays. They
-- get prefixes that no number has.
UPDATE countries c SET dial_prefix = '999' || lpad((c.id % 10000)::text, 4, '0')
WHERE EXISTS (SELECT FROM countries o WHERE o.dial_prefix = c.dial_prefix AND o.id < c.id);
DROP INDEX countries_dial_prefix_region_key;
ALTER TABLE countries ADD CONSTRAINT countries_dial_prefix_key UNIQUE (dial_prefix);
ALTER TABLE countries DROP COLUMN region;
