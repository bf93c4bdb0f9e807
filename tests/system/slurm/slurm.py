"""Series on a real Slurm cluster of two nodes, and ranks of MPI: the case is named on the command
line."""
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time

from whole import Checks, Outcome, environment, skip

PATIENCE_S = 180
TOOLS = ["sbatch", "squeue", "scancel", "slurmctld", "slurmd", "munged", "sinfo"]


class Cluster(Checks):
    def __init__(self, memsight):
        super().__init__()
        self.memsight = memsight
        missing = [tool for tool in TOOLS if not shutil.which(tool)]
        if missing:
            skip(f"no {', '.join(missing)} (scripts/setup --all installs slurm-wlm and munge)")
        if os.getuid() != 0:
            skip("slurmd wants root")
        self.temporary = tempfile.TemporaryDirectory(prefix="memsight-slurm-",
                                                     ignore_cleanup_errors=True)
        self.folder = self.temporary.name
        os.chmod(self.folder, 0o755)
        self.script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "cluster.sh")
        self.cluster = os.path.join(self.folder, "cluster")
        self.output = os.path.join(self.folder, "results")
        self.config = os.path.join(self.folder, "series.ini")
        self.env = environment(SLURM_CONF=os.path.join(self.cluster, "slurm.conf"))

    def up(self):
        done = subprocess.run([self.script, "up", self.cluster], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, check=False)
        if done.returncode != 0:
            skip(f"the cluster did not come up: {done.stdout}")

    def down(self):
        subprocess.run([self.script, "down", self.cluster], check=False)

    def write(self, text, repetitions=2):
        with open(self.config, "w", encoding="utf-8") as file:
            file.write(
                f"[series]\nname = t\noutput = {self.output}\nrepetitions = {repetitions}\nseed = "
                f"3\n{text}"
            )

    def run(self, *options):
        return Outcome([self.memsight, "run", *options, self.config], cwd=self.folder, env=self.env)

    def slurm(self, *words):
        return subprocess.run(words, env=self.env, stdout=subprocess.PIPE, text=True,
                              check=False).stdout

    def wait(self, is_true, what):
        end = time.monotonic() + PATIENCE_S
        while not is_true():
            if time.monotonic() > end:
                self.that(False, f"{what}: {self.slurm('squeue')} {self.logs()}")
                return
            time.sleep(0.1)

    def wait_for_end(self):
        self.wait(lambda: not self.slurm("squeue", "-h").strip(), "all jobs end")

    def runs(self):
        return sorted(name for name in os.listdir(self.output) if not name.startswith(".")
                      and os.path.exists(os.path.join(self.output, name, "run.ini")))

    def logs(self):
        folder = os.path.join(self.output, "slurm")
        texts = []
        for name in sorted(os.listdir(folder)) if os.path.exists(folder) else []:
            with open(os.path.join(folder, name), encoding="utf-8", errors="replace") as file:
                texts.append(f"--{name}: {file.read()}")
        return "\n".join(texts)

    def ask(self, sql):
        database = sqlite3.connect(os.path.join(self.output, "memsight.db"))
        try:
            return database.execute(sql).fetchall()
        finally:
            database.close()


WORK = (
    "[workload echo]\ncommand = sh -c 'sleep 0.1; echo $SLURMD_NODENAME'\n[workload two]\ncommand "
    "= ls /\n"
    "[mode natural]\ndry = yes\n[mode traced]\nsource = none\n")
ALL = sorted(f"{p}.{m}.{n}" for p in ["echo", "two"] for m in ["natural", "traced"] for n in [1, 2])


def a_series_is_one_array_and_a_job_that_makes_the_database(cluster):
    cluster.write(WORK)
    outcome = cluster.run("--executor", "slurm")
    cluster.that(outcome.status == 0 and "8 runs submitted as job array" in outcome.messages,
                 outcome.messages)
    again = cluster.run("--executor", "slurm")
    cluster.that("are still there" in again.messages or "nothing is missing" in again.messages,
                 again.messages)
    status = cluster.run("--status").stdout.decode()
    cluster.that("8 runs in" in status and "Slurm, array" in status, status)
    cluster.wait_for_end()
    cluster.that(cluster.runs() == ALL, f"{cluster.runs()} {cluster.logs()}")
    nodes = set()
    for name in filter(lambda name: name.startswith("echo"), ALL):
        with open(os.path.join(cluster.output, name, "stdout"), encoding="utf-8") as file:
            nodes.add(file.read().strip())
    print("nodes", nodes)
    cluster.that(nodes <= {"n1", "n2"} and nodes, f"{nodes}")
    rows = cluster.ask("SELECT program || '.' || mode || '.' || repetition FROM run ORDER BY 1")
    cluster.that([row[0] for row in rows] == ALL, f"{rows} {cluster.logs()}")
    status = cluster.run("--status").stdout.decode()
    cluster.that("8 ok" in status, status)
    cluster.that("nothing is missing" in cluster.run("--executor", "slurm").messages,
                 "nothing is left to do")


def a_cancelled_series_goes_on_with_what_is_missing(cluster):
    cluster.write(WORK.replace("sleep 0.1", "sleep 1"), repetitions=3)
    cluster.run("--executor", "slurm", "--parallel", "1")
    cluster.wait(lambda: len(cluster.runs()) >= 2, "two runs are done")
    with open(os.path.join(cluster.output, "slurm", "jobs.lst"), encoding="utf-8") as file:
        array = file.read().split()[1]
    cluster.slurm("scancel", array)
    cluster.wait_for_end()
    n_before = len(cluster.runs())
    cluster.that(2 <= n_before < 12, f"{n_before} runs before")
    outcome = cluster.run("--executor", "slurm")
    cluster.that(f"{12 - n_before} runs submitted" in outcome.messages, outcome.messages)
    cluster.wait_for_end()
    cluster.that(len(cluster.runs()) == 12, f"{cluster.runs()} {cluster.logs()}")
    cluster.that(len(cluster.ask("SELECT id FROM run")) == 12, cluster.logs())


def a_node_that_dies_loses_no_run(cluster):
    """slurmd of n2 is killed with what it runs; its element is requeued, or done by the next call.
    """
    cluster.write(WORK.replace("sleep 0.1", "sleep 2"))
    cluster.run("--executor", "slurm")
    cluster.wait(lambda: "n2" in cluster.slurm("squeue", "-h", "-t", "R", "-o", "%N"),
                 "n2 has work")
    with open(os.path.join(cluster.cluster, "slurmd.n2.pid"), encoding="ascii") as file:
        os.kill(int(file.read()), signal.SIGKILL)
    cluster.slurm("scontrol", "update", "NodeName=n2", "State=DOWN", "Reason=test")
    cluster.wait_for_end()
    n_before = len(cluster.runs())
    print("runs before:", n_before)
    if n_before < 8:
        outcome = cluster.run("--executor", "slurm")
        cluster.that("runs submitted" in outcome.messages, outcome.messages)
        cluster.wait_for_end()
    cluster.that(cluster.runs() == ALL, f"{cluster.runs()} {cluster.logs()}")


def what_slurm_refuses_is_told_in_one_line(cluster):
    cluster.write(WORK)
    outcome = cluster.run("--executor", "slurm", "--sbatch-args", "--partition=nowhere")
    cluster.that(
        outcome.status == 1 and "sbatch: " in outcome.messages
        and "partition" in outcome.messages.lower() and outcome.messages.count("\n") == 1,
        outcome.messages)
    cluster.down()
    outcome = cluster.run("--executor", "slurm")
    cluster.that(
        outcome.status == 1 and "sbatch: " in outcome.messages
        and outcome.messages.count("\n") == 1, f"unreachable: {outcome.messages}")
    with tempfile.TemporaryDirectory() as folder:
        for tool in ["true", "sh", "ls"]:
            os.symlink(shutil.which(tool), os.path.join(folder, tool))
        cluster.env["PATH"] = folder
        outcome = cluster.run("--executor", "slurm")
    cluster.that(outcome.status == 1 and "there is no Slurm here" in outcome.messages,
                 outcome.messages)


def ranks_of_one_run_are_told_apart(cluster):
    """mpirun and srun, two ranks each, in one trace."""
    commands = {"srun": ["srun", "-n2", "--overcommit", "ls", "/"]}
    if shutil.which("mpirun"):
        commands["mpirun"] = [
            "mpirun", "--allow-run-as-root", "--oversubscribe", "-np", "2", "ls", "/"
        ]
    for name, command in commands.items():
        trace = os.path.join(cluster.folder, name + ".mst")
        outcome = Outcome([cluster.memsight, "record", "-s", "none", "-o", trace, "--", *command],
                          env=cluster.env)
        listing = Outcome([cluster.memsight, "query", "--format", "csv", trace,
                           "SELECT rank, traced FROM process WHERE exe GLOB '*/ls' ORDER BY rank"])
        print(name, outcome.messages, listing.stdout)
        cluster.that(outcome.status == 0, f"{name}: {outcome.messages}")
        cluster.that(listing.stdout.split() == [b"rank,traced", b"0,1", b"1,1"],
                     f"{name}: {listing.stdout}")


def main():
    memsight, case = sys.argv[1:]
    cluster = Cluster(os.path.abspath(memsight))
    try:
        cluster.up()
        globals()[case](cluster)
    finally:
        cluster.down()
    cluster.end()


if __name__ == "__main__":
    main()
