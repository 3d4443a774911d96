-- migrate:up
-- No sender breaks the rule: all sign in the text until they are changed.
ALTER TABLE senders VALIDATE CONSTRAINT senders_sign_allowed;

-- migrate:down
