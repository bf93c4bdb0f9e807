#!/usr/bin/env python3
"""scripts/setup and scripts/check where things are missing or broken."""
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

import tree

SETUP = tree.ROOT / "scripts/setup"
TOOLS = ["sh", "cat", "mktemp", "tail", "rm", "env"]


class Setup(unittest.TestCase):
    """With a PATH in which the tools that it asks are ours."""

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)
        for tool in TOOLS:
            (self.folder / tool).symlink_to(shutil.which(tool))
        self.tool("dpkg-query", 'for p; do :; done; case " $MISSING " in *" $p "*) exit 1;; esac; '
                                "printf installed")
        self.tool("id", "echo ${TEST_UID-1000}")

    def tool(self, name, script):
        path = self.folder / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)

    def log_of(self, name):
        path = self.folder / f"{name}.log"
        return path.read_text().splitlines() if path.exists() else []

    def run_setup(self, *arguments, **variables):
        return subprocess.run([SETUP, *arguments], env={"PATH": str(self.folder), **variables},
                              text=True, capture_output=True, check=False)

    def test_nothing_is_said_when_nothing_is_missing(self):
        result = self.run_setup()
        self.assertEqual((result.returncode, result.stdout, result.stderr), (0, "", ""))

    def test_a_user_gets_the_exact_command(self):
        result = self.run_setup(MISSING="libdw-dev check")
        self.assertEqual(result.returncode, 1)
        self.assertIn("sudo apt-get install -y --no-install-recommends libdw-dev check\n",
                      result.stderr)

    def test_only_building_needs_fewer_packages(self):
        self.assertEqual(self.run_setup("--build", MISSING="check").returncode, 0)
        self.assertEqual(self.run_setup(MISSING="heaptrack").returncode, 0)
        self.assertEqual(self.run_setup("--all", MISSING="heaptrack").returncode, 1)

    def test_root_installs_what_is_missing_and_only_that(self):
        self.tool("apt-get", f'echo "$@" >> {self.folder}/apt.log')
        self.assertEqual(self.run_setup(MISSING="libdw-dev", TEST_UID="0").returncode, 0)
        self.assertEqual(self.log_of("apt"), ["install -y --no-install-recommends libdw-dev"])

    def test_lists_are_fetched_when_installing_fails_at_first(self):
        self.tool(
            "apt-get", f'echo "$1" >> {self.folder}/apt.log; '
            f'[ "$1" = update ] && : > {self.folder}/fetched; [ -e {self.folder}/fetched ]')
        self.assertEqual(self.run_setup(MISSING="libdw-dev", TEST_UID="0").returncode, 0)
        self.assertEqual(self.log_of("apt"), ["install", "update", "install"])

    def test_a_failed_installation_is_a_failure_and_shown(self):
        self.tool("apt-get", "echo E: no network >&2; exit 100")
        result = self.run_setup(MISSING="libdw-dev", TEST_UID="0")
        self.assertNotEqual(result.returncode, 0)
        self.assertIn("E: no network", result.stderr)

    def test_sudo_is_used_only_if_it_asks_nothing(self):
        self.tool("apt-get", f'echo "$@" >> {self.folder}/apt.log')
        self.tool("sudo", 'test "$1" = -n || exit 9; shift; [ $# -gt 0 ] && exec "$@"')
        self.tool("true", "exit 0")
        self.assertEqual(self.run_setup(MISSING="check").returncode, 0)
        self.assertEqual(len(self.log_of("apt")), 1)
        self.tool("sudo", "exit 1")
        self.assertEqual(self.run_setup(MISSING="check").returncode, 1)

    def test_another_distribution_is_told_what_to_have(self):
        (self.folder / "dpkg-query").unlink()
        result = self.run_setup()
        self.assertEqual(result.returncode, 0)
        self.assertIn("libzstd-dev", result.stderr)


class Check(unittest.TestCase):
    """In a copy of the tree that cannot be built."""

    def setUp(self):
        self.copy = pathlib.Path(tempfile.mkdtemp()) / "memsight"
        self.addCleanup(shutil.rmtree, self.copy.parent)
        shutil.copytree(tree.ROOT, self.copy, symlinks=True, ignore=lambda folder, names: [
            name for name in names if pathlib.Path(folder) == tree.ROOT
            and (name == ".git" or name.startswith("build"))])

    def check(self):
        return subprocess.run(["scripts/check"], cwd=self.copy, text=True, capture_output=True,
                              check=False)

    def assert_failed(self, result):
        self.assertNotEqual(result.returncode, 0)
        self.assertRegex(result.stdout.splitlines()[-1], r"^0 passed, [1-9]\d* failed, 0 skipped$")

    def test_a_failed_configure_is_a_failure(self):
        with open(self.copy / "meson.build", "a", encoding="utf-8") as file:
            file.write("\ndependency('no-such-library')\n")
        result = self.check()
        self.assert_failed(result)
        self.assertIn("no-such-library", result.stderr + result.stdout)

    def test_a_missing_package_is_a_failure(self):
        (self.copy /
         "scripts/setup").write_text("#!/bin/sh\necho setup: packages are missing >&2\nexit 1\n")
        self.assert_failed(self.check())

    def test_an_unknown_argument_is_wrong_usage(self):
        result = subprocess.run([self.copy / "scripts/check", "--al"], text=True,
                                capture_output=True, check=False)
        self.assertEqual(result.returncode, 2)
        self.assertIn("usage:", result.stderr)


class VmTest(unittest.TestCase):
    """Emulated machines, where there is no kernel for them."""

    def run_it(self, *arguments):
        with tempfile.TemporaryDirectory() as cache:
            return subprocess.run([tree.ROOT / "scripts/vm-test", *arguments], text=True,
                                  capture_output=True, env={**os.environ, "XDG_CACHE_HOME": cache},
                                  check=False)

    def test_without_a_kernel_it_is_skipped_with_the_reason(self):
        result = self.run_it("nodes")
        self.assertEqual(result.returncode, 77, result.stdout + result.stderr)
        self.assertRegex(result.stdout,
                         r"cannot be measured here: no .*scripts/(vm-test --fetch|setup --all)")

    def test_an_unknown_machine_is_wrong_usage(self):
        result = self.run_it("cray")
        self.assertEqual(result.returncode, 2)
        self.assertIn("usage: scripts/vm-test", result.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
