#!/usr/bin/env python3
"""What bash, zsh and fish complete when somebody presses the tabulator. Arguments: memsight, its
completion file, shell."""
import os
import pty
import re
import select
import shutil
import subprocess
import sys
import tempfile
import time

import whole

MEMSIGHT, SHELL = os.path.abspath(sys.argv[1]), sys.argv[3]
COMPLETION = os.path.abspath(sys.argv[2])
TIMEOUT = 60
checks = whole.Checks()

# What is typed behind `memsight', and the words that it becomes.
CASES = [
    ("rep", ["report"]),
    ("help ana", ["help", "analyze"]),
    ("report --lea", ["report", "--leaks"]),
    ("report --format j", ["report", "--format", "json"]),
    ("report --format=j", ["report", "--format=json"]),
    ("export --format pp", ["export", "--format", "pprof"]),
    ("record --source clock,fau", ["record", "--source", "clock,faults"]),
    ("record --stacks dw", ["record", "--stacks", "dwarf"]),
    ("plot --kind ser", ["plot", "--kind", "series"]),
    ("report onlyf", ["report", "onlyfile.mst"]),
    ("report -r 1 --leaks onlyf", ["report", "-r", "1", "--leaks", "onlyfile.mst"]),
    ("plot -o onlyf", ["plot", "-o", "onlyfile.mst"]),
    ("run --output onlyd", ["run", "--output", "onlydir"]),
    ("record quaintpr", ["record", "quaintprogram"]),
    ("record -o x.mst quaintpr", ["record", "-o", "x.mst", "quaintprogram"]),
]
START = {
    "bash": ["bash", "--norc", "--noprofile", "-i"],
    "zsh": ["zsh", "-f", "-i"],
}
SETUP = {
    "bash": "PS1='ready> '; bind 'set enable-bracketed-paste off' 2>/dev/null; source {completion}",
    "zsh": "PS1='ready> '; fpath=({folder} $fpath); autoload -Uz compinit; compinit -u -D",
}
SHOW = "memsight() {{ printf '<%s>' \"$@\"; echo '<end>'; }}"


class Terminal:
    """An interactive shell; it prints the words that a line ends up as."""

    def __init__(self, folder):
        self.master, slave = pty.openpty()
        env = whole.environment(TERM="dumb", HOME=folder, PATH=folder + ":/usr/bin:/bin",
                                INPUTRC="/dev/null", LC_ALL="C.UTF-8")
        self.child = subprocess.Popen(START[SHELL], stdin=slave, stdout=slave, stderr=slave,
                                      cwd=folder, env=env, start_new_session=True, close_fds=True)
        os.close(slave)
        self.text = ""

    def wait_for(self, pattern):
        end = time.monotonic() + TIMEOUT
        while not re.search(pattern, self.text):
            ready = select.select([self.master], [], [], max(0, end - time.monotonic()))[0]
            if not ready:
                return False
            self.text += os.read(self.master, 65536).decode(errors="replace")
        return True

    def say(self, text):
        os.write(self.master, text.encode())

    def command(self, line):
        self.text = ""
        self.say(line + "; echo do''ne\n")
        if not self.wait_for("done"):
            print(f"{SHELL} does not answer to {line}: {self.text!r}")
            sys.exit(1)

    def complete(self, line):
        """The words that a line and a tabulator become; [] when they become nothing."""
        self.text = ""
        self.say("memsight " + line + "\t")
        # What the shell makes of the tabulator comes before the end of the line is read.
        time.sleep(0.2)
        self.say("\n")
        found = re.findall(r"<([^<>]*)>", self.text) if self.wait_for("<end>") else []
        return [word.rstrip().rstrip("/") for word in found[:-1]]

    def leave(self):
        self.say("\x15exit\n")
        os.close(self.master)
        self.child.wait()


def in_terminal(folder):
    terminal = Terminal(folder)
    terminal.command(SETUP[SHELL].format(completion=COMPLETION, folder=os.path.dirname(COMPLETION)))
    terminal.command(SHOW.format())
    for line, words in CASES:
        found = terminal.complete(line)
        checks.that(found == words, f"'{line}' becomes {found}, not {words}: {terminal.text!r}")
    terminal.leave()


def in_fish(folder):
    """fish tells what it would offer."""
    for line, words in CASES:
        script = f"source {COMPLETION}; complete -C 'memsight {line}'"
        done = subprocess.run(["fish", "--no-config", "-c", script], cwd=folder,
                              capture_output=True, text=True, check=False, env=whole.environment(
                                  HOME=folder, PATH=folder + ":/usr/bin:/bin", LC_ALL="C.UTF-8"))
        offered = [row.split("\t")[0].rstrip("/") for row in done.stdout.splitlines()]
        checks.that(words[-1] in offered,
                    f"'{line}' offers {offered[:9]}, not {words[-1]}: {done.stderr}")
        if line.startswith("report --format "):
            checks.that(offered == ["json"], f"'{line}' offers {offered}")


def every_option_is_offered():
    """Each long option that --help names is in the file, and no other."""
    with open(COMPLETION, encoding="utf-8") as file:
        text = file.read()
    help_text = whole.run([MEMSIGHT, "--help"])
    for command in re.findall(r"^ +([a-z]+)  ", help_text, re.MULTILINE):
        told = whole.run([MEMSIGHT, command, "--help"])
        for name in set(re.findall(r"^ +(?:-\w, )?--([a-z0-9-]+)", told, re.MULTILINE)):
            checks.that(re.search(rf"(--|-l ){name}\b", text),
                        f"--{name} of {command} is not completed")


def main():
    if not shutil.which(SHELL):
        whole.skip(f"no {SHELL} here")
    every_option_is_offered()
    with tempfile.TemporaryDirectory() as folder:
        os.mkdir(os.path.join(folder, "onlydir"))
        open(os.path.join(folder, "onlyfile.mst"), "w").close()
        program = os.path.join(folder, "quaintprogram")
        with open(program, "w", encoding="utf-8") as file:
            file.write("#!/bin/sh\n")
        os.chmod(program, 0o755)
        if SHELL == "fish":
            in_fish(folder)
        else:
            in_terminal(folder)
    checks.end()


main()
