"""How two tasks that read their labels differently are told apart."""

from cotrunk.kinds.alike import reading_difference
from cotrunk.kinds.classes import Classes

LONG = tuple(f"class{n:02d}" for n in range(20))


def test_the_first_difference_of_long_lists_is_named():
    same, other = Classes(classes=LONG), Classes(classes=(*LONG[:-1], "another"))
    assert reading_difference(same, same) == ""
    assert "classes: number 20 is class19 against another" in reading_difference(same, other)


def test_a_list_that_ends_earlier_differs_at_its_end():
    found = reading_difference(Classes(classes=LONG[:8]), Classes(classes=LONG))
    assert "classes: number 9 is not set against class08" in found


def test_short_lists_are_shown_whole():
    found = reading_difference(Classes(classes=("a", "b")), Classes(classes=("b", "a")))
    assert "classes = a, b against b, a" in found
