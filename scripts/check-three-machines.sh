#!/usr/bin/env bash
# Follows deploy/patroni/README.md, and the backup and restore of docs/operations.md, on clean Debian machines. The machines are containers that mmdebstrap
# fills and systemd-nspawn boots. Each has its own systemd and address, on a bridge in a network namespace without any other network. The script runs the
# commands of the documents: each block of commands follows a line <!-- test-three: its name -->. It needs root, Debian, the archive of Debian, and 4 GB in
# /tmp. BASE=folder keeps the clean Debian for the next run.
set -euo pipefail
cd "$(dirname "$0")/.."

for program in mmdebstrap systemd-nspawn curl ip; do
    command -v $program >/dev/null || { apt-get update -q >/dev/null; DEBIAN_FRONTEND=noninteractive apt-get install -y -q mmdebstrap systemd-container curl iproute2 >/dev/null; }
done

work=$(mktemp -d /tmp/lksms-three-XXXXXX)
chmod 755 "$work"
space=lksms-$$
base=${BASE:-$work/base}
password=correct-horse-battery
declare -A pid=() ip=([pg1]=10.77.0.11 [pg2]=10.77.0.12 [pg3]=10.77.0.13)

finish() {
    for name in "${!pid[@]}"; do kill_machine "$name"; done
    ip netns del "$space" 2>/dev/null || true
    for group in $(groups_of ''); do find "$group" -depth -type d -path "*/$space-*" -exec rmdir {} + 2>/dev/null || true; done
    rm -rf --one-file-system "$work"
}
trap finish EXIT
trap 'exit 130' INT TERM

say() { echo "check-three-machines: $*"; }
fail() {
    say "$*" >&2
    for name in "${!pid[@]}"; do
        echo "--- $name" >&2
        on "$name" 'journalctl -b --no-pager -u etcd -u patroni -u haproxy -u lksms | grep -v "patroni.*:   " | tail -15; tail -qn 5 /root/*.log' >&2 </dev/null || true
    done
    exit 1
}
await() { # SECONDS WHAT COMMAND...: repeats the command until it succeeds, or fails after so many seconds
    local end=$((SECONDS + $1)) what=$2
    shift 2
    until "$@" >/dev/null 2>&1; do
        [ $SECONDS -lt $end ] || fail "timeout: $what"
        sleep 0.3
    done
}

# groups_of NAME prints the control groups of a container. Without systemd on this machine, all containers would otherwise use the same control groups.
groups_of() {
    [ ! -d /run/systemd/system ] || return 0
    for hierarchy in /sys/fs/cgroup/systemd /sys/fs/cgroup/unified /sys/fs/cgroup; do
        [ ! -e "$hierarchy/cgroup.procs" ] || echo "$hierarchy${1:+/$1}"
    done
}
make_machine() {
    local root=$work/$1
    cp -a "$base" "$root"
    echo "$1" >"$root/etc/hostname"
    echo "127.0.1.1 $1" >>"$root/etc/hosts"
    printf '[Match]\nName=host0\n[Network]\nAddress=%s/24\n' "${ip[$1]}" >"$root/etc/systemd/network/10-host0.network"
}
init_of() { pgrep -P "${pid[$1]}" | head -1; }
is_up() { nsenter --target="$(init_of "$1")" --all systemctl is-system-running --quiet; }
boot() {
    local name group
    for name; do
        nsenter --net="/run/netns/$space" ip link del "vb-$name-$$" 2>/dev/null || true # the link remains after the machine was killed
        (
            for group in $(groups_of "$space-$name"); do mkdir -p "$group" && echo $BASHPID >"$group/cgroup.procs"; done
            exec nsenter --net="/run/netns/$space" systemd-nspawn --quiet --boot --register=no --keep-unit --settings=no --resolv-conf=off --console=pipe \
                --directory="$work/$name" --machine="$name-$$" --hostname="$name" --network-bridge=br77 --bind="$work/backup:/srv/backup"
        ) </dev/null >>"$work/$name.log" 2>&1 &
        pid[$name]=$!
    done
    for name; do await 120 "$name starts" is_up "$name"; done
}
# kill_machine NAME stops a machine at once, like a power failure.
kill_machine() {
    local init
    init=$(init_of "$1" || true)
    kill -9 $init "${pid[$1]}" 2>/dev/null || true
    wait "${pid[$1]}" 2>/dev/null || true
    unset "pid[$1]"
}

# on NAME COMMANDS: runs commands in a shell of root on this machine, with standard input as its terminal.
on() {
    printf 'cd\nset -e\n%s\n' "$2" >"$work/$1/root/commands"
    nsenter --target="$(init_of "$1")" --all env -i HOME=/root USER=root SHELL=/bin/bash TERM=dumb LANG=C.UTF-8 \
        PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin bash /root/commands
}
block() {
    local text
    text=$(awk -v line="<!-- $1 -->" '{ text = $0; sub(/^ +/, "", text) } text == line { found = 1; next } found && text == "```" { exit }
        found == 2 { print text } found && text ~ /^```(ba)?sh$/ { found = 2 }' docs/operations.md deploy/patroni/README.md)
    [ -n "$text" ] || fail "docs/operations.md and deploy/patroni/README.md have no block $1"
    echo "$text"
}
# follow NAME BLOCK...: runs blocks of the documents in one shell on this machine. In the command write-files pg1, NAME replaces pg1.
follow() {
    local name=$1 commands="" text
    shift
    for text; do
        case $text in *:*) ;; *) text="test-three: $text" ;; esac
        text=$(block "$text")
        commands+=${text//write-files pg1 /write-files $name }$'\n'
    done
    on "$name" "$commands" </dev/null >>"$work/$name/root/follow.log" 2>&1 || fail "$name: $*: $(tail -15 "$work/$name/root/follow.log")"
}
everywhere() {
    local name one waits=()
    for name in pg1 pg2 pg3; do follow "$name" "$@" & waits+=($!); done
    for one in "${waits[@]}"; do wait "$one" || exit 1; done
}
to_others() { for name in pg2 pg3; do cp -p "$work/pg1$1" "$work/$name$1"; done; }

pc() { local name=$1; shift; on "$name" "patronictl -c /etc/patroni/config.yml $*" </dev/null 2>/dev/null; }
member() { pc "$1" list -f tsv lksms | awk -F'\t' -v role="$2" '$4 == role && $5 == "running" { print $2 }'; }
is_leader() { [ "$(member "$1" Leader)" = "$1" ]; }
has_new_leader() { case $(member "$1" Leader) in '' | "$2") return 1 ;; esac; }
has_sync() { [ -n "$(member "$1" 'Sync Standby')" ]; }
is_whole() { pc "$1" list -f tsv lksms | awk -F'\t' '$4 == "Leader" { line = $6 } $5 == "running" { of[$6]++ } $4 == "Sync Standby" { sync = 1 } END { exit !(sync && of[line] == 3) }'; }
api() { nsenter --net="/run/netns/$space" curl -sS --max-time 10 --fail-with-body -u "admin:$password" -H 'Content-Type: application/json' "http://${ip[$1]}:8000$2" "${@:3}"; }
task_of() { grep -o 'task_[0-9]*_[0-9A-Z]*' | head -1; }
is_ready() { api "$1" /ready; }
expect() { case $2 in *"$1"*) ;; *) fail "no $1 in: $2" ;; esac; }
sql() { on "$(member "$1" Leader)" "sudo -u postgres psql -At -d lksms -c \"$2\"" </dev/null; }

# load FILE NAME...: submits messages to these machines in turn, until FILE.stop exists. It repeats each message until it is accepted. It writes the task ids to
# FILE, and the longest time between two accepted messages, in milliseconds, to FILE.gap.
load() {
    local file=$1 n=0 longest=0 last now host answer
    shift
    last=$(date +%s%3N)
    : >"$file"
    until [ -e "$file.stop" ]; do
        n=$((n + 1))
        for host in $(for _ in $(seq 300); do echo "$@"; done); do
            answer=$(api "$host" /api/v1/sms/send -d "{\"phone_number\":\"13800138000\",\"content\":\"$n\",\"source\":\"load\",\"dedup_key\":\"$(basename "$file")-$n\"}" 2>/dev/null) && break
            sleep 0.1
        done
        echo "$answer" | task_of >>"$file" || true
        now=$(date +%s%3N)
        [ $((now - last)) -le $longest ] || longest=$((now - last))
        last=$now
    done
    echo $longest >"$file.gap"
}
start_load() { load "$work/$1" "${@:2}" & loader=$!; await 20 "messages are accepted" test -s "$work/$1"; }
stop_load() { # FILE NAME: ends load, and checks that the database contains every accepted message
    touch "$work/$1.stop"
    wait "$loader"
    sql "$2" "SELECT task_id FROM messages WHERE source = 'load'" >"$work/stored"
    [ -z "$(sort "$work/$1" | uniq -d)" ] || fail "an id was given twice"
    lost=$(grep -vxFf "$work/stored" "$work/$1" || true)
    [ -z "$lost" ] || fail "accepted and lost: $lost"
    say "$1: $(wc -l <"$work/$1") messages accepted, none lost, none accepted for at most $(cat "$work/$1.gap") ms"
}
deliver() { # NAME NAME NAME: submits a message on the first machine, claims and reports it on the second, and reads its outcome on the third
    local task
    task=$(api "$1" /api/v1/sms/send -d '{"phone_number":"13800138001","content":"through","source":"check","priority":1}' | task_of)
    for _ in $(seq 50); do
        for claimed in $(api "$2" /api/v1/sms/tasks/claim -d '{"app_id":"phone","limit":100}' | grep -o '"task_id":"[^"]*' | cut -d'"' -f4); do
            api "$2" /api/v1/sms/report -d "{\"task_id\":\"$claimed\",\"app_id\":\"phone\",\"status\":2}" >/dev/null
            [ "$claimed" != "$task" ] || { expect '"status":2' "$(api "$3" "/api/v1/sms/task/$task")"; return; }
        done
    done
    fail "$task was not claimed"
}
old_messages() { for task in "${old[@]}"; do expect "$task" "$(api "$1" "/api/v1/sms/task/$task")"; done; }

if [ ! -d "$base" ]; then
    say "making a clean Debian"
    # The packages and their recommended packages are fetched into apt's cache now, because the machines have no other network. postgres has the same id on all
    # machines, because they share a folder.
    # shellcheck disable=SC2016
    mmdebstrap --quiet --variant=important --skip=cleanup/apt --include=dbus,systemd-sysv,iproute2 \
        --customize-hook='cp /etc/resolv.conf "$1/etc/"; chroot "$1" apt-get update -q' \
        --customize-hook='DEBIAN_FRONTEND=noninteractive chroot "$1" apt-get install -q --yes --download-only -o APT::Install-Recommends=true postgresql etcd-server etcd-client patroni haproxy ca-certificates cron curl sudo' \
        --customize-hook='chroot "$1" adduser --system --quiet --uid 700 --group --home /var/lib/postgresql --no-create-home --shell /bin/bash postgres' \
        --customize-hook='echo LANG=C.UTF-8 >"$1/etc/default/locale"; : >"$1/etc/machine-id"; : >"$1/etc/resolv.conf"; mkdir -p "$1/srv/backup"' \
        --customize-hook='chroot "$1" systemctl --quiet enable systemd-networkd' \
        --customize-hook='echo "APT::Get::Assume-Yes \"true\";" >"$1/etc/apt/apt.conf.d/90machines"; echo "Acquire::Retries 0;" >>"$1/etc/apt/apt.conf.d/90machines"; echo force-unsafe-io >"$1/etc/dpkg/dpkg.cfg.d/machines"' \
        bookworm "$base" >"$work/debian.log" 2>&1 || fail "$(tail -20 "$work/debian.log")"
fi

PLATFORMS=linux/$(dpkg --print-architecture) scripts/packages.sh >"$work/packages.log" 2>&1 || fail "$(tail "$work/packages.log")"
mkdir "$work/backup"
chown "$(chroot "$base" id -u postgres):$(chroot "$base" id -g postgres)" "$work/backup"
ip netns add "$space"
nsenter --net="/run/netns/$space" sh -c 'ip link set lo up; ip link add br77 type bridge; ip addr add 10.77.0.1/24 dev br77; ip link set br77 up'
for name in pg1 pg2 pg3; do make_machine "$name"; cp dist/lksms_*_linux_"$(dpkg --print-architecture)".deb "$work/$name/root/"; done
boot pg1 pg2 pg3

say "one machine, as docs/start.md installs it"
on pg1 "DEBIAN_FRONTEND=noninteractive apt install ./lksms_*.deb
    sed -i \"s/^#BASIC_AUTH_PASSWORD=.*/BASIC_AUTH_PASSWORD='$password'/; s/^#APP_HOST=.*/APP_HOST=0.0.0.0/\" /etc/lksms/lksms.env
    systemctl enable --now lksms" </dev/null >"$work/pg1/root/install.log" 2>&1 || fail "$(tail -20 "$work/pg1/root/install.log")"
await 120 "one machine is ready" is_ready pg1
on pg1 "BASIC_AUTH_PASSWORD='$password' lksms demo" </dev/null >"$work/pg1/root/demo.log" 2>&1 || fail "$(tail -20 "$work/pg1/root/demo.log")"
old=()
for n in 1 2 3 4 5; do old+=("$(api pg1 /api/v1/sms/send -d "{\"phone_number\":\"1380013800$n\",\"content\":\"old\",\"source\":\"old\"}" | task_of)"); done

say "from one machine to three"
everywhere install
follow pg1 settings
sed -i "s/10\.0\.0\./10.77.0./" "$work/pg1/etc/lksms/cluster.env" # the operator edits the addresses
to_others /etc/lksms/cluster.env
everywhere write-files
everywhere etcd
follow pg2 etcd-look
follow pg1 move stop-debian
follow pg1 patroni
await 120 "pg1 leads" is_leader pg1
for name in pg2 pg3; do follow "$name" patroni; done
await 120 "pg2 and pg3 follow" is_whole pg1
everywhere haproxy
follow pg1 lksms-settings
to_others /etc/lksms/lksms.env
everywhere lksms
for name in pg1 pg2 pg3; do old_messages "$name"; done
deliver pg1 pg2 pg3

say "the machine of the leader loses its power"
start_load kill pg1 pg2 pg3
kill_machine pg1
await 120 "another machine leads" has_new_leader pg2 pg1
await 120 "a replica is synchronous again" has_sync pg2
deliver pg2 pg3 pg2
boot pg1
await 120 "pg1 is back" is_whole pg1
await 120 "LKSMS on pg1 is back" is_ready pg1
stop_load kill pg2

say "all machines lose their power"
for name in pg1 pg2 pg3; do kill_machine "$name"; done
boot pg1 pg2 pg3
await 120 "the cluster is back" is_whole pg1
for name in pg1 pg2 pg3; do await 120 "LKSMS on $name is back" is_ready "$name"; old_messages "$name"; done

say "a planned switchover"
start_load switchover pg1 pg2 pg3
from=$(member pg1 Leader) to=$(member pg1 'Sync Standby')
printf '\ny\n' | on pg1 "$(grep -m1 '^pc switchover' deploy/patroni/README.md | sed "s/^pc/patronictl -c \/etc\/patroni\/config.yml/; s/pg1/$from/; s/pg3/$to/")" >"$work/switchover.log" 2>&1 || fail "$(cat "$work/switchover.log")"
await 120 "$to leads" is_leader "$to"
await 120 "the cluster is whole" is_whole pg1
stop_load switchover pg1

say "pg3 is replaced by a new machine"
[ "$(member pg1 Leader)" != pg3 ] || { pc pg1 "switchover lksms --master pg3 --candidate $(member pg1 'Sync Standby') --force" >/dev/null; await 120 "the cluster is whole" is_whole pg1; }
kill_machine pg3
rm -rf --one-file-system "$work/pg3"
make_machine pg3
cp dist/lksms_*_linux_"$(dpkg --print-architecture)".deb "$work/pg3/root/"
boot pg3
follow pg1 replace-member
follow pg3 install
to_others /etc/lksms/cluster.env
to_others /etc/lksms/lksms.env
follow pg3 replace-start
await 120 "the new pg3 follows" is_whole pg1
await 120 "LKSMS on pg3 is ready" is_ready pg3
deliver pg3 pg1 pg2

say "backup"
everywhere backup-settings backup-files
follow pg1 backup-settings archive
await 120 "the cluster is whole" is_whole pg1
await 120 "LKSMS is ready" is_ready pg1
for name in pg1 pg2 pg3; do expect always "$(on "$name" 'sudo -u postgres psql -Atc "SHOW archive_mode"' </dev/null)"; done
follow pg1 backup-settings base
kept=$(api pg1 /api/v1/sms/send -d '{"phone_number":"13800138006","content":"after the backup","source":"kept"}' | task_of)
sleep 2 # the restore point has whole seconds, and must be between two messages
at=$(date -u '+%F %T+00')
sleep 2
sql pg1 "TRUNCATE messages, queue CASCADE" >/dev/null

say "restore to a point in time"
for name in pg1 pg2 pg3; do on "$name" 'systemctl stop lksms' </dev/null; done
leader=$(member pg1 Leader)
for name in pg1 pg2 pg3; do [ "$name" = "$leader" ] || on "$name" 'systemctl stop patroni' </dev/null; done
on "$leader" 'systemctl stop patroni' </dev/null
everywhere restore-away
follow pg1 backup-settings restore-debian
on pg1 "$(block 'test-three: backup-settings'; echo "AT='$at'"; block 'test-restore: restore' | grep -v 'PGDATA.accident"/pg_wal'
    block 'test-restore: look'; block 'test-restore: open')" \
    </dev/null >"$work/pg1/root/restore.log" 2>&1 || fail "$(tail -20 "$work/pg1/root/restore.log")"
printf 'lksms\nYes I am aware\n' | on pg1 'patronictl -c /etc/patroni/config.yml remove lksms' >/dev/null 2>&1 || fail "patronictl remove"
follow pg1 move-debian stop-debian patroni
await 120 "pg1 leads" is_leader pg1
for name in pg2 pg3; do follow "$name" patroni; done
await 120 "pg2 and pg3 follow" is_whole pg1
expect archive_command "$(pc pg1 show-config)"
follow pg1 backup-settings base
for name in pg1 pg2 pg3; do on "$name" 'systemctl enable --now lksms' </dev/null >/dev/null 2>&1; done
for name in pg1 pg2 pg3; do await 120 "LKSMS on $name is ready" is_ready "$name"; old_messages "$name"; done
expect "$kept" "$(api pg2 "/api/v1/sms/task/$kept")"
deliver pg1 pg2 pg3
say ok
