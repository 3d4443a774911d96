-- migrate:up
CREATE FUNCTION reply_actions_add() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO reply_actions (received_id, company_id, phone_number)
    SELECT a.id, a.company_id, a.phone_number FROM added a
    WHERE a.phone_number <> '' AND (
        EXISTS (SELECT FROM reply_rules r WHERE r.company_id = a.company_id)
        OR a.kind = 'opt_out' AND EXISTS (SELECT FROM companies c WHERE c.id = a.company_id AND c.recipient ? 'opt_out_reply')
    )
    ORDER BY a.id;
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION reply_actions_add() IS 'Trigger of received_messages: adds new messages to reply_actions: those of companies with rules, and those that opt out of the messages of a company with opt_out_reply.';

CREATE TRIGGER reply_actions_add AFTER INSERT ON received_messages REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION reply_actions_add();

-- migrate:down
DROP TRIGGER reply_actions_add ON received_messages;
DROP FUNCTION reply_actions_add();
