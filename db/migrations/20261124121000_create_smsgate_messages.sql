-- migrate:up
CREATE TABLE smsgate_messages (
    company_id bigint NOT NULL,
    submitted_by text NOT NULL,
    message_id text COLLATE "C" NOT NULL,
    task_ids text[] COLLATE "C" NOT NULL,
    sender_no text,
    created_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT smsgate_messages_pkey PRIMARY KEY (company_id, submitted_by, message_id),
    CONSTRAINT smsgate_messages_message_id_length CHECK (char_length(message_id) BETWEEN 1 AND 36),
    CONSTRAINT smsgate_messages_task_ids_size CHECK (cardinality(task_ids) BETWEEN 1 AND 100)
);
CREATE INDEX smsgate_messages_list_idx ON smsgate_messages (company_id, submitted_by, created_at, message_id) INCLUDE (sender_no);
CREATE INDEX smsgate_messages_created_idx ON smsgate_messages (created_at);
COMMENT ON TABLE smsgate_messages IS
    'A message that a program submitted through the third-party API of SMSGate: one task for each recipient. Written by internal/smsgateclient in the '
    'transaction that submits the tasks, so that a message_id exists once; deleted when the days of its tasks are dropped.';
COMMENT ON COLUMN smsgate_messages.submitted_by IS 'as messages.submitted_by: the user name, which no foreign key keeps';
COMMENT ON COLUMN smsgate_messages.message_id IS 'the id that the program gave, or one that was made; of one user of a company';
COMMENT ON COLUMN smsgate_messages.task_ids IS 'in the order of the recipients; no foreign key: messages are partitioned';
COMMENT ON COLUMN smsgate_messages.sender_no IS 'the only sender that may send it, as it was asked for; null: any';

-- migrate:down
DROP TABLE smsgate_messages;
