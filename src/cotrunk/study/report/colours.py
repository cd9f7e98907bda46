"""The colours of pages and charts, as CSS variables; without the packages that draw."""

LIGHT = {
    "ink": "#1d232b",
    "muted": "#5c6773",
    "line": "#dde2e7",
    "accent": "#2f6c99",
    "contrast": "#c2571a",
    "rest": "#9aa3ad",
    "series-1": "#4477aa",
    "series-2": "#dd5566",
    "series-3": "#228833",
    "series-4": "#b59a1c",
    "series-5": "#aa3377",
    "series-6": "#2aa0c0",
    "series-7": "#555f6b",
}
DARK = {
    "ink": "#e8ebef",
    "muted": "#a3adb8",
    "line": "#343b44",
    "accent": "#7ab4de",
    "contrast": "#f0915a",
    "rest": "#6b747e",
    "series-1": "#77aadd",
    "series-2": "#f08a97",
    "series-3": "#5cc474",
    "series-4": "#d9c653",
    "series-5": "#dd86bb",
    "series-6": "#6fd0ea",
    "series-7": "#c3cad2",
}
ON_PAGE = {name: f"var(--{name})" for name in LIGHT}
