"""The printed rows of MOPS: overall score, TM-relative score both ways, and sizes."""

import pytest

from cotrunk.study.tm import memory_bytes, tm_defined, tm_printed

# Score, paraphrase, sentiment, similarity, train seconds, KiB (exact, from the authors' sheet),
# printed TM-relative score, and that score as the report's figure 3 defines it.
FROZEN = {
    "I-I-I": (0.328, 0.609, 0.397, -0.020, 3188.01, 497_051, 0.328, 1.0),
    "I-I-S": (0.354, 0.625, 0.410, 0.027, 3251.50, 483_205, 0.357, 1.0885),
    "S-I-I": (0.342, 0.625, 0.408, -0.008, 3418.73, 483_205, 0.328, 1.0002),
    "I-S-S": (0.339, 0.625, 0.404, -0.013, 3198.43, 469_359, 0.358, 1.0909),
    "S-S-I": (0.377, 0.587, 0.397, 0.147, 3389.97, 469_359, 0.375, 1.1447),
    "I-S-S 8e-6": (0.392, 0.618, 0.386, 0.173, 3210.24, 469_359, 0.412, 1.2569),
    "I-S-S 8e-6 w": (0.313, 0.375, 0.364, 0.199, 3469.92, 469_359, 0.305, 0.9285),
}
FINE_TUNED = {
    "I-I-I": (0.492, 0.625, 0.491, 0.359, 6382.58, 1_352_503, 0.492, 1.0),
    "S-I-I": (0.494, 0.627, 0.503, 0.353, 5725.13, 1_338_657, 0.556, 1.1309),
    "I-S-S": (0.500, 0.625, 0.524, 0.351, 5656.93, 1_324_811, 0.576, 1.1706),
    "S-I-S": (0.469, 0.593, 0.495, 0.320, 5268.08, 1_324_811, 0.580, 1.1791),
    "S-S-I": (0.490, 0.625, 0.490, 0.355, 5443.27, 1_324_811, 0.587, 1.1922),
    "S-I-I 8e-6": (0.397, 0.375, 0.491, 0.325, 5434.68, 1_338_657, 0.471, 0.9575),
    "I-S-S w": (0.493, 0.625, 0.491, 0.363, 5340.03, 1_324_811, 0.602, 1.2227),
    "I-S-S without SC": (0.486, 0.625, 0.470, 0.365, 5612.81, 1_338_657, 0.558, 1.1349),
}
ROWS = [
    pytest.param(row, table["I-I-I"], id=f"{context}, {name}")
    for context, table in (("frozen", FROZEN), ("fine-tuned", FINE_TUNED))
    for name, row in table.items()
]

BERT, SQUARE = 109_482_240, 768 * 768 + 768
HEADS = 5 * 769 + 769 + SQUARE
LAYERS = {"I-I-I": 9, "I-I-S": 7, "I-S-S": 5, "S-S-S": 3}
PRINTED_KIB = {
    "I-I-I": (497_051, 1_352_503),
    "I-I-S": (483_205, 1_338_657),
    "I-S-S": (469_359, 1_324_811),
    "S-S-S": (455_513, 1_310_966),
}


def printed_by_us(row, base):
    score, _, _, _, seconds, memory, _, _ = row
    return tm_printed(
        score, seconds=seconds, memory=memory, base_seconds=base[4], base_memory=base[5]
    )


def test_the_report_prints_fifteen_rows():
    assert len(ROWS) == 15


@pytest.mark.parametrize(("row", "base"), ROWS)
def test_tm_is_what_mops_prints(row, base):
    assert printed_by_us(row, base) == pytest.approx(row[6], abs=0.001)


@pytest.mark.parametrize(("row", "base"), ROWS)
def test_tm_is_what_mops_defines(row, base):
    *_, printed, defined = row
    found = tm_defined(printed_by_us(row, base), base_score=base[0])
    assert found == pytest.approx(defined, abs=0.001)
    assert found == pytest.approx(printed / base[0], abs=0.001 / base[0])


@pytest.mark.parametrize(("row", "base"), ROWS)
def test_mops_prints_the_plain_mean_of_the_tasks(row, base):  # noqa: ARG001
    """Within 0.001: the report rounded the tasks after taking the mean."""
    assert sum(row[1:4]) / 3 == pytest.approx(row[0], abs=0.001)


@pytest.mark.parametrize("regime", LAYERS)
def test_mops_prints_the_memory_of_training(regime):
    """Its sizes are checkpoints with the optimizer's state: within 0.03 %."""
    own = HEADS + LAYERS[regime] * SQUARE
    frozen, fine_tuned = PRINTED_KIB[regime]
    assert memory_bytes(BERT + own, own) / 1024 == pytest.approx(frozen, rel=3e-4)
    assert memory_bytes(BERT + own, BERT + own) / 1024 == pytest.approx(fine_tuned, rel=3e-4)
