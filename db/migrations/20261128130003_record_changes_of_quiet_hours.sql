-- migrate:up
CREATE TRIGGER quiet_hours_changed AFTER INSERT OR UPDATE ON settings FOR EACH ROW
    WHEN (new.category = 'recipient' AND starts_with(new.name, 'quiet_hours_') OR new.category = 'monitoring' AND new.name = 'time_zone')
    EXECUTE FUNCTION quiet_hours_change();

-- migrate:down
DROP TRIGGER quiet_hours_changed ON settings;
