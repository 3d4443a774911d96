-- migrate:up
ALTER TABLE messages ADD COLUMN exemption text;
COMMENT ON COLUMN messages.exemption IS
    'the rules about recipients that do not concern the message, also if it is requeued. caps: caps neither delay nor refuse nor count it. caps_and_quiet: the same, '
    'and it has no quiet hours. null: all rules concern it, or a server that did not know this column stored it';

-- migrate:down
ALTER TABLE messages DROP COLUMN exemption;
