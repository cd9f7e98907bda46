"""``python -m cotrunk``: the command line."""

import sys

from cotrunk.cli.main import main

sys.exit(main())
