# Sourced by the scripts beside it.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
peers=${MEZZA_PEERS:-${CARGO_TARGET_DIR:-$root/target}/peers}

skipped() {
    echo "SKIPPED $1; $2"
    exit 69
}

# cargo_peer FOLDER BINARY VERSION TARGET [cargo arguments]: version, fetch and run of a Rust peer.
cargo_peer() {
    folder=$1 binary=$2 version=$3 target=$4
    shift 4
    program=$target/release/$binary
    case $action in
        version)
            [ -x "$program" ] || skipped "$name is not built" "$fetch_with"
            echo "$version"
            ;;
        fetch)
            mkdir -p "$target"
            CARGO_TARGET_DIR=$target cargo build --quiet --release --locked \
                --manifest-path "$here/$folder/Cargo.toml" "$@"
            ;;
        run) exec "$program" ;;
        *) usage ;;
    esac
}

# jar GROUP:ARTIFACT:VERSION SHA256: fetches a jar with Maven's own client and compares it.
jar() {
    file=$peers/$(echo "$1" | cut -d: -f2-3 | tr : -).jar
    if [ ! -f "$file" ]; then
        command -v mvn >/dev/null || skipped "no Maven found" "on Debian: apt install maven"
        mvn -q -B -Dstyle.color=never dependency:copy "-Dartifact=$1" "-DoutputDirectory=$peers"
    fi
    echo "$2  $file" | sha256sum --check --status || {
        echo "$file has another SHA-256 than pinned; delete it and fetch again; if it stays, report it"
        exit 78
    }
}

needs_jdk() {
    command -v javac >/dev/null || skipped "no JDK found" "on Debian: apt install default-jdk-headless"
}

usage() {
    echo "usage: $name.sh version|fetch|run" >&2
    exit 2
}

name=$(basename "$0" .sh)
action=${1:-}
fetch_with="fetch it with \`lab/peers/$name.sh fetch\`"
