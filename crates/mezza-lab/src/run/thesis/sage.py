"""The listings of the thesis in Sage: ms of CPU time, the median of 15 runs, one variant a line."""
import statistics
import time
from random import randint

from sage.all import GF, EllipticCurve, Mod


def group_15():
    """RFC 3526, group 15, from the expansion of pi that Sage has."""
    from sage.all import RealField, floor, pi
    return int(2**3072 - 2**3008 - 1 + 2**64 * (floor(RealField(4000)(pi) * 2**2942) + 1690314))


def listings(g, h, power, times, inverse, order, short):
    full = lambda: randint(1, order)
    key = lambda: randint(1, 2**256) if short else full()

    def dh(walls):
        a, b = key(), key()
        ga, gb = power(g, a), power(g, b)
        for _ in range(walls):
            w = full()
            ga, gb = power(ga, w), power(gb, w)
        assert power(gb, a) == power(ga, b)

    def comm(wall):
        a, b, r, s = full(), full(), full(), full()
        c1, c2, ga = times(power(g, r), power(h, s)), times(power(h, s), power(g, b)), power(g, a)
        if wall:
            u, v, alpha = full(), full(), full()
            c1 = power(times(c1, times(power(g, u), power(h, v))), alpha)
            c2, ga = power(times(c2, power(h, v)), alpha), power(ga, alpha)
            r, s = (r + u) * alpha % order, (s + v) * alpha % order
        assert c1 == times(power(g, r), power(h, s))
        gb = times(c2, inverse(power(h, s)))
        assert power(gb, a) == power(ga, b)

    def eg(rerand):
        a, b = full(), full()
        pk, m = power(g, a), times(g, h)
        c0, c1 = power(g, b), times(power(pk, b), m)
        if rerand:
            r = full()
            c0, c1 = times(c0, power(g, r)), times(c1, power(pk, r))
        assert times(c1, inverse(power(c0, a))) == m

    return dh, comm, eg


def median(work, *arguments):
    each = []
    for _ in range(15):
        began = time.process_time()
        work(*arguments)
        each.append(1000 * (time.process_time() - began))
    return statistics.median(each)


def main():
    p = group_15()
    modp = (Mod(5, p), Mod(7, p), lambda x, e: x**e, lambda x, y: x * y, lambda x: x**-1, p - 1)
    dh, comm, eg = listings(*modp, short=True)
    field = GF(2**255 - 19)
    curve = EllipticCurve(field, [0, 486662, 0, 1, 0])
    order = 8 * (2**252 + 27742317777372353535851937790883648493)
    ec = (curve.random_point(), curve.random_point(), lambda x, e: x * e, lambda x, y: x + y, lambda x: -x, order)
    ec_dh, ec_comm, ec_eg = listings(*ec, short=False)
    for name, work, argument in [
        ("DH", dh, 0), ("DH_FW", dh, 2), ("DH_Comm", comm, 0), ("DH_Comm_FW", comm, 1),
        ("EG", eg, 0), ("EG_Rerand", eg, 1),
        ("EC_DH", ec_dh, 0), ("EC_DH_FW", ec_dh, 1), ("EC_DH_Comm", ec_comm, 0), ("EC_DH_Comm_FW", ec_comm, 1),
        ("EC_EG", ec_eg, 0), ("EC_EG_Rerand", ec_eg, 1),
    ]:
        print(name, median(work, argument))


main()
