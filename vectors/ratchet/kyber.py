"""ML-KEM-1024 (FIPS 203) and Kyber1024 of round 3, to be read, not to be used: nothing here takes
constant time. Only what the vectors need: a pair from 64 bytes, and an encapsulation from 32.
"""
from hashlib import sha3_256, sha3_512, shake_128, shake_256

Q, K, DU, DV = 3329, 4, 11, 5
BITREV = [int(f"{i:07b}"[::-1], 2) for i in range(128)]
ZETA = [pow(17, i, Q) for i in BITREV]
GAMMA = [pow(17, 2 * i + 1, Q) for i in BITREV]


def ntt(f):
    f, i, n = list(f), 1, 128
    while n >= 2:
        for start in range(0, 256, 2 * n):
            zeta, i = ZETA[i], i + 1
            for j in range(start, start + n):
                t = zeta * f[j + n] % Q
                f[j + n], f[j] = (f[j] - t) % Q, (f[j] + t) % Q
        n //= 2
    return f


def inverse(f):
    f, i, n = list(f), 127, 2
    while n <= 128:
        for start in range(0, 256, 2 * n):
            zeta, i = ZETA[i], i - 1
            for j in range(start, start + n):
                t = f[j]
                f[j], f[j + n] = (t + f[j + n]) % Q, zeta * (f[j + n] - t) % Q
        n *= 2
    return [x * 3303 % Q for x in f]


def mul(f, g):
    out = []
    for i, gamma in enumerate(GAMMA):
        (a0, a1), (b0, b1) = f[2 * i : 2 * i + 2], g[2 * i : 2 * i + 2]
        out += [(a0 * b0 + a1 * b1 * gamma) % Q, (a0 * b1 + a1 * b0) % Q]
    return out


def add(*polynomials):
    return [sum(values) % Q for values in zip(*polynomials)]


def dot(fs, gs):
    return add(*[mul(f, g) for f, g in zip(fs, gs)])


def uniform(seed):
    stream, out = shake_128(seed).digest(3 * 840), []
    for i in range(0, len(stream), 3):
        a, b, c = stream[i : i + 3]
        out += [d for d in (a + 256 * (b % 16), b // 16 + 16 * c) if d < Q]
    return out[:256]


def noise(seed, n):
    bits = int.from_bytes(shake_256(seed + bytes([n])).digest(128), "little")
    pair = lambda at: (bits >> at & 1) + (bits >> at + 1 & 1)
    return [(pair(4 * i) - pair(4 * i + 2)) % Q for i in range(256)]


def encode(bits, f):
    return sum(x << bits * i for i, x in enumerate(f)).to_bytes(32 * bits, "little")


def decode(bits, data):
    all_bits = int.from_bytes(data, "little")
    return [all_bits >> bits * i & (1 << bits) - 1 for i in range(256)]


def compress(bits, f):
    return [((x << bits + 1) + Q) // (2 * Q) % (1 << bits) for x in f]


def matrix(rho):
    return [[uniform(rho + bytes([j, i])) for j in range(K)] for i in range(K)]


def public(seed, round3):
    """The public key of a seed d | z; z only matters when a ciphertext is wrong."""
    both = sha3_512(seed[:32] + (b"" if round3 else bytes([K]))).digest()
    rho, sigma = both[:32], both[32:]
    s = [ntt(noise(sigma, n)) for n in range(K)]
    e = [ntt(noise(sigma, K + n)) for n in range(K)]
    t = [add(dot(row, s), e[i]) for i, row in enumerate(matrix(rho))]
    return b"".join(encode(12, f) for f in t) + rho


def encapsulate(key, coins, round3):
    """Ciphertext and shared secret."""
    m = sha3_256(coins).digest() if round3 else coins
    both = sha3_512(m + sha3_256(key).digest()).digest()
    shared, r = both[:32], both[32:]
    t = [decode(12, key[384 * i : 384 * i + 384]) for i in range(K)]
    y = [ntt(noise(r, n)) for n in range(K)]
    rows = matrix(key[384 * K :])
    u = [add(inverse(dot([row[i] for row in rows], y)), noise(r, K + i)) for i in range(K)]
    text = [x * ((Q + 1) // 2) for x in decode(1, m)]
    v = add(inverse(dot(t, y)), noise(r, 2 * K), text)
    c = b"".join(encode(DU, compress(DU, f)) for f in u) + encode(DV, compress(DV, v))
    if round3:
        shared = shake_256(shared + sha3_256(c).digest()).digest(32)
    return c, shared
