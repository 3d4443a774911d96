-- migrate:up
-- What providers said of a lease: that they took the message, and what they call it, or nothing that could be understood.
CREATE TABLE deliveries (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    task_id text COLLATE "C" NOT NULL,
    lease_id bigint NOT NULL,
    sender_no text NOT NULL,
    recipient text NOT NULL,
    provider_no text,
    error text,
    created_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT deliveries_provider_no_length CHECK (char_length(provider_no) BETWEEN 1 AND 200),
    CONSTRAINT deliveries_error_length CHECK (char_length(error) <= 500)
);
CREATE INDEX deliveries_task_idx ON deliveries (task_id);
CREATE INDEX deliveries_provider_no_idx ON deliveries (sender_no, provider_no) WHERE provider_no IS NOT NULL;

-- migrate:down
DROP TABLE deliveries;
