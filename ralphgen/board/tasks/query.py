"""What is asked of the list of tasks, as its address says it: search, filters, order and page."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlencode

ADDRESS = "/tasks"
OPEN = "open"
"""What the filter says for every status but those in which nothing is left to do."""
STATES: Mapping[str, str] = {
    "ready": "ready",
    "held": "held by a session",
    "stale": "stale",
    "blocked": "blocked",
    "waiting": "waits for tasks",
    "adrift": "waits for what is not there",
    "unreadable": "waits for what cannot be read",
}
"""What a task can come to, by the word in an address, as people say it."""
SORTS: Mapping[str, str] = {
    "id": "Id",
    "title": "Title",
    "status": "Status",
    "priority": "Priority",
    "feature": "Feature",
    "discipline": "Discipline",
    "updated": "Updated",
}
"""The columns by which the list can be put in order, as people say them."""
COLUMNS = "columns"
"""The view that has a column for each status; any other is the table."""
LONGEST = 200  # characters of a search, or of a name in a filter


@dataclass(frozen=True, slots=True)
class TaskQuery:
    """What is asked of the list; a text is empty where it is not asked for.

    `search` is looked for in titles and descriptions, or is an id. `state` is one of `STATES`,
    `sort` one of `SORTS`, and `down` the other way round. Pages count from 1.
    """

    search: str = ""
    status: str = ""
    feature: str = ""
    discipline: str = ""
    state: str = ""
    sort: str = "id"
    down: bool = False
    view: str = ""
    page: int = 1

    def is_plain(self) -> bool:
        """Return whether nothing but the order and the view is asked for."""
        return self == TaskQuery(sort=self.sort, down=self.down, view=self.view)

    def address(self, **changes: str | int | bool) -> str:
        """Return the address of the list with some changes; of the first page, if not said."""
        usual = TaskQuery()
        asked = {name: getattr(self, name) for name in self.__slots__}
        asked |= {"page": 1, **changes}
        said = {name: value for name, value in asked.items() if value != getattr(usual, name)}
        if said.pop("down", False):
            said["order"] = "down"
        if "search" in said:
            said["q"] = said.pop("search")
        return f"{ADDRESS}?{urlencode(said)}" if said else ADDRESS

    def sorted_by(self, column: str) -> str:
        """Return the address of the list in another order; of the same, the other way round."""
        return self.address(sort=column, down=self.sort == column and not self.down)


def task_query(fields: Mapping[str, str]) -> TaskQuery:
    """Return what the fields of an address ask for; what is nothing there counts as not said."""
    page, sort, state = fields.get("page", ""), fields.get("sort", ""), fields.get("state", "")
    words = {name: fields.get(name, "")[:LONGEST] for name in ("status", "feature", "discipline")}
    return TaskQuery(
        search=fields.get("q", "")[:LONGEST].strip(),
        **words,
        state=state if state in STATES else "",
        sort=sort if sort in SORTS else "id",
        down=fields.get("order") == "down",
        view=COLUMNS if fields.get("view") == COLUMNS else "",
        page=max(1, int(page)) if re.fullmatch("[0-9]{1,7}", page) else 1,
    )
