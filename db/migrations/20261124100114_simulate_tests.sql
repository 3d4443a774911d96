-- migrate:up
-- A test message that is not sent ends when it is submitted. The new constraint allows more than the one before, so no row can break it: it is validated
-- by the next migration, which blocks no writes. This one locks report_logs for a moment. See add_dimensions_to_facts.
SET LOCAL lock_timeout = '5s';
ALTER TABLE report_logs DROP CONSTRAINT report_logs_event_known;
ALTER TABLE report_logs ADD CONSTRAINT report_logs_event_known CHECK (event IN (
    'reported', 'recovered', 'released', 'cancelled', 'expired', 'receipt', 'past_receipt', 'unreachable', 'requeued', 'simulated'
)) NOT VALID;
COMMENT ON COLUMN report_logs.event IS
    'past_receipt: a receipt of an attempt from before the task was requeued; simulated: a test message that no sender got; the other names say it';

-- migrate:down
-- Tests that were not sent keep their outcome as that of a report without a sender.
SET LOCAL lock_timeout = '5s';
ALTER TABLE report_logs DROP CONSTRAINT report_logs_event_known;
UPDATE report_logs SET event = 'reported' WHERE event = 'simulated';
ALTER TABLE report_logs ADD CONSTRAINT report_logs_event_known CHECK (event IN (
    'reported', 'recovered', 'released', 'cancelled', 'expired', 'receipt', 'past_receipt', 'unreachable', 'requeued'
)) NOT VALID;
COMMENT ON COLUMN report_logs.event IS
    'past_receipt: a receipt of an attempt from before the task was requeued; the other names say it';
