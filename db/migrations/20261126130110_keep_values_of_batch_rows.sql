-- migrate:up
-- A row of a batch on another channel has values for the text that all rows share. Rewrites no row.
ALTER TABLE batch_rows ADD COLUMN contact_values jsonb;
COMMENT ON COLUMN batch_rows.recipient IS 'the address on the channel: a phone number in E.164; as it is in the list if it is not valid';
COMMENT ON COLUMN batch_rows.content IS 'the text without signature, of another channel than sms its beginning; empty: it could not be made';
COMMENT ON COLUMN batch_rows.contact_values IS 'the values of the placeholders of the rendering; null: the text has none';

-- migrate:down
ALTER TABLE batch_rows DROP COLUMN contact_values;
COMMENT ON COLUMN batch_rows.recipient IS 'the phone number in E.164; as it is in the list if it is not valid';
COMMENT ON COLUMN batch_rows.content IS 'the text without signature; empty: it could not be made';
