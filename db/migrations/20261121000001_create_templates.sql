-- migrate:up
CREATE TABLE templates (
    id bigint GENERATED ALWAYS AS IDENTITY,
    template_name text NOT NULL,
    template_content text NOT NULL,
    is_active boolean NOT NULL DEFAULT true,
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT templates_pkey PRIMARY KEY (id),
    CONSTRAINT templates_template_name_length CHECK (char_length(template_name) BETWEEN 1 AND 100),
    CONSTRAINT templates_template_content_length CHECK (char_length(template_content) BETWEEN 1 AND 200)
);

-- migrate:down
DROP TABLE templates;
