// Drives one Chromium: a JSON command on each line of standard input, a JSON answer for each.
import { createRequire } from "node:module";
import { createInterface } from "node:readline";

const [modules, executablePath] = process.argv.slice(2);
const require = createRequire(`${modules}/`);
const { chromium } = require("playwright-core");
const axe = require("axe-core");
const PATIENCE = 60_000; // milliseconds
const QUIET = [
    ...["no-sandbox", "disable-gpu", "disable-quic", "no-first-run", "disable-sync"],
    ...["disable-background-networking", "disable-component-update", "disable-dev-shm-usage"],
].map((flag) => `--${flag}`);

const browser = await chromium.launch({ executablePath, args: QUIET });
const pages = [];

const commands = {
    async open({ options }) {
        const context = await browser.newContext(options);
        await context.grantPermissions(["clipboard-read", "clipboard-write"]);
        const page = await context.newPage();
        const said = [];
        page.setDefaultTimeout(PATIENCE);
        page.on("console", (message) => said.push(`${message.type()}: ${message.text()}`));
        page.on("pageerror", (error) => said.push(`thrown: ${error.message}`));
        page.on("dialog", (dialog) => {
            said.push(`dialog: ${dialog.type()}`);
            dialog.accept();
        });
        pages.push({ page, said });
        return pages.length - 1;
    },
    // Each step is a method of what the step before has given, with its arguments.
    async steps({ page, steps }) {
        let found = pages[page].page;
        for (const [method, ...given] of steps) {
            const member = found[method];
            found = typeof member === "function" ? await member.apply(found, given) : member;
        }
        return found === null || typeof found !== "object" || Array.isArray(found) ? found : null;
    },
    async said({ page }) {
        return pages[page].said.splice(0);
    },
    async axe({ page, rules }) {
        const { page: looked } = pages[page];
        if (await looked.evaluate(() => !globalThis.axe)) await looked.evaluate(axe.source);
        const run = async (values) => {
            const only = values ? { runOnly: { type: "rule", values } } : {};
            const { violations } = await globalThis.axe.run({ ...only, resultTypes: ["violations"] });
            return violations.map(({ id, nodes }) => [id, nodes.map(({ html }) => html)]);
        };
        return looked.evaluate(run, rules);
    },
    async close({ page }) {
        await pages[page].page.context().close();
    },
};

for await (const line of createInterface({ input: process.stdin })) {
    const command = JSON.parse(line);
    let answer;
    try {
        answer = { value: (await commands[command.do](command)) ?? null };
    } catch (error) {
        answer = { failure: String(error.message) };
    }
    process.stdout.write(`${JSON.stringify(answer)}\n`);
}
await browser.close();
