// The grid of access goes by arrow keys, and the form of a discipline is checked while you type.
"use strict";

const STEPS = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
const CHECKED = "form[data-checked]";
const PAUSE = 300; // milliseconds without a key before a check

const cellsOf = (row) => all("td[data-state]", row);
const cellAt = (event) => event.target.closest?.("td[data-state]");

// One cell is reached by Tab.
function reach(cell) {
    for (const other of all("td[tabindex='0']", cell.closest("table"))) other.tabIndex = -1;
    cell.tabIndex = 0;
    return cell;
}

function explain(cell) {
    const box = one("#explain");
    if (!box || !cell) return;
    if (cell.title) {
        cell.dataset.words = cell.title;
        cell.setAttribute("aria-description", cell.title);
        cell.removeAttribute("title");
    }
    for (const other of all("td[aria-current]")) other.removeAttribute("aria-current");
    cell.setAttribute("aria-current", "true");
    const [sentence, ...details] = cell.dataset.words.split("\n");
    const title = make("h2", {}, one("th", cell.parentElement).textContent.trim());
    title.append(" ", make("span", { class: "soft" }, cell.textContent.trim()));
    const list = make("ul", {}, ...details.map((detail) => make("li", {}, detail)));
    box.replaceChildren(title, make("p", {}, sentence), list);
}

document.addEventListener("keydown", (event) => {
    const cell = cellAt(event);
    if (!cell || event.altKey || event.metaKey) return;
    const rows = all("tbody tr", cell.closest("table")).filter((row) => cellsOf(row).length);
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
});

document.addEventListener("pointerover", (event) => explain(cellAt(event)));
document.addEventListener("focusin", (event) => explain(cellAt(event)));
document.addEventListener("click", (event) => {
    const cell = cellAt(event);
    if (cell) reach(cell).focus();
    const button = event.target.closest("button[type=button]");
    if (button?.dataset.add) addRow(button);
    if (button?.dataset.drop !== undefined) dropRow(button);
});

// Rows of servers and of their variables come and go.

let [typing, latest] = [0, 1000]; // the number of the last added row

function addRow(button) {
    const { add, server } = button.dataset;
    const number = String((latest += 1));
    const html = one(`#new-${add}`).innerHTML;
    const text = html.replaceAll(add.toUpperCase(), number).replaceAll("SERVER", server ?? number);
    const row = document.importNode(one("[data-row-of]", parsed(text)), true);
    button.parentElement.before(row);
    dress(row);
    one("input", row).focus();
    edited(button.form);
}

function dropRow(button) {
    const { form } = button;
    const row = button.closest("[data-row-of]");
    const near = row.nextElementSibling;
    row.remove();
    all("input, button", near ?? form).find(visible)?.focus();
    edited(form);
}

function edited(form) {
    form.dataset.typed = "";
    clearTimeout(typing);
    typing = setTimeout(() => check(form).catch(() => {}), PAUSE);
}

document.addEventListener("input", (event) => {
    const form = event.target.closest(CHECKED);
    if (form) edited(form);
});

// The check writes nothing; only a form without a problem is sent, and the answer is a page.

async function check(form) {
    const body = new URLSearchParams(new FormData(form));
    const answer = await fetch("/project/check", { method: "POST", body, headers: { Accept: "application/json" } });
    const { problems } = await answer.json();
    showProblems(form, problems);
    return problems.length;
}

document.addEventListener("submit", async (event) => {
    const form = event.target;
    if (!form.matches(CHECKED)) return;
    event.preventDefault();
    clearTimeout(typing);
    form.dataset.typed = "";
    if (await check(form).catch(() => 0)) return one("[aria-invalid]", form)?.focus();
    delete form.dataset.typed;
    form.submit();
});

function showProblems(form, problems) {
    const words = new Map(all(".wrong", form).map((place) => [place, []]));
    for (const field of form.elements) field.removeAttribute("aria-invalid");
    for (const { field, text, hint } of problems) {
        const input = fieldOf(form, field);
        input?.setAttribute("aria-invalid", "true");
        const place = document.getElementById(input?.getAttribute("aria-describedby"));
        words.get(place ?? one("[data-whole]", form)).push(hint ? `${text}: ${hint}` : text);
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

{
    const grid = one("table.grid");
    grid?.setAttribute("role", "grid"); // without arrow keys it is a table
    const first = grid && one("td[data-state]", grid);
    if (first) reach(first);
}
