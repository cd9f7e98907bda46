"""One service that answers all tasks of a run over HTTP."""
