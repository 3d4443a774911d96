-- migrate:up
-- The fields of senders that speak SMPP or CMPP, and new filters of jobs, were masked in the audit. Each statement locks its table for a moment.
CREATE OR REPLACE TRIGGER audited AFTER INSERT OR DELETE OR UPDATE ON senders
FOR EACH ROW EXECUTE FUNCTION audit_change('sender', 'sender_no', 'is_paced,has_sims', 'config.*',
    'agentId,corpId,appId,miniprogramState,lang,host,port,tls,username,from,replyTo,method,format,answer,callback,atOnce,timeoutSeconds,showContent,hosts,system_id,system_type,bind,binds,window,per_second,enquire_link_seconds,active_test_seconds,response_seconds,source_addr,source_ton,source_npi,dest_ton,dest_npi,data_coding,long_messages,registered_delivery,service_type,statuses,message_ids,version,allow_unproven,service_id,src_id,extensions,country_code,msg_fmt,fee_user_type,fee_type,fee_code');
CREATE OR REPLACE TRIGGER audited AFTER INSERT OR UPDATE OF stopped_by ON task_jobs
FOR EACH ROW EXECUTE FUNCTION audit_change('task_job', 'id', 'done,skipped,skipped_by,failed,status,finished_at,created_by', 'filter.*',
    'status,phone_number,source,message_type,sender_no,delivery,company_no,result,created_from,created_to,batch_id,test,country_no,template_no,submitted_by,provider_no');

-- migrate:down
CREATE OR REPLACE TRIGGER audited AFTER INSERT OR DELETE OR UPDATE ON senders
FOR EACH ROW EXECUTE FUNCTION audit_change('sender', 'sender_no', 'is_paced,has_sims', 'config.*',
    'agentId,corpId,appId,miniprogramState,lang,host,port,tls,username,from,replyTo,method,format,answer,callback,atOnce,timeoutSeconds,showContent');
CREATE OR REPLACE TRIGGER audited AFTER INSERT OR UPDATE OF stopped_by ON task_jobs
FOR EACH ROW EXECUTE FUNCTION audit_change('task_job', 'id', 'done,skipped,skipped_by,failed,status,finished_at,created_by', 'filter.*',
    'status,phone_number,source,message_type,sender_no,delivery,company_no,result,created_from,created_to,batch_id,test');
