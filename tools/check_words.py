#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The library does not speak the language of the command line: below src/app, string literals name no option ("--method") and no command
("atvi check"). Advice belongs in src/app/advice.c, keyed by the code of a message. docs/messages.md has every code and that advice, and the tables
of Python and R have no other codes.

check_words.py [TOP]        checks src/ and include/ under TOP (default: the repository)
check_words.py --self-test  proves on made-up trees that it can fail
"""
import pathlib
import re
import sys
import tempfile

sys.dont_write_bytecode = True
from check_layers import ROW, module_of  # noqa: E402

OPTION = re.compile(r"(?<![\w-])--[a-z]")
# The style sheet has variables that look like options.
STYLES = {"src/report/page_assets.c"}
TOKEN = re.compile(r"/\*.*?\*/|//[^\n]*|'(?:[^'\\\n]|\\.)'|\"((?:[^\"\\\n]|\\.)*)\"", re.S)
JOINT = re.compile(r"\s*(?:/\*.*?\*/\s*)*", re.S)


def literals(text):
    """(line, string): adjacent literals are one, as for the compiler."""
    whole, line, end = None, 0, 0
    for match in TOKEN.finditer(text):
        if match[1] is None:
            continue
        if whole is not None and JOINT.fullmatch(text[end:match.start()]):
            whole += match[1]
        else:
            if whole is not None:
                yield line, whole
            whole, line = match[1], text.count("\n", 0, match.start()) + 1
        end = match.end()
    if whole is not None:
        yield line, whole


def commands(top):
    return sorted(f.stem[4:] for f in (top / "cli").glob("cmd_*.c"))


def check(top):
    """(how many literals, complaints)"""
    command = re.compile(rf"\batvi (?:{'|'.join(commands(top))})\b")
    count, wrong = 0, []
    for file in sorted(f for d in ("src", "include") for f in (top / d).rglob("*.[ch]")):
        here = file.relative_to(top)
        if ROW.get(module_of(here), 0) >= ROW["app"] or str(here) in STYLES:
            continue
        for line, text in literals(file.read_text(errors="replace")):
            count += 1
            for found in (OPTION.search(text), command.search(text)):
                if found:
                    wrong.append(f"{here}:{line}: '{text[max(found.start() - 20, 0):found.end() + 20]}' is for the command line")
    return count, wrong + check_codes(top)


def entries(top, name, pattern):
    """{code: text} of a table; empty if there is no such file."""
    file = top / name
    text = file.read_text(errors="replace") if file.exists() else ""
    return {key: re.sub(r'"\s*"', "", said) for key, said in re.findall(pattern, text)}


def check_codes(top):
    code = entries(top, "src/core/message.c", r'\[(ATVI_CODE_\w+)\] = "([a-z-]+)"')
    row = entries(top, "docs/messages.md", r"(?m)^\| `([a-z-]+)` \|[^|]*\| ?(.*?) ?\|$")
    advice = entries(top, "src/app/advice.c", r'\[(ATVI_CODE_\w+)\] =\s*"((?:[^"\\]|"\s*")*)",')
    wrong = [f"docs/messages.md: {name} is missing" for name in code.values() if name not in row]
    wrong += [f"docs/messages.md: {name} has '{row.get(name)}', want '{said}'" for key, said in advice.items()
              if row.get(name := code.get(key)) != said]
    wrong += [f"docs/messages.md: {name} is not a code" for name in row if name not in code.values()]
    for file, pattern in (("python/atvi/density.py", r'(?m)^    "([a-z-]+)": (.*),$'), ("r/R/density.R", r'(?m)^  "([a-z-]+)" = (.*)[,)]$')):
        wrong += [f"{file}: {name} is not a code" for name in entries(top, file, pattern) if name not in code.values()]
    return wrong


def self_test():
    """(what is written, how many complaints it must give)"""
    base = {"cli/cmd_run.c": "", "cli/cmd_check.c": ""}
    cases = [
        ({"src/infer/a.c": 'say("use --method ram");'}, 1),
        ({"src/core/a.c": "say(\"'atvi check' says why\");"}, 1),
        ({"src/sim/a.c": 'say("do them again with atvi " /* torn */\n    "run --retry-failed");'}, 2),
        ({"include/atvi/a.h": '#define HINT "--force"'}, 1),
        ({"src/report/page_assets.c": '"--paper:#fff"'}, 0),
        ({"src/app/a.c": 'say("use --method ram, or atvi check");', "cli/a.c": 'say("--force")'}, 0),
        ({"src/lang/a.c": '/* "--method" */ // "atvi run"\nsay("a -- b, x--y, atvi runs, solver stiff"); char c = \'"\'; say("--- ");'}, 0),
        ({"src/core/message.c": '[ATVI_CODE_RHAT] = "rhat",', "docs/messages.md": "| `rhat` | apart | |"}, 0),
        ({"src/core/message.c": '[ATVI_CODE_RHAT] = "rhat",'}, 1),
        ({"src/core/message.c": '[ATVI_CODE_RHAT] = "rhat",', "docs/messages.md": "| `rhat` | apart | Wait. |",
          "src/app/advice.c": '[ATVI_CODE_RHAT] = "Run "\n "longer.",'}, 1),
        ({"docs/messages.md": "| `gone` | once | |", "r/R/density.R": '  "gone" = "Wait.")', "python/atvi/density.py": '    "gone": "Wait.",'}, 3),
    ]
    failed = 0
    for extra, want in cases:
        with tempfile.TemporaryDirectory() as folder:
            top = pathlib.Path(folder).resolve()
            for name, text in {**base, **extra}.items():
                (top / name).parent.mkdir(parents=True, exist_ok=True)
                (top / name).write_text(text + "\n")
            _, wrong = check(top)
        if len(wrong) != want:
            failed += 1
            print(f"self-test: {extra} gives {wrong}, want {want} complaints")
    return failed


def main(args):
    if args == ["--self-test"]:
        return 1 if self_test() else 0
    top = pathlib.Path(args[0] if args else pathlib.Path(__file__).parent.parent).resolve()
    count, wrong = check(top)
    print(*wrong, sep="\n", end="\n" if wrong else "")
    print(f"words: {count} strings, {len(wrong)} complaints")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
