
CREATE FUNCTION public.task_count_changes_add() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        INSERT INTO task_count_changes
        SELECT
            count(*) FILTER (WHERE status = 0 AND retry_count = 0), count(*) FILTER (WHERE status = 0 AND retry_count > 0),
            count(*) FILTER (WHERE status = 1), count(*) FILTER (WHERE status = 2), count(*) FILTER (WHERE status = 3)
        FROM added
        HAVING count(*) > 0;
    ELSIF TG_OP = 'UPDATE' THEN
        INSERT INTO task_count_changes
        SELECT c.* FROM (
            SELECT
                coalesce(sum(n) FILTER (WHERE status = 0 AND retry_count = 0), 0) AS pending_new,
                coalesce(sum(n) FILTER (WHERE status = 0 AND retry_count > 0), 0) AS pending_retry,
                coalesce(sum(n) FILTER (WHERE status = 1), 0) AS processing,
                coalesce(sum(n) FILTER (WHERE status = 2), 0) AS success,
                coalesce(sum(n) FILTER (WHERE status = 3), 0) AS failed
            FROM (SELECT status, retry_count, 1 AS n FROM added UNION ALL SELECT status, retry_count, -1 FROM removed) x
        ) c
        WHERE (c.pending_new, c.pending_retry, c.processing, c.success, c.failed) <> (0, 0, 0, 0, 0);
    ELSIF TG_OP = 'DELETE' THEN
        INSERT INTO task_count_changes
        SELECT
            -count(*) FILTER (WHERE status = 0 AND retry_count = 0), -count(*) FILTER (WHERE status = 0 AND retry_count > 0),
            -count(*) FILTER (WHERE status = 1), -count(*) FILTER (WHERE status = 2), -count(*) FILTER (WHERE status = 3)
        FROM removed
        HAVING count(*) > 0;
    ELSE -- TRUNCATE, which nobody else is beside
        DELETE FROM task_count_changes;
    END IF;
    RETURN NULL;
END
$$;

CREATE TABLE public.api_keys (
    id bigint NOT NULL,
    user_id bigint NOT NULL,
    key_hash bytea NOT NULL,
    name text NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT api_keys_name_length CHECK (((char_length(name) >= 1) AND (char_length(name) <= 100)))
);

COMMENT ON COLUMN public.api_keys.key_hash IS 'SHA-256: a key is 256 random bits, which need no slow hash';

ALTER TABLE public.api_keys ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.api_keys_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.default_contents (
    id bigint NOT NULL,
    phone_number text NOT NULL,
    recipient text NOT NULL,
    content text NOT NULL,
    use_template boolean DEFAULT false NOT NULL,
    is_sent boolean DEFAULT false NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    updated_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT default_contents_content_length CHECK (((char_length(content) >= 1) AND (char_length(content) <= 200)))
);

COMMENT ON COLUMN public.default_contents.phone_number IS 'as it was sent';

COMMENT ON COLUMN public.default_contents.recipient IS 'the same number normalised to E.164, so that it is unique however it is written';

ALTER TABLE public.default_contents ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.default_contents_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.idempotency_keys (
    username text NOT NULL,
    operation text NOT NULL,
    key text NOT NULL,
    request_hash bytea NOT NULL,
    response bytea NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL
);

CREATE TABLE public.receive_logs (
    id bigint NOT NULL,
    request_id text,
    task_id text COLLATE pg_catalog."C",
    phone_number text,
    content text,
    use_template boolean,
    source_ip text,
    user_agent text,
    request_data jsonb,
    response_data jsonb,
    status_code smallint NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL
);

ALTER TABLE public.receive_logs ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.receive_logs_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.report_logs (
    id bigint NOT NULL,
    task_id text NOT NULL COLLATE pg_catalog."C",
    app_id text,
    lease_id bigint,
    event text NOT NULL,
    status smallint,
    effect text NOT NULL,
    error_message text,
    request_data jsonb,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT report_logs_effect_known CHECK ((effect = ANY (ARRAY['success'::text, 'failed'::text, 'retry'::text, 'exhausted'::text, 'ignored'::text, 'refused'::text, 'cancelled'::text]))),
    CONSTRAINT report_logs_error_message_length CHECK ((char_length(error_message) <= 500)),
    CONSTRAINT report_logs_event_known CHECK ((event = ANY (ARRAY['reported'::text, 'recovered'::text, 'cancelled'::text])))
);

ALTER TABLE public.report_logs ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.report_logs_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.send_logs (
    id bigint NOT NULL,
    task_id text NOT NULL COLLATE pg_catalog."C",
    app_id text NOT NULL,
    phone_number text NOT NULL,
    content text NOT NULL,
    attempt smallint NOT NULL,
    lease_until timestamp with time zone NOT NULL,
    request_data jsonb,
    response_data jsonb,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT send_logs_app_id_length CHECK (((char_length(app_id) >= 1) AND (char_length(app_id) <= 50)))
);

ALTER TABLE public.send_logs ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.send_logs_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.task_count_changes (
    pending_new bigint NOT NULL,
    pending_retry bigint NOT NULL,
    processing bigint NOT NULL,
    success bigint NOT NULL,
    failed bigint NOT NULL
);

CREATE TABLE public.tasks (
    task_id text NOT NULL COLLATE pg_catalog."C",
    phone_number text NOT NULL,
    recipient text NOT NULL,
    content text NOT NULL,
    status smallint DEFAULT 0 NOT NULL,
    source text,
    submitted_by text,
    dedup_key text,
    retry_count smallint DEFAULT 0 NOT NULL,
    due_at timestamp with time zone DEFAULT now() NOT NULL,
    processing_app_id text,
    lease_id bigint,
    lease_until timestamp with time zone,
    result text,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    updated_at timestamp with time zone DEFAULT now() NOT NULL,
    sent_at timestamp with time zone,
    reported_at timestamp with time zone,
    CONSTRAINT tasks_content_length CHECK (((char_length(content) >= 1) AND (char_length(content) <= 200))),
    CONSTRAINT tasks_dedup_key_length CHECK (((char_length(dedup_key) >= 1) AND (char_length(dedup_key) <= 100))),
    CONSTRAINT tasks_lease_while_processing CHECK ((((status = 1) = (lease_until IS NOT NULL)) AND ((status <> 1) OR ((processing_app_id IS NOT NULL) AND (lease_id IS NOT NULL))))),
    CONSTRAINT tasks_result_length CHECK ((char_length(result) <= 500)),
    CONSTRAINT tasks_retry_count_range CHECK (((retry_count >= 0) AND (retry_count <= 20))),
    CONSTRAINT tasks_source_length CHECK (((char_length(source) >= 1) AND (char_length(source) <= 50))),
    CONSTRAINT tasks_status_known CHECK (((status >= 0) AND (status <= 4))),
    CONSTRAINT tasks_task_id_length CHECK (((char_length(task_id) >= 1) AND (char_length(task_id) <= 50))),
    CONSTRAINT tasks_times_range CHECK ((((due_at >= '1970-01-01 00:00:00+00'::timestamp with time zone) AND (due_at <= '9999-01-01 00:00:00+00'::timestamp with time zone)) AND ((lease_until >= '1970-01-01 00:00:00+00'::timestamp with time zone) AND (lease_until <= '9999-01-01 00:00:00+00'::timestamp with time zone)) AND ((created_at >= '1970-01-01 00:00:00+00'::timestamp with time zone) AND (created_at <= '9999-01-01 00:00:00+00'::timestamp with time zone)) AND ((updated_at >= '1970-01-01 00:00:00+00'::timestamp with time zone) AND (updated_at <= '9999-01-01 00:00:00+00'::timestamp with time zone)) AND ((sent_at >= '1970-01-01 00:00:00+00'::timestamp with time zone) AND (sent_at <= '9999-01-01 00:00:00+00'::timestamp with time zone)) AND ((reported_at >= '1970-01-01 00:00:00+00'::timestamp with time zone) AND (reported_at <= '9999-01-01 00:00:00+00'::timestamp with time zone))))
)
WITH (autovacuum_vacuum_scale_factor='0.02', autovacuum_vacuum_threshold='20000', autovacuum_vacuum_cost_delay='0', autovacuum_analyze_scale_factor='0.05');

COMMENT ON COLUMN public.tasks.phone_number IS 'as it was sent';

COMMENT ON COLUMN public.tasks.recipient IS 'the same number normalised to E.164';

COMMENT ON COLUMN public.tasks.status IS '0 PENDING, 1 PROCESSING, 2 SUCCESS, 3 FAILED, 4 CANCELLED';

COMMENT ON COLUMN public.tasks.submitted_by IS 'the user that submitted it, who may look at it with the role submit';

COMMENT ON COLUMN public.tasks.dedup_key IS 'what the submitter calls the message: there is one task of a name';

COMMENT ON COLUMN public.tasks.lease_id IS 'send_logs.id of the live lease, of the one that ran out unreported, or of the one that settled the task; null after a retry that was asked for';

CREATE TABLE public.templates (
    id bigint NOT NULL,
    template_name text NOT NULL,
    template_content text NOT NULL,
    is_active boolean DEFAULT true NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    updated_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT templates_template_content_length CHECK (((char_length(template_content) >= 1) AND (char_length(template_content) <= 200))),
    CONSTRAINT templates_template_name_length CHECK (((char_length(template_name) >= 1) AND (char_length(template_name) <= 100)))
);

ALTER TABLE public.templates ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.templates_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.users (
    id bigint NOT NULL,
    username text NOT NULL,
    role text NOT NULL,
    app_id text,
    password_hash text,
    is_disabled boolean DEFAULT false NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    updated_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT users_app_id_of_senders CHECK (((app_id IS NULL) OR ((role = 'send'::text) AND ((char_length(app_id) >= 1) AND (char_length(app_id) <= 50))))),
    CONSTRAINT users_role_known CHECK ((role = ANY (ARRAY['submit'::text, 'send'::text, 'read'::text, 'admin'::text]))),
    CONSTRAINT users_username_form CHECK ((((char_length(username) >= 1) AND (char_length(username) <= 50)) AND (strpos(username, ':'::text) = 0)))
);

COMMENT ON COLUMN public.users.app_id IS 'a send user with one can claim and report only as this app';

COMMENT ON COLUMN public.users.password_hash IS 'argon2id; null: only API keys';

ALTER TABLE public.users ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.users_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

ALTER TABLE ONLY public.api_keys
    ADD CONSTRAINT api_keys_key_hash_key UNIQUE (key_hash);

ALTER TABLE ONLY public.api_keys
    ADD CONSTRAINT api_keys_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.default_contents
    ADD CONSTRAINT default_contents_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.default_contents
    ADD CONSTRAINT default_contents_recipient_key UNIQUE (recipient);

ALTER TABLE ONLY public.idempotency_keys
    ADD CONSTRAINT idempotency_keys_pkey PRIMARY KEY (username, operation, key);

ALTER TABLE ONLY public.receive_logs
    ADD CONSTRAINT receive_logs_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.report_logs
    ADD CONSTRAINT report_logs_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.send_logs
    ADD CONSTRAINT send_logs_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.tasks
    ADD CONSTRAINT tasks_pkey PRIMARY KEY (task_id);

ALTER TABLE ONLY public.templates
    ADD CONSTRAINT templates_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.users
    ADD CONSTRAINT users_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.users
    ADD CONSTRAINT users_username_key UNIQUE (username);

CREATE INDEX api_keys_user_id_idx ON public.api_keys USING btree (user_id);

CREATE INDEX idempotency_keys_created_at_idx ON public.idempotency_keys USING btree (created_at);

CREATE INDEX receive_logs_created_at_idx ON public.receive_logs USING btree (created_at);

CREATE INDEX report_logs_task_id_idx ON public.report_logs USING btree (task_id);

CREATE INDEX send_logs_task_id_idx ON public.send_logs USING btree (task_id);

CREATE UNIQUE INDEX tasks_dedup_key_idx ON public.tasks USING btree (dedup_key) WHERE (dedup_key IS NOT NULL);

CREATE INDEX tasks_lease_idx ON public.tasks USING btree (lease_until) WHERE (status = 1);

CREATE INDEX tasks_new_idx ON public.tasks USING btree (created_at, task_id) WHERE ((status = 0) AND (retry_count = 0));

CREATE INDEX tasks_recipient_idx ON public.tasks USING btree (recipient, task_id);

CREATE INDEX tasks_retry_idx ON public.tasks USING btree (retry_count, due_at) WHERE ((status = 0) AND (retry_count > 0));

CREATE TRIGGER tasks_count_deleted AFTER DELETE ON public.tasks REFERENCING OLD TABLE AS removed FOR EACH STATEMENT EXECUTE FUNCTION public.task_count_changes_add();

CREATE TRIGGER tasks_count_inserted AFTER INSERT ON public.tasks REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION public.task_count_changes_add();

CREATE TRIGGER tasks_count_truncated AFTER TRUNCATE ON public.tasks FOR EACH STATEMENT EXECUTE FUNCTION public.task_count_changes_add();

CREATE TRIGGER tasks_count_updated AFTER UPDATE ON public.tasks REFERENCING OLD TABLE AS removed NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION public.task_count_changes_add();

ALTER TABLE ONLY public.api_keys
    ADD CONSTRAINT api_keys_user_id_fkey FOREIGN KEY (user_id) REFERENCES public.users(id) ON DELETE CASCADE;

