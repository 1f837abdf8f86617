// The list of tasks: its order, its columns, and its filters without a new page.
"use strict";

// The order: a row moves immediately, by the numbers that are seen, and posts follow one by one.
// Of several steps of a row, only the last place that is still to be sent counts.
const moves = new Map();
let moving = false;

function move(form, button) {
    const row = form.closest("[data-row]");
    const found = all("[data-row]", row.parentElement);
    const now = found.indexOf(row);
    const step = { t: -now, up: -1, down: 1 }[button.dataset.key];
    const to = now + step;
    const numbers = found.map((other) => Number(one(".n", other).textContent));
    const place = button.dataset.key === "t" ? 1 : (numbers[to] ?? numbers[now] + step);
    if (place < 1 || place === numbers[now]) return;
    if (found[to]) {
        found[to][to < now ? "before" : "after"](row);
        all("[data-row]", row.parentElement).forEach((other, at) => (one(".n", other).textContent = numbers[at]));
        pick(row);
    }
    moves.delete(form.action);
    moves.set(form.action, place);
    sendMoves();
}

async function sendMoves() {
    if (moving) return;
    moving = true;
    list().dataset.kept = ""; // the server's list is older than the one that is seen
    do {
        for (const [action, place] of moves) {
            moves.delete(action);
            await post(action, new URLSearchParams({ place })).then(say, failed);
        }
        await refreshing.get("list")?.work.catch(() => {});
    } while (moves.size);
    delete list().dataset.kept;
    moving = false;
    refresh("list").catch(failed);
}

// Columns: a tile is dropped on a status; it comes back if that is refused or needs a reason.
let dragged = null;

async function drop(tile, column) {
    const [before, after] = [tile.parentElement, tile.nextSibling];
    const fields = { status: column.dataset.status, "was.status": tile.dataset.status };
    if (fields.status === fields["was.status"]) return;
    if (fields.status === "blocked") return openDialog(`${one("a", tile).href}/status?to=blocked`); // for a reason
    one("ul", column).prepend(tile);
    let outcome = null;
    try {
        outcome = await post(`${one("a", tile).href}/status`, new URLSearchParams(fields));
    } catch (error) {
        failed(error);
    }
    if (!outcome?.ok) before.insertBefore(tile, after?.parentElement === before ? after : null);
    if (outcome?.dialog) return openDialog(outcome.dialog);
    if (outcome) say(outcome);
}

const target = (event) => dragged && event.target.closest?.(".col[data-status]");

document.addEventListener("dragstart", (event) => {
    dragged = event.target.closest?.(".tile");
    if (dragged) event.dataTransfer.setDragImage(dragged, 12, 12);
});
document.addEventListener("dragover", (event) => {
    for (const column of all(".col.over")) column.classList.remove("over");
    if (!target(event)) return;
    event.preventDefault();
    target(event).classList.add("over");
});
document.addEventListener("drop", (event) => {
    if (!target(event)) return;
    event.preventDefault();
    drop(dragged, target(event));
});
document.addEventListener("dragend", () => {
    dragged = null;
    for (const column of all(".col.over")) column.classList.remove("over");
});

// Filters and further rows replace the list alone.
function swap(address) {
    history.replaceState(null, "", address);
    refresh("list")
        .then(() => selected() ?? pick(rows()[0], { focus: false }))
        .catch(failed);
}

// The listeners of all pages come after these, and leave such forms and links alone.
function filter(event) {
    const { target: form, submitter } = event;
    if (form.matches(".move")) {
        event.preventDefault();
        move(form, submitter);
    } else if (form.matches(".tools") && !submitter?.name) {
        event.preventDefault();
        const given = [...new FormData(form)].filter(([, text]) => text);
        swap(`${form.action}?${new URLSearchParams(given)}`);
    }
}

function follow(event) {
    const link = event.target.closest("a[data-swap]");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
    event.preventDefault();
    scrollTo(0, 0);
    swap(link.href);
}

addEventListener("submit", filter, true);
addEventListener("click", follow, true);
