"""Dates in the spellings of common tools and languages."""

import re

SHORT = re.compile(
    r"(\d{4}[-/.]\d\d?[-/.]\d\d?|\d\d?[-/.]\d\d?[-/.]\d{4}|\d\d?/\d\d?/\d\d)([ T,]+\d\d?:\d\d.*)?",
    re.ASCII,
)
MONTHS = """
january february march april may june july august september october november december
januar jänner februar märz mai juni juli oktober dezember
janvier février mars avril juin juillet août septembre octobre novembre décembre
enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre
gennaio febbraio aprile maggio giugno luglio settembre ottobre dicembre
janeiro fevereiro março maio junho julho setembro outubro novembro dezembro
januari februari maart mrt mei augustus
"""
DAYS = """
monday tuesday wednesday thursday friday saturday sunday
montag dienstag mittwoch donnerstag freitag samstag sonntag
lundi mardi mercredi jeudi vendredi samedi dimanche
lunes martes miércoles jueves viernes sábado domingo
lunedì martedì mercoledì giovedì venerdì sabato domenica
"""
SHORTEST_MONTH, SHORTEST_DAY = 3, 2
YEAR = re.compile("(19|20)[0-9]{2}")
REST = re.compile(
    r"\d\d?(st|nd|rd|th|er|º)?"
    r"|\d\d?[:h]\d\d(:\d\d([.,]\d+)?)?([ap]m|z)?|[ap]m|uhr|[+-]\d\d:?\d\d|z|utc|gmt|[a-z]{1,2}[sd]?t"
    r"|of|at|the|on|de|del|le|el|um|am|à|den",
    re.ASCII,
)


def is_date(text: str) -> bool:
    """Digits such as 2024-06-01, or a month and a year with nothing but a day and a time."""
    if SHORT.fullmatch(text.strip()):
        return True
    words = [word.strip("(),.") for word in text.lower().split()]
    months = [word for word in words if _abbreviates(word, MONTHS, SHORTEST_MONTH)]
    years = [word for word in words if YEAR.fullmatch(word)]
    rest = [word for word in words if word not in months and word not in years]
    return bool(months and years) and all(
        REST.fullmatch(word) or _abbreviates(word, DAYS, SHORTEST_DAY) for word in rest
    )


def _abbreviates(word: str, names: str, shortest: int) -> bool:
    return len(word) >= shortest and any(name.startswith(word) for name in names.split())
