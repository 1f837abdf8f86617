// The page works without this: here it becomes live, and keeps its place while it is redrawn.
"use strict";

const SECTIONS = "main > section[id]";
const ONES_OWN = new Set("open role tabindex aria-current aria-disabled aria-invalid".split(" "));
const PATIENCE = { typing: 300, copied: 2000, saying: 8000 };
const REFUSALS = 4; // failed connections in a row after which the board has stopped
const find = (selector, within = document) => within.querySelector(selector);
const all = (selector, within = document) => [...within.querySelectorAll(selector)];

function make(tag, facts = {}, ...inside) {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(facts)) element.setAttribute(name, value);
    element.append(...inside);
    return element;
}

// Drawing anew: an element that stays is the same element, with its focus, scroll and state.
const keyOf = (node) => (node.nodeType === 1 ? node.id || node.dataset.key || "" : "");

function morph(old, fresh) {
    if (old.nodeType !== 1) {
        if (old.data !== fresh.data) old.data = fresh.data;
        return;
    }
    if (old.dataset.edited !== undefined) return tellElsewhere(old, fresh);
    for (const { name } of [...old.attributes])
        if (!fresh.hasAttribute(name) && !ONES_OWN.has(name)) old.removeAttribute(name);
    for (const { name, value } of fresh.attributes)
        if (old.getAttribute(name) !== value && !ONES_OWN.has(name)) old.setAttribute(name, value);
    morphChildren(old, fresh);
    if (old.matches("input, textarea, select") && old !== document.activeElement) {
        old.value = fresh.value;
        old.checked = fresh.checked;
    }
}

function morphChildren(old, fresh) {
    if (old.dataset.kept !== undefined) return;
    const known = new Map();
    for (const child of old.children) if (keyOf(child)) known.set(keyOf(child), child);
    const wanted = new Set([...fresh.children].map(keyOf));
    let next = old.firstChild;
    for (const child of [...fresh.childNodes]) {
        while (next && keyOf(next) && !wanted.has(keyOf(next))) next = removed(next);
        const keyed = keyOf(child) ? known.get(keyOf(child)) : undefined;
        const match = keyed ?? (next && !keyOf(child) && !keyOf(next) ? next : undefined);
        if (!match || match.nodeName !== child.nodeName) {
            old.insertBefore(document.importNode(child, true), next);
            continue;
        }
        if (match === next) next = next.nextSibling;
        else old.insertBefore(match, next);
        morph(match, child);
    }
    while (next) next = removed(next);
}

function removed(node) {
    const next = node.nextSibling;
    node.remove();
    return next;
}

const queues = new Map(); // by section, the drawing that goes on and the one that follows it

function redraw(name) {
    const queue = queues.get(name) ?? { now: Promise.resolve(), next: null };
    queues.set(name, queue);
    queue.next ??= queue.now.then(() => {
        queue.next = null;
        return (queue.now = load(name));
    });
    return queue.next;
}

async function load(name) {
    const section = document.getElementById(name);
    if (!section) return;
    const asked = `${query(name)}`;
    // A section of an area is served within its page alone.
    const own = section.dataset.heeds === undefined;
    const at = own ? `/sections/${name}?${asked}` : `${place(section)}?${asked}&only=${name}`;
    const answer = await fetch(at).catch(() => null);
    const html = answer?.ok && (await answer.text());
    if (!html) return;
    // Of another discipline, it would undo the choice that was made meanwhile.
    const same = asked === `${query(name)}`;
    if (same) draw(name, html);
    // A page of an area does not wait for its section for ever.
    if (!same || find(`#${name}[data-late]`)) redraw(name);
}

function query(name) {
    const chosen = find(`#${name} [data-shown]`)?.dataset.shown;
    const asked = new URLSearchParams(location.search);
    asked.delete("notice");
    asked.set("discipline", chosen ?? asked.get("discipline") ?? "");
    return asked;
}

// What was answered to a form has the form's address: its page is where the section says.
const place = (section) => section.dataset.at ?? location.pathname;

function draw(name, html) {
    const fresh = new DOMParser().parseFromString(html, "text/html").getElementById(name);
    const old = document.getElementById(name);
    if (!fresh) return;
    const focused = old.contains(document.activeElement) ? document.activeElement : null;
    morph(old, fresh);
    if (focused && !focused.isConnected) find("h2", old)?.focus({ preventScroll: true });
    dress(old);
}

// Events: what has changed is drawn anew, and said at most every few seconds.

let [events, failures, told] = [null, 0, 0];

function listen() {
    if (document.hidden || events) return;
    events = new EventSource(`/events?since=${document.body.dataset.change}`);
    events.addEventListener("open", () => {
        failures = 0;
        showPulse("live", "Live");
    });
    events.addEventListener("changed", (event) => {
        document.body.dataset.change = event.lastEventId;
        const { sections } = JSON.parse(event.data);
        const shown = all(SECTIONS).filter(({ id, dataset }) =>
            [id, ...(dataset.heeds ?? "").split(" ")].some((name) => sections.includes(name)),
        );
        for (const section of shown) redraw(section.id);
        say(shown);
    });
    events.addEventListener("error", () => {
        failures += 1;
        const gone = failures >= REFUSALS || events.readyState === EventSource.CLOSED;
        if (!gone) return showPulse("waiting", "Connecting again …");
        events.close();
        showPulse("stopped", "The board has stopped: run “ralphgen board” again");
    });
}

// A tab that nobody looks at gives its connection back: browsers have few of them.
document.addEventListener("visibilitychange", () => {
    if (!document.hidden) return listen();
    events?.close();
    events = null;
});

function showPulse(state, words) {
    const pulse = find("#pulse");
    if (pulse.dataset.state === state) return;
    pulse.dataset.state = state;
    pulse.textContent = words;
}

function say(sections) {
    const titles = sections.map((section) => find("h2", section)?.textContent).filter(Boolean);
    if (!titles.length || Date.now() - told < PATIENCE.saying) return;
    told = Date.now();
    find("#news").textContent = `Changed: ${titles.join(", ")}`;
}

// Forms: sent without leaving the page, and what came of it shown in one place.

function notice({ ok, message, lines = [], problems = [] }) {
    const close = make("button", { type: "button", class: "close", "aria-label": "Close" }, "×");
    const box = make("div", { class: "notice", "data-ok": String(ok) }, make("p", {}, message));
    for (const line of lines) box.append(make("p", { class: "soft small" }, line));
    for (const { text, hint } of problems) {
        box.append(make("p", {}, text));
        if (hint) box.append(make("p", { class: "soft small" }, hint));
    }
    box.append(close);
    find("#notices").setAttribute("aria-live", ok ? "polite" : "assertive");
    find("#notices").replaceChildren(box);
}

async function send(form, action = form.action) {
    const body = new URLSearchParams(new FormData(form));
    const headers = { Accept: "application/json" };
    const answer = await fetch(action, { method: "POST", body, headers });
    const kind = answer.headers.get("content-type") ?? "";
    if (kind.startsWith("application/json")) return answer.json();
    throw new Error((await answer.text()) || answer.statusText);
}

async function submit(form, button) {
    if (form.getAttribute("aria-busy") === "true") return;
    const section = form.closest(SECTIONS).id; // the form itself may be gone before the answer is there
    clearTimeout(typing);
    form.setAttribute("aria-busy", "true");
    button?.setAttribute("aria-disabled", "true");
    try {
        const outcome = await send(form);
        if (form.matches("[data-discipline-form]")) settle(form, outcome);
        if (outcome.stale) await meld(form);
        notice(outcome);
        if (outcome.ok) await redraw(section);
    } catch (error) {
        notice({ ok: false, message: `It did not work: ${error.message}` });
    } finally {
        form.removeAttribute("aria-busy");
        button?.removeAttribute("aria-disabled");
    }
}

document.addEventListener("submit", (event) => {
    const form = event.target;
    if (form.dataset.direct !== undefined) return delete form.dataset.edited;
    event.preventDefault();
    if (form.method === "post") submit(form, event.submitter);
    else if (find("select", form)) choose(find("select", form));
    else turn(form.closest(SECTIONS), new URLSearchParams(new FormData(form)));
});

// The discipline: one choice for all sections that heed it.

function choose(select) {
    if (find("form[data-edited]", select.closest(SECTIONS))) {
        select.value = select.dataset.shown;
        return notice({ ok: false, message: "Save or discard your changes first" });
    }
    for (const shown of all("[data-shown]")) {
        const section = shown.closest(SECTIONS);
        if (find("form[data-edited]", section)) continue;
        shown.dataset.shown = shown.value = select.value;
        redraw(section.id);
    }
    const url = new URL(location.href);
    if (select.value) url.searchParams.set("discipline", select.value);
    else url.searchParams.delete("discipline");
    history.replaceState(null, "", url);
}

// Another page of a section, or another task in it.
function turn(section, asked) {
    const url = new URL(location.href);
    for (const [name, value] of asked) url.searchParams.set(name, value);
    url.searchParams.delete("notice");
    history.replaceState(null, "", url);
    redraw(section.id);
}

document.addEventListener("change", (event) => {
    if (event.target.matches("form[method=get] select[name=discipline]")) choose(event.target);
});

// The matrix: one cell can be reached by tab, arrows lead to the others, one place explains.

const STEPS = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };

const rowsOf = (grid) => all("tbody tr", grid).filter((row) => find("td[data-state]", row));
const cellsOf = (row) => all("td[data-state]", row);

function reach(cell) {
    for (const other of all("td[tabindex='0']", cell.closest("table"))) other.tabIndex = -1;
    cell.tabIndex = 0;
    return cell;
}

function explain(cell) {
    const box = find("#explain");
    if (!box || !cell) return;
    const [sentence, ...details] = (cell.dataset.words ?? cell.title).split("\n");
    if (cell.title) {
        cell.dataset.words = cell.title;
        cell.setAttribute("aria-description", cell.title);
        cell.removeAttribute("title");
    }
    for (const other of all("#matrix td[aria-current]")) other.removeAttribute("aria-current");
    cell.setAttribute("aria-current", "true");
    const state = make("span", { class: "state", "data-state": cell.dataset.state });
    state.textContent = cell.textContent.trim();
    const tool = find("th", cell.parentElement).textContent.trim();
    const list = make("ul", {}, ...details.map((detail) => make("li", {}, detail)));
    box.replaceChildren(make("h3", {}, tool, state), make("p", {}, sentence), list);
}

function step(event) {
    const cell = cellAt(event);
    if (!cell || event.altKey || event.metaKey) return;
    const rows = rowsOf(cell.closest("table"));
    const row = rows.indexOf(cell.parentElement);
    const column = cellsOf(cell.parentElement).indexOf(cell);
    const last = cellsOf(rows[0]).length - 1;
    const clamp = (value, most) => Math.max(0, Math.min(most, value));
    let to = STEPS[event.key] && [row + STEPS[event.key][0], column + STEPS[event.key][1]];
    if (event.key === "Home") to = [event.ctrlKey ? 0 : row, 0];
    if (event.key === "End") to = [event.ctrlKey ? rows.length - 1 : row, last];
    if (!to) return;
    event.preventDefault();
    reach(cellsOf(rows[clamp(to[0], rows.length - 1)])[clamp(to[1], last)]).focus();
}

const cellAt = (event) => event.target.closest?.("td[data-state]");
document.addEventListener("pointerover", (event) => explain(cellAt(event)));
document.addEventListener("focusin", (event) => explain(cellAt(event)));
document.addEventListener("keydown", step);

// Disciplines: rows come and go, and every field is checked while it is typed.

let typing = 0;
const blank = new Map(); // by template, the number of the last row that was made from it

function addRow(button) {
    const { innerHTML: html, dataset, id } = document.getElementById(button.dataset.add);
    const number = (blank.get(id) ?? 1000) + 1;
    blank.set(id, number);
    const text = html.replaceAll(dataset.slot, String(number));
    const row = new DOMParser().parseFromString(text, "text/html").body.firstElementChild;
    button.before(document.importNode(row, true));
    dress(button.previousElementSibling);
    find("input", button.previousElementSibling).focus();
    edited(button.form);
}

function dropRow(button) {
    const { form } = button;
    const row = button.closest("[data-row]");
    const near = row.nextElementSibling ?? row.parentElement;
    row.remove();
    (near.matches("button") ? near : find("input, button", near))?.focus();
    edited(form);
}

function edited(form) {
    form.dataset.edited ??= "";
    find("[data-discard]", form).hidden = false;
    clearTimeout(typing);
    typing = setTimeout(check, PATIENCE.typing, form);
}

function forget(form) {
    clearTimeout(typing);
    delete form.dataset.edited;
    showProblems(form, []);
}

function settle(form, { ok, problems }) {
    if (!ok) return showProblems(form, problems);
    forget(form);
    find("button.main", form).focus(); // until it is drawn anew, what is typed would be out of date
    for (const part of form.children) part.inert = !part.matches(".actions");
}

async function check(form) {
    const { ok, problems } = await send(form, "/disciplines/check").catch(() => ({ ok: true }));
    if (form.dataset.edited !== undefined) showProblems(form, ok ? [] : problems);
}

// What others have written since stands beside what was typed; the rest becomes as it is now.
async function meld(form) {
    const named = encodeURIComponent(find("[name=discipline]", form).value);
    const html = await (await fetch(`/sections/disciplines?discipline=${named}`)).text();
    const whole = new DOMParser().parseFromString(html, "text/html");
    const fresh = find("form[data-discipline-form]", whole);
    if (!fresh) return;
    for (const was of all("[name^='was.']", form)) {
        const column = was.name.slice("was.".length);
        const now = fresh.elements.namedItem(was.name)?.value;
        const area = form.elements.namedItem(column);
        if (now === undefined || now === was.value) continue;
        const place = find(`[data-now="${column}"]`, form);
        place.hidden = area.value === was.value || area.value === now;
        find("pre", place).textContent = now || "empty";
        if (area.value === was.value) area.value = now;
        was.value = now;
    }
    const [before, after] = [form, fresh].map((one) => find("[name=fingerprint]", one));
    const [lists, others] = [before, after].map((one) => one.value.split(".")[0]);
    if (lists === others) before.value = after.value;
}

function showProblems(form, problems) {
    const words = new Map(all(".wrong", form).map((place) => [place, []]));
    for (const field of form.elements) field.removeAttribute("aria-invalid");
    for (const { field, text, hint } of problems) {
        const input = fieldOf(form, field);
        input?.setAttribute("aria-invalid", "true");
        const place = document.getElementById(input?.getAttribute("aria-describedby"));
        words.get(place ?? find("[data-whole]", form)).push(hint ? `${text}: ${hint}` : text);
    }
    for (const [place, sentences] of words) {
        const text = sentences.join("; ");
        if (place.textContent !== text) place.textContent = text;
    }
}

function fieldOf(form, name) {
    for (let rest = name; rest; rest = rest.slice(0, Math.max(0, rest.lastIndexOf(".")))) {
        const input = form.elements.namedItem(rest);
        if (input instanceof HTMLElement) return input;
    }
    return null;
}

function tellElsewhere(form, fresh) {
    const [before, after] = [form, fresh].map((one) => find("[name=fingerprint]", one)?.value);
    if (before !== after) find("[data-elsewhere]", form).hidden = false;
}

document.addEventListener("input", (event) => {
    const form = event.target.closest("form[data-discipline-form], form[data-draft]");
    if (form?.matches("[data-draft]")) form.dataset.edited ??= "";
    else if (form) edited(form);
});

window.addEventListener("beforeunload", (event) => {
    if (find("form[data-edited]")) event.preventDefault();
});

// Buttons that need no form.
async function copy(button) {
    const source = document.getElementById(button.dataset.copy);
    try {
        await navigator.clipboard.writeText(source.textContent);
        button.textContent = "Copied";
    } catch {
        getSelection().selectAllChildren(source);
        button.textContent = "Press Ctrl+C";
    }
    setTimeout(() => (button.textContent = "Copy"), PATIENCE.copied);
}

document.addEventListener("click", (event) => {
    const cell = cellAt(event);
    if (cell) reach(cell).focus();
    const link = event.target.closest("a[data-page]");
    if (link && !event.ctrlKey && !event.metaKey && !event.shiftKey) {
        event.preventDefault();
        turn(link.closest(SECTIONS), new URL(link.href).searchParams);
    }
    const button = event.target.closest("button[type=button]");
    if (!button) return;
    if (button.dataset.copy) copy(button);
    if (button.dataset.add) addRow(button);
    if (button.dataset.drop !== undefined) dropRow(button);
    if (button.matches(".close")) button.closest(".notice").remove();
    if (button.dataset.discard === undefined) return;
    forget(button.form);
    find("button.main", button.form).focus();
    redraw(button.closest(SECTIONS).id);
});

function dress(within) {
    const lines = all("section[data-line]").map((section) => section.dataset.line);
    if (lines.length) find("#state").textContent = lines.join(" · ");
    for (const button of all("[data-script]", within)) button.hidden = false;
    for (const row of all("[data-plain]", within)) row.hidden = true;
    const grid = find("table.grid", within);
    grid?.setAttribute("role", "grid"); // without arrow keys it is a table
    const first = grid && find("td[data-state]", grid);
    if (first && !find("td[tabindex='0']", grid)) reach(first);
    const current = grid && find("td[aria-current]", grid);
    if (current?.title) explain(current);
}

dress(document);
for (const section of all("section[data-late]")) redraw(section.id);
listen();
