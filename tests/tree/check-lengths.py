#!/usr/bin/env python3
"""Files, functions, parameter lists and lines stay short. A function's braces stand in the first
column, which check-format.py sees to."""
import pathlib
import re

import tree

MAX_FILE_LINES = 900
MAX_MODULE_LINES = 400  # of the page
MAX_FUNCTION_LINES = 100
MAX_PARAMETERS = 5
MAX_COLUMNS = 100  # with tabs of 8; clang-format breaks neither strings nor comments
HAND_WRITTEN = (*tree.PARTS, "include", "bench", "examples", "tests", "schemas")
KINDS = (".c", ".h", ".cc", ".cpp", ".f90", ".def", ".sql", ".js", ".css", ".html", ".py", ".sh",
         ".build")
# The parameters are sqlite's, libdwfl's, process_vm_readv's.
GIVEN = {"feed_connect", "table_connect", "debug_file_find", "process_read",
         "find_nothing", "find_module_file"}


def functions_of(lines):
    """(first line, lines, signature) of each function: a brace alone in column 1 up to its end."""
    start = None
    for number, line in enumerate(lines):
        if line == "{":
            start = number
        elif line == "}" and start is not None:
            head = start
            while head > 0 and lines[head - 1] and lines[head - 1][0] not in "}#*/":
                head -= 1
            yield head + 1, number - head + 1, " ".join(lines[head:start])
            start = None


def count_parameters(signature):
    """Commas at the outermost level of the last parameter list."""
    signature = re.sub(r"/?\*.*?\*/", "", signature)
    opened = re.search(r"\w+\s*\(", signature)
    if not opened:
        return 0
    depth, commas, text = 1, 0, ""
    for letter in signature[opened.end():]:
        depth += (letter == "(") - (letter == ")")
        if depth == 0:
            break
        commas += letter == "," and depth == 1
        text += letter
    return 0 if text.strip() in ("", "void") else commas + 1


def problems_of(path, lines, lengths):
    if len(lines) > MAX_FILE_LINES:
        yield f"{path}: {len(lines)} lines, at most {MAX_FILE_LINES}"
    for first, length, signature in functions_of(lines):
        lengths.append(length)
        if length > MAX_FUNCTION_LINES:
            yield f"{path}:{first}: function of {length} lines, at most {MAX_FUNCTION_LINES}"
        n = count_parameters(signature)
        # mmap has six; what stands in for it or for a callback (void *user) has what it must.
        is_given = "(void *user" in signature or any(name in signature for name in GIVEN)
        is_given |= path.parts[0] in ("tracealloc", "heap", "tests")
        if n > MAX_PARAMETERS and not is_given:
            yield f"{path}:{first}: {n} parameters, at most {MAX_PARAMETERS}: {signature.strip()}"


def hand_written_files():
    """What people write by hand but prose: sources, the page, scripts, and how it is built."""
    files = tree.sources(*KINDS, folders=HAND_WRITTEN)
    yield from (path for path in files if "vendor" not in path.parts)
    yield from (path for path in tree.sources("", ".ini", ".py", folders=("scripts",))
                if (tree.ROOT / path).is_file())
    yield from map(pathlib.Path, ("meson.build", "meson_options.txt", "docs/meson.build"))


def wide_lines():
    """Lines above MAX_COLUMNS."""
    for path in hand_written_files():
        lines = (tree.ROOT / path).read_text().split("\n")
        yield from (f"{path}:{number}: more than {MAX_COLUMNS} columns"
                    for number, line in enumerate(lines, 1)
                    if len(line.expandtabs(8)) > MAX_COLUMNS)


def main():
    problems, lengths = list(wide_lines()), []
    files = tree.sources(".c", ".h", ".py", ".sh")  # a schema is a list, as options.def
    for path in files:
        lines = (tree.ROOT / path).read_text().split("\n")
        problems += problems_of(path, lines, lengths)
    for path in (path for path in tree.sources(".js") if "vendor" not in path.parts):
        n_lines = (tree.ROOT / path).read_text().count("\n")
        if n_lines > MAX_MODULE_LINES:
            problems.append(f"{path}: {n_lines} lines, at most {MAX_MODULE_LINES}")
    shares = ", ".join(f"{100 * sum(n <= most for n in lengths) / len(lengths):.0f} % within {most}"
                       for most in (20, 40, 60))
    tree.finish(problems, f"{len(files)} files, {len(lengths)} functions ({shares})")


main()
