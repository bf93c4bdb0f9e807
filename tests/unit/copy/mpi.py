#!/usr/bin/env python3
"""A copy of a parallel program under mpirun: same output, and each rank's trace has the blocks that
`record` finds of it. Arguments: memsight, source of the program."""
import glob
import os
import shutil
import subprocess
import sys
import tempfile

import whole

MEMSIGHT, SOURCE = map(os.path.abspath, sys.argv[1:3])
checks = whole.Checks()
# Ranks wait for each other; root must say that he means it.
ENVIRONMENT = whole.environment(OMPI_MCA_mpi_yield_when_idle="1", OMPI_ALLOW_RUN_AS_ROOT="1",
                                OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", OMPI_MCA_btl="self,vader")
MPIRUN = ["mpirun", "--oversubscribe", "-n", "2"]


def blocks_of(folder, name):
    """By rank, all that the program's own code has allocated: calls, sizes, functions."""
    found = {}
    for trace in glob.glob(os.path.join(folder, name + ".*.mst")):
        whole.run([MEMSIGHT, "analyze", trace])
        database = whole.Database(trace + ".db")
        rows = database.ask("SELECT call, size, function, count(*) FROM allocation"
                            " JOIN stack ON stack.id = allocation.stack_id"
                            " JOIN frame ON frame.id = frame_id"
                            " WHERE path LIKE '%/cg%' GROUP BY 1, 2, 3 ORDER BY 1, 2, 3")
        found[os.path.basename(trace).split(".")[1]] = rows
    return found


def main():
    if not shutil.which("mpirun") or not shutil.which("mpicc"):
        whole.skip("mpirun and mpicc (openmpi-bin, libopenmpi-dev) are not there")
    with tempfile.TemporaryDirectory() as folder:
        program, copy = os.path.join(folder, "cg"), os.path.join(folder, "cg.inst")
        if subprocess.run(["mpicc", "-O2", "-g", "-o", program, SOURCE, "-lm"],
                          check=False).returncode:
            whole.skip("mpicc finds no mpi.h (libopenmpi-dev)")
        options = ["--source", "none"]
        whole.run([MEMSIGHT, "instrument", "-q", "-o", copy, "--trace",
                   os.path.join(folder, "copy.%r.mst"), *options, "--", program])
        plain = whole.Outcome([*MPIRUN, program], env=ENVIRONMENT)
        for name, command in {
                "copy": [copy],
                "record": [MEMSIGHT, "record", "-q", *options, "-o",
                           os.path.join(folder, "record.%r.mst"), "--", program]}.items():
            outcome = whole.Outcome([*MPIRUN, *command], env=ENVIRONMENT)
            for difference in outcome.differs_from(plain):
                checks.that(False, f"{name}: {difference}")
        copied, recorded = blocks_of(folder, "copy"), blocks_of(folder, "record")
        checks.that(set(copied) == {"0", "1"}, f"ranks {set(copied)}")
        checks.that(copied == recorded, f"the copy has {copied}, record {recorded}")
        checks.that(all(sum(row[3] for row in rows) > 1000 for rows in copied.values()),
                    f"{copied}")
    checks.end()


if __name__ == "__main__":
    main()
