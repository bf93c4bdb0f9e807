"""The emulated machines, and how one is started: qemu without KVM, Debian's kernel, this host's
/usr."""
import os
import pathlib
import subprocess
import tempfile

import kernel

ROOT = pathlib.Path(__file__).resolve().parents[3]
PATIENCE_S = 1500  # a guest takes 60 s on a machine that has nothing else to do


def ram(name, size):
    return f"-object memory-backend-ram,id={name},size={size}"


def bandwidth(target, nanoseconds, gigabytes):
    """What the firmware tells of a node, in its HMAT."""
    lb = f"-numa hmat-lb,initiator=0,target={target},hierarchy=memory,data-type=access-"
    return f"{lb}latency,latency={nanoseconds} {lb}bandwidth,bandwidth={gigabytes}G"


def nvdimm(number, size, node):
    return (f"-object memory-backend-ram,id=nv{number},size={size} "
            f"-device nvdimm,id=nvd{number},memdev=nv{number},node={node},label-size=2M")


FAR = "-numa dist,src=0,dst=1,val=21 -numa dist,src=0,dst=2,val=31 -numa dist,src=1,dst=2,val=31"

# Of an NVDIMM, size less label must be a multiple of 16 MiB. It lasts as long as the guest: in a
# file, writes would
# wait for the disk of this host.
MACHINES = {
    "nodes": [
        "-machine q35 -m 1280M -smp 2",
        ram("m0", "640M"),
        ram("m1",
            "640M"), "-numa node,nodeid=0,memdev=m0,cpus=0 -numa node,nodeid=1,memdev=m1,cpus=1",
        "-numa dist,src=0,dst=1,val=21"
    ],
    "tiers": [
        "-machine q35,hmat=on -m 1280M -smp 2",
        ram("m0", "768M"),
        ram("m1", "256M"),
        ram("m2", "256M"),
        "-numa node,nodeid=0,memdev=m0,cpus=0-1 -numa node,nodeid=1,memdev=m1,initiator=0",
        "-numa node,nodeid=2,memdev=m2,initiator=0", FAR,
        bandwidth(0, 100, 100),
        bandwidth(1, 150, 400),
        bandwidth(2, 350, 30)
    ],
    "pmem": [
        "-machine q35,nvdimm=on -m 1G,slots=4,maxmem=8G -smp 2",
        ram("m0", "1G"),
        "-numa node,nodeid=0,memdev=m0,cpus=0-1 -numa node,nodeid=1 -numa node,nodeid=2", FAR,
        nvdimm(1, "258M", 1),
        nvdimm(2, "514M", 2)
    ],
    "single": ["-machine q35 -m 1G -smp 1"],
}
KERNEL_WORDS = {"single": "nr_cpus=1"}


def shares(build):
    """Folders of this host that the guest sees at the same place, for reading only."""
    found = [pathlib.Path("/usr"), ROOT]
    return found if ROOT in build.parents else [*found, build]


def command_line(name, folder, build, image):
    line = (
        "qemu-system-x86_64 -accel tcg,thread=multi -cpu max -bios qboot.rom -nodefaults "
        "-no-reboot "
        "-display none -serial stdio").split()
    line += " ".join(MACHINES[name]).split()
    for number, path in enumerate(shares(build)):
        line += [
            "-virtfs", f"local,path={path},mount_tag=share{number},security_model=none,readonly=on,"
            "multidevs=remap"
        ]
    return [*line, "-kernel", str(image), "-initrd", os.path.join(folder, "initrd"), "-append",
            f"console=ttyS0 panic=-1 quiet {KERNEL_WORDS.get(name, '')}"]


class Guest:
    """One boot: .output is the console, .status that of the job, or None when there was none."""

    def __init__(self, name, build, job):
        self.status = None
        with tempfile.TemporaryDirectory(prefix="memsight-vm-") as folder:
            with open(os.path.join(folder, "initrd"), "wb") as initrd:
                initrd.write(kernel.initial_files(shares(build), job))
            self.output = self.boot(command_line(name, folder, build, kernel.image()), folder)
        for line in self.output.splitlines():
            if line.startswith("@@ status "):
                self.status = int(line.split()[2])

    @staticmethod
    def boot(command, folder):
        with subprocess.Popen(command, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT) as qemu:
            try:
                output, _ = qemu.communicate(timeout=PATIENCE_S)
            except BaseException as error:
                qemu.kill()
                output, _ = qemu.communicate()
                if not isinstance(error, subprocess.TimeoutExpired):
                    raise
                output += f"\nstopped after {PATIENCE_S} s\n".encode()
        return output.decode(errors="replace").replace("\r", "")
