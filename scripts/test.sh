#!/usr/bin/env bash
# Runs all tests and prints their counts. The arguments are flags for the packages of `raced`: the race detector. It takes three times as long, so it is
# for packages in which goroutines share memory; the others let the database decide what is first. `make race` runs it on all.
# Lint runs vet, on the tests too.
set -euo pipefail
test=(go test -v -vet=off -timeout 20m) # a package takes four times as long beside others as alone
raced=(lksms/internal/platform/{merge,setting,snapshot,sweep} lksms/internal/dispatch/{push,queue/line,receipt} lksms/internal/insight/statistics lksms/internal/transport/httpapi/{gate,gate/capacity,stream})
longest=(lksms/internal/{dispatch/queue,dispatch/queue/submit,transport/httpapi,insight/alert,platform/migrate,app,platform/access} lksms/test/{model,soak} lksms/cmd/lksms)
mapfile -t raced < <(go list ./... | grep -xF -f <(printf '%s\n' "${raced[@]}"))
longest+=(lksms/test/soak/mutants) # it compiles the service once for each mutant
output=$(mktemp)
trap 'rm -f "$output"' EXIT
{
    status=0
    "${test[@]}" -p 1 "$@" "${raced[@]}" >"$output" 2>&1 &
    # Tests wait for PostgreSQL more than they compute, so more packages run at once than there are cores. Those that take longest begin first.
    { printf '%s\n' "${longest[@]}"; go list ./... | grep -vxF -f <(printf '%s\n' "${raced[@]}" "${longest[@]}"); } |
        CGO_ENABLED=0 xargs "${test[@]}" -p 3 2>&1 || status=1
    wait $! || status=1
    cat "$output"
    exit $status
} | awk -f scripts/count-tests.awk
