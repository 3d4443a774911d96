-- migrate:up
-- What providers told of messages that they had taken, each as it came.
CREATE TABLE callbacks (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    sender_no text NOT NULL,
    source_ip text NOT NULL,
    body text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now()
);
-- What they said of one message. Until matched_at its message is not known: it may come before the answer to its sending.
CREATE TABLE receipts (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    callback_id bigint NOT NULL,
    sender_no text NOT NULL,
    provider_no text NOT NULL,
    recipient text NOT NULL DEFAULT '',
    state smallint NOT NULL,
    code text NOT NULL DEFAULT '',
    created_at timestamptz NOT NULL DEFAULT now(),
    matched_at timestamptz,
    CONSTRAINT receipts_once_key UNIQUE (sender_no, provider_no, recipient, state, code),
    CONSTRAINT receipts_state_known CHECK (state IN (0, 1, 2)),
    CONSTRAINT receipts_lengths CHECK (
        char_length(provider_no) BETWEEN 1 AND 200 AND char_length(recipient) <= 100 AND char_length(code) <= 100
    )
);
COMMENT ON COLUMN receipts.state IS '0: on its way; 1: delivered; 2: undelivered';
CREATE INDEX receipts_parked_idx ON receipts (id) WHERE matched_at IS NULL;
ALTER TABLE tasks ADD COLUMN delivery smallint;
ALTER TABLE tasks ADD COLUMN delivery_code text;
ALTER TABLE tasks ADD COLUMN delivered_at timestamptz;
COMMENT ON COLUMN tasks.delivery IS 'what the provider told after it was sent: 1: delivered; 2: undelivered';
ALTER TABLE report_logs DROP CONSTRAINT report_logs_effect_known;
-- squawk-ignore constraint-missing-not-valid
ALTER TABLE report_logs ADD CONSTRAINT report_logs_effect_known CHECK (
    effect IN (
        'success', 'failed', 'retry', 'exhausted', 'ignored', 'refused', 'cancelled', 'expired', 'delivered', 'undelivered'
    )
);
ALTER TABLE report_logs DROP CONSTRAINT report_logs_event_known;
-- squawk-ignore constraint-missing-not-valid
ALTER TABLE report_logs ADD CONSTRAINT report_logs_event_known CHECK (
    event IN ('reported', 'recovered', 'cancelled', 'expired', 'receipt')
);

-- migrate:down
DELETE FROM report_logs WHERE event = 'receipt';
ALTER TABLE report_logs DROP CONSTRAINT report_logs_event_known;
ALTER TABLE report_logs ADD CONSTRAINT report_logs_event_known CHECK (event IN ('reported', 'recovered', 'cancelled', 'expired')) NOT VALID;
ALTER TABLE report_logs DROP CONSTRAINT report_logs_effect_known;
ALTER TABLE report_logs ADD CONSTRAINT report_logs_effect_known CHECK (
    effect IN ('success', 'failed', 'retry', 'exhausted', 'ignored', 'refused', 'cancelled', 'expired')
) NOT VALID;
ALTER TABLE tasks DROP COLUMN delivered_at;
ALTER TABLE tasks DROP COLUMN delivery_code;
ALTER TABLE tasks DROP COLUMN delivery;
DROP TABLE receipts;
DROP TABLE callbacks;
