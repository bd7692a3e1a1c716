#!/usr/bin/env python3
"""A second implementation of the batches of docs/protocols/lanes.md, in integers of any size.

`reference.py --write` writes the cases into this folder, `reference.py` compares them with what
lies there (exit 1 if one differs). Needs Python 3.8 and nothing else.
"""
import pathlib, sys

P = 2**255 - 19
POLY = 2**130 - 5
SMALL_ORDER = [0, 1, P - 1, P, P + 1,
               325606250916557431795983626356110631294008115727848805560023387167927233504,
               39382357235489614581723060781553021112529911719440698176882885853963445705823]
LENGTHS = [0, 1, 15, 16, 17, 63, 64, 65, 272, 368, 4096]


def x25519(k, u):
    """RFC 7748, section 5, on 32 bytes each."""
    k = int.from_bytes(k, "little") & (2**255 - 8) | 2**254
    x1 = int.from_bytes(u, "little") % 2**255
    x2, z2, x3, z3, swap = 1, 0, x1, 1, 0
    for t in reversed(range(255)):
        bit = k >> t & 1
        if swap ^ bit:
            x2, x3, z2, z3 = x3, x2, z3, z2
        swap = bit
        a, b, c, d = x2 + z2, x2 - z2, x3 + z3, x3 - z3
        da, cb, aa, bb = d * a, c * b, a * a, b * b
        x3, z3 = (da + cb) ** 2 % P, x1 * (da - cb) ** 2 % P
        e = aa - bb
        x2, z2 = aa * bb % P, e * (aa + 121665 * e) % P
    if swap:
        x2, z2 = x3, z3
    return (x2 * pow(z2, P - 2, P) % P).to_bytes(32, "little")


def rotl(x, n):
    return (x << n | x >> 32 - n) & 0xFFFFFFFF


def chacha20(key, counter):
    """RFC 8439, section 2.3, nonce zero: 64 bytes."""
    start = [0x61707865, 0x3320646E, 0x79622D32, 0x6B206574]
    start += [int.from_bytes(key[i:i + 4], "little") for i in range(0, 32, 4)] + [counter, 0, 0, 0]
    s = start[:]
    columns = [(i, i + 4, i + 8, i + 12) for i in range(4)]
    diagonals = [(i, 4 + (i + 1) % 4, 8 + (i + 2) % 4, 12 + (i + 3) % 4) for i in range(4)]
    for a, b, c, d in (columns + diagonals) * 10:
        for x, y, z, n in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
            s[x] = s[x] + s[y] & 0xFFFFFFFF
            s[z] = rotl(s[z] ^ s[x], n)
    return b"".join((a + b & 0xFFFFFFFF).to_bytes(4, "little") for a, b in zip(s, start))


def seal(key, text):
    """RFC 8439, section 2.8, nonce zero, no additional data: the body, then the tag."""
    stream = b"".join(chacha20(key, 1 + i) for i in range((len(text) + 63) // 64))
    body = bytes(a ^ b for a, b in zip(text, stream))
    once = chacha20(key, 0)
    r = int.from_bytes(once[:16], "little") & 0x0FFFFFFC0FFFFFFC0FFFFFFC0FFFFFFF
    data = body + bytes(-len(body) % 16) + bytes(8) + len(body).to_bytes(8, "little")
    h = 0
    for i in range(0, len(data), 16):
        h = (h + int.from_bytes(data[i:i + 16] + b"\1", "little")) * r % POLY
    return body + ((h + int.from_bytes(once[16:32], "little")) % 2**128).to_bytes(16, "little")


def total(chunks):
    """The checksum of the self-test: every bit of every output counts, and so does its place."""
    state = 0
    for data in chunks:
        for i in range(0, len(data), 16):
            state = (state << 7 | state >> 121) & (2**128 - 1)
            state ^= int.from_bytes(data[i:i + 16], "little")
    return state


def fill(length, seed):
    """Bytes that look like nothing, the same at every run."""
    state, out = seed * 2 + 1, bytearray()
    for _ in range(length):
        state = state * 6364136223846793005 + 1442695040888963407 & (2**64 - 1)
        out.append(state >> 56)
    return bytes(out)


def batch(kind, scalars, points):
    lines = [f"kind: {kind}"]
    pairs = [(k, u) for k in scalars for u in points] if len(scalars) == 1 else zip(scalars, points)
    for k, u in pairs:
        lines.append(f"k: {k.hex()}\nu: {u.hex()}\nout: {x25519(k, u).hex()}")
    return "\n".join(lines) + "\n"


def sealed(length):
    lines = ["kind: aead"]
    for i in range(17 if length < 1000 else 2):
        key, text = fill(32, 1000 * length + i), fill(length, 1000 * length + 500 + i)
        lines.append(f"key: {key.hex()}\ntext: {text.hex()}\nsealed: {seal(key, text).hex()}")
    return "\n".join(lines) + "\n"


def selftest():
    nine, scalars = bytes([9] + [0] * 31), [bytes([i + 1] * 32) for i in range(9)]
    each = [x25519(k, nine) for k in scalars]
    shared = [x25519(scalars[8], u) for u in each]
    texts = [bytes((31 * i + j) % 256 for j in range(100)) for i in range(17)]
    tags = [seal(bytes([i + 1] * 32), text)[100:] for i, text in enumerate(texts)]
    sums = {"shared": shared, "each": each, "tags": tags}
    return "kind: selftest\n" + "".join(f"{n}: {total(s):032x}\n" for n, s in sums.items())


def cases():
    edges = [u.to_bytes(32, "little") for u in SMALL_ORDER + [2, 9, P - 2, P + 2, P + 18]]
    edges += [bytes(a | b for a, b in zip(u, bytes(31) + b"\x80")) for u in edges]
    random = [fill(32, i) for i in range(257)]
    zeros, ones = bytes(32), b"\xff" * 32
    nine = bytes([9] + [0] * 31)
    yield "shared-edges", batch("shared", [fill(32, 9001)], edges + random[:9])
    yield "shared-zeros", batch("shared", [zeros], edges)
    yield "shared-ones", batch("shared", [ones], edges)
    yield "each", batch("each", random, [fill(32, 600 + i) for i in range(257)])
    scalars = [zeros, ones] + [b"\x88" * 32, b"\x77" * 32, b"\x78" * 32] + random[:28]
    yield "fixed-base", batch("fixed", scalars, [nine] * len(scalars))
    point = x25519(fill(32, 77), nine)
    yield "fixed-other", batch("fixed", scalars, [point] * len(scalars))
    for length in LENGTHS:
        yield f"aead-{length}", sealed(length)
    yield "selftest", selftest()


def main():
    folder, wrong = pathlib.Path(__file__).parent, 0
    for name, text in cases():
        path = folder / f"{name}.txt"
        if "--write" in sys.argv:
            path.write_text(text)
        elif not path.is_file() or path.read_text() != text:
            print(f"{path.name} differs")
            wrong += 1
    sys.exit(1 if wrong else 0)


main()
