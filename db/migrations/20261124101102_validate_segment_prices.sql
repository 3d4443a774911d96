-- migrate:up
-- It reads senders and locks nobody out.
ALTER TABLE senders VALIDATE CONSTRAINT senders_segment_price_range;

-- migrate:down
SELECT 1; -- the constraint leaves with its column
