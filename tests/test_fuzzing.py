"""What the generated attacks rest on."""

from random import Random

import pytest

from faults.inputs import d1
from faults.reference import reference
from faults.tables import Made, made_file
from faults.weights import mutated


def test_a_seed_makes_the_same_files():
    for at in range(20):
        assert made_file(Random(f"0 {at}")) == made_file(Random(f"0 {at}"))
        assert mutated(Random(at), b"abc" * 9) == mutated(Random(at), b"abc" * 9)


def test_the_reference_tells_good_rows_from_bad_ones():
    content = b'id,text,label\n1,a,0\n2,"b" c,1\n3,d,9\n4,,1\n5,e,+3\n6,f\n'
    rows = reference(Made("rows.csv", ",", content, None))
    assert [row.verdict for row in rows] == ["good", "bad", "bad", "bad", "unsure", "bad"]
    assert [row.line for row in rows] == [2, 3, 4, 5, 6, 7]


@pytest.mark.slow
def test_generated_files_are_read_exactly_or_refused():
    figure = d1(1, "quick")
    assert figure.holds, figure
