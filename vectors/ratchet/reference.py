#!/usr/bin/env python3
"""A second implementation of the suites b2c20 and b2c20-pq, to be read beside docs/protocols/ratchet.md.

`reference.py --write` writes the right cases into this folder, `reference.py` compares them with
what lies there (exit 1 if one differs); `wrong.py` does the same for the wrong ones. Needs Python
3.11, and `cryptography` for the AEAD alone.
"""
import hashlib, kyber, pathlib, sys
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

P = 2**255 - 19
Q = 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, -1, P) % P


def x25519(k, u):
    """RFC 7748, section 5, on an integer scalar and a u-coordinate."""
    x1, x2, z2, x3, z3, swap = u, 1, 0, u, 1, 0
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
    return (x2 * pow(z2, -1, P) % P).to_bytes(32, "little")


def add(p, q):
    (x1, y1), (x2, y2) = p, q
    t = D * x1 * x2 * y1 * y2 % P
    return ((x1 * y2 + x2 * y1) * pow(1 + t, -1, P) % P, (y1 * y2 + x1 * x2) * pow(1 - t, -1, P) % P)


def mul(k, p):
    r = (0, 1)
    for bit in bin(k)[2:]:
        r = add(r, r)
        if bit == "1":
            r = add(r, p)
    return r


BY = 4 * pow(5, -1, P) % P
XX = (BY * BY - 1) * pow(D * BY * BY + 1, -1, P) % P
BX = pow(XX, (P + 3) // 8, P)
if BX * BX % P != XX:
    BX = BX * pow(2, (P - 1) // 4, P) % P
BASE = (BX if BX % 2 == 0 else P - BX, BY)


def enc(p):
    return (p[1] | (p[0] & 1) << 255).to_bytes(32, "little")


def b2(n, key, person, *parts):
    return hashlib.blake2b(b"".join(parts), digest_size=n, key=key, person=person.encode()).digest()


def h512(*parts):
    return int.from_bytes(hashlib.blake2b(b"".join(parts)).digest(), "little") % Q


def be(n, v):
    return v.to_bytes(n, "big")


class Pair:
    def __init__(self, name):
        s = bytearray(hashlib.sha256(b"ratchet vector " + name.encode()).digest())
        s[0] &= 0xF8
        s[31] = s[31] & 0x7F | 0x40
        self.scalar = bytes(s)
        self.k = int.from_bytes(s, "little")
        self.pub = x25519(self.k, 9)

    def dh(self, pub):
        return x25519(self.k, int.from_bytes(pub, "little"))


def sign(pair, z, *parts):
    point = enc(mul(pair.k, BASE))
    a = pair.k % Q
    if point[31] >> 7:
        a = Q - a
    key = point[:31] + bytes([point[31] & 0x7F])
    r = h512(b"\xfe" + b"\xff" * 31, a.to_bytes(32, "little"), *parts, z)
    big_r = enc(mul(r, BASE))
    return big_r + ((r + h512(big_r, key, *parts) * a) % Q).to_bytes(32, "little")


def root(rk, dh):
    out = b2(64, rk, "b2c20 root", dh)
    return out[:32], out[32:]


def chain(ck):
    out = b2(64, ck, "b2c20 chain")
    return out[:32], out[32:]


def seal(mk, sender, receiver, outer, head, body, padded=None):
    text = body + b"\x80"
    text += bytes((padded or -(-len(text) // 160) * 160) - len(text))
    n = b2(16, mk, "b2c20 nonce", be(4, len(text)), be(1, len(outer)), outer, body)
    k = b2(44, mk, "b2c20 seal", n)
    aad = sender + receiver + be(1, len(outer)) + outer + head
    return n + ChaCha20Poly1305(k[:32]).encrypt(k[32:], text, aad)


def head(rck, n, pn, suite=b"\1\1"):
    return b"\xf1\1" + suite + rck + be(3, n) + be(3, pn)


def fingerprint(ik):
    h = b"\0\1" + ik
    for _ in range(5200):
        h = b2(64, b"", "b2c20 safety", h, ik)
    return h


def digits(h):
    return "".join("%05d" % (int.from_bytes(h[i : i + 5], "big") % 100000) for i in range(0, 30, 5))


def hashes():
    """BLAKE2b as the suites use it: with key, person and length."""
    data = bytes(i % 251 for i in range(300))
    for i, (n, key, person, length) in enumerate(
        [(64, 0, "b2c20 trans", 192), (32, 0, "b2c20 list", 3), (16, 32, "b2c20 nonce", 169), (44, 32, "b2c20 seal", 16)]
        + [(64, 32, "b2c20 root", 32), (64, 32, "b2c20 chain", 0), (16, 0, "b2c20 seen", 32), (64, 0, "b2c20 safety", 96)]
        + [(32, 32, "b2c20 export", 14), (16, 0, "b2c20 session", 64), (64, 64, "sixteen letters.", 300), (1, 1, "", 128)]
    ):
        digest = b2(n, data[7 : 7 + key], person, data[:length])
        yield f"blake2b-{i}", dict(kind="blake2b", key=data[7 : 7 + key], person=person, data=data[:length], digest=digest)


def cases():
    yield from hashes()
    a, b, spk, opk, ek = map(Pair, ["ikA", "ikB", "spkB", "opkB", "ekA"])
    ra1, rb1, ra2 = map(Pair, ["rkA1", "rkB1", "rkA2"])
    z = hashlib.sha512(b"ratchet vector Z").digest()
    every = dict(ikA=a, ikB=b, spkB=spk, opkB=opk, ekA=ek, rkA1=ra1, rkB1=rb1, rkA2=ra2)
    for name, pair in every.items():
        yield "key-" + name, dict(kind="key", scalar=pair.scalar, public=pair.pub)

    lst, not_after = bytes.fromhex("010101"), 30_000_000
    digest = b2(32, b"", "b2c20 list", lst)
    signed = b"b2c20 bundle 1" + b"\1\1" + digest + be(4, 9) + spk.pub + be(4, not_after)
    sig = sign(b, z, signed)
    yield "signature-bundle", dict(kind="signature", scalar=b.scalar, public=b.pub, z=z, message=signed, list_digest=digest, signature=sig)
    bundle = b"\1" + lst + b"\1" + b"\1\1" + be(2, 104) + be(4, 9) + spk.pub + be(4, not_after) + sig
    yield "bundle", dict(kind="bundle", identity=b.pub, floor=lst, now_minutes=29_990_000, bundle=bundle, expect="ok")

    for name, key in [("handshake", (7, opk)), ("handshake-no-opk", None)]:
        dhs = [a.dh(spk.pub), ek.dh(b.pub), ek.dh(spk.pub)] + ([ek.dh(opk.pub)] if key else [])
        opk_id, opk_pub = (7, opk.pub) if key else (0, bytes(32))
        t = b2(64, b"", "b2c20 trans", b"\1\1", lst, lst, a.pub, b.pub, ek.pub, be(4, 9), spk.pub, be(4, opk_id), opk_pub)
        both = b2(64, b"", "b2c20 x3dh", b"\xff" * 32, *dhs, t)
        rk0, ex = both[:32], both[32:]
        session = b2(16, b"", "b2c20 session", t)
        mix = b2(32, ex, "b2c20 export", b"mezza mix root")
        case = dict(kind="handshake", one_time=be(4, 7) + opk.pub if key else b"", transcript=t, session=session, root=rk0, exporter=ex, export_mix_root=mix)
        case.update({f"dh{i + 1}": dh for i, dh in enumerate(dhs)})
        rk1, ck = root(rk0, ra1.dh(spk.pub))
        ck1, mk0 = chain(ck)
        ck2, mk1 = chain(ck1)
        prefix = b"\xf1\x02\1\1" + a.pub + ek.pub + be(4, 9) + be(4, opk_id) + lst
        heads = [head(ra1.pub, n, 0) for n in range(2)]
        m0 = prefix + heads[0][4:] + seal(mk0, a.pub, b.pub, b"", heads[0], b"hello")
        m1 = prefix + heads[1][4:] + seal(mk1, a.pub, b.pub, b"", heads[1], b"again")
        rk2, bck = root(rk1, rb1.dh(ra1.pub))
        rhead = head(rb1.pub, 0, 0)
        r0 = rhead + seal(chain(bck)[1], b.pub, a.pub, b"", rhead, b"yes")
        mhead = head(ra2.pub, 0, 2)
        m2 = mhead + seal(chain(root(rk2, ra2.dh(rb1.pub))[1])[1], a.pub, b.pub, b"", mhead, b"good")
        case.update(root1=rk1, chain1=ck, message_key0=mk0, m0=m0, m1=m1, r0=r0, m2=m2)
        yield name, case
        if key:
            outer = bytes(range(32))
            yield "sealed-outer", dict(kind="sealed", message_key=mk0, sender=a.pub, receiver=b.pub, outer=outer, head=heads[0], body=b"hello", padded=160, sealed=seal(mk0, a.pub, b.pub, outer, heads[0], b"hello"))
            yield "sealed-cell", dict(kind="sealed", message_key=mk0, sender=a.pub, receiver=b.pub, outer=b"", head=heads[0], body=b"", padded=55, sealed=seal(mk0, a.pub, b.pub, b"", heads[0], b"", 55))

    yield from post_quantum(a, b, spk, opk, ek, ra1, z)

    fa, fb = fingerprint(a.pub), fingerprint(b.pub)
    low, high = sorted([digits(fa), digits(fb)])
    scan = b"\x08\x81\x80\x04\x12\x22\x0a\x20" + fa[:32] + b"\x1a\x22\x0a\x20" + fb[:32]
    yield "number", dict(kind="number", local=a.pub, remote=b.pub, number=low + high, scannable=scan)


def post_quantum(a, b, spk, opk, ek, ra1, z):
    """The bundle of a device that offers both suites, and the first message of suite 0x0102."""
    lst, not_after, kem_id = bytes.fromhex("0201020101"), 30_000_000, 5
    seed = hashlib.sha512(b"ratchet vector kem seed").digest()
    coins = hashlib.sha256(b"ratchet vector kem coins").digest()
    key = kyber.public(seed, False)
    ciphertext, secret = kyber.encapsulate(key, coins, False)
    bundle = b"\1" + lst + b"\2"
    for suite, kem in [(b"\1\2", be(4, kem_id) + key), (b"\1\1", b"")]:
        body = be(4, 9) + spk.pub + be(4, not_after)
        sig = sign(b, z, b"b2c20 bundle 1" + suite + b2(32, b"", "b2c20 list", lst) + body + kem)
        bundle += suite + be(2, 104 + len(kem)) + body + sig + kem
        if kem:
            first_sig = sig
    yield "bundle-pq", dict(kind="bundle-pq", identity=b.pub, floor=lst, now_minutes=29_990_000, bundle=bundle)
    t = b2(64, b"", "b2c20 trans", b"\1\2", lst, lst, a.pub, b.pub, ek.pub, be(4, 9), spk.pub, be(4, 7), opk.pub, be(4, kem_id), key, ciphertext)
    dhs = [a.dh(spk.pub), ek.dh(b.pub), ek.dh(spk.pub), ek.dh(opk.pub), secret]
    both = b2(64, b"", "b2c20 x3dh", b"\xff" * 32, *dhs, t)
    rk1, ck = root(both[:32], ra1.dh(spk.pub))
    prefix = b"\xf1\2\1\2" + a.pub + ek.pub + be(4, 9) + be(4, 7) + lst + be(4, kem_id) + ciphertext
    front = head(ra1.pub, 0, 0, b"\1\2")
    m0 = prefix + front[4:] + seal(chain(ck)[1], a.pub, b.pub, b"", front, b"hello")
    yield "handshake-pq", dict(
        kind="handshake-pq", kem_seed=seed, kem_coins=coins, signature=first_sig, transcript=t,
        session=b2(16, b"", "b2c20 session", t), root=both[:32], exporter=both[32:], root1=rk1,
        kem_secret=secret, kem_noted=b2(32, b"", "b2c20 kem", ciphertext), m0=m0,
    )


def main(named=None):
    here, wrong = pathlib.Path(__file__).parent, 0
    for name, fields in named or cases():
        show = lambda v: v.hex() if isinstance(v, bytes) else str(v)
        text = "".join(f"{key}: {show(value)}".rstrip() + "\n" for key, value in fields.items())
        path = here / f"{name}.txt"
        if "--write" in sys.argv:
            path.write_text(text)
        elif not path.exists() or path.read_text() != text:
            print("differs:", path.name)
            wrong = 1
    sys.exit(wrong)


if __name__ == "__main__":
    main()
