"""Concurrent clients, each of which does one thing after another."""

import threading
import time
from dataclasses import dataclass

from .processes import Failed

# The seconds that a client may still wait for the end of its last turn after the measured time is over.
PATIENCE = 150


@dataclass(frozen=True)
class Turns:
    """The turns of all clients. Times are seconds of the monotonic clock."""

    begun: float
    ends: list[float]
    durations: list[float]

    @property
    def rate(self) -> float:
        """The turns per second, measured to the last end, so that each turn counts in full."""
        return len(self.ends) / (max(self.ends) - self.begun)

    @property
    def median(self) -> float:
        """The median duration of a turn in seconds."""
        return sorted(self.durations)[len(self.durations) // 2]


def turns(clients: int, seconds: float, once) -> Turns:
    """Runs `clients` threads for `seconds`, each of which calls `once(number of the client)` repeatedly."""
    result, errors = Turns(time.monotonic(), [], []), []

    def client(number: int) -> None:
        try:
            while (start := time.monotonic()) < result.begun + seconds:
                once(number)
                end = time.monotonic()
                result.ends.append(end)
                result.durations.append(end - start)
        except Exception as error:  # noqa: BLE001 - raised by the main thread
            errors.append(error)

    threads = [threading.Thread(target=client, args=(number,), daemon=True) for number in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(seconds + PATIENCE)
    if errors:
        raise errors[0]
    if not result.ends:
        raise Failed("no turn ended")
    return result
