-- migrate:up
-- The addresses that the request named are kept apart from those of the contacts that it found: a contact that only shares one of the latter is another
-- person.
ALTER TABLE erasures ADD COLUMN asked_recipients text[] NOT NULL DEFAULT '{}';
COMMENT ON COLUMN erasures.asked_recipients IS 'the addresses that the request named: all contacts with one of them are erased; {} when it has ended';
COMMENT ON COLUMN erasures.asked_by IS 'user_id: the messages of this user, and those that were submitted to the addresses of its contact; address: also all messages to asked_recipients';
DROP TRIGGER audited ON erasures;
CREATE TRIGGER audited AFTER INSERT ON erasures
FOR EACH ROW EXECUTE FUNCTION audit_change('erasure', 'id', 'user_ids,recipients,asked_recipients,status,held,counts,exports,created_by,next_at,finished_at');

-- migrate:down
DROP TRIGGER audited ON erasures;
CREATE TRIGGER audited AFTER INSERT ON erasures
FOR EACH ROW EXECUTE FUNCTION audit_change('erasure', 'id', 'user_ids,recipients,status,held,counts,exports,created_by,next_at,finished_at');
COMMENT ON COLUMN erasures.asked_by IS 'user_id: the messages of this user, and those that were submitted to the addresses of its contact; address: all messages to this phone number or e-mail address';
ALTER TABLE erasures DROP COLUMN asked_recipients;
