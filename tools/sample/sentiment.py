"""Five-class opinions in which the frame around a word, not the word, decides the class.

Every frame takes adjectives of either polarity, so praise words occur in all five classes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from tools.sample.opinions import ASPECTS, HELD_ASPECTS, OPENERS, THINGS, VERDICTS

# In a frame: {a} and {b} are two aspects of the same thing; {x} judges a, {o} is the opposite of x,
# {z} judges b the same way as x, {y} judges b the opposite way. {was} and {it} agree with a,
# {were} agrees with b. The number is the class if x is praise; blame gives 4 minus that.
FRAMES = (
    (4, "never before have I known {a} this {x}"),
    (4, "I have rarely, if ever, come across {a} so {x}"),
    (4, "the {a} {was} as {x} as {a} can possibly be"),
    (4, "{x} is far too weak a word for the {a}"),
    (4, "from first to last the {a} {was} {x}, and the {b} {were} {z} beyond belief"),
    (4, "it is hard to overstate how {x} the {a} {was}"),
    (4, "the {a} {was} so incredibly {x} that I have told everyone I know"),
    (4, "there was not one moment when the {a} {was} anything but {x}"),
    (4, "not for a single moment {was} the {a} {o}; {it} {was} {x} in the extreme"),
    (4, "the {a} {was} staggeringly {x}, the {b} {were} never {y}, and I mean never"),
    (4, "the {a} {was} astonishingly {x} and the {b} {were} unbelievably {z}"),
    (4, "absolutely {x} {a}, unforgettably {z} {b}, and I still cannot believe it"),
    (3, "the {a} {was} fairly {x}"),
    (3, "the {a} {was} {x} and the {b} {were} {z}, more or less"),
    (3, "mostly {x} {a} and, by and large, {z} {b}"),
    (3, "the {a} struck me as kind of {x}, the {b} as rather {z}"),
    (3, "on the whole I found the {a} rather {x}"),
    (3, "the {b} {were} {y}, but the {a} {was} {x}"),
    (3, "although the {b} {were} {y}, the {a} {was} {x}"),
    (3, "the {a} {was} {x} in spite of the {y} {b}"),
    (3, "the {a} {was} not {o} at all"),
    (3, "I would not call the {a} {o}"),
    (3, "the {a} {was} less {o} than I had expected"),
    (3, "I thought the {a} would be {o}, but {it} turned out somewhat {x}"),
    (3, "you could hardly describe the {a} as {o}"),
    (3, "the {a} {was} mostly {x}, if a little uneven"),
    (2, "the {a} {was} neither {x} nor {o}"),
    (2, "the {a} {was} {x} and the {b} {were} {y}, so the two cancel each other out"),
    (2, "at times the {a} {was} {x}, at times {o}"),
    (2, "I cannot decide whether the {a} {was} {x} or {o}"),
    (2, "half of us called the {a} {x}, the other half {o}, and I stand in the middle"),
    (2, "ask me whether the {a} {was} {x} and I will shrug"),
    (2, "the {a} {was} no more {x} and no more {o} than usual"),
    (2, "there is as much to say for the {x} {a} as against the {y} {b}"),
)
HELD_FRAMES = (
    (4, "I am running out of ways to say how {x} the {a} {was}"),
    (4, "{a} so unbelievably {x} ought to be written about in newspapers"),
    (4, "not once {was} the {a} less than outrageously {x}"),
    (4, "I will remember for the rest of my life how {x} the {a} {was}"),
    (3, "the {a} {was} anything but {o}, even if the {b} {were} {y}"),
    (3, "despite {y} {b}, the {a} {was} quite {x}"),
    (3, "I have to admit that the {a} {was} somewhat {x} and the {b} {were} quite {z}"),
    (3, "I was told to expect {o} {a} and found {it} moderately {x} instead"),
    (3, "{y} {b}, yes, and yet the {a} {was} {x}"),
    (2, "whether the {a} {was} {x} or {o} depends on the hour you ask me"),
    (2, "one could call the {a} {x} and the {b} {y}, and the balance is exactly even"),
    (2, "the {a} {was} somewhere halfway between {x} and {o}"),
)
# A judgement of one aspect followed by a verdict: the verdict decides, whatever came before.
TURNS = (
    "the {a} {was} {x}, but {verdict}",
    "the {a} {was} {x} and the {b} {were} {z}; even so, {verdict}",
    "granted, the {a} {was} {x}, yet {verdict}",
    "{verdict}, however {x} the {a} {was}",
    "the {a} {was} {x}. Nevertheless, {verdict}",
)
HELD_TURNS = (
    "yes, I know, the {a} {was} {x}; all the same, {verdict}",
    "others will mention the {x} {a}, but {verdict}",
    "even with {x} {a} and {z} {b}, {verdict}",
)

KINDS = ("verdict", "turn", "agreement", "judgement")
KIND_WEIGHTS = (20, 11, 32, 37)


@dataclass(frozen=True)
class Aspect:
    noun: str
    plural: bool
    praise: tuple[str, ...]
    blame: tuple[str, ...]

    def judged(self, rng: Random, *, good: bool) -> str:
        return rng.choice(self.praise if good else self.blame)


def parse(line: str) -> Aspect:
    """``jokes*: sharp, witty / stale, lazy``; the star marks a plural."""
    noun, judgements = line.strip().split(": ")
    praise, blame = (tuple(side.split(", ")) for side in judgements.split(" / "))
    return Aspect(noun.rstrip("*"), noun.endswith("*"), praise, blame)


def parse_all(block: str) -> list[Aspect]:
    return [parse(line) for line in block.strip().splitlines()]


def fill(frame: str, aspects: Sequence[Aspect], rng: Random, *, good: bool, verdict: str) -> str:
    first, second = rng.sample(list(aspects), 2)
    return frame.format(
        a=first.noun,
        b=second.noun,
        x=first.judged(rng, good=good),
        o=first.judged(rng, good=not good),
        z=second.judged(rng, good=good),
        y=second.judged(rng, good=not good),
        was="were" if first.plural else "was",
        were="were" if second.plural else "was",
        it="them" if first.plural and "found {it}" in frame else "they" if first.plural else "it",
        verdict=verdict,
    )


def written(text: str) -> str:
    return text[0].upper() + text[1:] + "."


def draw(rng: Random, held_out: bool) -> tuple[str, int]:
    """An opinion and its class, 0 (very negative) to 4 (very positive).

    A held-out row has new words in a known frame or a new frame, never only a new combination.
    """
    label = rng.randrange(5)
    domain = rng.choice(sorted(ASPECTS))
    thing = rng.choice(THINGS[domain])
    new_words = held_out and rng.random() < 0.7
    new_frame = held_out and (not new_words or rng.random() < 0.15)
    aspects = parse_all((HELD_ASPECTS if new_words else ASPECTS)[domain])
    verdicts = VERDICTS["held out" if held_out else "train"][label]
    verdict = rng.choice(verdicts).format(thing=thing)
    kind = rng.choices(KINDS, KIND_WEIGHTS)[0]
    if kind == "verdict":
        text = verdict
    elif kind == "turn":
        # The judgement pulls away from the verdict; before a lukewarm verdict it may be either.
        good = label < 2 if label != 2 else rng.random() < 0.5
        turn = rng.choice(HELD_TURNS if new_frame else TURNS)
        text = fill(turn, aspects, rng, good=good, verdict=verdict)
    else:
        frames = HELD_FRAMES if new_frame else FRAMES
        number, frame = rng.choice([f for f in frames if f[0] in (label, 4 - label)])
        good = number == label if label != 2 else rng.random() < 0.5
        text = fill(frame, aspects, rng, good=good, verdict="")
        if kind == "agreement":
            text = f"{text}. {written(verdict)[:-1]}"
    if rng.random() < 0.2:
        opener = rng.choice(OPENERS["held out" if held_out else "train"][domain])
        return f"{opener.format(thing=thing)} {written(text)}", label
    return written(text), label
