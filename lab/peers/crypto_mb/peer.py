"""crypto_mb's X25519 behind the line protocol of the lab: `rate shared|fixed COUNT CALLS`."""

import ctypes
import sys
import time

LANES = 8
# How a build answers that has no code for this CPU.
NO_CODE = 0xAAAAAAAA
WARM_UP, BATCHES = 5, 25


def skipped(reason):
    print("SKIPPED " + reason)
    sys.exit(69)


def load(path):
    """The library, or an end that says what it lacks."""
    try:
        return ctypes.CDLL(path)
    except OSError as error:
        skipped(f"crypto_mb does not load: {error}; on Debian: apt install libssl3")


def lanes(fill):
    """Eight buffers of 32 bytes, and the array of their addresses."""
    buffers = [ctypes.create_string_buffer(fill(lane), 32) for lane in range(LANES)]
    addresses = (ctypes.c_void_p * LANES)(*[ctypes.addressof(buffer) for buffer in buffers])
    return buffers, addresses


def clamped(lane):
    scalar = bytearray((37 * lane + 11 * at) % 256 for at in range(32))
    scalar[0] &= 0xF8
    scalar[31] = scalar[31] & 0x7F | 0x40
    return bytes(scalar)


class Eight:
    """Both operations on eight inputs."""

    def __init__(self, library):
        self.kept = [lanes(lambda _: bytes(32)), lanes(clamped), lanes(lambda _: b"\x09" + bytes(31))]
        out, keys, points = (addresses for _, addresses in self.kept)
        product, public = library.mbx_x25519_mb8, library.mbx_x25519_public_key_mb8
        product.restype = public.restype = ctypes.c_uint32
        self.calls = {"shared": (product, (out, keys, points)), "fixed": (public, (out, keys))}

    def status(self):
        function, arguments = self.calls["fixed"]
        return function(*arguments)

    def rate(self, op, count, calls):
        function, arguments = self.calls[op]
        repeat = range(calls * -(-count // LANES))
        each = []
        for batch in range(WARM_UP + BATCHES):
            began = time.clock_gettime_ns(time.CLOCK_THREAD_CPUTIME_ID)
            for _ in repeat:
                function(*arguments)
            spent = time.clock_gettime_ns(time.CLOCK_THREAD_CPUTIME_ID) - began
            if batch >= WARM_UP:
                each.append(spent / calls)
        each.sort()
        return each[0], each[BATCHES // 2]

    def right(self):
        """Whether both operations agree: k 9 by the ladder, and by the table."""
        results = []
        for function, arguments in self.calls.values():
            function(*arguments)
            results.append([buffer.raw for buffer in self.kept[0][0]])
        return results[0] == results[1] and results[0][0] != bytes(32)


def main():
    eight = Eight(load(sys.argv[1]))
    if eight.status() == NO_CODE:
        skipped("crypto_mb has no code for this CPU: avx512ifma missing")
    if not eight.right():
        skipped("crypto_mb computes something else than X25519; fetch it again")
    if sys.argv[2] == "version":
        print("crypto_mb of ipp-crypto 2026.2.0")
        return
    for line in sys.stdin:
        words = line.split()
        if words == ["version"]:
            answer = "ok crypto_mb of ipp-crypto 2026.2.0"
        elif len(words) == 4 and words[0] == "rate" and words[1] in eight.calls:
            answer = "ok %.1f %.1f" % eight.rate(words[1], int(words[2]), int(words[3]))
        else:
            answer = "err not understood: " + line.strip()
        print(answer, flush=True)


main()
