"""schemas/view.def as a test reads it: which lists an answer has, and their columns."""
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[3]


def inside(text, start):
    """What stands between the parenthesis at start and its end."""
    depth = 0
    for at in range(start, len(text)):
        depth += (text[at] == "(") - (text[at] == ")")
        if depth == 0:
            return text[start + 1:at]
    raise SystemExit(f"schemas/view.def: no end of {text[start:start + 40]}")


def words_of(text):
    """Names of a list: commas part them, what stands in brackets behind a name explains it."""
    flat = text
    while re.search(r"\([^()]*\)|\[[^\[\]]*\]", flat):
        flat = re.sub(r"\([^()]*\)|\[[^\[\]]*\]", "", flat)
    return [word.split(":")[0].split()[0] for word in flat.split(",") if word.split(":")[0].split()]


def read():
    """{answer: {path of a list, "" of the answer itself: its columns}}"""
    text = (ROOT / "schemas/view.def").read_text(encoding="utf-8").split("*/", 1)[1]
    contract = {}
    for name, body in re.findall(r'VIEW\(\w+, "(\w+)", "[^"]*",\s*((?:"(?:[^"\\]|\\.)*"\s*)+)\)',
                                 text):
        what = "".join(re.findall(r'"((?:[^"\\]|\\.)*)"', body))
        lists = {match.group(1): words_of(inside(what, match.end() - 1))
                 for match in re.finditer(r"(\w+): columns(?: of \w+)? \(", what)}
        contract[name] = lists
    return contract


def problems(contract, name, answer):
    """What an answer lacks, as sentences; all lists of one length."""
    for path, columns in contract[name].items():
        table = answer.get(path)
        if table is None:
            yield f"{name} has no {path}"
            continue
        missing = set(columns) - set(table["columns"])
        if missing:
            yield f"{name}.{path} lacks {sorted(missing)}"
        wrong = [column for column, values in table["columns"].items() if len(values) != table["n"]]
        if wrong:
            yield f"{name}.{path}: not {table['n']} values in {wrong}"
