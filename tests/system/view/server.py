#!/usr/bin/env python3
"""What a server owes its host: it is heard at 127.0.0.1 only, gives nothing to who does not know
the token, changes nothing, and stays alive and small whatever clients send, or leave unsent."""
import asyncio
import hashlib
import os
import pty
import re
import resource
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import time
import urllib.parse

import served
import whole

MANY = 10000
MAX_RSS_KIB = 200 << 10
PATIENCE_S = 120


def raise_limit():
    """How many sockets this test may have."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MANY + 500
    limit = wanted if hard in (-1, resource.RLIM_INFINITY) or hard >= wanted else hard
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
    return min(MANY, limit - 400)


def check_token(checks, server):
    for path in [
            "/", "/api/runs", "/favicon.ico", "/" + "0" * 32 + "/",
            "/" + server.token.upper() + "/", "/" + server.token[:-1] + "/", "/" + server.token,
            "//" + server.token + "/", "/%2f" + server.token + "/"
    ]:
        reply = server.get(path)
        is_same = path == "/" + server.token.upper() + "/" and server.token.isdigit()
        checks.that(reply.status == 403 or is_same,
                    f"{path} without the token gives {reply.status}")
        checks.that(b"database" not in reply.body and server.token.encode() not in reply.body,
                    f"{path} tells something")


def check_host(checks, server):
    path = f"/{server.token}/api/runs"
    for host in [f"127.0.0.1:{server.port}", f"localhost:{server.port}"]:
        checks.that(server.get(path, host=host).status == 200, f"Host {host} is refused")
    for host in [
            "evil.example", f"evil.example:{server.port}", "127.0.0.1",
            f"127.0.0.1.evil.example:{server.port}", ""
    ]:
        checks.that(server.get(path, host=host).status == 403, f"Host {host!r} is not refused")
    raw = server.raw(f"GET {path} HTTP/1.0\r\n\r\n".encode())
    checks.that(
        raw.split(b" ")[1:2] == [b"403"], f"a request without Host is answered with {raw[:40]}")


def check_methods(checks, server):
    for method in ["POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "PROPFIND", "get"]:
        reply = server.get(f"/{server.token}/api/runs", method=method)
        checks.that(reply.status == 405, f"{method} gives {reply.status}")
    head = server.get(f"/{server.token}/", method="HEAD")
    checks.that(head.status == 200 and head.body == b"",
                f"HEAD gives {head.status} and {len(head.body)} bytes")


def check_paths(checks, server):
    for path in [
            "../../etc/passwd", "web/../../../etc/passwd", "web/%2e%2e/%2e%2e/etc/passwd",
            "web//etc/passwd", "web/", "web/core/app.js/", "web/./app.js", "web/index.html%00.js",
            "api/../web/core/app.js", "api/runs/", "x", "web/vendor/packages", "..;/", "web/\\..\\x"
    ]:
        reply = server.get(f"/{server.token}/{path}")
        checks.that(reply.status == 404, f"{path} gives {reply.status}")
        checks.that(b"root:" not in reply.body, f"{path} gives a file of the host")


def check_headers(checks, server):
    for path in ["", "web/core/app.js", "api/runs", "api/nothing", "x"]:
        reply = server.get(f"/{server.token}/{path}")
        policy = reply.headers.get("content-security-policy", "")
        checks.that(
            "default-src 'none'" in policy and "unsafe" not in policy and "http" not in policy,
            f"/{path} has the policy {policy!r}")
        for name, value in [("x-content-type-options", "nosniff"),
                            ("referrer-policy", "no-referrer"), ("cache-control", "no-store"),
                            ("cross-origin-resource-policy", "same-origin")]:
            checks.that(
                reply.headers.get(name) == value, f"/{path}: {name} is {reply.headers.get(name)}")
        checks.that("access-control-allow-origin" not in reply.headers,
                    f"/{path} is open to other origins")
    page, again = (server.get(f"/{server.token}/") for _ in range(2))
    nonces = [
        re.findall(r"nonce-([0-9a-f]+)", reply.headers["content-security-policy"])
        for reply in (page, again)
    ]
    checks.that(len(nonces[0]) == 1 and nonces[0] != nonces[1], f"nonces are {nonces}")
    checks.that(
        page.body.count(nonces[0][0].encode()) >= 2,
        "the page's scripts have not the nonce of its policy")


def check_parameters(checks, server, database):
    before = hashlib.sha256(open(database, "rb").read()).hexdigest()
    for request, status in [("objects?filter=" + urllib.parse.quote("' OR 1=1; DROP TABLE run; --"),
                             200),
                            ("objects?sort=" + urllib.parse.quote("bytes; DROP TABLE run"), 400),
                            ("objects?sort=sqlite_version", 400),
                            ("run?run=" + urllib.parse.quote("1; DROP TABLE run"), 404),
                            ("run?run=" + urllib.parse.quote("1' OR '1'='1"), 404),
                            ("flame?by=bytes%27", 400), ("diff?a=1%20UNION%20SELECT&b=1", 404),
                            ("picture?width=100000", 400), ("picture?from=5&to=4", 400),
                            ("source?filter=/etc/passwd:1", 404), ("source?filter=nothing", 400),
                            ("source?filter=" + urllib.parse.quote("../../../etc/passwd:1"), 404),
                            ("object?site=99999999", 404), ("object", 400), ("diff", 400),
                            ("at", 400), ("at?address=1", 404), ("timeline?width=0", 400)]:
        reply = server.get(f"/{server.token}/api/{request}")
        checks.that(reply.status == status, f"{request} gives {reply.status}: {reply.body[:100]!r}")
        checks.that(status == 200 or set(reply.json()) == {"error"},
                    f"{request} answers {reply.body[:100]!r}")
    after = hashlib.sha256(open(database, "rb").read()).hexdigest()
    checks.that(before == after, "the database has changed")
    checks.that(
        not [
            name for name in os.listdir(os.path.dirname(database))
            if name.endswith(("-journal", "-wal", "-shm"))
        ], "a file was left beside the database")


def check_address(checks, server):
    """Of all sockets that listen at its port: one, at 127.0.0.1."""
    rows = [
        line.split() for name in ("tcp", "tcp6")
        for line in open(f"/proc/net/{name}").read().splitlines()[1:]
    ]
    listening = [
        row[1] for row in rows if row[3] == "0A" and row[1].endswith(f":{server.port:04X}")
    ]
    checks.that(listening == [f"0100007F:{server.port:04X}"], f"it listens at {listening}")


def check_rubbish(checks, server):
    for data in [
            b"\r\n", b"\0" * 1000, b"GET", b"GET \r\n\r\n", b"GET / HTTP/9.9\r\n\r\n",
            os.urandom(4096), b"A" * 200000,
            b"GET /" + b"a" * 100000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
            b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 20000 + b"\r\n",
            b"POST / HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n\r\n",
            b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n",
            f"GET http://evil.example/{server.token}/ HTTP/1.1\r\nHost: "
            f"127.0.0.1:{server.port}\r\n\r\n"
            .encode()
    ]:
        answer = server.raw(data)
        checks.that(not answer.startswith(b"HTTP/1.1 200"), f"{data[:40]} gives {answer[:60]}")
    checks.that(server.get(f"/{server.token}/api/runs").status == 200, "rubbish ended the server")


async def ask(address, path, host):
    reader, writer = await asyncio.open_connection(*address)
    try:
        writer.write(f"GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
        return int((await reader.read()).split(b" ")[1])
    finally:
        writer.close()


async def ask_many(server, n):
    paths = [
        f"/{server.token}/api/runs", f"/{server.token}/web/core/app.js", f"/{server.token}/",
        "/wrong/", f"/{server.token}/api/picture?width=64&height=32",
        f"/{server.token}/api/timeline"
    ]
    tasks = [
        ask(("127.0.0.1", server.port), paths[i % len(paths)], f"127.0.0.1:{server.port}")
        for i in range(n)
    ]
    return await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 600)


def check_many(checks, server, n):
    results = asyncio.run(ask_many(server, n))
    answered = [result for result in results if result in (200, 403)]
    print(
        f"{len(answered)} of {n} parallel requests were answered; RSS at most "
        f"{server.peak_rss_kib() >> 10} MiB"
    )
    # Of a connection that waited for its turn too long, the kernel forgets the handshake, and
    # resets it.
    checks.that(
        len(answered) >= n // 2, f"only {len(answered)} of {n} parallel requests were answered: "
        f"{[result for result in results if result not in (200, 403)][:3]}")
    checks.that(
        server.get(f"/{server.token}/api/runs").status == 200, "many requests ended the server")


def check_slow(checks, server):
    """Clients that stop in the midst of their request, and clients that never read their answer."""
    sockets = []
    large = (f"GET /{server.token}/api/picture?width=2048&height=2048 HTTP/1.1\r\nHost: "
             f"127.0.0.1:{server.port}\r\n\r\n").encode(
    )
    for i in range(600):
        client = socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE_S)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.send(b"GET /" if i % 2 else large)
        sockets.append(client)
    began = time.monotonic()
    reply = server.get(f"/{server.token}/web/core/app.js")
    checks.that(reply.status == 200, "slow clients keep others from the page")
    reply = server.get(f"/{server.token}/api/runs")
    print(
        f"with 600 slow clients an answer took {time.monotonic() - began:.1f} s; RSS at most "
        f"{server.peak_rss_kib() >> 10} MiB"
    )
    checks.that(reply.status == 200, "slow clients keep others from answers")
    for client in sockets:
        client.close()
    # A sanitizer's own memory is several times that of the program (tests/support/fewer.h: only
    # they are told so).
    checks.that(server.peak_rss_kib() <= MAX_RSS_KIB or "TESTS_FEWER" in os.environ,
                f"the server took {server.peak_rss_kib()} KiB")


def check_port_taken(checks, memsight, database, server):
    other = whole.Outcome([memsight, "view", "--no-open", "--port", str(server.port), database])
    checks.that(
        other.status == 1 and "taken" in other.messages and other.messages.count("\n") == 1
        and other.stdout == b"", f"a port that is taken gives {other.status}: {other.messages}")
    for port, status in [("65536", 2), ("x", 2)]:
        other = whole.Outcome([memsight, "view", "--no-open", "--port", port, database])
        checks.that(other.status == status, f"--port {port} gives {other.status}: {other.messages}")


def check_ends(checks, memsight, database):
    for number in [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]:
        with served.Server(memsight, database) as server:
            idle = socket.create_connection(("127.0.0.1", server.port))
            busy = socket.create_connection(("127.0.0.1", server.port))
            busy.send(
                f"GET /{server.token}/api/objects?from=1 HTTP/1.1\r\nHost: "
                f"localhost:{server.port}\r\n\r\n"
                .encode())
            status = server.end(number)
            checks.that(status == 0, f"signal {number} ends it with status {status}")
            idle.close()
            busy.close()


XDG_OPEN = """#!/bin/sh
# Whom memsight starts as a browser: tells its words, what its file holds, and who may read that.
{ echo "words: $*"; cat "$1"; stat -c 'mode: %a' "$1"; } >"$HEARD.part"
mv "$HEARD.part" "$HEARD"
"""


def check_browser(checks, memsight, folder, database):
    """On a terminal with a display a browser is led to the page, and nobody else can see where that
    is."""
    heard = os.path.join(folder, "heard")
    program = os.path.join(folder, "xdg-open")
    with open(program, "w", encoding="ascii") as file:
        file.write(XDG_OPEN)
    os.chmod(program, 0o755)
    for options, is_opened in [([], True), (["--no-open"], False)]:
        outer, inner = pty.openpty()
        env = whole.environment(PATH=folder + ":" + os.environ["PATH"], DISPLAY=":9", HEARD=heard,
                                TMPDIR=folder, XDG_RUNTIME_DIR=folder)
        process = subprocess.Popen([memsight, "view", *options, database], stdin=inner,
                                   stdout=inner, stderr=inner, env=env, start_new_session=True)
        line = os.read(outer, 4096).decode().strip()
        until = time.monotonic() + (PATIENCE_S if is_opened else 1)
        while not os.path.exists(heard) and time.monotonic() < until:
            time.sleep(0.1)
        process.send_signal(signal.SIGTERM)
        checks.that(process.wait(PATIENCE_S) == 0, "with a browser it ends with another status")
        os.close(outer)
        os.close(inner)
        checks.that(
            os.path.exists(heard) == is_opened,
            f"{options}: a browser is {'not ' * is_opened}opened")
        if is_opened:
            told = open(heard, encoding="ascii").read()
            checks.that(line in told and line not in told.splitlines()[0],
                        f"the browser is told {told!r}, the page is at {line!r}")
            checks.that("mode: 600" in told, f"others may read the file of the browser: {told!r}")
            os.unlink(heard)
        left = [name for name in os.listdir(folder) if name.startswith("memsight-view")]
        checks.that(not left, f"{left} was left")


def change(database, path, *statements):
    shutil.copy(database, path)
    os.chmod(path, 0o600)
    connection = sqlite3.connect(path)
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()
    return path


def refused_files(folder, database):
    """Files that are none of our databases, by what they are."""
    text = os.path.join(folder, "text")
    with open(text, "w", encoding="ascii") as file:
        file.write("this is no database\n" * 100)
    empty = os.path.join(folder, "empty")
    open(empty, "w", encoding="ascii").close()
    cut = os.path.join(folder, "cut")
    with open(cut, "wb") as file:
        file.write(open(database, "rb").read(3000))
    return {
        "text": text, "empty": empty, "folder": folder, "missing": os.path.join(
            folder, "missing"), "cut": cut, "newer": change(database, os.path.join(
                folder, "newer"), "PRAGMA user_version = 999"), "of another program": change(
                    database, os.path.join(folder, "other"), "PRAGMA application_id = 1"),
        "without a run": change(database, os.path.join(folder, "none"), "PRAGMA foreign_keys = 0",
                                "DELETE FROM run")
    }


def check_refused(checks, memsight, folder, database):
    for what, path in refused_files(folder, database).items():
        for options in [[], ["--export", os.path.join(folder, "never.html")]]:
            other = whole.Outcome([memsight, "view", "--no-open", *options, path],
                                  timeout=PATIENCE_S)
            checks.that(
                other.status == 1 and other.messages.count("\n") == 1 and other.stdout == b""
                and other.stderr == b"",
                f"a database that is {what} gives {other.status}: {other.messages!r}")
            checks.that(what != "folder" or "name a database or a trace in it" in other.messages,
                        other.messages)
    checks.that(not os.path.exists(os.path.join(folder, "never.html")),
                "a file was written without a database")


def check_hostile(checks, memsight, folder, database):
    """Views and triggers that somebody put into a database do nothing."""
    path = change(
        database, os.path.join(folder, "hostile"), "ALTER TABLE mark RENAME TO old_mark",
        "CREATE VIEW mark AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)"
        " SELECT 1 AS run_id, 1 AS thread_id, i AS time_ns, 'x' AS name FROM n",
        "DROP VIEW IF EXISTS runs",
        "CREATE VIEW runs AS SELECT load_extension('/tmp/x.so') AS id, 1 AS wtime_ns, 2 AS program",
        "CREATE TRIGGER t AFTER UPDATE ON run BEGIN DELETE FROM run; END",
        "INSERT INTO frame_line SELECT max(id), 77, 'f', '/etc/shadow', 1, NULL, NULL FROM frame",
        "INSERT INTO frame_line SELECT max(id), 78, 'f', '/dev/zero', 1, NULL, NULL FROM frame",
        "INSERT INTO frame_line SELECT max(id), 79, 'f', '/proc/self/environ', 1, NULL, NULL"
        " FROM frame")
    with served.Server(memsight, path) as server:
        reply = server.get(f"/{server.token}/api/timeline")
        checks.that(reply.status == 500,
                    f"a view in place of a table gives {reply.status}: {reply.body[:80]}")
        reply = server.get(f"/{server.token}/api/series")
        checks.that(reply.status == 200,
                    f"a view of ours is theirs: {reply.status} {reply.body[:80]}")
        for name in ["/dev/zero"]:
            reply = server.get(f"/{server.token}/api/source?filter={name}:1")
            checks.that(reply.status == 404, f"{name} gives {reply.status}")
        checks.that(server.get(f"/{server.token}/api/runs").status == 200, "it has ended")


def check_gone(checks, server):
    """An answer that nobody waits for is given up, and others are answered meanwhile."""
    for _ in range(50):
        client = socket.create_connection(("127.0.0.1", server.port))
        client.send(
            f"GET /{server.token}/api/objects?from=2 HTTP/1.1\r\nHost: "
            f"localhost:{server.port}\r\n\r\n"
            .encode())
        client.close()
    checks.that(
        server.get(f"/{server.token}/api/runs").status == 200,
        "clients that went away keep others waiting")


def main():
    memsight, victim = sys.argv[1:]
    checks = whole.Checks()
    recording = whole.Recording(memsight, [victim, "50"])
    n = raise_limit()
    with served.Server(memsight, recording.path) as server:
        for check in [
                check_token, check_host, check_methods, check_paths, check_headers, check_address,
                check_rubbish, check_gone
        ]:
            check(checks, server)
        check_parameters(checks, server, recording.path)
        check_port_taken(checks, memsight, recording.path, server)
        check_slow(checks, server)
        check_many(checks, server, n)
        checks.that(server.end(signal.SIGINT) == 0, "Ctrl-C does not end it with status 0")
    check_ends(checks, memsight, recording.path)
    folder = os.path.join(recording.folder.name, "others")
    os.mkdir(folder)
    check_refused(checks, memsight, folder, recording.path)
    check_hostile(checks, memsight, folder, recording.path)
    check_browser(checks, memsight, folder, recording.path)
    checks.end()


main()
