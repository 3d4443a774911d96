-- migrate:up
CREATE FUNCTION reply_actions_remove() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM reply_actions a WHERE a.received_id = ANY (ARRAY(SELECT r.id FROM removed r));
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION reply_actions_remove() IS 'Trigger of received_messages: deletes what rules did with deleted messages.';
CREATE TRIGGER reply_actions_remove AFTER DELETE ON received_messages REFERENCING OLD TABLE AS removed FOR EACH STATEMENT EXECUTE FUNCTION reply_actions_remove();
DELETE FROM reply_actions a WHERE NOT EXISTS (SELECT FROM received_messages r WHERE r.id = a.received_id);
COMMENT ON TABLE reply_actions IS 'A received message to which the rules of its company are still to be applied, or to which one was applied. Triggers of received_messages add the row in the transaction of the message, so that no crash loses an action, and delete it with the message; internal/audience/replyrule changes it in the transaction of the action, so that none is done twice, and deletes it if no rule matches.';
COMMENT ON TABLE lock_delete_expired_reply_actions IS 'No rows. The lock of a former sweep, for servers of earlier versions. A later version drops this table.';

-- migrate:down
COMMENT ON TABLE lock_delete_expired_reply_actions IS 'No rows. The lock of the sweep delete-expired-reply-actions: the server that runs the sweep locks this table, so two servers never run the sweep at once.';
COMMENT ON TABLE reply_actions IS 'A received message to which the rules of its company are still to be applied, or to which one was applied within the last day. A trigger of received_messages adds the row in the transaction of the message, so that no crash loses an action; internal/audience/replyrule changes and deletes it in the transaction of the action, so that none is done twice.';
DROP TRIGGER reply_actions_remove ON received_messages;
DROP FUNCTION reply_actions_remove();
