-- migrate:up
-- What a provider takes for a segment, so that daily totals have costs. Both statements lock the table for a moment; the second reads it, and it is small.
SET LOCAL lock_timeout = '5s';
ALTER TABLE senders ADD COLUMN segment_price bigint;
ALTER TABLE senders ADD CONSTRAINT senders_segment_price_range CHECK (segment_price BETWEEN 0 AND 1000000000) NOT VALID;
COMMENT ON COLUMN senders.segment_price IS
    'what the provider takes for a segment, in 1/10000 of the currency in the setting monitoring.currency; null: not known, and costs nothing';

-- migrate:down
ALTER TABLE senders DROP COLUMN segment_price;
