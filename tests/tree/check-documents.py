#!/usr/bin/env python3
"""INSTALL.md names every package that scripts/setup installs, every library that meson asks for
comes from one of them, and the files that documents name are there."""
import re

import tree

# Which Debian package serves which name in meson.build.
PACKAGES = {
    "libzstd": "libzstd-dev",
    "libxxhash": "libxxhash-dev",
    "sqlite3": "libsqlite3-dev",
    "zlib": "zlib1g-dev",
    "libelf": "libelf-dev",
    "libdw": "libdw-dev",
    "inih": "libinih-dev",
    "Zydis": "libzydis-dev",
    "check": "check",
    "libunwind": "libunwind-dev",
    "memkind": "libmemkind-dev",
    "numa": "libnuma-dev",
    "cairo": "libcairo2-dev",
    "libmicrohttpd": "libmicrohttpd-dev",
    "ncursesw": "libncurses-dev",
    "apr-1": "libapr1-dev",
    "glib-2.0": "libglib2.0-dev",
    "threads": "libc6-dev",
    "m": "libc6-dev",
}
BUILD_ESSENTIAL = {"libc6-dev"}  # comes with gcc


def installed_packages():
    text = (tree.ROOT / "scripts/setup").read_text()
    lists = re.findall(r'^(\w*packages)="([^"]*)"', text, re.MULTILINE)
    return {name: set(words.split()) for name, words in lists}


def meson_names():
    builds = [path for path in tree.ROOT.rglob("meson.build")
              if not path.relative_to(tree.ROOT).parts[0].startswith("build")]
    text = "\n".join(path.read_text() for path in builds)
    return set(re.findall(r"\b(?:dependency|find_library)\('([^']+)'", text))


DOCUMENTS = [
    "README.md", "INSTALL.md", "CONTRIBUTING.md", "CHANGELOG.md", "schemas/commands.def",
    "schemas/options.def",
    *(str(path.relative_to(tree.ROOT)) for path in (tree.ROOT / "docs").rglob("*.md"))
]
# Of the parts only names with a suffix: `cli/diff` is a test's name, `pmu/field` perf's way to
# write an event.
NAMED = re.compile(r"(?<![\w/.$-])(?:(?:docs|scripts|schemas|examples|tests|bench|\.ci)/[\w./-]+\w"
                   r"|(?:" + "|".join((*tree.PARTS, "include")) + r")/[\w./-]+\.\w+)")


def missing_files():
    """Files of the tree that a document names and that are not there."""
    for document in DOCUMENTS:
        text = (tree.ROOT / document).read_text()
        named = NAMED.findall(text)
        for name in sorted(set(named)):
            # A program is named after its source.
            if "/NAME." in name:  # a recipe
                continue
            if not any((tree.ROOT / (name + suffix)).exists() for suffix in ("", ".c")):
                yield f"{document} names {name}, which is not there"


def dead_links():
    """Links of a page to another one that is not there."""
    for document in DOCUMENTS:
        path = tree.ROOT / document
        for target in re.findall(r"\]\(([^)#\s]+)", path.read_text()):
            if "://" not in target and not (path.parent / target).exists():
                yield f"{document} has a link to {target}, which is not there"


def missing_presets():
    """Presets whose options docs/settings.md does not name."""
    table = (tree.ROOT / "schemas/presets.def").read_text()
    page = (tree.ROOT / "docs/settings.md").read_text()
    rows = re.findall(r'^PRESET\((\w+), [^"]*"([^"]*)"\)', table, re.MULTILINE)
    for preset, words in rows:
        if not re.search(rf"(?m)^\| `{preset.lower()}` .*`{re.escape(words)}`", page):
            # What attach cannot do stands in --help only.
            if f"PRESET({preset}, IN(ATTACH), " not in table:
                yield f"docs/settings.md does not say that {preset} is {words}"


def main():
    page = (tree.ROOT / "INSTALL.md").read_text()
    lists = installed_packages()
    known = set().union(*lists.values()) | BUILD_ESSENTIAL
    problems = [f"INSTALL.md does not name the package {package}"
                for package in sorted(known - BUILD_ESSENTIAL)
                if not re.search(rf"(?<![\w-]){re.escape(package)}(?![\w-])", page)]
    for name in sorted(meson_names()):
        if name not in PACKAGES:
            problems.append(
                f"meson asks for {name}: name its package in this check and in scripts/setup")
        elif PACKAGES[name] not in known:
            problems.append(
                f"scripts/setup does not install {PACKAGES[name]}, which meson asks for")
    problems += missing_files()
    problems += missing_presets()
    problems += dead_links()
    if len((tree.ROOT / "README.md").read_text().splitlines()) > 80:
        problems.append("README.md has more than 80 lines: details belong into docs/")
    if not lists:
        problems.append("no list of packages found in scripts/setup")
    tree.finish(problems, f"{len(known)} packages, {len(meson_names())} libraries")


main()
