#!/bin/sh
# ring 0.17.14 (ISC) and, where its headers are, the system's OpenSSL (Apache-2.0): crates.io, 5 MB.
. "$(dirname "$0")/peer.sh"
openssl=
if [ "$action" = fetch ] && [ -f /usr/include/openssl/evp.h ]; then openssl="--features openssl"; fi
# shellcheck disable=SC2086
cargo_peer providers peer-providers "ring 0.17.14, OpenSSL of the system" "$peers/build" $openssl
