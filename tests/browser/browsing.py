"""Headless Chromium, driven by an installed playwright-core."""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from board_browsers import COOKIES

MODULES = os.environ.get("RALPHGEN_NODE_MODULES", "")
PROGRAMS = ("chromium-headless-shell", "chromium")
"""Programs to try, the fastest first: the headless shell opens a page in a quarter of the time."""
CHROMIUM = next((found for found in map(shutil.which, PROGRAMS) if found), "")
DRIVER = Path(__file__).with_name("driver.mjs")
BROWSER = [
    pytest.mark.browser,
    pytest.mark.skipif(not CHROMIUM, reason="there is no Chromium on PATH"),
    pytest.mark.skipif(
        not (Path(MODULES) / "playwright-core").is_dir() or not MODULES,
        reason="RALPHGEN_NODE_MODULES names no folder with playwright-core",
    ),
]
COLOUR_RULES = ("color-contrast", "link-in-text-block")
Step = tuple[Any, ...]


class Chromium:
    """One browser; each page belongs to a different user, with separate cookies and clipboard."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        """Drives the browser through the process of the driver."""
        self._process = process

    def ask(self, do: str, **command: object) -> Any:
        """Return the answer to a command; fail if the command failed."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"do": do, **command}) + "\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline() or '{"failure": "it has ended"}')
        assert "failure" not in answer, answer["failure"]
        return answer["value"]

    @contextmanager
    def page(self, url: str, **options: object) -> Iterator["Page"]:
        """Open a page with access to the board at the address.

        `options` belong to the browser context.
        """
        usual: dict[str, object] = {
            "viewport": {"width": 1280, "height": 900},
            "reducedMotion": "reduce",
        }
        usual["storageState"] = {"cookies": [*_cookies(url)], "origins": []}
        number = self.ask("open", options={**usual, **options})
        page = Page(self, number)
        page.go(url)
        yield page
        self.ask("close", page=number)


class Page:
    """A page; its methods take selectors of playwright."""

    def __init__(self, chromium: Chromium, number: int) -> None:
        """Refers to the page by its number in the driver."""
        self._chromium = chromium
        self._number = number

    def steps(self, *steps: Step) -> Any:
        """Make each call on the result of the previous one, and return the last result."""
        return self._chromium.ask("steps", page=self._number, steps=steps)

    def at(self, selector: str, *step: object) -> Any:
        """Call a method of a locator."""
        return self.steps(("locator", selector), step)

    def go(self, url: str) -> None:
        """Load another page."""
        self.steps(("goto", url))

    def resize(self, width: int, height: int) -> None:
        """Resize the window."""
        self.steps(("setViewportSize", {"width": width, "height": height}))

    def status(self, url: str) -> int:
        """Load another page and return its HTTP status."""
        status: int = self.steps(("goto", url), ("status",))
        return status

    def click(self, selector: str) -> None:
        """Click an element as soon as it is ready."""
        self.at(selector, "click")

    def press(self, *keys: str) -> None:
        """Press keys in the focused element."""
        for key in keys:
            self.steps(("keyboard",), ("press", key))

    def type(self, text: str) -> None:
        """Type a text in the focused element."""
        self.steps(("keyboard",), ("type", text))

    def focus(self, selector: str) -> None:
        """Focus an element, which must be focusable."""
        self.at(selector, "focus")
        assert self.focused(selector), f"{selector} takes no focus"

    def focused(self, selector: str) -> bool:
        """Return whether the element has the focus."""
        return bool(self.at(f"{selector}:focus", "count"))

    def fill(self, selector: str, text: str) -> None:
        """Replace the text of a field."""
        self.at(selector, "fill", text)

    def wait(self, selector: str, state: str = "visible") -> None:
        """Wait until an element has the state."""
        self.at(f"{selector} >> nth=0", "waitFor", {"state": state})

    def wait_plain(self, selector: str) -> None:
        """Wait for a part of a page without scripts: reload until late sections have arrived."""
        self.wait(f"{selector}, [data-late]")
        while self.count("[data-late]"):
            self.steps(("reload",))
        self.wait(selector)

    def text(self, selector: str) -> str:
        """Return the visible text, with single spaces."""
        return " ".join(str(self.at(selector, "innerText")).split())

    def texts(self, selector: str) -> list[str]:
        """Return the visible text of each match."""
        return [" ".join(text.split()) for text in self.at(selector, "allInnerTexts")]

    def count(self, selector: str) -> int:
        """Return the number of matches."""
        return int(self.at(selector, "count"))

    def value(self, selector: str) -> str:
        """Return the content of a field."""
        return str(self.at(selector, "inputValue"))

    def script(self, expression: str) -> Any:
        """Return the value of a JavaScript expression."""
        return self.steps(("evaluate", expression))

    def said(self) -> list[str]:
        """Return the new console messages, exceptions and dialogs."""
        said: list[str] = self._chromium.ask("said", page=self._number)
        return said

    def violations_in_both_schemes(self) -> list[Any]:
        """Return all violations in the light scheme, and color violations in the dark scheme."""
        found: list[Any] = []
        for scheme, rules in (("light", None), ("dark", COLOUR_RULES)):
            self.steps(("emulateMedia", {"colorScheme": scheme}))
            found += self._chromium.ask("axe", page=self._number, rules=rules)
        return found


def _cookies(url: str) -> Iterator[dict[str, object]]:
    """Yield the cookies that grant access to a board, in playwright's format."""
    for origin, cookie in COOKIES.items():
        if url.startswith(f"{origin}/") and "/open/" not in url:
            name, _, value = cookie.partition("=")
            attributes = {"httpOnly": True, "secure": False, "sameSite": "Strict", "expires": -1}
            yield {"name": name, "value": value, "domain": "127.0.0.1", "path": "/", **attributes}


@contextmanager
def open_chromium() -> Iterator[Chromium]:
    """Start a browser, and close it at the end."""
    modules = Path(MODULES).resolve()
    path = f"{modules / '.bin'}{os.pathsep}{os.environ['PATH']}"
    node = shutil.which("node", path=path)
    assert node, "RALPHGEN_NODE_MODULES is set, but there is no node on PATH"
    process = subprocess.Popen(
        [node, DRIVER, modules, CHROMIUM],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,  # notes of Chromium about the machine
        encoding="utf-8",
    )
    with process:
        try:
            yield Chromium(process)
        finally:
            assert process.stdin is not None
            process.stdin.close()
            process.wait(timeout=60)
