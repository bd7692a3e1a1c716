#!/bin/sh
# vodozemac 0.11.1, Apache-2.0: crates.io, about 40 crates, 3 MB.
. "$(dirname "$0")/peer.sh"
cargo_peer vodozemac peer-vodozemac "vodozemac 0.11.1" "$peers/build"
