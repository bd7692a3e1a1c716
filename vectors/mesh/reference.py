#!/usr/bin/env python3
"""A second implementation of the mesh's bytes, to be read beside docs/protocols/mesh.md.

`reference.py --write` writes the cases into this folder, `reference.py` compares them with what
lies there (exit 1 if one differs). Needs Python 3.11 alone.
"""
import hashlib, pathlib, sys

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


def golomb(nonce, p, ids):
    span = len(ids) << p
    values = sorted(int.from_bytes(h(8, "mezza/mesh sync", be(8, nonce), i), "big") % span for i in ids)
    bits, last = "", 0
    for value in values:
        d, last = value - last, value
        bits += "1" * (d >> p) + "0" + format(d & ((1 << p) - 1), f"0{p}b")
    bits += "0" * (-len(bits) % 8)
    return bytes(int(bits[at:at + 8], 2) for at in range(0, len(bits), 8))


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
    case("frame-wrong-kind", kind="frame", frame=bytes([8]) + name, error="value")
    case("frame-wrong-none", kind="frame", frame=bytes([2]) + name + bytes([0]), error="value")
    case("frame-wrong-many", kind="frame", frame=bytes([2]) + name + bytes([145]) + bytes(8 * 145), error="value")
    case("frame-wrong-cut", kind="frame", frame=bytes([2]) + name + bytes([3]) + shorts[0], error="truncated")
    case("frame-wrong-long", kind="frame", frame=bytes([7]) + name + b"!", error="trailing")
    case("frame-wrong-again", kind="frame", frame=bytes([3]) + name + to + bytes([1, 2]) + shorts[0], error="value")


def syncs():
    head = bytes([5]) + bytes(6) + bytes(6)
    for count, p in [(0, 7), (1, 7), (100, 6), (100, 7), (100, 20)]:
        ids = [h(16, "test", be(4, n)) for n in range(count)]
        bits = golomb(99, p, ids) if ids else b""
        frame = head + be(8, 99) + bytes([0, 1, p]) + be(2, count) + bits
        case(f"sync-{count}-{p}", kind="sync", count=count, nonce=99, p=p, frame=frame)
    for name, slice_, slices, p, n, bits in [("slices", 0, 3, 7, 0, b""), ("slice", 2, 2, 7, 0, b""), ("p", 0, 1, 5, 0, b""),
                                             ("n", 0, 1, 7, 8_193, bytes(9_300)), ("short", 0, 1, 7, 9, bytes(8)),
                                             ("ones", 0, 1, 7, 2, b"\xff" * 40), ("long", 0, 1, 7, 1, bytes(3))]:
        case(f"sync-wrong-{name}", kind="sync", error="refused", frame=head + be(8, 99) + bytes([slice_, slices, p]) + be(2, n) + bits)


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
