#!/usr/bin/env python3
"""The wrong cases of `signal-v3`, made from the right one: each field off by one bit, missing, twice,
too long or out of range, and what peers may do that we never do. Called like reference.py.
"""
import reference as ref
from reference import Pair, be
from signal_suites import (
    Cipher, V3, algorithms, bytes_field, chain, conversation, hkdf, mac, modes, number_field, root, ser, sign, varint,
)
import hashlib

RIGHT = conversation(V3, True)
A, BOB, SPK, OPK, EK, RA1 = map(Pair, ["ikA", "ikB", "spkB", "opkB", "ekA", "rkA1"])
CK = root(RIGHT["root"], RA1.dh(SPK.pub))[1]


def flip(data, at):
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


def message_key(n):
    ck = CK
    for _ in range(n):
        ck = chain(ck)[0]
    return chain(ck)[1]


def inner(n=0, pn=0, text=None, order="1234", first=b"\x33", before=b"", behind=b"", key=None, raw=None):
    """An authentic message, with liberties."""
    keys = hkdf(bytes(32), message_key(n), b"WhisperMessageKeys", 80)
    if raw is None:
        body = b"hello" if text is None else text
        fill = 16 - len(body) % 16
        cipher = Cipher(algorithms.AES(keys[:32]), modes.CBC(keys[64:])).encryptor()
        raw = cipher.update(body + bytes([fill]) * fill)
    fields = {
        "1": bytes_field(1, ser(RA1.pub) if key is None else key), "2": number_field(2, n),
        "3": number_field(3, pn), "4": bytes_field(4, raw),
    }
    front = first + before + b"".join(fields[tag] for tag in order) + behind
    return front + mac(keys[32:64], ser(A.pub), ser(BOB.pub), front)[:8]


def first(message=None, first=b"\x33", order="123456", **fields):
    values = {
        "1": number_field(1, 7), "2": bytes_field(2, ser(EK.pub)), "3": bytes_field(3, ser(A.pub)),
        "4": bytes_field(4, inner() if message is None else message),
        "5": number_field(5, 4660), "6": number_field(6, 9),
    }
    values.update({key[1:]: value for key, value in fields.items()})
    return first + b"".join(values[tag] for tag in order)


def cases():
    good, whole = inner(), first()
    assert whole == RIGHT["m0"]
    z = hashlib.sha512(b"ratchet vector Z").digest()
    at = {name: good.index(part) for name, part in [("key", RA1.pub), ("counter", b"\x10\0\x18"), ("text", b"\x22\x10")]}
    low = ser(be(32, 1)[::-1])
    beyond = ser(bytes([0xF6]) + b"\xff" * 30 + b"\x7f")
    for name, data, expect in [
        ("right", whole, "ok"),
        ("nothing", b"", "malformed"),
        ("version-2", b"\x23" + whole[1:], "malformed"),
        ("version-4", b"\x44" + whole[1:], "suite-unsupported"),
        ("sender-knows-4", b"\x34" + whole[1:], "ok"),
        ("inner-sender-knows-4", first(inner(first=b"\x34")), "ok"),
        ("inner-sender-changed", first(b"\x34" + good[1:]), "forged"),
        ("inner-version-4", first(inner(first=b"\x44")), "malformed"),
        ("fields-reversed", first(order="654321"), "ok"),
        ("inner-fields-reversed", first(inner(order="4321")), "ok"),
        ("inner-unknown-fields", first(inner(before=number_field(9, 5), behind=bytes_field(5, b"x") + b"\x5d1234")), "ok"),
        ("unknown-fields", first() + bytes_field(99, b"x") + b"\x59" + bytes(8), "ok"),
        ("unknown-varint-10", first() + b"\x78" + b"\xff" * 9 + b"\x01", "ok"),
        ("unknown-varint-11", first() + b"\x78" + b"\xff" * 10 + b"\x01", "malformed"),
        ("unknown-group", first() + b"\x4b\x4c", "malformed"),
        ("field-zero", first() + b"\0\0", "malformed"),
        ("cut", whole[:-1], "malformed"),
        ("trailing-byte", whole + b"\x30", "malformed"),
        ("length-beyond-the-end", whole[:-1] + b"\x32\x09", "malformed"),
        ("opk-missing", first(order="23456"), "forged"),
        ("opk-zero", first(_1=number_field(1, 0)), "forged"),
        ("opk-other", first(_1=number_field(1, 6)), "unknown-prekey"),
        ("opk-twice", first(order="1123456"), "malformed"),
        ("opk-as-bytes", first(_1=bytes_field(1, b"\7")), "malformed"),
        ("opk-six-bytes", first(_1=b"\x08\x87\x80\x80\x80\x80\0"), "malformed"),
        ("opk-five-bytes", first(_1=b"\x08\x87\x80\x80\x80\0"), "ok"),
        ("opk-above-32-bits", first(_1=b"\x08\x87\x80\x80\x80\x10"), "malformed"),
        ("base-missing", first(order="13456"), "malformed"),
        ("base-twice", first(order="1223456"), "malformed"),
        ("base-bit", first(_2=bytes_field(2, flip(ser(EK.pub), 1))), "malformed"),
        ("base-type", first(_2=bytes_field(2, b"\x06" + EK.pub)), "malformed"),
        ("base-short", first(_2=bytes_field(2, ser(EK.pub)[:-1])), "malformed"),
        ("base-without-type", first(_2=bytes_field(2, EK.pub)), "malformed"),
        ("base-long", first(_2=bytes_field(2, ser(EK.pub) + b"\0")), "malformed"),
        ("base-low-order", first(_2=bytes_field(2, low)), "malformed"),
        ("base-not-canonical", first(_2=bytes_field(2, beyond)), "malformed"),
        ("identity-missing", first(order="12456"), "malformed"),
        ("identity-bit", first(_3=bytes_field(3, flip(ser(A.pub), 1))), "forged"),
        ("identity-type", first(_3=bytes_field(3, b"\x04" + A.pub)), "malformed"),
        ("message-missing", first(order="12356"), "malformed"),
        ("message-twice", first(order="1234456"), "malformed"),
        ("message-empty", first(b""), "malformed"),
        ("message-cut", first(good[:-1]), "malformed"),
        ("registration-missing", first(order="12346"), "ok"),
        ("registration-other", first(_5=number_field(5, 1)), "ok"),
        ("spk-missing", first(order="12345"), "malformed"),
        ("spk-other", first(_6=number_field(6, 8)), "unknown-prekey"),
        ("spk-twice", first(order="1234566"), "malformed"),
        ("inner-key-bit", first(flip(good, at["key"])), "forged"),
        ("inner-key-type", first(inner(key=b"\x06" + RA1.pub)), "malformed"),
        ("inner-key-missing", first(inner(order="234")), "malformed"),
        ("inner-key-twice", first(inner(order="11234")), "malformed"),
        ("inner-key-low-order", first(inner(key=low)), "forged"),
        ("inner-key-not-canonical", first(inner(key=beyond)), "malformed"),
        ("inner-counter-bit", first(flip(good, at["counter"] + 1)), "forged"),
        ("inner-counter-missing", first(inner(order="134")), "malformed"),
        ("inner-counter-twice", first(inner(order="12234")), "malformed"),
        ("inner-counter-largest", first(good[: at["counter"] + 1] + varint(2**32 - 1) + good[at["counter"] + 2 :]), "malformed"),
        ("inner-previous-bit", first(flip(good, at["counter"] + 3)), "forged"),
        ("inner-previous-missing", first(inner(order="124")), "ok"),
        ("inner-previous-largest", first(inner(pn=2**32 - 1)), "ok"),
        ("inner-previous-above", first(inner(order="124", behind=b"\x18" + varint(2**32))), "malformed"),
        ("inner-text-bit", first(flip(good, at["text"] + 2)), "forged"),
        ("inner-text-missing", first(inner(order="123")), "malformed"),
        ("inner-text-empty", first(inner(raw=b"")), "forged"),
        ("inner-text-no-blocks", first(inner(raw=bytes(15))), "forged"),
        ("inner-text-bad-padding", first(inner(raw=bytes(16))), "forged"),
        ("inner-mac-bit", first(flip(good, len(good) - 1)), "forged"),
        ("body-empty", first(inner(text=b"")), "ok"),
        ("body-16", first(inner(text=bytes(16))), "ok"),
        ("jump-5000", first(inner(n=5000)), "ok"),
        ("jump-5001", first(inner(n=5001)), "too-far"),
        ("plain-without-session", good, "no-session"),
        ("container", b"\xf1\1\1\1" + bytes(100), "suite-unsupported"),
    ]:
        yield f"signal-message-{name}", dict(kind="signal-message", message=data, expect=expect)
    published, signed = sign(V3.hash512, BOB, z, ser(SPK.pub))
    s = int.from_bytes(published[32:], "little")
    plus_q = published[:32] + (s + ref.Q).to_bytes(32, "little")
    for name, spk, signature, expect in [
        ("right", SPK.pub, published, "ok"),
        ("signal-form", SPK.pub, signed, "ok"),
        ("sign-bit", SPK.pub, flip(published, 63)[:63] + bytes([published[63] ^ 0x80]), "bad-signature"),
        ("s-plus-q", SPK.pub, plus_q, "bad-signature"),
        ("r-bit", SPK.pub, flip(published, 0), "bad-signature"),
        ("s-bit", SPK.pub, flip(published, 40), "bad-signature"),
        ("other-key", OPK.pub, published, "bad-signature"),
        ("of-the-paper", SPK.pub, sign(hashlib.blake2b, BOB, z, ser(SPK.pub))[0], "bad-signature"),
        ("without-type", SPK.pub, sign(V3.hash512, BOB, z, SPK.pub)[0], "bad-signature"),
        ("signed-by-another", SPK.pub, sign(V3.hash512, A, z, ser(SPK.pub))[0], "bad-signature"),
        ("low-order", low[1:], sign(V3.hash512, BOB, z, low)[0], "bad-key"),
        ("not-canonical", beyond[1:], sign(V3.hash512, BOB, z, beyond)[0], "bad-key"),
    ]:
        yield f"signal-bundle-{name}", dict(kind="signal-bundle", spk=spk, signature=signature, expect=expect)


if __name__ == "__main__":
    ref.main(cases())
