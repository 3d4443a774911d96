#!/usr/bin/env bash
# Tags the last commit as a version, such as 1.0.0, and builds the published files of this version into dist/. It pushes nothing.
set -euo pipefail
cd "$(dirname "$0")/.."

fail() {
    echo "release: $1" >&2
    exit 2
}
version=${1#v}
[[ $version =~ ^[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.]+)?$ ]] || fail "give VERSION=1.0.0, or with a suffix such as 1.1.0-rc1"
[ -z "$(git status --porcelain)" ] || fail "the working folder has changes that are not committed"
grep -qx "## ${version%%-*}" CHANGELOG.md || fail "CHANGELOG.md has no section ## ${version%%-*}"
grep -qx "  version: ${version%%-*}" api/openapi.yaml || fail "info.version of api/openapi.yaml is not ${version%%-*}"
if tagged=$(git rev-parse --verify --quiet "refs/tags/v$version^{commit}"); then
    [ "$tagged" = "$(git rev-parse HEAD)" ] || fail "v$version is another commit, $tagged"
else
    git tag -a "v$version" -m "LKSMS $version"
fi
VERSION=$version scripts/packages.sh
echo "release: v$version is tagged and built. To publish it: git push origin v$version, and upload dist/."
