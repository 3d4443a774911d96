#!/usr/bin/env bash
# Builds the published files of a version into dist/: static binaries with their SBOM, deb and rpm packages, and checksums. The version is VERSION. Without
# VERSION, it is the tag of the last commit. Without a tag, it consists of the time and the hash of the last commit. The same commit gives the same files.
# PLATFORMS contains the platforms to build.
set -euo pipefail
umask 022
cd "$(dirname "$0")/.."

go=${GO:-go}
platforms=${PLATFORMS:-linux/amd64 linux/arm64 darwin/amd64 darwin/arm64}

# In deb and rpm, ~ sorts before everything, so that any real version is newer than a build of a commit.
version=${VERSION:-$(git describe --tags --exact-match 2>/dev/null || TZ=UTC git log -1 --abbrev=12 --date=format-local:%Y%m%d%H%M%S --format='0~%cd.%h')}
version=${version#v}
case $version in
[0-9]*) ;;
*) echo "packages: VERSION=$version does not begin with a digit" >&2; exit 2 ;;
esac
# 1.0.0-rc1 becomes 1.0.0~rc1, because dpkg would sort 1.0.0-rc1 after 1.0.0, and rpm allows no dash.
version=${version//-/\~}
case $version in
*[!0-9A-Za-z.~+]*) echo "packages: VERSION=$version has other characters than letters, digits, . + - ~" >&2; exit 2 ;;
esac
[ -z "$(git status --porcelain)" ] || version=$version.dirty
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export VERSION=$version SOURCE_DATE_EPOCH CGO_ENABLED=0

rm -rf dist
mkdir -p dist
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tools=$work/tools
mkdir "$tools"
(cd tools/packages && "$go" build -trimpath -o "$tools/" github.com/goreleaser/nfpm/v2/cmd/nfpm github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod)

# File modes must not depend on the umask of the checkout.
cp -R docs deploy/prometheus deploy/grafana deploy/backup deploy/patroni deploy/haproxy "$work/"
chmod -R u=rwX,go=rX "$work/docs" "$work/prometheus" "$work/grafana" "$work/backup" "$work/patroni" "$work/haproxy"
# The template unit lksms@ROLE runs a server with one role.
sed -e 's/^Description=.*/Description=LKSMS, a server with the role %i/' -e 's|^EnvironmentFile=.*|&\nEnvironmentFile=-/etc/lksms/%i.env|' -e 's|^ExecStart=.*|& --roles=%i|' \
    deploy/packages/lksms.service >"$work/lksms@.service"
export WORK=$work

for platform in $platforms; do
    os=${platform%/*} arch=${platform#*/}
    name=lksms_${version}_${os}_$arch
    folder=$work/$name
    mkdir "$folder"
    GOOS=$os GOARCH=$arch "$go" build -trimpath -buildvcs=false -ldflags="$(scripts/ldflags.sh)" -o "$folder/lksms" ./cmd/lksms
    cp LICENSE README.md CHANGELOG.md "$folder/"
    # The SBOM lists the Go modules in this binary.
    "$tools/cyclonedx-gomod" bin -json -std -noserial -notimestamp -output "dist/$name.cdx.json" "$folder/lksms"
    tar --sort=name --mode=u=rwX,go=rX --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner -C "$work" -c "$name" | gzip -n >"dist/$name.tar.gz"
    if [ "$os" = linux ]; then
        for kind in deb rpm; do
            ARCH=$arch BINARY=$folder/lksms "$tools/nfpm" package --config deploy/packages/nfpm.yaml --packager "$kind" --target "dist/$name.$kind" >"$work/nfpm.log" || { cat "$work/nfpm.log" >&2; exit 1; }
        done
    fi
done

# This SBOM lists the npm packages of the console, which each binary contains.
(cd web && npm sbom --sbom-format=cyclonedx --sbom-type=application --omit=dev --package-lock-only) |
    node -e 'const sbom = JSON.parse(require("fs").readFileSync(0)); delete sbom.serialNumber; delete sbom.metadata.timestamp
        console.log(JSON.stringify(sbom, null, 2))' >"dist/lksms_${version}_console.cdx.json"

(cd dist && sha256sum -- * >SHA256SUMS)
echo "packages: dist/ holds version $version:"
(cd dist && du -h -- * | awk '{printf "  %-60s %s\n", $2, $1}')
