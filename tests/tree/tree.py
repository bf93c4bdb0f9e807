"""What the checks of the source tree share. Each check is a program: it prints what is wrong and
exits with 0, 1, or 77 (cannot be checked here)."""
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]

# The parts of the house, and what each may include.
MAY_INCLUDE = {
    "common": {"common", "schemas"},
    "tracealloc": {"tracealloc", "include", "common", "schemas"},
    "heap": {"heap", "schemas"},
    "pmu": {"pmu", "common", "schemas"},
    "decode": {"decode", "common", "schemas"},
    "runner": {"runner", "pmu", "decode", "common", "schemas"},
    "analyze": {"analyze", "decode", "pmu", "common", "schemas"},
    "cli": {"cli", "runner", "analyze", "common", "schemas"},
    "schemas": {"schemas"},
}


def sources(*suffixes, folders=(*MAY_INCLUDE, "include", "tests", "bench", "examples")):
    """Files of the tree with one of these suffixes, as paths relative to its root."""
    found = [path.relative_to(ROOT) for folder in folders
             for path in sorted((ROOT / folder).rglob("*")) if path.suffix in suffixes]
    if not found:
        print(f"no {suffixes} under {ROOT}: the check would pass without checking anything")
        sys.exit(1)
    return found


def finish(problems, checked):
    """Print the problems and exit; `checked` says how much was looked at."""
    for problem in problems:
        print(problem)
    print(f"{checked}: {len(problems)} wrong")
    sys.exit(1 if problems else 0)


def skip(reason):
    print(f"skipped: {reason}")
    sys.exit(77)
