-- migrate:up
ALTER TABLE reply_actions ADD COLUMN refused text[];
COMMENT ON COLUMN reply_actions.refused IS 'the receivers that did not get a forward of which others got it (outcome partly): numbers in E.164, and webhook; null: none';
COMMENT ON COLUMN reply_actions.outcome IS 'done, partly (see refused), or why the action was not performed; null: the rules are not applied yet';

-- migrate:down
COMMENT ON COLUMN reply_actions.outcome IS 'done, or why the action was not performed; null: the rules are not applied yet';
ALTER TABLE reply_actions DROP COLUMN refused;
