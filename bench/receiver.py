"""An endpoint of webhooks for the benchmark: answers 204 at once, and notes when each request arrived.

Prints its port. `GET /received` returns the requests since the last call, as lists of the path, the time of the arrival
and, for paths that end with `timed`, the time of the event; both are seconds since 1970. Requests to `/never` get no
answer.
"""

import asyncio
import json
import time
from datetime import datetime

received = []


class Endpoint(asyncio.Protocol):
    def connection_made(self, transport):
        self.transport, self.data = transport, b""

    def data_received(self, data):
        self.data += data
        while (end := self.data.find(b"\r\n\r\n")) >= 0:
            head = self.data[:end].lower()
            start = head.find(b"content-length:")
            length = int(head[start + 15 :].split(b"\r\n", 1)[0]) if start >= 0 else 0
            if len(self.data) < end + 4 + length:
                return
            body, whole = self.data[end + 4 : end + 4 + length], self.data
            self.data = whole[end + 4 + length :]
            self.answer(whole[: whole.find(b"\r\n")].decode(), body)

    def answer(self, line, body):
        method, path, _ = line.split(" ")
        if method == "GET":
            text = json.dumps(received).encode()
            received.clear()
            head = f"HTTP/1.1 200 OK\r\ncontent-length: {len(text)}\r\n\r\n"
            self.transport.write(head.encode() + text)
            return
        event = None
        if path.endswith("timed"):
            event = datetime.fromisoformat(json.loads(body)["timestamp"]).timestamp()
        received.append([path, time.time(), event])
        if path != "/never":
            self.transport.write(b"HTTP/1.1 204 No Content\r\n\r\n")


async def main():
    server = await asyncio.get_running_loop().create_server(Endpoint, "127.0.0.1", 0, backlog=2048)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


asyncio.run(main())
