#!/bin/sh
# OpenSSL of the system (Apache-2.0) around a program of ours: crates.io, 1 MB; wants its headers.
. "$(dirname "$0")/peer.sh"
if [ "$action" = fetch ] && [ ! -f /usr/include/openssl/evp.h ]; then
    skipped "no headers of OpenSSL" "on Debian: apt install libssl-dev"
fi
cargo_peer modp peer-modp "OpenSSL of the system" "$peers/build"
