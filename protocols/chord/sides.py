"""A box seen from one of its sides: the attribute of the list in which its row stands."""

from protocols.chord.keys import FAR, Values
from protocols.model.box import Box


def one_side(box: Box, list_: int) -> Box:
    """The box that is bounded in one attribute only, as this one is there."""
    position, is_text = divmod(list_, 2)
    if is_text:
        lo_text = ("",) * position + (box.lo_text[position],)
        hi_text = (">",) * position + (box.hi_text[position],)
        return Box((), (), lo_text, hi_text)
    lo, hi = (-1,) * position + (box.lo[position],), (FAR,) * position + (box.hi[position],)
    return Box(lo, hi)


def is_numbers(list_: int) -> bool:
    return list_ >= 0 and not list_ % 2


def without_side(box: Box, list_: int) -> Box:
    """The box without its bounds in one attribute of numbers."""
    if not is_numbers(list_):
        return box
    position = list_ // 2
    lo, hi = list(box.lo), list(box.hi)
    lo[position], hi[position] = 0, 0
    return Box(tuple(lo), tuple(hi), box.lo_text, box.hi_text)


def outside(former: Values, values: Values) -> list[tuple[int, int]]:
    """The runs of former values that are no longer wanted (paper, section 3.1.2: below the new bounds and above)."""
    runs = [(former.first, min(former.last, values.first - 1)), (max(former.first, values.last + 1), former.last)]
    return [(a, b) for a, b in runs if a <= b]
