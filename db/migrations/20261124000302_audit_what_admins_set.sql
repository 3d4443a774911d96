-- migrate:up
-- Making the triggers locks each of these small tables for a moment. A trigger on a table that claims, reports and submissions write fires
-- only when a column changes that they do not write.

CREATE TRIGGER audited AFTER INSERT OR UPDATE OR DELETE ON companies
FOR EACH ROW EXECUTE FUNCTION audit_change('company', 'company_no');
CREATE TRIGGER audited_adding AFTER INSERT ON company_countries
REFERENCING NEW TABLE AS links FOR EACH STATEMENT EXECUTE FUNCTION audit_countries('company', 'company_id', 'company_no');
CREATE TRIGGER audited_removing AFTER DELETE ON company_countries
REFERENCING OLD TABLE AS links FOR EACH STATEMENT EXECUTE FUNCTION audit_countries('company', 'company_id', 'company_no');
CREATE TRIGGER audited AFTER INSERT OR UPDATE OR DELETE ON channels
FOR EACH ROW EXECUTE FUNCTION audit_change('channel', 'channel');
CREATE TRIGGER audited_adding AFTER INSERT ON channel_countries
REFERENCING NEW TABLE AS links FOR EACH STATEMENT EXECUTE FUNCTION audit_countries('channel', 'channel_id', 'channel');
CREATE TRIGGER audited_removing AFTER DELETE ON channel_countries
REFERENCING OLD TABLE AS links FOR EACH STATEMENT EXECUTE FUNCTION audit_countries('channel', 'channel_id', 'channel');
CREATE TRIGGER audited AFTER INSERT OR UPDATE OR DELETE ON countries
FOR EACH ROW EXECUTE FUNCTION audit_change('country', 'country_no');

-- Claims write served and the turns.
CREATE TRIGGER audited AFTER INSERT OR UPDATE OF pool_id, sender_id, weight, sort, status OR DELETE ON routes
FOR EACH ROW EXECUTE FUNCTION audit_change('route', 'id', 'served,last_turn,next_turn');

-- An app that polls for the first time adds its sender itself: without an actor. The fields of a configuration are known to the drivers. Those
-- that none of them keeps secret, and that hold no address with a token, are shown.
CREATE TRIGGER audited AFTER INSERT OR UPDATE OR DELETE ON senders
FOR EACH ROW EXECUTE FUNCTION audit_change(
    'sender', 'sender_no', 'has_balance,is_paced', 'config.*',
    'agentId,corpId,appId,miniprogramState,lang,host,port,tls,username,from,replyTo,method,format,answer,callback,atOnce,timeoutSeconds,showContent'
);
-- granted changes with a balance that an administrator changes, and not with one that claims and refunds change.
CREATE TRIGGER audited AFTER UPDATE OF granted ON sender_states
FOR EACH ROW WHEN (OLD.granted <> NEW.granted) EXECUTE FUNCTION audit_change('sender_balance', 'sender_no', 'granted');
CREATE TRIGGER audited_opening AFTER INSERT ON sender_states
FOR EACH ROW WHEN (NEW.balance IS NOT NULL) EXECUTE FUNCTION audit_change(
    'sender_balance', 'sender_no',
    'next_available_at,last_taken,last_taken_at,minute_used,hour_used,day_used,month_used,seen_at,sent_at,attempts,succeeded,failed,response_ms,'
    'shared_last_turn,shared_next_turn,openings,rest_until,rest_reason,probe_until,granted,attempts_today,attempts_on'
);

CREATE TRIGGER audited AFTER INSERT OR UPDATE OR DELETE ON users
FOR EACH ROW EXECUTE FUNCTION audit_change('user', 'username', '', 'password_hash');
CREATE TRIGGER audited AFTER INSERT OR UPDATE OF user_id, key_hash, name OR DELETE ON api_keys
FOR EACH ROW EXECUTE FUNCTION audit_change('api_key', 'username,id', '', 'key_hash');
CREATE TRIGGER audited AFTER INSERT OR UPDATE OR DELETE ON settings
FOR EACH ROW EXECUTE FUNCTION audit_change('setting', 'category,name', 'updated_by');

CREATE TRIGGER audited AFTER INSERT OR UPDATE OR DELETE ON templates
FOR EACH ROW EXECUTE FUNCTION audit_change('template', 'id');
CREATE TRIGGER audited AFTER INSERT OR UPDATE OR DELETE ON notification_templates
FOR EACH ROW EXECUTE FUNCTION audit_change('notification_template', 'biz_type,channel');
-- A submission marks a default content as sent. Only an administrator allows to send it again, for which the actor is known.
CREATE TRIGGER audited AFTER INSERT OR UPDATE OF company_id, phone_number, recipient, content, use_template OR DELETE ON default_contents
FOR EACH ROW EXECUTE FUNCTION audit_change('default_content', 'id');
CREATE TRIGGER audited_reset AFTER UPDATE OF is_sent ON default_contents
FOR EACH ROW WHEN (OLD.is_sent AND NOT NEW.is_sent AND current_setting('lksms.actor', true) <> '')
EXECUTE FUNCTION audit_change('default_content', 'id');
CREATE TRIGGER audited AFTER INSERT OR UPDATE OF user_id, phone, dingtalk_name, wechat_openid, email OR DELETE ON contacts
FOR EACH ROW EXECUTE FUNCTION audit_change('contact', 'user_id', '', 'dingtalk_name,wechat_openid,email');

-- Sweeps make, export and drop partitions every day. Only by the command line somebody asks for it.
CREATE TRIGGER audited AFTER INSERT OR UPDATE ON task_partitions
FOR EACH ROW WHEN (current_setting('lksms.actor', true) <> '')
EXECUTE FUNCTION audit_change('partition', 'first_day', 'first_id,before_id');

-- migrate:down
DROP TRIGGER audited ON task_partitions;
DROP TRIGGER audited ON contacts;
DROP TRIGGER audited_reset ON default_contents;
DROP TRIGGER audited ON default_contents;
DROP TRIGGER audited ON notification_templates;
DROP TRIGGER audited ON templates;
DROP TRIGGER audited ON settings;
DROP TRIGGER audited ON api_keys;
DROP TRIGGER audited ON users;
DROP TRIGGER audited_opening ON sender_states;
DROP TRIGGER audited ON sender_states;
DROP TRIGGER audited ON senders;
DROP TRIGGER audited ON routes;
DROP TRIGGER audited ON countries;
DROP TRIGGER audited_removing ON channel_countries;
DROP TRIGGER audited_adding ON channel_countries;
DROP TRIGGER audited ON channels;
DROP TRIGGER audited_removing ON company_countries;
DROP TRIGGER audited_adding ON company_countries;
DROP TRIGGER audited ON companies;
