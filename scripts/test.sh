#!/usr/bin/env bash
# Runs all tests and prints their counts. The arguments are flags for most packages: the race detector. The packages of `plain` run beside them
# without it, because their tests do one thing at a time and compute much: it would take minutes to find nothing.
set -euo pipefail
plain=(lksms/internal/model lksms/internal/postgres lksms/internal/sheet)
output=$(mktemp)
trap 'rm -f "$output"' EXIT
{
    status=0
    CGO_ENABLED=0 go test -v -p 2 "${plain[@]}" >"$output" 2>&1 &
    # Tests wait for PostgreSQL more than they compute, so more packages run at once than there are cores.
    go list ./... | grep -vxF -f <(printf '%s\n' "${plain[@]}") | xargs go test -v -p 4 "$@" 2>&1 || status=1
    wait $! || status=1
    cat "$output"
    exit $status
} | awk -f scripts/count-tests.awk
