-- migrate:up
-- One server at a time calls a receiver.
COMMENT ON COLUMN alert_receiver_states.next_call_at IS 'it is not called before: a call failed, or a server is calling';

-- migrate:down
COMMENT ON COLUMN alert_receiver_states.next_call_at IS 'it is not called before';
