"""Compares the generated folder with what would be generated now, file by file and line by line."""

import io
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from difflib import unified_diff
from pathlib import Path

from ralphgen.files import (
    MANIFEST,
    Files,
    digest,
    explained,
    interrupted,
    listed,
    read_files,
    refuse_irregular,
    unlisted_below,
)

LINE_ENDS_HINT = (
    'some files differ only in Windows line endings: keep "* text eol=lf" in .gitattributes'
    " and check them out again"
)


@dataclass(frozen=True, slots=True)
class Drift:
    """How the folder differs from what would be generated; false when it does not.

    `stale`: as it was generated, but it would be generated differently now. `edited`: changed since
    it was generated, or there without having been generated. `missing`: not there. `leftover`:
    generated once, not any more. `unknown`: whatever no manifest lists, a folder as `name/`.
    All are sorted paths; a leftover that was edited stands in both. `parts` is the diff from the
    folder to the generated text, by path. `interrupted`: a write has not been finished, so that
    both texts are mixed.
    """

    stale: tuple[str, ...] = ()
    edited: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    leftover: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    parts: Mapping[str, str] = field(default_factory=dict)
    hint: str = ""
    interrupted: bool = False

    def __bool__(self) -> bool:
        """Return whether anything differs."""
        differs = any((self.stale, self.edited, self.missing, self.leftover, self.unknown))
        return differs or self.interrupted

    def plus(self, other: "Drift") -> "Drift":
        """Return both in one, with the paths of the other behind."""
        return Drift(
            self.stale + other.stale,
            self.edited + other.edited,
            self.missing + other.missing,
            self.leftover + other.leftover,
            self.unknown + other.unknown,
            {**self.parts, **other.parts},
            self.hint or other.hint,
            self.interrupted or other.interrupted,
        )

    @property
    def diff(self) -> str:
        """The whole diff, sorted by path."""
        return "".join(self.parts.values())


@dataclass(frozen=True, slots=True)
class FolderState:
    """What is on disk next to what would be generated.

    `old` is the manifest on disk, `None` where it cannot be read; `disk` holds the bytes of all
    files that either manifest lists and that exist.
    """

    old: Mapping[str, str] | None
    new: Mapping[str, bytes]
    disk: Mapping[str, bytes]

    @property
    def missing(self) -> tuple[str, ...]:
        """The files that would be generated and are not there."""
        return tuple(sorted(self.new.keys() - self.disk.keys()))

    @property
    def leftover(self) -> tuple[str, ...]:
        """The files that were generated once, would not be any more, and are there."""
        return tuple(sorted(self.disk.keys() - self.new.keys()))

    @property
    def different(self) -> tuple[str, ...]:
        """The files that would be generated with other bytes than they have."""
        return tuple(path for path in sorted(self.disk) if self._differs(path))

    @property
    def edited(self) -> tuple[str, ...]:
        """The files whose bytes would be lost for good if they were written or removed now."""
        return tuple(path for path in sorted({*self.different, *self.leftover}) if self._own(path))

    @property
    def line_ends(self) -> tuple[str, ...]:
        """The edited files in which nothing but the line ends was changed."""
        return tuple(path for path in self.edited if self._converted(path))

    def _differs(self, path: str) -> bool:
        return path in self.new and self.disk[path] != self.new[path]

    def _own(self, path: str) -> bool:
        if self.old is None:
            return True
        if path == MANIFEST:
            return self._converted(path)
        return digest(self.disk[path]) != self.old.get(path)

    def _converted(self, path: str) -> bool:
        text = self.disk[path].replace(b"\r\n", b"\n")
        known = {digest(self.new[path])} if path in self.new else set()
        return digest(text) in known | {(self.old or {}).get(path)}


def read_state(folder: Path, files: Files, merged: Collection[str] | None = None) -> FolderState:
    """Return what is on disk next to `files`.

    `merged` are files that count as generated with the bytes that they have, whatever the manifest
    on disk lists. Raises ProjectError where a link stands in place of a file, or a file cannot be
    read.
    """
    with explained(folder, "read"):
        refuse_irregular(folder, files)
        old = listed(folder) if merged is None else dict.fromkeys(merged, "")
        paths = files.keys() | (old or {}).keys()
        refuse_irregular(folder, paths)
        new = {path: text.encode() for path, text in files.items()}
        disk = read_files(folder, paths)
        if merged is not None:
            old = {path: digest(disk[path]) for path in sorted(merged) if path in disk}
        return FolderState(old, new, disk)


def unknown_files(folder: Path, state: FolderState) -> tuple[str, ...]:
    """Return what neither the old nor the new manifest lists, sorted; a folder as `name/`."""
    return tuple(unlisted_below(folder, state.new.keys() | (state.old or {}).keys() | {MANIFEST}))


def compare(folder: Path, files: Files) -> Drift:
    """Return how the folder differs from `files`, which hold a manifest.

    Raises ProjectError where a link stands in place of a file, or a file cannot be read.
    """
    state = read_state(folder, files)
    edited = state.edited
    return Drift(
        stale=tuple(path for path in state.different if path not in edited),
        edited=edited,
        missing=state.missing,
        leftover=state.leftover,
        unknown=unknown_files(folder, state),
        parts=_parts(state),
        hint=LINE_ENDS_HINT if state.line_ends else "",
        interrupted=interrupted(folder),
    )


def diff(folder: Path, files: Files) -> str:
    """Return the unified diff from the folder (`a/`) to `files` (`b/`), sorted by path.

    Raises ProjectError where a link stands in place of a file, or a file cannot be read.
    """
    return "".join(_parts(read_state(folder, files)).values())


def _parts(state: FolderState) -> dict[str, str]:
    """Return, by path, sorted, the part of the diff that is about it."""
    paths = {*state.different, *state.missing, *state.leftover}
    return {
        path: "".join(file_diff(path, state.disk.get(path), state.new.get(path)))
        for path in sorted(paths)
    }


def file_diff(path: str, old: bytes | None, new: bytes | None, context: int = 3) -> Iterator[str]:
    """Yield one file's part; an empty file that comes or goes is a pair of names without lines."""
    names = (
        "/dev/null" if old is None else f"a/{path}",
        "/dev/null" if new is None else f"b/{path}",
    )
    lines = list(unified_diff(_lines(old), _lines(new), *names, n=context))
    return _with_last_line_ends(lines or [f"--- {names[0]}\n", f"+++ {names[1]}\n"])


def _lines(data: bytes | None) -> list[str]:
    """Return lines as diff tools count them: they end at a line feed and nowhere else."""
    return list(io.StringIO((data or b"").decode(errors="backslashreplace"), newline="\n"))


def _with_last_line_ends(lines: Iterable[str]) -> Iterator[str]:
    for line in lines:
        yield line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"
