#!/usr/bin/env bash
# Installs the deb package on a clean Debian, and checks the steps of an operator: edit the settings, start, send a first message, upgrade, purge. The Debian is
# a folder that mmdebstrap fills, which needs root and the archive of Debian. systemd does not run in this folder: systemd-analyze checks both units, and
# lksms-run runs the command of their ExecStart.
set -euo pipefail
cd "$(dirname "$0")/.."

for program in mmdebstrap systemd-analyze curl; do
    command -v $program >/dev/null || { apt-get update -q >/dev/null; DEBIAN_FRONTEND=noninteractive apt-get install -y -q mmdebstrap systemd curl >/dev/null; }
done

PLATFORMS=linux/$(dpkg --print-architecture) scripts/packages.sh
root=$(mktemp -d /tmp/lksms-debian-XXXXXX)
chmod 755 "$root"
server=
finish() {
    [ -z "$server" ] || kill "$server" 2>/dev/null || true
    umount "$root/proc" 2>/dev/null || true
    rm -rf --one-file-system "$root"
}
trap finish EXIT

fail() { echo "check-packages: $*" >&2; [ ! -f "$root/serve.log" ] || tail -20 "$root/serve.log" >&2; exit 1; }
inside() { chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8 "$@"; }
api() { curl -sS --fail-with-body -u "admin:$password" -H 'Content-Type: application/json' "http://127.0.0.1:$port$1" "${@:2}"; }
expect() { case $2 in *"$1"*) ;; *) fail "no $1 in: $2" ;; esac; }

password=correct-horse-battery port=18002
echo "check-packages: making a clean Debian"
mmdebstrap --quiet --variant=minbase --skip=cleanup/apt/lists bookworm "$root"
mount -t proc proc "$root/proc"
cp /etc/resolv.conf "$root/etc/resolv.conf"
printf '#!/bin/sh\nexit 101\n' >"$root/usr/sbin/policy-rc.d" # forbids packages to start services in this folder
chmod 755 "$root/usr/sbin/policy-rc.d"
cp dist/*.deb "$root/lksms.deb"

echo "check-packages: apt install ./lksms.deb"
inside apt-get install -y -q /lksms.deb >"$root/apt.log" 2>&1 || fail "$(tail -20 "$root/apt.log")"
expect 'Set a password in /etc/lksms/lksms.env' "$(cat "$root/apt.log")"
expect 'lksms lksms 750' "$(inside stat -c '%U %G %a' /var/lib/lksms)"
expect 'root root 600' "$(inside stat -c '%U %G %a' /etc/lksms/lksms.env)"
mkdir "$root/unit"
for unit in lksms.service lksms@.service; do
    sed "s#/usr/bin/lksms#$root/usr/bin/lksms#" "$root/usr/lib/systemd/system/$unit" >"$root/unit/$unit"
    systemd-analyze verify --man=no "$root/unit/$unit" >"$root/unit/verify" 2>&1 || fail "$(cat "$root/unit/verify")"
    ! grep -F "$root/unit/" "$root/unit/verify" || fail "$unit has lines that systemd ignores" # systemd only warns of such lines
    systemd-analyze security --offline=true --threshold=25 --no-pager "$root/unit/$unit" >"$root/unit/exposure" || fail "$(tail -1 "$root/unit/exposure")"
done
template=$(cat "$root/usr/lib/systemd/system/lksms@.service")
for line in 'EnvironmentFile=/etc/lksms/lksms.env' 'EnvironmentFile=-/etc/lksms/%i.env' 'ExecStart=/usr/bin/lksms serve --roles=%i'; do
    grep -qxF "$line" <<<"$template" || fail "lksms@.service has no line $line"
done
named=$(grep -rohE '/usr/share/doc/lksms/[A-Za-z0-9._/-]*[A-Za-z0-9/]' "$root/usr/share/doc/lksms/docs" "$root/etc/lksms/lksms.env" | sort -u)
for path in $named /usr/share/doc/lksms/haproxy/{roles.cfg,cells.cfg,cells.map,cells-map}; do
    [ -e "$root$path" ] || fail "the package does not have $path"
done

start() { # ARGUMENTS...: starts lksms serve with these arguments
    (exec chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin lksms-run serve "$@") >"$root/serve.log" 2>&1 &
    server=$!
    for _ in $(seq 300); do
        curl -sf "http://127.0.0.1:$port/ready" >/dev/null && return
        kill -0 "$server" 2>/dev/null || fail "the server ended"
        sleep 0.1
    done
    fail "the server is not ready"
}
stop() {
    kill "$server"
    wait "$server" || fail "the server did not stop well"
    server=
    [ -f "$root/var/lib/lksms/postgres/PG_VERSION" ] && [ ! -e "$root/var/lib/lksms/postgres/postmaster.pid" ] || fail "the private PostgreSQL is still running"
}

echo "check-packages: one edit, start, first message"
sed -i "s/^#BASIC_AUTH_PASSWORD=.*/BASIC_AUTH_PASSWORD='$password'/; s/^#APP_PORT=.*/APP_PORT=$port/" "$root/etc/lksms/lksms.env"
start
sent=$(api /api/v1/sms/send -d '{"phone_number":"13800138000","content":"第一条短信","source":"check"}')
task=$(echo "$sent" | sed 's/.*"task_id":"\([^"]*\)".*/\1/')
expect "$task" "$(api /api/v1/sms/tasks/claim -d '{"app_id":"phone"}')"
api /api/v1/sms/report -d "{\"task_id\":\"$task\",\"app_id\":\"phone\",\"status\":2}" >/dev/null
expect '"status":2' "$(api "/api/v1/sms/task/$task")"
inside DATABASE_URL=postgresql://elsewhere/ lksms-run user add scraper --role read >/dev/null
expect scraper "$(inside lksms-run user list)"
stop

echo "check-packages: a server with a role, as lksms@api starts it"
start "$(sed -n 's|^ExecStart=/usr/bin/lksms serve ||p' <<<"$template" | sed 's/%i/api/')"
expect '"roles":["api"]' "$(api '/ready?role=api')"
expect server.other_role "$(curl -s "http://127.0.0.1:$port/ready?role=sweep")"
stop

echo "check-packages: the next version"
VERSION=99.0 PLATFORMS=linux/$(dpkg --print-architecture) scripts/packages.sh >/dev/null
cp dist/*.deb "$root/lksms.deb"
inside apt-get install -y -q /lksms.deb >"$root/apt.log" 2>&1 || fail "$(tail -20 "$root/apt.log")"
expect 'lksms 99.0' "$(inside lksms version | cut -d, -f1)"
start
expect '"status":2' "$(api "/api/v1/sms/task/$task")"
stop

echo "check-packages: purge"
inside apt-get purge -y -q lksms >"$root/apt.log" 2>&1 || fail "$(tail -20 "$root/apt.log")"
[ ! -e "$root/usr/bin/lksms" ] && [ ! -e "$root/etc/lksms/lksms.env" ] || fail "files remain"
[ -d "$root/var/lib/lksms/postgres" ] || fail "a purge deleted the messages"
echo "check-packages: ok"
