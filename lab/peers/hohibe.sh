#!/bin/sh
# hohibe 0.1.0 (LGPL-3.0-or-later): crates.io, 2 MB.
. "$(dirname "$0")/peer.sh"
cargo_peer hohibe peer-hohibe "hohibe 0.1.0" "$peers/build"
