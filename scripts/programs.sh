#!/bin/sh
# Installs the missing programs of a list. The arguments are program=package, with packages of Debian. It starts no service.
set -eu

PATH=$PATH:/usr/sbin:/sbin
programs='' packages=''
for pair in "$@"; do
    command -v "${pair%=*}" >/dev/null || programs="$programs ${pair%=*}" packages="$packages ${pair#*=}"
done
[ -n "$packages" ] || exit 0
command -v apt-get >/dev/null && [ "$(id -u)" = 0 ] || {
    echo "install first:$programs. On Debian as root: apt-get install$packages" >&2
    exit 1
}
# Packages start their services during installation, unless this file forbids it.
policy=/usr/sbin/policy-rc.d
[ -e $policy ] || {
    trap 'rm -f $policy' EXIT
    printf '#!/bin/sh\nexit 101\n' >$policy
    chmod 755 $policy
}
install="apt-get install -q -y --no-install-recommends$packages"
export DEBIAN_FRONTEND=noninteractive
# shellcheck disable=SC2086 # $install is split into words
$install >/dev/null 2>&1 || { apt-get update -q >/dev/null && $install >/dev/null; }
