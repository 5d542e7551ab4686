#!/usr/bin/env python3
"""Abuses the scheduler's port, and says how others fare: http_abuse.py PORT PID SECONDS SLOW IDLE

SLOW clients send a byte a second, IDLE ones nothing; all come again when they are thrown out. Others
send huge headers and bodies, tricks in paths and no HTTP at all. A process of its own asks as a
dashboard and Prometheus do, from an address of its own. Prints a line of JSON: the asks, those that
failed, their p50, p99 and longest in ms, refused connections, and the scheduler's largest memory
above that of before, in KiB. Exit status 1: an ask failed.
"""
import asyncio
import json
import random
import subprocess
import sys
import time

PATHS = ["/api/v1/summary", "/api/v1/agents", "/api/v1/transfers?limit=20", "/metrics", "/healthz"]
TRICKS = [
    "/../../../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "//etc/passwd", "/\\..\\..\\kvrail.db",
    "/api/v1/transfers/%00", "/api/v1/transfers/../../kvrail.db", "/app-00000000.js/../../kvrail.db",
    "/api/v1/requests/%2f%2f/abandon", "/" + "a" * 20000, "/%", "/%zz", "/api/v1/stream?" + "x=1&" * 50,
    "*", "http://evil.example/",
]


async def connect(port, host):
    return await asyncio.open_connection("127.0.0.1", port, local_addr=(host, 0))


def memory_kib(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as status:
        return int(next(line for line in status if line.startswith("VmRSS:")).split()[1])


class Abuse:
    def __init__(self, port):
        self.port = port
        self.refused = 0
        self.connected = 0

    def host(self, index):
        return f"127.0.1.{1 + index % 40}"

    async def hold(self, index, slow):
        """A connection that brings no request to its end."""
        while True:
            writer = None
            try:
                reader, writer = await connect(self.port, self.host(index))
                self.connected += 1
                if slow:
                    writer.write(b"GET /api/v1/summary HTTP/1.1\r\nHost: localhost\r\nX-Slow: ")
                ended = asyncio.ensure_future(reader.read(1))
                while not ended.done():
                    if slow:
                        writer.write(b"s")
                    await asyncio.wait([ended], timeout=1)
                ended.exception()
            except OSError:
                pass
            if writer is not None:
                writer.close()
            self.refused += 1
            await asyncio.sleep(1)

    def garbage(self):
        trick = random.choice(TRICKS).encode()
        kind = random.randrange(5)
        if kind == 0:
            headers = b"".join(b"X-%d: %s\r\n" % (i, b"h" * 200) for i in range(2000))
            return b"GET / HTTP/1.1\r\nHost: localhost\r\n" + headers
        if kind == 1:
            return (b"POST /ingest/v1/events HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
                    b"application/x-protobuf\r\nContent-Length: 999999999\r\n\r\n" + b"b" * 1000000)
        if kind == 2:
            return (b"POST /ingest/v1/events HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
                    b"application/json\r\nContent-Length: 9\r\n\r\n{\"a\":[[[{")
        if kind == 3:
            return b"GET " + trick + b" HTTP/1.1\r\nHost: localhost\r\n\r\n"
        return random.randbytes(3000)

    async def throw(self, index):
        while True:
            try:
                reader, writer = await connect(self.port, self.host(index))
                writer.write(self.garbage())
                await asyncio.wait_for(reader.read(65536), 2)
                writer.close()
            except (OSError, asyncio.TimeoutError):
                pass
            await asyncio.sleep(0.02)


async def ask(port, path):
    reader, writer = await connect(port, "127.0.0.1")
    writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
    answer = await asyncio.wait_for(reader.read(-1), 10)
    writer.close()
    return answer.startswith(b"HTTP/1.1 200")


async def measure(port, seconds):
    end = time.monotonic() + seconds
    took, failed, count = [], 0, 0
    while time.monotonic() < end:
        began = time.monotonic()
        try:
            good = await ask(port, PATHS[count % len(PATHS)])
        except (OSError, asyncio.TimeoutError):
            good = False
        count += 1
        failed += not good
        took.append(1000 * (time.monotonic() - began))
        await asyncio.sleep(0.01)
    took.sort()
    return {"asks": count, "failed": failed, "p50_ms": round(took[count // 2], 1),
            "p99_ms": round(took[count * 99 // 100], 1), "longest_ms": round(took[-1], 1)}


async def abuse(port, pid, seconds, slow, idle):
    attack = Abuse(port)
    before = most = memory_kib(pid)
    tasks = [asyncio.ensure_future(attack.hold(i, i < slow)) for i in range(slow + idle)]
    tasks += [asyncio.ensure_future(attack.throw(i)) for i in range(8)]
    while attack.connected < slow + idle:
        await asyncio.sleep(0.1)
    others = await asyncio.create_subprocess_exec(
        sys.executable, __file__, "measure", str(port), str(seconds), stdout=subprocess.PIPE)
    reading = asyncio.ensure_future(others.stdout.read())
    while not reading.done():
        most = max(most, memory_kib(pid))
        await asyncio.wait([reading], timeout=0.2)
    for task in tasks:
        task.cancel()
    result = json.loads(reading.result())
    result["thrown_out"] = attack.refused
    result["more_kib"] = most - before
    print(json.dumps(result))
    return 1 if result["failed"] > 0 else 0


def main():
    if sys.argv[1] == "measure":
        print(json.dumps(asyncio.run(measure(int(sys.argv[2]), float(sys.argv[3])))))
        return 0
    port, pid, seconds, slow, idle = (int(argument) for argument in sys.argv[1:6])
    return asyncio.run(abuse(port, pid, seconds, slow, idle))


if __name__ == "__main__":
    sys.exit(main())
