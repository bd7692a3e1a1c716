#!/bin/sh
# Tunnels of others: wireguard-go of May 2026, which has segmentation offload (MIT, Go proxy, 10 MB),
# boringtun-cli 0.7.1 (BSD-3-Clause, crates.io, 30 MB), OpenVPN of the system (GPL-2.0, Debian), and what
# measures: iperf3, sockperf and wireguard-tools (Debian). `run PROGRAM ARGS` starts one of them.
. "$(dirname "$0")/peer.sh"
wireguard=$peers/bin/wireguard
boringtun=$peers/bin/boringtun-cli
case $action in
    version)
        for program in iperf3 sockperf wg ip ping; do
            command -v $program >/dev/null || skipped "no $program found" "on Debian: apt install iperf3 sockperf wireguard-tools iproute2 iputils-ping"
        done
        [ -x "$wireguard" ] || skipped "$name is not built" "$fetch_with"
        echo "wireguard-go 20260522$([ -x "$boringtun" ] && echo ", boringtun 0.7.1")$(command -v openvpn >/dev/null && echo ", openvpn")"
        ;;
    fetch)
        mkdir -p "$peers/bin"
        if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
            apt-get install -y -qq iperf3 sockperf wireguard-tools iproute2 iputils-ping openvpn >/dev/null || true
        fi
        command -v go >/dev/null || skipped "no Go found" "on Debian: apt install golang-go"
        GOBIN=$peers/bin go install golang.zx2c4.com/wireguard@v0.0.0-20260522210424-ecfc5a8d5446
        [ -x "$boringtun" ] || cargo install --quiet --locked --root "$peers" \
            --target-dir "$peers/build" --version 0.7.1 boringtun-cli
        ;;
    run)
        shift
        case $1 in
            wireguard) shift; exec "$wireguard" "$@" ;;
            boringtun) shift; exec "$boringtun" "$@" ;;
            *) exec "$@" ;;
        esac
        ;;
    *) usage ;;
esac
