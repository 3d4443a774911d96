#!/bin/sh
set -e
if ! getent passwd lksms >/dev/null; then
    useradd --system --user-group --home-dir /var/lib/lksms --no-create-home --shell /usr/sbin/nologin --comment LKSMS lksms
fi
