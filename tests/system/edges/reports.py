#!/usr/bin/env python3
"""What reports make of strange programs (cases 83-88): names of 64 KiB and of bytes that are no
UTF-8, paths with spaces and newlines, files that are gone or larger than 4 GiB, addresses in no
function, empty traces."""
import csv
import io
import json
import os
import shutil
import struct
import subprocess

from edges import case, main
from whole import Outcome, environment, run, skip

SIZE = 4801
csv.field_size_limit(1 << 30)
REPORTS = [
    "heatmap", "sites", "objects", "flat", "hierarchical", "threads", "timeline", "peak", "leaks",
    "temporary", "histogram", "hot", "cold", "unused", "sharing", "locality", "access-mix",
    "watched", "mappings", "processes", "losses", "regions", "marks"
]

PROGRAM = """
#include <stdlib.h>
__attribute__((noinline)) void *fill(int n) __asm__("NAME");
void *fill(int n)
{
	void *block = malloc(4801);
	return n > 1 ? fill(n - 1) : block;
}
int main(void) { return fill(20) == 0; }
"""


def build(edge, name, path, *options):
    """A program whose allocating function has a name of that many or such bytes."""
    plain = os.path.join(edge.folder, "plain")
    words = os.path.join(edge.folder, "words")  # a line of arguments has at most 128 KiB
    with open(words, "wb") as file:
        file.write(b"shelf " + name + b"\n")
    source = PROGRAM.replace("NAME", "shelf")
    for command in [[
            "cc", "-x", "c", "-", "-o", plain, "-O1", "-fno-builtin", "-Wl,--build-id", *options
    ], ["objcopy", "--redefine-syms", words, plain, path]]:
        done = subprocess.run(command, input=source.encode(), capture_output=True,
                              env=environment(), check=False)
        if done.returncode:
            skip(f"{command[0]}: {done.stderr[-300:]!r}")
    return path


def frames(traced, text=True):
    """Functions that allocated the blocks: as text, or as bytes."""
    if not text:
        traced.database.text_factory = bytes
    rows = traced.ask(
        "SELECT DISTINCT frame.function FROM allocation JOIN stack ON stack.id = stack_id"
        " JOIN frame ON frame.id = stack.frame_id WHERE size = ?", SIZE)
    return [function for (function,) in rows]


EXPORTS = ["folded", "pprof", "chrome", "callgrind", "heaptrack-csv", "csv", "json"]


def ask_everything(edge, path, name=None):
    """Every report and export of a database works, and its output is what its format says."""
    for report in REPORTS:
        for form in ["text", "csv", "json"]:
            done = subprocess.run([edge.memsight, "report", path, "--" + report, "--format", form],
                                  capture_output=True, check=False, env=environment())
            edge.that(done.returncode == 0, f"--{report} --format {form}: {done.stderr[-300:]!r}")
            try:
                # A table of text or of csv holds the bytes of names; JSON has none but UTF-8.
                text = done.stdout.decode(errors="strict" if form == "json" else "replace")
                if form == "json":
                    json.loads(text)
                if form == "csv":
                    widths = {len(row) for row in csv.reader(io.StringIO(text))}
                    edge.that(len(widths) <= 1, f"--{report}: rows of {widths} columns")
            except ValueError as error:
                edge.that(False, f"--{report} --format {form}: {error}")
    for form, more in [(form, more) for more in [[], ["--full-names"]] for form in EXPORTS]:
        done = subprocess.run(
            [edge.memsight, "export", path, "--format", form, *more, "-o", path + ".out",
             "--force"], capture_output=True, check=False, env=environment())
        edge.that(done.returncode == 0, f"export {form}: {done.stderr[-300:]!r}")
        if form in ["chrome", "json"]:
            with open(path + ".out", encoding="utf-8") as file:
                json.load(file)
        if form == "folded" and more and name:
            with open(path + ".out", encoding="utf-8", errors="replace") as file:
                edge.that(any(name in line for line in file),
                          f"export folded has no {name[:40]}...")


@case
def names_of_64_kib_are_whole_in_every_report(edge):
    name = "shelf_" + "x" * 65530
    traced = edge.compare([build(edge, name.encode(), os.path.join(edge.folder, "long"))],
                          ["--source", "none"])
    edge.that(
        frames(traced) == [name],
        f"{[len(function or '') for function in frames(traced)]} characters")
    ask_everything(edge, traced.path, name)


@case
def names_that_are_no_utf_8_spoil_no_report(edge):
    """Tables hold the bytes as they are; JSON and what others read as UTF-8 has signs in place of
    them."""
    name = b"shelf_\xff\xfe\xe2\x82_x"
    folder = os.path.join(edge.folder.encode(), b"no \xff utf")
    os.mkdir(folder)
    program = build(edge, name, folder + b"/pro\xc3gram")
    traced = edge.compare([os.fsdecode(program)], ["--source", "none"])
    ask_everything(edge, traced.path)
    found = frames(traced, text=False)
    edge.that(found == [name], f"{found}")
    paths = [path for (path,) in traced.ask("SELECT DISTINCT exe FROM process")]
    edge.that(program in paths, f"{paths}")


@case
def paths_with_spaces_and_newlines_are_paths(edge):
    folder = os.path.join(edge.folder, "a folder\nof two lines; \"quoted\", 'too'\\")
    os.mkdir(folder)
    program = build(edge, b"shelf", os.path.join(folder, "a program\tof\nours"), "-g")
    traced = edge.compare([program], ["--source", "none"], cwd=folder)
    edge.that(frames(traced) == ["fill"], f"{frames(traced)}")
    edge.that(
        traced.one("SELECT exe FROM process") == program, traced.one("SELECT exe FROM process"))
    ask_everything(edge, traced.path, "fill")
    # And the trace itself lies there.
    trace = os.path.join(folder, "a trace\n.mst")
    run([edge.memsight, "record", "-q", "--source", "none", "-o", trace, "--", program])
    ask_everything(edge, trace)


SELF_REMOVER = PROGRAM.replace("int main(void) {", """
#include <stdio.h>
#include <unistd.h>
int main(int n, char **words) { if (n > 1 ? rename(words[1], words[0]) : unlink(words[0])) return 9;
""").replace("NAME", "fill")


@case
def a_program_that_is_deleted_while_it_runs_is_named(edge):
    program = edge.compile(SELF_REMOVER, "-O1", "-fno-builtin", "-Wl,--build-id")
    kept = program + ".kept"
    shutil.copy(program, kept)
    traced = edge.record([program], ["--source", "none"])
    edge.that(traced.outcome.status == 0 and frames(traced) == [None], f"{frames(traced)}")
    text = run([edge.memsight, "report", traced.path])
    edge.that(
        f"{program} is not on this machine" in text
        or f"{program} (deleted) is not on this machine" in text, text)
    # Another copy takes its place: the build-id tells that it is the same.
    os.rename(kept, program)
    second = program + ".second"
    shutil.copy(program, second)
    traced = edge.record([program, second], ["--source", "none"])
    edge.that(frames(traced) == ["fill"], f"replaced by itself: {frames(traced)}")


def move_behind(path, goal):
    """Move the section headers and all sections that are not loaded behind `goal` bytes of a 64-bit
    file."""
    with open(path, "r+b") as file:
        head = bytearray(file.read(64))
        (offset,) = struct.unpack_from("<Q", head, 40)
        size, n = struct.unpack_from("<HH", head, 58)
        file.seek(offset)
        table = bytearray(file.read(size * n))
        at = goal
        for i in range(n):
            _, kind, flags, _, start, length = struct.unpack_from("<IIQQQQ", table, i * size)
            if kind in (0, 8) or flags & 2:
                continue
            file.seek(start)
            content = file.read(length)
            file.seek(at)
            file.write(content)
            struct.pack_into("<Q", table, i * size + 24, at)
            at += (length + 63) // 64 * 64
        file.seek(at)
        file.write(table)
        struct.pack_into("<Q", head, 40, at)
        file.seek(0)
        file.write(head)


@case
def a_program_of_more_than_4_gib_has_its_names(edge):
    """Symbols, lines and section headers lie behind 5 GiB of nothing."""
    program = build(edge, b"shelf", os.path.join(edge.folder, "large"), "-g")
    try:
        move_behind(program, 5 << 30)
    except OSError as error:
        skip(f"no file of 5 GiB: {error}")
    if os.stat(program).st_blocks * 512 > 1 << 30:
        skip("this file system makes no holes")
    traced = edge.compare([program], ["--source", "none"])
    edge.that(frames(traced) == ["fill"], f"{frames(traced)}")
    lines = traced.one(
        "SELECT count(*) FROM frame_line WHERE function = 'fill' AND line IS NOT NULL")
    edge.that(lines >= 1, "lines")


NO_RETURN = """
#include <stdlib.h>
__attribute__((noinline, noreturn)) static void leave(void) { exit(malloc(4801) == 0); }
__attribute__((noinline)) void first(void) { leave(); }
__attribute__((noinline)) void second(void) { __asm__ volatile(""); }
int main(void) { first(); second(); return 1; }
"""


@case
def a_call_at_the_end_of_a_function_is_that_function_s(edge):
    """The return address lies in the next function, or behind all of them."""
    program = edge.compile(NO_RETURN, "-O1", "-fno-builtin", "-fno-reorder-functions",
                           "-fno-toplevel-reorder")
    traced = edge.compare([program], ["--source", "none"])
    rows = traced.ask(
        """
        WITH RECURSIVE path(id, depth, parent_id, frame_id) AS (
            SELECT stack.id, 0, parent_id, frame_id FROM allocation JOIN stack ON stack.id =
                stack_id WHERE size = ?
            UNION ALL SELECT stack.id, path.depth + 1, stack.parent_id, stack.frame_id FROM path
            JOIN stack ON stack.id = path.parent_id)
        SELECT function FROM path JOIN frame ON frame.id = frame_id ORDER BY path.depth""", SIZE)
    names = [function for (function,) in rows][:3]
    edge.that(names == ["leave", "first", "main"], f"{names}")


GENERATED = """
#include <stdlib.h>
#include <string.h>
__asm__(".text\\n.globl sized\\n.type sized, @function\\n"
	"sized:\\n\\tsub $8, %rsp\\n\\tcall *%rdi\\n"
	"\\tadd $8, %rsp\\n\\tret\\n"
	".size sized, . - sized\\n"
	"nobody:\\n\\tsub $8, %rsp\\n\\tcall *%rdi\\n\\tadd $8, %rsp\\n\\tret\\n"
	".set nobody_s, nobody\\n");
void *sized(void *(*call)(void));
extern char nobody_s[];
static void *get(void) { return malloc(4801); }
int main(void)
{
	void *(*nameless)(void *(*call)(void));
	void *where = nobody_s;
	memcpy(&nameless, &where, sizeof(nameless));
	return sized(get) == 0 || nameless(get) == 0;
}
"""


@case
def an_address_behind_the_last_symbol_is_in_no_function(edge):
    """Code without a symbol lies right behind a function that has a size."""
    program = edge.compile(GENERATED, "-O1", "-fno-builtin")
    if not program:
        skip("no compiler")
    run(["objcopy", "--strip-symbol=nobody", "--strip-symbol=nobody_s", program])
    traced = edge.compare([program], ["--source", "none"])
    rows = traced.ask(
        "SELECT outer.function, count(*) FROM allocation JOIN stack ON stack.id = stack_id"
        " JOIN stack AS caller ON caller.id = stack.parent_id JOIN frame AS outer"
        " ON outer.id = caller.frame_id WHERE size = ? GROUP BY 1 ORDER BY 1", SIZE)
    edge.that(rows == [(None, 1), ("sized", 1)], f"{rows}")


LIBRARIES = """
#include <stdlib.h>
void *NAME(void) { return malloc(4801); }
"""
LOADER = """
#include <dlfcn.h>
#include <stdio.h>
int main(int n, char **words)
{
	void *(*get)(void);
	for (int i = 1; i < n; i += 2) {
		void *library = dlopen(words[i], RTLD_NOW);
		if (!library || !(get = (void *(*)(void))dlsym(library, words[i + 1])) || !get())
			return 1;
		printf("%p\\n", (void *)get);
		dlclose(library);
	}
	return 0;
}
"""


@case
def libraries_of_one_name_that_follow_each_other_are_told_apart(edge):
    """The second replaces the file of the first, and comes to the same address: what was there when
    counts."""
    loader = edge.compile(LOADER, "-O0", "-g")
    first, second = (edge.compile(LIBRARIES.replace("NAME", name), "-O1", "-g", "-shared", "-fPIC",
                                  "-fno-builtin", "-Wl,--build-id")
                     for name in ["apples", "pears_"])
    if not first or not loader:
        skip("no compiler")
    traced = edge.record([loader, first, "apples", second, "pears_", first, "apples"],
                         ["--source", "none"])
    places = traced.outcome.stdout.split()
    print("at the same address:", len(set(places)) == 1, places)
    rows = traced.ask(
        "SELECT frame.function, count(*) FROM allocation JOIN stack ON stack.id = stack_id"
        " JOIN frame ON frame.id = stack.frame_id WHERE size = ? GROUP BY 1 ORDER BY 1", SIZE)
    edge.that(rows == [("apples", 2), ("pears_", 1)], f"{rows}")


@case
def an_empty_trace_says_why_in_every_report(edge):
    """Nothing recorded, nothing in the window, and a program that cannot be recorded."""
    static = edge.compile("int main(void) { return 0; }", "-static", compiler="musl-gcc")
    nothing = edge.record(["true"], ["--no-alloc", "--source", "none"])
    window = edge.record([edge.victim("victim-calls"), "zeros"], ["--source", "none"])
    untraced = edge.record([static], ["--source", "none"]) if static else nothing
    needs_blocks = [
        "heatmap", "sites", "flat", "hierarchical", "peak", "timeline", "histogram", "temporary",
        "objects"
    ]
    for traced, options, reason in [(nothing, [], "--no-alloc"),
                                    (window, ["--from", "1000s"], "selection"),
                                    (untraced, [], "static" if static else "--no-alloc")]:
        for report in REPORTS:
            outcome = Outcome([edge.memsight, "report", traced.path, "--" + report, *options])
            text = outcome.stdout.decode()
            if "is of a whole run" in outcome.messages and options:
                continue
            edge.that(outcome.status == 0,
                      f"--{report} {options}: status {outcome.status}, {outcome.messages}")
            edge.that(len(text) > 10, f"--{report} {options} says nothing: {text!r}")
            if report in needs_blocks:
                edge.that(reason in text,
                          f"--{report} {options} gives another reason than {reason}: {text!r}")
    # --fail asks whether there is anything: there is not.
    outcome = Outcome([edge.memsight, "report", nothing.path, "--leaks", "--fail"])
    edge.that(outcome.status == 0, "--fail of an empty trace")


BLOCKS = {
    "sites": [], "objects": [
    ], "threads": ["blocks", "bytes", "frees", "freed by others", "not freed",
                   "temporary"], "regions": ["blocks", "bytes", "own bytes"], "processes": [],
    "timeline": ["live_bytes", "max_live_bytes", "allocations", "frees"]
}
FAULTS = ["sites", "objects", "threads", "regions", "timeline"]


def columns_without_a_source(edge, left_out):
    """Columns of what a run did not record are empty as csv, null as json and "-" as text; others
    have numbers."""
    def rows(database, report):
        return json.loads(
            run([edge.memsight, "report", database.path, "--" + report, "--format", "json"]))

    def check(database, reports, is_there, told):
        for report in reports:
            found = rows(database, report)
            for name in told(report):
                values = {row[name] is not None for row in found}
                edge.that(values <= {is_there},
                          f"{database.path}: {name} of --{report}: {values}, not {is_there}")
            edge.that(found or report == "regions" or not is_there,
                      f"--{report} of {database.path} has no row")

    calls = [edge.victim("victim-calls"), "zeros"]
    plain = edge.record(calls, ["--source", "none"])
    check(plain, BLOCKS, True, BLOCKS.get)
    check(plain, FAULTS, False, lambda _: ["faults"])
    sites = run([edge.memsight, "report", plain.path, "--sites"],
                env=environment(COLUMNS="400")).splitlines()
    place = sites[1].index("faults") + len("faults")
    edge.that(
        len(sites) > 3 and {line[:place].split()[-1]
                            for line in sites[2:4]} == {"-"}, f"{sites}")
    by_faults = [edge.memsight, "report", plain.path, "--flat", "--by", "faults"]
    edge.that("not recorded" in run(by_faults) and "0 in all" not in run(by_faults), run(by_faults))
    for database in [left_out, edge.record(calls, ["--source", "none", "--events", "mmap,threads"]),
                     edge.record(calls, ["--source", "none", "--sink", "null"])]:
        check(database, BLOCKS, False, BLOCKS.get)
        text = run([edge.memsight, "report", database.path])
        edge.that("allocations  not recorded: --" in text, text)
        outcome = Outcome([edge.memsight, "diff", plain.path, database.path])
        edge.that(outcome.status == 1 and "recorded no allocations (--" in outcome.messages,
                  outcome.messages)
    for metric, words in [("faults", "recorded no page faults"),
                          ("time", "recorded no samples of CPU time")]:
        outcome = Outcome([edge.memsight, "diff", plain.path, plain.path, "--by", metric])
        edge.that(outcome.status == 1 and words in outcome.messages, outcome.messages)
    faults = edge.record(calls, ["--source", "faults"])
    if faults.one("SELECT count(*) FROM source WHERE name = 'faults' AND error = 0"):
        check(faults, FAULTS, True, lambda _: ["faults"])


@case
def what_was_not_counted_is_not_told_as_none(edge):
    """Allocations that --no-alloc left out, faults of which one in 10 was sampled, and none at all.
    """
    left_out = edge.record([edge.victim("victim-calls"), "zeros"],
                           ["--no-alloc", "--source", "none"])
    told = Outcome(
        [edge.memsight, "record", "-o", edge.folder + "/told.mst", "--source", "none",
         "true"]).messages
    edge.that("0 lost" in told and "page faults" not in told, told)
    for report in [[], ["--sites"]]:
        text = run([edge.memsight, "report", left_out.path, *report])
        edge.that("not recorded" in text and "allocations  0" not in text, text)
    listed = run([edge.memsight, "report", left_out.path, "--list", "--format", "csv"]).splitlines()
    fields = dict(zip(listed[0].split(","), listed[1].split(",")))
    edge.that(fields["allocations"] == fields["peak"] == "", f"{fields}")
    outcome = Outcome([edge.memsight, "diff", left_out.path, left_out.path])
    said = outcome.stdout.decode()
    edge.that(outcome.status == 0 and "No allocations were recorded of either" in said, said)
    columns_without_a_source(edge, left_out)
    sampled = edge.record([edge.victim("victim-sampling"), "faults", "6000"],
                          ["--source", "faults@10"])
    if sampled.one("SELECT count(*) FROM source WHERE name = 'faults' AND error = 0"):
        text = run([edge.memsight, "report", sampled.path, "--objects"])
        edge.that("stands for 10 of them" in text, text)


@case
def reasons_of_losses_are_those_of_the_run(edge):
    """Two runs in one database: each says why its own stacks were cut short."""
    program = edge.compile(PROGRAM.replace("NAME", "fill"), "-O1", "-fno-builtin",
                           "-fomit-frame-pointer", "-fno-optimize-sibling-calls")
    if not program:
        skip("no compiler")
    traces = [os.path.join(edge.folder, name) for name in ["deep.mst", "fp.mst"]]
    run([
        edge.memsight, "record", "-q", "--source", "none", "--stack-depth", "4", "-o", traces[0],
        "--", program
    ])
    run([
        edge.memsight, "record", "-q", "--source", "none", "--stacks", "fp", "-o", traces[1], "--",
        program
    ])
    both = os.path.join(edge.folder, "both.db")
    run([edge.memsight, "analyze", "-o", both, *traces])
    for number in ["1", "2"]:
        alone = run([edge.memsight, "report", traces[int(number) - 1], "--losses"])
        found = run([edge.memsight, "report", both, "--run", number, "--losses"])
        hints = [[line for line in text.splitlines() if line.startswith("hint: stack cut short")]
                 for text in (alone, found)]
        edge.that(hints[0] == hints[1], f"run {number}: {hints[1]}, alone: {hints[0]}")
    edge.that("--stack-depth" in run([edge.memsight, "report", both, "--run", "1", "--losses"]),
              "the depth")


if __name__ == "__main__":
    main()
