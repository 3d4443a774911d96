-- migrate:up
ALTER TABLE senders ADD COLUMN has_sims boolean DEFAULT false NOT NULL;
COMMENT ON COLUMN senders.has_sims IS
    'true: rows in sender_sims exist. A claim then locks the row of the sender in sender_states, and chooses the SIM of each task. The column exists so that claims '
    'of other senders need not read sender_sims';
DROP TRIGGER audited ON senders;
CREATE TRIGGER audited AFTER INSERT OR DELETE OR UPDATE ON senders FOR EACH ROW EXECUTE FUNCTION audit_change(
    'sender', 'sender_no', 'is_paced,has_sims', 'config.*',
    'agentId,corpId,appId,miniprogramState,lang,host,port,tls,username,from,replyTo,method,format,answer,callback,atOnce,timeoutSeconds,showContent'
);

-- migrate:down
DROP TRIGGER audited ON senders;
CREATE TRIGGER audited AFTER INSERT OR DELETE OR UPDATE ON senders FOR EACH ROW EXECUTE FUNCTION audit_change(
    'sender', 'sender_no', 'is_paced', 'config.*',
    'agentId,corpId,appId,miniprogramState,lang,host,port,tls,username,from,replyTo,method,format,answer,callback,atOnce,timeoutSeconds,showContent'
);
ALTER TABLE senders DROP COLUMN has_sims;
