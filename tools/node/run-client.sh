#!/bin/sh
# Starts the server on DATABASE_URL, generates a TypeScript client from the contract that it serves, type-checks it and
# runs client.ts against it; then smsgate.ts, with the client of SMSGate; then clients/typescript does its main job.
set -eu
cd "$(dirname "$0")"

work=$(mktemp -d)
server=
finish() {
    [ -z "$server" ] || { kill "$server" 2>/dev/null && wait "$server" || true; }
    rm -rf "$work" generated
}
trap finish EXIT

(cd ../.. && go build -o "$work/lksms" ./cmd/lksms)
export BASIC_AUTH_USERNAME=admin BASIC_AUTH_PASSWORD=client-测试-password
SECRETS_KEY=$("$work/lksms" secrets key)
export SECRETS_KEY
: >"$work/out" # the server may start later than sed
RETRY_DELAY_MINUTES=0 APP_PORT=0 "$work/lksms" serve >"$work/out" 2>"$work/log" &
server=$!
for _ in $(seq 300); do
    LKSMS_URL=$(sed -n 's/^ *address *//p' "$work/out")
    [ -z "$LKSMS_URL" ] || break
    kill -0 "$server" || { cat "$work/log"; exit 1; }
    sleep 0.1
done
export LKSMS_URL

mkdir -p generated
npx --no-install openapi-typescript "$LKSMS_URL/openapi.yaml" --output generated/schema.ts
npx --no-install tsc --project tsconfig.json
for client in client smsgate; do
    node "generated/out/$client.js" || { cat "$work/log"; exit 1; }
done
npm --prefix ../../clients/typescript run --silent test-server || { cat "$work/log"; exit 1; }
