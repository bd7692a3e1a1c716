#!/bin/sh
# ProVerif 2.05 (GPL-2.0-or-later) on the models of SEKA, by opam, 120 MB with its compiler: Debian has no
# package. `run` says of each model whether its results are those in its second line.
. "$(dirname "$0")/peer.sh"
models=$root/crates/mezza-seka/models
case $action in
    version)
        command -v proverif >/dev/null || skipped "no proverif found" "install it as its authors say: opam install proverif.2.05"
        proverif --help 2>&1 | head -n 1
        ;;
    fetch)
        command -v opam >/dev/null || skipped "no opam found" "on Debian: apt install opam"
        opam install --yes proverif.2.05
        ;;
    run)
        "$0" version || exit 69
        wrong=0
        for model in "$models"/*.pv; do
            expected=$(sed -n 's/^(\* expected: \(.*\) \*)$/\1/p' "$model")
            found=$(proverif -lib "$models/seka.pvl" "$model" | sed -n \
                -e '/^RESULT.* is true\.$/s/.*/true/p' \
                -e '/^RESULT.* is false\.$/s/.*/false/p' \
                -e '/^RESULT.* cannot be proved\.$/s/.*/open/p' | tr '\n' ' ' | sed 's/ $//')
            # What is expected to stay open may also be shown to be false.
            verdict=as-expected
            i=0
            for want in $expected; do
                i=$((i + 1))
                got=$(echo "$found" | cut -d' ' -f$i)
                [ "$got" = "$want" ] || { [ "$want" = open ] && [ "$got" = false ]; } || verdict=WRONG
            done
            [ $verdict = as-expected ] || wrong=1
            echo "$(basename "$model" .pv)  $verdict  $found"
        done
        exit $wrong
        ;;
    *) usage ;;
esac
