// The same tools on the TypeScript SDK: with better-sqlite3 on node, with bun:sqlite on bun.
// node typescript_server.mjs DATABASE TOOLS; TOOLS is the file of our own `tools/list`.

import { readFileSync } from "node:fs";
import { Server } from "@modelcontextprotocol/sdk/server/index.js";
import { StdioServerTransport } from "@modelcontextprotocol/sdk/server/stdio.js";
import { CallToolRequestSchema, ListToolsRequestSchema } from "@modelcontextprotocol/sdk/types.js";

const Database = globalThis.Bun
  ? (await import("bun:sqlite")).Database
  : (await import("better-sqlite3")).default;

const [database, list] = process.argv.slice(2);
const db = new Database(database);
db.exec("PRAGMA busy_timeout = 30000");
db.exec("PRAGMA foreign_keys = ON");
db.exec("PRAGMA synchronous = NORMAL");
const LISTED = "id, title, status, priority, feature, discipline, depends_on";
const statements = new Map();

function prepared(sql) {
  if (!statements.has(sql)) statements.set(sql, db.prepare(sql));
  return statements.get(sql);
}

function writing(sql, values) {
  db.exec("BEGIN IMMEDIATE");
  const done = prepared(sql).run(...values);
  db.exec("COMMIT");
  return done;
}

const real = {
  list_tasks(given) {
    const filters = ["status", "feature", "discipline"].filter((name) => `filter_${name}` in given);
    const where = filters.map((name) => `${name} = ?`).join(" AND ") || "1";
    const values = filters.map((name) => given[`filter_${name}`]);
    const sql = `SELECT ${LISTED} FROM tasks WHERE ${where} AND id > ? ORDER BY id LIMIT ?`;
    const tasks = prepared(sql).all(...values, Number(given.cursor ?? 0), given.limit ?? 50);
    const { total } = prepared(`SELECT COUNT(*) AS total FROM tasks WHERE ${where}`).get(...values);
    return { tasks, total };
  },
  get_task({ id }) {
    const task = prepared("SELECT * FROM tasks WHERE id = ?").get(id);
    const sql = "SELECT * FROM task_comments WHERE task_id = ? ORDER BY id DESC LIMIT 20";
    return { ...task, comments: prepared(sql).all(id) };
  },
  create_task(given) {
    const names = Object.keys(given);
    const marks = names.map(() => "?").join(", ");
    const sql = `INSERT INTO tasks (${names.join(", ")}) VALUES (${marks})`;
    return { id: Number(writing(sql, Object.values(given)).lastInsertRowid) };
  },
  update_task({ id, ...changed }) {
    const names = Object.keys(changed);
    const sql = `UPDATE tasks SET ${names.map((name) => `${name} = ?`).join(", ")} WHERE id = ?`;
    writing(sql, [...Object.values(changed), id]);
    return { id, changed: names };
  },
};

const tools = JSON.parse(readFileSync(list, "utf-8"));
const server = new Server({ name: "peer", version: "1" }, { capabilities: { tools: {} } });
server.setRequestHandler(ListToolsRequestSchema, () => ({ tools }));
server.setRequestHandler(CallToolRequestSchema, ({ params }) => {
  const answer = (real[params.name] ?? ((given) => given))(params.arguments ?? {});
  return { content: [{ type: "text", text: JSON.stringify(answer) }] };
});
process.stdin.on("end", () => process.exit(0));
await server.connect(new StdioServerTransport());
