-- migrate:up
ALTER TABLE receipts ADD COLUMN other_nos text[];
COMMENT ON COLUMN receipts.other_nos IS 'other forms of provider_no, such as in another base. If no message has provider_no, the message with one of them and with the recipient gets the receipt, and provider_no becomes its number; null: none';
COMMENT ON COLUMN callbacks.left_out IS 'number of items that could not be read, although the callback was accepted';

-- migrate:down
COMMENT ON COLUMN callbacks.left_out IS 'number of items that could not be read, while other items of the body could';
ALTER TABLE receipts DROP COLUMN other_nos;
