#!/usr/bin/env python3
"""A second implementation of the mesh's bytes, to be read beside docs/protocols/mesh.md.

`reference.py --write` writes the cases into this folder, `reference.py` compares them with what
lies there (exit 1 if one differs). Needs Python 3.11 alone.
"""
import hashlib, math, pathlib, sys

HERE = pathlib.Path(__file__).parent
CASES = {}


def be(n, value):
    return value.to_bytes(n, "big")


def h(n, label, *parts):
    return hashlib.blake2b(bytes([len(label)]) + label.encode() + b"".join(parts), digest_size=n).digest()


def case(file, **fields):
    lines = [f"{key}: {value.hex() if isinstance(value, bytes) else value}" for key, value in fields.items()]
    CASES[f"{file}.txt"] = "\n".join(lines) + "\n"


def cell(clas, life, tick, fill=7):
    size = 512 << clas
    payload = bytes([0x10 | clas, tick % 256]) + bytes([fill]) * (size - 8)
    return bytes([0x10 | clas, life]) + be(4, tick) + payload


def siphash(k0, k1, message):
    """SipHash-2-4 (Aumasson, Bernstein, 2012)."""
    mask = 2**64 - 1
    v = [k0 ^ 0x736f6d6570736575, k1 ^ 0x646f72616e646f6d, k0 ^ 0x6c7967656e657261, k1 ^ 0x7465646279746573]

    def rotate(x, n):
        return (x << n | x >> (64 - n)) & mask

    def rounds(n):
        for _ in range(n):
            v[0] = (v[0] + v[1]) & mask; v[1] = rotate(v[1], 13) ^ v[0]; v[0] = rotate(v[0], 32)
            v[2] = (v[2] + v[3]) & mask; v[3] = rotate(v[3], 16) ^ v[2]
            v[0] = (v[0] + v[3]) & mask; v[3] = rotate(v[3], 21) ^ v[0]
            v[2] = (v[2] + v[1]) & mask; v[1] = rotate(v[1], 17) ^ v[2]; v[2] = rotate(v[2], 32)

    padded = message + bytes(-(len(message) + 1) % 8) + bytes([len(message) % 256])
    for at in range(0, len(padded), 8):
        word = int.from_bytes(padded[at:at + 8], "little")
        v[3] ^= word
        rounds(2)
        v[0] ^= word
    v[2] ^= 0xff
    rounds(4)
    return v[0] ^ v[1] ^ v[2] ^ v[3]


def mix(x):
    """The finalizer of SplitMix64."""
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9 % 2**64
    x = (x ^ x >> 27) * 0x94d049bb133111eb % 2**64
    return x ^ x >> 31


def veil(nonce, i):
    upper, lower = int.from_bytes(i[:8], "big"), int.from_bytes(i[8:], "big")
    upper ^= mix(lower ^ nonce)
    lower ^= mix(upper ^ (nonce << 32 | nonce >> 32) % 2**64)
    return be(8, upper) + be(8, lower)


def sketch(nonce, slice_, slices, ids, first, count):
    symbols = [[0, 0, 0] for _ in range(count)]
    for i in (veil(nonce, i) for i in ids):
        # Both halves of an id are big-endian numbers, which SipHash reads with the low byte first.
        hashed = siphash(nonce, int.from_bytes(b"mezzsync", "big"), i[7::-1] + i[:7:-1])
        if (hashed >> 56) % slices != slice_:
            continue
        at, state = 0, hashed
        while at < first + count:
            if at >= first:
                symbol = symbols[at - first]
                symbol[0] ^= int.from_bytes(i, "big")
                symbol[1] ^= hashed % 2**32
                symbol[2] += 1
            state = (state * 0x5851f42d4c957f2d + 0x14057b7ef767814f) % 2**64
            root = max(math.isqrt(state), 1)
            step = -((2 * at + 3) * (2**32 - root) // (-2 * root))
            at += max(step, 1)
    return b"".join(be(16, s) + be(4, c) + be(2, n % 2**16) for s, c, n in symbols)


def cells():
    for clas in range(4):
        for life in range(4):
            c = cell(clas, life, 0x03020100 + clas)
            i = h(16, "mezza/mesh cell", c)
            case(f"cell-{clas}-{life}", kind="cell", cell=c[:16], fill="07", bytes=len(c), id=i,
                 short=i[:8], sum=i[8:12])
    for name, at, value, error in [("version", 0, 0x20, "head"), ("class", 0, 0x11, "size"),
                                   ("life", 1, 4, "head"), ("tick", 5, 9, "payload"),
                                   ("payload-class", 6, 0x11, "payload")]:
        c = bytearray(cell(0, 0, 0x03020100))
        c[at] = value
        case(f"cell-wrong-{name}", kind="cell", cell=bytes(c[:16]), fill="07", bytes=512, error=error)


def networks():
    day = 20_833
    for name in ["open", "town", "n" * 32]:
        case(f"net-{name[:8]}", kind="net", name=name, day=day, net=h(4, "mezza/mesh net", name.encode(), be(4, day)))
    key = bytes(range(32))
    k_day = h(32, "mezza/mesh key", key, be(4, day))
    frame = bytes([7]) + bytes(range(6))
    mac = hashlib.blake2b(frame, key=k_day, digest_size=32).digest()[:8]
    case("net-closed", kind="net", name="friends", key=key, day=day, net=h(4, "mezza/mesh net", k_day, be(4, day)),
         frame=frame, closed=frame + mac)


def frames():
    name, to = bytes(range(1, 7)), bytes(range(11, 17))
    shorts = [be(8, n * 0x0101_0101_0101) for n in range(1, 4)]
    case("frame-beacon", kind="frame", frame=bytes([1]) + b"net!" + name + be(6, 14_400_000_000) + bytes([2]) + be(2, 9) + be(4, 77))
    case("frame-have", kind="frame", frame=bytes([2]) + name + bytes([3]) + b"".join(shorts))
    case("frame-want", kind="frame", frame=bytes([3]) + name + to + bytes([3, 1]) + b"".join(shorts))
    case("frame-busy", kind="frame", frame=bytes([6]) + name + to + be(2, 300))
    case("frame-bye", kind="frame", frame=bytes([7]) + name)
    case("frame-more", kind="frame", frame=bytes([8]) + name + to + be(8, 99) + be(2, 24) + be(2, 16))
    case("frame-wrong-kind", kind="frame", frame=bytes([9]) + name, error="value")
    case("frame-wrong-none", kind="frame", frame=bytes([2]) + name + bytes([0]), error="value")
    case("frame-wrong-many", kind="frame", frame=bytes([2]) + name + bytes([145]) + bytes(8 * 145), error="value")
    case("frame-wrong-cut", kind="frame", frame=bytes([2]) + name + bytes([3]) + shorts[0], error="truncated")
    case("frame-wrong-long", kind="frame", frame=bytes([7]) + name + b"!", error="trailing")
    case("frame-wrong-again", kind="frame", frame=bytes([3]) + name + to + bytes([1, 2]) + shorts[0], error="value")


def syncs():
    head = bytes([5]) + bytes(6) + bytes(6) + be(8, 99)
    for count, slice_, slices, first, n in [(0, 0, 1, 0, 2), (1, 0, 1, 0, 24), (100, 0, 1, 0, 53), (100, 0, 1, 53, 53),
                                            (100, 3, 4, 0, 24), (1_000, 0, 1, 1_690, 6)]:
        ids = [h(16, "test", be(4, number)) for number in range(count)]
        frame = head + bytes([slice_, slices]) + be(2, first) + bytes([n]) + sketch(99, slice_, slices, ids, first, n)
        case(f"sync-{count}-{slice_}-{first}", kind="sync", count=count, nonce=99, frame=frame)
    for name, slice_, slices, n, symbols in [("slices", 0, 3, 1, 1), ("slice", 2, 2, 1, 1), ("none", 0, 1, 0, 0),
                                             ("many", 0, 1, 54, 54), ("short", 0, 1, 2, 1), ("long", 0, 1, 1, 2)]:
        case(f"sync-wrong-{name}", kind="sync", error="refused",
             frame=head + bytes([slice_, slices, 0, 0, n]) + bytes(22 * symbols))


def main():
    for make in (cells, networks, frames, syncs):
        make()
    if "--write" in sys.argv:
        for name, text in CASES.items():
            (HERE / name).write_text(text)
        return 0
    there = {path.name for path in HERE.glob("*.txt")}
    wrong = [name for name, text in CASES.items() if name not in there or (HERE / name).read_text() != text]
    wrong += sorted(there - CASES.keys())
    for name in wrong:
        print(f"differs: {name}")
    print(f"{len(CASES)} cases, {len(wrong)} differ")
    return 1 if wrong else 0


sys.exit(main())
