"""How fast we are beside others on this machine: ``python -m bench``."""
