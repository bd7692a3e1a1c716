#!/usr/bin/env python3
"""A second implementation of `signal-v3`, `signal-v4` and `paper`, beside docs/protocols/ratchet.md. Called like
reference.py, whose numbers it uses; needs `cryptography` for AES and ChaCha20-Poly1305 alone.
"""
import hashlib, hmac
import kyber, reference as ref
from reference import BASE, Pair, Q, b2, be, digits, enc, mul
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

REGISTRATION, SPK_ID, OPK_ID, KEM_ID = 4660, 9, 7, 5
KEM_SEED = hashlib.sha512(b"ratchet vector kem seed").digest()
KEM_COINS = hashlib.sha256(b"ratchet vector kem coins").digest()


def mac(key, *parts):
    return hmac.new(key, b"".join(parts), hashlib.sha256).digest()


def hkdf(salt, secret, info, length):
    prk, out, block = mac(salt, secret), b"", b""
    while len(out) < length:
        block = mac(prk, block, info, bytes([len(out) // 32 + 1]))
        out += block
    return out[:length]


def ser(public):
    return b"\x05" + public


def varint(value):
    out = b""
    while value > 0x7F:
        out, value = out + bytes([value & 0x7F | 0x80]), value >> 7
    return out + bytes([value])


def number_field(tag, value):
    return varint(tag << 3) + varint(value)


def bytes_field(tag, value):
    return varint(tag << 3 | 2) + varint(len(value)) + value


def sign(hash512, pair, z, message):
    """XEdDSA in its published form; and as Signal's libraries write it, with the key's sign."""
    h = lambda *parts: int.from_bytes(hash512(b"".join(parts)).digest(), "little") % Q
    point = enc(mul(pair.k, BASE))
    made = []
    for negate, key in [(point[31] >> 7, point[:31] + bytes([point[31] & 0x7F])), (0, point)]:
        a = (Q - pair.k % Q) if negate else pair.k % Q
        r = h(b"\xfe" + b"\xff" * 31, a.to_bytes(32, "little"), message, z)
        big_r = enc(mul(r, BASE))
        s = (r + h(big_r, key, message) * a) % Q
        made.append(big_r + (s | (key[31] >> 7) << 255).to_bytes(32, "little"))
    return made


def root(rk, dh):
    out = hkdf(rk, dh, b"WhisperRatchet", 64)
    return out[:32], out[32:]


def chain(ck):
    return mac(ck, b"\x02"), mac(ck, b"\x01")


class V3:
    suite, hash512, first, info, exporter, pq = b"\0\3", hashlib.sha512, b"\x33", b"WhisperText", 64, False

    @classmethod
    def sealed(cls, mk, aad, head, body):
        keys = hkdf(bytes(32), mk, b"WhisperMessageKeys", 80)
        fill = 16 - len(body) % 16
        cipher = Cipher(algorithms.AES(keys[:32]), modes.CBC(keys[64:])).encryptor()
        text = cipher.update(body + bytes([fill]) * fill)
        front = cls.first + head + varint(4 << 3 | 2) + varint(len(text))
        return front + text + mac(keys[32:64], aad, front, text)[:8]


class V4(V3):
    suite, first, exporter, pq = b"\0\4", b"\x44", 96, True
    info = b"WhisperText_X25519_SHA-256_CRYSTALS-KYBER-1024"


class Paper(V3):
    suite, hash512 = b"\x7f\4", hashlib.blake2b

    @classmethod
    def sealed(cls, mk, aad, head, body):
        keys = hkdf(bytes(32), mk, b"WhisperMessageKeys", 44)
        front = cls.first + head + varint(4 << 3 | 2) + varint(len(body) + 16)
        return front + ChaCha20Poly1305(keys[:32]).encrypt(keys[32:], body, aad + front)


def message(suite, mk, sender, receiver, key, n, pn, body):
    head = bytes_field(1, ser(key)) + number_field(2, n) + number_field(3, pn)
    return suite.sealed(mk, ser(sender) + ser(receiver), head, body)


def first(suite, base, identity, opk_id, ciphertext, inner):
    opk = number_field(1, opk_id) if opk_id else b""
    rest = number_field(5, REGISTRATION) + number_field(6, SPK_ID)
    if suite.pq:
        rest += number_field(7, KEM_ID) + bytes_field(8, b"\x08" + ciphertext)
    return suite.first + opk + bytes_field(2, ser(base)) + bytes_field(3, ser(identity)) + bytes_field(4, inner) + rest


def fingerprint(hash512, ik, name):
    h = b"\0\0" + ser(ik) + name
    for _ in range(5200):
        h = hash512(h + ser(ik)).digest()
    return h


def conversation(suite, one_time):
    a, b, spk, opk, ek = map(Pair, ["ikA", "ikB", "spkB", "opkB", "ekA"])
    ra1, rb1, ra2 = map(Pair, ["rkA1", "rkB1", "rkA2"])
    z = hashlib.sha512(b"ratchet vector Z").digest()
    published, signed = sign(suite.hash512, b, z, ser(spk.pub))
    dhs = [a.dh(spk.pub), ek.dh(b.pub), ek.dh(spk.pub)] + ([ek.dh(opk.pub)] if one_time else [])
    key, ciphertext, kem = b"", b"", {}
    if suite.pq:
        key = kyber.public(KEM_SEED, True)
        ciphertext, secret = kyber.encapsulate(key, KEM_COINS, True)
        dhs.append(secret)
        kem_sig = sign(suite.hash512, b, z, b"\x08" + key)[0]
        kem = dict(kem_seed=KEM_SEED, kem_coins=KEM_COINS, kem_id=KEM_ID, kem_key=key, kem_signature=kem_sig, kem_secret=secret)
    wide = hkdf(bytes(32), b"\xff" * 32 + b"".join(dhs), suite.info, suite.exporter + 32)
    rk0, ex = wide[:32], wide[suite.exporter :]
    session = b2(16, b"", "b2c20 session", suite.suite, a.pub, b.pub, ek.pub)
    rk1, ck = root(rk0, ra1.dh(spk.pub))
    ck1, mk0 = chain(ck)
    wrap = lambda inner: first(suite, ek.pub, a.pub, OPK_ID if one_time else 0, ciphertext, inner)
    m0 = wrap(message(suite, mk0, a.pub, b.pub, ra1.pub, 0, 0, b"hello"))
    m1 = wrap(message(suite, chain(ck1)[1], a.pub, b.pub, ra1.pub, 1, 0, b"again"))
    rk2, bck = root(rk1, rb1.dh(ra1.pub))
    r0 = message(suite, chain(bck)[1], b.pub, a.pub, rb1.pub, 0, 0, b"yes")
    mk2 = chain(root(rk2, ra2.dh(rb1.pub))[1])[1]
    m2 = message(suite, mk2, a.pub, b.pub, ra2.pub, 0, 1, b"good")
    return dict(
        kind="signal", suite=suite.suite, one_time=be(4, OPK_ID) + opk.pub if one_time else b"",
        signature=published, signed_form=signed, session=session, root=rk0, exporter=ex, root1=rk1,
        chain1=ck, message_key0=mk0, m0=m0, m1=m1, r0=r0, m2=m2, **kem,
    )


def cases():
    a, b = Pair("ikA"), Pair("ikB")
    for name, suite in [("signal-v3", V3), ("signal-v4", V4), ("paper", Paper)]:
        yield name, conversation(suite, True)
        yield name + "-no-opk", conversation(suite, False)
        if suite is V4:
            continue
        fa, fb = fingerprint(suite.hash512, a.pub, b"alice"), fingerprint(suite.hash512, b.pub, b"bob")
        low, high = sorted([digits(fa), digits(fb)])
        scan = b"\x08\x02\x12\x22\x0a\x20" + fa[:32] + b"\x1a\x22\x0a\x20" + fb[:32]
        yield name + "-number", dict(
            kind="signal-number", suite=suite.suite, local=a.pub, local_id=b"alice", remote=b.pub,
            remote_id=b"bob", number=low + high, version=2, scannable=scan,
        )


if __name__ == "__main__":
    ref.main(cases())
