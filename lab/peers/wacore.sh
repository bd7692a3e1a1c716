#!/bin/sh
# wacore-libsignal 0.7.0, treated as AGPL-3.0: crates.io, about 90 crates, 10 MB. Run, never linked.
. "$(dirname "$0")/peer.sh"
cargo_peer wacore peer-wacore "wacore-libsignal 0.7.0" "$peers/build"
