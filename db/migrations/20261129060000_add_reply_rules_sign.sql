-- migrate:up
ALTER TABLE reply_rules ADD COLUMN sign text CONSTRAINT reply_rules_sign_length CHECK (char_length(sign) BETWEEN 1 AND 20);
COMMENT ON COLUMN reply_rules.sign IS 'the signature of replies and forwards; null: the signature of the template, or, without a template, of the task that the message answers';

-- migrate:down
ALTER TABLE reply_rules DROP COLUMN sign;
