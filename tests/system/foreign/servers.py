"""Servers: started untraced and recorded, each on a port of its own on loopback, put under load,
and ended by the signal that its administrator would send."""
import contextlib
import dataclasses
import os
import re
import signal
import socket
import subprocess
import sys
import time

import programs
from whole import Outcome, environment


@dataclasses.dataclass
class Server(programs.Case):
    """`command` stays in the foreground; @port@ is a free port. `load` are shell commands, run one
    after the other when the port answers; what they print is compared, but for lines that `figure`
    matches: its group is what the load generator measured, per second."""
    before: tuple = ()
    load: tuple = ()
    figure: str = ""
    end: signal.Signals = signal.SIGTERM

    @property
    def has_figure(self):
        """Whether it is measured by what it did in a second, not by how long its load took."""
        return bool(self.figure)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_for(port, server):
    for _ in range(1200):
        if server.poll() is not None:
            return False
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return True
        time.sleep(0.05)
    return False


class Served(Outcome):
    """As an Outcome: the server's status and standard error, the standard output of the load."""

    def __init__(self, status, stdout, stderr, figure):
        lines = stderr.splitlines(keepends=True)
        self.status, self.stdout, self.figure = status, stdout, figure
        self.stderr = b"".join(line for line in lines if not line.startswith(b"memsight: "))
        self.messages = b"".join(line for line in lines if line.startswith(b"memsight: ")).decode()


def run_load(case, words, variables):
    """What the load printed without the lines that measure, and its figures' sum."""
    texts, figures = [], []
    for command in case.load:
        done = subprocess.run(words(command), shell=True, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, env=variables, timeout=case.timeout,
                              check=False, text=True)
        found = re.findall(case.figure, done.stdout, re.MULTILINE) if case.figure else []
        figures += [float(number) for number in found]
        texts.append(f"exit {done.returncode}\n")
        if done.returncode or not found:
            texts.append(done.stdout)
    return "".join(texts).encode(), figures


def serve(case, folder, wrap):
    port = free_port()
    variables = environment(LC_ALL="C.UTF-8", **case.variables)

    def words(text):
        return programs.filled(text, folder, port)

    for command in case.before:
        subprocess.run(words(command), shell=True, check=True, stdout=subprocess.DEVNULL,
                       env=variables, cwd=folder / "work")
    with open(folder / "server.err", "w+b") as errors, open(folder / "server.out", "w+b") as output:
        server = subprocess.Popen(wrap([words(word) for word in case.command]), stdout=output,
                                  stderr=errors, env=variables, cwd=folder / "work",
                                  stdin=subprocess.DEVNULL, start_new_session=True)
        try:
            up = wait_for(port, server)
            start = time.monotonic()
            stdout, figures = run_load(case, words, variables) if up else (b"it did not start\n",
                                                                           [])
            figure = sum(figures) if case.figure else time.monotonic() - start
            server.send_signal(case.end)
            status = server.wait(timeout=120)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(server.pid, signal.SIGKILL)
            server.wait()
        errors.seek(0)
        return Served(status, stdout, errors.read(), figure)


NGINX = """daemon off; pid WORK/pid; error_log stderr crit; worker_processes 2;
events { worker_connections 256; }
http { access_log off; gzip on; gzip_types text/plain; gzip_min_length 1;
	client_body_temp_path WORK/b; proxy_temp_path WORK/p; fastcgi_temp_path WORK/f;
	uwsgi_temp_path WORK/u; scgi_temp_path WORK/s;
	server { listen 127.0.0.1:PORT; root INPUT;
		location /again/ { proxy_pass http://127.0.0.1:PORT/; } } }
"""

FETCH = """@python@ -c "
import hashlib, urllib.request
for path in 'text', 'again/text', 'missing':
    request = urllib.request.Request('http://127.0.0.1:@port@/' + path,
                                     headers={'Accept-Encoding': 'gzip'})
    try:
        with urllib.request.urlopen(request) as page:
            print(path, page.status, hashlib.md5(page.read()).hexdigest())
    except OSError as error:
        print(path, error)
" """


def make_site(case, folder):
    (folder / "text").write_text("".join(f"line {i * 7919 % 5003}\n" for i in range(2000)))
    (folder / "text").chmod(0o644)
    (folder / "nginx.conf").write_text(NGINX)


def make_cluster(case, folder):
    subprocess.run([
        POSTGRES + "initdb", "-D",
        str(folder / "data"), "-A", "trust", "-U", "tester", "--no-sync", "--locale=C"
    ], check=True, stdout=subprocess.DEVNULL)


def make_keys(case, folder):
    for name in "host", "user":
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f",
                        str(folder / name)], check=True)


POSTGRES = "/usr/lib/postgresql/15/bin/"
PSQL = "psql -X -At -h 127.0.0.1 -p @port@ -U tester postgres "
SSH = (
    "ssh -F none -p @port@ -i @input@/user -o StrictHostKeyChecking=no -o "
    "UserKnownHostsFile=/dev/null "
    "-o LogLevel=ERROR 127.0.0.1 ")

CASES = [
    Server(
        "redis", "redis-server, redis-tools", ["redis-server", "redis-benchmark"],
        ["redis-server", "--version"], [
            "redis-server", "--port", "@port@", "--bind", "127.0.0.1", "--save", "", "--dir",
            "@work@", "--loglevel", "warning"
        ], blocks=("redis-check-rdb",), load=
        ("redis-cli -p @port@ eval \"for i = 1, 20000 do redis.call('rpush', 'list' .. i % 97, i) "
         "redis.call('hset', 'hash', i, i * 7) end return redis.call('dbsize')\" 0",
         "redis-cli -p @port@ lrange list5 0 20",
         "redis-benchmark -p @port@ -q -n 100000 -c 20 -t set,get,lpush,lpop,sadd,hset | tr '\\r' "
         "'\\n' | grep 'per second'",
         "redis-cli -p @port@ save", "redis-cli -p @port@ dbsize"),
        figure=r"^\w+: ([\d.]+) requests per second"),
    Server(
        "memcached", "memcached", ["memcached"], ["memcached", "--version"],
        ["memcached", "-p", "@port@", "-l", "127.0.0.1", "-t", "4", "-u", "nobody"],
        blocks=("memcached",), end=signal.SIGTERM, load=("""@python@ -c "
import socket
s = socket.create_connection(('127.0.0.1', @port@)); f = s.makefile('rwb')
for i in range(20000):
    value = b'v' * (i % 300)
    f.write(b'set key%d 0 0 %d\\r\\n%s\\r\\n' % (i % 5003, len(value), value))
    f.flush(); assert f.readline() == b'STORED\\r\\n'
f.write(b'get key77\\r\\n'); f.flush(); print(f.readline(), len(f.readline()))
" """,)),
    Server(
        "nginx", "nginx-light, wrk", ["/usr/sbin/nginx", "wrk"], ["/usr/sbin/nginx", "-v"],
        ["/usr/sbin/nginx", "-p", "@work@", "-c", "@work@/nginx.conf"], make_site,
        blocks=("nginx",), end=signal.SIGQUIT, before=
        ("sed 's#INPUT#@input@#;s#WORK#@work@#g;s#PORT#@port@#g' "
         "@input@/nginx.conf > @work@/nginx.conf && chmod 755 @input@ @work@ @work@/.. && chmod "
         "644 @work@/nginx.conf",
         ), load=(FETCH, "wrk -t1 -c16 -d2s http://127.0.0.1:@port@/text",
                  "wrk -t1 -c16 -d1s http://127.0.0.1:@port@/again/text", FETCH),
        figure=r"Requests/sec:\s+([\d.]+)"),
    Server(
        "postgres", "postgresql-15", [POSTGRES + "postgres", "pgbench"],
        [POSTGRES + "postgres", "--version"], [
            POSTGRES + "postgres", "-D", "@input@/data", "-p", "@port@", "-h", "127.0.0.1", "-k",
            "@work@", "-F"
        ], make_cluster, blocks=("postgres",), unlike_root="PostgreSQL refuses to run as root",
        end=signal.SIGTERM, mask=r"(?m)^\d{4}-.*$\n?", load=
        ("pgbench -h 127.0.0.1 -p @port@ -U tester -i -q -s 2 postgres > @work@/init 2>&1",
         "pgbench -h 127.0.0.1 -p @port@ -U tester -n -c 4 -t 500 postgres",
         "pgbench -h 127.0.0.1 -p @port@ -U tester -n -S -c 4 -t 2000 postgres", PSQL +
         "-c 'select count(*), sum(abalance) - (select sum(delta) from pgbench_history) from "
         "pgbench_accounts'",
         PSQL + "-c 'select bid % 2, count(*) from pgbench_accounts group by 1 order by 1'"),
        figure=r"^tps = ([\d.]+)"),
    Server(
        "sshd", "openssh-server", ["/usr/sbin/sshd", "ssh"], ["ssh", "-V"], [
            "/usr/sbin/sshd", "-D", "-e", "-f", "/dev/null", "-p", "@port@", "-h", "@input@/host",
            "-o", "ListenAddress=127.0.0.1", "-o", "AuthorizedKeysFile=@input@/user.pub", "-o",
            "StrictModes=no", "-o", "PidFile=none", "-o", "PermitRootLogin=yes", "-o",
            "LogLevel=FATAL"
        ], make_keys, blocks=("sshd", "perl"),
        load=(SSH + "'perl -e \"print 6*7, qq(\\n)\"; exit 3'; test $? = 3",
              SSH + "-tt 'tty | cut -c1-8'", "seq 1 50000 | " + SSH + "md5sum"),
        before=("mkdir -p /run/sshd",),
        only_root="sshd serves only its own user without root, who has no shell"),
]
