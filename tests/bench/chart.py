"""A drawing of measured points on logarithmic axes, as one SVG without scripts, fonts or links, for light and dark pages.

Knows: nothing of what is measured. Gives: `Series`, `draw`. The same input makes the same bytes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from html import escape
from pathlib import Path

WIDTH, TALL, SHORT = 900, 330, 220  # a chart with many lines, with one
LEFT, RIGHT, TOP, GAP = 70, 240, 76, 54
INSET = 24  # between an axis and the first point
COLOURS = (("#2f7ec2", "#5aa2e0"), ("#b3541e", "#e58a4e"), ("#3a9d6e", "#4db584"), ("#8445a8", "#be86de"))


@dataclass
class Series:
    """The lines of `note` stand below its name at the end of the line. Lines of one unit share a chart."""

    name: str
    unit: str
    points: list[tuple[float, float]]
    note: str = ""


class Scale:
    """A logarithmic axis from `low` to `high`, which are moved out to the next 1, 2 or 5."""

    def __init__(self, values: list[float], begin: float, end: float) -> None:
        self.ticks = ticks(min(values), max(values))
        self.low, self.high = math.log(self.ticks[0]), math.log(self.ticks[-1])
        self.begin, self.end = begin, end

    def place(self, value: float) -> float:
        return self.begin + (math.log(value) - self.low) / (self.high - self.low) * (self.end - self.begin)


Box = tuple[float, float, float, float]  # left, top, right, bottom; of a segment its two ends


def crosses(segment: Box, box: Box) -> bool:
    """Whether a part of it is in the box: what is left of it between the box's sides."""
    first, last = 0.0, 1.0
    for axis in (0, 1):
        begin, way = segment[axis], segment[axis + 2] - segment[axis]
        if way == 0:
            if not box[axis] < begin < box[axis + 2]:
                return False
            continue
        at = sorted(((box[axis] - begin) / way, (box[axis + 2] - begin) / way))
        first, last = max(first, at[0]), min(last, at[1])
    return first < last


@dataclass
class Labels:
    """Where points, texts and lines are, so that no text is laid over one."""

    boxes: list[Box] = field(default_factory=list)
    segments: list[Box] = field(default_factory=list)

    def free(self, x: float, y: float, words: str) -> bool:
        half = 3.2 * len(words)
        box = (x - half, y - 9, x + half, y + 1)
        if any(box[0] < b[2] and b[0] < box[2] and box[1] < b[3] and b[1] < box[3] for b in self.boxes):
            return False
        if any(crosses(segment, box) for segment in self.segments):
            return False
        self.boxes.append(box)
        return True


def ticks(low: float, high: float) -> list[float]:
    rows = [m * 10.0**e for e in range(-3, 9) for m in (1, 2, 5)]
    first = max(i for i, v in enumerate(rows) if v <= low)
    last = min(i for i, v in enumerate(rows) if v >= high)
    return rows[first : max(last, first + 1) + 1]


def number(value: float) -> str:
    return f"{value:.3g}" if value < 1000 else f"{value:,.0f}"


def line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    return f'<path d="M{x1:.1f} {y1:.1f}L{x2:.1f} {y2:.1f}" class="{kind}"/>'


def text(x: float, y: float, words: str, kind: str, anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" class="{kind}" text-anchor="{anchor}">{escape(words)}</text>'


def style() -> str:
    def colours(dark: int) -> str:
        paper, ink, dim, grid = (("#fff", "#1c2733", "#56626f", "#e1e6eb"), ("#14191f", "#e4e9ee", "#9aa7b4", "#2c3540"))[dark]
        rules = [f".paper{{fill:{paper}}}text{{fill:{ink}}}.small{{fill:{dim}}}.value{{fill:{dim};stroke:{paper}}}"
                 f".grid{{stroke:{grid}}}.axis{{stroke:{dim}}}"]  # fmt: skip
        rules += [f".line{i}{{stroke:{both[dark]}}}.text{i},.point{i}{{fill:{both[dark]}}}" for i, both in enumerate(COLOURS)]
        return "".join(rules)

    fixed = ("text{font:12px system-ui,'Segoe UI','DejaVu Sans',sans-serif}.title{font-size:16px;font-weight:600}"
             ".small,.value{font-size:11px}.value{paint-order:stroke;stroke-width:4px}path{fill:none}.line{stroke-width:2}")  # fmt: skip
    return f"<style>:root{{color-scheme:light dark}}{fixed}{colours(0)}@media(prefers-color-scheme:dark){{{colours(1)}}}</style>"


def values(one: Series, x: Scale, y: Scale, labels: Labels) -> list[str]:
    """At each point, above it or below; beside that where a line is in the way."""
    out = []
    for a, b in one.points:
        side = 3.2 * len(number(b)) + 2
        for dx, dy in ((0, -8), (-side, -6), (0, 17), (side, 15), (-side, 15), (side, -6), (0, -16), (0, 25)):
            if labels.free(x.place(a) + dx, y.place(b) + dy, number(b)):
                out.append(text(x.place(a) + dx, y.place(b) + dy, number(b), "value", "middle"))
                break
    return out


def names(lines: list[tuple[int, Series]], x: Scale, y: Scale) -> list[str]:
    """At the ends of the lines, from the top, each with room for its own."""
    out, at = [], -math.inf
    for i, one in sorted(lines, key=lambda row: y.place(row[1].points[-1][1])):
        at = max(y.place(one.points[-1][1]), at)
        out.append(text(x.end + 34, at, one.name, f"text{i}"))
        out += [text(x.end + 34, at + 15 * n, words, "small") for n, words in enumerate(one.note.splitlines(), 1)]
        at += 19 + 15 * len(one.note.splitlines())
    return out


def chart(unit: str, lines: list[tuple[int, Series]], x: Scale, top: float) -> tuple[list[str], float]:
    """The lines of one unit, and where they end."""
    bottom = top + (TALL if len(lines) > 1 else SHORT)
    y = Scale([max(b, 1e-3) for _, one in lines for _, b in one.points], bottom - INSET, top)
    right, labels = x.end + INSET, Labels()
    out = [text(LEFT, top - 12, unit, "small")]
    for value in y.ticks:
        out += [line(LEFT, y.place(value), right, y.place(value), "grid"), text(LEFT - 8, y.place(value) + 4, number(value), "small", "end")]
    for value in x.ticks:
        out += [line(x.place(value), top, x.place(value), bottom, "grid"), text(x.place(value), bottom + 17, number(value), "small", "middle")]
    out.append(line(LEFT, bottom, right, bottom, "axis"))
    for i, one in lines:
        places = [(x.place(a), y.place(max(b, 1e-3))) for a, b in one.points]
        out.append(f'<path d="M{"L".join(f"{a:.1f} {b:.1f}" for a, b in places)}" class="line line{i}"/>')
        out += [f'<circle cx="{a:.1f}" cy="{b:.1f}" r="3" class="point{i}"/>' for a, b in places]
        labels.boxes += [(a - 3, b - 3, a + 3, b + 3) for a, b in places]
        labels.segments += [(*begin, *end) for begin, end in zip(places, places[1:])]
    for _, one in lines:
        out += values(one, x, y, labels)
    return out + names(lines, x, y), bottom


def draw(path: Path, title: str, about: tuple[str, str], lines: list[Series]) -> None:
    """A chart for each unit, one above the other, in the order in which the units come. `about`: what is measured, and with the number
    of what it is drawn."""
    x = Scale([a for one in lines for a, _ in one.points], LEFT + INSET, WIDTH - RIGHT)
    out, end = [text(20, 28, title, "title"), text(20, 48, about[0], "small")], float(TOP)
    for unit in dict.fromkeys(one.unit for one in lines):
        rows, end = chart(unit, [(i % len(COLOURS), one) for i, one in enumerate(lines) if one.unit == unit], x, end + 20)
        out += [*rows, text(x.end + 34, end + 17, about[1], "small")]
        end += GAP
    size = f'width="{WIDTH}" height="{end - 20:.0f}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} viewBox="0 0 {WIDTH} {end - 20:.0f}" role="img">\n<title>{escape(title)}</title>\n{style()}\n<rect {size} class="paper"/>'
    path.write_text("\n".join([head, *out, "</svg>"]) + "\n")
