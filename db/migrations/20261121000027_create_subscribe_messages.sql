-- migrate:up
-- What a person is told once: one row for a business object, a kind of message and who receives it (S2.1). Its task tells
-- what became of it.
CREATE TABLE subscribe_messages (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    company_id bigint NOT NULL REFERENCES companies (id),
    business_type text NOT NULL,
    business_id bigint NOT NULL,
    template_type text NOT NULL,
    receiver_user_id text NOT NULL,
    template_id text NOT NULL,
    task_id text COLLATE "C" NOT NULL,
    sends bigint NOT NULL DEFAULT 1,
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT subscribe_messages_once_key UNIQUE (company_id, business_type, business_id, template_type, receiver_user_id),
    CONSTRAINT subscribe_messages_lengths CHECK (
        char_length(business_type) BETWEEN 1 AND 50 AND char_length(template_type) BETWEEN 1 AND 50
        AND char_length(receiver_user_id) BETWEEN 1 AND 64 AND char_length(template_id) BETWEEN 1 AND 100
    )
);

-- migrate:down
DROP TABLE subscribe_messages;
