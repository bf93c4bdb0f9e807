#!/usr/bin/env python3
"""Debian packages and the tarball: built twice they are the same, lintian finds nothing, and what is in them works.
Arguments: source folder, build folder, version, part (deb or dist)."""
import glob
import os
import shutil
import subprocess
import sys
import tempfile

import whole

SOURCE, BUILD, VERSION, PART = sys.argv[1:5]
SECONDS = 3600
checks = whole.Checks()


def do(command, folder, **variables):
    """Run a command that must succeed; its output is shown when it does not."""
    done = subprocess.run(command, cwd=folder, env=whole.environment(**variables), stdin=subprocess.DEVNULL, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, errors="replace", timeout=2 * SECONDS, check=False)
    if done.returncode:
        print(done.stdout[-6000:])
        print("FAILED:", " ".join(command), "exit status", done.returncode)
        sys.exit(1)
    return done.stdout


def need(*programs):
    missing = [program for program in programs if not shutil.which(program)]
    if missing:
        whole.skip(f"no {', '.join(missing)} here (scripts/setup --all)")


def same(first, second):
    with open(first, "rb") as one, open(second, "rb") as other:
        return one.read() == other.read()


# ---- Debian packages ----

def copy_source(folder):
    def leave_out(path, names):
        top = os.path.samefile(path, SOURCE)
        return [name for name in names if top and (name == ".git" or name.startswith("build") or ".mst" in name)]
    path = os.path.join(folder, f"memsight-{VERSION}")
    # The tarball has no bits that an umask took away.
    shutil.copytree(SOURCE, path, ignore=leave_out, symlinks=True)
    subprocess.run(["chmod", "-R", "u+rwX,go+rX,go-w", path], check=True)
    return path


def build_deb(path, **variables):
    folder = os.path.dirname(path)
    do(["dpkg-buildpackage", "-us", "-uc", "-b"], path, DEB_BUILD_OPTIONS="nocheck parallel=2", SOURCE_DATE_EPOCH="1767225600",
       HOME=folder, **variables)
    return sorted(glob.glob(os.path.join(folder, "*.deb")))


def difference(first, second):
    """Which files of two packages differ."""
    with tempfile.TemporaryDirectory() as folder:
        for path, name in [(first, "a"), (second, "b")]:
            do(["dpkg-deb", "-R", path, name], folder)
        return subprocess.run(["diff", "-rq", "a", "b"], cwd=folder, capture_output=True, text=True, check=False).stdout


def check_deb():
    need("dpkg-buildpackage", "dh", "lintian", "fakeroot", "meson")
    with tempfile.TemporaryDirectory(prefix="memsight-deb-") as folder:
        paths = [copy_source(os.path.join(folder, name)) for name in ["first", "another/second"]]
        first = build_deb(paths[0])
        second = build_deb(paths[1], TZ="Asia/Tokyo", LC_ALL="C.UTF-8", USER="somebody")
        names = [os.path.basename(path).split("_")[0] for path in first]
        checks.that(names == ["libmemsight-dev", "memsight-dbgsym", "memsight"] or
                    sorted(names) == ["libmemsight-dev", "memsight", "memsight-dbgsym"], f"packages {names}")
        for one, other in zip(first, second):
            checks.that(same(one, other), f"{os.path.basename(one)} is another one when it is built again: {difference(one, other)}")
        changes = glob.glob(os.path.join(folder, "first/*.changes"))
        print(do(["lintian", "--allow-root", "--fail-on", "error,warning", "--tag-display-limit", "0", *changes], folder, HOME=folder))
        root = os.path.join(folder, "root")
        for path in first:
            if "dbgsym" not in path:
                do(["dpkg-deb", "-x", path, root], folder)
        pc = glob.glob(os.path.join(root, "usr/lib/*/pkgconfig"))
        checks.that(len(pc) == 1, f"pkg-config folders {pc}")
        # What autopkgtest runs, with the packages unpacked below a folder.
        print(do([os.path.join(SOURCE, "debian/tests/record")], folder, PATH=os.path.join(root, "usr/bin") + ":" + os.environ["PATH"],
                 PKG_CONFIG_PATH=":".join(pc), PKG_CONFIG_SYSROOT_DIR=root, HOME=folder, TMPDIR=folder))


# ---- The tarball ----

def make_tarball(copy):
    do(["meson", "dist", "-C", BUILD, "--no-tests", "--formats", "xztar", "--allow-dirty"], BUILD)
    shutil.copyfile(os.path.join(BUILD, f"meson-dist/memsight-{VERSION}.tar.xz"), copy)
    return copy


def check_dist():
    need("meson", "ninja", "git", "xz")
    if not os.path.exists(os.path.join(SOURCE, ".git")) or not os.access(BUILD, os.W_OK):
        whole.skip("a tarball is made from a git repository, into a build folder that this user may write")
    with tempfile.TemporaryDirectory(prefix="memsight-dist-") as folder:
        first, second = (make_tarball(os.path.join(folder, name)) for name in ["first.tar.xz", "second.tar.xz"])
        checks.that(same(first, second), "the tarball is another one when it is made again")
        do(["tar", "xJf", first], folder)
        # No repository above, so that git could tell nothing of it.
        path = os.path.join(folder, f"memsight-{VERSION}")
        do(["meson", "setup", "build"], path)
        do(["ninja", "-C", "build"], path)
        text = do(["meson", "test", "-C", "build", "--no-rebuild", "--no-suite", "long", "--timeout-multiplier", "3"], path)
        print("\n".join(text.splitlines()[-12:]))


{"deb": check_deb, "dist": check_dist}[PART]()
checks.end()
