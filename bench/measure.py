"""What benches of the whole program share: run a command, and take its time."""
import resource
import statistics
import subprocess
import time


class Failed(Exception):
    """A command has failed; the text says which and how."""


def run(command, env=None, cwd=None):
    """Wall and CPU seconds of a command with all its children, and its output. Raises Failed."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.monotonic()
    done = subprocess.run(command, env=env, cwd=cwd, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True)
    wall = time.monotonic() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode != 0:
        raise Failed(f"{' '.join(command)}: exit {done.returncode}\n{done.stderr.strip()}")
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return wall, cpu, done.stdout


def quartiles(values):
    """The lower quartile, the median and the upper one."""
    if len(values) < 2:
        return values[0], values[0], values[0]
    return tuple(statistics.quantiles(values, n=4, method="inclusive"))
