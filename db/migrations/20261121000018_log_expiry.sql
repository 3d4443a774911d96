-- migrate:up
ALTER TABLE report_logs DROP CONSTRAINT report_logs_event_known;
-- squawk-ignore constraint-missing-not-valid
ALTER TABLE report_logs ADD CONSTRAINT report_logs_event_known CHECK (event IN ('reported', 'recovered', 'cancelled', 'expired'));
ALTER TABLE report_logs DROP CONSTRAINT report_logs_effect_known;
-- squawk-ignore constraint-missing-not-valid
ALTER TABLE report_logs ADD CONSTRAINT report_logs_effect_known CHECK (
    effect IN ('success', 'failed', 'retry', 'exhausted', 'ignored', 'refused', 'cancelled', 'expired')
);

-- migrate:down
ALTER TABLE report_logs DROP CONSTRAINT report_logs_event_known;
ALTER TABLE report_logs ADD CONSTRAINT report_logs_event_known CHECK (event IN ('reported', 'recovered', 'cancelled')) NOT VALID;
ALTER TABLE report_logs DROP CONSTRAINT report_logs_effect_known;
ALTER TABLE report_logs ADD CONSTRAINT report_logs_effect_known CHECK (
    effect IN ('success', 'failed', 'retry', 'exhausted', 'ignored', 'refused', 'cancelled')
) NOT VALID;
