-- migrate:up
-- Several users of a company work on one batch: the table keeps who confirmed, paused, resumed, cancelled and requeued it. The foreign key takes a short
-- lock on batches, against which only DDL conflicts and writes wait for a moment.
SET LOCAL lock_timeout = '5s';
CREATE TABLE batch_acts (
    batch_id bigint NOT NULL REFERENCES batches (id) ON DELETE CASCADE,
    id bigint GENERATED ALWAYS AS IDENTITY,
    act text NOT NULL CONSTRAINT batch_acts_act_known CHECK (act IN ('confirmed', 'paused', 'resumed', 'cancelled', 'requeued')),
    username text NOT NULL,
    at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (batch_id, id)
);
COMMENT ON TABLE batch_acts IS 'What a user did with a batch. Written by internal/batch, in the statement or the transaction of the change.';
COMMENT ON COLUMN batch_acts.username IS 'no foreign key: the configured user is in no table';

-- migrate:down
DROP TABLE batch_acts;
