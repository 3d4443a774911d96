#!/bin/sh
# Installs chromium, with which the console is tested, and a font for Chinese, unless this machine has them.
set -eu

[ -n "${CHROMIUM:-}" ] || command -v chromium >/dev/null || {
    install="apt-get install -q -y --no-install-recommends chromium fonts-noto-cjk"
    export DEBIAN_FRONTEND=noninteractive
    $install >/dev/null 2>&1 || { apt-get update -q >/dev/null && $install >/dev/null; }
}
