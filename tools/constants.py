#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Every number with a name in src/infer: its value, what it means and where it is.

tools/constants.py           their number, by file
tools/constants.py --table   a row for each, as Markdown
tools/constants.py --check   fails where one has no comment, or two of one name have different values

A number whose comment begins with "memory:", "time:", "words:" or "input:" is counted apart: no fit depends on it but by rounding, by what the user may ask for or is
refused, or by which messages there are and how they read.

Counted: rows of ATVI_VI_TUNABLES, macros, enumerators and `static const` numbers whose value is written as a number. Not counted: flags and kinds
(enumerators without a value, or with powers of two from 1 up), and sizes that another name gives.
"""
import pathlib
import re
import sys

TOP = pathlib.Path(__file__).resolve().parent.parent
NUMBER = r"-?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
TUNABLE = re.compile(r"\bX\((\w+), *(" + NUMBER + r"), *\"([^\"]*)\",[\s\\]*\"([^\"]*)\"")
MACRO = re.compile(r"^#define (\w+)[ \\]*\n? *(" + NUMBER + r")\b", re.M)
ENUM = re.compile(r"^ *enum \{(.*?)\}[^;{]*;", re.M | re.S)
MEMBER = re.compile(r"\b([A-Z]\w*)\s*=\s*(" + NUMBER + r")(?=\s*(?:,|$|/\*))")
STATIC = re.compile(r"^static const (?:double|int|uint32_t|atvi_idx) ((?:\w+ *=\s*[^;]*)+);", re.M)
COMMENT = re.compile(r"/\*(.*?)\*/", re.S)
APART = re.compile(r"(?:memory|time|words|input): ")


def plain(text):
    return re.sub(r"[\s\\]+", " ", text).strip()


def meaning(text, begin, end):
    """The comment on lines of its own right above a definition, else the one behind it on its line or the next, else any above."""
    own = re.search(r"\n[ \t]*/\*((?:(?!\*/).)*)\*/\s*(?:enum \{\s*)?(?:#define |static const \w+ )?$", text[:begin], re.S)
    if own and "----" not in own.group(1) and "\n\n" not in text[own.end(1):begin]:
        return plain(own.group(1).replace("\n *", "\n"))
    behind = re.match(r"[^\n/]*?(?:\n[ \t]*)?/\*(.*?)\*/", text[end:], re.S)
    first = text[end:].find("\n")
    if behind and (first < 0 or behind.start(1) < first + 120) and "\n\n" not in text[end:end + behind.start(1)]:
        if not re.search(r"\w+ = |#define|;\s*\n\s*\w", text[end:end + behind.start(1) - 2]):
            return plain(behind.group(1))
    above = list(COMMENT.finditer(text, 0, begin))
    if above and text[above[-1].end():begin].count("\n") <= 4 and "\n\n" not in text[above[-1].end():begin]:
        return plain(above[-1].group(1))
    return ""


def flags(members):
    values = [v for _, v in members]
    return len(values) > 1 and values == [str(2**k) for k in range(len(values))]


def constants(path):
    """(name, value, meaning) of each in a file."""
    text = path.read_text()
    out = [(n, v, f"{u}: {w}") for n, v, u, w in TUNABLE.findall(text)]
    for m in MACRO.finditer(text):
        out.append((m[1], m[2], meaning(text, m.start(), m.end())))
    for m in ENUM.finditer(text):
        inside = COMMENT.sub(lambda c: " " * len(c[0]), m[1])
        found = list(MEMBER.finditer(inside))
        if flags([(f[1], f[2]) for f in found]):
            continue
        for f in found:
            at = m.start(1)
            out.append((f[1], f[2], meaning(text, at + f.start(), at + f.end()) or meaning(text, m.start(), m.end())))
    for m in STATIC.finditer(text):
        for f in re.finditer(r"(\w+)\s*=\s*(" + NUMBER + r")\s*(?=,|$)", m[1]):
            out.append((f[1], f[2], meaning(text, m.start(), m.end())))
    return out


def main(how):
    files = sorted((TOP / "src" / "infer").glob("*.[ch]"))
    every = {str(f.relative_to(TOP)): constants(f) for f in files}
    every = {f: c for f, c in every.items() if c}
    apart = sum(bool(APART.match(what)) for c in every.values() for _, _, what in c)
    n = sum(map(len, every.values())) - apart
    if how == "--check":
        wrong = [f"{f}: {name} = {value} has no comment" for f, c in every.items() for name, value, what in c if not what]
        values = {}
        for f, c in every.items():
            for name, value, _ in c:
                if name.startswith("ATVI_") and values.setdefault(name, value) != value:
                    wrong.append(f"{f}: {name} = {value}, elsewhere {values[name]}")
        print("\n".join(wrong) or f"{n} constants, and {apart} of memory, time, words and input, each with its meaning")
        return 1 if wrong else 0
    if how == "--table":
        print("| constant | value | meaning | file |\n|---|---|---|---|")
        for f, c in every.items():
            for name, value, what in c:
                print(f"| `{name}` | {value} | {what.replace('|', ' ')} | {pathlib.Path(f).name} |")
    else:
        for f, c in sorted(every.items(), key=lambda row: -len(row[1])):
            print(f"{len(c):4d}  {f}")
    print(f"{n} constants that fits depend on, and {apart} of memory, time, words and input, in {len(every)} files", file=sys.stderr if how == "--table" else sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main((sys.argv[1:] or [""])[0]))
