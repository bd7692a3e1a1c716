#!/usr/bin/env python3
"""Cards, addresses, notes, envelopes and receipts of docs/protocols/messenger.md, a second time.

Plain Python with hashlib and hmac, written for reading, not for speed and not for secrets.
`reference.py --check` derives every case anew and compares it with the file of that name;
`reference.py --write` writes the files. A case is a list of `key: value` lines; `expect` is `ok`
or the reason why a reader refuses it.
"""
import base64, hashlib, hmac, os, struct, sys

sys.dont_write_bytecode = True
P, Q = 2**255 - 19, 2**252 + 27742317777372353535851937790883648493
D2 = -2 * 121665 * pow(121666, P - 2, P) % P
HERE = os.path.dirname(os.path.abspath(__file__))
le = lambda b: int.from_bytes(b, "little")
be = lambda n, size: n.to_bytes(size, "big")
var8 = lambda b: be(len(b), 1) + b
var16 = lambda b: be(len(b), 2) + b


def h(size, label, *parts):
    return hashlib.blake2b(var8(label.encode()) + b"".join(parts), digest_size=size).digest()


# --- X25519 (RFC 7748), Edwards points (RFC 8032), XEdDSA ---------------------------------------
def clamp(k):
    return bytes([k[0] & 248]) + k[1:31] + bytes([k[31] & 127 | 64])


def x25519(k, u=be(9, 1) + bytes(31)):
    k, x1 = le(clamp(k)), le(u) % 2**255 % P
    x2, z2, x3, z3, swap = 1, 0, x1, 1, 0
    for t in reversed(range(255)):
        bit = k >> t & 1
        if swap ^ bit:
            x2, z2, x3, z3 = x3, z3, x2, z2
        swap = bit
        a, b, c, d = x2 + z2, x2 - z2, x3 + z3, x3 - z3
        aa, bb, da, cb = a * a % P, b * b % P, d * a % P, c * b % P
        x3, z3 = (da + cb) ** 2 % P, x1 * (da - cb) ** 2 % P
        x2, z2 = aa * bb % P, (aa - bb) * (aa + 121665 * (aa - bb)) % P
    if swap:
        x2, z2 = x3, z3
    return (x2 * pow(z2, P - 2, P) % P).to_bytes(32, "little")


def add(p, q):
    """Extended coordinates X : Y : Z : T (RFC 8032, section 5.1.4)."""
    a, b = (p[1] - p[0]) * (q[1] - q[0]) % P, (p[1] + p[0]) * (q[1] + q[0]) % P
    c, z = p[3] * D2 * q[3] % P, 2 * p[2] * q[2] % P
    e, f, g, w = b - a, z - c, z + c, b + a
    return e * f % P, g * w % P, f * g % P, e * w % P


def times_base(k):
    x = 15112221349535400772501151409588531511454012693041857206046113283949847762202
    y = 4 * pow(5, P - 2, P) % P
    point, total = (x, y, 1, x * y % P), (0, 1, 1, 0)
    while k:
        if k & 1:
            total = add(total, point)
        point, k = add(point, point), k >> 1
    return total


def pack(point):
    z = pow(point[2], P - 2, P)
    return (point[1] * z % P | (point[0] * z % P & 1) << 255).to_bytes(32, "little")


def b512(*parts):
    return le(hashlib.blake2b(b"".join(parts)).digest()) % Q


def sign(k, message, z):
    k = le(clamp(k))
    e = pack(times_base(k))
    a = (k if e[31] < 128 else -k) % Q
    e = e[:31] + bytes([e[31] & 127])
    r = b512(b"\xfe" + b"\xff" * 31, a.to_bytes(32, "little"), message, z)
    point = pack(times_base(r))
    return point + ((r + b512(point, e, message) * a) % Q).to_bytes(32, "little")


# --- ChaCha20-Poly1305 (RFC 8439), HKDF (RFC 5869), HPKE base mode (RFC 9180) --------------------
def chacha_block(key, count, nonce):
    s = list(struct.unpack("<16I", b"expand 32-byte k" + key + struct.pack("<I", count) + nonce))
    w = s[:]

    def quarter(a, b, c, d):
        for x, y, z, turn in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
            w[x] = (w[x] + w[y]) & 0xFFFFFFFF
            w[z] ^= w[x]
            w[z] = (w[z] << turn | w[z] >> 32 - turn) & 0xFFFFFFFF

    for _ in range(10):
        for i in range(4):
            quarter(i, 4 + i, 8 + i, 12 + i)
        for i in range(4):
            quarter(i, 4 + (i + 1) % 4, 8 + (i + 2) % 4, 12 + (i + 3) % 4)
    return struct.pack("<16I", *((x + y) & 0xFFFFFFFF for x, y in zip(w, s)))


def aead_seal(key, nonce, aad, text):
    stream = b"".join(chacha_block(key, 1 + i, nonce) for i in range(len(text) // 64 + 1))
    ct = bytes(a ^ b for a, b in zip(text, stream))
    one_time = chacha_block(key, 0, nonce)
    r, s, acc = le(one_time[:16]) & 0x0FFFFFFC0FFFFFFC0FFFFFFC0FFFFFFF, le(one_time[16:32]), 0
    fill = lambda b: b + bytes(-len(b) % 16)
    data = fill(aad) + fill(ct) + struct.pack("<QQ", len(aad), len(ct))
    for i in range(0, len(data), 16):
        acc = (acc + le(data[i : i + 16] + b"\x01")) * r % (2**130 - 5)
    return ct + ((acc + s) % 2**128).to_bytes(16, "little")


def extract(suite, salt, label, ikm):
    return hmac.digest(salt or bytes(32), b"HPKE-v1" + suite + label + ikm, "sha256")


def expand(prk, suite, label, info, size):
    return hmac.digest(prk, be(size, 2) + b"HPKE-v1" + suite + label + info + b"\1", "sha256")[:size]


def envelope(address, to_secret, ephemeral, parcel, size=None, text=None, ver=1):
    to, enc = x25519(to_secret), x25519(ephemeral)
    kem, hpke = b"KEM\0\x20", b"HPKE\0\x20\0\1\0\3"
    prk = extract(kem, b"", b"eae_prk", x25519(ephemeral, to))
    shared = expand(prk, kem, b"shared_secret", enc + to, 32)
    context = b"\0" + extract(hpke, b"", b"psk_id_hash", b"")
    context += extract(hpke, b"", b"info_hash", b"mezza relay 1" + address)
    secret = extract(hpke, shared, b"secret", b"")
    key, nonce = (expand(secret, hpke, *x) for x in ((b"key", context, 32), (b"base_nonce", context, 12)))
    size = size or min(s for s in (512 << i for i in range(6)) if s >= len(parcel) + 51)
    text = text or (var16(parcel) + bytes(size - 51 - len(parcel)))
    return be(ver, 1) + enc + aead_seal(key, nonce, be(ver, 1), text)


# --- formats ------------------------------------------------------------------------------------
def place(port, host):
    return be(port, 2) + var8(host)


def entry(n=1, host=b"relay-one.example.or", port=7101):
    return bytes([n]) * 32 + bytes([0xA0 + n]) * 16 + place(port, host)


def head(ik, name=b"Alice", parts=(), serial=5318400, issued=20775, suites=(0x0101,), start=b"\1\0", listed=None):
    listed = listed or b"".join(bytes([k]) + be(len(p), 2) + h(16, "mezza/part", bytes([k]), p) for k, p in parts)
    suites = be(len(suites), 1) + b"".join(be(s, 2) for s in suites)
    return start + be(serial, 4) + be(issued, 4) + ik + suites + var8(name) + be(len(listed) // 19, 1) + listed


def address(kind, payload, upper=False):
    text = base64.b32encode(payload + h(3, "mezza/uri", kind.encode(), payload)).decode().rstrip("=")
    text = f"mezzavoce:{kind}/{text}"
    return text.upper() if upper else text.lower()


def item(kind, body):
    return be(kind, 1) + var16(body)


def note(*items, seq=1, timer=0, version=1, sent=1795266000123):
    return be(version, 1) + b"\xE0\xE1\xE2\xE3" + be(seq, 4) + be(sent, 6) + be(timer, 4) + b"".join(items)


class Window:
    """A naive twin: two sets and no limit below the floor."""

    def __init__(self):
        self.arrived, self.voided, self.floor = set(), set(), 0

    def settle(self, into, seqs):
        into.update(seqs)
        while self.floor + 1 in self.arrived | self.voided:
            self.floor += 1

    def insert(self, seq):
        if seq > self.floor + 1024:
            return "toofar"
        if seq in self.voided or seq in self.arrived:
            return "voided" if seq in self.voided else "known"
        self.settle(self.arrived, [seq])
        return "fresh"

    def void(self, first, last):
        end = self.floor + 1024
        seqs = range(first, (last if first <= self.floor + 1 else min(last, end)) + 1)
        self.settle(self.voided, (s for s in seqs if s not in self.arrived))
        return last <= end or self.floor >= last

    def missing(self):
        settled = self.arrived | self.voided
        return sum(s not in settled for s in range(self.floor + 1, max(settled, default=0)))

    def receipts(self, first=None, last=2**32):
        found = []
        for seq in sorted(s for s in self.arrived if (first or self.floor + 1) <= s <= last):
            if found and seq - found[-1][1] < 64:
                found[-1][2] |= 1 << seq - found[-1][1]
            else:
                found.append([self.floor, seq, 1])
        return found or ([[self.floor, 0, 0]] if self.floor and not first else [])


# --- cases --------------------------------------------------------------------------------------
from cases import cases  # noqa: E402  (the list of cases, which needs the functions above)


def main():
    wanted, wrong = dict(cases(sys.modules[__name__])), 0
    if "--write" in sys.argv:
        for path, text in wanted.items():
            os.makedirs(os.path.dirname(os.path.join(HERE, path)), exist_ok=True)
            open(os.path.join(HERE, path), "w").write(text)
    folders = {os.path.dirname(path) for path in wanted}
    there = {f"{d}/{f}" for d in folders if os.path.isdir(os.path.join(HERE, d)) for f in os.listdir(os.path.join(HERE, d))}
    for path in sorted(there | set(wanted)):
        text = open(os.path.join(HERE, path)).read() if path in there else None
        if text != wanted.get(path):
            print("differs:", path)
            wrong += 1
    print(f"{len(wanted)} cases, {wrong} differ")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
