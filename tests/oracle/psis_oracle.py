# SPDX-License-Identifier: MIT
# Writes tests/unit/math/psis_oracle.h: Pareto-smoothed weights of two small sets, straight from the formulas of the papers
# with 50 digits.
#   python3 tests/oracle/psis_oracle.py > tests/unit/math/psis_oracle.h
import mpmath as mp

mp.mp.dps = 50


def gpd_fit(x):
    """Zhang & Stephens (2009), equations for theta_j, w_j, theta-hat; x ascending."""
    n = len(x)
    m = 30 + int(mp.floor(mp.sqrt(n)))
    star = x[int(mp.floor(mp.mpf(n) / 4 + mp.mpf("0.5"))) - 1]
    theta = [1 / x[-1] + (1 - mp.sqrt(m / (j - mp.mpf("0.5")))) / (3 * star) for j in range(1, m + 1)]

    def k_of(t):
        return -sum(mp.log(1 - t * v) for v in x) / n  # their sign: k < 0 is a heavy tail

    loglik = [n * (mp.log(t / k_of(t)) + k_of(t) - 1) for t in theta]
    weight = [1 / sum(mp.exp(other - own) for other in loglik) for own in loglik]
    best = sum(t * w for t, w in zip(theta, weight))
    return -k_of(best), k_of(best) / best  # our sign: k > 0 is a heavy tail


def psis(lw):
    s = len(lw)
    order = sorted(range(s), key=lambda i: lw[i])
    top = lw[order[-1]]
    w = [mp.exp(v - top) for v in lw]
    tail = order[s - int(mp.ceil(min(mp.mpf(s) / 5, 3 * mp.sqrt(s)))):]
    cutoff = w[order[s - len(tail) - 1]]
    raw_k, sigma = gpd_fit([w[i] - cutoff for i in tail])
    n = len(tail)
    k = (raw_k * n + 5) / (n + 10)
    raw = list(w)
    for place, i in enumerate(tail):
        p = (place + mp.mpf("0.5")) / n
        w[i] = min(cutoff + sigma * ((1 - p) ** -k - 1) / k, mp.mpf(1))
    total = sum(w)
    w = [v / total for v in w]
    mean = sum(raw) / s
    sd = mp.sqrt(sum((v - mean) ** 2 for v in raw) / (s - 1))
    return k, raw_k, sigma, 1 / sum(v * v for v in w), top + mp.log(mean), sd / mean / mp.sqrt(s), w


print("/* SPDX-License-Identifier: MIT */")
print("/* Made by tests/oracle/psis_oracle.py: log weights and smoothed weights; khat, k and sigma of the fit, ess, log mean, its error. */")
for name, s, spread in (("few", 30, 1.3), ("many", 80, 2.9)):
    lw = [float(mp.mpf(spread) * mp.sin(mp.mpf(i) * i * mp.mpf("0.37") + 1) + mp.mpf("0.01") * i) for i in range(s)]
    assert len(set(lw)) == s
    *info, w = psis([mp.mpf(v) for v in lw])
    print(f"static const double {name}_info[6] = {{" + ", ".join(mp.nstr(v, 19) for v in info) + "};")
    print(f"static const double {name}[{s}][2] = {{")
    print(",\n".join(f"    {{{a!r}, {mp.nstr(b, 19)}}}" for a, b in zip(lw, w)))
    print("};")
