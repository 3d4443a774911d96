#!/bin/sh
# Submits the messages of the outbox (outbox.sql) over HTTP, and deletes those that the server has. Needs psql, jq and curl.
# LKSMS_URL, LKSMS_KEY: the server and an API key. DATABASE_URL: the database of the outbox.
# Texts go from program to program through pipes: as arguments they may be too long for the system.
set -eu
while :; do
    rows=$(psql "$DATABASE_URL" -qAt -c "SELECT coalesce(jsonb_agg(o ORDER BY o.id), '[]') FROM (SELECT * FROM outbox ORDER BY id LIMIT 100) o")
    if [ "$rows" = '[]' ]; then
        sleep 1
        continue
    fi
    if ! answer=$(printf '%s' "$rows" |
        jq '{messages: map({phone_number, content, dedup_key: "outbox-\(.id)"})}' |
        curl -sS --max-time 30 --fail-with-body -H "Authorization: Bearer $LKSMS_KEY" -H 'Content-Type: application/json' -d @- \
            "$LKSMS_URL/api/v1/sms/send-batch"); then
        printf '%s\n' "$answer" >&2
        sleep 5 # the server is away or full, or refuses the key: the same messages again
        continue
    fi
    # 200: the server has the message. 409, 422: it never will, which an operator must see. Others are submitted again.
    pairs=$(printf '%s\n' "$answer" "$rows" | jq -c -s '[.[0].data.items, .[1]] | transpose')
    done=$(printf '%s' "$pairs" | jq -r 'map(select(.[0].code == (200, 409, 422)) | .[1].id) | join(",")')
    printf '%s' "$pairs" | jq -c '.[] | select(.[0].code != 200) | {id: .[1].id, code: .[0].code, error: .[0].error}' >&2
    if [ -z "$done" ]; then
        sleep 5
        continue
    fi
    psql "$DATABASE_URL" -q -c "DELETE FROM outbox WHERE id IN ($done)"
done
