# Reads the output of `go test -v`. Prints the result line of each package, the whole output of packages that failed, and the counts at the end.
/^ *--- PASS/ { passed++ }
/^ *--- FAIL/ { failed++ }
/^ *--- SKIP/ { skipped++; print }
/^=== / { next }
/^(ok|FAIL|\?|---|panic:)/ && !/^--- (PASS|SKIP)/ {
    if ($1 == "ok") { print; kept = "" } else { printf "%s", kept; kept = ""; print }
    next
}
!/^ *--- (PASS|SKIP)/ { kept = kept $0 "\n" }
END {
    printf "%s", kept
    printf "%d passed, %d failed, %d skipped\n", passed, failed, skipped
}
