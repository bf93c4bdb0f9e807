"""What the checks of the source tree share. Each check is a program: it prints what is wrong and
exits with 0, 1, or 77 (cannot be checked here)."""
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]

# The rooms of the house, from the ground up, and what each may include beside itself and schemas.
# A star stands for all rooms below; where it names the own part, its rooms are not in order yet.
MAY_INCLUDE = {
    "schemas": "",
    "common": "",
    "perf": "common",
    "trace": "common perf",
    "pmu": "common perf pmu/catalogue pmu/sources",
    "pmu/catalogue": "common pmu",
    "pmu/sources": "common perf pmu pmu/catalogue",
    "decode": "decode/x86",
    "decode/x86": "decode",
    "decode/hardware": "perf decode",
    "runner": "common trace pmu runner/*",
    "runner/agent": "common runner/launch runner/processes",
    "runner/attach": "common runner/launch runner/processes",
    "runner/control": "common",
    "runner/host": "common include pmu pmu/catalogue runner runner/launch runner/placement "
                   "runner/processes",
    "runner/launch": "common runner/placement runner/processes",
    "runner/placement": "common runner runner/launch",
    "runner/processes": "common trace perf pmu runner runner/attach runner/control runner/ring "
                        "runner/sampling runner/watch",
    "runner/ring": "common trace",
    "runner/sampling": "common trace perf pmu pmu/sources decode decode/hardware runner "
                       "runner/processes runner/watch",
    "runner/watch": "common trace perf pmu pmu/sources runner runner/processes runner/ring "
                    "runner/sampling",
    "series": "common runner runner/host",
    "store": "common trace store/compact",
    "store/columns": "trace",
    "store/compact": "common trace store store/columns",
    "store/totals": "common perf store store/columns",
    "store/heatmap": "common perf store store/columns store/compact store/totals",
    "store/selection": "common store store/columns store/compact store/totals",
    "store/summaries": "common store store/columns store/heatmap",
    "analyze/symbols": "common",
    "analyze/functions": "common decode/x86 analyze/symbols",
    "analyze/archive": "common trace perf analyze/symbols",
    "analyze/input": "common trace analyze/input/heimdallr",
    "analyze/input/perf-data": "common trace perf decode analyze/input",
    "analyze/input/heimdallr": "common trace perf analyze/input analyze/input/perf-data",
    "analyze/process": "common trace store analyze/symbols",
    "analyze/live": "common trace store store/totals analyze/input analyze/live/guesses "
                    "analyze/live/pages analyze/process analyze/symbols",
    "analyze/live/guesses": "common store analyze/live analyze/process",
    "analyze/live/pages": "common trace store analyze/live analyze/process",
    "analyze/samples":
        "common trace perf decode decode/hardware store store/totals analyze/input analyze/live"
        " analyze/process analyze/symbols analyze/samples/code",
    "analyze/samples/code": "common trace decode analyze/process analyze/samples analyze/symbols",
    "analyze": "common trace decode store store/* analyze/*",
    "report/text": "common perf store",
    "report/callgraph": "common store report/text",
    "report/chart": "common store store/heatmap store/summaries report/text",
    "report": "common store store/heatmap report/callgraph report/chart store/selection "
              "report/text",
    "report/check": "common store report report/callgraph report/diff report/text",
    "report/diff": "common store report report/callgraph report/text",
    "report/export": "common store report/callgraph report/text",
    "report/plot": "common store report report/callgraph report/chart report/text",
    "view": "common store store/compact store/heatmap report store/selection report/text",
    "view/answers": "common store store/columns store/compact store/heatmap report "
                    "report/callgraph report/diff store/selection report/text view",
    "view/server": "common store store/heatmap report/text view view/answers",
    "cli": "common trace runner runner/* series store store/* analyze analyze/* report report/* "
           "view view/server cli/options cli/top copy",
    "cli/options": "cli common runner runner/* series store store/* analyze analyze/* report "
                   "report/*",
    "cli/generate": "cli/options",
    "cli/top": "cli cli/options common runner/control runner/processes analyze/symbols store "
               "report/text view view/server",
    "copy": "common",
    "heap": "tracealloc/arch",
    "tracealloc": "common include tracealloc/*",
    "tracealloc/agent": "tracealloc tracealloc/*",
    "tracealloc/arch": "",
    "tracealloc/hooks": "common tracealloc tracealloc/*",
    "tracealloc/ring": "tracealloc tracealloc/arch tracealloc/stack",
    "tracealloc/stack": "tracealloc tracealloc/*",
}
PARTS = tuple(dict.fromkeys(room.split("/")[0] for room in MAY_INCLUDE))


def room_of(path):
    """The folder of a file where it is a room of its own, else the one above."""
    folder = pathlib.PurePath(path).parent
    while str(folder) not in MAY_INCLUDE and folder.parts:
        folder = folder.parent
    return str(folder)


def may_include(room, target):
    """Whether a file of one room may include one of another."""
    named = MAY_INCLUDE.get(room, "").split()
    return target in (room, "schemas", *named) or any(
        name.endswith("/*") and target.startswith(name[:-1]) for name in named)


def sources(*suffixes, folders=(*PARTS, "include", "tests", "bench", "examples")):
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
