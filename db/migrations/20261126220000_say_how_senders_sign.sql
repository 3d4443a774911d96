-- migrate:up
-- A sender says who puts the signature before a text, if anybody does. A constant default rewrites no row. A server of the version before puts it there
-- itself, whatever a sender says. The next migration checks senders_sign_allowed.
ALTER TABLE senders
    ADD COLUMN sign_mode text NOT NULL DEFAULT 'in_text'
        CONSTRAINT senders_sign_mode_known CHECK (sign_mode IN ('in_text', 'by_provider', 'none')),
    ADD CONSTRAINT senders_sign_allowed CHECK (sign_mode <> 'none' OR sign IS NULL) NOT VALID;
COMMENT ON COLUMN senders.sign_mode IS
    'in_text: the signature stands before the text that the sender gets; by_provider: the provider adds it; none: the message goes out without';

-- migrate:down
ALTER TABLE senders DROP COLUMN sign_mode;
