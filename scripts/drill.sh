#!/bin/sh
# Makes sure that this machine has what a drill starts beside PostgreSQL: Patroni, etcd and HAProxy of Debian. No service is started.
set -eu

missing() { ! { command -v patroni && command -v etcd && [ -x /usr/sbin/haproxy ]; } >/dev/null; }

missing || exit 0
command -v apt-get >/dev/null && [ "$(id -u)" = 0 ] || {
    echo "drill: install Patroni, etcd and HAProxy first. On Debian as root: apt-get install patroni etcd-server haproxy" >&2
    exit 1
}
# The packages start their services when they are installed, unless this file forbids it.
policy=/usr/sbin/policy-rc.d
[ -e $policy ] || {
    trap 'rm -f $policy' EXIT
    printf '#!/bin/sh\nexit 101\n' >$policy
    chmod 755 $policy
}
install="apt-get install -q -y --no-install-recommends patroni etcd-server haproxy"
export DEBIAN_FRONTEND=noninteractive
# shellcheck disable=SC2086 # words
$install >/dev/null 2>&1 || { apt-get update -q >/dev/null && $install >/dev/null; }
