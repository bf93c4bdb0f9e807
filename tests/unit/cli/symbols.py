#!/usr/bin/env python3
"""Where names of functions and lines come from when the recorded program is not where it was.
Arguments: memsight."""
import functools
import http.server
import os
import shutil
import subprocess
import sys
import threading

import whole

MEMSIGHT = os.path.abspath(sys.argv[1])
CASES = []

SOURCE = """
#include <stdlib.h>
namespace shop {
struct Shelf {
	__attribute__((noinline)) void *fill(int n);
};
void *Shelf::fill(int n)
{
	void *block = malloc(4801); /* the line of the block */
	return n > 1 ? fill(n - 1) : block;
}
}
int main() { return shop::Shelf().fill(20) == 0; }
"""
HOT = """
#include <stdio.h>
static volatile unsigned cells[100000];
int main()
{
	for (int round = 0; round < 1500; round++)
		for (int i = 0; i < 100000; i++)
			cells[i] += round;
	return fflush(stdout);
}
"""
LINE = 1 + SOURCE.splitlines().index("\tvoid *block = malloc(4801); /* the line of the block */")


def case(function):
    CASES.append(function)
    return function


class Shop(whole.Checks):
    """A program, recorded, whose file and debug file can be moved about."""

    def __init__(self, folder, source=SOURCE, words=()):
        super().__init__()
        self.folder = folder
        self.program = os.path.join(folder, "machine", "usr", "bin", "shop")
        self.trace = os.path.join(folder, "shop.mst")
        os.makedirs(os.path.dirname(self.program))
        self.compile(source, self.program, words)
        self.whole = os.path.join(folder, "whole")
        shutil.copy(self.program, self.whole)
        whole.run(
            [MEMSIGHT, "record", "-q", "--source", "none", "-o", self.trace, "--", self.program])
        text = subprocess.run(["readelf", "-n", self.program], stdout=subprocess.PIPE, text=True,
                              check=True).stdout
        self.build_id = text.split("Build ID: ")[1].split()[0]

    def compile(self, source, path, words=()):
        compiler = shutil.which("c++")
        if not compiler or not shutil.which("objcopy") or not shutil.which("readelf"):
            whole.skip("no C++ compiler, or no objcopy and readelf (binutils)")
        done = subprocess.run([
            compiler, "-g", "-O1", "-fno-builtin", "-Wl,--build-id", "-x", "c++", "-", "-o", path,
            *words
        ], input=source, text=True, check=False, env=whole.environment(), capture_output=True)
        if done.returncode:
            whole.skip(done.stderr)

    def split(self, debug_file, link=None):
        """Strip the program; its debug information goes to debug_file."""
        os.makedirs(os.path.dirname(debug_file), exist_ok=True)
        whole.run(["objcopy", "--only-keep-debug", self.whole, debug_file])
        add = [f"--add-gnu-debuglink={debug_file}"] if link else []
        whole.run(["objcopy", "--strip-all", *add, self.whole, self.program])

    def analyze(self, *options, env=None):
        """Analyse anew: the block's innermost frame, and what was said of it."""
        path = os.path.join(self.folder, "shop.db")
        if os.path.exists(path):
            os.unlink(path)
        self.outcome = whole.Outcome([MEMSIGHT, "analyze", "-o", path, *options, self.trace],
                                     env=env or whole.environment(), cwd=self.folder)
        self.that(self.outcome.status == 0, f"analyze {options}: {self.outcome.messages}")
        self.db = whole.Database(path)
        return self.db.ask(
            "SELECT DISTINCT frame.function, line FROM allocation JOIN stack ON stack.id = stack_id"
            " JOIN frame ON frame.id = stack.frame_id LEFT JOIN frame_line ON frame_line.frame_id "
            "= frame.id"
            " AND frame_line.depth = 0 WHERE allocation.size = 4801")

    def must_give(self, expected, what, *options, env=None):
        found = self.analyze(*options, env=env)
        self.that(found == expected, f"{what}: {found}, not {expected}; {self.outcome.messages}")


NAMED = [("shop::Shelf::fill(int)", LINE)]
NOTHING = [(None, None)]


@case
def a_program_that_is_where_it_was_needs_nothing(shop):
    shop.must_give(NAMED, "in place")
    shop.that(shop.outcome.messages == "", shop.outcome.messages)


@case
def a_debug_file_is_found_by_build_id(shop):
    debug = os.path.join(shop.folder, "debug")
    shop.split(os.path.join(debug, ".build-id", shop.build_id[:2], shop.build_id[2:] + ".debug"))
    shop.must_give(NOTHING, "stripped")
    shop.must_give(NAMED, "--debug-dir", "--debug-dir", "/usr/lib", "--debug-dir", debug)
    # Also when the program itself is gone.
    os.unlink(shop.program)
    shop.must_give(NOTHING, "gone")
    shop.must_give(NAMED, "--debug-dir for a program that is gone", "--debug-dir", "debug")


@case
def a_debug_file_is_found_by_path_and_by_name(shop):
    debug = os.path.join(shop.folder, "debug")
    for place, what in [(debug + shop.program + ".debug", "PATH/NAME.debug"),
                        (os.path.join(debug, "shop.debug"), "NAME.debug")]:
        for link in [False, True]:
            shop.split(place, link)
            shop.must_give(NAMED, f"{what}, link {link}", "--debug-dir", debug)
            shop.must_give(NOTHING, "without --debug-dir")
        os.unlink(place)


@case
def a_debug_file_is_found_beside_its_program_by_its_link(shop):
    beside = os.path.dirname(shop.program)
    for folder in [beside, os.path.join(beside, ".debug")]:
        place = os.path.join(folder, "shop.debug")
        shop.split(place, True)
        shop.must_give(NAMED, place)
        os.unlink(place)
        shop.must_give(NOTHING, f"without {place}")


@case
def a_debug_file_of_another_program_is_not_believed(shop):
    debug = os.path.join(shop.folder, "debug")
    place = os.path.join(debug, ".build-id", shop.build_id[:2], shop.build_id[2:] + ".debug")
    shop.split(place)
    other = os.path.join(shop.folder, "other")
    shop.compile("\n\n\n" + SOURCE.replace("fill", "spill"), other)
    whole.run(["objcopy", "--only-keep-debug", other, place])
    shop.must_give(NOTHING, "the other program's debug file", "--debug-dir", debug)


@case
def files_below_a_sysroot_come_first(shop):
    root = os.path.join(shop.folder, "root")
    os.makedirs(root + os.path.dirname(shop.program))
    os.rename(shop.program, root + shop.program)
    shop.must_give(NOTHING, "moved")
    shop.must_give(NAMED, "--sysroot", "--sysroot", root)
    shop.split(
        os.path.join(root, "usr/lib/debug/.build-id", shop.build_id[:2],
                     shop.build_id[2:] + ".debug"))
    os.rename(shop.program, root + shop.program)
    shop.must_give(NAMED, "debug files of --sysroot", "--sysroot", root)


@case
def a_folder_that_is_not_there_is_said(shop):
    for option in ["--sysroot", "--debug-dir"]:
        outcome = whole.Outcome([MEMSIGHT, "analyze", option, "/nowhere", shop.trace])
        shop.that(
            outcome.status == 1 and outcome.messages
            == f"memsight: cannot use {option} /nowhere: No such file or directory\n",
            outcome.messages)


@case
def a_program_that_was_rebuilt_is_named(shop):
    shop.compile("\n\n\n" + SOURCE.replace("fill", "spill"), shop.program)
    shop.must_give(NOTHING, "rebuilt")
    said = shop.outcome.messages
    shop.that(
        said.count("\n") == 1 and f"{shop.program} was rebuilt since it was recorded" in said
        and shop.build_id in said, f"rebuilt: {said}")
    summary = whole.run([MEMSIGHT, "report", shop.db.path])
    shop.that("was rebuilt since it was recorded" in summary and "build it with -g" not in summary,
              summary)
    # The build-id leads to the right file all the same.
    root = os.path.join(shop.folder, "root")
    os.makedirs(os.path.join(root, ".build-id", shop.build_id[:2]))
    os.rename(shop.whole, os.path.join(root, ".build-id", shop.build_id[:2], shop.build_id[2:]))
    shop.must_give(NAMED, "a whole file by build-id", "--debug-dir", root)
    shop.that(shop.outcome.messages == "", shop.outcome.messages)


@case
def a_program_that_is_gone_is_named(shop):
    os.unlink(shop.program)
    shop.must_give(NOTHING, "gone")
    shop.that(f"{shop.program} is not on this machine: " in shop.outcome.messages,
              shop.outcome.messages)


@case
def names_stay_mangled_when_asked_for(shop):
    shop.must_give([("_ZN4shop5Shelf4fillEi", LINE)], "DWARF", "--no-demangle")
    whole.run(["objcopy", "--strip-debug", shop.whole, shop.program])
    shop.must_give([("_ZN4shop5Shelf4fillEi", None)], "symbols", "--no-demangle")
    shop.must_give([("shop::Shelf::fill(int)", None)], "symbols")


@case
def a_reader_that_is_told_where_analyses_anew(shop):
    query = [
        "query", "--format", "csv", shop.trace,
        "SELECT count(*) FROM frame WHERE function LIKE 'shop::%'"
    ]
    debug = os.path.join(shop.folder, "debug")
    shop.split(os.path.join(debug, "shop.debug"))
    first = whole.run([MEMSIGHT, *query]).split()[1]
    second = whole.run([MEMSIGHT, *query, "--debug-dir", debug]).split()[1]
    third = whole.run([MEMSIGHT, *query]).split()[1]
    shop.that(first == "0" and int(second) > 0 and third == second, f"{first} {second} {third}")
    outcome = whole.Outcome([MEMSIGHT, "report", "--list", shop.trace + ".db", "--no-demangle"])
    shop.that(outcome.status == 0 and "is a database" in outcome.messages, outcome.messages)


@case
def reading_a_trace_anew_names_what_the_database_had(shop):
    debug = os.path.join(shop.folder, "debug")
    shop.split(os.path.join(debug, "shop.debug"))
    shop.must_give(NOTHING, "stripped")
    path = os.path.join(shop.folder, "shop.db")
    question = (
        "SELECT DISTINCT frame.function, line FROM allocation JOIN stack ON stack.id = stack_id "
        "JOIN frame"
        " ON frame.id = stack.frame_id LEFT JOIN frame_line ON frame_line.frame_id = frame.id AND"
        " frame_line.depth = 0 WHERE allocation.size = 4801")
    for options, expected in [([], NAMED), (["--no-demangle"], [("_ZN4shop5Shelf4fillEi", LINE)])]:
        whole.run([
            MEMSIGHT, "analyze", "-o", path, "--force", "--debug-dir", debug, *options, shop.trace
        ])
        found = whole.Database(path).ask(question)
        shop.that(found == expected, f"--force {options}: {found}")
    # What is not found any more stays as it was.
    whole.run([MEMSIGHT, "analyze", "-o", path, "--force", shop.trace])
    found = whole.Database(path).ask(question)
    shop.that(found == expected, f"without --debug-dir: {found}")


@case
def what_debug_files_share_is_found_by_build_id(shop):
    if not shutil.which("dwz"):
        whole.skip("no dwz")
    debug = os.path.join(shop.folder, "debug")
    place = os.path.join(debug, ".build-id", shop.build_id[:2], shop.build_id[2:] + ".debug")
    shop.split(place)
    second = os.path.join(shop.folder, "second.debug")
    shutil.copy(place, second)
    shared = os.path.join(shop.folder, "shared.debug")
    whole.run(["dwz", "-m", shared, place, second])
    sections = whole.run(["readelf", "-SW", place])
    shop.that(".gnu_debugaltlink" in sections, "dwz shares nothing")
    notes = subprocess.run(["readelf", "-n", shared], stdout=subprocess.PIPE, text=True,
                           check=True).stdout
    build_id = notes.split("Build ID: ")[1].split()[0]
    goal = os.path.join(debug, ".build-id", build_id[:2], build_id[2:] + ".debug")
    os.makedirs(os.path.dirname(goal), exist_ok=True)
    os.rename(shared, goal)
    shop.must_give(NAMED, "dwz", "--debug-dir", debug)


@case
def time_at_variables_that_were_stripped_is_not_given_to_a_neighbour(shop):
    """What the loader copies to the begin of .bss has a name, and is all that has one there."""
    program, trace = os.path.join(shop.folder, "hot"), os.path.join(shop.folder, "hot.mst")
    shop.compile(HOT, program, ["-s", "-no-pie", "-fno-pie"])
    whole.run([MEMSIGHT, "record", "-q", "--source", "clock", "-o", trace, "--", program])
    text = whole.run([MEMSIGHT, "report", trace])
    objects = whole.run([MEMSIGHT, "report", "--objects", "-n", "1", trace])
    shop.that("section .bss in" in objects and "stdout" not in objects, objects)
    shop.that("at variables of hot, which has no names of these: do not strip it" in
              " ".join(text.split()), text)


class Server(http.server.SimpleHTTPRequestHandler):
    """/buildid/BUILD-ID/debuginfo and /executable out of files."""

    def __init__(self, *arguments, files, asked, **more):
        self.files, self.asked = files, asked
        super().__init__(*arguments, **more)

    def do_GET(self):
        self.asked.append(self.path)
        if self.path not in self.files:
            self.send_error(404)
            return
        with open(self.files[self.path], "rb") as file:
            body = file.read()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format, *arguments):  # pylint: disable=redefined-builtin
        pass


@case
def a_server_is_asked_when_the_variable_names_one(shop):
    debug = os.path.join(shop.folder, "shop.debug")
    shop.split(debug)
    asked = []
    files = {
        f"/buildid/{shop.build_id}/debuginfo": debug,
        f"/buildid/{shop.build_id}/executable": shop.whole
    }
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0),
                                             functools.partial(Server, files=files, asked=asked))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_address[1]}"

    def environment(name):
        return whole.environment(DEBUGINFOD_URLS=url, HOME=shop.folder, no_proxy="127.0.0.1",
                                 DEBUGINFOD_CACHE_PATH=os.path.join(shop.folder, name))

    found = shop.analyze(env=environment("cache"))
    if not asked:
        whole.skip("libdw asks no server: libdebuginfod is missing, or memsight was built without")
    shop.that(found == NAMED, f"debuginfo from a server: {found}; {asked}")
    os.unlink(shop.program)
    del files[f"/buildid/{shop.build_id}/debuginfo"]
    shop.must_give(NAMED, "an executable from a server", env=environment("second"))
    files.clear()
    shop.must_give(NOTHING, "a server that has nothing", env=environment("third"))
    n = len(asked)
    shop.must_give(NOTHING, "without the variable")
    shop.that(len(asked) == n, "asked without the variable")
    server.shutdown()


whole.run_cases(CASES, Shop)
