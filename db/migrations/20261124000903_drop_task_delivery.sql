-- migrate:up
-- JobPlan reads the receipts itself: the function opened all partitions for each task.
DROP FUNCTION task_delivery(text);

-- migrate:down
CREATE FUNCTION task_delivery(of_task text) RETURNS smallint LANGUAGE sql STABLE AS $$
    SELECT CASE min(r.effect) WHEN 'delivered' THEN 1 WHEN 'undelivered' THEN 2 END::smallint FROM report_logs r
    WHERE r.task_id = of_task AND r.event = 'receipt' AND r.effect IN ('delivered', 'undelivered')
$$;
