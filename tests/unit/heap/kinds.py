"""The memory kinds that can be tried here: options of record and variables, by name."""
import os
import tempfile

from whole import Outcome, environment

SIZE = "256M"


def folders():
    """Where files of a pmem heap may lie: one in memory, one on a disk."""
    return [folder for folder in ("/dev/shm", tempfile.gettempdir()) if os.access(folder, os.W_OK)]


def all_kinds():
    """This machine may have one node only: memkind takes the word of these variables for it."""
    kinds = {
        "default": (f"default,{SIZE}", {}),
        "highest-capacity": (f"highest-capacity,{SIZE}", {}),
        "lowest-latency": (f"lowest-latency,{SIZE}", {}),
        "hbw": (f"hbw,{SIZE}", {"MEMKIND_HBW_NODES": "0"}),
        "hbw-preferred": (f"hbw-preferred,{SIZE}", {"MEMKIND_HBW_NODES": "0"}),
        "kmem": (f"kmem,{SIZE}", {"MEMKIND_DAX_KMEM_NODES": "0"}),
    }
    for folder in folders():
        kinds[f"pmem:{folder}"] = (f"pmem:{folder},{SIZE}", {})
    return kinds


def is_here(memsight, kind, variables, folder):
    """False when this host lacks the kind: the refusal says so, and nothing has run."""
    marker = os.path.join(folder, "has-run")
    outcome = Outcome([
        memsight, "record", "-q", "-f", "-o",
        os.path.join(folder, "try.mst"), "--heap", kind, "--", "touch", marker
    ], env=environment(**variables))
    if outcome.status == 0:
        os.unlink(marker)
        return True
    print(outcome.messages.strip())
    if os.path.exists(marker) or "--heap" not in outcome.messages:
        raise SystemExit(f"FAILED: {kind} was refused, but not before the program's start")
    return False
