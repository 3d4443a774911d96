-- migrate:up
ALTER TABLE templates ADD COLUMN send_type text NOT NULL DEFAULT 'realtime';
ALTER TABLE templates ADD COLUMN companies text[] NOT NULL DEFAULT '{}';
COMMENT ON COLUMN templates.send_type IS 'scheduled: what it renders goes out at the next full interval of a setting, unless a time was asked for';
COMMENT ON COLUMN templates.companies IS 'whose submissions it may render, by company_no; none: everybody''s';
-- squawk-ignore constraint-missing-not-valid
ALTER TABLE templates ADD CONSTRAINT templates_send_type_known CHECK (send_type IN ('realtime', 'scheduled'));

-- migrate:down
ALTER TABLE templates DROP COLUMN companies;
ALTER TABLE templates DROP COLUMN send_type;
