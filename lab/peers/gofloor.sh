#!/bin/sh
# The Go floor: 3 x (X25519 + secretbox.Open) and 3 x secretbox.Seal a message, a program of ours on
# golang.org/x/crypto of June 2020 (BSD-3-Clause, Go proxy, 2 MB), the last with the assembly ladder.
. "$(dirname "$0")/peer.sh"
program=$peers/gofloor
case $action in
    version)
        [ -x "$program" ] || skipped "$name is not built" "$fetch_with"
        echo version | "$program" | sed 's/^ok //'
        ;;
    fetch)
        command -v go >/dev/null || skipped "no Go found" "on Debian: apt install golang-go"
        mkdir -p "$peers"
        cd "$here/gofloor" && go build -trimpath -mod=readonly -o "$program" .
        ;;
    run) exec "$program" ;;
    *) usage ;;
esac
