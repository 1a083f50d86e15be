"""A drawing of measured points on logarithmic axes, as one SVG without scripts, fonts or links.

Knows: nothing of what is measured. Gives: `Series`, `draw`. The same input makes the same bytes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from html import escape
from pathlib import Path

WIDTH, HEIGHT = 860, 520
LEFT, RIGHT, TOP, BOTTOM = 70, 20, 50, 60
COLOURS = ("#1f5fa8", "#b3541e", "#2f7d4f", "#7a4fa3", "#666666")
STYLE = """text { font: 13px sans-serif; fill: #222 } .small { font-size: 11px; fill: #555 } .title { font-size: 16px }
.grid { stroke: #ddd; stroke-width: 1 } .axis { stroke: #444; stroke-width: 1 }"""


@dataclass
class Series:
    name: str
    points: list[tuple[float, float]]
    dashed: bool = False


class Scale:
    """A logarithmic axis from `low` to `high`, which are moved out to the next 1, 2 or 5."""

    def __init__(self, values: list[float], begin: float, end: float) -> None:
        self.ticks = [v for v in ticks(min(values), max(values))]
        self.low, self.high = math.log(self.ticks[0]), math.log(self.ticks[-1])
        self.begin, self.end = begin, end

    def place(self, value: float) -> float:
        return self.begin + (math.log(value) - self.low) / (self.high - self.low) * (self.end - self.begin)


def ticks(low: float, high: float) -> list[float]:
    rows = [m * 10.0**e for e in range(-3, 9) for m in (1, 2, 5)]
    first = max(i for i, v in enumerate(rows) if v <= low)
    last = min(i for i, v in enumerate(rows) if v >= high)
    return rows[first : max(last, first + 1) + 1]


def line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="{kind}"/>'


def text(x: float, y: float, words: str, kind: str = "", anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" class="{kind}" text-anchor="{anchor}">{escape(words)}</text>'


def curve(one: Series, x: Scale, y: Scale, colour: str) -> list[str]:
    places = [(x.place(a), y.place(max(b, 1e-3))) for a, b in one.points]
    path = " ".join(f"{a:.1f},{b:.1f}" for a, b in places)
    dash = ' stroke-dasharray="6 4"' if one.dashed else ""
    out = [f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"{dash}/>']
    for (a, b), (_, value) in zip(places, one.points):
        out.append(f'<circle cx="{a:.1f}" cy="{b:.1f}" r="3" fill="{colour}"/>')
        out.append(text(a, b - 7, f"{value:.3g}" if value < 1000 else f"{value:,.0f}", "small", "middle"))
    return out


def draw(path: Path, title: str, x_name: str, y_name: str, lines: list[Series]) -> None:
    height = HEIGHT + 20 * len(lines)
    x = Scale([a for one in lines for a, _ in one.points], LEFT, WIDTH - RIGHT)
    y = Scale([max(b, 1e-3) for one in lines for _, b in one.points], HEIGHT - BOTTOM, TOP)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}">',
           f"<style>{STYLE}</style>", f'<rect width="{WIDTH}" height="{height}" fill="white"/>', text(LEFT, 28, title, "title")]
    for value in x.ticks:
        out += [line(x.place(value), TOP, x.place(value), HEIGHT - BOTTOM, "grid"),
                text(x.place(value), HEIGHT - BOTTOM + 18, f"{value:,.10g}", "small", "middle")]
    for value in y.ticks:
        out += [line(LEFT, y.place(value), WIDTH - RIGHT, y.place(value), "grid"),
                text(LEFT - 6, y.place(value) + 4, f"{value:,.10g}", "small", "end")]
    out += [line(LEFT, HEIGHT - BOTTOM, WIDTH - RIGHT, HEIGHT - BOTTOM, "axis"), line(LEFT, TOP, LEFT, HEIGHT - BOTTOM, "axis"),
            text(WIDTH - RIGHT, HEIGHT - BOTTOM + 36, x_name, "", "end"), text(LEFT - 60, TOP - 10, y_name)]
    for i, one in enumerate(lines):
        colour = COLOURS[i % len(COLOURS)]
        out += curve(one, x, y, colour)
        at = HEIGHT - 6 + 20 * i
        out += [f'<rect x="{LEFT}" y="{at - 9}" width="18" height="6" fill="{colour}"/>', text(LEFT + 26, at, one.name)]
    path.write_text("\n".join(out) + "\n</svg>\n")
