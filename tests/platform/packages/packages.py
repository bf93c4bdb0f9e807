#!/usr/bin/env python3
"""Debian packages and the tarball: built twice they are the same, lintian finds nothing, and what
is in them works. Arguments: source folder, build folder, version, part (deb, dist, tarball)."""
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile

import whole

SOURCE, BUILD, VERSION, PART = sys.argv[1:5]
SECONDS = 3600
checks = whole.Checks()


def environment(**variables):
    """Without what leads to the libraries of the build folder that this test was started from."""
    return {
        k: v
        for k, v in whole.environment(**variables).items()
        if k not in ("LD_LIBRARY_PATH", "PYTHONPATH")
    }


def do(command, folder, **variables):
    """Run a command that must succeed; its output is shown when it does not."""
    done = subprocess.run(command, cwd=folder, env=environment(**variables),
                          stdin=subprocess.DEVNULL, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, errors="replace", timeout=2 * SECONDS,
                          check=False)
    if done.returncode:
        print("\n".join(
            line for line in done.stdout.splitlines() if " FAIL " in line or " TIMEOUT " in line))
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
        return [
            name for name in names
            if top and (name == ".git" or name.startswith("build") or ".mst" in name)
        ]
    path = os.path.join(folder, f"memsight-{VERSION}")
    # The tarball has no bits that an umask took away.
    shutil.copytree(SOURCE, path, ignore=leave_out, symlinks=True)
    subprocess.run(["chmod", "-R", "u+rwX,go+rX,go-w", path], check=True)
    return path


def build_deb(path, **variables):
    folder = os.path.dirname(path)
    do(["dpkg-buildpackage", "-us", "-uc", "-b"], path, DEB_BUILD_OPTIONS="nocheck parallel=2",
       SOURCE_DATE_EPOCH="1767225600", HOME=folder, **variables)
    return sorted(glob.glob(os.path.join(folder, "*.deb")))


def difference(first, second):
    """Which files of two packages differ."""
    with tempfile.TemporaryDirectory() as folder:
        for path, name in [(first, "a"), (second, "b")]:
            do(["dpkg-deb", "-R", path, name], folder)
        return subprocess.run(["diff", "-rq", "a", "b"], cwd=folder, capture_output=True, text=True,
                              check=False).stdout


# In a copy of this system that nobody else sees and that is gone with the last process in it.
INSTALL = """set -eu
mount -t tmpfs tmpfs copy
mkdir copy/new copy/work copy/root
mount -t overlay overlay -o lowerdir=/,upperdir=copy/new,workdir=copy/work copy/root || exit 77
for name in proc sys dev; do mount --rbind /$name copy/root/$name; done
mkdir copy/root/debs && cp *.deb copy/root/debs && cp "$1" copy/root/debs/record
exec chroot copy/root env -i HOME=/tmp TMPDIR=/tmp PATH=/usr/sbin:/usr/bin:/sbin:/bin \
	LC_ALL=C.UTF-8 sh -eu -c '
ours() { find /usr -xdev -cnewer /debs/record -name "*memsight*" ! -type d | sed "s/^/$1: /"; }
dpkg -i /debs/*.deb
ours installed
/debs/record
zsh -f -c "autoload -Uz compinit; compinit -u -D; echo zsh completes by \\$_comps[memsight]"
fish -c "complete -C \\"memsight repo\\"" | sed "s/^/fish completes /"
bash --norc -c ". /usr/share/bash-completion/completions/memsight && complete -p memsight" |
	sed "s/^/bash completes by /"
dpkg -P memsight libmemsight-dev memsight-dbgsym
ours "left behind"
'"""


def check_installed(folder):
    """Installed by dpkg, it works from where it lies, and shells find its completion; removed,
    nothing is left."""
    if os.getuid() != 0:
        print("not installed: this user may not")
        return
    os.mkdir(os.path.join(folder, "copy"))
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", INSTALL, "sh",
         os.path.join(SOURCE, "debian/tests/record")], cwd=folder, env=environment(),
        stdin=subprocess.DEVNULL, text=True, capture_output=True, check=False)
    if done.returncode == whole.SKIP:
        print("not installed: no overlay of file systems here")
        return
    checks.that(done.returncode == 0, f"installed: {done.returncode} {done.stdout} {done.stderr}")
    for words in [
            "zsh completes by _memsight", "fish completes report", "bash completes by complete -F",
            "installed: /usr/bin/memsight\n", "installed: /usr/include/memsight.h\n"
    ]:
        checks.that(words in done.stdout, f"'{words}' is not in {done.stdout} {done.stderr}")
    checks.that("left behind" not in done.stdout, done.stdout)


def check_deb():
    need("dpkg-buildpackage", "dh", "lintian", "fakeroot", "meson", "zsh", "fish")
    with tempfile.TemporaryDirectory(prefix="memsight-deb-") as folder:
        paths = [copy_source(os.path.join(folder, name)) for name in ["first", "another/second"]]
        first = build_deb(paths[0])
        second = build_deb(paths[1], TZ="Asia/Tokyo", LC_ALL="C.UTF-8", USER="somebody")
        names = [os.path.basename(path).split("_")[0] for path in first]
        checks.that(
            names == ["libmemsight-dev", "memsight-dbgsym", "memsight"]
            or sorted(names) == ["libmemsight-dev", "memsight", "memsight-dbgsym"],
            f"packages {names}")
        for one, other in zip(first, second):
            checks.that(
                same(one, other),
                f"{os.path.basename(one)} is another one when it is built again: "
                f"{difference(one, other)}"
            )
        changes = glob.glob(os.path.join(folder, "first/*.changes"))
        print(
            do([
                "lintian", "--allow-root", "--fail-on", "error,warning", "--tag-display-limit", "0",
                *changes
            ], folder, HOME=folder))
        root = os.path.join(folder, "root")
        for path in first:
            if "dbgsym" not in path:
                do(["dpkg-deb", "-x", path, root], folder)
        pc = glob.glob(os.path.join(root, "usr/lib/*/pkgconfig"))
        checks.that(len(pc) == 1, f"pkg-config folders {pc}")
        # What autopkgtest runs, with the packages unpacked below a folder.
        print(
            do([os.path.join(SOURCE, "debian/tests/record")], folder,
               PATH=os.path.join(root, "usr/bin") + ":" + os.environ["PATH"],
               PKG_CONFIG_PATH=":".join(pc), PKG_CONFIG_SYSROOT_DIR=root, HOME=folder,
               TMPDIR=folder))
        check_installed(os.path.join(folder, "first"))


# ---- The tarball ----

def make_tarball(build, umask, **variables):
    do([
        "sh", "-c",
        f"umask {umask} && meson dist -C {build} --no-tests --formats xztar --allow-dirty"
    ], build, **variables)
    return os.path.join(build, f"meson-dist/memsight-{VERSION}.tar.xz")


def make_tarball_elsewhere(folder):
    """Of a clone of the same commit, with other habits."""
    commit = do(["git", "rev-parse", "HEAD"], SOURCE).strip()
    do(["git", "clone", "-q", SOURCE, "clone"], folder)
    clone = os.path.join(folder, "clone")
    do(["git", "checkout", "-q", commit], clone)
    do(["meson", "setup", "-Dtests=disabled", "build"], clone)
    return make_tarball(os.path.join(clone, "build"), "077", TZ="Asia/Tokyo", LC_ALL="C")


def check_dist():
    need("meson", "ninja", "git", "xz")
    if not os.path.exists(os.path.join(SOURCE, ".git")) or not os.access(BUILD, os.W_OK):
        whole.skip(
            "a tarball is made from a git repository, into a build folder that this user may write")
    with tempfile.TemporaryDirectory(prefix="memsight-dist-") as folder:
        os.chmod(folder, 0o711)  # some of the tests become an ordinary user
        tarball = make_tarball(BUILD, "022")
        checks.that(same(tarball, make_tarball_elsewhere(folder)),
                    "the tarball is another one when it is made elsewhere")
        do(["tar", "xJf", tarball], folder)
        # No repository above, so that git could tell nothing of it.
        path = os.path.join(folder, f"memsight-{VERSION}")
        do(["meson", "setup", "build"], path)
        do(["ninja", "-C", "build"], path)
        text = do([
            "meson", "test", "-C", "build", "--no-rebuild", "--no-suite", "long",
            "--timeout-multiplier", "10"
        ], path, CK_TIMEOUT_MULTIPLIER="20")
        print("\n".join(text.splitlines()[-12:]))


# ---- The folder that works anywhere, and the image ----

# What a library of the C library is called; those are the system's.
OF_LIBC = re.compile(r"/(libc|libm|libpthread|libdl|librt|libresolv|ld-linux[^/]*)\.so")


def recipe_steps():
    """The commands of Containerfile's first image, and what its second one takes from there."""
    with open(os.path.join(SOURCE, "Containerfile"), encoding="utf-8") as file:
        first, second = re.split(r"(?m)^FROM .*\n", file.read())[1:]
    return re.findall(r"(?m)^RUN (.*)$", first), re.findall(r"COPY --from=build (\S+)", second)


def check_libraries(root):
    """All but the C library's come out of the folder."""
    files = [os.path.join(root, "bin/memsight"),
             *glob.glob(os.path.join(root, "lib/memsight/*.so")),
             *glob.glob(os.path.join(root, "lib/memsight/memsight-kinds")),
             *glob.glob(os.path.join(root, "lib/memsight/libraries/*"))]
    checks.that(len(files) > 10, f"files of the folder: {files}")
    for file in files:
        # Libraries are found by the command that loads them.
        text = do(["ldd", file], root) if "libraries" not in file else ""
        checks.that("not found" not in text, f"{file}: {text}")
        for path in re.findall(r"=> (.+) \(0x", text):
            checks.that(path.startswith(root) or OF_LIBC.search(path), f"{file} needs {path}")


def as_stranger(command, folder):
    rights = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    return do([*(rights if os.getuid() == 0 else []), *command], folder, HOME="/nonexistent")


def check_tarball():
    """The steps of the container's recipe, made here; what they made then works elsewhere."""
    need("meson", "ninja", "setpriv")
    commands, copied = recipe_steps()
    checks.that(commands[0] == "scripts/setup --build" and copied == ["/opt/memsight"],
                f"{commands} {copied}")
    with tempfile.TemporaryDirectory(prefix="memsight-tarball-") as folder:
        os.chmod(folder, 0o755)
        source = copy_source(folder)
        os.mkdir(os.path.join(folder, "opt"))
        for command in commands:
            do(["sh", "-c", command.replace("/opt", os.path.join(folder, "opt"))], source)
        checks.that(len(glob.glob(os.path.join(folder, "opt/*.tar.gz"))) == 1, "tarballs")
        root = os.path.join(folder, "moved here")
        os.rename(os.path.join(folder, "opt/memsight"), root)
        shutil.rmtree(source)
        check_libraries(root)
        work = os.path.join(folder, "work")
        os.mkdir(work)
        os.chmod(work, 0o777)
        memsight = os.path.join(root, "bin/memsight")
        as_stranger([memsight, "record", "-o", "a.mst", "ls", "/"], work)
        for rest in (["report"], ["plot", "-o", "a.pdf"], ["view", "--export", "a.html"]):
            as_stranger([memsight, rest[0], "a.mst", *rest[1:]], work)
        text = as_stranger([memsight, "query", "a.mst", "SELECT count(*) FROM allocation"], work)
        checks.that(int(text.split()[-1]) > 10, f"blocks of ls: {text}")
        checks.that(os.path.exists(os.path.join(root, "share/doc/memsight/README.md")), "documents")


{"deb": check_deb, "dist": check_dist, "tarball": check_tarball}[PART]()
checks.end()
