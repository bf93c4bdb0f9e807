#!/usr/bin/env python3
"""docs/edge-cases.md answers all 88 cases, the tests that it names are there, and at most 8 cases
are not applicable."""
import re

import tree

N_CASES = 88
MAX_NOT_APPLICABLE = 8
ANSWERS = {"tested", "refused", "not applicable"}
ROW = re.compile(r"^\| (\d+) \| (.+?) \| ([a-z ]+?) \| (.*?) ?\|$", re.MULTILINE)
REFERENCE = re.compile(r"`(\w+)/([\w-]+): ([\w-]+)`")


def is_test(folder, module, name):
    """A test of a C program (written and added to a suite), a case of a table in Python, a function
    or table there, or one that a meson.build gives as an argument."""
    return any(is_in(place, module, name) for place in (tree.ROOT / "tests").glob(f"*/{folder}"))


def is_in(place, module, name):
    source = place / f"test-{module}.c"
    if source.exists():
        text = source.read_text()
        return f"START_TEST({name})" in text and len(re.findall(rf"\b{name}\b", text)) >= 2
    scripts = [
        path for path in (place / f"{module}.py", place / f"check-{module}.py") if path.exists()
    ]
    build = (place / "meson.build").read_text() if (place / "meson.build").exists() else ""
    named = rf"""["']{re.escape(name)}["']|\bdef {re.escape(name)}\(|^{re.escape(name)} = """
    return bool(scripts) and any(re.search(named, text, re.MULTILINE) for text in
                                 (build, *(script.read_text() for script in scripts)))


def problems_of(number, answer, where):
    references = REFERENCE.findall(where)
    if answer not in ANSWERS:
        yield f"case {number}: '{answer}' is no answer"
    if answer == "not applicable":
        if len(where) < 20:
            yield f"case {number}: no reason why it is not applicable"
    elif not references:
        yield f"case {number}: names no test"
    if answer == "refused" and '"' not in where:
        yield f"case {number}: no message in quotes"
    for reference in references:
        if not is_test(*reference):
            yield f"case {number}: there is no test {'%s/%s: %s' % reference}"


def main():
    rows = ROW.findall((tree.ROOT / "docs/edge-cases.md").read_text())
    problems = []
    if [int(number) for number, *_ in rows] != list(range(1, N_CASES + 1)):
        problems.append(f"the rows are not 1 to {N_CASES}")
    for number, _, answer, where in rows:
        problems += problems_of(number, answer, where)
    n_none = sum(answer == "not applicable" for _, _, answer, _ in rows)
    if n_none > MAX_NOT_APPLICABLE:
        problems.append(f"{n_none} cases are not applicable, at most {MAX_NOT_APPLICABLE}")
    counts = ", ".join(f"{sum(answer == found for _, _, answer, _ in rows)} {found}"
                       for found in sorted(ANSWERS))
    tree.finish(problems, f"{len(rows)} cases ({counts})")


main()
