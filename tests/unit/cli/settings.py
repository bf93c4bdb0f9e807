#!/usr/bin/env python3
"""memsight.ini of a folder and of a user, and presets. Arguments: memsight, schemas/options.def."""
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

MEMSIGHT = os.path.abspath(sys.argv[1])
TABLE = pathlib.Path(sys.argv[2]).read_text()
# What a file that anybody may have put into a folder must never set: each writes, overwrites, runs
# or shows something, or makes the other ones do so.
DANGEROUS = [
    ("record", "output"), ("record", "dir"), ("record", "force"),
    ("record", "report-on-exit"), ("record", "analyze"), ("record", "archive"), ("record", "heap"),
    ("record", "buffers"), ("record", "private"), ("record", "copy"),
    ("record", "on-trigger"), ("attach", "on-trigger"), ("record", "load"),
    ("instrument", "output"), ("instrument", "trace"), ("instrument", "force"),
    ("run", "output"), ("run", "modes"), ("run", "executor"), ("run", "sbatch-args"),
    ("run", "log"), ("run", "retry"), ("analyze", "output"), ("analyze", "perf-data"),
    ("archive", "output"), ("report", "sysroot"), ("report", "debug-dir"), ("report", "symbols"),
    ("export", "output"), ("export", "anonymise"), ("plot", "output"), ("check", "output"),
    ("check", "force"), ("view", "export")
]


class Folder(unittest.TestCase):
    def setUp(self):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.folder = pathlib.Path(place.name, "project")
        self.config = pathlib.Path(place.name, "config")
        self.folder.mkdir()
        self.config.mkdir()

    def write(self, place, text):
        (place / "memsight.ini").write_text(text)

    def memsight(self, *arguments, **variables):
        environment = {k: v for k, v in os.environ.items() if not k.startswith("MEMSIGHT_")}
        environment.update(variables, XDG_CONFIG_HOME=str(self.config))
        return subprocess.run([MEMSIGHT, *arguments], capture_output=True, text=True,
                              stdin=subprocess.DEVNULL, env=environment, cwd=self.folder,
                              timeout=60)

    def setting(self, name, *arguments, **variables):
        """What `avail` says of an option of record: its value, and where that is from."""
        result = self.memsight("avail", *arguments, **variables)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        line = re.search(rf"(?m)^  {name} .*$", result.stdout).group()
        found = re.search(r"now (\S+) \((.*)\)$", line)
        return found.groups() if found else None

    def assert_refused(self, result, *parts):
        self.assertEqual((result.returncode, result.stdout), (2, ""), result.stderr)
        self.assertEqual(result.stderr.count("\n"), 1, result.stderr)
        for part in parts:
            self.assertIn(part, result.stderr)


class Files(Folder):
    def test_line_beats_variable_beats_folder_beats_user(self):
        self.write(self.config, "[record]\nfreq = 11\nstacks = fp\n")
        self.assertEqual(self.setting("freq"), ("11", "~/.config/memsight.ini"))
        self.write(self.folder, "; ours\n[report]\nlimit = 3\n[record]\nfreq = 22\n")
        self.assertEqual(self.setting("freq"), ("22", "./memsight.ini"))
        self.assertEqual(self.setting("stacks"), ("fp", "~/.config/memsight.ini"))
        self.assertEqual(self.setting("freq", MEMSIGHT_FREQ="33"), ("33", "variable"))
        result = self.memsight("record", "-o", "a.mst", "--freq", "44", "true")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertNotIn("22 Hz", result.stderr)

    def test_options_of_files_have_their_effect(self):
        self.write(self.config, f"[record]\noutput = {self.folder}/mine.mst\n")
        self.write(self.folder, "[record]\nsource = none\n[report]\nformat = csv\nlimit = 1\n")
        self.assertEqual(self.memsight("record", "ls").returncode, 0)
        self.assertTrue((self.folder / "mine.mst").exists())
        rows = self.memsight("report", "mine.mst", "--sites").stdout.splitlines()
        self.assertEqual(len(rows), 2, rows)
        self.assertIn(",", rows[0])

    def test_a_recording_says_what_files_changed_in_it(self):
        self.write(self.config, "[record]\nstacks = fp\n")
        self.write(self.folder, "[record]\nsource = none\nfreq = 22\n[report]\nlimit = 1\n")
        said = self.memsight("record", "-o", "a.mst", "--freq", "44", "true").stderr
        self.assertIn("options of ./memsight.ini: --source=none\n", said)
        self.assertIn("options of ~/.config/memsight.ini: --stacks=fp\n", said)
        self.assertEqual(self.memsight("record", "-q", "-o", "b.mst", "true").stderr, "")
        self.write(self.folder, "[record]\nquiet = yes\npreset = leaks\n")
        said = self.memsight("record", "-o", "c.mst", "true").stderr
        self.assertRegex(said, r"options of \./memsight\.ini:.* --quiet")
        self.assertNotIn("recording", said)

    def test_files_can_be_left_out(self):
        self.write(self.folder, "[record]\nfreq = 22\n")
        self.assertIsNone(self.setting("freq", "--no-config"))
        self.assertIsNone(self.setting("freq", MEMSIGHT_NO_CONFIG="1"))
        self.assertIn("--no-config", self.memsight("avail", "--no-config").stdout)

    def test_avail_says_which_files_were_read(self):
        self.write(self.folder, "[record]\n")
        lines = self.memsight("avail").stdout
        self.assertRegex(lines, r"(?m)^  \./memsight\.ini +read$")
        self.assertRegex(lines, rf"(?m)^  {self.config}/memsight\.ini +not there$")

    def test_a_mistake_is_named_with_its_line(self):
        for text, line, *parts in [
            ("[record]\n\n  frq = 5\n", 3, "did you mean --freq?"),
            ("[record]\nfreq = fast\n", 2, "'fast'"),
            ("[record]\nfreq =\n", 2, "needs a value"),
            ("[record]\nstacks = lbr\n", 2, "auto|dwarf|fp|none"),
            ("[recrod]\n\nfreq = 5\n", 1, "did you mean [record]?"),
            ("# freq\nfreq = 5\n", 2, "before the first section"),
            ("[record]\nfreq = 5\nwhat is this\n", 3, "KEY = VALUE"),
            ("[record]\nwhat is this\nfrq = 5\n", 2, "KEY = VALUE"),
            ("[record]\nhelp = yes\n", 2, "--help"),
            ("[record]\nno-config = yes\n", 2, "command line"),
            ("[record]\npreset = speed\n", 2, "leaks|hot"),
        ]:
            self.write(self.folder, text)
            self.assert_refused(self.memsight("record", "-o", "a.mst", "touch", "ran"),
                                f"./memsight.ini:{line}:", *parts)
            self.assertFalse((self.folder / "ran").exists())

    def test_a_mistake_in_the_section_of_another_command_stops_nothing(self):
        self.write(self.folder, "[report]\nlimit = many\n")
        self.assertEqual(self.memsight("record", "-o", "a.mst", "true").returncode, 0)
        self.assert_refused(self.memsight("report", "a.mst"), "./memsight.ini:2:", "'many'")

    def test_help_is_given_while_a_file_is_wrong(self):
        self.write(self.folder, "[record]\nfreq = fast\n")
        self.assertEqual(self.memsight("record", "--help").returncode, 0)

    def test_a_folder_sets_nothing_that_writes_or_runs(self):
        for command, key in DANGEROUS:
            self.write(self.folder, f"[{command}]\n{key} = no\n")
            self.assert_refused(self.memsight(command, "x"), "./memsight.ini:2:", key,
                                "~/.config")

    def test_every_option_that_names_a_file_is_dangerous_or_only_read(self):
        rows = re.findall(r'^OPTION\(\w+,\s[^"]*,\s+"([^"]+)",\s+\S+, "([^"]+)"', TABLE,
                          re.MULTILINE)
        named = {name for name, argument in rows if re.search("FILE|DIR|DATA|BASE", argument)}
        self.assertEqual(named - {key for _, key in DANGEROUS},
                         {"suppressions", "against", "function-list"})

    def test_a_file_of_somebody_else_is_not_read(self):
        self.write(self.folder, "[record]\nfreq = 22\n")
        (self.folder / "memsight.ini").chmod(0o666)
        result = self.memsight("record", "-o", "a.mst", "true")
        self.assertEqual(result.returncode, 0)
        self.assertIn("./memsight.ini is not read: all may write it", result.stderr)
        if os.geteuid() == 0:
            (self.folder / "memsight.ini").chmod(0o644)
            os.chown(self.folder / "memsight.ini", 65534, 65534)
            self.assertIn("belongs to another user",
                          self.memsight("record", "-o", "b.mst", "true").stderr)

    def test_what_is_no_file_is_not_waited_for(self):
        os.mkfifo(self.folder / "memsight.ini")
        self.assertIn("no regular file", self.memsight("record", "-o", "a.mst", "true").stderr)

    def test_in_the_users_own_folder_the_file_is_the_users(self):
        self.folder = self.config
        self.write(self.config, "[record]\noutput = mine.mst\n")
        self.assertEqual(self.memsight("record", "true").returncode, 0)
        self.assertTrue((self.config / "mine.mst").exists())


class Presets(Folder):
    def test_the_stronger_file_has_the_preset(self):
        self.write(self.config, "[record]\npreset = hot\n")
        self.assertEqual(self.setting("freq"), ("2999", "preset, ~/.config/memsight.ini"))
        self.write(self.folder, "[record]\npreset = leaks\nstacks = fp\n")
        self.assertEqual(self.setting("source"), ("none", "preset, ./memsight.ini"))
        self.assertIsNone(self.setting("freq"))

    def test_a_preset_says_what_it_stands_for_and_what_comes_next(self):
        result = self.memsight("record", "--preset", "leaks", "-o", "a.mst", "true")
        self.assertIn("preset leaks: --source=none\n", result.stderr)
        self.assertIn("next: memsight report a.mst --leaks\n", result.stderr)
        result = self.memsight("report", "--preset", "leaks", "a.mst")
        self.assertEqual(result.stdout, self.memsight("report", "--leaks", "a.mst").stdout)

    def test_a_report_that_is_asked_for_is_stronger_than_a_presets(self):
        self.memsight("record", "-q", "-o", "a.mst", "true")
        wanted = self.memsight("report", "a.mst", "--sites").stdout
        for arguments in (["--preset", "leaks"], ["--preset=sharing"]):
            self.assertEqual(self.memsight("report", *arguments, "a.mst", "--sites").stdout,
                             wanted)
        self.write(self.folder, "[report]\nleaks = yes\n")
        self.assertEqual(self.memsight("report", "a.mst", "--sites").stdout, wanted)
        self.assert_refused(self.memsight("report", "a.mst", "--sites", "--peak"), "exclude")

    def test_the_gate_of_a_preset_judges(self):
        result = self.memsight("record", "--preset", "ci", "-o", "a.mst", "true")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        result = self.memsight("check", "--preset", "ci", "a.mst")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertRegex(result.stdout, r"kept +leaked")

    def test_help_and_manual_say_what_each_stands_for(self):
        self.assertRegex(self.memsight("record", "--help").stdout,
                         r"(?m)^  hot +--freq=2999 --sample-stacks=fp$")


unittest.main(argv=sys.argv[:1])
