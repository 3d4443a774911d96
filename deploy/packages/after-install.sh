#!/bin/sh
# dpkg calls this script with "configure" and the previously installed version, rpm with the number of versions that are installed now.
set -e
# systemd also creates this folder at the start of the service, but a machine without systemd needs it, too.
install -d -o lksms -g lksms -m 0750 /var/lib/lksms
say_how_to_start() {
    cat <<'TEXT'
LKSMS is installed. Set a password in /etc/lksms/lksms.env, then start it:
    systemctl enable --now lksms        (or, where there is no systemd: lksms-run serve)
and open http://127.0.0.1:8000/
TEXT
}
if [ -d /run/systemd/system ]; then
    systemctl daemon-reload
    systemctl try-restart lksms.service 'lksms@*.service' || true
    # The service is not enabled after a new installation, and after a removal and another installation.
    systemctl is-enabled --quiet lksms.service || say_how_to_start
else
    case "$1:${2:-}" in
    configure: | 1:) say_how_to_start ;;
    esac
fi
