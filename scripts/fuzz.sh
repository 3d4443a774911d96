#!/usr/bin/env bash
# Runs every fuzz target in turn, each for $1 (a time such as 60s, or a number of executions such as 100000x), and counts the executions. A target that fails
# stops the run. The failing input is then in testdata/fuzz of the package.
set -euo pipefail
cd "$(dirname "$0")/.."

each=${1:-60s}
go=${GO:-go}
log=$(mktemp)
trap 'rm -f "$log"' EXIT
sum=0
while IFS=: read -r file target; do
    package=./$(dirname "$file")
    # The limit of 100 executions is needed because minimizing an input can otherwise take a minute, in which no new input is tried.
    if ! "$go" test "$package" -run '^$' -fuzz "^$target\$" -fuzztime "$each" -fuzzminimizetime 100x >"$log" 2>&1; then
        cat "$log"
        echo "fuzz: $package $target failed"
        exit 1
    fi
    executions=$(sed -n 's/.*execs: \([0-9]*\).*/\1/p' "$log" | tail -1)
    sum=$((sum + ${executions:-0}))
    printf '%12d  %s %s\n' "${executions:-0}" "$package" "$target"
done < <(grep -rHoE --include='*_test.go' '^func Fuzz[A-Za-z0-9]+' internal cmd test | sed 's/func //' | sort)
printf '%12d  in total\n' "$sum"
