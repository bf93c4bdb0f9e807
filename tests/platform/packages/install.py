#!/usr/bin/env python3
"""What `meson install` puts below DESTDIR works from there. Arguments: build folder, source folder,
version."""
import glob
import os
import re
import subprocess
import sys
import tempfile

import whole

BUILD, SOURCE, VERSION = sys.argv[1:4]
checks = whole.Checks()

PROGRAM = """
#include <memsight.h>
#include <stdlib.h>
#include <string.h>
int main(void)
{
	memsight_region_push("installed");
	for (int i = 0; i < 1000; i++) {
		char *block = malloc(4801);
		memset(block, i, 4801);
		free(block);
	}
	memsight_region_pop("installed");
	return 0;
}
"""


def one(root, pattern):
    found = glob.glob(os.path.join(root, pattern), recursive=True)
    checks.that(len(found) == 1, f"{pattern}: {found}")
    return found[0] if found else os.devnull


def check_manual(root, memsight):
    """A page for memsight and for each of its commands."""
    names = [line.split()[0] for line in whole.run([memsight, "--help"]).splitlines()
             if line.startswith("  ") and line.strip()[:1].isalpha() and "  " in line.strip()]
    pages = {
        os.path.basename(path)
        for path in glob.glob(os.path.join(root, "**/man1/*.1"), recursive=True)
    }
    commands = {name for name in names if f"memsight-{name}.1" in pages}
    checks.that(
        len(commands) >= 10 and len(pages) == len(commands) + 1,
        f"pages {sorted(pages)} for {sorted(names)}")
    text = whole.run(["man", "-P", "cat", "-l",
                      one(root, "**/man1/memsight-record.1")
                      ]) if os.path.exists("/usr/bin/man") else ""
    checks.that(not text or "--output" in text, "the page of record does not name --output")


# What is named with one of these folders is installed; other paths are those of the source.
NAMED = re.compile(r"(?<![\w/.$-])(?:docs|examples|schemas)/[\w./-]*\w")


def check_named(shown, text, documents):
    for name in sorted(set(NAMED.findall(text))):
        # Recipes have NAME for what somebody will add, and say how it is built.
        if "NAME" in name or name.endswith("/meson.build"):
            continue
        # A program is named after its source.
        checks.that(any(os.path.exists(os.path.join(documents, name + end)) for end in ("", ".c")),
                    f"{shown} names {name}, which is not installed")


def check_documents(root, memsight):
    """Paths that documents, manual pages and help name, and links of documents, are there."""
    documents = one(root, "**/share/doc/memsight")
    pages = glob.glob(os.path.join(documents, "**/*.md"), recursive=True)
    checks.that(len(pages) > 30, f"documents: {pages}")
    for page in pages:
        with open(page, encoding="utf-8") as file:
            text = file.read()
        # What changed does not name what is now.
        if os.path.basename(page) != "CHANGELOG.md":
            check_named(page, text, documents)
        for target in re.findall(r"\]\(([^)#\s]+)", text):
            checks.that("://" in target or
                        os.path.exists(os.path.join(os.path.dirname(page), target)),
                        f"{page} links to {target}, which is not installed")
    for page in glob.glob(os.path.join(root, "**/man1/*.1"), recursive=True):
        with open(page, encoding="utf-8") as file:
            text = file.read().replace("\\-", "-")
        check_named(page, text.replace("docs/NAME", ""), documents)
        checks.that(documents.endswith(re.search(r"lie in\n\.I (.*)", text).group(1)),
                    f"{page} does not say where documents are")
    for command in ["", *(line.split()[0] for line in whole.run([memsight, "--help"]).splitlines()
                          if re.match("  [a-z]+ ", line))]:
        text = whole.run([memsight, *command.split(), "--help"])
        check_named(f"{command} --help", text, documents)


def check_user_api(root, folder, memsight):
    """A program that pkg-config finds the header for is recorded with its regions."""
    pc = one(root, "**/pkgconfig/memsight.pc")
    env = whole.environment(PKG_CONFIG_PATH=os.path.dirname(pc), PKG_CONFIG_SYSROOT_DIR=root)
    told = whole.run(["pkg-config", "--modversion", "memsight"], env=env).strip()
    checks.that(told == VERSION, f"pkg-config tells version {told}")
    flags = whole.run(["pkg-config", "--cflags", "--libs", "memsight"], env=env).split()
    source, program = os.path.join(folder, "user.c"), os.path.join(folder, "user")
    with open(source, "w", encoding="utf-8") as file:
        file.write(PROGRAM)
    whole.run(["cc", "-O0", "-fno-builtin", "-o", program, source, *flags])
    traced = whole.Recording(memsight, [program], ["--source", "none"])
    checks.that(
        traced.one("SELECT count(*) FROM allocation WHERE size = 4801") == 1000,
        "blocks were not recorded")
    text = whole.run([memsight, "report", traced.path, "--regions"])
    checks.that("installed" in text, f"regions: {text}")
    module = one(root, "**/libtracealloc.so")
    paths = [
        path for (path,) in traced.ask(
            "SELECT DISTINCT path FROM module WHERE path LIKE '%/libtracealloc.so'")
    ]
    checks.that(all(os.path.samefile(path, module) for path in paths),
                f"the library came from {paths}")


def main():
    with tempfile.TemporaryDirectory(prefix="memsight-install-") as folder:
        root = os.path.join(folder, "root")
        log = os.path.join(BUILD, "meson-logs")
        if not os.access(log, os.W_OK):
            whole.skip(f"this user cannot write to {log}, as `meson install' does")
        done = subprocess.run(["meson", "install", "-C", BUILD, "--no-rebuild", "--destdir", root],
                              capture_output=True, text=True, env=whole.environment(), check=False)
        if done.returncode:
            print(done.stdout, done.stderr)
            sys.exit(1)
        memsight = one(root, "**/bin/memsight")
        checks.that(VERSION in whole.run([memsight, "--version"]), "another version than meson's")
        checks.that(not whole.run(["sh", "-c", f"find {root} -perm -o+w ! -type l"]),
                    "files that everybody may write")
        for pattern in [
                "**/bash-completion/completions/memsight", "**/site-functions/_memsight",
                "**/vendor_completions.d/memsight.fish", "**/include/memsight.h",
                "**/memsight/libmemsight_sqlite.so"
        ]:
            one(root, pattern)
        check_manual(root, memsight)
        check_documents(root, memsight)
        check_user_api(root, folder, memsight)
    checks.end()


main()
