-- migrate:up
-- A phone that could not send opens the circuit breaker of its sender. Servers of the previous version still write these columns, so a later version drops them.
COMMENT ON COLUMN phones.troubles IS 'unused; a later version drops the column';
COMMENT ON COLUMN phones.rest_until IS 'unused; a later version drops the column';
COMMENT ON TABLE sender_states IS
    'The counters and the circuit breaker of a sender. Each row of senders has one row. Written by internal/dispatch/queue (claims, refunds) and internal/dispatch/sender. The columns are not in senders, so that a claim updates a short row in place.';

-- migrate:down
COMMENT ON COLUMN phones.troubles IS 'number of pauses since the phone last sent a message, at most 20';
COMMENT ON COLUMN phones.rest_until IS 'the end of a pause: the phone could not send, and gets no new messages until this time; null: not paused';
COMMENT ON TABLE sender_states IS
    'The counters and the circuit breaker of a sender. Each row of senders has one row. Written by internal/dispatch/queue (claims, refunds), internal/dispatch/push (circuit breaker) and internal/dispatch/sender. The columns are not in senders, so that a claim updates a short row in place.';
