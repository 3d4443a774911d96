#!/usr/bin/env bash
# Fails if the title of a commit after the version $1 does not begin with one of these words, or has more than 72 characters. If the history lacks the version,
# as in a shallow clone, the script checks nothing.
set -euo pipefail
words='Add|Document|Fix|Measure|Move|Remove|Rename|Revert|Speed up|Split|Test|Update|Use'
git rev-parse --verify --quiet "$1^{commit}" >/dev/null || { echo "titles: $1 is not in the history of this clone, so that no title is checked"; exit 0; }
wrong=$(git log --no-merges --format=%s "$1..HEAD" | grep -vE "^($words) " || true)$(git log --no-merges --format=%s "$1..HEAD" | grep -E "^.{73}" || true)
[ -z "$wrong" ] || { printf 'titles: these begin with none of %s, or have more than 72 characters:\n%s\n' "${words//|/, }" "$wrong" >&2; exit 1; }
