#!/usr/bin/env python3
"""Relay frames, a second time: checks every case beside this file, or writes them (--write).

A case is lines `name: value`:
  about   one sentence
  side    client (to the relay) or relay (to the client)
  bytes   the stream in hexadecimal, length field included
  result  ok | refused (not a frame) | short (more bytes are needed)
  frame   for ok: the kind, then its fields as name=value, in the order of the wire
"""
import pathlib
import struct
import sys

HERE = pathlib.Path(__file__).parent
LIMIT = 65536
TAKEN_MAX = 64
CODES = range(6)

# Fields: uN = integer of N bits, bN = N bytes, rest = bytes to the end, var16 = bytes behind
# their 16-bit length; the others are named below.
CLIENT = {
    0x10: ("OPEN", [("req", "u16"), ("token", "b32"), ("kind", "boxkind")]),
    0x11: ("CLOSE", [("req", "u16"), ("token", "b32")]),
    0x12: ("PUT", [("req", "u16"), ("address", "b16"), ("ttl_h", "u16"), ("envelope", "rest")]),
    0x13: ("WATCH", [("req", "u16"), ("box", "u16"), ("token", "b32")]),
    0x15: ("TAKEN", [("box", "u16"), ("mails", "numbers")]),
    0x16: ("BUNDLE_SET", [("req", "u16"), ("token", "b32"), ("fresh", "flag"),
                          ("bundle", "var16"), ("keys", "keys")]),
    0x17: ("BUNDLE_GET", [("req", "u16"), ("address", "b16")]),
    0x1D: ("PING", []),
}
RELAY = {
    0x01: ("HELLO", [("version", "u8"), ("now_ms", "u48"), ("envelope_bytes_max", "u32"),
                     ("ttl_h_max", "u16")]),
    0x14: ("MAIL", [("box", "u16"), ("nr", "u32"), ("envelope", "rest")]),
    0x18: ("BUNDLE", [("req", "u16"), ("bundle", "var16"), ("key", "maybekey")]),
    0x1D: ("PING", []),
    0x1E: ("STOCK", [("box", "u16"), ("left", "u16")]),
    0x1F: ("DONE", [("req", "u16"), ("code", "code"), ("retry_s", "u16")]),
}
SIDES = {"client": CLIENT, "relay": RELAY}


class Refused(Exception):
    pass


class Short(Exception):
    pass


class Input:
    def __init__(self, data):
        self.data = data

    def take(self, n):
        if len(self.data) < n:
            raise Refused
        head, self.data = self.data[:n], self.data[n:]
        return head

    def number(self, n):
        return int.from_bytes(self.take(n), "big")


def read_key(data):
    return f"{data.number(4)}/{data.take(32).hex()}"


def read(kind, data):
    if kind[0] == "u":
        return str(data.number(int(kind[1:]) // 8))
    if kind == "rest":
        return data.take(len(data.data)).hex()
    if kind == "var16":
        return data.take(data.number(2)).hex()
    if kind == "numbers":
        count = data.number(1)
        if count > TAKEN_MAX:
            raise Refused
        return ",".join(str(data.number(4)) for _ in range(count))
    if kind == "keys":
        return ",".join(read_key(data) for _ in range(data.number(2)))
    if kind == "maybekey":
        return read_key(data) if data.data else ""
    if kind[0] == "b" and kind[1:].isdigit():
        return data.take(int(kind[1:])).hex()
    value = data.number(1)
    if value not in {"boxkind": (0, 1), "flag": (0, 1), "code": CODES}[kind]:
        raise Refused
    return str(value)


def decode(side, stream):
    data = Input(stream)
    if len(stream) < 3:
        raise Short
    length = data.number(3)
    if not 1 <= length <= LIMIT:
        raise Refused
    if len(data.data) < length:
        raise Short
    if len(data.data) > length:
        raise AssertionError("a case holds one frame")
    kind = data.number(1)
    if kind not in SIDES[side]:
        raise Refused
    name, fields = SIDES[side][kind]
    words = [name] + [f"{field}={read(form, data)}" for field, form in fields]
    if data.data:
        raise Refused
    return " ".join(words)


def write_key(text):
    number, key = text.split("/")
    return struct.pack(">I", int(number)) + bytes.fromhex(key)


def write(kind, text):
    if kind[0] == "u":
        return int(text).to_bytes(int(kind[1:]) // 8, "big")
    if kind == "var16":
        body = bytes.fromhex(text)
        return struct.pack(">H", len(body)) + body
    if kind == "numbers":
        numbers = [int(n) for n in text.split(",") if n]
        return bytes([len(numbers)]) + b"".join(struct.pack(">I", n) for n in numbers)
    if kind == "keys":
        keys = [write_key(k) for k in text.split(",") if k]
        return struct.pack(">H", len(keys)) + b"".join(keys)
    if kind == "maybekey":
        return write_key(text) if text else b""
    if kind in ("boxkind", "flag", "code"):
        return bytes([int(text)])
    return bytes.fromhex(text)


def encode(side, frame):
    name, *words = frame.split(" ")
    kind, fields = next((k, f) for k, (n, f) in SIDES[side].items() if n == name)
    values = dict(word.split("=", 1) for word in words)
    assert list(values) == [field for field, _ in fields]
    body = bytes([kind]) + b"".join(write(form, values[field]) for field, form in fields)
    return len(body).to_bytes(3, "big") + body


def check(path):
    case = dict(line.split(": ", 1) for line in path.read_text().splitlines())
    stream = bytes.fromhex(case["bytes"])
    try:
        frame = decode(case["side"], stream)
        assert case["result"] == "ok", path
        assert frame == case["frame"], path
        assert encode(case["side"], frame) == stream, path
    except (Refused, Short) as end:
        assert case["result"] == type(end).__name__.lower(), path
        assert "frame" not in case, path


TOKEN = bytes(range(32)).hex()
ADDRESS = bytes(range(0xA0, 0xB0)).hex()
KEY = bytes(range(0x40, 0x60)).hex()
RIGHT = {
    "open-conversation": ("client", "a box for one contact", f"OPEN req=1 token={TOKEN} kind=0"),
    "open-intro": ("client", "a box for strangers", f"OPEN req=65535 token={TOKEN} kind=1"),
    "close": ("client", "a box goes", f"CLOSE req=2 token={TOKEN}"),
    "put": ("client", "the smallest envelope",
            f"PUT req=3 address={ADDRESS} ttl_h=720 envelope={'5a' * 512}"),
    "put-empty": ("client", "a frame, though no envelope has this size: the answer is code 3",
                  f"PUT req=3 address={ADDRESS} ttl_h=0 envelope="),
    "watch": ("client", "box number 9 of this connection", f"WATCH req=4 box=9 token={TOKEN}"),
    "taken": ("client", "three mails are stored", "TAKEN box=9 mails=1,2,4294967295"),
    "taken-none": ("client", "nothing is stored, and that is allowed", "TAKEN box=9 mails="),
    "taken-64": ("client", "the most in one frame",
                 "TAKEN box=0 mails=" + ",".join(str(n) for n in range(64))),
    "bundle-set-fresh": ("client", "the old stock goes, two keys come",
                         f"BUNDLE_SET req=5 token={TOKEN} fresh=1 bundle=c0ffee "
                         f"keys=1/{KEY},4294967295/{KEY}"),
    "bundle-set-alone": ("client", "a new bundle without keys",
                         f"BUNDLE_SET req=6 token={TOKEN} fresh=0 bundle=c0ffee keys="),
    "bundle-get": ("client", "a stranger asks", f"BUNDLE_GET req=7 address={ADDRESS}"),
    "ping-client": ("client", "are you there", "PING"),
    "hello": ("relay", "the first frame",
              "HELLO version=1 now_ms=1790000000123 envelope_bytes_max=16384 ttl_h_max=720"),
    "hello-largest": ("relay", "each field at its end",
                      "HELLO version=255 now_ms=281474976710655 envelope_bytes_max=4294967295 "
                      "ttl_h_max=65535"),
    "mail": ("relay", "the smallest envelope", f"MAIL box=9 nr=1 envelope={'5a' * 512}"),
    "bundle-with-key": ("relay", "a bundle and the key that nobody else is given",
                        f"BUNDLE req=7 bundle=c0ffee key=8/{KEY}"),
    "bundle-without-key": ("relay", "no key is left", "BUNDLE req=7 bundle=c0ffee key="),
    "ping-relay": ("relay", "the answer to a ping", "PING"),
    "stock": ("relay", "nineteen keys are left", "STOCK box=9 left=19"),
    "done": ("relay", "durable", "DONE req=3 code=0 retry_s=0"),
    "done-full": ("relay", "the box is full", "DONE req=3 code=2 retry_s=300"),
    "done-refused": ("relay", "what came was no frame", "DONE req=0 code=5 retry_s=0"),
}


def wrong():
    def part(side, frame):
        return encode(side, frame)

    opened = part("client", RIGHT["open-conversation"][2])
    taken = part("client", RIGHT["taken"][2])
    bundle = part("client", RIGHT["bundle-set-fresh"][2])
    keyed = part("relay", RIGHT["bundle-with-key"][2])
    done = part("relay", RIGHT["done"][2])

    def sized(body):
        return len(body).to_bytes(3, "big") + body

    yield "length-zero", "client", "a frame without a kind", b"\0\0\0", "refused"
    yield "length-above-limit", "client", "65,537 bytes", b"\1\0\1", "refused"
    yield "length-at-limit", "client", "65,536 bytes are promised", b"\1\0\0\x12", "short"
    yield "length-cut", "client", "two of three bytes", b"\0\0", "short"
    yield "nothing", "relay", "no byte", b"", "short"
    yield "kind-unknown", "client", "no such kind", sized(b"\x7f"), "refused"
    yield "kind-of-relay", "client", "a client never says DONE", done, "refused"
    yield "kind-of-client", "relay", "a relay never says OPEN", opened, "refused"
    yield "open-kind-2", "client", "no such kind of box", opened[:-1] + b"\2", "refused"
    yield "open-cut", "client", "one byte missing", sized(opened[3:-1]), "refused"
    yield "open-long", "client", "one byte more", sized(opened[3:] + b"\0"), "refused"
    yield "taken-65", "client", "more than 64", sized(taken[3:6] + b"\x41" + b"\0" * 260), "refused"
    yield "taken-count-short", "client", "the count promises more", sized(
        taken[3:6] + b"\4" + taken[7:]), "refused"
    yield "taken-count-long", "client", "the count promises less", sized(
        taken[3:6] + b"\2" + taken[7:]), "refused"
    yield "put-cut", "client", "no room for the lifetime", sized(b"\x12" + b"\0" * 19), "refused"
    yield "bundle-set-flag", "client", "an unknown flag", sized(
        bundle[3:38] + b"\2" + bundle[39:]), "refused"
    yield "bundle-set-count", "client", "65,535 keys that are not there", sized(
        bundle[3:44] + b"\xff\xff" + bundle[46:]), "refused"
    yield "bundle-set-length", "client", "a bundle longer than the frame", sized(
        bundle[3:39] + b"\xff\xff" + bundle[41:]), "refused"
    yield "ping-long", "client", "a ping is empty", sized(b"\x1d\0"), "refused"
    yield "bundle-key-cut", "relay", "half a key", sized(keyed[3:-1]), "refused"
    yield "bundle-two-keys", "relay", "a second key", sized(keyed[3:] + keyed[-36:]), "refused"
    yield "done-code-6", "relay", "no such code", done[:6] + b"\6" + done[7:], "refused"
    yield "hello-cut", "relay", "one byte missing", sized(b"\1" + b"\0" * 12), "refused"
    yield "mail-cut", "relay", "no number", sized(b"\x14\0\1\0\0"), "refused"


def write_cases():
    for name, (side, about, frame) in RIGHT.items():
        stream = encode(side, frame).hex()
        text = f"about: {about}\nside: {side}\nbytes: {stream}\nresult: ok\nframe: {frame}\n"
        (HERE / f"{name}.txt").write_text(text)
    for name, side, about, stream, result in wrong():
        text = f"about: {about}\nside: {side}\nbytes: {stream.hex()}\nresult: {result}\n"
        (HERE / f"{name}.txt").write_text(text)


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        write_cases()
    paths = sorted(HERE.glob("*.txt"))
    for path in paths:
        check(path)
    print(f"{len(paths)} cases agree")
