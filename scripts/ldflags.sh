#!/bin/sh
# Prints the linker flags that set the version, the commit and the date of lksms. The version is VERSION, or the tag of the last commit. Without git, or in a
# folder of another user that git refuses to read, the program does not know its commit.
cd "$(dirname "$0")/.." || exit
x=lksms/internal/platform/build
version=${VERSION:-$(git describe --tags --always --dirty 2>/dev/null || echo devel)}
echo "-s -w -X $x.version=$version -X $x.commit=$(git log -1 --format=%H 2>/dev/null) -X $x.date=$(git log -1 --format=%cI 2>/dev/null)"
