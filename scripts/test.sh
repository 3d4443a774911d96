#!/usr/bin/env bash
# Runs all tests and prints their counts. The arguments are go test flags for the packages in `raced`, such as -race. The race detector makes tests three times
# slower, so only packages whose goroutines share memory use it: in the other packages, the database orders concurrent changes. `make race` tests all packages
# with the race detector. -vet=off is possible because make lint also runs vet on the tests.
set -euo pipefail
test=(go test -v -vet=off -timeout 40m) # a package takes three times as long while other packages are tested, and some machines are slow
raced=(lksms/internal/platform/{merge,pdulink,setting,smpp,smstext,snapshot,sweep} lksms/internal/dispatch/{push,queue/line} lksms/internal/insight/statistics lksms/internal/transport/httpapi/{gate,gate/capacity,stream})
longest=(lksms/internal/{dispatch/queue,dispatch/queue/submit,transport/httpapi,insight/alert,platform/migrate,app,platform/access} lksms/test/{model,soak} lksms/cmd/lksms)
mapfile -t raced < <(go list ./... | grep -xF -f <(printf '%s\n' "${raced[@]}"))
longest+=(lksms/test/soak/mutants) # it compiles the service once for each mutant
output=$(mktemp)
trap 'rm -f "$output"' EXIT
{
    status=0
    "${test[@]}" -p 1 "$@" "${raced[@]}" >"$output" 2>&1 &
    # Three packages keep two cores busy: more would only make each test slower, and a condition would not hold in time. The slowest packages start first.
    { printf '%s\n' "${longest[@]}"; go list ./... | grep -vxF -f <(printf '%s\n' "${raced[@]}" "${longest[@]}"); } |
        CGO_ENABLED=0 xargs "${test[@]}" -p 2 2>&1 || status=1
    wait $! || status=1
    cat "$output"
    exit $status
} | awk -f scripts/count-tests.awk
