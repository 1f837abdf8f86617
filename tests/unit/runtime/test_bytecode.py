"""Sources of a server that several threads compile at once, as those of a board do."""

import gc
import json
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path

import pytest

from ralphgen.runtime.bytecode import verified

SOURCE = "\n".join(
    f"value_{number} = [{{1: (2, -{number})}} for _ in (1, 2)]" for number in range(40)
)


@pytest.fixture
def other_threads_at_each_collection() -> Iterator[None]:
    """Garbage is collected often, in Python, so that another thread can go on meanwhile."""

    def collected(_phase: str, _about: object) -> None:
        sum(range(300))

    interval, threshold = sys.getswitchinterval(), gc.get_threshold()
    sys.setswitchinterval(1e-6)
    gc.set_threshold(50)
    gc.callbacks.append(collected)
    yield
    gc.callbacks.remove(collected)
    gc.set_threshold(*threshold)
    sys.setswitchinterval(interval)


@pytest.mark.usefixtures("other_threads_at_each_collection")
def test_threads_compile_at_once(tmp_path: Path) -> None:
    (tmp_path / "module.py").write_text(SOURCE, encoding="utf-8")
    digests = {"module.py": sha256(SOURCE.encode()).hexdigest()}
    manifest = json.dumps({"files": digests}).encode()
    _, code = verified(str(tmp_path), manifest, trusting=True)

    with ThreadPoolExecutor(4) as pool:
        compiled = list(pool.map(code, 40 * ["module.py"]))

    assert 40 * [compiled[0]] == compiled
