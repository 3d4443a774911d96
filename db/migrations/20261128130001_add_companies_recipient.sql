-- migrate:up
-- The table is not rewritten, because the default is not volatile. It is locked for a moment.
ALTER TABLE companies ADD COLUMN recipient jsonb DEFAULT '{}' NOT NULL;
COMMENT ON COLUMN companies.recipient IS
    'the company''s own rules about recipients: quiet_hours (hours by message type) and time_zone. A rule that is missing or null is the rule of the platform';

CREATE TRIGGER quiet_hours_changed AFTER UPDATE ON companies FOR EACH ROW
    WHEN (old.recipient -> 'quiet_hours' IS DISTINCT FROM new.recipient -> 'quiet_hours' OR old.recipient -> 'time_zone' IS DISTINCT FROM new.recipient -> 'time_zone')
    EXECUTE FUNCTION quiet_hours_change();

-- migrate:down
DROP TRIGGER quiet_hours_changed ON companies;
ALTER TABLE companies DROP COLUMN recipient;
