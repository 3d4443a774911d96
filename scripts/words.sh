#!/usr/bin/env bash
# Fails if a comment in Go or SQL, a page of docs/ or the name of a test contains a retired word. Not checked are gen/, the migrations of the version $1, and
# the tables of docs/architecture.md, which contain comments of these migrations. Add a word to this list when the word no longer occurs.
set -euo pipefail
cd "$(dirname "$0")/.."

# Each rule for texts consists of a regular expression and the words to use instead.
texts=(
	'\bbec(om(e|es|ing)|ame) of\b|outcome'
	'\bwhoever\b|the noun: the sender, the caller'
	'\bbehind the backs?\b|what happens: it is not sent if'
	'\b(SQL|front|another|other|each|every|one|same|which|its|all) doors?\b|SQL inbox, transport, API or proxy'
	'\b(is|are|be|been|being|was|were) told\b|is notified, logged or published'
	'\b(forgets|forgetting|forgot|forgotten)\b|delete, discard or expire'
	'\b(sender|webhook|breaker|it|that)s? (rests|rested|rest)\b|is paused; of a circuit breaker: is open'
	'\b(leases|state|answers|key|one) of then\b|of that moment'
	'\bat work\b|in progress, in use'
	'\b(is|are) none([.;:,]|$)|no row exists, without, is not a'
	'(^|[^[:alnum:]_.])(notes|noted)\b|records, recorded'
	'\b(stand|stands|stood|wait|waits) in line\b|wait behind'
)
# The rules for the names of test functions have the same form.
names=(
	'Bec(om(e|es)|ame)Of|Outcome'
	'Whoever|the noun'
	'Doors?([A-Z(]|$)|Proxy, Transport'
	'(Is|Are|Be|Was|Were)Told|Notified, Logged, Published'
	'Forg[eo]t|Deletes, Expires'
	'OfThen|OfTheMoment'
	'(IsAt|WasAt|AreAt)Work|InProgress'
	'(Is|Are)None|CountsAsNo'
	'Places?([A-Z(]|$)|Slot, Pool, Position'
)

found=$(mktemp -d)
trap 'rm -rf "$found"' EXIT

# check FILES PREFIX RULE... records the lines that contain a retired word after the prefix. FILES contains the names of the checked files, separated by NUL.
check() {
	local files=$1 prefix=$2 rule
	shift 2
	for rule in "$@"; do
		{ xargs -0 -r grep -nHP -- "$prefix(${rule%|*})" <"$files" || true; } | { grep -vP '^docs/architecture\.md:\d+:\|' || true; } |
			awk -v use="${rule##*|}" '{print; print "    write: " use}' >>"$found/lines"
	done
}

git ls-files -z '*.go' ':!gen/' >"$found/go"
git ls-files -z '*_test.go' ':!gen/' >"$found/tests"
git ls-files -z 'docs/*.md' >"$found/pages"
# If the history lacks the version, as in a shallow clone, no migration is checked.
landed=$(git ls-tree -r --name-only "$1" db/migrations 2>/dev/null) || landed=$(git ls-files db/migrations)
git ls-files '*.sql' ':!gen/' ':!db/schema.sql' | { grep -vxF "${landed:-none}" || true; } | tr '\n' '\0' >"$found/sql"

check "$found/go" '(?i)(^|\s)//.*?' "${texts[@]}"
check "$found/sql" '(?i)--.*?' "${texts[@]}"
check "$found/pages" '(?i)' "${texts[@]}"
check "$found/tests" '^func (Test|Fuzz|Benchmark)\w*?' "${names[@]}"
[ ! -s "$found/lines" ] || { printf 'words: these lines have retired words:\n' >&2; cat "$found/lines" >&2; exit 1; }
