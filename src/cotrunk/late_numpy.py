"""numpy, imported when it is first used: a command that only reads settings starts without it."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy import *  # noqa: F403
else:

    def __getattr__(name: str) -> Any:
        import numpy

        return getattr(numpy, name)
