# SPDX-License-Identifier: MIT
# Writes tests/unit/math/oracle.h: special functions to 100 digits with mpmath, and the convergence
# statistics of a small set of chains by direct sums.
#   python3 tests/oracle/math_oracle.py > tests/unit/math/oracle.h
import mpmath as mp

mp.mp.dps = 100
H = mp.mpf(10) ** -25


def num(v):
    v = mp.mpf(v)
    if mp.isinf(v):
        return "-HUGE_VAL" if v < 0 else "HUGE_VAL"
    return mp.nstr(v, 19, min_fixed=1, max_fixed=0)


def table(name, rows):
    print("static const double %s[][%d] = {" % (name, len(rows[0])))
    for r in rows:
        print("    {" + ", ".join(repr(v) if isinstance(v, float) else num(v) for v in r) + "},")
    print("};\n")


def grad(f, *args):
    """f and its derivatives, at exact doubles."""
    a = [mp.mpf(v) for v in args]
    out = [f(*a)]
    for i in range(len(a)):
        up, down = list(a), list(a)
        h = H * max(abs(a[i]), mp.mpf(1) / 1000)
        up[i] += h
        down[i] -= h
        out.append((f(*up) - f(*down)) / (2 * h))
    return out


def summed(first, ratio, k, step):
    """first + first*ratio(k) + ..., k moving by step, until the terms no longer count"""
    total, term = first, first
    while True:
        r = ratio(k)
        term *= r
        k += step
        if term <= 0:
            return total
        total += term
        if r < 1 and term < total * mp.mpf(10) ** -98:
            return total


def pois(k, m):
    return mp.exp(k * mp.log(m) - m - mp.loggamma(k + 1))


def poisson(k, lower):
    if lower:
        return lambda m: mp.log(summed(pois(k, m), lambda j: mp.mpf(j) / m, k, -1))
    return lambda m: mp.log(summed(pois(k + 1, m), lambda j: m / (j + 1), k + 1, 1))


def nb(k, m, r):
    return mp.exp(mp.loggamma(r + k) - mp.loggamma(r) - mp.loggamma(k + 1) + r * mp.log(r / (r + m)) + k * mp.log(m / (r + m)))


def negbin(k, lower):
    if lower:
        return lambda m, r: mp.log(summed(nb(k, m, r), lambda j: j / (j - 1 + r) * (r + m) / m, k, -1))
    return lambda m, r: mp.log(summed(nb(k + 1, m, r), lambda j: (j + r) / (j + 1) * m / (r + m), k + 1, 1))


def bi(k, n, p):
    return mp.exp(mp.loggamma(n + 1) - mp.loggamma(k + 1) - mp.loggamma(n - k + 1) + k * mp.log(p) + (n - k) * mp.log(1 - p))


def binomial(k, n, lower):
    if lower:
        return lambda p: mp.log(summed(bi(k, n, p), lambda j: j / mp.mpf(n - j + 1) * (1 - p) / p, k, -1))
    return lambda p: mp.log(summed(bi(k + 1, n, p), lambda j: (n - j) / mp.mpf(j + 1) * p / (1 - p), k + 1, 1))


def student(y):
    def f(v, loc, scale):
        t = (y - loc) / scale
        tail = mp.betainc(v / 2, mp.mpf(1) / 2, 0, v / (v + t * t), regularized=True) / 2
        return mp.log(tail if t < 0 else 1 - tail)
    return f


def gammas():
    xs = [1e-5, 0.0371, 0.5, 0.93, 1.27, 2.385, 5.7, 9.99, 10.01, 33.3, 1234.5, 7.1e6, 3.3e12]
    table("oracle_gamma", [(x, mp.loggamma(x), mp.digamma(x), mp.psi(1, x)) for x in xs])
    rise = [(nu, k) for nu in (1e-6, 0.73, 3.7, 12.9, 871.0, 2.4e7, 3.1e13) for k in (1e-9, 0.37, 1.0, 7.0, 64.0, 65.0, 913.0, 1e6)]
    table("oracle_rise", [(nu, k, mp.loggamma(mp.mpf(nu) + k) - mp.loggamma(nu), mp.digamma(mp.mpf(nu) + k) - mp.digamma(nu))
                          for nu, k in rise])
    ab = [(0.013, 0.7), (0.5, 12345.6), (3.3, 2.1), (11.7, 10.4), (55.5, 1e6), (1e6, 1.3e6), (9.5, 1e14)]
    table("oracle_beta", [(a, b, mp.loggamma(a) + mp.loggamma(b) - mp.loggamma(mp.mpf(a) + b)) for a, b in ab])


def normals():
    xs = [-1e5, -300.7, -38.4, -12.3, -5.001, -4.999, -2.385, -0.71, -0.003, 0.0, 0.37, 1.93, 5.2, 8.1]
    log_phi = lambda x: mp.log(mp.erfc(-x / mp.sqrt(2)) / 2)
    table("oracle_normal", [(x, log_phi(mp.mpf(x)), mp.npdf(x) / mp.exp(log_phi(mp.mpf(x)))) for x in xs])
    ps = [1e-300, 3.3e-40, 1e-12, 0.0013, 0.074, 0.0751, 0.31, 0.499, 0.5000001, 0.77, 0.925, 0.9999, 1 - 2.0**-40]
    inverse = lambda p: mp.findroot(lambda x: mp.log(mp.ncdf(x)) - mp.log(p), -mp.sqrt(-2 * mp.log(p)) if p < 0.01 else 0.0)
    rows = []
    for p in ps:
        q = mp.mpf(p)
        rows.append((p, inverse(q) if q < 0.5 else -inverse(1 - q)))
    table("oracle_inverse", rows)


def incompletes():
    ax = [(0.01, 0.3), (0.001, 0.9), (0.5, 0.2), (0.5, 4.0), (0.73, 40.0), (3.1, 1.7), (3.1, 9.9), (47.0, 30.0), (47.0, 61.0), (99.0, 99.5),
          (100.5, 60.0), (100.5, 100.0), (100.5, 101.0), (100.5, 240.0), (1000.0, 700.0), (1000.0, 1003.0), (1000.0, 1500.0)]
    table("oracle_gamma_inc", [(a, x, mp.log(mp.gammainc(a, 0, x, regularized=True)), mp.log(mp.gammainc(a, x, regularized=True)))
                               for a, x in ax])
    abx = [(0.5, 0.5, 0.3), (0.03, 2.0, 1e-5), (2.3, 0.7, 0.9), (7.0, 5.0, 0.2), (7.0, 5.0, 0.81), (40.0, 700.0, 0.05), (40.0, 700.0, 0.09),
           (99.0, 3000.0, 0.04), (150.0, 130.0, 0.5), (150.0, 130.0, 0.7), (150.0, 3000.0, 0.05), (3000.0, 150.0, 0.94), (500.0, 500.0, 0.4)]
    rows = []
    for a, b, x in abx:
        p = mp.betainc(a, b, 0, x, regularized=True)
        q = mp.betainc(b, a, 0, 1 - mp.mpf(x), regularized=True)
        rows.append((a, b, x, mp.log(p), mp.log(q)))
    table("oracle_beta_inc", rows)


def counts():
    pk = [(0.0, 0.3), (3.0, 7.2), (12.0, 2.5), (40.0, 35.5), (180.0, 260.0), (180.0, 120.0), (5000.0, 5033.0), (5000.0, 4100.0),
          (1000000.0, 999000.0), (1000000.0, 1003000.0)]
    table("oracle_poisson", [(k, m, *grad(poisson(int(k), True), m), *grad(poisson(int(k), False), m)) for k, m in pk])
    nk = [(0.0, 1.3, 0.7), (5.0, 7.2, 1.9), (17.0, 3.3, 0.31), (60.0, 75.0, 12.5), (3.0, 200.0, 40.0), (400.0, 300.0, 5.5),
          (5000.0, 5033.0, 900.0), (30000.0, 20000.0, 130.0), (25.0, 19.0, 1e7), (100000.0, 99000.0, 1e5)]
    table("oracle_negbin", [(k, m, r, *grad(negbin(int(k), True), m, r), *grad(negbin(int(k), False), m, r)) for k, m, r in nk])
    bk = [(0.0, 5.0, 0.3), (3.0, 10.0, 0.21), (9.0, 10.0, 0.97), (50.0, 120.0, 0.55), (150.0, 1000.0, 0.13), (400000.0, 1000000.0, 0.401)]
    table("oracle_binomial", [(k, n, p, *grad(binomial(int(k), int(n), True), p), *grad(binomial(int(k), int(n), False), p))
                              for k, n, p in bk])
    sk = [(-3.1, 2.7, 0.4, 1.3), (0.9, 2.7, 0.4, 1.3), (50.0, 4.4, 0.4, 1.3), (-80.0, 0.9, 0.1, 2.2), (-6.0, 300.0, 0.3, 1.1),
          (1.7, 40.0, -0.3, 0.8), (-4.0, 1e5, 0.0, 1.0)]
    rows = []
    for y, v, loc, s in sk:
        low = grad(student(mp.mpf(y)), v, loc, s)
        high = grad(student(-mp.mpf(y)), v, -loc, s)
        rows.append((y, v, loc, s, *low, high[0], high[1], -high[2], high[3]))
    table("oracle_student", rows)


# ---- convergence: three chains of 41 draws of a fixed recurrence, some values repeated ----
def chains():
    state, out = 12345, []
    for c in range(3):
        x, row = 0.0, []
        for i in range(41):
            state = (1103515245 * state + 12345) % 2147483648
            u = state / 2147483648.0
            if u < 0.7:
                x = 0.6 * x + u - 0.35 + 0.05 * c
            row.append(x)
        out.append(row)
    return out


def z_scale(rows):
    flat = [v for r in rows for v in r]
    srt, n = sorted(flat), len(flat)
    rank = {v: mp.mpf(2 * srt.index(v) + srt.count(v) + 1) / 2 for v in set(flat)}
    z = {v: mp.sqrt(2) * mp.erfinv(2 * (r - mp.mpf(3) / 8) / (n + mp.mpf(1) / 4) - 1) for v, r in rank.items()}
    return [[z[v] for v in r] for r in rows]


def mean(r):
    return mp.fsum(r) / len(r)


def var(r):
    return mp.fsum((v - mean(r)) ** 2 for v in r) / (len(r) - 1)


def rhat(rows):
    n, w = len(rows[0]), mean([var(r) for r in rows])
    return mp.sqrt(var([mean(r) for r in rows]) / w + mp.mpf(n - 1) / n)


def ess(rows):
    n, m = len(rows[0]), len(rows)
    mu = [mean(r) for r in rows]
    acov = [mean([mp.fsum((r[i] - c) * (r[i + t] - c) for i in range(n - t)) / n for r, c in zip(rows, mu)]) for t in range(n)]
    w = acov[0] * n / (n - 1)
    plus = acov[0] + var(mu)
    rho = lambda t: 1 - (w - acov[t]) / plus
    pairs, t, last = [(mp.mpf(1), rho(1))], 0, None
    while t < n - 5 and sum(pairs[-1]) > 0:
        t += 2
        pairs.append((rho(t), rho(t + 1)))
    last = pairs.pop()
    kept = []
    for a, b in pairs:
        if kept and a + b > sum(kept[-1]):
            a = b = sum(kept[-1]) / 2
        kept.append((a, b))
    end = last[0] if last[0] > 0 or sum(last) >= 0 else 0
    tau = -1 + 2 * mp.fsum(a + b for a, b in kept) + end
    return n * m / max(tau, 1 / mp.log10(n * m))


def quantile(flat, p):
    s, at = sorted(flat), mp.mpf(p) * (len(flat) - 1)
    i = int(at)
    return s[i] if i + 1 == len(s) else s[i] + (at - i) * (s[i + 1] - s[i])


def convergence():
    rows = chains()
    h = len(rows[0]) // 2
    split = [[mp.mpf(v) for v in part] for r in rows for part in (r[:h], r[-h:])]
    flat = [v for r in split for v in r]
    med = quantile(flat, 0.5)
    folded = [[abs(v - med) for v in r] for r in split]
    tails = [ess([[mp.mpf(v <= quantile(flat, p)) for v in r] for r in split]) for p in (0.05, 0.95)]
    print("static const double oracle_chains[3][41] = {")
    for r in rows:
        print("    {" + ", ".join(repr(v) for v in r) + "},")
    print("};\n")
    z = z_scale(split)
    table("oracle_convergence", [(max(rhat(z), rhat(z_scale(folded))), ess(z), min(tails), ess(split))])


print("/* SPDX-License-Identifier: MIT */\n/* Made by tests/oracle/math_oracle.py; columns as there. */")
print("#ifndef ATVI_TEST_MATH_ORACLE_H\n#define ATVI_TEST_MATH_ORACLE_H\n\n#include <math.h>\n\n/* clang-format off */")
for part in (gammas, normals, incompletes, counts, convergence):
    part()
print("/* clang-format on */\n#endif")
