-- migrate:up
-- The signature of what is told, as that of a message that is submitted. Adding columns without a default holds the tables for a moment.
ALTER TABLE notifications ADD COLUMN sign text;
COMMENT ON COLUMN notifications.sign IS 'goes before the text; null: the template''s, else the sender''s';
ALTER TABLE notification_templates ADD COLUMN sign text;
-- squawk-ignore constraint-missing-not-valid
ALTER TABLE notification_templates ADD CONSTRAINT notification_templates_sign_length CHECK (char_length(sign) BETWEEN 1 AND 20);
COMMENT ON COLUMN notification_templates.sign IS 'goes before the text where the notification has none; null: the sender''s';

-- migrate:down
ALTER TABLE notification_templates DROP COLUMN sign;
ALTER TABLE notifications DROP COLUMN sign;
