-- migrate:up
COMMENT ON COLUMN batches.by_country IS
    'the valid rows and their segments by country when the check ended: [{"country_no", "rows", "segments", "unsigned", "by_sender"}]. by_sender has the segments as senders count them that do so in a way of their own: [{"sign", "forbids_signs", "segment_size", "segments"}]. null: it is being checked';

-- migrate:down
COMMENT ON COLUMN batches.by_country IS
    'the valid rows and their segments by country when the check ended: [{"country_no", "rows", "segments"}]; null: it is being checked, or a server that does not know this column checked it';
