-- migrate:up
-- Contacts are found by the beginning of a field, in the order of these indexes. The collation C makes this order, and the case of the letters A to Z,
-- the same in each database. Writes of contacts wait while the indexes are built: some seconds for a million contacts.
-- squawk-ignore require-concurrent-index-creation
CREATE INDEX contacts_user_id_idx ON contacts (company_id, lower(user_id COLLATE "C"), user_id);
-- squawk-ignore require-concurrent-index-creation
CREATE INDEX contacts_phone_idx ON contacts (company_id, phone COLLATE "C", user_id) WHERE phone IS NOT NULL;
-- squawk-ignore require-concurrent-index-creation
CREATE INDEX contacts_email_idx ON contacts (company_id, lower(email COLLATE "C"), user_id) WHERE email IS NOT NULL;
-- squawk-ignore require-concurrent-index-creation
CREATE INDEX contacts_dingtalk_name_idx ON contacts (company_id, lower(dingtalk_name COLLATE "C"), user_id) WHERE dingtalk_name IS NOT NULL;

-- migrate:down
DROP INDEX contacts_dingtalk_name_idx;
DROP INDEX contacts_email_idx;
DROP INDEX contacts_phone_idx;
DROP INDEX contacts_user_id_idx;
