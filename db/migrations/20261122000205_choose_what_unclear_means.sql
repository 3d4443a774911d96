-- migrate:up
-- What follows when nobody knows whether a message went out. Constant defaults, and checks that no row can break: tasks, senders and
-- report_logs are locked for a moment only.
ALTER TABLE senders ADD COLUMN on_unclear text NOT NULL DEFAULT 'retry';
ALTER TABLE senders ADD CONSTRAINT senders_on_unclear_known CHECK (on_unclear IN ('retry', 'fail')) NOT VALID;
COMMENT ON COLUMN senders.on_unclear IS 'an attempt of which nobody knows whether it went out: retry: is repeated when its lease has run out; fail: was the last';
ALTER TABLE tasks ADD COLUMN on_unclear text;
ALTER TABLE tasks ADD CONSTRAINT tasks_on_unclear_known CHECK (on_unclear IN ('retry', 'fail')) NOT VALID;
COMMENT ON COLUMN tasks.on_unclear IS 'as senders.on_unclear, which it overrides; null: as the sender has it';
ALTER TABLE report_logs DROP CONSTRAINT report_logs_effect_known;
ALTER TABLE report_logs ADD CONSTRAINT report_logs_effect_known CHECK (
    effect IN (
        'success', 'failed', 'retry', 'exhausted', 'unclear', 'untried', 'troubled', 'ignored', 'refused', 'cancelled', 'expired', 'delivered',
        'undelivered'
    )
) NOT VALID;

-- migrate:down
UPDATE report_logs SET effect = 'exhausted' WHERE effect = 'unclear';
ALTER TABLE report_logs DROP CONSTRAINT report_logs_effect_known;
ALTER TABLE report_logs ADD CONSTRAINT report_logs_effect_known CHECK (
    effect IN (
        'success', 'failed', 'retry', 'exhausted', 'untried', 'troubled', 'ignored', 'refused', 'cancelled', 'expired', 'delivered',
        'undelivered'
    )
) NOT VALID;
ALTER TABLE tasks DROP COLUMN on_unclear;
ALTER TABLE senders DROP COLUMN on_unclear;
