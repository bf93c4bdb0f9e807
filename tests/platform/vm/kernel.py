"""Debian's own kernel for the emulated machines: fetched once, unpacked, never installed."""
import gzip
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
# What Debian's kernel has as modules and the guests need.
MODULES = [
    "virtio_pci", "9p", "9pnet_virtio", "nfit", "nd_pmem", "device_dax", "kmem", "dax_hmem",
    "dax_pmem", "crc32c_generic", "crc32c_intel", "ext4"
]
TOOLS = {"qemu-system-x86_64": "qemu-system-x86", "busybox": "busybox-static", "cpio": "cpio",
         "modprobe": "kmod", "ndctl": "ndctl", "daxctl": "daxctl", "numactl": "numactl",
         "mkfs.ext4": "e2fsprogs", "setpriv": "util-linux"}
PATH = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
ENGLISH = {**os.environ, "LC_ALL": "C"}


def cache():
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return pathlib.Path(base) / "memsight" / "vm"


def image():
    return cache() / "vmlinux"


def missing():
    """Why no guest can run here, or None."""
    for tool, package in TOOLS.items():
        if not shutil.which(tool, path=PATH):
            return f"no {tool}: install {package}, or run scripts/setup --all"
    if not image().exists():
        return f"no kernel in {cache()}: run scripts/vm-test --fetch"
    return None


def package_name():
    lines = subprocess.run(["apt-cache", "depends", "linux-image-amd64"], text=True, check=True,
                           env=ENGLISH, stdout=subprocess.PIPE).stdout
    found = re.search(r"Depends: (linux-image-\S+)", lines)
    if not found:
        raise OSError("apt knows no linux-image-amd64")
    return found.group(1)


def unpacked(compressed):
    """The ELF image inside of a bzImage: it boots by PVH, three times as fast. Debian packs it with
    xz."""
    at = compressed.find(b"\xfd7zXZ\0")
    done = subprocess.run(["xz", "-dc"], input=compressed[at:], stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, check=False)  # complains about what follows
    if at < 0 or not done.stdout.startswith(b"\x7fELF"):
        raise SystemExit(
            "the kernel is not packed with xz: unpacked() of tests/platform/vm/kernel.py needs "
            "another way"
        )
    return done.stdout


def module_files(root, version):
    """In the order in which they must be loaded."""
    subprocess.run(["depmod", "-b", root, version], env={"PATH": PATH}, check=True)
    files = []
    for name in MODULES:
        lines = subprocess.run(
            ["modprobe", "-C", "/dev/null", "-d", root, "-S", version, "--show-depends", name],
            env={"PATH": PATH}, text=True, check=True, stdout=subprocess.PIPE).stdout
        files += [line.split()[1] for line in lines.splitlines() if line.startswith("insmod")]
    return list(dict.fromkeys(files))


def keep(root, target):
    """What guests need of an unpacked package: 70 of 400 MB."""
    version = next((root / "lib/modules").iterdir()).name
    (target / "modules").mkdir(parents=True)
    for number, file in enumerate(module_files(root, version)):
        shutil.copy(file, target / "modules" / f"{number:02}-{os.path.basename(file)}")
    (target / "version").write_text(version + "\n")
    (target / "vmlinux").write_bytes(unpacked((root / f"boot/vmlinuz-{version}").read_bytes()))


def fetch():
    """Download and unpack the kernel where there is none. Nothing half done is left behind."""
    if image().exists():
        return
    cache().parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="fetch-", dir=cache().parent) as folder:
        package = package_name()
        print(f"vm-test: fetching {package} into {cache()}", flush=True)
        subprocess.run(["apt-get", "download", "-qq", package], cwd=folder, check=True,
                       stderr=subprocess.DEVNULL)
        package_file = next(pathlib.Path(folder).glob("*.deb"))
        subprocess.run(["dpkg-deb", "-x", package_file, f"{folder}/root"], check=True)
        keep(pathlib.Path(folder) / "root", pathlib.Path(folder) / "vm")
        shutil.rmtree(cache(), ignore_errors=True)
        os.rename(f"{folder}/vm", cache())


def initial_files(shares, job):
    """The guest's first file system: busybox, the modules, init, and what it is to do."""
    with tempfile.TemporaryDirectory(prefix="memsight-vm-") as folder:
        root = pathlib.Path(folder)
        for name in ["bin", "proc", "sys", "dev", "new"]:
            (root / name).mkdir()
        shutil.copytree(cache() / "modules", root / "modules")
        shutil.copy(shutil.which("busybox"), root / "bin/busybox")
        shutil.copy(HERE / "init.sh", root / "init")
        (root / "init").chmod(0o755)
        (root / "shares").write_text("".join(f"{path}\n" for path in shares))
        (root / "job").write_text("exec " + shlex.join(map(str, job)) + "\n")
        names = "\n".join(str(path.relative_to(root)) for path in sorted(root.rglob("*")))
        return gzip.compress(
            subprocess.run(["cpio", "-o", "-H", "newc", "--quiet"], input=names.encode(), cwd=root,
                           stdout=subprocess.PIPE, check=True).stdout, 1)
