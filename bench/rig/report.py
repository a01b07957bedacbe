"""The report: a table for each group, with its figures, their targets, and their ratios to other figures."""

import statistics

from targets import TARGETS

from .figures import SHARED, Figure, Results


def number(value: float) -> str:
    """Formats a number with about three significant digits and a separator of thousands."""
    if value == 0:
        return "0"
    size = abs(value)
    digits = 0 if size >= 100 else 1 if size >= 10 else 2 if size >= 0.1 else 4
    return f"{value:,.{digits}f}"


class Report:
    """Writes the results of a session. It is created before the session, so that wrong names are reported at once."""

    def __init__(self, groups: dict, labels: list[str]):
        self.results, self.groups, self.labels = Results(), groups, labels
        self.reasons: list[str] = []  # why figures of the current table are missing; figures may share a reason
        self.titles = {f"{name}.{figure.key}": figure for name, group in groups.items() for figure in group.FIGURES}
        named = {other for figure in self.titles.values() for other in figure.compared}
        named |= set(TARGETS) | {target.of for targets in TARGETS.values() for target in targets if target.of}
        if unknown := sorted(named - set(self.titles)):
            raise SystemExit(f"bench: there is no figure {', '.join(unknown)}")

    def text(self, results: Results, facts: dict[str, str], asked: list[str]) -> str:
        self.results = results
        lines = ["# Results", "", "Written by `python3 bench/bench.py`; [README.md](README.md) explains it.", ""]
        lines += [f"- {name}: {value}" for name, value in facts.items()]
        for name, group in self.groups.items():
            if name in asked:
                lines += ["", f"## {name}", "", group.__doc__.splitlines()[0], "", *self._table(name, group)]
                lines += [line for n, why in enumerate(self.reasons, 1) for line in ("", f"[{n}] {why}")]
                if others := results.others.get(name):
                    used = f"{statistics.median(others):.0f} % of the machine, {max(others):.0f} % at most"
                    lines += ["", f"Meanwhile, other processes and guests used {used}."]
                lines += [line for remark in self.results.notes.get(name, []) for line in ("", remark)]
        left = [name for name in self.groups if name not in asked]
        if left:
            lines += ["", f"Not measured: {', '.join(left)}."]
        return "\n".join(lines) + "\n"

    def _table(self, name: str, group) -> list[str]:
        pair = self.labels if len(self.labels) == 2 and not getattr(group, "SHARED", False) else []
        self.reasons = []
        if matrix := getattr(group, "MATRIX", None):
            return self._matrix(name, *matrix)
        columns = ["figure", "unit", "median", "min–max"]
        if pair:
            columns += [f"median of {pair[1]}", "min–max", f"{pair[0]} / {pair[1]}"]
        columns += ["target", "met", "ratio to"]
        rows = [columns, ["---"] * len(columns)]
        rows += [self._row(f"{name}.{figure.key}", figure, pair) for figure in group.FIGURES]
        return ["| " + " | ".join(row) + " |" for row in rows]

    def _matrix(self, name: str, things: dict[str, str], columns: dict[str, str]) -> list[str]:
        """Returns a row for each thing, with the medians, and the spreads in parentheses."""
        rows = [["", *columns.values()], ["---"] * (len(columns) + 1)]
        for thing, title in things.items():
            cells = [self._measured(f"{name}.{thing}-{column}", SHARED) for column in columns]
            rows.append([title, *(f"{median} ({spread})" if spread else median for median, spread in cells)])
        return ["| " + " | ".join(row) + " |" for row in rows]

    def _row(self, key: str, figure: Figure, pair: list[str]) -> list[str]:
        first = self.labels[0]
        row = [figure.title.replace("|", "\\|"), figure.unit, *self._measured(key, first)]
        if pair:
            row += [*self._measured(key, pair[1]), self._paired(key, pair)]
        return [*row, *self._targets(key, first), self._ratios(key, figure, first)]

    def _values(self, key: str, label: str) -> list[float]:
        return self.results.values.get((key, label)) or self.results.values.get((key, SHARED)) or []

    def _measured(self, key: str, label: str) -> list[str]:
        values = self._values(key, label)
        if not values:
            return [f"skipped [{self._reason(key, label)}]", ""]
        spread = f"{number(min(values))}–{number(max(values))}" if len(values) > 1 else "one round"
        if (key, label) in self.results.skipped:
            spread += f" ({len(values)} rounds; another failed [{self._reason(key, label)}])"
        return [f"**{number(statistics.median(values))}**", spread]

    def _reason(self, key: str, label: str) -> int:
        """Returns the number of the reason under the table."""
        why = self.results.why_not(key, label)
        if why not in self.reasons:
            self.reasons.append(why)
        return self.reasons.index(why) + 1

    def _paired(self, key: str, pair: list[str]) -> str:
        """Returns the ratio of neighboring rounds: changes of the machine that affect both programs cancel out."""
        ratios = [a / b for a, b in zip(*(self._values(key, label) for label in pair)) if b]
        if not ratios:
            return ""
        better = "" if self.titles[key].more_is_better else ", less is better"
        return f"{statistics.median(ratios):.2f} ({min(ratios):.2f}–{max(ratios):.2f}){better}"

    def _targets(self, key: str, label: str) -> list[str]:
        found, targets = self.results.median(key, label), TARGETS.get(key, [])
        met = []
        for target in targets:
            verdict = None if found is None else target.met(found, self.results.median(target.of, label))
            met.append({True: "yes", False: "**no**", None: "not known"}[verdict])
        return ["<br>".join(map(str, targets)), "<br>".join(met)]

    def _ratios(self, key: str, figure: Figure, label: str) -> str:
        found, ratios = self.results.median(key, label), []
        for other in dict.fromkeys(figure.compared + tuple(t.of for t in TARGETS.get(key, []) if t.of)):
            value = self.results.median(other, label)
            if found is not None and value:
                ratios.append(f"{found / value:.2f} × {other} ({number(value)})")
            elif found is not None:
                ratios.append(f"{other} was not measured")
        return "<br>".join(ratios)
