#!/bin/sh
# The folder /var/lib/lksms with the messages, and the user lksms, remain even after a purge: only an operator deletes them.
set -e
if [ -d /run/systemd/system ]; then
    systemctl daemon-reload || true
fi
