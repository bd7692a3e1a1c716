#!/bin/sh
# Intel's crypto_mb (ipp-crypto 2026.2.0, Apache-2.0, with Intel's run-time library under its own
# licence): PyPI, two wheels, 60 MB. Runs on CPUs with AVX-512 IFMA alone; wants libcrypto.so.3.
. "$(dirname "$0")/peer.sh"
folder=$peers/crypto_mb
library=$folder/lib/libcrypto_mb.so
export LD_LIBRARY_PATH="$folder/lib"
command -v python3 >/dev/null || skipped "no Python found" "on Debian: apt install python3"
case $action in
    version)
        [ -f "$library" ] || skipped "crypto_mb is not here" "$fetch_with"
        python3 "$here/crypto_mb/peer.py" "$library" version || exit 69
        ;;
    fetch)
        python3 -m pip install --quiet --no-deps --ignore-installed --prefix "$folder" \
            --require-hashes -r "$here/crypto_mb/requirements.txt"
        ;;
    run) exec python3 "$here/crypto_mb/peer.py" "$library" run ;;
    *) usage ;;
esac
