#!/usr/bin/env python3
"""A second implementation of the bytes of docs/protocols/hibe.md, to be read beside it.

`reference.py --write` writes the cases into this folder, `reference.py` compares them with what lies
there (exit 1 if one differs), and opens the envelopes of `ours-*.txt` and `life-ours-*.txt`, which the crate made. Needs
Python 3.11, `py_ecc` for the curve and `cryptography` for ChaCha20 and ChaCha20-Poly1305.
"""
import hashlib, pathlib, sys
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from py_ecc.bls.hash_to_curve import hash_to_G1
from py_ecc.bls.point_compression import compress_G1, compress_G2, decompress_G1
from py_ecc.optimized_bls12_381 import (
    FQ, FQ12, G1, G2, Z1, add, curve_order as Q, field_modulus as P, final_exponentiate, multiply, neg, normalize, pairing)

DST = b"FSHIBE-V01-CS01-with-BLS12381G1_XMD:SHA-256_SSWU_RO_"
H_A = hash_to_G1(b"fshibe/v1/A", DST, hashlib.sha256)
HERE = pathlib.Path(__file__).parent


def be(n, value):
    return value.to_bytes(n, "big")


def digest(data, n=32, key=b""):
    return hashlib.blake2b(data, digest_size=n, key=key).digest()


def h(n, label, *parts):
    return digest(bytes([len(label)]) + label.encode() + b"".join(parts), n)


def g1(point):
    return be(48, compress_G1(point))


def g2(*points):
    return b"".join(be(48, half) for point in points for half in compress_G2(point))


def decode_g1(data):
    """Canonical, on the curve, finite; None if it is not."""
    try:
        point = decompress_G1(int.from_bytes(data, "big"))
    except Exception:
        return None
    return point if point != Z1 and g1(point) == data and data[0] & 0x40 == 0 else None


class Draws:
    """Block i is BLAKE2b-512(seed | u64 i); each scalar takes one."""

    def __init__(self, seed):
        self.seed, self.block = seed, 0

    def __call__(self):
        wide = digest(self.seed + be(8, self.block), 64)
        self.block += 1
        return int.from_bytes(wide, "little") % Q

    def pair(self):
        return [self(), self()]


# The tree -------------------------------------------------------------------------------------

WIDE, SMALL, LIVES = [16, 16, 32, 32, 64], [3, 2, 4], [4, 2, 4]
# Of tree 2 and of its small twin 0xE: number of a life, its first and last child of the root, ticks of an epoch.
BRANCHES = {2: [(0, 1, 14, 1), (2, 15, 15, 60), (3, 16, 16, 1440)], 0xe: [(0, 1, 2, 1), (2, 3, 3, 2), (3, 4, 4, 4)]}


def subtree(arities, depth):
    below = 1
    for arity in reversed(arities[depth:]):
        below = 1 + arity * below
    return below


def path(arities, epoch):
    m = []
    while epoch > 0:
        epoch -= 1
        below = subtree(arities, len(m) + 1)
        m.append(epoch // below + 1)
        epoch %= below
    return m


def branch(tree, arities, life):
    """First epoch, epoch behind the last one, ticks of an epoch."""
    below = subtree(arities, 1)
    return next((1 + (a - 1) * below, 1 + b * below, k) for number, a, b, k in BRANCHES[tree] if number == life)


def epoch_in(tree, arities, life, origin, tick):
    first, end, k = branch(tree, arities, life)
    epoch = first + (tick - origin) // k
    assert first <= epoch < end
    return epoch


# The scheme -----------------------------------------------------------------------------------

def dot(a, b):
    return (a[0] * b[0] + a[1] * b[1]) % Q


def at(levels, m):
    """x_0 + sum m_i x_i."""
    return [(levels[0][j] + sum(mi * level[j] for mi, level in zip(m, levels[1:]))) % Q for j in (0, 1)]


class Master:
    def __init__(self, depth, draw):
        self.b, self.x, self.y = draw.pair(), [], []
        for _ in range(depth + 1):
            self.x.append(draw.pair())
            self.y.append(draw.pair())
        self.x1, self.y1 = draw(), draw()

    def public(self):
        commit = lambda y, x: add(multiply(G1, y), multiply(H_A, x))
        return [[commit(y[j], x[j]) for j in (0, 1)] for x, y in zip(self.x, self.y)], commit(self.y1, self.x1)

    def root(self, draw):
        s, big = draw(), draw()
        t, bt = [s * b % Q for b in self.b], [big * b % Q for b in self.b]
        key = [t[0], t[1], dot(self.x[0], t) + self.x1, dot(self.y[0], t) + self.y1]
        key += [bt[0], bt[1], dot(self.x[0], bt), dot(self.y[0], bt)]
        for x, y in zip(self.x[1:], self.y[1:]):
            key += [dot(x, t), dot(x, bt), dot(y, t), dot(y, bt)]
        return [multiply(G2, k % Q) for k in key]


def sums(key, m):
    """u*, v*, U*, V* along a relative path, and the levels below it."""
    u, v, bu, bv = key[2], key[3], key[6], key[7]
    levels = [key[i:i + 4] for i in range(8, len(key), 4)]
    for mi, (d, bd, e, be_) in zip(m, levels):
        u, v = add(u, multiply(d, mi)), add(v, multiply(e, mi))
        bu, bv = add(bu, multiply(bd, mi)), add(bv, multiply(be_, mi))
    return u, v, bu, bv, levels[len(m):]


def derive(key, m, draw):
    """USKDel: the user key, and what is below it where levels are left."""
    u, v, bu, bv, below = sums(key, m)
    s = draw()
    plus = lambda a, b: add(a, multiply(b, s))
    out = [plus(key[0], key[4]), plus(key[1], key[5]), plus(u, bu), plus(v, bv)]
    if not below:
        return out
    big = draw()
    times = lambda a: multiply(a, big)
    out += [times(key[4]), times(key[5]), times(bu), times(bv)]
    for d, bd, e, be_ in below:
        out += [plus(d, bd), times(bd), plus(e, be_), times(be_)]
    return out


def z(pk, m):
    total = list(pk[0][0])
    for mi, level in zip(m, pk[0][1:]):
        total = [add(total[j], multiply(level[j], mi)) for j in (0, 1)]
    return total


def header(pk, m, r):
    return b"".join(g1(point) for point in [multiply(G1, r), multiply(H_A, r), *(multiply(p, r) for p in z(pk, m))])


def gt_bytes(f):
    """The document's pairing is e^-3 for the e of py_ecc; w^6 = 1 + u."""
    f = FQ12.one() / (f * f * f)
    a = [int(c) for c in f.coeffs]
    return b"".join(be(48, (a[i] + a[i + 6]) % P) + be(48, a[i + 6]) for i in range(6))


def product(pairs):
    f = FQ12.one()
    for p, q in pairs:
        f = f * pairing(q, p, final_exponentiate=False)
    return gt_bytes(final_exponentiate(f))


def encapsulated(pk, r):
    return product([(multiply(pk[1], r), G2)])


def decapsulated(key, c):
    t0, t1, u, v = key[:4]
    return product(zip(c, [v, u, neg(t0), neg(t1)]))


# Messages -------------------------------------------------------------------------------------

def card(pk, tree, k, origin):
    return bytes([0x10 | tree, k]) + be(4, origin) + b"".join(g1(p) for p in [*sum(pk[0], []), pk[1]])


def stream(key, data):
    return Cipher(algorithms.ChaCha20(key, bytes(16)), None).encryptor().update(data)


def envelope(pkh, tick, c, k, r, payload, bucket=0, change=lambda body: body, low=None):
    keys = h(64, "fshibe/v1/kdf", pkh, be(4, tick), c, k)
    body = r.to_bytes(32, "little") + be(2, len(payload)) + payload
    body = change(body + bytes((512 << bucket) - 6 - 194 - 32 - len(body)))
    front = bytes([0x10 | bucket, tick % 256 if low is None else low]) + c + stream(keys[:32], body)
    return front + digest(front, 32, keys[32:])


def opened(pk, pkh, m, key, tick, data):
    """The payload, or None."""
    c = [decode_g1(data[2 + 48 * i:50 + 48 * i]) for i in range(4)]
    if None in c:
        return None
    keys = h(64, "fshibe/v1/kdf", pkh, be(4, tick), data[2:194], decapsulated(key, c))
    if digest(data[:-32], 32, keys[32:]) != data[-32:]:
        return None
    body = stream(keys[:32], data[194:-32])
    r, length = int.from_bytes(body[:32], "little"), int.from_bytes(body[32:34], "big")
    if not 0 < r < Q or header(pk, m, r) != data[2:194] or any(body[34 + length:]) or 34 + length > len(body):
        return None
    return body[34:34 + length]


def record(pkh, generation, start, kind, depth, points, key, tree=0xf):
    text = bytes([1, 0x10 | tree, kind, depth]) + be(4, start) + points
    aad = b"fshibe/v1/rec" + pkh + be(8, generation) + be(4, start) + bytes([kind])
    return ChaCha20Poly1305(key).encrypt(bytes(12), text, aad)


def ring(origin, floors, generation, entries, tree=0xf, size=12288):
    """One floor for each life."""
    front = b"SHK1" + bytes([0x10 | tree, 1]) + be(4, origin) + b"".join(be(4, floor) for floor in floors)
    front += be(8, generation) + be(2, len(entries))
    front += b"".join(be(4, start) + bytes([kind]) + key for start, kind, key in entries)
    return front + bytes(size - len(front))


# Cases ----------------------------------------------------------------------------------------

class World:
    """A wide tree whose leaf is derived level by level, and a small one with two epochs left."""

    def __init__(self):
        draw = Draws(bytes(range(32)))
        self.origin, self.tick, self.epoch = 59_000_000, 60_000_007, 1_000_007
        master = Master(5, draw)
        self.pk, self.root = master.public(), master.root(draw)
        self.m, key = path(WIDE, self.epoch), self.root
        for mi in self.m:
            key = derive(key, [mi], draw)
        self.leaf, self.r = key, draw()
        self.card = card(self.pk, 1, 1, self.origin)
        self.pkh = h(32, "fshibe/v1/card", self.card)

        draw = Draws(bytes(range(32, 64)))
        master = Master(3, draw)
        self.small, root = master.public(), master.root(draw)
        self.small_card = card(self.small, 0xf, 1, self.origin)
        self.small_pkh = h(32, "fshibe/v1/card", self.small_card)
        self.leaves = {epoch: derive(root, path(SMALL, epoch), draw) for epoch in (32, 33)}
        u, v, bu, bv, _ = sums(root, path(SMALL, 32))
        big = draw()
        self.lent = bytes([1, 0x1f, 1, 3]) + be(4, self.origin) + be(4, 32)
        self.lent += g2(*(multiply(p, big) for p in (root[4], root[5], bu, bv)))
        self.small_r = draw()
        self.lives(Draws(bytes(range(64, 96))))
        self.c = header(self.small, path(SMALL, 32), self.small_r)
        self.k = encapsulated(self.small, self.small_r)

    def lives(self, draw):
        """A small tree of three lives: two epochs of each, and of the longest one the node behind them, too."""
        # A multiple of four ticks, the longest epoch of this tree.
        self.life_origin = 59_000_000
        master = Master(3, draw)
        self.life_pk, self.life_root = master.public(), master.root(draw)
        self.life_card = card(self.life_pk, 0xe, 1, self.life_origin)
        self.life_pkh = h(32, "fshibe/v1/card", self.life_card)
        self.life_keys, self.life_ticks, self.life_floors = {}, {}, []
        for life in (0, 2, 3):
            first, end, k = branch(0xe, LIVES, life)
            floor = first + 4 if life == 3 else end - 2
            self.life_floors.append(floor)
            self.life_ticks[life] = self.life_origin + (floor - first) * k
            for epoch in range(floor, floor + (3 if life == 3 else 2)):
                self.life_keys[epoch] = derive(self.life_root, path(LIVES, epoch), draw)
        self.life_r = draw()
        self.life_k = encapsulated(self.life_pk, self.life_r)

    def sealed_for(self, life, tick, payload, **more):
        m = path(LIVES, epoch_in(0xe, LIVES, life, self.life_origin, tick))
        return envelope(self.life_pkh, tick, header(self.life_pk, m, self.life_r), self.life_k, self.life_r, payload, **more)

    def sealed(self, epoch=32, payload=b"hello", **more):
        if epoch == 32:
            return envelope(self.small_pkh, self.origin + 32, self.c, self.k, self.small_r, payload, **more)
        c = header(self.small, path(SMALL, epoch), self.small_r)
        return envelope(self.small_pkh, self.origin + epoch, c, self.k, self.small_r, payload, **more)


def schemes(w):
    c, k = header(w.pk, w.m, w.r), encapsulated(w.pk, w.r)
    assert decapsulated(w.leaf, [decode_g1(c[48 * i:48 * i + 48]) for i in range(4)]) == k
    data = envelope(w.pkh, w.tick, c, k, w.r, b"hello")
    yield "scheme", dict(
        kind="scheme", card=w.card, pkh=w.pkh, path=" ".join(map(str, w.m)), tick=w.tick, root=digest(g2(*w.root)), leaf=g2(*w.leaf),
        r=w.r.to_bytes(32, "little"), c=c, gt=digest(k), binding=h(32, "fshibe/v1/bind", w.pkh, be(4, w.tick), c), envelope=data,
        payload=b"hello", pairing=digest(product([(G1, G2)])), h_a=g1(H_A), expect="opened")


def changed(data, position, value):
    return data[:position] + value + data[position + len(value):]


def cards(w):
    case = lambda name, data, expect: (f"card-{name}", dict(kind="card", card=data, expect=expect))
    yield case("right", w.card, "ok")
    yield case("wrong-suite", changed(w.card, 0, b"\x21"), "Suite")
    yield case("wrong-tree", changed(w.card, 0, b"\x13"), "Tree")
    yield case("wrong-test-tree", w.small_card, "Tree")
    yield case("wrong-k", changed(w.card, 1, b"\x02"), "Profile")
    yield case("wrong-origin", changed(w.card, 1, b"\x3c") [:2] + be(4, 59_000_001) + w.card[6:], "Origin")
    yield case("wrong-end", changed(w.card, 2, b"\xff\xff\xff\xff"), "Origin")
    yield case("wrong-short", w.card[:-1], "Length")
    yield case("wrong-long", w.card + b"\0", "Length")
    yield case("wrong-empty", b"", "Length")
    z3 = 6 + 48 * 6
    order3 = (FQ(0), FQ(2), FQ(1))
    off = g1(add(decompress_G1(int.from_bytes(w.card[z3:z3 + 48], "big")), order3))
    yield case("wrong-subgroup", changed(w.card, z3, off), "Point(6)")
    yield case("wrong-infinity", changed(w.card, 582, b"\xc0" + bytes(47)), "Point(12)")
    yield case("wrong-x", changed(w.card, 6, be(48, P | 1 << 383)), "Point(0)")
    yield case("wrong-flag", changed(w.card, 54, bytes([w.card[54] & 0x7f])), "Point(1)")


def envelopes(w):
    case = lambda name, data, expect, payload=b"": (
        f"envelope-{name}", dict(kind="envelope", envelope=data, expect=expect, payload=payload))
    data = w.sealed()
    assert opened(w.small, w.small_pkh, path(SMALL, 32), w.leaves[32], w.origin + 32, data) == b"hello"
    yield case("right", data, "opened", b"hello")
    yield case("right-next", w.sealed(33, b"and next"), "opened", b"and next")
    yield case("right-empty", w.sealed(payload=b""), "opened")
    for bucket, size in enumerate((246, 758, 1782, 3830)):
        payload = bytes(i % 251 for i in range(size))
        yield case(f"right-{bucket}", w.sealed(payload=payload, bucket=bucket), "opened", payload)
    for slot in range(4):
        yield case(f"wrong-infinity-{slot}", changed(data, 2 + 48 * slot, b"\xc0" + bytes(47)), "not for me")
    yield case("wrong-x", changed(data, 2, be(48, P | 1 << 383)), "not for me")
    yield case("wrong-flag", changed(data, 2, bytes([data[2] & 0x7f])), "not for me")
    order3 = (FQ(0), FQ(2), FQ(1))
    shifted = g1(add(decompress_G1(int.from_bytes(data[2:50], "big")), order3))
    yield case("wrong-second-form", changed(data, 2, shifted), "not for me")
    c = shifted + w.c[48:]
    resealed = envelope(w.small_pkh, w.origin + 32, c, w.k, w.small_r, b"hello")
    yield case("wrong-second-form-resealed", resealed, "not for me")
    for name, position in (("kind", 0), ("c", 100), ("r", 200), ("length", 227), ("payload", 230), ("padding", 400), ("tag", 500)):
        flipped = changed(data, position, bytes([data[position] ^ 1]))
        yield case(f"wrong-flip-{name}", flipped, "malformed" if name == "kind" else "not for me")
    yield case("wrong-tick", changed(data, 1, bytes([data[1] ^ 1])), "not for me")
    yield case("wrong-late", changed(data, 1, bytes([data[1] ^ 0x40])), "no key")
    q = Q.to_bytes(32, "little")
    plus_q = lambda body: (int.from_bytes(body[:32], "little") + Q).to_bytes(32, "little") + body[32:]
    yield case("wrong-r-plus-q", w.sealed(change=plus_q), "not for me")
    yield case("wrong-r-zero", w.sealed(change=lambda body: bytes(32) + body[32:]), "not for me")
    yield case("wrong-r-other", w.sealed(change=lambda body: b"\x07" + bytes(31) + body[32:]), "not for me")
    yield case("wrong-len-247", w.sealed(change=lambda body: changed(body, 32, be(2, 247))), "not for me")
    yield case("wrong-padding", w.sealed(change=lambda body: body[:-1] + b"\x01"), "not for me")
    yield case("wrong-short", data[:-1], "malformed")
    yield case("wrong-long", data + b"\0", "malformed")
    yield case("wrong-suite", changed(data, 0, b"\x20"), "malformed")


def stores(w):
    keys = {32: bytes([0x32] * 32), 33: bytes([0x33] * 32)}
    entries = [(epoch, 0, keys[epoch]) for epoch in (32, 33)]
    sealed = {epoch: record(w.small_pkh, 3, epoch, 0, 3, g2(*w.leaves[epoch]), keys[epoch]) for epoch in (32, 33)}
    names = {epoch: f"3-{epoch}-0" for epoch in (32, 33)}

    def case(name, expect, keyring=None, records=None, last=0):
        records = records if records is not None else {names[e]: sealed[e] for e in (32, 33)}
        keyring = keyring if keyring is not None else ring(w.origin, [32], 7, entries)
        listed = " ".join(f"{key}={value.hex()}" for key, value in records.items())
        return f"store-{name}", dict(kind="store", card=w.small_card, keyring=keyring.rstrip(b"\0"), records=listed, last=last, expect=expect)

    both = {names[e]: sealed[e] for e in (32, 33)}
    yield case("right", "32")
    yield case("right-orphan", "32", records={**both, "9-32-0": bytes(400)})
    yield case("wrong-older", "Older", last=8)
    yield case("wrong-missing", "Missing(33)", records={names[32]: sealed[32]})
    yield case("wrong-name", "Unsealed(33)", records={names[32]: sealed[32], "4-33-0": sealed[33]})
    yield case("wrong-gap", "Gap", keyring=ring(w.origin, [32], 7, entries[:1]))
    yield case("wrong-floor", "Gap", keyring=ring(w.origin, [31], 7, entries))
    yield case("wrong-origin", "Card", keyring=ring(w.origin + 1, [32], 7, entries))
    yield case("wrong-magic", "Keyring", keyring=b"SHK2" + ring(w.origin, [32], 7, entries)[4:])
    yield case("wrong-padding", "Keyring", keyring=ring(w.origin, [32], 7, entries)[:-1] + b"\x01")
    deep = record(w.small_pkh, 3, 33, 0, 2, g2(*w.leaves[33]), keys[33])
    yield case("wrong-depth", "Unsealed(33)", records={names[32]: sealed[32], names[33]: deep})


def cards_of_lives(w):
    case = lambda name, data, expect: (f"card-lives-{name}", dict(kind="card", card=data, expect=expect))
    # 59,001,120 is a multiple of 1,440 ticks, 59,001,060 of 60 ticks only.
    right = card(w.pk, 2, 1, 59_001_120)
    yield case("right", right, "ok")
    yield case("wrong-k", changed(right, 1, b"\x05"), "Profile")
    yield case("wrong-origin", changed(right, 2, be(4, 59_001_060)), "Origin")
    yield case("wrong-end", changed(right, 2, be(4, 4_294_965_600)), "Origin")
    yield case("wrong-small", w.life_card, "Tree")


def paths_of_lives(w):
    origin = 59_001_120
    for tick in (0, 1, 59, 60, 1_439, 1_440, 1_000_007, 14_916_845):
        for life, name in ((0, "minute"), (2, "half-hour"), (3, "half-day")):
            epoch = epoch_in(2, WIDE, life, origin, origin + tick)
            yield f"life-{name}-{tick}", dict(
                kind="life", life=life, origin=origin, tick=origin + tick, epoch=epoch, path=" ".join(map(str, path(WIDE, epoch))))


def envelopes_of_lives(w):
    def case(name, life, tick, data, expect, payload=b""):
        fields = dict(kind="cell", life=life, tick=tick, envelope=data, expect=expect, payload=payload)
        return f"cell-{name}", fields

    for life, name in ((0, "minute"), (2, "half-hour"), (3, "half-day")):
        tick = w.life_ticks[life]
        epoch = epoch_in(0xe, LIVES, life, w.life_origin, tick)
        data = w.sealed_for(life, tick, name.encode())
        assert opened(w.life_pk, w.life_pkh, path(LIVES, epoch), w.life_keys[epoch], tick, data) == name.encode()
        yield case(f"right-{name}", life, tick, data, "opened", name.encode())
        # The last tick of the next epoch.
        late = tick + 2 * branch(0xe, LIVES, life)[2] - 1
        yield case(f"right-{name}-next", life, late, w.sealed_for(life, late, b"next"), "opened", b"next")
        # The tick before: its key is erased.
        yield case(f"wrong-{name}-erased", life, tick - 1, w.sealed_for(life, tick - 1, b"x"), "no key")
        # Its carrier says another tick than byte 1.
        yield case(f"wrong-{name}-tick", life, tick + 1, data, "malformed")
        # Its carrier says a tick of this epoch that agrees with byte 1 and is another one.
        yield case(f"wrong-{name}-far", life, tick + 256, data, "no key")
    # A relay calls a half hour a half day and the other way round: one trial, with the key of the life it names.
    tick = w.life_ticks[3]
    yield case("wrong-relabelled", 2, w.life_ticks[2], w.sealed_for(0, w.life_ticks[2], b"x"), "not for me")
    yield case("wrong-life-1", 1, tick, w.sealed_for(3, tick, b"x"), "no key")


def stores_of_lives(w):
    keys = {epoch: bytes([epoch] * 32) for epoch in w.life_keys}
    # A key of four points is of one epoch, a longer one of a node.
    kind = {epoch: int(len(w.life_keys[epoch]) > 4) for epoch in keys}
    entries = [(epoch, kind[epoch], keys[epoch]) for epoch in sorted(keys)]
    names = {epoch: f"3-{epoch}-{kind[epoch]}" for epoch in keys}
    sealed = {names[e]: record(w.life_pkh, 3, e, kind[e], len(path(LIVES, e)), g2(*w.life_keys[e]), keys[e], 0xe) for e in sorted(keys)}
    floors = w.life_floors
    make = lambda floors, entries: ring(w.life_origin, floors, 7, entries, 0xe, 28672)

    def case(name, expect, keyring, records=sealed):
        listed = " ".join(f"{key}={value.hex()}" for key, value in records.items())
        return f"store-lives-{name}", dict(
            kind="store", card=w.life_card, keyring=keyring.rstrip(b"\0"), records=listed, last=0, expect=expect)

    yield case("right", " ".join(map(str, floors)), make(floors, entries))
    # Half hours are over, and half days are not.
    without = [entry for entry in entries if not floors[1] <= entry[0] < floors[1] + 2]
    yield case("right-over", f"{floors[0]} {floors[1] + 2} {floors[2]}", make([floors[0], floors[1] + 2, floors[2]], without))
    for life in range(3):
        down = [floor - (n == life) for n, floor in enumerate(floors)]
        yield case(f"wrong-floor-{life}", "Gap", make(down, entries))
        gap = [entry for entry in entries if entry[0] != floors[life] + 1]
        yield case(f"wrong-gap-{life}", "Gap", make(floors, gap))
    # A floor that lies in the branch of another life.
    yield case("wrong-branch", "Keyring", make([floors[0], floors[2], floors[2]], entries))
    # The root of a tree of lives is no epoch.
    yield case("wrong-root", "Gap", make(floors, [(0, 0, bytes(32))] + entries))


def lent(w):
    case = lambda name, key, data, expect: (f"detect-{name}", dict(kind="detect", key=key, envelope=data, near=w.origin + 32, expect=expect))
    yield case("right", w.lent, w.sealed(), "match")
    yield case("other", w.lent, envelope(w.small_pkh, w.origin + 32, header(w.pk, w.m, w.small_r), w.k, w.small_r, b"x"), "other")
    yield case("no-key", w.lent, w.sealed(33), "no key")
    yield case("wrong-short", w.lent[:-1], w.sealed(), "malformed key")
    yield case("wrong-depth", changed(w.lent, 3, b"\x02"), w.sealed(), "malformed key")
    yield case("wrong-version", changed(w.lent, 0, b"\x02"), w.sealed(), "malformed key")


def cases():
    w = World()
    for part in (schemes, cards, envelopes, stores, lent, cards_of_lives, paths_of_lives, envelopes_of_lives, stores_of_lives):
        yield from part(w)
    # What the crate sealed.
    for file in sorted(HERE.glob("ours-*.txt")):
        parted = (line.partition(":") for line in file.read_text().splitlines())
        fields = {key: value.strip() for key, _, value in parted}
        tick, data = int(fields["tick"]), bytes.fromhex(fields["envelope"])
        payload = opened(w.small, w.small_pkh, path(SMALL, tick - w.origin), w.leaves[tick - w.origin], tick, data)
        fields["payload"] = payload.hex() if payload is not None else "not opened"
        yield file.stem, fields
    for file in sorted(HERE.glob("life-ours-*.txt")):
        parted = (line.partition(":") for line in file.read_text().splitlines())
        fields = {key: value.strip() for key, _, value in parted}
        tick, data = int(fields["tick"]), bytes.fromhex(fields["envelope"])
        epoch = epoch_in(0xe, LIVES, int(fields["life"]), w.life_origin, tick)
        payload = opened(w.life_pk, w.life_pkh, path(LIVES, epoch), w.life_keys[epoch], tick, data)
        fields["payload"] = payload.hex() if payload is not None else "not opened"
        yield file.stem, fields


def main():
    wrong, names = 0, set()
    for name, fields in cases():
        assert name not in names, name
        names.add(name)
        show = lambda v: v.hex() if isinstance(v, bytes) else str(v)
        text = "".join(f"{key}: {show(value)}".rstrip() + "\n" for key, value in fields.items())
        file = HERE / f"{name}.txt"
        if "--write" in sys.argv and not name.startswith(("ours-", "life-ours-")):
            file.write_text(text)
        elif not file.exists() or file.read_text() != text:
            print("differs:", file.name)
            wrong = 1
    for file in HERE.glob("*.txt"):
        if file.stem not in names:
            print("not made here:", file.name)
            wrong = 1
    sys.exit(wrong)


if __name__ == "__main__":
    main()
