-- migrate:up
-- What was changed from its default. What there is, and within which bounds, the program says.
CREATE TABLE settings (
    category text NOT NULL,
    name text NOT NULL,
    value jsonb NOT NULL,
    updated_by text NOT NULL,
    updated_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT settings_pkey PRIMARY KEY (category, name)
);

-- What operators should know afterwards: who changed which setting, and which sender ran low.
CREATE TABLE events (
    id bigint GENERATED ALWAYS AS IDENTITY,
    event text NOT NULL,
    subject text NOT NULL,
    detail jsonb NOT NULL DEFAULT '{}',
    created_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT events_pkey PRIMARY KEY (id)
);
COMMENT ON COLUMN events.subject IS 'the setting or the sender';

-- migrate:down
DROP TABLE events;
DROP TABLE settings;
