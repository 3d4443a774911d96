-- migrate:up
CREATE TABLE default_contents (
    id bigint GENERATED ALWAYS AS IDENTITY,
    phone_number text NOT NULL,
    recipient text NOT NULL,
    content text NOT NULL,
    use_template boolean NOT NULL DEFAULT false,
    is_sent boolean NOT NULL DEFAULT false,
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT default_contents_pkey PRIMARY KEY (id),
    CONSTRAINT default_contents_recipient_key UNIQUE (recipient),
    CONSTRAINT default_contents_content_length CHECK (char_length(content) BETWEEN 1 AND 200)
);
COMMENT ON COLUMN default_contents.phone_number IS 'as it was sent';
COMMENT ON COLUMN default_contents.recipient IS 'the same number normalised to E.164, so that it is unique however it is written';

-- migrate:down
DROP TABLE default_contents;
