#!/usr/bin/env python3
"""A second implementation of the mixnet's bytes, to be read beside docs/protocols/mixnet.md.

`reference.py --write` writes the cases into this folder, `reference.py` compares them with what
lies there (exit 1 if one differs). Needs Python 3.11, and `cryptography` for X25519, Ed25519,
ChaCha20-Poly1305 and ChaCha20.
"""
import hashlib, math, pathlib, sys
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat


def be(n, value):
    return value.to_bytes(n, "big")


def h(n, label, *parts):
    return hashlib.blake2b(bytes([len(label)]) + label.encode() + b"".join(parts), digest_size=n).digest()


def raw(key):
    return key.public_bytes(Encoding.Raw, PublicFormat.Raw)


def public(scalar):
    return raw(X25519PrivateKey.from_private_bytes(scalar).public_key())


def dh(scalar, point):
    return X25519PrivateKey.from_private_bytes(scalar).exchange(X25519PublicKey.from_public_bytes(point))


def seal(key, text):
    return ChaCha20Poly1305(key).encrypt(bytes(12), text, b"")


def sign(seed, label, text):
    return Ed25519PrivateKey.from_private_bytes(seed).sign(label.encode() + b"\0" + text)


def identity(seed):
    return raw(Ed25519PrivateKey.from_private_bytes(seed).public_key())


# Onions ---------------------------------------------------------------------------------------

def layer(scalar, secret, service, position, rnd):
    """Z, kf | kr and X of the layer that the holder of `secret` takes off."""
    x, s = public(scalar), public(secret)
    z = dh(scalar, s)
    return z, h(64, "mezza/onion", z, x, s, bytes([service, position]), be(8, rnd)), x


def onion(n, service, rnd, inner, position=0):
    """Scalars 32 x (0x20+i), round secrets 32 x (0x10+i). The onion at mix `position`, reply keys."""
    body, back = inner, []
    for i in reversed(range(position, n)):
        _, k, x = layer(bytes([0x20 + i]) * 32, bytes([0x10 + i]) * 32, service, i, rnd)
        body, back = x + seal(k[:32], body), [k[32:]] + back
    return body, back


def reply(back, cell):
    for key in reversed(back):
        cell = seal(key, cell)
    return cell


P = 2**255 - 19


def onions():
    cell, drop = b"\x5a" * 256, bytes(range(16))
    inners = {1: drop + cell, 2: be(4, 1) + b"\x33" * 16, 3: be(4, 0) + b"\x44" * 260}
    for n in range(1, 9):
        for service in (1, 2, 3) if n == 3 else (1,):
            whole, back = onion(n, service, 7, inners[service])
            case = dict(kind="onion", service=service, round=7, mixes=n, inner=inners[service], onion=whole, expect="opens")
            if service == 1:
                case["reply"] = reply(back, b"\xa5" * 256)
            yield f"onion-{n}-mixes" if service == 1 else f"onion-service-{service}", case
    whole, back = onion(3, 1, 7, inners[1])
    z, k, _ = layer(b"\x20" * 32, b"\x10" * 32, 1, 0, 7)
    answer = reply(back, b"\xa5" * 256)
    yield "onion-known", dict(
        kind="onion-known", z0=z, kf0=k[:32], kr2=back[2], onion=whole, onion_hash=hashlib.blake2b(whole, digest_size=32).digest(),
        reply_hash=hashlib.blake2b(answer, digest_size=32).digest())
    wrong = {}
    for at in range(0, len(whole), 13):
        wrong[f"flip-{at}"] = whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1:]
    x = int.from_bytes(whole[:32], "little")
    wrong["bit-255"] = (x | 1 << 255).to_bytes(32, "little") + whole[32:]
    # A point below 19 can also be written as u + p: sealed under the key of u, sent as u + p.
    u, secret, n0 = (9).to_bytes(32, "little"), b"\x10" * 32, public(b"\x10" * 32)
    k = h(64, "mezza/onion", dh(secret, u), u, n0, bytes([1, 0]), be(8, 7))
    wrong["u-plus-p"] = (9 + P).to_bytes(32, "little") + seal(k[:32], onion(3, 1, 7, inners[1], 1)[0])
    small = [0, 1, 325606250916557431795983626356110631294008115727848805560023387167927233504,
             39382357235489614581723060781553021112529911719440698176882885853963445705823, P - 1, P, P + 1]
    for i, u in enumerate(small):
        x = u.to_bytes(32, "little")
        k = h(64, "mezza/onion", bytes(32), x, public(b"\x10" * 32), bytes([1, 0]), be(8, 7))
        wrong[f"small-order-{i}"] = x + seal(k[:32], whole[32:-16])
    wrong["round"], _ = onion(3, 1, 8, inners[1])
    wrong["service"], _ = onion(3, 3, 7, inners[1])
    two = onion(3, 1, 7, inners[1], 1)[0]
    _, k, x = layer(b"\x20" * 32, b"\x10" * 32, 1, 1, 7)
    wrong["position"] = x + seal(k[:32], two)
    for name, bad in wrong.items():
        yield f"onion-wrong-{name}", dict(kind="onion", service=1, round=7, mixes=3, inner=inners[1], onion=bad, expect="bad")


# Contacts, invitations, buckets -------------------------------------------------------------------

def contacts():
    for root, r0, q0, steps in [(b"\x42" * 32, 100, 5, 2), (bytes(range(32)), 2**40, 0, 1000)]:
        c, a = h(32, "mezza/mix conv", root, be(8, r0)), h(32, "mezza/mix call", root, be(8, q0))
        for i in range(1, steps + 1):
            c, a = h(32, "mezza/mix step", c, be(8, r0 + i)), h(32, "mezza/mix step", a, be(8, q0 + i))
        r, q = r0 + steps, q0 + steps
        first = h(64, "mezza/mix meet", h(32, "mezza/mix conv", root, be(8, r0)), be(8, r0))
        meet, cell = h(64, "mezza/mix meet", c, be(8, r)), h(64, "mezza/mix cell", c, be(8, r))
        ring = lambda chain, at, role, intent: h(32, "mezza/mix ring", chain, be(8, at), bytes([role, intent]))[:16]
        start = h(32, "mezza/mix call", root, be(8, q0))
        yield f"contact-{steps}", dict(
            kind="contact", root=root, start=r0, call_start=q0, steps=steps, first_drop=first[:16],
            first_turn=int.from_bytes(first[16:24], "big"), drop=meet[:16], turn=int.from_bytes(meet[16:24], "big"),
            initiator_seals=cell[:32], responder_seals=cell[32:], first_token=ring(start, q0, 0, 0), token=ring(a, q, 1, 1))
    dialling, network = bytes(range(32, 64)), bytes(range(16))
    for m in (1, 2, 1024):
        place = int.from_bytes(h(32, "mezza/mix bucket", dialling, network)[:8], "big")
        yield f"bucket-{m}", dict(kind="bucket", dialling=dialling, network=network, buckets=m, bucket=1 + place % m)


def invitations():
    own, dial = b"\x61" * 32, b"\x62" * 32
    body, x, d = bytes(range(208)), public(b"\x61" * 32), public(b"\x62" * 32)
    k = h(64, "mezza/invite", dh(own, d), x, d, be(8, 9))[:32]
    sealed = x + seal(k, be(4, 3) + body)
    case = dict(kind="invitation", own=own, dialling=dial, round=9, bucket=3, body=body, sealed=sealed, expect="opens")
    yield "invitation", case
    for name, bad in [("flip-0", b"\x01" + sealed[1:]), ("bit-255", sealed[:31] + bytes([sealed[31] ^ 0x80]) + sealed[32:]),
                      ("tag", sealed[:-1] + bytes([sealed[-1] ^ 1])), ("small-order", bytes(32) + sealed[32:])]:
        yield f"invitation-wrong-{name}", dict(case, sealed=bad, expect="bad")
    yield "invitation-wrong-round", dict(case, round=10, expect="bad")


def filters():
    for count in (0, 1, 7, 300):
        tokens = [h(16, "vector token", be(4, i)) for i in range(count)] + ([h(16, "vector token", be(4, 0))] if count == 7 else [])
        n, bits, last = len(tokens), "", 0
        for v in sorted(int.from_bytes(t[:8], "big") * (n << 24) >> 64 for t in tokens):
            d, last = v - last, v
            bits += "1" * (d >> 24) + "0" + format(d & 0xFFFFFF, "024b")
        bits += "0" * (-len(bits) % 8)
        coded = bytes(int(bits[i:i + 8], 2) for i in range(0, len(bits), 8))
        yield f"filter-{count}", dict(kind="filter", tokens=b"".join(tokens), object=be(4, n) + coded)


def cells():
    piece = bytes(range(1, 226))
    for name, flags, p in [("full", 1, piece), ("empty", 0, b""), ("leaving", 5, b"bye"), ("data-of-zero", 1, b"")]:
        plain = bytes([flags]) + be(4, 7) + be(4, 8) + be(4, 0xF0000001) + be(2, len(p)) + p.ljust(225, b"\0")
        yield f"cell-{name}", dict(kind="cell", flags=flags, seq=7, ack=8, sack=0xF0000001, piece=p, plain=plain, expect="cell")
    good = bytes([1]) + be(4, 7) + be(4, 8) + be(4, 1) + be(2, 3) + b"bye".ljust(225, b"\0")
    for name, at, value in [("syn", 0, 3), ("flag", 0, 0x81), ("length", 14, 226), ("no-data", 0, 0), ("padding", 239, 1)]:
        yield f"cell-wrong-{name}", dict(kind="cell", plain=good[:at] + bytes([value]) + good[at + 1:], expect="no cell")


# Settings, configs, frames ----------------------------------------------------------------------

MIXES = [bytes([50 + i]) * 32 for i in range(3)]


def settings_bytes(config, service=1, rnd=7, keys=3):
    return config + bytes([service]) + be(8, rnd) + be(4, 4000) + b"\1" + be(4, 1) + be(2, 0) + bytes([keys]) + b"".join(public(bytes([0x10 + i]) * 32) for i in range(keys))


def settings():
    config = h(32, "mezza/mix config", b"of a vector")
    text = settings_bytes(config)
    signatures = [sign(seed, "mezza/sign settings", text) for seed in MIXES]
    case = dict(kind="settings", mixes=b"".join(identity(seed) for seed in MIXES), settings=text, signatures=b"".join(signatures), expect="signed")
    yield "settings", case
    yield "settings-wrong-round", dict(case, settings=settings_bytes(config, rnd=8), expect="unsigned")
    yield "settings-wrong-key", dict(case, settings=text[:-1] + bytes([text[-1] ^ 1]), expect="unsigned")
    yield "settings-wrong-missing", dict(case, signatures=b"".join(signatures[:2]) + bytes(64), expect="unsigned")
    yield "settings-wrong-order", dict(case, signatures=signatures[1] + signatures[0] + signatures[2], expect="unsigned")
    purpose = [sign(seed, "mezza/sign abort", text) for seed in MIXES]
    yield "settings-wrong-purpose", dict(case, signatures=b"".join(purpose), expect="unsigned")
    for name, bad in [("cut", text[:-1]), ("long", text + b"\0"), ("service", text[:32] + b"\4" + text[33:]),
                      ("slots", text[:45] + b"\6" + text[46:]), ("buckets", text[:46] + be(4, 3) + text[50:]), ("no-mix", settings_bytes(config, keys=0))]:
        yield f"settings-wrong-{name}", dict(case, settings=bad, expect="malformed")


GUARDIANS = sorted([bytes([i]) * 32 for i in (1, 2, 3)], key=identity)


def config_bytes(seq=0, prev=bytes(32), valid_from=1_000_000, base_round=100, users=1000, threshold=2, traps=((256, 128), (0, 0), (0, 0))):
    server = lambda seed, name: identity(seed) + bytes([len(name)]) + name.encode()
    text = be(2, 2 if traps else 1) + b"\xaa" * 16 + be(8, seq) + prev + be(8, valid_from) + be(8, valid_from + 8_000_000)
    text += bytes([threshold, 3]) + b"".join(identity(g) for g in GUARDIANS)
    text += server(b"\x28" * 32, "entry.example:7000") + server(b"\x29" * 32, "[2001:db8::1]:7080") + b"\3"
    for i, seed in enumerate(MIXES):
        text += server(seed, f"mix{i}.example:700{i + 1}") + b"\3Ada"
    text += be(4, users) + b"\3"
    for at, (service, interval, mu, sigma) in enumerate([(1, 5000, 45710, 6892), (2, 60000, 2487, 417), (3, 3600000, 1283, 223)]):
        text += bytes([service]) + be(8, base_round) + be(8, valid_from) + be(4, interval) + be(4, 2000) + be(4, 5000) + be(4, 4000) + be(4, 20000)
        text += b"\1" + be(4, 1) + b"\1" + be(4, mu) + be(4, sigma) + be(4, 693147) + be(8, 100_000_000) + be(8, 240_000)
        text += be(2, traps[at][0]) + be(2, traps[at][1]) if traps else b""
    return text


def signed_config(text, signers):
    digest = h(32, "mezza/mix config", text)
    return text + bytes([len(signers)]) + b"".join(bytes([s, i]) + sign(GUARDIANS[i], "mezza/sign config", digest) for s, i in signers)


def configs():
    genesis = config_bytes()
    pin = h(32, "mezza/mix config", genesis)
    first = signed_config(genesis, [(1, 0), (1, 2)])
    after = dict(seq=1, prev=pin, valid_from=2_000_000, base_round=1100)
    good = config_bytes(**after)
    case = dict(kind="config", pin=pin, genesis=first, next=signed_config(good, [(0, 0), (0, 1)]), head=h(32, "mezza/mix config", good), expect="taken")
    yield "config", case
    def wrong(name, data, expect, **change):
        return f"config-wrong-{name}", dict(case, next=data, expect=expect, **change)
    yield wrong("one-signature", signed_config(good, [(0, 1)]), "unsigned")
    yield wrong("own-signatures", signed_config(good, [(1, 0), (1, 1)]), "unsigned")
    yield wrong("signature", signed_config(good, [(0, 0), (0, 1)])[:-1] + b"\0", "unsigned")
    yield wrong("signature-order", signed_config(good, [(0, 1), (0, 0)]), "malformed")
    yield wrong("signature-twice", signed_config(good, [(0, 1), (0, 1)]), "malformed")
    yield wrong("gap", signed_config(config_bytes(**dict(after, seq=2)), [(0, 0), (0, 1)]), "gap")
    yield wrong("prev", signed_config(config_bytes(**dict(after, prev=b"\7" * 32)), [(0, 0), (0, 1)]), "foreign")
    yield wrong("rollback", signed_config(config_bytes(users=999), [(1, 0), (1, 1)]), "rollback")
    yield wrong("rounds", signed_config(config_bytes(**dict(after, base_round=300)), [(0, 0), (0, 1)]), "rounds")
    yield wrong("threshold", signed_config(config_bytes(**dict(after, threshold=3)), [(0, 0), (0, 1)]), "unsigned")
    for name, traps in [("no-traps", ((0, 0), (0, 0), (0, 0))), ("traps-of-calls", ((256, 128), (1, 0), (0, 0))), ("traps", ((1024, 1), (0, 0), (0, 0)))]:
        yield wrong(name, signed_config(config_bytes(**dict(after, traps=traps)), [(0, 0), (0, 1)]), "malformed")
    plain = config_bytes(traps=None)
    pin = h(32, "mezza/mix config", plain)
    later = config_bytes(**dict(after, prev=pin, traps=None))
    yield "config-version-1", dict(case, pin=pin, genesis=signed_config(plain, [(1, 0), (1, 2)]), next=signed_config(later, [(0, 0), (0, 1)]), head=h(32, "mezza/mix config", later))
    yield wrong("pin", case["next"], "not pinned", pin=bytes(32))
    yield wrong("cut", case["next"][:-1], "malformed")
    yield wrong("long", case["next"] + b"\0", "malformed")


def frames():
    head = lambda kind, service, rnd, body: be(4, 10 + len(body)) + bytes([kind, service]) + be(8, rnd) + body
    sig = b"\x77" * 64
    bodies = {"hello": (1, 0, 0, be(2, 1) + b"\1" * 32), "welcome": (2, 0, 0, b"\2" * 32 + be(8, 5)), "fetch-config": (3, 0, 0, bytes(32)),
              "config": (4, 0, 0, be(2, 3) + b"abc"), "submit": (6, 1, 7, b"\6" * 416), "return": (7, 1, 7, be(4, 200) + b"\7" * 304),
              "missed": (8, 3, 7, b"\4"), "new-round": (0x10, 1, 7, b""), "round-key": (0x11, 1, 7, b"\x11" * 32),
              "sign": (0x12, 1, 7, settings_bytes(bytes(32))), "signature": (0x13, 1, 7, sig), "batch-start": (0x20, 1, 7, be(4, 900) + be(2, 416)),
              "onions": (0x21, 2, 7, be(4, 512) + be(2, 2) + b"\5" * 328), "batch-end": (0x22, 1, 7, be(4, 900)),
              "replies": (0x23, 1, 7, be(4, 0) + be(2, 1) + b"\4" * 272), "replies-end": (0x24, 1, 7, be(4, 900)),
              "abort": (0x2F, 1, 7, b"\xff\2" + sig), "alarm": (0x30, 1, 7, b"\1" + sig),
              "put": (0x40, 2, 7, b"\2" + be(8, 7) + be(4, 1) + be(4, 5) + h(32, "mezza/mix object", b"12345") + sig),
              "fetch": (0x41, 2, 7, be(4, 1)), "object-none": (0x42, 2, 7, b""), "chunk": (0x43, 2, 7, be(4, 1) + be(4, 0) + b"12345"), "stored": (0x44, 2, 7, b"")}
    for name, parts in bodies.items():
        yield f"frame-{name}", dict(kind="frame", frame=head(*parts), expect="frame")
    for name, parts in {"kind": (9, 1, 7, b""), "service": (0x10, 0, 7, b""), "link-round": (1, 0, 1, be(2, 1) + bytes(32)), "missed": (8, 1, 7, b"\6"),
                        "abort": (0x2F, 1, 7, b"\0\0" + sig), "onions": (0x21, 1, 7, be(4, 0) + be(2, 3) + bytes(10)), "no-onion": (0x21, 1, 7, be(4, 0) + be(2, 0)),
                        "put-conversation": (0x40, 1, 7, b"\1" + be(8, 7) + be(4, 1) + be(4, 5) + bytes(32) + sig),
                        "sign-round": (0x12, 1, 8, settings_bytes(bytes(32)))}.items():
        yield f"frame-wrong-{name}", dict(kind="frame", frame=head(*parts), expect="malformed")


# Permutation and privacy -----------------------------------------------------------------------------

def permutations():
    for count in (0, 1, 2, 1000):
        seed = bytes([count & 0xFF]) * 32
        stream = Cipher(algorithms.ChaCha20(seed, bytes(16)), mode=None).encryptor()
        places = list(range(count))
        for last in range(count - 1, 0, -1):
            bound = last + 1
            while True:
                product = int.from_bytes(stream.update(bytes(4)), "little") * bound
                if product % 2**32 >= (2**32 - bound) % bound:
                    break
            chosen = product >> 32
            places[last], places[chosen] = places[chosen], places[last]
        yield f"permutation-{count}", dict(kind="permutation", seed=seed, places=b"".join(be(4, p) for p in places))


def tail(x):
    return math.erfc(x / math.sqrt(2)) / 2


def rdp_delta(parts, eps):
    """Parts: (mode, service, mu, scale, slots, k)."""
    def rho(a):
        total = 0.0
        for mode, service, mu, scale, slots, k in parts:
            shift = 2 * slots if service == 1 else 1
            if mode == "gauss":
                total += k * a * shift**2 / scale**2
            else:
                l = shift / scale
                total += k * 2 * math.log(a / (2 * a - 1) * math.exp((a - 1) * l) + (a - 1) / (2 * a - 1) * math.exp(-a * l)) / (a - 1)
        return total
    grid = [1 + i / 100 for i in range(1, 401)] + [5 * 1.01**j for j in range(1, 765)]
    def at(a):
        exponent = (a - 1) * (rho(a) - eps) + a * math.log(1 - 1 / a) - math.log(a - 1)
        return math.exp(min(exponent, 50))
    clamp = sum(k * (2 * tail(mu / scale) if mode == "gauss" else math.exp(-mu / scale)) for mode, _, mu, scale, _, k in parts)
    return min(min(map(at, grid)), 1), (1 + math.exp(eps)) * clamp


def privacy():
    rows = {"standard": ([("gauss", 1, 45710, 6892, 1, 240000)], math.log(2)), "relaxed": ([("gauss", 1, 16070, 2360, 1, 240000)], math.log(10)),
            "small": ([("gauss", 1, 2566, 446, 1, 1000)], math.log(2)), "slots": ([("gauss", 1, 91420, 13784, 2, 240000)], math.log(2)),
            "strict-delta": ([("gauss", 1, 17336, 2308, 1, 240000)], 3.0), "call": ([("gauss", 2, 2487, 417, 1, 3500)], math.log(2)),
            "laplace": ([("paper", 1, 166934, 6867, 1, 240000)], math.log(2)),
            "all": ([("gauss", 1, 45710, 6892, 1, 240000), ("gauss", 2, 2487, 417, 1, 3500), ("gauss", 3, 1283, 223, 1, 1000)], 1.19)}
    for name, (parts, eps) in rows.items():
        divergence, clamp = rdp_delta(parts, eps)
        text = " ".join("/".join(map(str, part)) for part in parts)
        yield f"privacy-{name}", dict(kind="privacy", spent=text, epsilon=repr(eps), divergence=f"{divergence:.9e}", delta=f"{min(divergence + clamp, 1):.9e}")


BITS, SLOT = 192, 52  # of a probability, and bytes of a coefficient in one large number


def count_loss(mode, scale, shift, step):
    """{place: probability} of one count that moves by `shift`, from the probability of each number; the drift."""
    if mode == "gauss":
        reach = int(16 * scale)
        law = {n: math.exp(-n * n / (2 * scale * scale)) for n in range(-reach - shift, reach + shift + 1)}
        drift = shift * shift / (2 * scale * scale)
    else:
        reach = int(80 * scale)
        below = lambda n: math.exp(n / scale) / 2 if n <= 0 else 1 - math.exp(-n / scale) / 2
        law = {n: (math.exp(-abs(n - 1 if n > 0 else n) / scale) * -math.expm1(-1 / scale) / 2) for n in range(-reach - shift, reach + shift + 1)}
        assert all(abs(law[n] - (below(n) - below(n - 1))) < 1e-15 for n in law)
        drift = 0.0
    whole, places = math.fsum(law.values()), {}
    for n in range(-reach, reach + 1):
        place = (math.log(law[n] / law[n - shift]) - drift) / step
        assert abs(place - round(place)) < 1e-6 * scale, place
        places[round(place)] = places.get(round(place), 0) + law[n] / whole
    return places, drift


def product(one, two):
    """The law of a sum: one multiplication of numbers that have each probability as a digit."""
    pack = lambda law: int.from_bytes(b"".join(c.to_bytes(SLOT, "little") for c in law), "little")
    size = len(one) + len(two) - 1
    digits = (pack(one) * pack(two)).to_bytes(SLOT * size, "little")
    return [int.from_bytes(digits[SLOT * i:SLOT * (i + 1)], "little") >> BITS for i in range(size)]


def tight_delta(mode, service, scale, slots, k, eps):
    """The delta of k rounds whose counts are never clamped: every sum of losses, with its probability."""
    counts = [(scale, 2 * slots), (scale / 2, slots)] if service == 1 else [(scale, 1), (scale, 1)]
    step = counts[0][1] / scale**2 if mode == "gauss" else 1 / scale
    law, first, drift = [1 << BITS], 0, 0.0
    for places, its in (count_loss(mode, *count, step) for count in counts):
        low = min(places)
        law = product(law, [int(places.get(low + i, 0) * 2**BITS) for i in range(max(places) - low + 1)])
        first, drift = first + low, drift + its
    power, square, at = [1 << BITS], law, k
    while at:
        power = product(power, square) if at & 1 else power
        at >>= 1
        square = product(square, square) if at else square
    losses = ((c / 2**BITS, step * (k * first + i) + k * drift) for i, c in enumerate(power) if c)
    return math.fsum(-p * math.expm1(eps - loss) for p, loss in losses if loss > eps)


def tight():
    rows = {"gauss": ("gauss", 1, 12, 1, 50, 3.0), "gauss-small-delta": ("gauss", 1, 40, 1, 8, 2.0), "gauss-slots": ("gauss", 1, 30, 3, 12, 1.0),
            "gauss-call": ("gauss", 2, 9, 1, 30, 1.0), "laplace": ("paper", 1, 60, 1, 1000, 5.0), "laplace-slots": ("paper", 1, 100, 3, 200, 1.5),
            "laplace-call": ("paper", 2, 25, 1, 300, 2.0), "laplace-small-delta": ("paper", 1, 120, 1, 50, 1.4)}
    for name, (mode, service, scale, slots, k, eps) in rows.items():
        spent = f"{mode}/{service}/4000000/{scale}/{slots}/{k}"
        yield f"tight-{name}", dict(kind="tight", spent=spent, epsilon=repr(eps), delta=f"{tight_delta(mode, service, scale, slots, k, eps):.9e}")


def cases():
    for part in (onions, contacts, invitations, filters, cells, settings, configs, frames, permutations, privacy, tight):
        yield from part()


def main():
    here, wrong, names = pathlib.Path(__file__).parent, 0, set()
    for name, fields in cases():
        assert name not in names, name
        names.add(name)
        show = lambda v: v.hex() if isinstance(v, bytes) else str(v)
        text = "".join(f"{key}: {show(value)}".rstrip() + "\n" for key, value in fields.items())
        path = here / f"{name}.txt"
        if "--write" in sys.argv:
            path.write_text(text)
        elif not path.exists() or path.read_text() != text:
            print("differs:", path.name)
            wrong = 1
    for path in here.glob("*.txt"):
        if path.stem not in names:
            print("not made here:", path.name)
            wrong = 1
    sys.exit(wrong)


if __name__ == "__main__":
    main()
