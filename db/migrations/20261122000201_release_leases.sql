-- migrate:up
-- A driver gives leases back that it did not use. The log knows the event; the checks become wider, so that no row can break them and
-- none has to be read: report_logs is locked for a moment only.
ALTER TABLE report_logs DROP CONSTRAINT report_logs_event_known;
ALTER TABLE report_logs ADD CONSTRAINT report_logs_event_known CHECK (
    event IN ('reported', 'recovered', 'released', 'cancelled', 'expired', 'receipt')
) NOT VALID;
ALTER TABLE report_logs DROP CONSTRAINT report_logs_effect_known;
ALTER TABLE report_logs ADD CONSTRAINT report_logs_effect_known CHECK (
    effect IN (
        'success', 'failed', 'retry', 'exhausted', 'untried', 'troubled', 'ignored', 'refused', 'cancelled', 'expired', 'delivered',
        'undelivered'
    )
) NOT VALID;

-- migrate:down
DELETE FROM report_logs WHERE event = 'released';
ALTER TABLE report_logs DROP CONSTRAINT report_logs_event_known;
ALTER TABLE report_logs ADD CONSTRAINT report_logs_event_known CHECK (
    event IN ('reported', 'recovered', 'cancelled', 'expired', 'receipt')
) NOT VALID;
ALTER TABLE report_logs DROP CONSTRAINT report_logs_effect_known;
ALTER TABLE report_logs ADD CONSTRAINT report_logs_effect_known CHECK (
    effect IN (
        'success', 'failed', 'retry', 'exhausted', 'ignored', 'refused', 'cancelled', 'expired', 'delivered', 'undelivered'
    )
) NOT VALID;
