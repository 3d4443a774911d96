#!/usr/bin/env bash
# Checks the files in deploy/ with promtool: the rules, their tests, the configuration, and the expressions of the dashboard. If promtool is not installed, this
# script unpacks it from Debian's package prometheus. It does not install the package, so that no Prometheus is started.
set -euo pipefail
cd "$(dirname "$0")/.."

temp=$(mktemp -d)
trap 'rm -rf "$temp"' EXIT

promtool=$(command -v promtool || true)
if [ -z "$promtool" ]; then
    download() { (cd "$temp" && apt-get download -q -o APT::Sandbox::User=root prometheus >/dev/null); }
    download 2>/dev/null || { apt-get update -q >/dev/null && download; }
    promtool=$temp/promtool
    dpkg-deb --fsys-tarfile "$temp"/prometheus_*.deb | tar -xO ./usr/bin/promtool >"$promtool"
    chmod +x "$promtool"
fi

# Write the expressions of the dashboard as rules, with values for the variables of the dashboard, so that promtool can check them.
node -e '
    const dashboard = JSON.parse(require("fs").readFileSync("deploy/grafana/lksms.json"));
    const expressions = dashboard.panels.flatMap(panel => panel.targets ?? []).map(target => target.expr);
    const filled = expressions.map(text => text.replaceAll("$__rate_interval", "5m").replaceAll(/\$[a-z]+/g, ".*"));
    const rules = filled.map((expr, i) => ({ record: "dashboard:" + i, expr }));
    console.log(JSON.stringify({ groups: [{ name: "dashboard", rules }] }));
' >"$temp/dashboard.yaml"

if haproxy=$(command -v haproxy); then # HAProxy only warns of host names that this machine cannot resolve
    sed 's/PG[123]_ADDRESS/127.0.0.1/' deploy/patroni/haproxy.cfg >"$temp/haproxy.cfg" # replaces the addresses, as write-files does
    for file in deploy/haproxy/roles.cfg deploy/haproxy/cells.cfg "$temp/haproxy.cfg"; do
        "$haproxy" -c -q -f "$file" 2>"$temp/haproxy.log" || { cat "$temp/haproxy.log" >&2; exit 1; }
    done
fi

cd deploy/prometheus
"$promtool" check rules rules.yaml "$temp/dashboard.yaml"
"$promtool" check config --syntax-only prometheus.yaml
"$promtool" test rules rules_test.yaml
cp rules.yaml "$temp/"
cp ../compose/prometheus.yaml "$temp/compose.yaml"
"$promtool" check config --syntax-only "$temp/compose.yaml"
