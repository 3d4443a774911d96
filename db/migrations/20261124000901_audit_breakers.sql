-- migrate:up
-- The audit also says that a sender got a balance, and that an administrator closed a circuit breaker. Making the triggers locks two small tables
-- for a moment.
SET LOCAL lock_timeout = '5s';
DROP TRIGGER audited ON senders;
CREATE TRIGGER audited AFTER INSERT OR UPDATE OR DELETE ON senders
FOR EACH ROW EXECUTE FUNCTION audit_change(
    'sender', 'sender_no', 'is_paced', 'config.*',
    'agentId,corpId,appId,miniprogramState,lang,host,port,tls,username,from,replyTo,method,format,answer,callback,atOnce,timeoutSeconds,showContent'
);
-- The workers open and close circuit breakers too, without an actor.
CREATE TRIGGER audited_closing AFTER UPDATE OF openings ON sender_states
FOR EACH ROW WHEN (OLD.openings > 0 AND NEW.openings = 0 AND current_setting('lksms.actor', true) <> '') EXECUTE FUNCTION audit_change(
    'sender', 'sender_no',
    'balance,next_available_at,last_taken,last_taken_at,minute_used,hour_used,day_used,month_used,seen_at,sent_at,attempts,succeeded,failed,'
    'response_ms,shared_last_turn,shared_next_turn,probe_until,granted,attempts_today,attempts_on'
);

-- migrate:down
SET LOCAL lock_timeout = '5s';
DROP TRIGGER audited_closing ON sender_states;
DROP TRIGGER audited ON senders;
CREATE TRIGGER audited AFTER INSERT OR UPDATE OR DELETE ON senders
FOR EACH ROW EXECUTE FUNCTION audit_change(
    'sender', 'sender_no', 'has_balance,is_paced', 'config.*',
    'agentId,corpId,appId,miniprogramState,lang,host,port,tls,username,from,replyTo,method,format,answer,callback,atOnce,timeoutSeconds,showContent'
);
