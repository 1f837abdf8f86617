"""Options and fixtures of the whole suite."""

import gc
import os
import shutil
import signal
import sys
from collections.abc import Generator, Iterator
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import pytest

# Before they are imported: pytest explains a failed assert of a module that it has rewritten.
pytest.register_assert_rewrite(*(path.stem for path in Path(__file__).parent.glob("support/*.py")))

import absent

absent.replace_hypothesis()

import lanes
import memory
from goldens import Goldens
from lifelines import Lifeline

if TYPE_CHECKING:
    from driving import Driver

# Thousands of processes are started: they share compiled bytecode.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# A `python3` of pyenv is a script of forty processes that looks for the interpreter: 0.1 s each.
PYTHON3 = shutil.which("python3")
if PYTHON3 and Path(PYTHON3).read_bytes().startswith(b"#!"):
    os.environ["PATH"] = os.pathsep.join((f"{sys.base_prefix}/bin", os.environ["PATH"]))

# Printed commands start with `ralphgen`, as for a user who has it on PATH.
os.environ["PATH"] = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))

# Under `nohup` and `&`, programs that tests start would ignore a closed terminal and Ctrl-C.
if hasattr(signal, "SIGHUP"):
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Trust in tests is separate from the user's.
CONFIGURATION = TemporaryDirectory(prefix="ralphgen-configuration-")
os.environ["XDG_CONFIG_HOME"] = CONFIGURATION.name


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the one switch that rewrites goldens; without it a missing golden fails."""
    parser.addoption(
        "--update-goldens", action="store_true", help="write what fixtures/*/ should hold"
    )


@pytest.hookimpl(tryfirst=True)  # before xdist reads the options
def pytest_cmdline_main(config: pytest.Config) -> None:
    """Deal the tests out to one worker for each processor, if pytest-xdist is installed."""
    is_worker = hasattr(config, "workerinput")
    if config.pluginmanager.hasplugin("xdist") and not is_worker:
        if config.option.update_goldens:
            config.option.numprocesses = 0  # the goldens that others are compared with go first
        elif config.option.numprocesses is None:
            config.option.numprocesses = "auto"
        if config.option.dist == "no":
            config.option.dist = "worksteal"


def pytest_configure(config: pytest.Config) -> None:
    """Take the lane before tests are imported: they read how many examples it tries."""
    gc.disable()  # while tests are collected there is none
    memory.keep_temporary_files(config.option.markexpr)
    lanes.choose(config.option.markexpr)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave modules that hold no test of the lane unread."""
    wanted = config.option.markexpr
    if wanted == "fast" and lanes.holds_no_fast_test(collection_path):
        return True
    is_test = collection_path.name.startswith("test_")
    if wanted == "thorough" and is_test and not lanes.holds_a_thorough_test(collection_path):
        return True
    return True if "not thorough" in wanted and lanes.is_thorough(collection_path) else None


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Skip a module that imports an optional package which is not installed."""
    report = yield
    failure = report.call.excinfo if report.failed and report.call else None
    if package := absent.missing_package(failure.value.__cause__ if failure else None):
        report.outcome = "skipped"
        report.longrepr = (str(collector.path), 1, f"Skipped: {package} is not installed")
    return report


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """A worker for each processor; one more for the lane whose tests wait for time limits."""
    return (os.cpu_count() or 1) + int(config.option.markexpr == "thorough")


@pytest.hookimpl(tryfirst=True)  # before `-m` selects
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the fast and the thorough tests."""
    for item in items:
        if lanes.is_thorough(item.path) and not item.get_closest_marker("soak"):
            item.add_marker("thorough")
        if lanes.is_fast(item):
            item.add_marker("fast")


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Exclude long-lived objects from garbage collection, which saves a tenth of the time."""
    gc.freeze()
    gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Watch fast tests from their fixtures to the end."""
    lanes.Lane.fast = bool(item.get_closest_marker("fast"))
    lanes.Lane.started = None
    try:
        return (yield)
    finally:
        lanes.Lane.fast = False


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown() -> Iterator[None]:
    """Fail the fast test that has started a process."""
    yield
    assert not lanes.Lane.started, f"mark this test slow: it has started {lanes.Lane.started}"


@pytest.fixture(scope="session")
def goldens(request: pytest.FixtureRequest) -> Goldens:
    """The goldens, rewritten if the switch requests it."""
    return Goldens(update=bool(request.config.getoption("--update-goldens")))


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with two features, two disciplines and two tasks; task 2 waits for 1."""
    root: Path = driving().create_project(tmp_path_factory.mktemp("project"))
    return root


@pytest.fixture(scope="module")
def server(project: Path) -> "Iterator[Driver]":
    """A user's session on the project, with every tool."""
    with driving().connected(project) as driver:
        yield driver


def driving() -> Any:
    """The SDK's client, which costs a second to import."""
    return import_module("driving")


@pytest.fixture
def postgresql() -> Iterator[str]:
    """The DSN of a fresh database in a real PostgreSQL."""
    found = import_module("postgresql")
    if reason := found.absence():
        pytest.skip(reason)
    with found.database() as dsn:
        yield dsn


@pytest.fixture
def lifeline(tmp_path: Path) -> Iterator[Lifeline]:
    """A pipe that shows whether processes live that are not children of this one."""
    made = Lifeline(tmp_path / "lifeline")
    yield made
    made.close()
