#!/bin/sh
# dpkg calls it with "remove" or "upgrade", rpm with the number of versions that remain.
set -e
case "$1" in
remove | 0)
    if [ -d /run/systemd/system ]; then
        systemctl disable --now lksms.service || true
        systemctl disable --now 'lksms@*.service' || true
    fi
    ;;
esac
