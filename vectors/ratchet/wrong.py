#!/usr/bin/env python3
"""The wrong cases, made from the right ones: each field off by one bit, missing, too long or out of
range. Called like reference.py."""
import reference as ref
from reference import BASE, P, Q, Pair, be, chain, enc, head, mul, root, seal, sign

RIGHT = {name: fields for name, fields in ref.cases()}
H, B = RIGHT["handshake"], RIGHT["bundle"]
A, BOB, SPK, OPK, EK = map(Pair, ["ikA", "ikB", "spkB", "opkB", "ekA"])
RA1, RB1 = Pair("rkA1"), Pair("rkB1")
Z = RIGHT["signature-bundle"]["z"]
LIST = bytes.fromhex("010101")
LOW = [0, 1, P - 1, 0xB8495F16056286FDB1329CEB8D09DA6AC49FF1FAE35616AEB8413B7C7AEBE0, 0x57119FD0DD4E22D8868E1C58C45C44045BEF839C55B1D0B1248C50A3BC959C5F]


def le(v):
    return v.to_bytes(32, "little")


def flip(data, at):
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


def cut(data, at, n=1):
    return data[:at] + data[at + n :]


def keys():
    for i, u in enumerate(LOW):
        yield f"public-key-low-order-{i}", dict(kind="public-key", key=le(u), expect="low-order")
    for name, u in [("p", P), ("p-plus-1", P + 1), ("all-ones", 2**255 - 1), ("bit-255", 9 | 1 << 255)]:
        yield f"public-key-not-canonical-{name}", dict(kind="public-key", key=le(u), expect="not-canonical")
    yield "public-key-largest", dict(kind="public-key", key=le(P - 2), expect="ok")
    yield "public-key-base", dict(kind="public-key", key=le(9), expect="ok")


def signatures():
    good = RIGHT["signature-bundle"]
    sig, msg, pub = good["signature"], good["message"], good["public"]
    s = int.from_bytes(sig[32:], "little")
    point = enc(mul(BOB.k, BASE))
    # What Signal's libraries make: the key is not negated, its sign stands in the last bit.
    r = ref.h512(b"\xfe" + b"\xff" * 31, le(BOB.k % Q), msg, Z)
    big_r = enc(mul(r, BASE))
    signed_form = big_r + le((r + ref.h512(big_r, point, msg) * BOB.k) % Q | (point[31] >> 7) << 255)
    for name, value, expect in [
        ("right", sig, "ok"),
        ("r-bit", flip(sig, 0), "refused"),
        ("s-bit", flip(sig, 40), "refused"),
        ("s-plus-q", sig[:32] + le(s + Q), "refused"),
        ("sign-bit", sig[:63] + bytes([sig[63] | 0x80]), "refused"),
        ("zero", bytes(64), "refused"),
        ("signal-form", signed_form, "refused" if point[31] >> 7 else "ok"),
    ]:
        yield f"verify-{name}", dict(kind="verify", public=pub, message=msg, signature=value, expect=expect)
    yield "verify-message-bit", dict(kind="verify", public=pub, message=flip(msg, 20), signature=sig, expect="refused")
    yield "verify-other-key", dict(kind="verify", public=A.pub, message=msg, signature=sig, expect="refused")
    # u = 3 lies on the twist: there is no Edwards point.
    twist = next(u for u in range(2, 99) if pow((u**3 + 486662 * u * u + u) % P, (P - 1) // 2, P) != 1)
    yield "verify-twist", dict(kind="verify", public=le(twist), message=msg, signature=sig, expect="refused")


def lists():
    for name, text, expect in [
        ("one", "010101", "ok"),
        ("four", "040104010301020101", "ok"),
        ("unknown-id", "0201ff0101", "ok"),
        ("empty", "00", "malformed"),
        ("five", "0501050104010301020101", "malformed"),
        ("ascending", "0201010102", "malformed"),
        ("doubled", "0201010101", "malformed"),
        ("signal-v3", "0201010003", "malformed"),
        ("paper", "027f040101", "malformed"),
        ("cut", "02010201", "malformed"),
        ("long", "01010100", "malformed"),
        ("nothing", "", "malformed"),
    ]:
        yield f"list-{name}", dict(kind="list", list=bytes.fromhex(text), expect=expect)


def one_times():
    for name, data, expect in [
        ("right", be(4, 7) + OPK.pub, "ok"),
        ("largest", be(4, 16777214) + OPK.pub, "ok"),
        ("id-0", be(4, 0) + OPK.pub, "malformed"),
        ("id-above", be(4, 16777215) + OPK.pub, "malformed"),
        ("low-order", be(4, 7) + le(1), "malformed"),
        ("not-canonical", be(4, 7) + le(P), "malformed"),
        ("cut", be(4, 7) + OPK.pub[:31], "malformed"),
        ("long", be(4, 7) + OPK.pub + b"\0", "malformed"),
    ]:
        yield f"one-time-{name}", dict(kind="one-time", one_time=data, expect=expect)


def entry(lst, suite=0x0101, spk_id=9, spk=SPK.pub, not_after=30_000_000, signer=BOB):
    digest = ref.b2(32, b"", "b2c20 list", lst)
    body = be(4, spk_id) + spk + be(4, not_after)
    return be(2, suite) + be(2, 104) + body + sign(signer, Z, b"b2c20 bundle 1" + be(2, suite) + digest + body)


def whole(lst, *entries):
    return b"\1" + lst + be(1, len(entries)) + b"".join(entries)


def bundles():
    good, two = B["bundle"], bytes.fromhex("0201030101")
    only_new, now, floor = bytes.fromhex("010103"), 29_990_000, LIST
    strange = be(2, 0x0103) + be(2, 3) + b"xyz"
    for name, data, expect, *rest in [
        ("version", b"\2" + good[1:], "malformed"),
        ("list-empty", b"\1\0" + good[4:], "malformed"),
        ("list-v3", whole(bytes.fromhex("0201010003"), entry(LIST)), "malformed"),
        ("no-entries", whole(LIST), "malformed"),
        ("two-entries-one-suite", whole(LIST, entry(LIST), entry(LIST)), "malformed"),
        ("entry-doubled", whole(two, entry(two), entry(two)), "malformed"),
        ("entry-order", whole(two, entry(two), strange), "malformed"),
        ("entry-not-in-list", whole(only_new, entry(only_new)), "malformed"),
        ("entry-length", good[:7] + be(2, 103) + good[9:-1], "malformed"),
        ("cut", good[:-1], "malformed"),
        ("long", good + b"\0", "malformed"),
        ("nothing", b"", "malformed"),
        ("unknown-suite-beside", whole(two, strange, entry(two)), "ok"),
        ("suite-stripped", good, "suite-downgrade", two),
        ("suite-stripped-and-list-edited", whole(two, entry(LIST)), "bad-signature", two),
        ("entry-stripped", whole(two, strange), "suite-downgrade"),
        ("no-common-suite", whole(only_new, strange), "no-common-suite", only_new),
        ("spk-id-bit", flip(good, 12), "bad-signature"),
        ("spk-bit", flip(good, 13), "bad-signature"),
        ("not-after-bit", flip(good, 48), "bad-signature"),
        ("signature-bit", flip(good, 49), "bad-signature"),
        ("signature-sign-bit", good[:-1] + bytes([good[-1] | 0x80]), "bad-signature"),
        ("signed-by-another", whole(LIST, entry(LIST, signer=A)), "bad-signature"),
        ("spk-low-order", whole(LIST, entry(LIST, spk=le(1))), "bad-key"),
        ("spk-not-canonical", whole(LIST, entry(LIST, spk=le(P + 9))), "bad-key"),
        ("within-a-day", good, "ok", floor, 30_001_440),
        ("expired", good, "expired", floor, 30_001_441),
        ("expired-and-forged", flip(good, 49), "expired", floor, 30_001_441),
    ]:
        f, n = (rest + [floor, now][len(rest) :])[:2]
        yield f"bundle-{name}", dict(kind="bundle", identity=BOB.pub, floor=f, now_minutes=n, bundle=data, expect=expect)


def messages():
    m0, m1, r0 = H["m0"], H["m1"], H["r0"]
    rk1, ck1 = root(H["root"], RA1.dh(SPK.pub))
    mk0, prefix, h0 = chain(ck1)[1], m0[:79], head(RA1.pub, 0, 0)

    def bare(text):
        # An authentic message whose padded text is not what a sender makes.
        nonce = ref.b2(16, mk0, "b2c20 nonce", text)
        k = ref.b2(44, mk0, "b2c20 seal", nonce)
        aad = A.pub + BOB.pub + b"\0" + h0
        return prefix + h0[4:] + nonce + ref.ChaCha20Poly1305(k[:32]).encrypt(k[32:], text, aad)

    def far(n):
        ck = ck1
        for _ in range(n + 1):
            ck, mk = chain(ck)
        h = head(RA1.pub, n, 0)
        return prefix + h[4:] + seal(mk, A.pub, BOB.pub, b"", h, b"far")

    both = bytes.fromhex("0201020101")
    for name, data, expect in [
        ("family", b"\xf0" + m0[1:], "malformed"),
        ("kind-0", m0[:1] + b"\0" + m0[2:], "malformed"),
        ("kind-3", m0[:1] + b"\3" + m0[2:], "malformed"),
        ("kind-1", m0[:1] + b"\1" + m0[2:], "no-session"),
        ("suite-pq", m0[:2] + b"\1\2" + m0[4:], "suite-unsupported"),
        ("suite-paper", m0[:2] + b"\x7f\4" + m0[4:], "suite-unsupported"),
        ("signal-v3", b"\x33" + m0[1:], "suite-unsupported"),
        ("identity-bit", flip(m0, 4), "forged"),
        ("identity-not-canonical", m0[:4] + le(P) + m0[36:], "forged"),
        ("base-bit", flip(m0, 36), "forged"),
        ("base-not-canonical", m0[:36] + le(P + 9) + m0[68:], "malformed"),
        ("base-low-order", m0[:36] + le(1) + m0[68:], "malformed"),
        ("spk-id-bit", flip(m0, 71), "unknown-prekey"),
        ("opk-id-bit", flip(m0, 75), "unknown-prekey"),
        ("opk-id-0", m0[:72] + be(4, 0) + m0[76:], "forged"),
        ("list-higher", m0[:76] + both + m0[79:], "forged"),
        ("list-v3", m0[:76] + bytes.fromhex("0201010003") + m0[79:], "malformed"),
        ("list-without", m0[:76] + bytes.fromhex("010102") + m0[79:], "suite-downgrade"),
        ("ratchet-key-bit", flip(m0, 79), "forged"),
        ("ratchet-key-not-canonical", m0[:79] + le(P) + m0[111:], "malformed"),
        ("ratchet-key-low-order", m0[:79] + le(0) + m0[111:], "forged"),
        ("n-bit", flip(m0, 113), "forged"),
        ("pn-bit", flip(m0, 116), "forged"),
        ("nonce-bit", flip(m0, 117), "forged"),
        ("text-bit", flip(m0, 140), "forged"),
        ("tag-bit", flip(m0, 308), "forged"),
        ("cut", m0[:-1], "forged"),
        ("cut-in-prefix", m0[:78], "malformed"),
        ("cut-in-head", m0[:116], "malformed"),
        ("no-sealed-part", m0[:117], "forged"),
        ("long", m0 + b"\0", "forged"),
        ("nothing", b"", "malformed"),
        ("no-padding", bare(b"hello"), "malformed"),
        ("padding-only-zeros", bare(bytes(160)), "malformed"),
        ("padding-mark-81", bare(b"hello\x81" + bytes(154)), "malformed"),
        ("text-empty", bare(b""), "malformed"),
        ("jump-5000", far(5000), "ok"),
        ("jump-5001", far(5001), "too-far"),
        ("n-largest", m0[:111] + b"\xff\xff\xff" + m0[114:], "too-far"),
        ("plain-without-session", r0, "no-session"),
    ]:
        yield f"message-{name}", dict(kind="message", outer=b"", message=data, expect=expect)
    yield "message-outer-added", dict(kind="message", outer=b"\0", message=m0, expect="forged")
    outer = bytes(range(32))
    bound = prefix + h0[4:] + seal(mk0, A.pub, BOB.pub, outer, h0, b"hello")
    for name, value, expect in [("right", outer, "ok"), ("bit", flip(outer, 31), "forged"), ("cut", outer[:31], "forged"), ("missing", b"", "forged"), ("65-bytes", bytes(65), "forged")]:
        yield f"message-outer-{name}", dict(kind="message", outer=value, message=bound, expect=expect)
    for name, data, expect in [
        ("repeated", m0, "duplicate"),
        ("next-first", m1, "ok"),
        ("prefix-bit", flip(m1, 71), "forged"),
        ("prefix-list", m1[:76] + both + m1[79:], "forged"),
        ("suite", b"\xf1\1\1\2" + m1[4:], "suite-mismatch"),
        ("signal-v3", b"\x33" + m1[1:], "suite-mismatch"),
        ("reflected", r0, "forged"),
        ("as-plain", b"\xf1\1\1\1" + m1[79:], "ok"),
    ]:
        yield f"message-after-{name}", dict(kind="message", outer=b"", after=m0, message=data, expect=expect)
    for name, data, expect in [
        ("right", r0, "ok"),
        ("own-message", b"\xf1\1\1\1" + m0[79:], "forged"),
        ("own-first-message", m0, "forged"),
        ("ratchet-key-bit", flip(r0, 4), "forged"),
        ("n-bit", flip(r0, 38), "forged"),
        ("pn-bit", flip(r0, 41), "forged"),
        ("pn-largest", r0[:39] + b"\xff\xff\xff" + r0[42:], "forged"),
    ]:
        yield f"reply-{name}", dict(kind="reply", outer=b"", message=data, expect=expect)


def session(flags=0x4F, their=SPK.pub, own=(RA1.scalar, RA1.pub), send=(bytes(range(32)), 2), pn=0, recv=(bytes(32), 0), pending=None, local=A.pub):
    text = b"\1" + b"\1\1" + bytes([flags]) + H["session"] + local + BOB.pub + H["root1"] + their
    text += own[0] + own[1] + send[0] + be(4, send[1]) + be(4, pn) + recv[0] + be(4, recv[1])
    pending = H["m0"][:79] if pending is None else pending
    return text + be(8, 1_800_000_000_000) + be(8, 0) + be(2, len(pending)) + pending


def stored():
    good, ids = session(), H["session"]
    nothing = (bytes(32), 0)
    answered = session(flags=0x5D, recv=(b"r" * 32, 3), pending=b"")
    for name, data, expect in [
        ("pending", good, "ok"),
        ("answered", answered, "ok"),
        ("version", b"\2" + good[1:], "refused"),
        ("suite", good[:1] + b"\1\2" + good[3:], "refused"),
        ("flag-coin", session(flags=0x6F), "refused"),
        ("flag-unknown", session(flags=0xCF), "refused"),
        ("not-active", session(flags=0x0F), "refused"),
        ("other-local", session(local=RA1.pub), "refused"),
        ("own-without-flag", session(flags=0x43, send=nothing), "refused"),
        ("send-without-flag", session(flags=0x47), "refused"),
        ("send-without-own", session(flags=0x4B, own=(bytes(32), bytes(32))), "refused"),
        ("recv-without-flag", session(recv=(b"r" * 32, 0)), "refused"),
        ("recv-n-without-flag", session(recv=(bytes(32), 1)), "refused"),
        ("n-at-limit", session(send=(bytes(32), 2**24 - 1)), "ok"),
        ("n-above-limit", session(send=(bytes(32), 2**24)), "refused"),
        ("pn-above-limit", session(pn=2**24), "refused"),
        ("pending-without-prefix", session(pending=b""), "refused"),
        ("pending-responder", session(flags=0x4E), "refused"),
        ("prefix-cut", session(pending=H["m0"][:78]), "refused"),
        ("prefix-of-another", session(pending=flip(H["m0"][:79], 4)), "refused"),
        ("prefix-when-answered", session(flags=0x5D, recv=(b"r" * 32, 3)), "refused"),
        ("cut", good[:-1], "refused"),
        ("long", good + b"\0", "refused"),
    ]:
        yield f"stored-session-{name}", dict(kind="stored", table=1, key=ids, value=data, expect=expect)
    yield "stored-session-key", dict(kind="stored", table=1, key=flip(ids, 0), value=good, expect="refused")
    row, value = ids + RB1.pub + be(4, 5), bytes(range(32)) + be(4, 500_000)
    for name, k, v, expect in [
        ("right", row, value, "ok"),
        ("no-session", flip(row, 0), value, "refused"),
        ("key-cut", row[:-1], value, "refused"),
        ("value-cut", row, value[:-1], "refused"),
        ("value-long", row, value + b"\0", "refused"),
    ]:
        yield f"stored-skipped-{name}", dict(kind="stored", table=2, key=k, value=v, expect=expect, beside_key=ids, beside_value=good)
    made, nine, seven = be(4, 29_979_840), be(4, 9), be(4, 7)
    spk = b"\1" + b"\1\1" + nine + made + LIST + b"\0" + SPK.scalar + SPK.pub + B["bundle"][-64:]
    for name, k, v, expect in [
        ("right", nine, spk, "ok"),
        ("version", nine, b"\2" + spk[1:], "refused"),
        ("key", be(4, 8), spk, "refused"),
        ("suite-not-in-list", nine, spk[:1] + b"\1\2" + spk[3:], "refused"),
        ("coin", nine, spk[:14] + b"\1" + spk[15:], "refused"),
        ("kind-2", nine, spk[:14] + b"\2" + spk[15:], "refused"),
        ("cut", nine, spk[:-1], "refused"),
        ("long", nine, spk + b"\0", "refused"),
    ]:
        yield f"stored-spk-{name}", dict(kind="stored", table=3, key=k, value=v, expect=expect)
    opk = b"\2" + seven + made + b"\0" + OPK.scalar + OPK.pub
    for name, k, v, expect in [
        ("right", seven, opk, "ok"),
        ("version", seven, b"\1" + opk[1:], "refused"),
        ("key", be(4, 8), opk, "refused"),
        ("id-0", be(4, 0), opk[:1] + be(4, 0) + opk[5:], "refused"),
        ("coin", seven, opk[:9] + b"\1" + opk[10:], "refused"),
        ("cut", seven, opk[:-1], "refused"),
        ("long", seven, opk + b"\0", "refused"),
    ]:
        yield f"stored-opk-{name}", dict(kind="stored", table=4, key=k, value=v, expect=expect)
    mark = ref.b2(16, b"", "b2c20 seen", EK.pub)
    for name, k, v, expect in [
        ("right", nine + mark, b"\3" + nine + mark, "ok"),
        ("version", nine + mark, b"\1" + nine + mark, "refused"),
        ("key", nine + flip(mark, 0), b"\3" + nine + mark, "refused"),
        ("no-spk", be(4, 8) + mark, b"\3" + be(4, 8) + mark, "refused"),
        ("cut", nine + mark, b"\3" + nine + mark[:-1], "refused"),
    ]:
        yield f"stored-seen-{name}", dict(kind="stored", table=5, key=k, value=v, expect=expect, beside_key=nine, beside_value=spk)


def cases():
    for part in [keys, signatures, lists, one_times, bundles, messages, stored]:
        yield from part()


if __name__ == "__main__":
    ref.main(cases())
