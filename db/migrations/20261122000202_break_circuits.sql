-- migrate:up
-- The circuit breaker of a driven sender, for all servers. The columns have constant defaults: sender_states is locked for a moment
-- only, and no row is rewritten.
ALTER TABLE sender_states ADD COLUMN openings bigint NOT NULL DEFAULT 0;
ALTER TABLE sender_states ADD COLUMN rest_until timestamptz;
ALTER TABLE sender_states ADD COLUMN rest_reason text;
ALTER TABLE sender_states ADD COLUMN probe_until timestamptz;
COMMENT ON COLUMN sender_states.openings IS 'how often the circuit breaker opened since a message last got through; 0: it is closed';
COMMENT ON COLUMN sender_states.rest_until IS 'the breaker is open until then, and half-open after; null: it is closed';
COMMENT ON COLUMN sender_states.rest_reason IS 'what the provider said when the breaker opened; null: it is closed';
COMMENT ON COLUMN sender_states.probe_until IS 'half-open: one worker tries one message until then; null: none does';

-- migrate:down
ALTER TABLE sender_states DROP COLUMN openings, DROP COLUMN rest_until, DROP COLUMN rest_reason, DROP COLUMN probe_until;
