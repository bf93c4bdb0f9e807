"""Numbers and moments of axes are the same in the terminal, in print and on the page.
argument: the program print-numbers."""
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[3]
HERE = pathlib.Path(__file__).parent
N_RANDOM = 4000


def whole(dice, digits=15):
    return int(10 ** dice.uniform(0, digits))


def share_with_ends(dice):
    share = dice.choice([dice.random(), dice.random() ** 6, 0, 1])
    half = dice.random() ** 4
    return share, max(share - half, 0), min(share + half * dice.random(), 1)


def random_line(dice):
    start = whole(dice, 13)
    return dice.choice([
        ("count", whole(dice)),
        ("bytes", dice.choice([whole(dice), 128 * whole(dice, 7), 1 << dice.randrange(50)])),
        ("duration", dice.choice([whole(dice), 125 * whole(dice, 7)])),
        ("interval", start, start + whole(dice, 12)),
        ("percent", dice.choice([dice.random(), dice.randrange(2000) / 2000])),
        ("share", *share_with_ends(dice)),
        ("share", "nan", dice.random() / 2, 0.5 + dice.random() / 2),
        ("ticks", start, start + 10 + whole(dice, 12), dice.randint(3, 20)),
    ])  # fmt: skip


def lines_to_print():
    dice = random.Random(16)
    edges = [0, 1, 9, 99, 999, 1000, 1023, 1024, 10234, 10240, 102349, 102400, 1047552, 1048063,
             999499, 999500, 119499999999, 119500000000, 3600000000000]  # fmt: skip
    rows = [(kind, value) for kind in ("count", "bytes", "duration") for value in edges]
    rows += [("percent", "nan"), ("share", 0, 0, 0.0051), ("share", 0, 0, 0.00001),
             ("share", 0, 0, 0.5), ("share", 0.999, 0.997, 1), ("interval", 1000, 2000),
             ("interval", 0, 0)]  # fmt: skip
    rows += [random_line(dice) for _ in range(N_RANDOM)]
    return [" ".join(map(str, (*row, 0, 0, 0)[:4])) for row in rows]


def printed(command, lines):
    text = "\n".join(lines) + "\n"
    done = subprocess.run(command, input=text, text=True, capture_output=True, check=True)
    return done.stdout.split("\n")[:-1]


def page_modules(folder):
    """The two modules, where node finds them without the page's map of names."""
    for source in ("core/format.js", "map/axis.js"):
        text = (ROOT / "view/web" / source).read_text(encoding="utf-8")
        name = pathlib.Path(source).stem + ".mjs"
        (folder / name).write_text(text.replace('"memsight/format"', '"./format.mjs"'))


def main():
    node = shutil.which("node")
    if not node:
        print("skipped: node is not installed (Debian: nodejs)")
        return 77
    lines = lines_to_print()
    with tempfile.TemporaryDirectory() as folder:
        page_modules(pathlib.Path(folder))
        terminal = printed([sys.argv[1]], lines)
        page = printed([node, str(HERE / "page-numbers.mjs"), folder], lines)
    differing = [row for row in zip(lines, terminal, page) if row[1] != row[2]]
    for line, ours, theirs in differing[:20]:
        print(f"{line}: {ours!r} in the terminal, {theirs!r} on the page")
    complete = len(terminal) == len(page) == len(lines)
    missing = "" if complete else ", lines missing"
    print(f"{len(lines)} numbers, {len(differing)} differ{missing}")
    return 1 if differing or not complete else 0


sys.exit(main())
