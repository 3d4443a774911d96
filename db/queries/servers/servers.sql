-- ServerBeat records that a server is alive.
-- name: ServerBeat :exec
INSERT INTO servers (server_id, host, roles, version)
VALUES (@server_id, @host, @roles, @version)
ON CONFLICT (server_id) DO UPDATE SET seen_at = now();

-- ServerLeave deletes the row of a server that stops.
-- name: ServerLeave :exec
DELETE FROM servers WHERE server_id = @server_id;

-- ServersDeleteStopped deletes servers that were not seen for a day. These servers stopped without deleting their row.
-- name: ServersDeleteStopped :execrows
DELETE FROM servers WHERE seen_at < now() - interval '1 day';

-- ServerList returns servers by host and start time. is_alive is true if the server was seen within alive_within.
-- name: ServerList :many
SELECT s.server_id, s.host, s.roles, s.version, s.started_at, s.seen_at, s.seen_at > now() - @alive_within::interval AS is_alive
FROM servers s
ORDER BY s.host, s.started_at, s.server_id
LIMIT @max_rows::integer;

-- ServerDemand returns whether the senders need a server that pushes messages (push), and whether they need a server that accepts callbacks (callback).
-- Callbacks can arrive for senders that are on or off. For a retired sender, callbacks can arrive until `late` has passed since its last change.
-- name: ServerDemand :one
SELECT EXISTS (SELECT FROM senders s WHERE s.kind <> 'app' AND s.status = 'on') AS push,
    EXISTS (SELECT FROM senders s WHERE s.kind <> 'app' AND (s.status <> 'retired' OR s.updated_at > now() - sqlc.arg(late)::interval) AND (s.config -> 'callback') IS NOT NULL) AS callback;
