#!/usr/bin/env python3
"""A client that shares nothing with ours: frames by hand, TLS by GnuTLS.

  interop.py HOST PORT

Opens a box, puts a letter into it, fetches it, takes it, sees that it is gone. Prints "OK".
"""
import hashlib
import os
import struct
import subprocess
import sys
import tempfile
import time

PRIORITY = "NORMAL:-VERS-ALL:+VERS-TLS1.3:-CTYPE-ALL:+CTYPE-SRV-RAWPK:+CTYPE-CLI-X509"
OPEN, PUT, WATCH, MAIL, TAKEN, PING, HELLO, DONE = 0x10, 0x12, 0x13, 0x14, 0x15, 0x1D, 0x01, 0x1F


class Relay:
    def __init__(self, host, port, folder):
        self.log = os.path.join(folder, "log")
        self.process = subprocess.Popen(
            ["gnutls-cli", "--priority", PRIORITY, "--alpn", "mezza-relay/1", "--disable-sni",
             "--no-ca-verification", "--insecure", "--logfile", self.log, "--port", port, host],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)

    def send(self, kind, body=b""):
        self.process.stdin.write((len(body) + 1).to_bytes(3, "big") + bytes([kind]) + body)
        self.process.stdin.flush()

    def recv(self, wanted):
        length = int.from_bytes(self.exactly(3), "big")
        frame = self.exactly(length)
        assert frame[0] == wanted, (hex(frame[0]), hex(wanted))
        return frame[1:]

    def exactly(self, count):
        data = self.process.stdout.read(count)
        assert len(data) == count, f"closed after {data!r}: {open(self.log).read()}"
        return data

    def done(self, req, code=0):
        got_req, got_code, _ = struct.unpack(">HBH", self.recv(DONE))
        assert (got_req, got_code) == (req, code), (got_req, got_code)


def address(token):
    label = b"mezza/slot"
    return hashlib.blake2b(bytes([len(label)]) + label + token, digest_size=16).digest()


def main(host, port, folder):
    relay = Relay(host, port, folder)
    version, now, envelope_max, ttl_max = struct.unpack(">B6sIH", relay.recv(HELLO))
    assert (version, envelope_max, ttl_max) == (1, 16384, 720)
    assert abs(int.from_bytes(now, "big") / 1000 - time.time()) < 3600

    token = os.urandom(32)
    letter = os.urandom(512)
    relay.send(OPEN, struct.pack(">H", 1) + token + b"\0")
    relay.done(1)
    relay.send(PUT, struct.pack(">H", 2) + address(token) + struct.pack(">H", 24) + letter)
    relay.done(2)
    relay.send(PUT, struct.pack(">H", 3) + address(token) + struct.pack(">H", 24) + letter[1:])
    relay.done(3, code=3)
    relay.send(WATCH, struct.pack(">HH", 4, 9) + token)
    relay.done(4)
    mail = relay.recv(MAIL)
    number, nr = struct.unpack(">HI", mail[:6])
    assert number == 9 and mail[6:] == letter
    relay.send(TAKEN, struct.pack(">HBI", 9, 1, nr))
    # Gone: watched again, only the answer comes, and then the one to the ping.
    relay.send(WATCH, struct.pack(">HH", 5, 9) + token)
    relay.done(5)
    relay.send(PING)
    assert relay.recv(PING) == b""
    relay.process.stdin.close()
    relay.process.wait(10)
    log = open(relay.log).read()
    for said in ["Raw Public Key", "EdDSA (Ed25519)", "TLS1.3", "mezza-relay/1"]:
        assert said in log, log
    print("OK")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        main(sys.argv[1], sys.argv[2], place)
