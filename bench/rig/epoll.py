"""A thousand connections in one thread, which records when the n-th piece arrived at the first and the last of them.

The times include its cost: some microseconds for each connection, so that the piece of the last of a thousand is seen a
few milliseconds after that of the first even if all arrived at once.
"""

import select
import socket
import time


class Connections:
    """Clients that send one request each, and read answers in pieces, each of which ends with `end`."""

    def __init__(self, port: int, request: bytes, count: int, end: bytes):
        self.end, self.poll = end, select.epoll()
        self.clients: dict[int, socket.socket] = {}
        self.tails: dict[int, bytes] = {}
        self.seen: dict[int, int] = {}
        self.first: list[float] = []  # when the n-th piece arrived at the first client
        self.last: list[float] = []  # when it arrived at the last client so far
        self.arrived: list[int] = []  # at how many clients it has arrived
        self.text = b""  # everything that one client received
        for _ in range(count):
            client = socket.create_connection(("127.0.0.1", port))
            client.sendall(request)
            client.setblocking(False)
            number = client.fileno()
            self.clients[number], self.tails[number], self.seen[number] = client, b"", 0
            self.poll.register(number, select.EPOLLIN)
        self.one = next(iter(self.clients))

    def read_until(self, pieces: int, patience: float) -> bool:
        """Reads until each client has `pieces` pieces; returns false if that takes longer than `patience` seconds."""
        until = time.monotonic() + patience
        while not self.have(pieces):
            if time.monotonic() > until:
                return False
            for number, _ in self.poll.poll(0.2):
                self._read(number)
        return True

    def have(self, pieces: int) -> bool:
        return len(self.arrived) >= pieces and self.arrived[pieces - 1] == len(self.clients)

    def _read(self, number: int) -> None:
        try:
            data = self.clients[number].recv(1 << 16)
        except BlockingIOError:
            return
        now = time.time()
        if not data:
            self.poll.unregister(number)
            return
        if number == self.one:
            self.text += data
        # The end of a piece may be split between two reads.
        data = self.tails[number] + data
        self.tails[number] = data[1 - len(self.end) :]
        for _ in range(data.count(self.end)):
            place = self.seen[number]
            self.seen[number] += 1
            if place == len(self.first):
                self.first.append(now)
                self.last.append(now)
                self.arrived.append(0)
            self.last[place] = now
            self.arrived[place] += 1

    def close(self) -> None:
        for client in self.clients.values():
            client.close()
        self.poll.close()
