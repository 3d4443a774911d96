-- migrate:up
CREATE TABLE tags (
    id bigint GENERATED ALWAYS AS IDENTITY,
    company_id bigint NOT NULL,
    tag text NOT NULL,
    contacts bigint NOT NULL DEFAULT 0,
    created_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT tags_pkey PRIMARY KEY (id),
    CONSTRAINT tags_company_id_tag_key UNIQUE (company_id, tag),
    CONSTRAINT tags_company_id_fkey FOREIGN KEY (company_id) REFERENCES companies (id),
    CONSTRAINT tags_tag_length CHECK (char_length(tag) BETWEEN 1 AND 100),
    CONSTRAINT tags_contacts_range CHECK (contacts >= 0)
) WITH (fillfactor = 50);
COMMENT ON TABLE tags IS 'A tag of a company, which holds contacts. Written by internal/contact; contacts by triggers of tag_contacts.';
COMMENT ON COLUMN tags.contacts IS 'how many contacts it holds';
CREATE TRIGGER tags_rows_bound AFTER INSERT ON tags
REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION rows_bound('10000', 'company_id');
CREATE TRIGGER audited AFTER INSERT OR UPDATE OF company_id, tag OR DELETE ON tags
FOR EACH ROW EXECUTE FUNCTION audit_change('tag', 'tag', 'contacts');

CREATE TABLE tag_contacts (
    tag_id bigint NOT NULL,
    company_id bigint NOT NULL,
    user_id text NOT NULL,
    CONSTRAINT tag_contacts_pkey PRIMARY KEY (tag_id, user_id),
    CONSTRAINT tag_contacts_contact_fkey FOREIGN KEY (company_id, user_id) REFERENCES contacts (company_id, user_id) ON DELETE CASCADE
);
COMMENT ON TABLE tag_contacts IS
    'A contact that a tag holds. Written by internal/contact. tag_id has no foreign key: a tag may hold a million contacts, and is deleted at once; '
    'a sweep deletes its rows here, which deleted_tags names.';
CREATE INDEX tag_contacts_contact_idx ON tag_contacts (company_id, user_id);

CREATE TABLE deleted_tags (
    tag_id bigint NOT NULL,
    CONSTRAINT deleted_tags_pkey PRIMARY KEY (tag_id)
);
COMMENT ON TABLE deleted_tags IS
    'A tag that was deleted, and may still have rows in tag_contacts. Written by a trigger of tags, and deleted by internal/contact after these rows.';

-- tag_contacts_count adds what a statement added to tags.contacts, or subtracts what it removed.
CREATE FUNCTION tag_contacts_count() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' THEN
        UPDATE tags t SET contacts = t.contacts - r.contacts
        FROM (SELECT o.tag_id, count(*) AS contacts FROM removed o GROUP BY o.tag_id) r
        WHERE t.id = r.tag_id;
    ELSE
        UPDATE tags t SET contacts = t.contacts + a.contacts
        FROM (SELECT o.tag_id, count(*) AS contacts FROM added o GROUP BY o.tag_id) a
        WHERE t.id = a.tag_id;
    END IF;
    RETURN NULL;
END
$$;
CREATE TRIGGER tag_contacts_counted AFTER INSERT ON tag_contacts
REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION tag_contacts_count();
CREATE TRIGGER tag_contacts_uncounted AFTER DELETE ON tag_contacts
REFERENCING OLD TABLE AS removed FOR EACH STATEMENT EXECUTE FUNCTION tag_contacts_count();

CREATE FUNCTION tags_forget() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO deleted_tags (tag_id) VALUES (OLD.id);
    RETURN NULL;
END
$$;
CREATE TRIGGER tags_forgotten AFTER DELETE ON tags FOR EACH ROW EXECUTE FUNCTION tags_forget();

-- migrate:down
DROP TABLE deleted_tags;
DROP TABLE tag_contacts;
DROP TABLE tags;
DROP FUNCTION tags_forget;
DROP FUNCTION tag_contacts_count;
