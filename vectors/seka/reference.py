#!/usr/bin/env python3
"""A second implementation of the bytes of a link, to be read beside docs/protocols/seka.md.

`reference.py --write` writes the cases into this folder, `reference.py` compares them with what lies
there (exit 1 if one differs). Needs Python 3.11, and `cryptography` for X25519 and AES-GCM.
"""
import hashlib, hmac, pathlib, sys
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

ID_I, ID_R = bytes.fromhex("020000000001"), bytes.fromhex("020000000002")


def be(n, value):
    return value.to_bytes(n, "big")


def public(scalar):
    key = X25519PrivateKey.from_private_bytes(scalar).public_key()
    return key.public_bytes(Encoding.Raw, PublicFormat.Raw)


def dh(scalar, point):
    return X25519PrivateKey.from_private_bytes(scalar).exchange(X25519PublicKey.from_public_bytes(point))


def h(key, text):
    return hmac.new(key, text, "sha512").digest()


def kdf(ikm, n, salt, info):
    """HKDF-SHA-512 (RFC 5869)."""
    key, out, block = h(salt, ikm), b"", b""
    for i in range(1, n // 64 + 2):
        block = h(key, block + info + bytes([i]))
        out += block
    return out[:n]


def prefix(sender, receiver):
    return hashlib.sha512(sender + receiver).digest()[:10]


def header(kind, suite, index):
    return bytes([1, kind, suite, 0]) + be(4, index)


def session_id(suite, m1, chance):
    return hashlib.sha256(b"seka1 s" + ID_I + m1).digest()[:16] if suite == 2 else chance


def mac(suite, state, text, sender, receiver, counter):
    if suite == 2:
        return h(h(state, b"seka1 mac")[:32], text)[:16]
    return AESGCM(state).encrypt(prefix(sender, receiver) + be(2, counter), b"", text)


def bootstrap(suite, case):
    b_i, b_r = b"\xb1" * 32, b"\xb2" * 32
    m1, m2 = public(b_i), public(b_r)
    s = session_id(suite, m1, b"\x5b" * 16)
    k_eph = dh(b_i, m2)
    case["k_eph"] = k_eph
    case["b1"] = header(0x10, suite, 0) + ID_I + bytes(6) + s + m1
    case["b2"] = header(0x11, suite, 0) + ID_R + ID_I + s + m2
    if suite == 2:
        return kdf(k_eph, 32, s, b"seka1 boot" + b"\x02" + ID_I + ID_R + m1 + m2)
    return kdf(k_eph, 16, s, b"\x00" + ID_I + ID_R)


def exchange(suite, state, case, attempt=0):
    c_i, c_r = b"\xc1" * 32, b"\xc2" * 32
    m1, m2 = public(c_i), public(c_r)
    s = session_id(suite, m1, b"\x5c" * 16)
    low = attempt & 0xFF
    n = 2 * attempt
    ke1 = header(0x15, suite, 0x100 | low) + ID_I + ID_R + s + be(4, attempt) + m1
    ke2 = header(0x16, suite, 0x200 | low) + ID_R + ID_I + s + be(4, attempt) + m2
    ke3 = header(0x17, suite, 0x100 | low) + ID_I + ID_R + s + be(4, attempt)
    case["ke1"] = ke1 + mac(suite, state, b"seka1-t1" + ke1, ID_I, ID_R, n)
    case["ke2"] = ke2 + mac(suite, state, b"seka1-t2" + ke2 + ke1, ID_R, ID_I, n)
    case["ke3"] = ke3 + mac(suite, state, b"seka1-t3" + ke3 + ke1 + ke2, ID_I, ID_R, n + 1)
    if suite == 2:
        nudge = header(0x18, suite, 0x200) + ID_R + ID_I + be(4, 0)
        case["nudge"] = nudge + mac(suite, state, b"seka1-nu" + nudge, ID_R, ID_I, 0)
    k_eph = dh(c_i, m2)
    if suite == 2:
        out = kdf(k_eph, 64, s + state, b"seka1 ke" + b"\x02" + ID_I + ID_R + state + m1 + m2)
    else:
        out = kdf(k_eph, 32, s, state + ID_I + ID_R)
    half = len(out) // 2
    return out[:half], out[half:]


def session(suite, k, case):
    rot = h(k, b"seka1 dir" + b"I")[:32]
    packet = 0x00010003
    size = 32 if suite == 2 else 16
    key = h(rot, b"seka1 key" + be(4, packet >> 16))[:size]
    head = b"\x81" + be(3, 0x200) + be(4, packet)
    iv = prefix(ID_I, ID_R) + be(2, packet & 0xFFFF)
    case["iv_prefix"] = prefix(ID_I, ID_R)
    case["rot_i"], case["key_i_1"] = rot, key
    case["text"] = b"\x00" + bytes(range(0x3C))
    case["data"] = head + AESGCM(key).encrypt(iv, case["text"], head)
    exporter = h(k, b"seka1 export")[:32]
    case["export_test"] = h(exporter, b"test")[:32]


def record(k, case):
    rot = h(k, b"seka1 dir" + b"I")[:32]
    key = h(rot, b"seka1 key" + be(4, 0))[:32]
    text = (b"\x00" + be(2, 5) + b"hello").ljust(256 - 16, b"\x00")
    head = b"\x01\x20" + be(2, 256)
    case["record"] = head + AESGCM(key).encrypt(prefix(ID_I, ID_R) + be(2, 0), text, head)


def sas(case):
    m1, m2 = public(b"\xb1" * 32), public(b"\xb2" * 32)
    s, r_i, r_r = session_id(2, m1, b""), b"\xd1" * 16, b"\xd2" * 16
    s1 = header(0x12, 2, 0) + ID_I + bytes(6) + s
    c = hashlib.sha512(b"seka1 commit" + s1 + m1 + r_i).digest()[:32]
    s1 += c
    s2 = header(0x13, 2, 0) + ID_R + ID_I + s + m2 + r_r
    s3 = header(0x14, 2, 0) + ID_I + ID_R + s + m1 + r_i
    digits = int.from_bytes(hashlib.sha512(b"seka1 sas" + s1 + s2 + s3).digest()[:8], "big") % 10**6
    case["s1"], case["s2"], case["s3"] = s1, s2, s3
    case["digits"] = b"%06d" % digits


def cases():
    for suite, name in ((2, "default"), (1, "paper")):
        case = {}
        state = bootstrap(suite, case)
        case["st"] = state
        state, k = exchange(suite, state, case)
        case["st1"], case["k"] = state, k
        session(suite, k, case)
        if suite == 2:
            record(k, case)
        yield f"pair-{name}.txt", case
    case = {}
    sas(case)
    yield "digits.txt", case


def main():
    folder = pathlib.Path(__file__).parent
    wrong = 0
    for name, case in cases():
        text = "".join(f"{key} {value.hex()}\n" for key, value in case.items())
        path = folder / name
        if "--write" in sys.argv:
            path.write_text(text)
        elif not path.exists() or path.read_text() != text:
            print(f"{path.name} differs")
            wrong = 1
    return wrong


if __name__ == "__main__":
    sys.exit(main())
