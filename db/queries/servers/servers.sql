-- ServerBeat records that a server is alive.
-- name: ServerBeat :exec
INSERT INTO servers (server_id, host, roles, version)
VALUES (@server_id, @host, @roles, @version)
ON CONFLICT (server_id) DO UPDATE SET seen_at = now();

-- ServerLeave deletes a server that stops.
-- name: ServerLeave :exec
DELETE FROM servers WHERE server_id = @server_id;

-- ServersDeleteStopped deletes servers that were not seen for a day, because they stopped without deleting their row.
-- name: ServersDeleteStopped :execrows
DELETE FROM servers WHERE seen_at < now() - interval '1 day';

-- ServerList returns servers by host and start time; recently seen servers are marked as alive.
-- name: ServerList :many
SELECT s.server_id, s.host, s.roles, s.version, s.started_at, s.seen_at, s.seen_at > now() - @alive_within::interval AS is_alive
FROM servers s
ORDER BY s.host, s.started_at, s.server_id
LIMIT @most::integer;

-- ServerDemand returns whether the senders need a server that pushes, and a server that accepts callbacks. Callbacks can arrive for a sender that is off, and
-- for a sender that was retired less than late ago.
-- name: ServerDemand :one
SELECT EXISTS (SELECT FROM senders s WHERE s.kind <> 'app' AND s.status = 'on') AS push,
    EXISTS (SELECT FROM senders s WHERE s.kind <> 'app' AND (s.status <> 'retired' OR s.updated_at > now() - sqlc.arg(late)::interval) AND (s.config -> 'callback') IS NOT NULL) AS callback;
