// Keys that lead to tasks and through their list; each has a link or a field that does the same.
"use strict";

{
    const KEYS = [
        ["/", "Search tasks"],
        ["j", "Next task of the list"],
        ["k", "The one before"],
        ["Enter", "Open the task that has the focus"],
        ["n", "New task"],
        ["e", "Edit the task"],
        ["?", "These keys"],
    ];

    const isTyping = (target) =>
        target.isContentEditable || target.matches?.("input, textarea, select, [role=grid] *");

    function step(by) {
        const items = [...document.querySelectorAll("a[data-item]")];
        const at = items.indexOf(document.activeElement);
        const to = at < 0 ? (by > 0 ? 0 : items.length - 1) : at + by;
        items[Math.max(0, Math.min(items.length - 1, to))]?.focus();
    }

    function search() {
        const field = document.getElementById("tasks-search");
        if (!field) return location.assign("/tasks?focus=search");
        field.focus();
        field.select();
    }

    function edit() {
        const form = document.getElementById("edit");
        const item = document.activeElement?.matches?.("a[data-item]") && document.activeElement;
        if (item) return location.assign(`${item.href}/edit`);
        if (!form) return;
        form.open = true;
        form.querySelector("input:not([type=hidden]), textarea, select")?.focus();
    }

    function help() {
        let box = document.getElementById("keys");
        if (!box) {
            box = document.createElement("dialog");
            box.id = "keys";
            box.setAttribute("aria-labelledby", "keys-title");
            const title = document.createElement("h2");
            title.id = "keys-title";
            title.textContent = "Keys";
            const list = document.createElement("dl");
            for (const [key, words] of KEYS) {
                const [row, term, text] = ["div", "dt", "dd"].map((tag) => document.createElement(tag));
                const cap = document.createElement("kbd");
                cap.textContent = key;
                term.append(cap);
                text.textContent = words;
                row.append(term, text);
                list.append(row);
            }
            const close = document.createElement("form");
            close.method = "dialog";
            close.dataset.direct = "";
            const button = document.createElement("button");
            button.textContent = "Close";
            close.append(button);
            box.append(title, list, close);
            document.body.append(box);
        }
        if (!box.open) box.showModal();
    }

    const ACTS = {
        "/": search,
        j: () => step(1),
        k: () => step(-1),
        n: () => location.assign("/tasks/new"),
        e: edit,
        "?": help,
    };

    document.addEventListener("keydown", (event) => {
        const { key, ctrlKey, metaKey, altKey, target } = event;
        if (ctrlKey || metaKey || altKey || event.defaultPrevented || isTyping(target)) return;
        if (document.querySelector("dialog[open]") || !Object.hasOwn(ACTS, key)) return;
        event.preventDefault();
        ACTS[key]();
    });

    if (new URLSearchParams(location.search).get("focus") === "search") search();
}
