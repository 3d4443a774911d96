-- migrate:up
COMMENT ON COLUMN reply_actions.due_at IS 'the time from which on the rules are applied; infinity: when the company is on';
COMMENT ON COLUMN reply_actions.created_at IS 'the time at which the message arrived: the replies to a number within an hour are counted by it, so that messages that waited count like others';
COMMENT ON COLUMN reply_actions.phone_number IS 'received_messages.phone_number';

-- migrate:down
COMMENT ON COLUMN reply_actions.phone_number IS 'received_messages.phone_number: the replies to a number within an hour are counted';
COMMENT ON COLUMN reply_actions.created_at IS NULL;
COMMENT ON COLUMN reply_actions.due_at IS 'the time from which on the rules are applied';
