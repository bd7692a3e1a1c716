"""One device of python-axolotl 0.2.3 behind the line protocol of docs/protocols/ratchet.md, section
"Interoperability". Run as a program of its own, never linked; it wants the environment
PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION=python. The library has no safety numbers."""

import logging
import secrets
import statistics
import sys
import time

from axolotl.ecc.curve import Curve
from axolotl.identitykey import IdentityKey
from axolotl.protocol.prekeywhispermessage import PreKeyWhisperMessage
from axolotl.protocol.whispermessage import WhisperMessage
from axolotl.sessionbuilder import SessionBuilder
from axolotl.sessioncipher import SessionCipher
from axolotl.state.prekeybundle import PreKeyBundle
from axolotl.state.prekeyrecord import PreKeyRecord
from axolotl.state.signedprekeyrecord import SignedPreKeyRecord
from axolotl.tests.inmemoryaxolotlstore import InMemoryAxolotlStore

FIRST = 3
PEER = (1, 1)
PREKEY_IDS = 0xFFFFFE


class Device:
    """A device with one contact."""

    def __init__(self):
        self.store = InMemoryAxolotlStore()
        self.identity = self.store.getIdentityKeyPair()

    def publish(self):
        one_time, signed = Curve.generateKeyPair(), Curve.generateKeyPair()
        one_time_id, signed_id = (1 + secrets.randbelow(PREKEY_IDS) for _ in range(2))
        signature = self.sign(signed.getPublicKey().serialize())
        self.store.storePreKey(one_time_id, PreKeyRecord(one_time_id, one_time))
        record = SignedPreKeyRecord(signed_id, int(time.time()), signed, signature)
        self.store.storeSignedPreKey(signed_id, record)
        registration = self.store.getLocalRegistrationId()
        return PreKeyBundle(
            registration, 1, one_time_id, one_time.getPublicKey(),
            signed_id, signed.getPublicKey(), signature, self.identity.getPublicKey())

    def sign(self, message):
        return Curve.calculateSignature(self.identity.getPrivateKey(), message)

    def process(self, bundle):
        SessionBuilder(*[self.store] * 4, *PEER).processPreKeyBundle(bundle)

    def encrypt(self, body):
        message = SessionCipher(*[self.store] * 4, *PEER).encrypt(body)
        return (FIRST if isinstance(message, PreKeyWhisperMessage) else 2), message.serialize()

    def decrypt(self, kind, message):
        cipher = SessionCipher(*[self.store] * 4, *PEER)
        if kind == FIRST:
            return cipher.decryptPkmsg(PreKeyWhisperMessage(serialized=message))
        return cipher.decryptMsg(WhisperMessage(serialized=message))


def point(text):
    return Curve.decodePoint(bytearray.fromhex(text), 0)


def bundle_text(b):
    return [
        b.getRegistrationId(), b.getPreKeyId(), b.getPreKey().serialize(), b.getSignedPreKeyId(),
        b.getSignedPreKey().serialize(), b.getSignedPreKeySignature(), b.getIdentityKey().serialize()]


def parse_bundle(w):
    one_time = None if w[2] == "-" else point(w[2])
    return PreKeyBundle(
        int(w[0]), 1, int(w[1]) if one_time else None, one_time,
        int(w[3]), point(w[4]), bytes.fromhex(w[5]), IdentityKey(point(w[6])))


def answer(device, word, rest):
    if word == "bundle":
        return bundle_text(device.publish())
    if word == "process":
        device.process(parse_bundle(rest))
        return []
    if word == "enc":
        return device.encrypt(bytes.fromhex(rest[0]))
    if word == "dec":
        return [device.decrypt(int(rest[0]), bytes.fromhex(rest[1]))]
    if word == "sign":
        return [device.sign(bytes.fromhex(rest[0]))]
    if word == "verify":
        key, message, signature = rest
        good = Curve.verifySignature(point(key), bytes.fromhex(message), bytes.fromhex(signature))
        return [int(good)]
    if word == "rate":
        return rate(rest[0], int(rest[1]), int(rest[2]))
    raise ValueError("no word " + word)


def rate(operation, size, calls):
    """Thread CPU time of a call in ns: the minimum and the median of 25 batches."""
    batches = sorted(batch(operation, bytes(size), calls) // calls for _ in range(28)[3:])
    return [batches[0], int(statistics.median(batches))]


def batch(operation, body, calls):
    handshake = operation in ("init", "resp")
    near, far = ([Device() for _ in range(calls if handshake else 1)] for _ in range(2))
    if operation == "bundle":
        return timed(calls, lambda i: near[0].publish())
    bundles = [device.publish() for device in far]
    made = [None] * calls

    def initiate(i):
        near[i].process(bundles[i])
        made[i] = near[i].encrypt(body)

    def seal(i):
        made[i] = near[0].encrypt(body)

    def turn(i):
        sender, receiver = (near[0], far[0]) if i % 2 == 0 else (far[0], near[0])
        receiver.decrypt(*sender.encrypt(body))

    if handshake:
        spent = timed(calls, initiate)
        return spent if operation == "init" else timed(calls, lambda i: far[i].decrypt(*made[i]))
    initiate(0)
    far[0].decrypt(*made[0])
    near[0].decrypt(*far[0].encrypt(body))
    if operation == "open":
        timed(calls, seal)
    call = {"seal": seal, "turn": turn, "open": lambda i: far[0].decrypt(*made[i])}[operation]
    return timed(calls, call)


def timed(calls, call):
    begun = time.thread_time_ns()
    for i in range(calls):
        call(i)
    return time.thread_time_ns() - begun


def text(value):
    return bytes(value).hex() if isinstance(value, (bytes, bytearray)) else str(value)


def main():
    logging.disable(logging.CRITICAL)  # the library tells of sessions it knows already
    device = Device()
    for line in sys.stdin:
        word, *rest = line.rstrip("\n").split(" ")
        try:
            if word == "bundle":
                device = Device()
            words = ["ok", *map(text, answer(device, word, rest))]
        except Exception as error:
            words = ["err", type(error).__name__ + ":", " ".join(str(error).split())]
        print(*words, flush=True)


if __name__ == "__main__":
    main()
