"""The cases of reference.py: (file name, text) pairs, the right ones and the wrong ones."""

IDENTITY = bytes(range(0x40, 0x60))
OTHER = bytes(range(0x80, 0xA0))
Z = bytes(range(64))


def case(path, about, fields):
    lines = [f"# {about}"]
    for key, value in fields:
        lines.append(f"{key}: {value.hex() if isinstance(value, bytes) else value}".rstrip())
    return path + ".txt", "\n".join(lines) + "\n"


def cases(ref):
    for kind in (cards, uris, notes, envelopes, receipts):
        yield from kind(ref)


# --- cards --------------------------------------------------------------------------------------
def relays(ref, *entries):
    return bytes([len(entries)]) + b"".join(entries)


MIXNET, HIBE, LATER = bytes([0x22]) * 48, bytes(i % 256 for i in range(630)), b"later"


def cards(ref):
    ik = ref.x25519(IDENTITY)
    relay = (1, relays(ref, ref.entry()))
    three = (1, relays(ref, ref.entry(1), ref.entry(2, b"192.0.2.7"), ref.entry(3, b"2001:db8::7")))
    all_parts = [relay, (2, MIXNET), (3, HIBE)]

    def right(name, about, parts, here, called=b"Alice", suites=(0x0101,), serial=5318400, issued=20775):
        head = ref.head(ik, called, parts, serial, issued, suites)
        sig = ref.sign(IDENTITY, b"mezza card 1" + head, Z)
        card = head + sig + b"".join(p for k, p in parts if k in here)
        fields = [("expect", "ok"), ("identity", IDENTITY), ("z", Z), ("serial", serial), ("issued", issued)]
        fields += [("suites", b"".join(ref.be(s, 2) for s in suites)), ("name", called)]
        fields += [("part", f"{k} {'here' if k in here else 'absent'} {p.hex()}") for k, p in parts]
        fields += [("bytes", len(card)), ("card", card), ("id", ref.h(32, "mezza/card", head + sig))]
        return case("cards/" + name, about, fields)

    persian = "می‌خواهم".encode()
    yield right("foundation", "The card of the first version: one relay, a name of five bytes.", [relay], {1})
    yield right("poster", "Everything but the offline part.", all_parts, {1, 2})
    yield right("offline", "Of the parts the offline part alone.", all_parts, {3})
    yield right("full", "Everything.", all_parts, {1, 2, 3})
    yield right("bare", "Listed, but nothing of it here.", all_parts, set())
    yield right("no_parts", "Nothing listed, no name.", [], set(), b"", serial=0, issued=0)
    yield right("three_relays", "A name, an IPv4 and an IPv6 address.", [three], {1})
    yield right("persian_name", "A zero-width non-joiner between two letters.", [relay], {1}, persian)
    yield right("longest_name", "24 bytes.", [relay], {1}, "é".encode() * 12)
    yield right("two_suites", "A suite of the future first.", [relay], {1}, suites=(0x0102, 0x0101))
    yield right("unknown_parts", "Kinds that nobody knows yet are kept.", [relay, (7, LATER), (255, b"\0")], {1, 255}, serial=2**32 - 1)
    yield from wrong_cards(ref, ik, relay)


def wrong_cards(ref, ik, relay):
    good_head = ref.head(ik, parts=[relay])
    good_sig = ref.sign(IDENTITY, b"mezza card 1" + good_head, Z)
    good = good_head + good_sig + relay[1]

    def wrong(name, about, expect, card):
        return case("cards/wrong_" + name, about, [("expect", expect), ("card", card)])

    def signed(file, about, expect, tail=relay[1], **head):
        bad = ref.head(**{"ik": ik, "parts": [relay], **head})
        sig = ref.sign(IDENTITY, b"mezza card 1" + bad, Z)
        return wrong(file, about + " Signed by the owner.", expect, bad + sig + tail)

    def flip(at, bit=1):
        return good[:at] + bytes([good[at] ^ bit]) + good[at + 1 :]

    sig_at = len(good_head)
    yield wrong("empty", "No byte.", "malformed", b"")
    yield wrong("version", "One bit of the version.", "version", flip(0, 2))
    yield wrong("reserved", "One bit of the reserved byte.", "malformed", flip(1))
    yield wrong("serial", "One bit of the serial.", "forged", flip(5))
    yield wrong("issued", "One bit of the day.", "forged", flip(9))
    yield wrong("ik", "Another identity.", "forged", good[:10] + ref.x25519(OTHER) + good[42:])
    yield wrong("ik_bit_255", "The identity with bit 255 set.", "key", flip(41, 0x80))
    yield wrong("ik_not_reduced", "The identity 2^255 - 18.", "key", good[:10] + (2**255 - 18).to_bytes(32, "little") + good[42:])
    yield wrong("ik_low_order", "The identity 0.", "key", good[:10] + bytes(32) + good[42:])
    yield wrong("suite", "One bit of a suite.", "forged", flip(44, 2))
    yield wrong("suites_none", "A list of no suites.", "malformed", good[:42] + b"\0" + good[45:])
    yield wrong("suites_count", "A list of five suites.", "malformed", good[:42] + b"\5" + good[43:])
    yield wrong("name", "One bit of the name.", "forged", flip(46))
    yield wrong("name_len", "A name one byte longer than it is, so that it holds a control character.", "name", flip(45, 3))
    yield wrong("name_not_utf8", "A name that is not UTF-8.", "name", flip(46, 0x80))
    yield wrong("part_count", "Two parts counted, one is listed; the signature is read as the other.", "forged", flip(51, 3))
    yield wrong("part_kind", "One bit of a part's kind.", "forged", flip(52, 4))
    yield wrong("part_len", "One bit of a part's length.", "forged", flip(54))
    yield wrong("part_hash", "One bit of a part's hash.", "forged", flip(60))
    yield wrong("signature_point", "One bit of the signature's point.", "forged", flip(sig_at))
    yield wrong("signature_scalar", "One bit of the signature's scalar.", "forged", flip(sig_at + 40))
    yield wrong("signature_sign", "The sign bit, which only Signal's form uses.", "forged", flip(sig_at + 63, 0x80))
    yield wrong("signature_cut", "The signature is cut short.", "malformed", good[: sig_at + 63])
    big = (int.from_bytes(good_sig[32:], "little") + ref.Q).to_bytes(32, "little")
    yield wrong("signature_not_reduced", "The same signature with s + q.", "forged", good_head + good_sig[:32] + big + relay[1])
    yield wrong("part_byte", "One bit of a part.", "partchanged", flip(len(good) - 1))
    yield wrong("part_cut", "A part is cut short.", "partchanged", good[:-1])
    yield wrong("byte_after", "A byte after the end.", "partchanged", good + b"\0")
    swapped = ref.head(ik, parts=[relay, (2, MIXNET)])
    sig = ref.sign(IDENTITY, b"mezza card 1" + swapped, Z)
    yield wrong("parts_swapped", "Both parts, in the other order.", "partchanged", swapped + sig + MIXNET + relay[1])
    yield wrong("too_long", "1,025 bytes.", "toobig", good + bytes(1025 - len(good)))

    for name, text in (("bidi", "a\u202eb"), ("newline", "a\nb"), ("joiner_last", "a\u200d"), ("tag", "a\U000e0041"), ("soft_hyphen", "a\u00adb"), ("joiner_twice", "a\u200c\u200cb")):
        yield signed("name_" + name, "A character that a name may not hold.", "name", name=text.encode())
    yield signed("name_25", "A name of 25 bytes.", "name", name=b"a" * 25)
    yield signed("kinds_descending", "Kinds 2, 1.", "parts", parts=[(2, MIXNET), relay], tail=MIXNET + relay[1])
    yield signed("kinds_twice", "Kind 1 twice.", "parts", parts=[relay, relay], tail=relay[1] * 2)
    yield signed("seven_parts", "Seven parts.", "parts", parts=[(k, b"x") for k in range(1, 8)], tail=b"x" * 7)
    yield signed("part_of_length_0", "A part of no bytes.", "parts", parts=[(2, b"")], tail=b"")
    yield signed("suites_ascending", "The worse suite first.", "malformed", suites=(0x0101, 0x0102))
    yield signed("suites_five", "Five suites.", "malformed", suites=(0x0105, 0x0104, 0x0103, 0x0102, 0x0101))
    entry = ref.entry()
    for name, part in (
        ("none", b"\0"), ("four", relays(ref, *[entry] * 4)), ("count", b"\2" + entry), ("byte_after", b"\1" + entry + b"\0"),
        ("upper_case", relays(ref, ref.entry(1, b"Relay.example"))), ("bracket", relays(ref, ref.entry(1, b"[::1]"))),
        ("no_host", relays(ref, ref.entry(1, b""))), ("port_0", relays(ref, ref.entry(1, b"a.b", 0))), ("number", relays(ref, ref.entry(1, b"1.2.3"))),
    ):
        yield signed("relays_" + name, "A relay part that no reader takes.", "relays", parts=[(1, part)], tail=part)


# --- addresses ----------------------------------------------------------------------------------
def uris(ref):
    head = ref.head(ref.x25519(IDENTITY), parts=[(1, relays(ref, ref.entry()))])
    card = head + ref.sign(IDENTITY, b"mezza card 1" + head, Z) + relays(ref, ref.entry())
    relay = bytes([9]) * 32 + ref.place(7101, b"relay.example.org")
    cut = ref.address("r1", relay)
    spaced = " " + cut[:30] + "\r\n\t" + cut[30:] + "\n"

    def right(name, about, kind, payload, text, writes):
        fields = [("expect", "ok"), ("kind", kind), ("writes", writes), ("payload", payload), ("uri", text.encode())]
        return case("uris/" + name, about + " The address stands in hex.", fields)

    def wrong(name, about, expect, text):
        return case("uris/wrong_" + name, about + " The address stands in hex.", [("expect", expect), ("uri", text.encode())])

    yield right("card_lower", "A card.", "c1", card, ref.address("c1", card), "lower")
    yield right("card_upper", "A card for a QR code.", "c1", card, ref.address("c1", card, True), "upper")
    yield right("relay_lower", "A relay.", "r1", relay, cut, "lower")
    yield right("relay_upper", "A relay for a QR code.", "r1", relay, ref.address("r1", relay, True), "upper")
    literal = bytes([9]) * 32 + ref.place(65535, b"::1")
    yield right("relay_literal", "A relay by IPv6 literal.", "r1", literal, ref.address("r1", literal), "lower")
    yield right("spaces", "Spaces and line breaks are ignored.", "r1", relay, spaced, "nothing")
    lowered = "mezzavoce:" + ref.address("r1", relay, True)[10:]
    yield right("scheme_lowered", "A program on the way lowered the scheme.", "r1", relay, lowered, "nothing")

    yield wrong("empty", "Nothing.", "scheme", "")
    yield wrong("scheme", "Another scheme.", "scheme", "https" + cut[9:])
    yield wrong("no_slash", "No slash after the kind.", "scheme", cut.replace("/", ""))
    yield wrong("kind_later", "A kind of a later version.", "kind", cut.replace(":r1/", ":l1/"))
    yield wrong("kind_mistyped", "The payload of a relay as a card.", "check", cut.replace(":r1/", ":c1/"))
    yield wrong("mixed_case", "Upper and lower case mixed.", "mixedcase", cut[:40] + cut[40:].upper())
    yield wrong("letter", "The digit 1 is not in the alphabet.", "letter", cut[:40] + "1" + cut[41:])
    yield wrong("padding", "Padding.", "letter", cut + "=")
    yield wrong("letters_left", "A number of letters that no payload has.", "letter", cut + "a")
    yield wrong("check", "Another last letter.", "check", cut[:-2] + ("a" if cut[-2] != "a" else "b") + cut[-1])
    yield wrong("typing", "One letter in the middle.", "check", cut[:40] + ("a" if cut[40] != "a" else "b") + cut[41:])
    yield wrong("short", "Fewer bytes than the check has.", "check", "mezzavoce:c1/aaaa")
    yield wrong("forged", "Typed right, the signature is wrong.", "forged", ref.address("c1", card[:-73] + bytes([card[-73] ^ 1]) + card[-72:]))
    yield wrong("relay_upper_case", "A host in upper case.", "relay", ref.address("r1", bytes(32) + ref.place(1, b"A.b")))
    yield wrong("relay_port_0", "Port 0.", "relay", ref.address("r1", bytes(32) + ref.place(0, b"a.b")))
    yield wrong("relay_byte_after", "A byte after the host.", "relay", ref.address("r1", relay + b"\0"))
    yield wrong("too_long", "1,025 bytes.", "toolong", ref.address("c1", bytes(1025)))


# --- notes --------------------------------------------------------------------------------------
def notes(ref):
    item, note = ref.item, ref.note
    slot = ref.entry() + bytes([0x5E]) * 32
    receipt = lambda what, floor, base, bits: item(3, bytes([what]) + b"\xE0\xE1\xE2\xE3" + ref.be(floor, 4) + ref.be(base, 4) + ref.be(bits, 8))
    void = lambda a, b: item(9, b"\xE0\xE1\xE2\xE3" + ref.be(a, 4) + ref.be(b, 4))
    digest = lambda sent, text: ref.h(4, "mezza/kept", ref.be(sent, 6) + text)
    kept = lambda *notes: item(10, b"\xE0\xE1\xE2\xE3" + b"".join(ref.be(seq, 4) + d for seq, d in notes))
    some = (7, digest(1795266000123, b"hello there"))
    hello = lambda place, card=b"card": item(2, ref.var16(place) + ref.var16(card))
    meet = lambda root=b"": item(8, bytes(range(16)) + ref.be(70000, 8) + ref.be(300, 8) + root)
    text = item(1, "hello there".encode())
    for name, about, holds, bytes_ in (
        ("text", "A text.", "text", note(text)),
        ("text_longest", "8,192 bytes.", "text", note(item(1, b"x" * 8192), seq=2**32 - 1, timer=86400)),
        ("first", "The first note of a session.", "hello text", note(hello(slot), text)),
        ("hello_tag", "A contact without relay.", "hello", note(hello(b"tag-of-8"), seq=0)),
        ("hello_nothing", "No place at all, no card.", "hello", note(hello(b"", b""), seq=0)),
        ("receipts", "Delivered with bits, read by floor.", "receipt receipt", note(receipt(1, 7, 9, 5), receipt(2, 7, 0, 0), seq=0)),
        ("timer", "A timer of a day.", "timer", note(item(4, ref.be(86400, 4)))),
        ("card", "A newer card.", "card", note(item(5, b"card"), seq=0)),
        ("reset_retry", "Started anew, please send again.", "reset retry", note(item(6, b"\2"), item(7, b""), seq=0)),
        ("void", "Given up.", "void void", note(void(3, 3), void(5, 2**32 - 1), seq=0)),
        ("kept", "What is kept under 7: 'hello there' of 1795266000123, and under 8: no text of the year 1970.", "kept", note(kept(some, (8, digest(0, b""))), seq=0)),
        ("bundle", "Whatever is in it.", "bundle", note(item(11, b"\xB5" * 300), seq=0)),
        ("bundle_4096", "The longest one.", "bundle", note(item(11, b"\xB5" * 4096), seq=0)),
        ("kept_64", "As many notes as one item names.", "kept", note(kept(*[some] * 64), seq=0)),
        ("meet", "A mixnet, its rounds, and a root of 32 bytes.", "meet", note(meet(bytes([7]) * 32), seq=0)),
        ("meet_no_root", "The session's exporter is the root.", "meet text", note(meet(), text)),
        ("empty", "No item.", "", note(seq=0, sent=0)),
    ):
        yield case("notes/" + name, about, [("expect", "ok"), ("holds", holds), ("note", bytes_)])
    for name, about, holds, bytes_ in (
        ("unknown", "Types of later versions; their bodies are dropped.", "unknown text unknown", note(item(0x1F, bytes(32)), text, item(0x20, b"?"))),
        ("padded", "Zeros after a type 00.", "text", note(text) + bytes(100)),
    ):
        yield case("notes/" + name, about, [("expect", "ok"), ("again", "other"), ("holds", holds), ("note", bytes_)])
    good = note(text)
    for name, about, bytes_ in (
        ("nothing", "No byte.", b""),
        ("version", "Version 2.", note(text, version=2)),
        ("head_cut", "The head is cut short.", good[:18]),
        ("item_cut", "A text is cut short.", good[:-1]),
        ("item_head_cut", "Only the type of an item.", good + b"\1"),
        ("after_zero", "Something after a type 00.", good + bytes(4) + b"\1"),
        ("text_empty", "A text of no bytes.", note(item(1, b""))),
        ("text_long", "8,193 bytes.", note(item(1, b"x" * 8193))),
        ("text_not_utf8", "Half a character.", note(item(1, b"\xc3"))),
        ("hello_slot_cut", "A slot cut short.", note(hello(slot[:-1]))),
        ("hello_slot_long", "A byte after the slot.", note(hello(slot + b"\0"))),
        ("hello_no_card_len", "No length of the card.", note(item(2, ref.var16(slot)))),
        ("hello_card_long", "A card of 1,025 bytes.", note(hello(slot, bytes(1025)))),
        ("hello_byte_after", "A byte after the card.", note(item(2, ref.var16(b"") + ref.var16(b"") + b"\0"))),
        ("meet_root_cut", "A root of 31 bytes.", note(meet(bytes(31)))),
        ("meet_cut", "Half a round.", note(item(8, bytes(28)))),
        ("receipt_what", "Receipt of kind 3.", note(receipt(3, 1, 0, 0))),
        ("receipt_cut", "A receipt cut short.", note(item(3, receipt(1, 1, 0, 0)[3:-1]))),
        ("timer_long", "A timer of five bytes.", note(item(4, bytes(5)))),
        ("card_empty", "A card of no bytes.", note(item(5, b""))),
        ("card_long", "A card of 1,025 bytes.", note(item(5, bytes(1025)))),
        ("reset_0", "Cause 0.", note(item(6, b"\0"))),
        ("reset_4", "Cause 4.", note(item(6, b"\4"))),
        ("retry_body", "A retry with a body.", note(item(7, b"\0"))),
        ("bundle_none", "A bundle of no bytes.", note(item(11, b""))),
        ("bundle_4097", "A bundle that is too long.", note(item(11, b"\xB5" * 4097))),
        ("kept_none", "An era and no note.", note(kept())),
        ("kept_cut", "A digest cut short.", note(item(10, kept(some)[3:-1]))),
        ("kept_65", "65 notes.", note(kept(*[some] * 65))),
        ("void_0", "From seq 0.", note(void(0, 3))),
        ("void_backwards", "From 4 to 3.", note(void(4, 3))),
        ("items_65", "65 items.", note(*[item(7, b"")] * 65)),
    ):
        yield case("notes/wrong_" + name, about, [("expect", "malformed"), ("note", bytes_)])


# --- envelopes ----------------------------------------------------------------------------------
def envelopes(ref):
    box, own, fresh = bytes([0xB0]) * 16, bytes(range(32)), bytes(range(100, 132))
    parcel = lambda n: bytes(i % 251 for i in range(n))

    def fields(expect, n, bytes_):
        start = [("expect", expect), ("address", box), ("own", own), ("fresh", fresh)]
        digest = ref.hashlib.blake2b(bytes_, digest_size=32).digest()
        whole = ("envelope", bytes_) if len(bytes_) <= 1024 else ("envelope_blake2b_256", digest)
        return start + [("parcel_bytes", n), ("envelope_bytes", len(bytes_)), whole]

    about = "The parcel is byte i mod 251 at place i."
    for n in (0, 1, 461, 462, 973, 974, 1997, 1998, 4045, 4046, 8141, 8142, 16333):
        yield case(f"envelopes/parcel_{n:05}", about, fields("ok", n, ref.envelope(box, own, fresh, parcel(n))))
    larger = ref.envelope(box, own, fresh, parcel(5), 1024)
    yield case("envelopes/roomy", "Larger than it had to be. " + about, fields("roomy", 5, larger))
    good = ref.envelope(box, own, fresh, parcel(100))

    def wrong(name, why, bytes_):
        start = [("expect", "refused"), ("address", box), ("own", own)]
        return case("envelopes/wrong_" + name, why, start + [("envelope", bytes_)])

    flip = lambda at: good[:at] + bytes([good[at] ^ 1]) + good[at + 1 :]
    yield wrong("version", "One bit of the version.", flip(0))
    yield wrong("version_2", "Version 2, sealed as such.", ref.envelope(box, own, fresh, parcel(100), ver=2))
    yield wrong("enc", "One bit of the encapsulated key.", flip(1))
    yield wrong("enc_0", "The encapsulated key 0.", good[:1] + bytes(32) + good[33:])
    yield wrong("ct", "One bit of the ciphertext.", flip(40))
    yield wrong("tag", "One bit of the tag.", flip(511))
    yield wrong("address", "For another mailbox.", ref.envelope(bytes(16), own, fresh, parcel(100)))
    yield wrong("key", "For another key.", ref.envelope(box, bytes(32), fresh, parcel(100)))
    yield wrong("cut", "One byte short.", good[:-1])
    yield wrong("long", "One byte long.", good + b"\0")
    yield wrong("size", "600 bytes, sealed as such.", ref.envelope(box, own, fresh, parcel(100), 600))
    yield wrong("empty", "No byte.", b"")
    for name, why, text in (("padding", "Not only zeros after the parcel.", b"\0\5hello" + bytes(453) + b"\1"), ("len", "A length beyond the end.", b"\xff\xff" + bytes(459))):
        yield wrong(name, why, ref.envelope(box, own, fresh, b"", text=text))


# --- receipts -----------------------------------------------------------------------------------
def receipts(ref):
    def story(name, about, *steps):
        window, fields = ref.Window(), [("expect", "ok")]
        for verb, *numbers in steps:
            told = " ".join(map(str, numbers))
            if verb in ("insert", "void"):
                answer = getattr(window, verb)(*numbers)
                fields.append((verb, f"{told} {answer}".lower()))
            elif verb == "insert_all":
                [window.insert(seq) for seq in range(numbers[0], numbers[1] + 1)]
                fields.append((verb, told))
            else:
                found = window.receipts(*numbers)
                receipts_ = " ".join(f"{f}/{b}/{bits:x}" for f, b, bits in found)
                fields.append((verb, " ".join(filter(None, [told, receipts_]))))
            fields.append(("now", f"{window.floor} {window.missing()}"))
        return case("receipts/" + name, about + " After each step: floor, missing.", fields)

    yield story("in_order", "Nothing, then three in order.", ("receipts",), ("insert", 1), ("insert", 2), ("insert", 3), ("receipts",), ("insert", 2))
    yield story("floor_0", "The first one is late.", ("insert", 2), ("insert", 3), ("receipts",), ("insert", 1), ("receipts",))
    yield story("gaps", "Bits above the floor, in words of 64 from the first one set.", ("insert_all", 1, 5), ("insert", 8), ("insert", 71), ("insert", 72), ("insert", 500), ("receipts",), ("insert", 8))
    yield story("reach", "1,024 above the floor, and one more.", ("insert", 1025), ("insert", 1024), ("insert_all", 1, 1023), ("insert", 1025), ("receipts",))
    yield story("full", "1,023 bits at once.", ("insert_all", 2, 1024), ("receipts",), ("insert", 1))
    yield story("void_then_note", "Given up before it arrived: dropped, no bit.", ("insert", 1), ("void", 2, 2), ("insert", 2), ("answer", 2, 2), ("void", 2, 2), ("answer", 2, 2), ("insert", 3), ("receipts",))
    yield story("note_then_void", "It had arrived: the void is answered with its bit.", ("insert_all", 1, 3), ("void", 2, 2), ("answer", 2, 2), ("insert", 2), ("receipts",))
    yield story("void_above_gap", "Given up above a gap; the floor waits.", ("insert", 4), ("void", 2, 6), ("answer", 2, 6), ("insert", 3), ("insert", 1), ("receipts",), ("answer", 1, 9))
    yield story("void_long", "More than the reach at once.", ("insert", 3), ("void", 1, 5000), ("insert", 5000), ("insert", 5001), ("receipts",))
    yield story("void_beyond", "A gap below, the end beyond the reach.", ("void", 2, 1025), ("void", 1000, 1024), ("insert", 1), ("void", 2, 1025), ("receipts",))
    for name, about, floor, base, bits in (
        ("covers_floor", "The floor alone.", 3, 0, 0),
        ("covers_bits", "Bits with gaps above floor 0.", 0, 2, 1 << 63 | 0b101),
        ("covers_below", "Bits below the floor, as the answer to a void.", 10, 4, 0b11),
        ("covers_zero", "Seq 0 has no receipt, whatever a bit says.", 0, 0, 0b11),
        ("covers_wrap", "Bits above the last seq stand for nothing.", 0, 2**32 - 2, 2**64 - 1),
    ):
        bit = lambda s: base <= s < base + 64 and bits >> s - base & 1
        seqs = sorted({s for c in (0, 1, floor, base, base + 63, 2**32 - 1) for s in range(c - 2, c + 4) if 0 <= s < 2**32})
        yes = lambda test: " ".join(str(s) for s in seqs if s and test(s))
        fields = [("expect", "ok"), ("receipt", f"{floor}/{base}/{bits:x}"), ("asked", " ".join(map(str, seqs)))]
        fields += [("kept", yes(lambda s: s <= floor or bit(s))), ("voided", yes(bit))]
        yield case("receipts/" + name, about, fields)
