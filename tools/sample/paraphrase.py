"""Pairs of questions: the same question in other words, or another one in nearly the same words."""

from dataclasses import dataclass
from random import Random

from tools.sample.questions import GROUPS, HELD_GROUPS, Group

CURRENCIES = "euros, dollars, pounds, yen, francs, kroner / rupees, pesos, roubles, zloty"
LANGUAGES = "French, German, Polish, Greek, Turkish, Danish / Italian, Dutch, Finnish, Korean"
CITIES = "Paris, Berlin, Madrid, Vienna, Oslo, Prague, Rome / Lisbon, Dublin, Athens, Warsaw"
FORMATS = "Word files, spreadsheets, PDFs, web pages, slides / text files, e-books, scans"
DEVICES = "phone, laptop, camera, tablet / printer, television, watch"
RELATIVES = "brother, aunt, boss, neighbour, teacher, landlord / cousin, uncle, dentist"
ANIMALS = "dog, cat, horse, parrot, rabbit, goat / hamster, goose, ferret"
TRADES = "nurse, pilot, baker, lawyer, farmer, plumber / teacher, chemist, sailor"
FOODS = "rice, bread, fish, cheese, carrots, beef / lentils, pumpkin, salmon, mushrooms"
FABRICS = "wool, silk, leather, denim, linen / velvet, cotton, suede"
SPORTS = "tennis, chess, judo, cricket, rugby / badminton, hockey, fencing"
PLANTS = "tomatoes, roses, onions, tulips, beans / basil, strawberries, garlic"
SUBJECTS = "algebra, physics, history, music, law / geometry, biology, economics"
LENGTHS = "miles, inches, kilometres / metres, yards, feet, centimetres"


@dataclass(frozen=True)
class Family:
    """Wordings of one question. ``mutual``: a and b may trade places without changing it."""

    wordings: tuple[str, ...]
    pool: str
    mutual: bool = False

    def words(self, *, held_out: bool) -> list[str]:
        return self.pool.split(" / ")[held_out].split(", ")

    @property
    def paired(self) -> bool:
        return "{b}" in self.wordings[0]


FAMILIES = (
    Family(
        (
            "How do I convert {a} to {b}?",
            "How can I change my {a} into {b}?",
            "I have {a} and need {b}; where can I exchange them?",
        ),
        CURRENCIES,
    ),
    Family(
        (
            "How many {a} do I get if I pay with {b}?",
            "If I hand over {b}, what amount of {a} will I receive?",
        ),
        CURRENCIES,
    ),
    Family(
        (
            "How long does the train from {a} to {b} take?",
            "What is the travel time by rail from {a} to {b}?",
            "Going to {b} from {a} by train, how many hours should I plan?",
        ),
        CITIES,
    ),
    Family(
        (
            "Is {a} more expensive to live in than {b}?",
            "Does it cost more to live in {a} than in {b}?",
            "Compared with {b}, is {a} a pricier place to live?",
        ),
        CITIES,
    ),
    Family(
        (
            "How far apart are {a} and {b}?",
            "What is the distance between {a} and {b}?",
            "How many kilometres lie between {a} and {b}?",
        ),
        CITIES,
        mutual=True,
    ),
    Family(
        (
            "Who can translate a letter from {a} into {b}?",
            "Where do I find a translator for a letter, {a} to {b}?",
            "I need a letter written in {a} put into {b}; who does that?",
        ),
        LANGUAGES,
    ),
    Family(
        (
            "Is {a} harder to learn than {b}?",
            "Does learning {a} take more effort than learning {b}?",
            "Is {b} easier to pick up than {a}?",
        ),
        LANGUAGES,
    ),
    Family(
        (
            "What do {a} and {b} have in common?",
            "In what ways are {a} and {b} alike?",
            "Which features are shared by {a} and {b}?",
        ),
        LANGUAGES,
        mutual=True,
    ),
    Family(
        (
            "How do I turn {a} into {b}?",
            "Is there a program that converts {a} to {b}?",
            "What is the simplest way of making {b} out of {a}?",
        ),
        FORMATS,
    ),
    Family(
        (
            "My {a} owes my {b} money; can it be claimed in court?",
            "Can my {b} sue my {a} over an unpaid loan?",
            "Is my {a} obliged by law to pay my {b} back?",
        ),
        RELATIVES,
    ),
    Family(
        (
            "How do I introduce my {a} to my {b}?",
            "What is a good way to introduce my {b} and my {a} to each other?",
            "How should I arrange for my {a} and my {b} to meet?",
        ),
        RELATIVES,
        mutual=True,
    ),
    Family(
        (
            "How do I stop my {a} from biting the {b}?",
            "My {a} keeps biting the {b}; what can I do?",
            "The {b} is being bitten by my {a}; how do I prevent it?",
        ),
        ANIMALS,
    ),
    Family(
        (
            "Can a {a} and a {b} be kept together?",
            "Is it safe to let a {a} live with a {b}?",
            "Will a {a} get along with a {b}?",
        ),
        ANIMALS,
        mutual=True,
    ),
    Family(
        (
            "Can a {a} retrain as a {b}?",
            "What does it take to go from being a {a} to being a {b}?",
            "How would a {a} switch careers and become a {b}?",
        ),
        TRADES,
    ),
    Family(
        (
            "Does a {a} earn more than a {b}?",
            "Is the salary of a {a} higher than that of a {b}?",
            "Is a {b} paid less than a {a}?",
        ),
        TRADES,
    ),
    Family(
        (
            "How long can I keep cooked {a} in the fridge?",
            "For how many days does cooked {a} stay good when chilled?",
            "When does leftover {a} go bad in a refrigerator?",
        ),
        "rice, fish, chicken, pasta, soup / beef, salmon, spinach",
    ),
    Family(
        (
            "How do I get a red wine stain out of {a}?",
            "What removes spilled red wine from {a}?",
            "I dropped wine on {a}; how can I clean it?",
        ),
        FABRICS,
    ),
    Family(
        (
            "What should I buy first when I take up {a}?",
            "Which equipment does a beginner in {a} need?",
            "I am starting {a}; what gear do I have to get?",
        ),
        SPORTS,
    ),
    Family(
        (
            "When should I plant {a}?",
            "What is the right time of year to put {a} in the ground?",
            "In which month is it best to plant {a}?",
        ),
        PLANTS,
    ),
    Family(
        (
            "Which book is good for learning {a} by myself?",
            "Can you suggest a textbook for teaching oneself {a}?",
            "What should I read to study {a} without a teacher?",
        ),
        SUBJECTS,
    ),
    Family(
        (
            "Why does my {a} switch off by itself?",
            "What makes my {a} shut down without warning?",
            "My {a} keeps turning off on its own; what is the cause?",
        ),
        DEVICES,
    ),
    Family(
        (
            "Should I eat {a} before {b}?",
            "Is it better to have {a} first and {b} afterwards?",
            "Ought {b} to be eaten after {a}?",
        ),
        FOODS,
    ),
)
HELD_FAMILIES = (
    Family(
        (
            "How do I fly from {a} to {b} cheaply?",
            "What is the least expensive flight to {b} if I start in {a}?",
            "I live in {a}; how do I find a cheap flight to {b}?",
        ),
        CITIES,
    ),
    Family(
        (
            "Would {a} go well with {b}?",
            "Can I serve {a} and {b} in one dish?",
            "Will {b} and {a} taste good together?",
        ),
        FOODS,
        mutual=True,
    ),
    Family(
        (
            "How do I express {a} in {b}?",
            "What is the formula to get {b} when I know the {a}?",
            "How are {a} recalculated as {b}?",
        ),
        LENGTHS,
    ),
    Family(
        (
            "Can my {a} be fixed after falling into water?",
            "My {a} got soaked; is there any way to repair it?",
            "Is it possible to repair a {a} that fell into water?",
        ),
        DEVICES,
    ),
)

# Shares of the rows, in percent. "swap" trades a and b; "elsewhere" is another question entirely,
# of several the one with the most words in common; a written group has its own near misses.
KINDS = {
    "same": 20,
    "written same": 27,
    "swap": 4,
    "other word": 7,
    "written other": 8,
    "elsewhere": 34,
}
CANDIDATES = 25

WRAPPERS = (
    "Quick question: {}",
    "I have been wondering about this: {}",
    "{} Any ideas?",
    "{} Thanks in advance.",
    "Serious question: {}",
    "{} I could not find an answer so far.",
)
HELD_WRAPPERS = ("Asking for a friend: {}", "{} Please help.", "{} I would be glad of any hint.")


def shared_words(first: str, second: str) -> float:
    """Jaccard similarity of the sets of words."""
    left, right = (set(text.lower().strip("?").split()) for text in (first, second))
    return len(left & right) / len(left | right)


def written_pair(rng: Random, *, same: bool, held_out: bool) -> tuple[str, str, int]:
    questions, near_misses = rng.choice(HELD_GROUPS if held_out else GROUPS)
    first, second = rng.sample(questions, 2)
    pair = [first, second if same else rng.choice(near_misses)]
    rng.shuffle(pair)
    return pair[0], pair[1], int(same)


def filled_pair(rng: Random, kind: str, *, held_out: bool) -> tuple[str, str, int]:
    """Held-out rows fill held-out words into any family, old or new."""
    families = (HELD_FAMILIES * 2 + FAMILIES) if held_out else FAMILIES
    family = rng.choice([f for f in families if f.paired or kind != "swap"])
    a, b, c = rng.sample(family.words(held_out=held_out), 3)
    first, second = rng.sample(family.wordings, 2)
    if kind != "same" and rng.random() < 0.4:
        second = first
    if kind == "same":
        return first.format(a=a, b=b), second.format(a=a, b=b), 1
    if kind == "swap":
        return first.format(a=a, b=b), second.format(a=b, b=a), int(family.mutual)
    # One word stays, so that the two questions still have most of their words in common.
    others = [{"a": c, "b": b}] + [{"a": a, "b": c}] * family.paired
    return first.format(a=a, b=b), second.format(**rng.choice(others)), 0


def any_question(subject: Family | Group, rng: Random, *, held_out: bool) -> str:
    if isinstance(subject, Family):
        a, b = rng.sample(subject.words(held_out=held_out), 2)
        return rng.choice(subject.wordings).format(a=a, b=b)
    return rng.choice(subject[0])


def unrelated_pair(rng: Random, *, held_out: bool) -> tuple[str, str, int]:
    groups = HELD_GROUPS if held_out else GROUPS
    families = (HELD_FAMILIES if held_out else ()) + FAMILIES
    subjects: list[Family | Group] = [*groups, *families]
    first, *others = (
        any_question(subject, rng, held_out=held_out)
        for subject in rng.sample(subjects, CANDIDATES + 1)
    )
    return first, max(others, key=lambda text: shared_words(first, text)), 0


def draw(rng: Random, held_out: bool) -> tuple[str, str, int]:
    """Two questions, and 1 if they ask the same thing."""
    kind = rng.choices(list(KINDS), list(KINDS.values()))[0]
    if kind == "elsewhere":
        first, second, label = unrelated_pair(rng, held_out=held_out)
    elif kind.startswith("written"):
        same = kind == "written same"
        first, second, label = written_pair(rng, same=same, held_out=held_out)
    else:
        first, second, label = filled_pair(rng, kind, held_out=held_out)
    if rng.random() < 0.4:
        second = rng.choice(HELD_WRAPPERS if held_out else WRAPPERS).format(second)
    return first, second, label
