#!/usr/bin/env python3
"""A second implementation of what guards compute, in integers, to be read beside docs/protocols/guard.md.

`reference.py --write` writes the cases into this folder, `reference.py` compares them with what lies
there (exit 1 if one differs). Needs Python 3.11, and `cryptography` for ChaCha20-Poly1305.
"""
import base64, hashlib, hmac, pathlib, sys
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

P = 2**255 - 19
L = 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, -1, P) % P
SQRT_M1 = pow(2, (P - 1) // 4, P)


def sha256(*parts):
    return hashlib.sha256(b"".join(parts)).digest()


def sha512(*parts):
    return hashlib.sha512(b"".join(parts)).digest()


def le(number):
    return number.to_bytes(32, "little")


def wide(data):
    return int.from_bytes(data, "little") % L


def scalar(label):
    return wide(sha512(label.encode()))


def expand(label, count):
    blocks = (sha512(label, b"\0", i.to_bytes(4, "big")) for i in range(-(-count // 64)))
    return b"".join(blocks)[:count]


# ristretto255 (RFC 9496) --------------------------------------------------------------------

def negative(x):
    return x % P & 1


def absolute(x):
    return -x % P if negative(x) else x % P


def sqrt_ratio(u, v):
    r = u * pow(v, 3, P) * pow(u * pow(v, 7, P), (P - 5) // 8, P) % P
    check = v * r * r % P
    right, flipped = check == u % P, check == -u % P
    if flipped or check == -u * SQRT_M1 % P:
        r = r * SQRT_M1 % P
    return right or flipped, absolute(r)


INVSQRT_A_MINUS_D = sqrt_ratio(1, -1 - D)[1]
SQRT_AD_MINUS_ONE = 25063068953384623474111414158702152701244531502492656460079210482610430750235
ZERO = (0, 1, 1, 0)


def plus(a, b):
    (x1, y1, z1, t1), (x2, y2, z2, t2) = a, b
    e, f = (y1 - x1) * (y2 - x2), (y1 + x1) * (y2 + x2)
    g, h = 2 * D * t1 * t2, 2 * z1 * z2
    e, f, g, h = (f - e) % P, (h - g) % P, (h + g) % P, (f + e) % P
    return e * f % P, g * h % P, f * g % P, e * h % P


def times(k, point):
    result = ZERO
    for bit in bin(k)[2:]:
        result = plus(result, result)
        if bit == "1":
            result = plus(result, point)
    return result


def minus(point):
    x, y, z, t = point
    return -x % P, y, z, -t % P


def decode(data):
    """The point of 32 bytes; None for everything but the canonical form of one that is not 0."""
    s = int.from_bytes(data, "little")
    if len(data) != 32 or s >= P or negative(s):
        return None
    u1, u2 = 1 - s * s, 1 + s * s
    v = -(D * u1 * u1) - u2 * u2
    ok, i = sqrt_ratio(1, v * u2 * u2)
    dx = i * u2
    x, y = absolute(2 * s * dx), u1 * i * dx * v % P
    if not ok or negative(x * y) or y == 0:
        return None
    point = (x, y, 1, x * y % P)
    return None if encode(point) == bytes(32) else point


def encode(point):
    x, y, z, t = point
    u1, u2 = (z + y) * (z - y) % P, x * y % P
    i = sqrt_ratio(1, u1 * u2 * u2)[1]
    d1, d2 = u1 * i, u2 * i
    z_inverse = d1 * d2 * t
    d = d2
    if negative(t * z_inverse):
        x, y, d = y * SQRT_M1, x * SQRT_M1, d1 * INVSQRT_A_MINUS_D
    if negative(x * z_inverse):
        y = -y
    return le(absolute(d * (z - y)))


def mapped(t):
    r = SQRT_M1 * t * t % P
    u, v = (r + 1) * (1 - D * D) % P, (-1 - r * D) * (r + D) % P
    square, s = sqrt_ratio(u, v)
    c = -1
    if not square:
        s, c = -absolute(s * t) % P, r
    n = c * (r - 1) * (D - 1) ** 2 - v
    w0, w1, w2, w3 = 2 * s * v, n * SQRT_AD_MINUS_ONE, 1 - s * s, 1 + s * s
    return w0 * w3 % P, w2 * w1 % P, w1 * w3 % P, w0 * w2 % P


def from_uniform(data):
    halves = (int.from_bytes(half, "little") & (2**255 - 1) for half in (data[:32], data[32:]))
    return plus(*(mapped(half % P) for half in halves))


def recover(y, sign):
    ok, x = sqrt_ratio((y * y - 1) % P, (D * y * y + 1) % P)
    assert ok
    x = -x % P if negative(x) != sign else x
    return x, y, 1, x * y % P


B = recover(4 * pow(5, -1, P) % P, 0)
G = B
H = from_uniform(sha512(b"GUARD1-PEDERSEN-H"))


# X25519 (RFC 7748) --------------------------------------------------------------------------

def montgomery(point):
    _, y, z, _ = point
    return le((z + y) * pow(z - y, -1, P) % P)


def compressed(point):
    x, y, z, _ = point
    inverse = pow(z, -1, P)
    return le(y * inverse % P | negative(x * inverse) << 255)


def ladder(k, u):
    x2, z2, x3, z3 = 1, 0, u, 1
    for bit in range(255, -1, -1):
        if k >> bit & 1:
            x2, z2, x3, z3 = x3, z3, x2, z2
        a, b, c, d = x2 + z2, x2 - z2, x3 + z3, x3 - z3
        x3, z3 = (d * a + c * b) ** 2 % P, u * (d * a - c * b) ** 2 % P
        x2, z2 = a * a * b * b % P, (a * a - b * b) * (a * a + 121665 * (a * a - b * b)) % P
        if k >> bit & 1:
            x2, z2, x3, z3 = x3, z3, x2, z2
    return le(x2 * pow(z2, P - 2, P) % P)


def clamped(data):
    k = bytearray(data)
    k[0] &= 0xF8
    k[31] = k[31] & 0x7F | 0x40
    return int.from_bytes(k, "little")


# Groups -------------------------------------------------------------------------------------

class Ristretto:
    """ristretto255, written additively as everything here is."""
    prefix, order, g, h = "", L, G, H
    plus, minus, times, encode = map(staticmethod, (plus, minus, times, encode))
    number, scalar = staticmethod(le), staticmethod(scalar)


def pi_bits(bits):
    """floor(2^bits pi), by Machin's formula."""
    one = 1 << bits + 64

    def arctan(n):
        total, power, k = 0, one // n, 0
        while power:
            total += (-1) ** k * (power // (2 * k + 1))
            power, k = power // (n * n), k + 1
        return total

    return 4 * (4 * arctan(5) - arctan(239)) >> 64


class Modp:
    """RFC 3526, group 15: each element is the lesser of x and p - x."""
    p = 2**3072 - 2**3008 - 1 + 2**64 * (pi_bits(2942) + 1690314)
    prefix, order, g = "modp-", (p - 1) // 2, 2

    @classmethod
    def lesser(cls, x):
        return min(x % cls.p, -x % cls.p)

    @classmethod
    def plus(cls, a, b):
        return cls.lesser(a * b)

    @classmethod
    def minus(cls, a):
        return cls.lesser(pow(a, -1, cls.p))

    @classmethod
    def times(cls, k, a):
        return cls.lesser(pow(a, k, cls.p))

    @staticmethod
    def number(k):
        return k.to_bytes(384, "big")

    encode = number

    @classmethod
    def decode(cls, data):
        x = int.from_bytes(data, "big")
        return x if len(data) == 384 and 2 <= x <= cls.order else None

    @classmethod
    def scalar(cls, label):
        return int.from_bytes(expand(label.encode(), 400), "big") % cls.order


Modp.h = Modp.lesser(int.from_bytes(expand(b"GUARD1-PEDERSEN-H-MODP", 400), "big"))


# Variants -----------------------------------------------------------------------------------

def commit(group, x, r, s):
    blind = group.times(s, group.h)
    return group.plus(group.times(r, group.g), blind), group.plus(blind, x)


def lab_key(group, shared):
    return sha256(b"guard1 lab key", group.encode(shared))


def dh(group, walls):
    encode, number = group.encode, group.number
    a, b = group.scalar("vector dh a"), group.scalar("vector dh b")
    coins = [group.scalar(f"vector dh w{n}") for n in range(walls)]
    out, seen = group.times(a, group.g), group.times(b, group.g)
    for w in coins:
        out = group.times(w, out)
    for w in reversed(coins):
        seen = group.times(w, seen)
    return {"kind": group.prefix + "dh", "a": number(a), "b": number(b),
            "coins": b"".join(map(number, coins)),
            "A": encode(group.times(a, group.g)), "A_wire": encode(out), "B_seen": encode(seen), "key": lab_key(group, group.times(a, seen))}


def comm(group, wall):
    encode, number = group.encode, group.number
    x, r, s, a = (group.scalar(f"vector comm {name}") for name in ("x", "r", "s", "a"))
    alpha, u, v, beta = (group.scalar(f"vector comm {name}") for name in ("alpha", "u", "v", "beta"))
    c1, c2 = commit(group, group.times(x, group.g), r, s)
    case = {"kind": group.prefix + "comm", "wall": wall, "x": number(x), "r": number(r), "s": number(s),
            "a": number(a), "C1": encode(c1), "C2": encode(c2)}
    key, opening = group.times(a, group.g), (r, s)
    if wall in ("committing", "both"):
        shift = group.plus(group.times(u, group.g), group.times(v, group.h))
        c1 = group.times(alpha, group.plus(c1, shift))
        c2 = group.times(alpha, group.plus(c2, group.times(v, group.h)))
        opening = alpha * (r + u) % group.order, alpha * (s + v) % group.order
        case |= {"coins": number(alpha) + number(u) + number(v)}
    if wall in ("answering", "both"):
        c1, c2 = group.times(beta, c1), group.times(beta, c2)
        key = group.times(beta, key)
        opening = tuple(beta * part % group.order for part in opening)
        case |= {"beta": number(beta)}
    if wall in ("committing", "both"):
        key = group.times(alpha, key)
    r, s = opening
    assert encode(c1) == encode(group.plus(group.times(r, group.g), group.times(s, group.h)))
    committed = group.plus(c2, group.minus(group.times(s, group.h)))
    shared = group.times(x, key)
    assert encode(shared) == encode(group.times(a, committed))
    return case | {"C1_seen": encode(c1), "C2_seen": encode(c2), "A_seen": encode(key), "r_seen": number(r),
                   "s_seen": number(s), "key": lab_key(group, shared)}


def eg(group, wall):
    encode, number = group.encode, group.number
    a, b, m = (group.scalar(f"vector eg {name}") for name in ("a", "b", "m"))
    r, alpha, beta = (group.scalar(f"vector eg {name}") for name in ("r", "alpha", "beta"))
    text, g, h = group.times(m, group.g), group.g, group.times(a, group.g)
    case = {"kind": group.prefix + "eg", "wall": wall, "a": number(a), "b": number(b), "m": encode(text),
            "h": encode(h)}
    if wall == "key-maul":
        h = group.times(alpha, h)
    if wall == "remaul":
        g, h = group.times(alpha, g), group.times(beta, h)
    c0, c1 = group.times(b, g), group.plus(group.times(b, h), text)
    if wall in ("rerand", "remaul"):
        c0, c1 = group.plus(c0, group.times(r, g)), group.plus(c1, group.times(r, h))
    coins = {"none": (), "rerand": (r,), "key-maul": (alpha,), "remaul": (alpha, beta, r)}[wall]
    if wall == "remaul":
        c0 = group.times(beta * pow(alpha, -1, group.order) % group.order, c0)
    if wall == "key-maul":
        c0 = group.times(alpha, c0)
    assert encode(group.plus(c1, group.minus(group.times(a, c0)))) == encode(text)
    return case | {"coins": b"".join(map(number, coins)), "c0": encode(c0), "c1": encode(c1)}


def gkx(dialling, answering):
    """Identities are X25519 scalars of 32 times 01 and 02; k guards at each end."""
    keys = [clamped(bytes([n]) * 32) for n in (1, 2)]
    identities = [ladder(key, 9) for key in keys]
    ss = ladder(keys[0], int.from_bytes(identities[1], "little"))
    x, r, s, y = (scalar(f"vector gkx {name}") for name in ("x", "r", "s", "y"))
    c1, c2 = commit(Ristretto, times(x, G), r, s)
    opening, reply = (r, s), times(y, G)
    coins = []
    for n in range(dialling):
        alpha, u, v = (scalar(f"vector gkx {name}{n}") for name in ("alpha", "u", "v"))
        coins.append(le(alpha) + le(u) + le(v))
        c1 = times(alpha, plus(c1, plus(times(u, G), times(v, H))))
        c2 = times(alpha, plus(c2, times(v, H)))
        opening = alpha * (opening[0] + u) % L, alpha * (opening[1] + v) % L
        reply = times(alpha, reply)
    wire = encode(c1) + encode(c2), b"".join(map(le, opening))
    for n in range(answering):
        beta = scalar(f"vector gkx beta{n}")
        coins.append(le(beta))
        c1, c2, reply = times(beta, c1), times(beta, c2), times(beta, reply)
        opening = tuple(beta * part % L for part in opening)
    shared = encode(times(x, reply))
    assert shared == encode(times(y, plus(c2, minus(times(opening[1], H)))))
    prk = hmac.digest(b"guard1 gkx", shared + ss + bytes(32), "sha256")
    info, stream, block = b"keys\0" + identities[0] + identities[1], b"", b""
    for n in range(1, 5):
        block = hmac.digest(prk, block + info + bytes([n]), "sha256")
        stream += block
    tag_i = hmac.digest(stream[:32], b"initiator", "sha256")[:16]
    tag_r = hmac.digest(stream[32:64], b"responder", "sha256")[:16]
    return {"kind": "gkx", "dialling": dialling, "answering": answering, "x": le(x), "r": le(r), "s": le(s),
            "y": le(y), "coins": b"".join(coins), "g1_wire": b"\1\1" + wire[0],
            "g1_seen": b"\1\1" + encode(c1) + encode(c2), "g2_seen": b"\1\2" + encode(reply),
            "g3_wire": b"\1\3" + wire[1] + tag_i, "g4": b"\1\4" + tag_r,
            "initiator_key": stream[64:96], "responder_key": stream[96:]}


# Coins --------------------------------------------------------------------------------------

def coin(encoding, era):
    key, client, purpose, dest, index = b"\x0c" * 32, b"\xc1" * 16, 1, 7, 3
    if era:
        key = hmac.digest(key, b"era" + era, "sha512")[:32]
    slot = client + bytes([purpose]) + dest.to_bytes(2, "big") + index.to_bytes(8, "big")
    rho = wide(hmac.digest(key, b"rho" + slot, "sha512"))
    secret = scalar("vector coin xc")
    total = (secret + rho) % L
    if encoding == "ristretto":
        z, public = encode(times(secret, G)), encode(times(total, G))
    else:
        eighth = times(secret * pow(8, -1, L) % L, B)
        z, public = compressed(eighth), montgomery(times(total, B))
        assert public == montgomery(plus(times(8, eighth), times(rho, B)))
    case = {"kind": "coin", "encoding": encoding, "coin_key": b"\x0c" * 32, "era": era, "client": client,
            "purpose": purpose, "dest": dest, "index": index, "rho": le(rho),
            "h": sha256(b"guard1 coin", slot, le(rho)), "x_c": le(secret), "Z": z, "X": public}
    if encoding == "x25519":
        peer = clamped(bytes([9]) * 32)
        unclamped = total + (3 * total % 8) * L
        shared = ladder(unclamped, int.from_bytes(ladder(peer, 9), "little"))
        assert shared == ladder(peer, int.from_bytes(public, "little"))
        case |= {"peer": bytes([9]) * 32, "shared": shared}
    return case


# Control frames and pairing -----------------------------------------------------------------

PAIRING = b"\x07" * 32
NONCES = b"\x01" * 32, b"\x02" * 32


def header(kind, count):
    return bytes([1, kind]) + count.to_bytes(2, "big")


def sealed(kind, plain, counter=0, info=b"guard1 g2c"):
    prk = hmac.digest(NONCES[0] + NONCES[1], PAIRING, "sha256")
    key = hmac.digest(prk, info + b"\1", "sha256")
    head = header(kind, len(plain) + 16)
    return head + ChaCha20Poly1305(key).encrypt(bytes(4) + counter.to_bytes(8, "big"), plain, head)


def control(kind, plain):
    clear = kind in (0x70, 0x71)
    frame = header(kind, len(plain)) + plain if clear else sealed(kind, plain)
    return {"kind": "control", "frame_kind": kind, "plain": plain, "frame": frame, "expect": "ok"}


def control_wrong(kind, plain):
    return control(kind, plain) | {"expect": "refused"}


def pairing():
    code = base64.b32encode(PAIRING + sha256(b"guard1 pairing", PAIRING)[:3]).decode()
    return {"kind": "pairing", "key": PAIRING, "code": code,
            "client": sha256(b"guard1 client", PAIRING)[:16], "expect": "ok"}


# Safe primes --------------------------------------------------------------------------------

def probable(n):
    return all(n % q for q in (2, 3, 5, 7, 11, 13) if n != q) and all(
        pow(base, n - 1, n) == 1 for base in (2, 3, 5, 7, 11))


def safe_prime(bits, seed):
    data = bytearray(expand(b"guard1 safe-prime" + seed, bits // 8))
    data[0] |= 0xC0
    q = int.from_bytes(data, "big") >> 1
    q += (11 - q) % 12
    i = 0
    while not (probable(q) and pow(2, q, 2 * q + 1) == 1):
        q, i = q + 12, i + 1
    return {"kind": "safe-prime", "bits": bits, "seed": seed, "i": i, "p": (2 * q + 1).to_bytes(bits // 8, "big")}


def element(data, expect):
    assert (decode(data) is not None) == (expect == "ok")
    return {"kind": "element", "bytes": data, "expect": expect}


def modp_element(data):
    return {"kind": "modp-element", "bytes": data, "expect": "refused" if Modp.decode(data) is None else "ok"}


def scalar_case(data, expect):
    return {"kind": "scalar", "bytes": data, "expect": expect}


def flipped(data, bit):
    data = bytearray(data)
    data[bit // 8] ^= 1 << bit % 8
    return bytes(data)


def gkx_wrong(base, name):
    """A case of one guard at each end, in which a frame of the wire is another one."""
    case, frame = dict(base) | {"kind": "gkx-wrong", "expect": "refused"}, None
    g1, g2, g3, g4 = base["g1_wire"], b"", base["g3_wire"], base["g4"]
    q = int.from_bytes(g3[2:34], "little") + L
    changes = {
        "g1-65": {"g1_wire": g1[:65]}, "g1-67": {"g1_wire": g1 + b"\0"}, "g1-zero": {"g1_wire": g1[:34] + bytes(32)},
        "g1-kind": {"g1_wire": b"\1\2" + g1[2:]}, "g3-opening": {"g3_wire": flipped(g3, 8 * 2)},
        "g3-q": {"g3_wire": g3[:2] + le(q) + g3[34:]}, "g3-tag": {"g3_wire": flipped(g3, 8 * 70)},
        "g4-tag": {"g4": flipped(g4, 8 * 2)}, "g4-short": {"g4": g4[:17]},
    }
    return case | changes[name]


GKX_WRONG = ("g1-65", "g1-67", "g1-zero", "g1-kind", "g3-opening", "g3-q", "g3-tag", "g4-tag", "g4-short")


def cases():
    yield "group-h", {"kind": "group", "h": encode(H), "g": encode(G)}
    for n, data in enumerate([bytes(32), le(P), b"\xff" * 32, le(1), le(P - 1), encode(H)[:31], encode(H) + b"\0",
                              le(2**255 - 1), le(26)]):
        yield f"element-wrong-{n}", element(data, "refused" if decode(data) is None else "ok")
    yield "element", element(encode(H), "ok")
    yield "scalar", scalar_case(le(L - 1), "ok")
    for name, number in (("q", L), ("q-plus-1", L + 1), ("most", 2**256 - 1)):
        yield f"scalar-wrong-{name}", scalar_case(le(number), "refused")
    q = Modp.order
    yield "modp-group", {"kind": "modp-group", "p": Modp.number(Modp.p), "g": Modp.encode(Modp.g),
                         "h": Modp.encode(Modp.h)}
    for name, x in (("g", 2), ("q", q), ("h", Modp.h), ("wrong-0", 0), ("wrong-1", 1), ("wrong-above-q", q + 1),
                    ("wrong-minus-1", Modp.p - 1), ("wrong-p", Modp.p), ("wrong-minus-h", Modp.p - Modp.h)):
        yield f"modp-element-{name}", modp_element(Modp.number(x))
    for name, data in (("short", Modp.number(2)[1:]), ("long", b"\0" + Modp.number(2)), ("most", b"\xff" * 384)):
        yield f"modp-element-wrong-{name}", modp_element(data)
    yield "modp-scalar", scalar_case(Modp.number(q - 1), "ok") | {"kind": "modp-scalar"}
    for name, number in (("q", q), ("q-plus-1", q + 1)):
        yield f"modp-scalar-wrong-{name}", scalar_case(Modp.number(number), "refused") | {"kind": "modp-scalar"}
    for group in (Ristretto, Modp):
        for walls in (0, 1, 3):
            yield f"{group.prefix}dh-{walls}", dh(group, walls)
        for wall in ("none", "committing", "answering", "both"):
            yield f"{group.prefix}comm-{wall}", comm(group, wall)
        for wall in ("none", "rerand", "key-maul", "remaul"):
            yield f"{group.prefix}eg-{wall}", eg(group, wall)
    for dialling, answering in ((0, 0), (1, 0), (0, 1), (1, 1), (2, 2)):
        yield f"gkx-{dialling}-{answering}", gkx(dialling, answering)
    for name in GKX_WRONG:
        yield f"gkx-wrong-{name}", gkx_wrong(gkx(0, 0), name)
    for encoding in ("ristretto", "x25519"):
        yield f"coin-{encoding}", coin(encoding, b"")
        yield f"coin-{encoding}-era", coin(encoding, b"\xee" * 32)
    for name in ("client", "index", "rho"):
        wrong = coin("ristretto", b"") | {"kind": "coin-wrong", "expect": "refused"}
        other = {"client": {"client": b"\xc2" * 16}, "index": {"index": 4}, "rho": {"rho": le(1)}}[name]
        yield f"coin-wrong-{name}", wrong | other
    slot = bytes([2]) + (9).to_bytes(8, "big") + b"\x44" * 32
    for name, kind, plain in (
        ("hail", 0x70, b"\x03" * 16 + NONCES[1]), ("hello", 0x71, NONCES[0]), ("open-blind", 0x72, b"\0\0\7"),
        ("open-coins", 0x72, b"\1\0\7"), ("slot", 0x73, slot), ("point", 0x74, slot), ("coin", 0x75, slot),
        ("seed", 0x76, b"\x55" * 32), ("ready", 0x77, b""), ("refused", 0x78, b"\3"),
    ):
        yield f"control-{name}", control(kind, plain)
    for name, kind, plain in (
        ("mode", 0x72, b"\2\0\7"), ("purpose", 0x73, b"\3" + slot[1:]), ("code", 0x78, b"\7"), ("code-0", 0x78, b"\0"),
        ("long", 0x77, b"\0"), ("short", 0x76, b"\x55" * 31), ("kind", 0x79, b""), ("hail-short", 0x70, b"\3" * 47),
    ):
        yield f"control-wrong-{name}", control_wrong(kind, plain)
    yield "control-wrong-tag", control(0x77, b"") | {"frame": flipped(sealed(0x77, b""), 40), "expect": "refused"}
    yield "control-wrong-counter", control(0x77, b"") | {"frame": sealed(0x77, b"", 1), "expect": "refused"}
    yield "control-wrong-way", control(0x77, b"") | {"frame": sealed(0x77, b"", 0, b"guard1 c2g"), "expect": "refused"}
    yield "pairing", pairing()
    code = pairing()["code"]
    yield "pairing-wrong-letter", pairing() | {"code": "B" + code[1:] if code[0] == "A" else "A" + code[1:], "expect": "refused"}
    yield "pairing-wrong-short", pairing() | {"code": code[:-1], "expect": "refused"}
    for bits, seed in ((64, b"one"), (64, b"two"), (128, b"one"), (256, b"")):
        yield f"safe-prime-{bits}-{seed.decode() or 'empty'}", safe_prime(bits, seed)


def text(case):
    show = lambda value: value.hex() if isinstance(value, bytes) else str(value)
    return "".join(f"{key}: {show(value)}".rstrip() + "\n" for key, value in case.items())


def main():
    folder = pathlib.Path(__file__).parent
    wanted = {f"{name}.txt": text(case) for name, case in cases()}
    if "--write" in sys.argv:
        for name, content in wanted.items():
            (folder / name).write_text(content)
    wrong = [name for name, content in wanted.items()
             if not (folder / name).exists() or (folder / name).read_text() != content]
    wrong += [path.name for path in folder.glob("*.txt") if path.name not in wanted]
    print(f"{len(wanted)} cases, {len(wrong)} differ {' '.join(sorted(wrong))}".rstrip())
    sys.exit(1 if wrong else 0)


main()
