#!/bin/sh
# Prints the linker's flags that say from what lksms is built: from VERSION or the tag of the last commit. Without git, or in a folder that git refuses to
# read because another user owns it, the program knows no commit.
cd "$(dirname "$0")/.." || exit
x=lksms/internal/platform/build
version=${VERSION:-$(git describe --tags --always --dirty 2>/dev/null || echo devel)}
echo "-s -w -X $x.version=$version -X $x.commit=$(git log -1 --format=%H 2>/dev/null) -X $x.date=$(git log -1 --format=%cI 2>/dev/null)"
