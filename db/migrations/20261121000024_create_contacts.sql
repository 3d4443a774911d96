-- migrate:up
CREATE TABLE contacts (
    company_id bigint NOT NULL REFERENCES companies (id),
    user_id text NOT NULL,
    phone text,
    dingtalk_name text,
    wechat_openid text,
    email text,
    updated_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (company_id, user_id),
    CONSTRAINT contacts_lengths CHECK (
        char_length(user_id) BETWEEN 1 AND 64 AND char_length(phone) BETWEEN 1 AND 20 AND char_length(dingtalk_name) BETWEEN 1 AND 100
        AND char_length(wechat_openid) BETWEEN 1 AND 100 AND char_length(email) BETWEEN 1 AND 254
    )
);

-- migrate:down
DROP TABLE contacts;
