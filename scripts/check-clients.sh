#!/usr/bin/env bash
# Starts a server on DATABASE_URL. Submits messages, sends them with a script and follows them with the command line. Then uploads a list and follows the batch
# to its end. The command line uses the Go client (client/).
set -euo pipefail
cd "$(dirname "$0")/.."

work=$(mktemp -d)
server='' sender=''
finish() {
    for process in $sender $server; do
        kill "$process" 2>/dev/null && wait "$process" || true
    done
    rm -rf "$work"
}
trap finish EXIT

go build -o "$work/lksms" ./cmd/lksms
lksms="$work/lksms"
export BASIC_AUTH_USERNAME=admin BASIC_AUTH_PASSWORD=client-测试-password
: >"$work/out" # the file must exist, because sed can start before the server
RETRY_DELAY_MINUTES=0 APP_PORT=0 "$lksms" serve >"$work/out" 2>"$work/log" &
server=$!
LKSMS_URL=
for _ in $(seq 300); do
    LKSMS_URL=$(sed -n 's/^ *address *//p' "$work/out")
    [ -z "$LKSMS_URL" ] || break
    kill -0 "$server" || { cat "$work/log"; exit 1; }
    sleep 0.1
done

# expect STATUS COMMAND... fails unless the command ends with this exit status.
expect() {
    local want=$1 got=0
    shift
    "$@" || got=$?
    [ "$got" = "$want" ] || { echo "check-clients: exit status $got, want $want: $*"; tail -20 "$work/log" "$work/sender.log"; exit 1; }
}

export XDG_CONFIG_HOME="$work/config"
echo "$BASIC_AUTH_PASSWORD" | expect 0 "$lksms" login "$LKSMS_URL" --user "$BASIC_AUTH_USERNAME" --secret-stdin

cat >"$work/send.sh" <<'SCRIPT'
#!/bin/sh
case $LKSMS_CONTENT in
*wrong*) echo "no such number"; exit 1 ;;
*busy*) [ "$LKSMS_ATTEMPT" -gt 1 ] || exit 75 ;;
esac
echo "sent to $LKSMS_PHONE_NUMBER"
SCRIPT
chmod +x "$work/send.sh"
"$lksms" sender run --exec "$work/send.sh" --app-id phone_1 --wait 1 >"$work/sender.log" 2>&1 &
sender=$!

cd "$work"
expect 0 "$lksms" send 13800138000 'Your parcel is here' --wait
expect 0 "$lksms" send 13800138000 'busy at first' --wait -o json >"$work/busy.json"
grep -q '"retry_count": 1' "$work/busy.json"
expect 1 "$lksms" send 13800138000 'a wrong number' --wait >/dev/null 2>&1
expect 1 "$lksms" send 1 'no number' 2>/dev/null
expect 2 "$lksms" send 2>/dev/null
LKSMS_KEY=none expect 3 "$lksms" watch task_none --server http://127.0.0.1:1 --timeout 1s 2>/dev/null

printf 'phone,name\n13800138000,张三\n13800138001,李四\n' >list.csv
expect 0 "$lksms" batch create list.csv --content '{name}，您好'
expect 0 "$lksms" batch check 1 --strict >/dev/null
expect 0 "$lksms" batch confirm 1 --wait

kill "$sender"
expect 0 wait "$sender"
sender=
echo "check-clients: ok"
