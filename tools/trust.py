#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Fit every target of bench/trust with several seeds, without options, and compare with the exact answers.

trust.py [--targets PATTERN[,PATTERN]] [--seeds N] [--first SEED] [--jobs N] [--atvi PROGRAM] [--limit SECONDS] [--dir DIR] [--keep]
         [--kept] [--write FILE] [--list] [--self-test]

  --targets  names or patterns (funnel*, schools) of targets; default all
  --seeds    fits of each target, default 10; --first is the first seed, default 1
  --jobs     fits at once, default one per core, each on one thread
  --limit    CPU seconds that a fit may take before it is stopped and counts as a failure, default 600
  --dir      results of finished fits, default build/trust; the same program, model and seed are not fitted again
  --keep     keep the folders of wrong fits (DIR/wrong/NAME-SEED)
  --kept     no new fits: the table of those that are kept
  --self-test  prove on made-up results that correct ones pass and defects fail
  --write    put the table into FILE, between its lines <!-- table --> and <!-- end -->

Ends with status 1 if more than one answer in 300 is wrong and was called ok. docs/trust.md says what counts as right, and why.
"""
import argparse
import concurrent.futures
import csv
import datetime
import fnmatch
import hashlib
import json
import math
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading

TOP = pathlib.Path(__file__).resolve().parent.parent
HERE = TOP / "bench" / "trust"

# What is judged (docs/trust.md). A tolerance is sqrt(base^2 + (ERRORS * Monte Carlo error)^2).
ERRORS = 4.0         # Monte Carlo errors that chance may explain: one in 16 000 exceeds it
MEAN = 0.1           # base of a mean, in sds: what a reader would never notice
SD = 0.05            # base of an sd, as a share of it
REGION = 0.01        # base of a probability,
REGION_SHARE = 0.15  # and at most this share of it (or of 1 - p), so that rare regions count
EVIDENCE = 0.02      # base of the log evidence
ESS_LEAST = 400.0    # Monte Carlo errors count as those of at least that many draws, so that a poor fit cannot excuse itself
SE_MOST = 0.25       # and the standard error of the log evidence up to this


def identifier(name):
    return re.sub(r"\W", "_", name)


def read_draws(folder, weighted):
    """Columns and normalised weights of weighted.csv, or of draws.csv."""
    with open(folder / ("weighted.csv" if weighted else "draws.csv"), newline="") as f:
        rows = csv.reader(line for line in f if not line.startswith("#"))
        names = next(rows)
        table = [[float(v) for v in r] for r in rows]
    columns = dict(zip(names, zip(*table)))
    w = columns.get("weight__") if weighted else None
    w = w or [1.0] * len(table)
    total = math.fsum(w)
    return columns, [v / total for v in w]


def extract(folder, answer):
    """What a fit says, with its Monte Carlo errors; small enough to keep."""
    s = json.loads((folder / "summary.json").read_text())
    weighted = bool(s.get("weighted")) and (folder / "weighted.csv").exists()
    columns, w = read_draws(folder, weighted)
    w2 = [v * v for v in w]
    ess_all = 1 / math.fsum(w2)
    out = {k: s.get(k) for k in ("verdict", "message_codes", "message_severities", "messages", "evaluations", "failures", "khat", "exact", "modes", "method")}
    out["evidence"], out["weighted"] = s.get("log_evidence"), weighted
    out["parameters"] = {}
    worst = ess_all
    for p in s["parameters"] + s.get("derived", []):
        if p["name"] not in answer["parameters"] and p["name"] not in answer.get("none", []):
            continue
        x = columns[p["name"]]
        m = math.fsum(a * b for a, b in zip(w, x))
        dev = [(b - m) * (b - m) for b in x]
        v = math.fsum(a * b for a, b in zip(w, dev))
        if weighted:
            e_mean = math.sqrt(math.fsum(a * b for a, b in zip(w2, dev)))
            e_sd = math.sqrt(math.fsum(a * (b - v) * (b - v) for a, b in zip(w2, dev))) / (2 * v) if v > 0 else 0.0
        else:
            bulk, tail = (p.get(k) or len(x) for k in ("ess_bulk", "ess_tail"))
            fourth = math.fsum(a * b * b for a, b in zip(w, dev))
            e_mean = math.sqrt(v / bulk)
            e_sd = math.sqrt(max(fourth / v ** 2 - 1, 0) / (4 * min(bulk, tail))) if v > 0 else 0.0
            worst = min(worst, bulk, tail)
        out["parameters"][p["name"]] = {"mean": p["mean"], "sd": p["sd"], "e_mean": max(e_mean, p.get("mcse") or 0.0), "e_sd": e_sd}
    out["ess"] = worst
    out["regions"] = {}
    names = [n for n in columns if not n.endswith("__")]
    for r in answer["regions"]:
        code = compile(r["where"], r["where"], "eval")
        used = [n for n in names if identifier(n) in code.co_names]
        scope, inside = {"sqrt": math.sqrt, "abs": abs, "__builtins__": {}}, []
        keys = [identifier(n) for n in used]
        for point in zip(*(columns[n] for n in used)):
            scope.update(zip(keys, point))
            inside.append(bool(eval(code, scope)))
        p = math.fsum(a for a, i in zip(w, inside) if i)
        e = math.sqrt(math.fsum(a * (i - p) ** 2 for a, i in zip(w2, inside))) if weighted else 0.0
        out["regions"][r["where"]] = {"p": p, "e": max(e, math.sqrt(r["p"] * (1 - r["p"]) / worst))}
    return out


def within(base, error):
    return math.hypot(base, ERRORS * error)


def judge(result, answer):
    """(complaints, worst error of a mean in sds, of an sd as a share, of the evidence in its standard errors)"""
    wrong, mean, sd, evidence = [], 0.0, 0.0, None
    if result.get("failed"):
        return [result["failed"]], None, None, None
    base = {"mean": MEAN, "sd": SD, "region": REGION, **answer.get("tolerance", {})}
    for name, a in answer["parameters"].items():
        p = result["parameters"].get(name)
        if p is None:
            wrong.append(f"{name} is missing")
            continue
        scale = a["sd"] or a.get("scale") or 1.0
        if a["mean"] is not None:
            if p["mean"] is None or not math.isfinite(p["mean"]):
                wrong.append(f"{name} has no mean")
            else:
                gap = (p["mean"] - a["mean"]) / scale
                mean = max(mean, abs(gap))
                if abs(gap) > within(base["mean"], min(p["e_mean"] / scale, ESS_LEAST ** -0.5)):
                    wrong.append(f"mean of {name} {gap:+.3g} sd")
        if a["sd"] is not None:
            if p["sd"] is None or not math.isfinite(p["sd"]):
                wrong.append(f"{name} has no sd")
            else:
                gap = p["sd"] / a["sd"] - 1
                sd = max(sd, abs(gap))
                # Draws of a heavy tail misjudge the error of their sd: the exact kurtosis does not.
                heavy = max(a.get("kurtosis", 3.0) - 1, 0) / 4
                error = max(p["e_sd"], math.sqrt(heavy / result["ess"]))
                if abs(gap) > within(base["sd"], min(error, math.sqrt(max(heavy, 1.0) / ESS_LEAST))):
                    wrong.append(f"sd of {name} {100 * gap:+.3g} %")
    for name in answer.get("none", []):
        p = result["parameters"].get(name) or {}
        if p.get("mean") is not None:
            wrong.append(f"{name} has a mean, which does not exist")
    for r in answer["regions"]:
        p = result["regions"][r["where"]]
        least = min(r["p"], 1 - r["p"])
        error = min(p["e"], math.sqrt(r["p"] * (1 - r["p"]) / ESS_LEAST))
        if abs(p["p"] - r["p"]) > within(min(base["region"], REGION_SHARE * least), error):
            wrong.append(f"P({r['where']}) {p['p']:.4f}, not {r['p']:.4f}")
    e = result.get("evidence") or {}
    if answer["log_evidence"] is not None and e.get("value") is not None:
        gap, se = e["value"] - answer["log_evidence"], e.get("se") or 0.0
        # The base is part of the answer's own error (solvers), so it takes part in the scale.
        evidence = abs(gap) / math.hypot(se, EVIDENCE / ERRORS)
        if abs(gap) > within(EVIDENCE, min(se, SE_MOST)):
            wrong.append(f"log evidence {gap:+.4g} ± {se:.2g}")
    return wrong, mean, sd, evidence


def run(command, limit, cwd, log, env):
    """(exit status or None if it took too long, CPU seconds). A busy machine has twenty times the limit by the clock."""
    command = ["/bin/sh", "-c", 'ulimit -t "$0"; exec "$@"', str(math.ceil(limit))] + command
    with open(log, "ab") as f:
        p = subprocess.Popen(command, cwd=cwd, stdout=f, stderr=f, stdin=subprocess.DEVNULL, env=env, start_new_session=True)
    late = threading.Event()

    def stop():
        late.set()
        os.killpg(p.pid, signal.SIGKILL)

    timer = threading.Timer(20 * limit, stop)
    timer.start()
    _, status, usage = os.wait4(p.pid, 0)
    timer.cancel()
    p.returncode = os.waitstatus_to_exitcode(status)
    over = late.is_set() or p.returncode in (-signal.SIGXCPU, -signal.SIGKILL)
    return (None if over else p.returncode), usage.ru_utime + usage.ru_stime


def fit(name, seed, answer, args, kept):
    with tempfile.TemporaryDirectory(prefix=f"{name}-{seed}-", dir=args.dir) as work:
        work = pathlib.Path(work)
        env = dict(os.environ, XDG_CACHE_HOME=str(args.dir / "cache"))
        model, log, out = str(HERE / f"{name}.atvi"), work / "log.txt", work / "fit"
        result = {}
        for step in answer.get("prepare", []):
            words = [str(seed) if w == "SEED" else w for w in step]
            status, _ = run([args.atvi, words[0], model] + words[1:], args.limit, work, log, env)
            if status != 0:
                result["failed"] = f"atvi {words[0]} ended with status {status}"
        if not result:
            status, cpu = run([args.atvi, "fit", model, "--seed", str(seed), "--out", str(out), "-q", "--threads", "1"] + answer.get("options", []), args.limit, work, log, env)
            if status is None:
                result["failed"], result["limit"] = f"took more than {args.limit:g} s of CPU time", args.limit
            elif status != 0:
                last = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
                result["failed"] = f"status {status}: " + (last[0] if last else "no message")[:160]
            else:
                result = extract(out, answer)
            result["cpu"] = cpu
        kept.write_text(json.dumps(result))
        if args.keep and out.exists() and judge(result, answer)[0]:
            place = args.dir / "wrong" / f"{name}-{seed}"
            shutil.rmtree(place, ignore_errors=True)
            place.parent.mkdir(exist_ok=True)
            shutil.copytree(out, place)
        return result


def complete(result, answer, limit):
    """Whether a kept result has all that the answer asks for now, or a fit that was stopped had as much time as now."""
    if "failed" in result:
        return result.get("limit", limit) >= limit
    return all(r["where"] in result["regions"] for r in answer["regions"]) and all(n in result["parameters"] for n in answer["parameters"])


def digest(*files):
    h = hashlib.sha256()
    for f in files:
        h.update(pathlib.Path(f).read_bytes())
    return h.hexdigest()[:12]


def model_files(name):
    """The model and the files beside it that it names."""
    text = (HERE / f"{name}.atvi").read_text()
    return [HERE / f"{name}.atvi"] + sorted(f for f in HERE.iterdir() if re.search(rf"(?<!\w){re.escape(f.name)}", text))


def kind(result, wrong, answer):
    """Where a warning is due (emulators with too few runs) and was given, neither right nor wrong is held against the fit."""
    if answer.get("due") == "warn" and result.get("verdict") in ("warn", "bad"):
        return "due"
    if not wrong:
        return "right_ok" if result["verdict"] == "ok" else "right_warned"
    return "wrong_ok" if result.get("verdict") == "ok" else "wrong_reported"


KINDS = ("right_ok", "right_warned", "wrong_reported", "wrong_ok", "due")


def table(results, answers):
    """Markdown, and the counts of the four kinds."""
    def number(v, form):
        return "–" if v is None else format(v, form if abs(v) < 1e4 else ".0e")

    def biggest(values):
        return max((v for v in values if v is not None), default=None)

    head = "| target | d | right, ok | right, warned | wrong, reported | wrong, ok | warned, as due | mean (sd) | sd (%) | evidence (se) | CPU s | runs |"
    lines = [head, "|---|" + "--:|" * 11]
    details, total, zs, seconds, evaluations = [], dict.fromkeys(KINDS, 0), [], 0.0, 0
    for name in answers:
        mine = {s: r for (n, s), r in results.items() if n == name}
        if not mine:
            continue
        count, errors = dict.fromkeys(KINDS, 0), []
        for seed, r in sorted(mine.items()):
            wrong, *error = judge(r, answers[name])
            k = kind(r, wrong, answers[name])
            count[k] += 1
            total[k] += 1
            errors.append(error)
            if error[2] is not None:
                zs.append(error[2])
            if k not in ("right_ok", "due"):
                codes = [c for c, v in zip(r.get("message_codes") or [], r.get("message_severities") or []) if v != "note"]
                said = (f"{r['verdict']} ({', '.join(codes)})" if codes else r["verdict"]) if "verdict" in r else "no result"
                more = f" and {len(wrong) - 3} more" if len(wrong) > 3 else ""
                details.append(f"- {name}, seed {seed}: {said}; {', '.join(wrong[:3]) + more if wrong else 'right'}")
        mean, sd, evidence = (biggest(e[k] for e in errors) for k in range(3))
        n = len(mine)
        cpu, evals = sum(r.get("cpu", 0) for r in mine.values()) / n, sum(r.get("evaluations") or 0 for r in mine.values()) / n
        seconds += cpu * n
        evaluations += evals * n
        d = len(answers[name]["parameters"]) + len([v for v in answers[name].get("none", []) if v not in answers[name]["parameters"]])
        lines.append(f"| {name} | {answers[name].get('d', d)} | " + " | ".join(str(count[k] or "") for k in KINDS) +
                     f" | {number(mean, '.3f')} | {number(None if sd is None else 100 * sd, '.1f')} | {number(evidence, '.1f')} | {cpu:.1f} | {evals:,.0f} |")
    n = sum(total.values())
    lines.append("| **all** | | " + " | ".join(f"**{total[k]}**" for k in KINDS) + f" | | | | {seconds / max(n, 1):.1f} | {evaluations / max(n, 1):,.0f} |")
    due, judged = total["due"], max(n - total["due"], 1)
    lines += ["", (f"{n} fits, of which {due} of emulators with too few runs, which warned, as is due. Of the others: " if due else f"{n} fits: ") +
              ", ".join(f"{k.replace('_', ' and ')} {total[k]} ({100 * total[k] / judged:.1f} %)" for k in KINDS if k != "due") + "."]
    if zs:
        lines.append(f"Evidence within three standard errors in {sum(z <= 3 for z in zs)} of {len(zs)} fits that have one ({100 * sum(z <= 3 for z in zs) / len(zs):.1f} %).")
    if details:
        lines += ["", "Fits that were not both right and ok:", ""] + details
    return "\n".join(lines), total


def commit():
    try:
        name = subprocess.run(["git", "-C", str(TOP), "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()
        dirty = subprocess.run(["git", "-C", str(TOP), "status", "--porcelain", "src", "cli", "include"], capture_output=True, text=True, check=True).stdout.strip()
        return name + (" with changes" if dirty else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def self_test():
    """Correct fits of 60 parameters pass 999 times in 1000; a lost mode of 3 %, a lost neck and an sd that is 11 % small never do."""
    chance = random.Random(2385)
    answer = {"log_evidence": -3.0, "parameters": {f"x.{i}": {"mean": 0.0, "sd": 1.0} for i in range(60)},
              "regions": [{"where": "mode", "p": 0.03}, {"where": "neck", "p": 0.0203}, {"where": "half", "p": 0.5}]}

    def made(n, scale=1.0, **lost):
        def share(p):
            k = chance.gauss(p, math.sqrt(p * (1 - p) / n))
            return {"p": max(k, 0.0), "e": math.sqrt(p * (1 - p) / n)}

        r = {"parameters": {}, "regions": {a["where"]: {**share(a["p"]), **({"p": 0.0} if a["where"] in lost else {})} for a in answer["regions"]}}
        for name in answer["parameters"]:
            r["parameters"][name] = {"mean": chance.gauss(0, n ** -0.5), "sd": scale * chance.gauss(1, (2 * n) ** -0.5), "e_mean": n ** -0.5, "e_sd": (2 * n) ** -0.5}
        r["ess"] = n
        r["evidence"] = {"value": chance.gauss(-3, 0.01), "se": 0.01}
        return r

    def failed(count, *a, **k):
        return sum(bool(judge(made(*a, **k), answer)[0]) for _ in range(count))

    few = dict(answer, due="warn")
    kinds = [kind({"verdict": v} if v else {}, w, a) for v, w, a in (("warn", ["x"], few), ("bad", [], few), ("ok", ["x"], few), ("ok", [], few), (None, ["x"], few),
                                                                     ("warn", ["x"], answer), ("warn", [], answer))]
    good = kinds == ["due", "due", "wrong_ok", "right_ok", "wrong_reported", "wrong_reported", "right_warned"]
    print(f"{'ok' if good else 'NOT OK'}: a warning is due only where it is, and only if there is one")
    wrong = int(not good)
    for what, least, most, fits in (("correct, 25 000 draws", 0, 2, failed(2000, 25000)), ("correct, 1 000 draws", 0, 2, failed(2000, 1000)),
                                    ("a lost mode of 3 %", 2000, 2000, failed(2000, 1000, mode=True)), ("a lost neck of 2 %", 2000, 2000, failed(2000, 2500, neck=True)),
                                    ("sds 11 % small", 2000, 2000, failed(2000, 25000, 0.89))):
        good = least <= fits <= most
        wrong += not good
        print(f"{'ok' if good else 'NOT OK'}: {what}: {fits} of 2000 fail")
    return int(wrong > 0)


def main():
    ap = argparse.ArgumentParser(usage=__doc__)
    ap.add_argument("--targets", default="*")
    ap.add_argument("--seeds", type=int, default=10)
    ap.add_argument("--first", type=int, default=1)
    ap.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    ap.add_argument("--atvi", default=str(TOP / "build" / "atvi"))
    ap.add_argument("--limit", type=float, default=600)
    ap.add_argument("--dir", type=pathlib.Path, default=TOP / "build" / "trust")
    ap.add_argument("--keep", action="store_true")
    ap.add_argument("--write", type=pathlib.Path)
    ap.add_argument("--kept", action="store_true")
    ap.add_argument("--list", action="store_true")
    ap.add_argument("--self-test", action="store_true")
    args = ap.parse_args()
    if args.self_test:
        return self_test()
    answers = json.loads((HERE / "answers.json").read_text())
    answers = {k: v for k, v in answers.items() if any(fnmatch.fnmatch(k, p) for p in args.targets.split(","))}
    if args.list:
        print("\n".join(f"{k}: {v['how']}" for k, v in answers.items()))
        return 0
    args.atvi = str(pathlib.Path(args.atvi).resolve())
    args.dir = args.dir.resolve()
    program = digest(args.atvi)
    store = args.dir / program
    store.mkdir(parents=True, exist_ok=True)
    results, todo = {}, []
    for seed in range(args.first, args.first + args.seeds):  # seeds outside, so that an interrupted run has seen every target
        for name, answer in answers.items():
            kept = store / f"{name}-{seed}-{digest(*model_files(name))}.json"
            if kept.exists():
                r = json.loads(kept.read_text())
                if complete(r, answer, args.limit):
                    results[name, seed] = r
                    continue
            todo.append((name, seed, answer, kept))
    if args.kept:
        todo = []
    if todo:
        print(f"{len(todo)} fits to do, {len(results)} kept in {store}", file=sys.stderr)
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        jobs = {pool.submit(fit, name, seed, answer, args, kept): (name, seed) for name, seed, answer, kept in todo}
        try:
            for n, job in enumerate(concurrent.futures.as_completed(jobs), 1):
                name, seed = jobs[job]
                r = results[name, seed] = job.result()
                wrong = judge(r, answers[name])[0]
                print(f"{n}/{len(todo)} {name} seed {seed}: {kind(r, wrong, answers[name]).replace('_', ', ')}" + (f" ({'; '.join(wrong[:2])})" if wrong else ""), file=sys.stderr)
        except KeyboardInterrupt:
            pool.shutdown(wait=True, cancel_futures=True)
            print("interrupted; the same command goes on", file=sys.stderr)
            return 130
    text, total = table(results, answers)
    counts = [sum(n == name for n, _ in results) for name in answers]
    missing = f", of which {sum(c < args.seeds for c in counts)} targets lack some" if min(counts) < args.seeds else ""
    title = f"{datetime.date.today()}, commit {commit()}, seeds {args.first} to {args.first + args.seeds - 1}{missing}"
    print(title + "\n\n" + text)
    if args.write:
        page = args.write.read_text()
        page = re.sub(r"(<!-- table -->\n).*?(<!-- end -->)", lambda m: f"{m[1]}{title}\n\n{text}\n\n{m[2]}", page, flags=re.S)
        args.write.write_text(page)
    return int(300 * total["wrong_ok"] > sum(total.values()) - total["due"])


if __name__ == "__main__":
    sys.exit(main())
