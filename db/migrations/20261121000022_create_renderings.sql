-- migrate:up
-- What the tasks of a notification have in common: its text is rendered once.
CREATE TABLE renderings (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    title text NOT NULL,
    content text NOT NULL,
    template_id text NOT NULL DEFAULT '',
    params jsonb NOT NULL DEFAULT '{}',
    page text NOT NULL DEFAULT '',
    created_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT renderings_title_length CHECK (char_length(title) <= 1000),
    CONSTRAINT renderings_content_length CHECK (char_length(content) <= 100000)
);
ALTER TABLE tasks ADD COLUMN rendering_id bigint;
ALTER TABLE tasks ADD COLUMN user_id text;
COMMENT ON COLUMN tasks.rendering_id IS 'of a task of a notification, whose content is the beginning of it';
COMMENT ON COLUMN tasks.user_id IS 'of a task of a notification: whose address the recipient is';
-- squawk-ignore require-concurrent-index-creation
CREATE INDEX tasks_rendering_idx ON tasks (rendering_id) WHERE rendering_id IS NOT NULL;

-- migrate:down
DROP INDEX tasks_rendering_idx;
ALTER TABLE tasks DROP COLUMN user_id;
ALTER TABLE tasks DROP COLUMN rendering_id;
DROP TABLE renderings;
