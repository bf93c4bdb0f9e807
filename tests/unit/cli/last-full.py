#!/usr/bin/env python3
"""record --last on a disk that is full long before the span is over: what lives is all there, what
was left out is counted, and recording does not stop. Arguments: memsight, victim-full."""
import os
import sys
import tempfile

import whole

MEMSIGHT, VICTIM = map(os.path.abspath, sys.argv[1:3])
checks = whole.Checks()
THOUSANDS = 300
MOUNT = ('mount -t tmpfs -o size=512k none "$0" || exit 99; "$@"; r=$?; cp "$0"/run.mst* "$0.out";'
         ' exit $r')


def main():
    if os.geteuid() != 0:
        whole.skip("only root can mount a small disk")
    with tempfile.TemporaryDirectory(prefix="memsight-test-") as folder:
        disk, out = os.path.join(folder, "disk"), os.path.join(folder, "disk.out")
        os.mkdir(disk)
        os.mkdir(out)
        done = whole.Outcome([
            "unshare", "-m", "sh", "-c", MOUNT, disk, MEMSIGHT, "record", "-s", "none", "-o",
            os.path.join(disk, "run.mst"), "--last", "1h", "--", VICTIM, str(THOUSANDS)
        ])
        if done.status == 99 or "unshare" in done.messages:
            whole.skip("a small disk cannot be mounted here")
        checks.that(done.status == 0 and "has stopped" not in done.messages, done.messages)
        checks.that("disk of" in done.messages, f"nothing is said of the disk: {done.messages}")
        checks.that(os.listdir(out) == ["run.mst"], f"{os.listdir(out)}")
        trace = os.path.join(out, "run.mst")
        whole.run([MEMSIGHT, "analyze", trace])
        database = whole.Database(trace + ".db")
        live = dict(database.ask("SELECT size, count(*) FROM allocation WHERE freed_ns IS NULL"
                                 " AND size IN (100, 200, 5000) GROUP BY size"))
        lost = sum(row[2] for row in database.ask(
            "SELECT source, reason, count FROM loss WHERE source <> 'collector'"))
        checks.that(lost or live == {200: THOUSANDS, 5000: 100}, f"live at the end: {live}")
    checks.end()


main()
