"""What `check` found, in words and for other programs."""

from dataclasses import dataclass

from ralphgen import __version__
from ralphgen.emit.write import Drift
from ralphgen.errors import plain
from ralphgen.generate.removals import Lag
from ralphgen.project.root import FOLDER

LISTED = 5  # files of a kind in the verdict


@dataclass(frozen=True, slots=True)
class Report:
    """What `check` found: the drift, who is behind, and what else a person should know.

    `server` is the drift of the server, and `connected` that of the files that `connect` wrote.
    `merging` says that git has left generated files unmerged.
    """

    server: Drift
    connected: Drift
    warnings: tuple[str, ...]
    notes: tuple[str, ...]
    written_by: str
    lag: Lag
    merging: bool

    @property
    def drift(self) -> Drift:
        """The drift of all files."""
        return self.server.plus(self.connected)

    def summary(self) -> str:
        """Return one sentence on what differs."""
        if self.server.interrupted:
            return f"a write of {FOLDER} was interrupted"
        if self.merging:
            return f"{FOLDER} has unmerged files{self._behind()}"
        places = (
            (f"{FOLDER} is out of date", self.server),
            ("files for clients are out of date", self.connected),
        )
        found = [f"{text} ({_named(drift)})" for text, drift in places if drift]
        return f"{'; '.join(found)}{self._behind()}"

    def hint(self) -> str:
        """Return what to do about it."""
        drift = self.drift
        behind = drift.stale or drift.missing or drift.leftover
        ways = (
            (drift.interrupted, 'run "ralphgen regen"'),
            (self.lag.database, self.lag.hint()),
            (
                self.merging,
                f'run "ralphgen regen", then "git add {FOLDER}"',
            ),
            (drift.hint, drift.hint),
            (
                drift.edited,
                'save the edits you need, then run "ralphgen regen --force" to overwrite them',
            ),
            (behind, 'run "ralphgen regen" and commit the result'),
        )
        unknown = "remove them, or move your own files to another directory"
        return next((way for applies, way in ways if applies), unknown)

    def as_json(self) -> dict[str, object]:
        """Return the report for other programs."""
        return {
            "ok": not self.drift,
            "ralphgen": __version__,
            "written_by": self.written_by,
            "stale": list(self.drift.stale),
            "edited": list(self.drift.edited),
            "missing": list(self.drift.missing),
            "leftover": list(self.drift.leftover),
            "unknown": list(self.drift.unknown),
            "diff": self.drift.diff,
            "warnings": list(self.warnings),
            "notes": list(self.notes),
            "interrupted": self.drift.interrupted,
            "merging": self.merging,
            "database_lacks": list(self.lag.database),
            "server_lacks": list(self.lag.server),
        }

    def _behind(self) -> str:
        """Return a line on which side is behind; empty where none is."""
        sentence = self.lag.sentence()
        return f"\n{sentence}" if sentence else ""


def _named(drift: Drift) -> str:
    """Return the first paths of a drift, by kind."""
    found = []
    for kind in ("stale", "edited", "missing", "leftover", "unknown"):
        paths: tuple[str, ...] = getattr(drift, kind)
        more = f" and {len(paths) - LISTED} more" if len(paths) > LISTED else ""
        found += [f"{kind}: {plain(', '.join(paths[:LISTED]))}{more}"] * bool(paths)
    return "; ".join(found)
