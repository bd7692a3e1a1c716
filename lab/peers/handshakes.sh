#!/bin/sh
# WireGuard's handshake by boringtun 0.7.1 (BSD-3-Clause) and TLS 1.3 by rustls 0.23 (Apache-2.0, ISC, MIT):
# crates.io, 30 MB, a program of ours around them.
. "$(dirname "$0")/peer.sh"
cargo_peer handshakes peer-handshakes "boringtun 0.7.1, rustls 0.23" "$peers/build"
