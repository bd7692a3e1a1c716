#!/bin/sh
# RustCrypto (MIT or Apache-2.0) built without AES and SHA instructions: crates.io, 5 MB.
. "$(dirname "$0")/peer.sh"
export RUSTFLAGS='--cfg aes_backend="soft" --cfg sha2_backend="soft"'
cargo_peer providers peer-providers "RustCrypto without instructions" "$peers/soft"
