-- migrate:up
CREATE TABLE sender_answers (
    id bigint GENERATED ALWAYS AS IDENTITY CONSTRAINT sender_answers_pkey PRIMARY KEY,
    sender_id bigint NOT NULL CONSTRAINT sender_answers_sender_id_fkey REFERENCES senders (id) ON DELETE CASCADE,
    task_id text COLLATE "C" NOT NULL,
    outcome text NOT NULL,
    code text,
    error text,
    answer text,
    created_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT sender_answers_outcome_known CHECK (outcome IN ('sent', 'refused', 'unclear', 'trouble'))
);
CREATE INDEX sender_answers_sender_idx ON sender_answers (sender_id, id);
COMMENT ON TABLE sender_answers IS
    'One of the last ten outcomes of calls of a driven sender. Written by internal/push, which deletes older rows. task_id has no foreign key: the task may leave first.';
COMMENT ON COLUMN sender_answers.answer IS 'the answer of the provider as it came, without secrets, at most 2,000 characters; null: none came';
COMMENT ON COLUMN sender_answers.code IS 'the code of a failure, of the provider or of the driver; null: it has none';
COMMENT ON COLUMN sender_answers.error IS 'the failure as text; null: the message was sent';

-- migrate:down
DROP TABLE sender_answers;
