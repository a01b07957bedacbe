"""Figures: their definitions, the measured values, and the reasons why values are missing."""

import statistics
from contextlib import contextmanager
from dataclasses import dataclass, field

from .machine import Skip, say


@dataclass(frozen=True)
class Figure:
    """A line of the report. `compared` names figures (`group.key`) to which the report shows the ratio of this one."""

    key: str
    title: str
    unit: str
    compared: tuple[str, ...] = ()
    more_is_better: bool = False


@dataclass
class Results:
    """All rounds of all figures, by figure (`group.key`) and by the label of the program."""

    values: dict[tuple[str, str], list[float]] = field(default_factory=dict)
    skipped: dict[tuple[str, str], str] = field(default_factory=dict)
    notes: dict[str, list[str]] = field(default_factory=dict)
    others: dict[str, list[float]] = field(default_factory=dict)  # the % of the machine that others used, by group

    def median(self, figure: str, label: str) -> float | None:
        """Returns the median of the rounds; a figure that belongs to no program is the same for each."""
        values = self.values.get((figure, label)) or self.values.get((figure, SHARED))
        return statistics.median(values) if values else None

    def why_not(self, figure: str, label: str) -> str:
        reason = self.skipped.get((figure, label)) or self.skipped.get((figure, SHARED))
        return reason or "skipped: not reached; the group ended before it"


SHARED = ""  # the label of figures that belong to no program: those of the peers


class Note:
    """Records the values of one round of a group."""

    def __init__(self, results: Results, group: str, label: str, keys: list[str]):
        self.results, self.group, self.label, self.keys = results, group, label, keys

    def __call__(self, key: str, value: float) -> None:
        if key not in self.keys:
            raise KeyError(f"{self.group} has no figure {key!r}")
        self.results.values.setdefault((f"{self.group}.{key}", self.label), []).append(value)
        say(f"    {self.group}.{key}{' of ' + self.label if self.label else ''}: {value:,.4g}")

    def skip(self, keys: list[str], why: str) -> None:
        why = " ".join(why.split())
        for key in keys:
            self.results.skipped[f"{self.group}.{key}", self.label] = f"skipped: {why}"
        if keys:
            say(f"    {self.group}: {', '.join(keys)}: skipped: {why}")

    def remark(self, text: str) -> None:
        """Adds a sentence under the group's table, unless it is there already."""
        remarks = self.results.notes.setdefault(self.group, [])
        if text not in remarks:
            remarks.append(text)

    @contextmanager
    def covering(self, prefix: str = ""):
        """Makes an error inside the block the reason why figures are missing, and continues after it.

        These are `prefix` and the figures named `prefix-…`, except those that got a value before the error.
        """
        count = {key: len(self._values(key)) for key in self.keys}
        try:
            yield
        except (Exception, Skip) as error:
            why = str(error) or type(error).__name__
            if not isinstance(error, (Skip, RuntimeError, OSError)):
                why = f"{type(error).__name__}: {why}"
            mine = [key for key in self.keys if not prefix or f"{key}-".startswith(f"{prefix}-")]
            self.skip([key for key in mine if len(self._values(key)) == count[key]], why)

    def _values(self, key: str) -> list[float]:
        return self.results.values.get((f"{self.group}.{key}", self.label), [])
