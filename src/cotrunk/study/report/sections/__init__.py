"""The sections of a page, each made from the runs it is about."""
