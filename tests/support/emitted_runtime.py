"""Replaces the generator's runtime modules by those of an emitted server."""

import sys
from importlib import import_module


def use_emitted_runtime() -> None:
    """Have `ralphgen.runtime` mean the emitted `runtime`, as far as that is imported by now."""
    import_module("ralphgen")
    own = {name: module for name, module in sys.modules.items() if name.split(".")[0] == "runtime"}
    sys.modules.update({f"ralphgen.{name}": module for name, module in own.items()})
