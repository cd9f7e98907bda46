"""Charts in Vega-Lite, for pages and for papers; their data is the table ``records``."""
