#!/bin/sh
# dpkg calls this script with "remove" or "upgrade", rpm with the number of versions that remain.
set -e
case "$1" in
remove | 0)
    if [ -d /run/systemd/system ]; then
        systemctl disable --now lksms.service || true
        systemctl stop 'lksms@*.service' || true
        for link in /etc/systemd/system/*.wants/lksms@?*.service; do # systemctl disable does not accept patterns
            [ ! -L "$link" ] || systemctl disable "${link##*/}" || true
        done
    fi
    ;;
esac
