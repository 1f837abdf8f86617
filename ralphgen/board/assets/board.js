// The board works without this: here keys, dialogs, decisions and live updates are added.
"use strict";

const all = (selector, within = document) => [...within.querySelectorAll(selector)];
const one = (selector, within = document) => within.querySelector(selector);
const PATIENCE = { waiting: 3000, message: 8000, retry: 2000 }; // milliseconds
const TYPED = "input:not([type=checkbox]):not([type=radio]):not([type=hidden]), textarea, select";
const visible = (element) => element.offsetParent !== null;
const parsed = (html) => new DOMParser().parseFromString(html, "text/html");

function make(tag, facts = {}, ...inside) {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(facts)) element.setAttribute(name, value);
    element.append(...inside);
    return element;
}

// Fetching and sending. The server answers each request to its end, or the message says so.

async function part(address, name) {
    const url = new URL(address, location.href);
    url.searchParams.delete("notice");
    url.searchParams.set("part", name);
    const answer = await fetch(url);
    if (!answer.ok) throw new Error((await answer.text()).slice(0, 200) || answer.statusText);
    return answer.text();
}

// A part takes the place of what an element contains.
async function fill(element, address, name = element.id) {
    element.innerHTML = await part(address, name);
    dress(element);
}

// The pane is read again after an action on its task that leaves the row, or if you ask for it.
async function again(wanted = false) {
    const task = one("#pane [data-task]");
    if (task && (wanted || !one("#pane [data-typed]"))) await fill(one("#pane"), task.dataset.task, "pane");
}

async function post(action, body) {
    const answer = await fetch(action, { method: "POST", body, headers: { Accept: "application/json" } });
    const kind = answer.headers.get("content-type") ?? "";
    if (kind.startsWith("application/json")) return answer.json();
    throw new Error((await answer.text()).slice(0, 200) || answer.statusText);
}

function send(form, button) {
    const action = button?.formAction && button.hasAttribute("formaction") ? button.formAction : form.action;
    return post(action, new URLSearchParams(new FormData(form, button)));
}

// The result of an action: success in the corner, a refusal where the form is.

function say({ ok, message, lines = [], problems = [], undo = "" }) {
    const words = make("div", {}, make("p", {}, message));
    for (const text of lines) words.append(make("p", { class: "small" }, text));
    for (const { text, hint } of problems)
        words.append(make("p", { class: "small" }, hint ? `${text}: ${hint}` : text));
    const box = make("div", { class: "toast", role: ok ? "status" : "alert", "data-ok": ok }, words);
    if (undo) {
        const form = make("form", { method: "post", action: `/decisions/${encodeURIComponent(undo)}/undo` });
        form.append(make("button", { class: "btn", "data-key": "z" }, "Undo ", make("kbd", {}, "Z")));
        box.append(form);
    }
    box.append(make("button", { class: "btn", type: "button", "data-shut": "", "aria-label": "Close" }, "×"));
    one("#said").replaceChildren(box);
    clearTimeout(say.timer);
    if (ok) say.timer = setTimeout(() => box.remove(), PATIENCE.message);
}

const failed = (error) =>
    say({ ok: false, message: navigator.onLine ? `It did not work: ${error.message}` : "Reconnecting…" });

async function submit(form, button) {
    if (form.getAttribute("aria-busy") === "true") return;
    form.setAttribute("aria-busy", "true");
    button?.setAttribute("aria-disabled", "true");
    const decided = form.dataset.decides === undefined ? [] : targets(form);
    try {
        const outcome = await send(form, button);
        all("[role=alert]", form).forEach((box) => box.remove());
        if (outcome.dialog) return openDialog(outcome.dialog);
        if (!outcome.ok) return refuse(form, outcome);
        one("#dialog").close();
        delete form.dataset.typed;
        if (outcome.then) return location.assign(outcome.then);
        leave(decided);
        say(outcome);
        if (!decided.length) await again();
        if (!form.isConnected || form.closest("dialog, .toast") || decided.length) return;
        if (form.dataset.keep === undefined) form.reset();
    } catch (error) {
        failed(error);
    } finally {
        form.removeAttribute("aria-busy");
        button?.removeAttribute("aria-disabled");
    }
}

// A refusal keeps the form as typed; a conflict shows both values beside it.
function refuse(form, { message, problems = [], lines = [] }) {
    if (!form.closest("dialog, [data-alerts]")) return say({ ok: false, message, problems, lines });
    const box = make("div", { class: "note stop", role: "alert" }, make("b", {}, message));
    for (const { text, hint } of problems)
        box.append(make("span", {}, hint ? `${text}: ${hint}` : text));
    for (const text of lines) box.append(make("span", {}, text));
    form.prepend(box);
    for (const { field } of problems) form.elements.namedItem(field)?.setAttribute?.("aria-invalid", "true");
}

// Rows: one is selected, its pane is shown, and decisions are on it or on the checked ones.

const list = () => one("[data-list]");
const rows = () => (list() ? all("[data-row]", list()).filter(visible) : []);
let at = null; // the id of the selected row

const selected = () => (at ? document.getElementById(at) : null);
const checked = () => rows().filter((row) => one("input[type=checkbox]", row)?.checked);

let showing = Promise.resolve(); // ends when the pane shows the selected row: keys wait for it

async function pick(row, { open = false, focus = true } = {}) {
    if (!row) return shut();
    for (const other of all("[data-row].on")) {
        other.classList.remove("on");
        one("a", other)?.removeAttribute("aria-current");
    }
    at = row.id;
    row.classList.add("on");
    const link = one("a", row);
    link?.setAttribute("aria-current", "true");
    if (focus) link?.focus({ preventScroll: true });
    row.scrollIntoView({ block: "nearest" });
    if (open) one(".inbox")?.classList.add("open");
    if (one("#pane") && row.dataset.pane) await (showing = show(row).catch(failed));
}

async function show(row) {
    const pane = one("#pane");
    const html = await part(row.dataset.pane, "pane");
    if (row.id !== at) return;
    pane.innerHTML = html;
    pane.dataset.shown = row.id;
    pane.scrollTop = 0;
    dress(pane);
    const found = rows();
    for (const place of all("[data-place]", pane))
        place.textContent = `${found.indexOf(selected()) + 1} of ${found.length}`;
}

function step(by) {
    const found = rows();
    if (!found.length) return press(by > 0 ? "next" : "previous");
    const now = found.indexOf(selected());
    pick(found[Math.max(0, Math.min(found.length - 1, now + by))]);
}

function shut() {
    one(".inbox")?.classList.remove("open");
}

function some() {
    list()?.classList.toggle("some", checked().length > 0);
}

// The rows that a form decides: those that it names, or the one whose pane it is in.
function targets(form) {
    const ids = new FormData(form).getAll("id");
    if (ids.length) return ids.map((id) => document.getElementById(`task-${id}`)).filter(Boolean);
    const task = form.closest("[data-task]")?.dataset.task;
    const near = form.closest("[data-row]") ?? rows().find(({ dataset }) => task && dataset.pane === task) ?? selected();
    return near ? [near] : [];
}

// Decided rows go at once, and the next one is selected; the server's lists follow.
function leave(decided) {
    if (!decided.length) return;
    const found = rows();
    const last = found.indexOf(decided.at(-1));
    const next = found.slice(last + 1).find((row) => !decided.includes(row));
    const before = found.slice(0, last).findLast((row) => !decided.includes(row));
    const gone = decided.includes(selected());
    for (const row of decided) if (row.closest(".inbox")) row.remove();
    for (const group of all(".group")) if (group.dataset.keep === undefined && !one("[data-row]", group)) group.remove();
    some();
    if (gone && one("#pane")) next || before ? pick(next ?? before) : emptied();
}

function emptied() {
    at = null;
    one("#pane").replaceChildren();
    shut();
    refresh("list").catch(failed);
}

// Several: the group's own action on the checked rows.
async function several(key) {
    const chosen = checked();
    const group = chosen[0].closest(".group");
    const form = one(`form[data-several=${key}]`, group);
    if (!form) return;
    const named = form.cloneNode(true);
    all("[name=id]", named).forEach((field) => field.remove());
    for (const row of chosen) named.append(make("input", { type: "hidden", name: "id", value: row.dataset.id }));
    group.append(named);
    named.hidden = true;
    await submit(named);
    named.remove();
}

// Dialogs: a form that has an address of its own is shown here.
async function openDialog(address) {
    const dialog = one("#dialog");
    try {
        dialog.innerHTML = await part(address, "dialog");
        dress(dialog);
        dialog.showModal();
        one("[autofocus]", dialog)?.focus();
    } catch (error) {
        failed(error);
    }
}

// The sentence on the values of a form is the server's.
async function summarize(form) {
    const html = await part(`${form.action}?${new URLSearchParams(new FormData(form))}`, "summary");
    one("#summary").outerHTML = html;
}

// Keys.

// The button of a key; those in rows are pressed in the selected one alone.
const within = (key, where) =>
    where &&
    all(`[data-key="${key}"]`, where).find(
        (found) => visible(found) && !found.disabled && (!found.closest("[data-row]") || where.matches?.("[data-row]")),
    );

// On a list without a pane, these open a form of the selected task.
const FORMS = { d: "status", e: "edit", m: "comments" };

async function press(key) {
    await showing;
    if (checked().length && "ax".includes(key)) return several(key);
    const row = selected();
    const places = [one("#said"), one("#pane") ?? one("#content"), row, document];
    const button = places.map((where) => within(key, where)).find(Boolean);
    if (button) button.click();
    else if (FORMS[key] && row && !one("#pane")) openDialog(`${one("a", row).href}/${FORMS[key]}`);
    return Boolean(button);
}

const KEYS = {
    j: () => step(1),
    ArrowDown: () => step(1),
    k: () => step(-1),
    ArrowUp: () => step(-1),
    Enter: () => (one("#pane") ? pick(selected(), { open: true }) : one("a", selected())?.click()),
    Escape: shut,
    "/": () => {
        const field = one("input[type=search]");
        return field ? field.focus() : location.assign("/tasks?focus=search");
    },
    "?": () => one("#keys").showModal(),
    " ": () => {
        const box = selected() && one("input[type=checkbox]", selected());
        if (!box) return;
        box.checked = !box.checked;
        some();
        step(1);
    },
    A: () => selected()?.closest(".group")?.querySelector("[data-all]")?.click(),
    c: () => {
        const field = one("[data-quick]");
        return field ? field.focus() : location.assign("/tasks?focus=new");
    },
};

document.addEventListener("keydown", (event) => {
    const { key, ctrlKey, metaKey, altKey, target } = event;
    const open = one("dialog[open]");
    if (target.matches(TYPED) || open) {
        const form = target.closest("form");
        if (key === "Enter" && (ctrlKey || metaKey) && form) {
            event.preventDefault();
            form.requestSubmit(one("button.main, button:not([type=button])", form));
        }
        if (key === "Escape" && !open) target.blur();
        return;
    }
    if (ctrlKey || metaKey || event.defaultPrevented || target.closest("[role=grid]")) return;
    if (target.matches("button, a, summary, [role=region]") && key === "Enter" && !target.closest("[data-row]")) return;
    if (target.matches("button, summary") && key === " ") return;
    if (key.startsWith("Arrow") && !rows().length) return; // it scrolls
    if (altKey) {
        const button = { ArrowUp: "up", ArrowDown: "down" }[key];
        if (!button || !selected()) return;
        event.preventDefault();
        return within(button, selected())?.click();
    }
    if (!at && rows().length && "jkArrowDownArrowUpEnter ".includes(key)) {
        event.preventDefault();
        return pick(rows()[0]);
    }
    if (!Object.hasOwn(KEYS, key) && !/^[a-z]$/.test(key)) return;
    event.preventDefault();
    if (Object.hasOwn(KEYS, key)) KEYS[key]();
    else press(key);
});

// Clicks and forms.

document.addEventListener("click", (event) => {
    const link = event.target.closest("a");
    const plain = !event.ctrlKey && !event.metaKey && !event.shiftKey && event.button === 0;
    if (link && plain && link.dataset.dialog !== undefined) {
        event.preventDefault();
        return openDialog(link.href);
    }
    if (link && plain && ["into", "again"].some((name) => name in link.dataset)) {
        event.preventDefault();
        return ("again" in link.dataset ? again(true) : fill(one(`#${link.dataset.into}`), link.href)).catch(failed);
    }
    const field = link?.matches("[href^='#']") ? one(link.getAttribute("href")) : null;
    if (field?.matches(TYPED)) {
        event.preventDefault();
        return field.focus();
    }
    const stepping = event.target.closest("[data-step]");
    if (stepping && list()) {
        event.preventDefault();
        return step(Number(stepping.dataset.step));
    }
    const closing = event.target.closest("[data-shut]");
    if (closing) {
        const box = closing.closest("dialog, .toast, .inbox");
        if (!box) return;
        event.preventDefault();
        if (box.matches("dialog")) return box.close();
        return box.matches(".toast") ? box.remove() : shut();
    }
    const button = event.target.closest("button[type=button]");
    if (button?.dataset.open) return one(`#${button.dataset.open}`).showModal();
    const row = event.target.closest("[data-row]");
    if (row && event.target.matches("input[type=checkbox]")) return some();
    if (row && one("#pane") && plain && (link || !event.target.closest("form, button"))) {
        event.preventDefault();
        pick(row, { open: true });
    }
});

document.addEventListener("focusin", (event) => {
    const row = event.target.closest?.("[data-row]");
    if (row && !one("#pane") && row.id !== at) pick(row, { focus: false });
});

document.addEventListener("submit", (event) => {
    const { target: form, submitter } = event;
    if (event.defaultPrevented) return;
    if (form.dataset.direct !== undefined) delete form.dataset.typed; // nothing is left behind
    if (form.method !== "post" || form.dataset.direct !== undefined) return;
    event.preventDefault();
    submit(form, submitter);
});

document.addEventListener("input", (event) => {
    const form = event.target.closest("form[method=post]");
    if (form && event.target.matches(`${TYPED}, [type=checkbox], [type=radio]`)) form.dataset.typed = "";
});

document.addEventListener("change", (event) => {
    const form = event.target.closest("form[data-auto]");
    if (form) form.requestSubmit();
    const says = event.target.closest("form[data-says]");
    if (says) summarize(says).catch(() => {});
});

addEventListener("beforeunload", (event) => {
    if (all("form[data-typed]").some(visible)) event.preventDefault();
});

// Live: a changed part is fetched; its elements are matched by id, and what is typed stays.

const KEPT = new Set(["open", "tabindex", "aria-current", "aria-invalid", "aria-busy"]);

function busy(element) {
    return element.dataset.typed !== undefined || element.matches("dialog[open], [data-kept]");
}

function morph(old, fresh) {
    if (old.nodeType !== 1) {
        if (old.data !== fresh.data) old.data = fresh.data;
        return;
    }
    if (busy(old)) return;
    const mine = old.matches("[data-row]") ? ["on"].filter((name) => old.classList.contains(name)) : [];
    for (const { name } of [...old.attributes])
        if (!fresh.hasAttribute(name) && !KEPT.has(name)) old.removeAttribute(name);
    for (const { name, value } of fresh.attributes)
        if (old.getAttribute(name) !== value && !KEPT.has(name)) old.setAttribute(name, value);
    old.classList.add(...mine);
    children(old, fresh);
}

function children(old, fresh) {
    const known = new Map([...old.children].filter(({ id }) => id).map((child) => [child.id, child]));
    const wanted = new Set([...fresh.children].map(({ id }) => id));
    let next = old.firstChild;
    for (const child of [...fresh.childNodes]) {
        while (next?.id && !wanted.has(next.id)) next = removed(next);
        const match = child.id ? known.get(child.id) : next && !next.id ? next : null;
        if (!match || match.nodeName !== child.nodeName) {
            const added = document.importNode(child, true);
            if (added.id) added.classList.add("new");
            old.insertBefore(added, next);
        } else {
            if (match === next) next = next.nextSibling;
            else old.insertBefore(match, next);
            morph(match, child);
        }
    }
    while (next) next = removed(next);
}

function removed(node) {
    const next = node.nextSibling;
    if (!(node.nodeType === 1 && (busy(node) || one("[data-typed]", node)))) node.remove();
    return next;
}

// The number of what stops agents, in the title and the icon of the tab.
function count(number) {
    document.title = (number ? `(${number}) ` : "") + document.title.replace(/^\(\d+\) /, "");
    one("[rel=icon]").href = `/assets/${number ? "waits" : "icon"}.svg`;
}

const refreshing = new Map();

// One fetch of a part at a time, and one more after it if it changed meanwhile.
function refresh(name) {
    const before = refreshing.get(name);
    if (before) return (before.again = true), before.work;
    const entry = { again: false };
    entry.work = (async () => {
        do {
            entry.again = false;
            const old = document.getElementById(name);
            if (!old) break;
            const fresh = parsed(await part(old.dataset.from ?? location.href, name)).getElementById(name);
            if (fresh) dress(fresh), morph(old, fresh); // in this order: what is hidden loses the focus
            if (name === "badge") count(Number(old.dataset.count));
        } while (entry.again);
    })().finally(() => refreshing.delete(name));
    refreshing.set(name, entry);
    return entry.work;
}

let [events, trouble] = [null, 0];

function listen() {
    if (document.hidden || events) return;
    events = new EventSource(`/events?since=${document.body.dataset.change}`);
    events.addEventListener("open", () => {
        clearTimeout(trouble);
        trouble = 0;
        one("#pulse").textContent = "";
    });
    events.addEventListener("changed", (event) => {
        document.body.dataset.change = event.lastEventId;
        const { sections } = JSON.parse(event.data);
        for (const live of all("[data-live]"))
            if (live.dataset.live.split(" ").some((name) => sections.includes(name)))
                refresh(live.id).catch(() => {});
    });
    events.addEventListener("error", () => {
        trouble ||= setTimeout(() => (one("#pulse").textContent = "Reconnecting…"), PATIENCE.waiting);
        if (events.readyState !== EventSource.CLOSED) return;
        events = null;
        setTimeout(listen, PATIENCE.retry);
    });
}

// A tab that nobody looks at gives its connection back: browsers have few of them.
document.addEventListener("visibilitychange", () => {
    if (!document.hidden) return listen();
    events?.close();
    events = null;
});

// Clocks: "2 h ago" and "12 min" go on between two updates.
function tick() {
    for (const clock of all("time[data-clock]")) {
        const minutes = (Date.now() - Date.parse(clock.dateTime)) / 60_000;
        const [size, unit] = [[1440, "d"], [60, "h"], [1, "min"]].find(([size]) => minutes >= size) ?? [];
        if (unit) clock.textContent = `${Math.floor(minutes / size)} ${unit}${clock.dataset.clock}`;
    }
}

// What only works with JavaScript is shown by it.
function dress(where) {
    for (const found of all("[data-script]", where)) found.hidden = false;
    for (const found of all("[data-plain]", where)) found.hidden = true;
    for (const late of all("[data-load]", where)) fill(late, late.dataset.load).catch(failed);
}

dress(document);
{
    const wanted = location.hash ? document.getElementById(location.hash.slice(1)) : null;
    const first = wanted?.matches("[data-row]") ? wanted : rows()[0];
    if (first && (wanted || innerWidth > 720)) pick(first, { focus: false, open: Boolean(wanted) });
    const focus = new URLSearchParams(location.search).get("focus");
    if (focus) one(focus === "new" ? "[data-quick]" : "input[type=search]")?.focus();
}
listen();
setInterval(tick, 20_000);
