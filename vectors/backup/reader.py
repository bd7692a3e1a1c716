"""Prints the entries of a backup (docs/protocols/backup.md, 2.1), in plain Python.

    python3 reader.py FILE PASSPHRASE [ENTRY]
"""
import base64, hashlib, hmac, io, struct, sys, tarfile


def unpad(text):
    return base64.b64decode(text + "=" * (-len(text) % 4))


def hkdf(secret, salt, info):  # RFC 5869, 32 bytes
    extracted = hmac.new(salt or bytes(32), secret, "sha256").digest()
    return hmac.new(extracted, info + b"\1", "sha256").digest()


def block(key, counter, nonce):  # RFC 8439, 2.3
    first = struct.unpack("<16I", b"expand 32-byte k" + key + struct.pack("<I", counter) + nonce)
    s = list(first)
    for n in range(80):
        i, odd = n % 4, n // 4 % 2
        a, b, c, d = [4 * row + (i + row * odd) % 4 for row in range(4)]
        for x, y, z, turn in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
            s[x] = (s[x] + s[y]) & 0xFFFFFFFF
            s[z] ^= s[x]
            s[z] = (s[z] << turn | s[z] >> (32 - turn)) & 0xFFFFFFFF
    return struct.pack("<16I", *((x + y) & 0xFFFFFFFF for x, y in zip(first, s)))


def unseal(key, nonce, sealed):  # RFC 8439, 2.8, without additional data
    text, tag = sealed[:-16], sealed[-16:]
    one_time = block(key, 0, nonce)
    r = int.from_bytes(one_time[:16], "little") & 0x0FFFFFFC0FFFFFFC0FFFFFFC0FFFFFFF
    total = 0
    padded = text + bytes(-len(text) % 16) + struct.pack("<QQ", 0, len(text))
    for at in range(0, len(padded), 16):
        total = (total + int.from_bytes(padded[at : at + 16] + b"\1", "little")) * r % (2**130 - 5)
    total += int.from_bytes(one_time[16:32], "little")
    assert hmac.compare_digest((total % 2**128).to_bytes(16, "little"), tag), "it does not open"
    stream = b"".join(block(key, 1 + n, nonce) for n in range((len(text) + 63) // 64))
    return bytes(x ^ y for x, y in zip(text, stream))


def archive(path, passphrase):
    data = open(path, "rb").read()
    end = data.index(b"\n---") + 4
    lines = data[:end].decode().split("\n")
    _, kind, salt, log_n = lines[1].split(" ")
    assert lines[0] == "age-encryption.org/v1" and kind == "scrypt", "another kind of file"
    salt = b"age-encryption.org/v1/scrypt" + unpad(salt)
    wrap = hashlib.scrypt(passphrase.encode(), salt=salt, n=1 << int(log_n), r=8, p=1, maxmem=1 << 30, dklen=32)
    key = unseal(wrap, bytes(12), unpad(lines[2]))
    mac = hmac.new(hkdf(key, b"", b"header"), data[:end], "sha256").digest()
    start = data.index(b"\n", end) + 1
    assert hmac.compare_digest(mac, unpad(data[end + 1 : start - 1].decode())), "the header was changed"
    payload, chunk = hkdf(key, data[start : start + 16], b"payload"), 65536 + 16
    body = data[start + 16 :]
    count = (len(body) + chunk - 1) // chunk
    nonces = (n.to_bytes(11, "big") + bytes([n == count - 1]) for n in range(count))
    parts = (unseal(payload, nonce, body[n * chunk : (n + 1) * chunk]) for n, nonce in enumerate(nonces))
    return tarfile.open(fileobj=io.BytesIO(b"".join(parts)))


if __name__ == "__main__":
    files = archive(sys.argv[1], sys.argv[2])
    for name in sys.argv[3:] or files.getnames():
        if name != "padding":
            print(f"== {name}" if not sys.argv[3:] else "", files.extractfile(name).read().decode(), sep="\n")
