#!/bin/sh
# Runs tests on a CPU with AVX-512 IFMA that Bochs emulates: it boots a Linux with nothing in it but
# their programs. For machines without such a CPU. Half a minute to boot, then some hundred times
# slower than life.
#
#   crates/mezza-lanes/emulate.sh [CARGO TEST ARGUMENTS] [-- TEST ARGUMENTS]
#
# Without arguments: all tests of mezza-lanes, through this kernel alone. Debian's packages are
# enough; the system's kernel comes with `apt-get download`, which needs no root.
set -eu
cd "$(dirname "$0")/../.."
work=$(realpath "${CARGO_TARGET_DIR:-target}")/emulate

build=
while [ $# -gt 0 ] && [ "$1" != -- ]; do build="$build $1" && shift; done
[ $# -eq 0 ] || shift

for program in bochs-bin grub-mkrescue xorriso mformat busybox; do
    command -v $program >/dev/null && continue
    echo "SKIPPED $program is missing; apt install bochs bochs-term grub-pc-bin xorriso mtools busybox-static"
    exit 69
done
if ! ls "$work"/kernel/boot/vmlinuz-* >/dev/null 2>&1; then
    mkdir -p "$work/kernel"
    image=$(apt-cache depends linux-image-cloud-amd64 | sed -n 's/.*Depends: \(linux-image-[0-9].*\)/\1/p')
    (cd "$work" && apt-get download -q "$image" && dpkg -x "$image"_*.deb kernel)
fi

# Programs, and the libraries that they load.
rm -rf "$work/disk" "$work/inside"
mkdir -p "$work/disk/boot/grub"
mkdir -p "$work/inside/bin" "$work/inside/proc" "$work/inside/dev" "$work/inside/tmp" "$work/inside/tests"
cp "$(command -v busybox)" "$work/inside/bin"
export MEZZA_TEST_KERNEL=ifma
# shellcheck disable=SC2086
cargo test ${build:--p mezza-lanes} --no-run --message-format json |
    sed -n 's/.*"test":true}.*"executable":"\([^"]*\)".*/\1/p' >"$work/programs"
while read -r program; do
    objcopy --strip-debug "$program" "$work/inside/tests/$(basename "$program")"
    ldd "$program" | grep -o '/[^ ]*' | xargs -I '{}' cp -L --parents '{}' "$work/inside"
done <"$work/programs"
cat >"$work/inside/init" <<END
#!/bin/busybox sh
busybox mount -t proc proc /proc
busybox mount -t devtmpfs dev /dev
cd /tmp
export RUST_BACKTRACE=1
busybox grep -m 1 'model name' /proc/cpuinfo
failed=0
busybox grep -q avx512ifma /proc/cpuinfo || failed=1
for test in /tests/*; do
    "\$test" $* || failed=1
done
echo "ended with \$failed"
busybox poweroff -f
END
chmod +x "$work/inside/init"

# What Bochs gets wrong: the sizes of two parts of the state, and moves of bytes without ERMS.
cat >"$work/disk/boot/grub/grub.cfg" <<'END'
set timeout=0
menuentry tests {
    linux /boot/vmlinuz console=ttyS0,115200 quiet mitigations=off nokaslr tsc=reliable panic=-1 clearcpuid=pku,xsavec,xsaves,fsrm
    initrd /boot/initrd
}
END
(cd "$work/inside" && busybox find . | busybox cpio -o -H newc) 2>/dev/null | gzip -1 >"$work/disk/boot/initrd"
cp "$work"/kernel/boot/vmlinuz-* "$work/disk/boot/vmlinuz"
grub-mkrescue -d /usr/lib/grub/i386-pc -o "$work/disk.iso" "$work/disk" >"$work/grub.log" 2>&1
cat >"$work/bochsrc" <<END
cpu: model=corei7_icelake_u, ips=20000000, reset_on_triple_fault=0
memory: guest=1024, host=1024
romimage: file=/usr/share/bochs/BIOS-bochs-latest
vgaromimage: file=/usr/share/vgabios/vgabios.bin
ata0-master: type=cdrom, path=$work/disk.iso, status=inserted
boot: cdrom
com1: enabled=1, mode=file, dev=$work/console
display_library: term
log: $work/log
panic: action=fatal
error: action=ignore
info: action=ignore
clock: sync=none
END
# Debian builds Bochs with its debugger, which waits to be told.
printf 'c\nq\n' >"$work/go"
rm -f "$work/console"
: >"$work/console"
TERM=xterm script -qfc "bochs -q -f $work/bochsrc -rc $work/go" /dev/null </dev/null >"$work/screen" 2>&1 &
tail -f -n +1 --pid=$! "$work/console" | sed -un '/model name/,/^ended with/p'
grep -q '^ended with 0' "$work/console"
