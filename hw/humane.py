"""Numbers as people read them: three digits and a unit. Exact figures stay exact in JSON.

count(1_234_567)  1.23 M      size(65_536)  64 KiB      share(0.413)  41 %      whole(1_234_567)  1,234,567
ratio(2, 8)       /4.00       ratio(8, 2)   x4.00
"""

from __future__ import annotations

_THOUSANDS = ("", " k", " M", " G", " T", " P", " E")
_BINARY = (" B", " KiB", " MiB", " GiB", " TiB", " PiB", " EiB")
_LONGEST = 10**15  # what is larger is not shown to the last digit: a table would be wider than any screen


def _digits(value: float, units: tuple[str, ...], base: int) -> str:
    """At most four characters of digits, and the unit in which they are fewest: `999`, `1.23 k`, `1020 KiB`."""
    size, power = abs(value), 0
    while power + 1 < len(units) and round(size) >= (1000 if base == 1000 else 1024):
        size, power = size / base, power + 1
    sign = "-" if value < 0 else ""
    if round(size) >= 10_000:  # beyond the last unit
        return f"{abs(value):.2e}".join((sign, units[0]))
    if power == 0 and size == round(size):
        return f"{sign}{round(size)}{units[0]}"
    if power == 0 and size < 0.995:
        return f"{sign}{size:.2g}{units[0]}"
    places = 2 if size < 9.995 else 1 if size < 99.95 else 0
    text = f"{size:.{places}f}"
    if size == round(size) and base == 1024:  # 64 KiB and not 64.0
        text = str(round(size))
    return f"{sign}{text}{units[power]}"


def count(value: float) -> str:
    """A number of things: `512`, `12.3 k`, `1.23 M`."""
    return _digits(value, _THOUSANDS, 1000)


def size(value: float) -> str:
    """A number of bytes, in binary units: `96 B`, `64 KiB`, `1.50 MiB`."""
    return _digits(value, _BINARY, 1024)


def whole(value: float) -> str:
    """A number with all of its digits, `16,842,752`; of very large ones the first seven, `9.223376e+18`."""
    return f"{value:,.0f}" if abs(value) < _LONGEST else f"{value:.6e}"


def share(part: float) -> str:
    """A part of one in percent. Nothing is shown as nothing, and what is less than half a percent as `<1 %`."""
    if part == 0:
        return "0 %"
    if 0 < part < 0.005:
        return "<1 %"
    if 0.995 <= part < 1:
        return ">99 %"
    return f"{100 * part:.0f} %"


def ratio(after: float, before: float) -> str:
    """How `after` compares with `before`: `x1.53`, `/4.00` for what became smaller, `=` for what did not change."""
    if after == before:
        return "="
    if before == 0 or after == 0:
        return "new" if before == 0 else "gone"
    grown = after / before
    sign, times = ("x", grown) if grown >= 1 else ("/", 1 / grown)
    if times < 1.005:
        return "~"
    places = 2 if times < 9.995 else 1 if times < 99.95 else 0
    return f"{sign}{times:.{places}f}" if times < 9999.5 else f"{sign}{count(times)}"
