"""A thousand connections in one thread: only what is needed to know when the n-th piece came to each of them.

Its own cost is in what it measures: some microseconds for each connection, so that the last of a thousand is seen a few
milliseconds after the first even if all came at once.
"""

import select
import socket
import time


class Crowd:
    """Clients that have sent one request, and read answers that have pieces, each ended by `end`."""

    def __init__(self, port: int, request: bytes, count: int, end: bytes):
        self.end, self.poll = end, select.epoll()
        self.clients: dict[int, socket.socket] = {}
        self.tails: dict[int, bytes] = {}
        self.seen: dict[int, int] = {}
        self.first: list[float] = []  # when the n-th piece came to the first client
        self.last: list[float] = []  # and to the last one so far
        self.arrived: list[int] = []  # to how many
        self.text = b""  # all that the first client got
        for _ in range(count):
            client = socket.create_connection(("127.0.0.1", port))
            client.sendall(request)
            client.setblocking(False)
            number = client.fileno()
            self.clients[number], self.tails[number], self.seen[number] = client, b"", 0
            self.poll.register(number, select.EPOLLIN)
        self.one = next(iter(self.clients))

    def read_until(self, pieces: int, patience: float) -> bool:
        """Reads until each client has `pieces` pieces; false if that takes longer than `patience` seconds."""
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
        # An end may be cut in two.
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
