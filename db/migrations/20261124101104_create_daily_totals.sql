-- migrate:up
CREATE TABLE daily_totals (
    id bigint GENERATED ALWAYS AS IDENTITY,
    day date NOT NULL,
    company_id bigint NOT NULL,
    sender_no text NOT NULL,
    message_type text NOT NULL,
    country_no text NOT NULL,
    is_test boolean NOT NULL,
    attempted bigint NOT NULL,
    accepted bigint NOT NULL,
    delivered bigint NOT NULL,
    segments bigint NOT NULL,
    cost bigint NOT NULL,
    CONSTRAINT daily_totals_pkey PRIMARY KEY (id),
    CONSTRAINT daily_totals_key UNIQUE (company_id, day, sender_no, message_type, country_no, is_test)
);
CREATE INDEX daily_totals_day_idx ON daily_totals (day, id);
COMMENT ON TABLE daily_totals IS
    'What a sender did for a company on one day of the setting monitoring.time_zone, in messages of one type to one country. Tests are apart: no company '
    'sees them, but a provider counts them. Written by internal/reconcile alone, in the transaction that deletes the facts; kept for ever.';
COMMENT ON COLUMN daily_totals.day IS 'on which the attempts ended: the day on which the provider accepted them';
COMMENT ON COLUMN daily_totals.company_id IS 'no foreign key: the row outlives the company';
COMMENT ON COLUMN daily_totals.sender_no IS 'no foreign key, as facts.sender_no';
COMMENT ON COLUMN daily_totals.message_type IS 'as messages.message_type; empty: not known';
COMMENT ON COLUMN daily_totals.country_no IS 'empty: none, as outside of SMS';
COMMENT ON COLUMN daily_totals.attempted IS 'leases that the sender ended by a report';
COMMENT ON COLUMN daily_totals.accepted IS 'of these, reported SUCCESS';
COMMENT ON COLUMN daily_totals.delivered IS 'receipts that said so, on the day on which their message was accepted';
COMMENT ON COLUMN daily_totals.segments IS 'of the accepted messages';
COMMENT ON COLUMN daily_totals.cost IS 'of the segments, by the price that the sender had when they were counted; in 1/10000 of the currency';

-- migrate:down
DROP TABLE daily_totals;
