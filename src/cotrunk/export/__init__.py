"""A trained run in the formats of other libraries."""
