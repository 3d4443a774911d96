-- migrate:up
-- Comments lock nothing that submissions need.
COMMENT ON COLUMN messages.submitted_content IS 'the content of the request, or the params for its template_no; null: the same as content';
COMMENT ON COLUMN messages.request_data IS
    'the request as it came; of a message from a template with the member template, which no request has: the number, version and language of the text';

-- migrate:down
COMMENT ON COLUMN messages.submitted_content IS 'the content of the request; null: the same as content';
COMMENT ON COLUMN messages.request_data IS NULL;
