#!/usr/bin/env python3
"""A second implementation of the vault's files: head, keyring, record.

`reference.py --write` writes the cases into this folder, `reference.py` compares them with what
lies there (exit 1 if one differs). A case with `refuse: yes` holds bytes that must not open.
Needs Python 3.11 and `cryptography` (Argon2id: 44 or newer, else the heads are skipped).
"""
import hashlib, pathlib, struct, sys
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

try:
    from cryptography.hazmat.primitives.kdf.argon2 import Argon2id
except ImportError:
    Argon2id = None

SIZES = [256, 512, 1024, 2048, 4096, 16384]


def u8(n): return struct.pack(">B", n)
def u16(n): return struct.pack(">H", n)
def u32(n): return struct.pack(">I", n)
def u64(n): return struct.pack(">Q", n)


def fill(label, n):
    """n bytes that look random, from a label."""
    return hashlib.shake_256(label.encode()).digest(n)


def hchacha20(key, nonce16):
    """draft-irtf-cfrg-xchacha-03, section 2.2."""
    s = list(struct.unpack("<4I8I4I", b"expand 32-byte k" + key + nonce16))
    rotate = lambda x, n: (x << n | x >> (32 - n)) & 0xFFFFFFFF

    def quarter(a, b, c, d):
        for (x, y, z, n) in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
            s[x] = (s[x] + s[y]) & 0xFFFFFFFF
            s[z] = rotate(s[z] ^ s[x], n)

    for _ in range(10):
        for i in range(4):
            quarter(i, 4 + i, 8 + i, 12 + i)
        for i in range(4):
            quarter(i, 4 + (i + 1) % 4, 8 + (i + 2) % 4, 12 + (i + 3) % 4)
    return struct.pack("<8I", *s[:4], *s[12:])


def seal(key, nonce, aad, text):
    inner = ChaCha20Poly1305(hchacha20(key, nonce[:16]))
    return nonce + inner.encrypt(bytes(4) + nonce[16:], text, aad)


def padded(n):
    return next((size for size in SIZES if n <= size), -(-n // 16384) * 16384)


def record_aad(kind, id, bucket):
    return b"mezza/rec" + u8(kind) + u64(id) + u32(bucket)


def record_text(key, value, count=None, end=b""):
    text = u8(len(key)) + key + u32(len(value) if count is None else count) + value
    return text + bytes(padded(len(text)) - len(text) - len(end)) + end


def records():
    bucket_key, nonce = fill("bucket key", 32), fill("nonce", 24)

    def case(kind, id, bucket, key, value, sealed=None, **text):
        aad = record_aad(*(sealed or (kind, id, bucket)))
        body = seal(bucket_key, nonce, aad, record_text(key, value, **text))
        return dict(kind="record", bucket_key=bucket_key, nonce=nonce, record_kind=kind, id=id,
                    bucket=bucket, key=key, value=value, body=body)

    def refuse(**fields):
        return dict(case(**fields), refuse="yes")

    note = dict(kind=3, id=7, bucket=0, key=b"note 7", value=b"hello")
    yield "record-permanent", case(**note)
    yield "record-rolling", case(6, 2, 1 << 30 | 20000, fill("key", 96), fill("session", 800))
    yield "record-hour", case(3, 2**40, 2 << 30 | 480012, b"", b"")
    yield "record-day", case(3, 9, 3 << 30 | 20003, b"k", fill("long", 16379))
    yield "record-full", case(4, 9, 0, b"k", fill("full", 250))
    yield "record-wrong-kind", refuse(**note, sealed=(4, 7, 0))
    yield "record-wrong-id", refuse(**note, sealed=(3, 8, 0))
    yield "record-wrong-bucket", refuse(**note, sealed=(3, 7, 3 << 30))
    yield "record-wrong-length", refuse(**note, count=246)
    yield "record-wrong-padding", refuse(**note, end=b"\x01")
    cut = refuse(**note)
    yield "record-wrong-cut", dict(cut, body=cut["body"][:-1])


def master_and_ring():
    master = fill("master key", 32)
    return master, hashlib.blake2b(b"mezza/vault/ring", key=master, digest_size=32).digest()


def keyrings():
    master, ring_key = master_and_ring()
    nonce = fill("ring nonce", 24)

    def case(generation, buckets, count=None, sealed=None, **more):
        keys = [(bucket, fill(f"bucket {bucket}", 32)) for bucket in buckets]
        text = u16(len(keys) if count is None else count) + b"".join(u32(b) + k for b, k in keys)
        aad = b"mezza/ring" + u64(generation if sealed is None else sealed)
        file = u64(generation) + seal(ring_key, nonce, aad, text)
        shown = " ".join(f"{b}:{k.hex()}" for b, k in keys)
        return dict(kind="keyring", master=master, ring_key=ring_key, generation=generation,
                    nonce=nonce, keys=shown, file=file, **more)

    day, hour = 1 << 30 | 20000, 2 << 30 | 480012
    yield "keyring", case(5, [0, day, hour, hour + 1, 3 << 30 | 20003])
    yield "keyring-empty", case(1, [])
    yield "keyring-wrong-order", case(5, [day, 0], refuse="yes")
    yield "keyring-wrong-twice", case(5, [0, 0], refuse="yes")
    yield "keyring-wrong-bucket", case(5, [7, day], refuse="yes")
    yield "keyring-wrong-count", case(5, [0, day], count=1, refuse="yes")
    yield "keyring-wrong-generation", case(5, [0, day], sealed=4, refuse="yes")


def heads():
    master, ring_key = master_and_ring()
    salt, nonce, unused = fill("salt", 16), fill("head nonce", 24), fill("unused slot", 73)
    passphrase = "six offered words, one \u00e9".encode()

    def case(m_kib, t, role=1, **more):
        front = b"MZVAULT1" + u32(m_kib) + u32(t) + u32(1) + salt
        kek = Argon2id(salt=salt, length=32, iterations=t, lanes=1, memory_cost=m_kib).derive(passphrase)
        slot = seal(kek, nonce, front, u8(role) + master)
        return dict(kind="head", passphrase=passphrase, m_kib=m_kib, t=t, p=1, salt=salt,
                    nonce=nonce, unused=unused, kek=kek, master=master, ring_key=ring_key,
                    file=front + slot + unused, **more)

    right = case(65536, 3)
    yield "head", right
    file = right["file"]
    yield "head-second-slot", dict(right, file=file[:36] + unused + file[36:109], order="second")
    yield "head-wrong-floor", case(65536, 2, refuse="yes")
    yield "head-wrong-role", case(65536, 3, role=2, refuse="yes")
    yield "head-wrong-magic", dict(right, file=b"MZVAULT2" + file[8:], refuse="yes")
    yield "head-wrong-salt", dict(right, file=file[:20] + bytes(16) + file[36:], refuse="yes")


def cases():
    yield from records()
    yield from keyrings()
    if Argon2id is None:
        print("SKIPPED heads: no Argon2id; pip install 'cryptography>=44'")
    else:
        yield from heads()


def main():
    here, wrong = pathlib.Path(__file__).parent, 0
    for name, fields in cases():
        show = lambda v: v.hex() if isinstance(v, bytes) else str(v)
        text = "".join(f"{key}: {show(value)}".rstrip() + "\n" for key, value in fields.items())
        path = here / f"{name}.txt"
        if "--write" in sys.argv:
            path.write_text(text)
        elif not path.exists() or path.read_text() != text:
            print("differs:", path.name)
            wrong = 1
    sys.exit(wrong)


main()
