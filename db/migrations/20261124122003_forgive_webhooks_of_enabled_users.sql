-- migrate:up
-- Nothing is posted to the webhooks of a user that is disabled: that time is no time in which their receivers failed.
SET LOCAL lock_timeout = '5s';
CREATE FUNCTION users_forgive_webhooks() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE webhooks w SET failing_since = NULL, failed_runs = 0, rest_until = NULL WHERE w.user_id = NEW.id AND w.failing_since IS NOT NULL;
    RETURN NULL;
END
$$;
CREATE TRIGGER users_forgive_webhooks AFTER UPDATE ON users
FOR EACH ROW WHEN (OLD.is_disabled AND NOT NEW.is_disabled) EXECUTE FUNCTION users_forgive_webhooks();

-- migrate:down
SET LOCAL lock_timeout = '5s';
DROP TRIGGER users_forgive_webhooks ON users;
DROP FUNCTION users_forgive_webhooks();
