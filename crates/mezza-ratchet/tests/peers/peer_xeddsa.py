"""The signatures of the package XEdDSA 1.2.0 behind the line protocol of docs/protocols/ratchet.md,
section "Interoperability": it answers `bundle`, `sign` and `verify`, and has no sessions."""

import secrets
import sys

import xeddsa

PREKEY_IDS = 0xFFFFFE


class Device:
    """An identity that signs in the form of the specification: the sign bit of its key is 0."""

    def __init__(self):
        private = xeddsa.seed_to_priv(secrets.token_bytes(32))
        self.public = b"\x05" + xeddsa.priv_to_curve25519_pub(private)
        self.private = xeddsa.priv_force_sign(private, False)

    def sign(self, message):
        return xeddsa.ed25519_priv_sign(self.private, message, secrets.token_bytes(64))

    def publish(self):
        one_time, signed = Device().public, Device().public
        ids = [1 + secrets.randbelow(PREKEY_IDS) for _ in range(2)]
        registration = 1 + secrets.randbelow(16380)
        return [registration, ids[0], one_time, ids[1], signed, self.sign(signed), self.public]


def verify(key, message, signature):
    """Signal's libraries put the sign of the key into the last bit of the signature."""
    sign = bool(signature[63] >> 7)
    public = xeddsa.curve25519_pub_to_ed25519_pub(key[1:], sign)
    return xeddsa.ed25519_verify(signature[:63] + bytes([signature[63] & 0x7F]), public, message)


def answer(device, word, rest):
    fields = [bytes.fromhex(text) for text in rest]
    if word == "bundle":
        return device.publish()
    if word == "sign":
        return [device.sign(*fields)]
    if word == "verify":
        return [int(verify(*fields))]
    raise ValueError("no word " + word)


def main():
    device = Device()
    for line in sys.stdin:
        word, *rest = line.rstrip("\n").split(" ")
        try:
            if word == "bundle":
                device = Device()
            words = answer(device, word, rest)
            words = ["ok", *(w.hex() if isinstance(w, bytes) else str(w) for w in words)]
        except Exception as error:
            words = ["err", type(error).__name__ + ":", " ".join(str(error).split())]
        print(*words, flush=True)


if __name__ == "__main__":
    main()
