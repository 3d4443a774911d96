-- migrate:up
CREATE TABLE reply_rules (
    id bigint GENERATED ALWAYS AS IDENTITY,
    company_id bigint NOT NULL,
    match text NOT NULL,
    words text[] NOT NULL,
    action text NOT NULL,
    content text,
    template_no text,
    tag text,
    phone_numbers text[],
    webhook_id bigint,
    sort bigint DEFAULT 0 NOT NULL,
    version bigint DEFAULT 1 NOT NULL,
    created_at timestamptz DEFAULT now() NOT NULL,
    updated_at timestamptz DEFAULT now() NOT NULL,
    CONSTRAINT reply_rules_pkey PRIMARY KEY (id),
    CONSTRAINT reply_rules_company_id_fkey FOREIGN KEY (company_id) REFERENCES companies (id),
    CONSTRAINT reply_rules_match_known CHECK (match IN ('exact', 'prefix', 'contains', 'regexp')),
    CONSTRAINT reply_rules_action_known CHECK (action IN ('reply', 'tag', 'untag', 'opt_out', 'opt_in', 'forward', 'acknowledge')),
    CONSTRAINT reply_rules_words_count CHECK (cardinality(words) BETWEEN 1 AND 50),
    CONSTRAINT reply_rules_content_length CHECK (char_length(content) BETWEEN 1 AND 1024),
    CONSTRAINT reply_rules_template_no_length CHECK (char_length(template_no) BETWEEN 1 AND 50),
    CONSTRAINT reply_rules_tag_length CHECK (char_length(tag) BETWEEN 1 AND 100),
    CONSTRAINT reply_rules_phone_numbers_count CHECK (cardinality(phone_numbers) <= 20),
    CONSTRAINT reply_rules_reply_has_text CHECK ((action = 'reply') = (num_nonnulls(content, template_no) = 1)),
    CONSTRAINT reply_rules_tag_is_named CHECK ((action IN ('tag', 'untag')) = (tag IS NOT NULL)),
    CONSTRAINT reply_rules_forward_has_target CHECK ((action = 'forward') = (num_nonnulls(phone_numbers, webhook_id) > 0))
);

COMMENT ON TABLE reply_rules IS 'A rule about received messages of a company: a message that matches it causes an action. Written by internal/audience/replyrule.';
COMMENT ON COLUMN reply_rules.words IS 'the rule applies to a message that one of these texts matches, or one of these regular expressions';
COMMENT ON COLUMN reply_rules.tag IS 'the name of the tag that the contact of the number gets or loses';
COMMENT ON COLUMN reply_rules.phone_numbers IS 'the numbers in E.164 to which messages are forwarded; empty: the last number was erased';
COMMENT ON COLUMN reply_rules.webhook_id IS 'the webhook that gets the event message.received of the message. There is no foreign key: if the webhook is deleted, the rule forwards nothing to it';
COMMENT ON COLUMN reply_rules.sort IS 'the rule with the smallest value is tried first; of equal values, the rule with the smallest id';

CREATE INDEX reply_rules_company_idx ON reply_rules (company_id, sort, id);
CREATE TRIGGER reply_rules_rows_bound AFTER INSERT ON reply_rules REFERENCING NEW TABLE AS added
    FOR EACH STATEMENT EXECUTE FUNCTION rows_bound(100, company_id);
CREATE TRIGGER audited AFTER INSERT OR DELETE OR UPDATE ON reply_rules FOR EACH ROW EXECUTE FUNCTION audit_change('reply_rule', 'id', '', 'phone_numbers');

CREATE TABLE reply_actions (
    received_id bigint NOT NULL,
    company_id bigint NOT NULL,
    phone_number text NOT NULL,
    rule_id bigint,
    action text,
    outcome text,
    tries bigint DEFAULT 0 NOT NULL,
    due_at timestamptz DEFAULT now() NOT NULL,
    created_at timestamptz DEFAULT now() NOT NULL,
    done_at timestamptz,
    CONSTRAINT reply_actions_pkey PRIMARY KEY (received_id),
    CONSTRAINT reply_actions_done CHECK ((outcome IS NULL) = (done_at IS NULL)),
    CONSTRAINT reply_actions_phone_number_length CHECK (char_length(phone_number) <= 50)
);

COMMENT ON TABLE reply_actions IS 'A received message to which the rules of its company are still to be applied, or to which one was applied within the last day. A trigger of received_messages adds the row in the transaction of the message, so that no crash loses an action; internal/audience/replyrule changes and deletes it in the transaction of the action, so that none is done twice.';
COMMENT ON COLUMN reply_actions.received_id IS 'received_messages.id';
COMMENT ON COLUMN reply_actions.phone_number IS 'received_messages.phone_number: the replies to a number within an hour are counted';
COMMENT ON COLUMN reply_actions.rule_id IS 'the rule that matched; null: none is applied yet, or the message opted out without a rule';
COMMENT ON COLUMN reply_actions.action IS 'the action of the rule; null: none is applied yet';
COMMENT ON COLUMN reply_actions.outcome IS 'done, or why the action was not performed; null: the rules are not applied yet';
COMMENT ON COLUMN reply_actions.tries IS 'the number of failed attempts';
COMMENT ON COLUMN reply_actions.due_at IS 'the time from which on the rules are applied';

CREATE INDEX reply_actions_due_idx ON reply_actions (received_id) WHERE outcome IS NULL;
CREATE INDEX reply_actions_number_idx ON reply_actions (company_id, phone_number, done_at) WHERE outcome = 'done';
CREATE INDEX reply_actions_done_at_idx ON reply_actions (done_at) WHERE done_at IS NOT NULL;

CREATE TABLE lock_apply_reply_rules ();
COMMENT ON TABLE lock_apply_reply_rules IS 'No rows. The lock of the sweep apply-reply-rules: the server that applies rules locks this table, so two servers never count the replies to a number at once.';
CREATE TABLE lock_delete_expired_reply_actions ();
COMMENT ON TABLE lock_delete_expired_reply_actions IS 'No rows. The lock of the sweep delete-expired-reply-actions: the server that runs the sweep locks this table, so two servers never run the sweep at once.';

-- migrate:down
DROP TABLE lock_delete_expired_reply_actions;
DROP TABLE lock_apply_reply_rules;
DROP TABLE reply_actions;
DROP TABLE reply_rules;
