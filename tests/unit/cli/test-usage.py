#!/usr/bin/env python3
"""The command as a person meets it: help, mistakes, exit statuses. Arguments: memsight, repository.
"""
import os
import pathlib
import re
import resource
import subprocess
import sys
import tempfile
import unittest

MEMSIGHT = sys.argv[1]
ROOT = pathlib.Path(sys.argv[2])
COMMANDS = [
    "record", "attach", "detach", "instrument", "ctl", "top", "run", "analyze", "archive",
    "report", "query", "export", "plot", "diff", "check", "view", "avail", "doctor"
]


def memsight(*arguments, stdout=subprocess.PIPE, **variables):
    environment = {k: v for k, v in os.environ.items() if not k.startswith("MEMSIGHT_")}
    environment.update({"MEMSIGHT_NO_CONFIG": "1", **variables})
    return subprocess.run([MEMSIGHT, *arguments], stdout=stdout, stderr=subprocess.PIPE,
                          stdin=subprocess.DEVNULL, text=True, env=environment, timeout=60)


def options_of(command):
    """Long names of a command's options, read from the table itself."""
    text = (ROOT / "schemas/options.def").read_text()
    rows = re.findall(r'^OPTION\(\w+,\s([^"]*),\s+"([^"]+)"', text, re.MULTILINE)
    return [name for commands, name in rows if f"IN({command.upper()})" in commands]


class Help(unittest.TestCase):
    def test_the_list_of_commands_here_is_that_of_the_table(self):
        text = (ROOT / "schemas/commands.def").read_text()
        self.assertEqual(re.findall(r"^COMMAND\(\w+, (\w+)", text, re.MULTILINE), COMMANDS)

    def test_memsight_help_names_every_command(self):
        result = memsight("--help")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        for command in COMMANDS:
            self.assertRegex(result.stdout, rf"(?m)^  {command} ")

    def test_the_help_of_each_command_names_each_of_its_options(self):
        for command in COMMANDS:
            result = memsight(command, "--help")
            self.assertEqual((result.returncode, result.stderr), (0, ""))
            self.assertGreaterEqual(len(options_of(command)), 2)
            for option in options_of(command):
                self.assertRegex(result.stdout, rf"--{option}[=\[\s]")

    def test_each_heading_of_help_stands_once(self):
        for command in COMMANDS:
            lines = [
                line for line in memsight(command, "--help").stdout.splitlines()
                if re.fullmatch("[A-Z].*:", line)
            ]
            self.assertIn("Help:", lines)
            self.assertEqual(len(lines), len(set(lines)), (command, lines))

    def test_help_command_is_the_same_as_command_help(self):
        for command in COMMANDS:
            self.assertEqual(memsight("help", command).stdout, memsight(command, "--help").stdout)
            self.assertEqual(memsight("help", command).stdout, memsight(command, "-h").stdout)

    def test_no_line_of_help_is_wider_than_80_columns(self):
        for command in COMMANDS:
            lines = memsight(command, "--help").stdout.splitlines()
            self.assertLessEqual(max(map(len, lines)), 80, command)

    def test_help_is_given_while_a_variable_is_wrong(self):
        self.assertEqual(memsight("record", "--help", MEMSIGHT_FREQ="x").returncode, 0)

    def test_help_behind_the_program_is_the_programs_own(self):
        self.assertNotIn("Usage: memsight", memsight("record", "-q", "true", "--help").stdout)

    def test_version_names_the_libraries(self):
        result = memsight("--version")
        self.assertEqual(result.returncode, 0)
        for name in ["memsight", "libzstd", "sqlite", "zydis", "elfutils"]:
            self.assertRegex(result.stdout, rf"(?m)^{name} \d+\.\d+")


class Mistakes(unittest.TestCase):
    def assert_one_line(self, result, status, *parts):
        """One line on standard error with all parts, nothing on standard output."""
        self.assertEqual((result.returncode, result.stdout), (status, ""), result.stderr)
        self.assertEqual(result.stderr.count("\n"), 1, result.stderr)
        self.assertTrue(result.stderr.startswith("memsight: "), result.stderr)
        for part in parts:
            self.assertIn(part, result.stderr)

    def test_an_unknown_option_gets_its_nearest(self):
        self.assert_one_line(memsight("record", "--frequ3ncy", "5", "true"), 2, "--frequ3ncy")
        self.assert_one_line(memsight("record", "--ferq", "5", "true"), 2, "did you mean --freq?")
        self.assert_one_line(memsight("report", "--stes", "x"), 2, "did you mean --sites?")
        self.assert_one_line(memsight("--verison"), 2, "did you mean --version?")

    def test_an_unknown_command_gets_its_nearest(self):
        self.assert_one_line(memsight("recrod", "true"), 2, "did you mean 'record'?")
        self.assert_one_line(memsight("help", "qurey"), 2, "did you mean 'query'?")
        self.assert_one_line(memsight("xxxxxxxxxx"), 2, "memsight --help")

    def test_a_missing_command_is_said(self):
        self.assert_one_line(memsight(), 2, "which command?")
        self.assert_one_line(memsight("record"), 2, "COMMAND")
        self.assert_one_line(memsight("record", "-q", "--"), 2, "COMMAND")

    def test_missing_and_surplus_operands_are_said(self):
        self.assert_one_line(memsight("analyze"), 2, "FILE.mst")
        self.assert_one_line(memsight("query", "x.db"), 2, "SQL")
        self.assert_one_line(memsight("report", "a", "b"), 2, "too many: b")

    def test_a_wrong_value_names_the_option_and_what_would_be_right(self):
        self.assert_one_line(memsight("record", "--freq", "x", "true"), 2, "--freq", "'x'", "997")
        self.assert_one_line(memsight("report", "--format=pdf", "x"), 2, "'pdf'", "text|csv|json")

    def test_a_wrong_word_of_a_list_names_the_known_ones(self):
        for words in ["heap,mmp", "mmp", "mmp,heap", "heap,mmp,brk"]:
            self.assert_one_line(memsight("record", "--events", words, "true"), 2, "--events",
                                 "'mmp'", "heap, mmap, brk, shm, threads, regions")
        self.assert_one_line(memsight("record", "--events=heap,", "true"), 2, "''")
        self.assert_one_line(memsight("record", "true", MEMSIGHT_EVENTS="heap mmap"), 2,
                             "MEMSIGHT_EVENTS", "'heap mmap'")
        self.assert_one_line(memsight("record", "--events=" + "x" * 5000, "true"), 2, "'xxx")

    def test_a_wrong_variable_is_named(self):
        self.assert_one_line(memsight("report", "x", MEMSIGHT_LIMIT="many"), 2, "MEMSIGHT_LIMIT")
        self.assert_one_line(memsight("report", "x", MEMSIGHT_OPTIONS="--limt 3"), 2,
                             "MEMSIGHT_OPTIONS", "did you mean --limit?")

    def test_an_option_beats_a_wrong_variable(self):
        result = memsight("report", "--limit", "3", "/nonexistent.mst", MEMSIGHT_LIMIT="many")
        self.assertEqual(result.returncode, 1)
        self.assertNotIn("MEMSIGHT_LIMIT", result.stderr)

    def test_a_long_word_cannot_break_the_line(self):
        self.assert_one_line(memsight("record", "--" + "x" * 5000, "true"), 2, "unknown option")
        self.assert_one_line(memsight("x" * 5000), 2, "unknown command")

    @unittest.skipUnless(os.path.exists("/dev/full"), "no /dev/full here")
    def test_output_that_cannot_be_written_is_a_failure(self):
        with open("/dev/full", "w") as full:
            result = memsight("--help", stdout=full)
        self.assertEqual(result.returncode, 1)
        self.assertIn("No space left", result.stderr)


class Files(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.trace = os.path.join(self.folder.name, "a.mst")
        result = memsight("record", "-q", "-o", self.trace, "--source", "none", "true")
        self.assertEqual(result.returncode, 0, result.stderr)

    def tearDown(self):
        self.folder.cleanup()

    def as_nobody(self, *arguments):
        if os.geteuid() == 0:
            os.chmod(self.folder.name, 0o777)
            arguments = [
                "setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", MEMSIGHT, *arguments
            ]
        else:
            arguments = [MEMSIGHT, *arguments]
        return subprocess.run(arguments, capture_output=True, text=True, timeout=60)

    def test_a_trace_that_may_not_be_read_is_said_to_be_so(self):
        os.chmod(self.trace, 0)
        for command in [["report", self.trace], ["query", self.trace, "select 1"]]:
            result = self.as_nobody(*command)
            self.assertEqual((result.returncode, result.stderr),
                             (1, f"memsight: cannot read {self.trace}: Permission denied\n"))

    def test_a_file_size_limit_is_an_error_and_leaves_no_half_of_a_database(self):
        for command in ["report", "analyze"]:
            result = subprocess.run(
                [MEMSIGHT, command, self.trace], capture_output=True, text=True, timeout=60,
                preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (65536,) * 2))
            self.assertEqual(result.returncode, 1, result.stderr)
            self.assertEqual(result.stderr.count("\n"), 1, result.stderr)
            self.assertEqual(os.listdir(self.folder.name), ["a.mst"])

    def test_a_folder_that_may_not_be_written_gets_advice(self):
        os.chmod(self.folder.name, 0o555)
        if os.geteuid() == 0:
            result = memsight("record", "-o", "/proc/a.mst", "true")
        else:
            result = memsight("record", "-o", os.path.join(self.folder.name, "b.mst"), "true")
        self.assertEqual(result.returncode, 1)
        self.assertIn("names another place", result.stderr)


class Manual(unittest.TestCase):
    def test_the_pages_name_every_option_and_variable(self):
        for command in COMMANDS:
            page = pathlib.Path(MEMSIGHT).parent / f"docs/memsight-{command}.1"
            text = page.read_text().replace("\\-", "-")
            for option in options_of(command):
                self.assertIn(f"--{option}\\fR", text)

    def test_the_main_page_names_every_command(self):
        text = (pathlib.Path(MEMSIGHT).parent / "docs/memsight.1").read_text()
        for command in COMMANDS:
            self.assertIn(f"memsight\\-{command}", text)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
