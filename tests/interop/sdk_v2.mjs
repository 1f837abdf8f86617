// The TypeScript SDK 2.x, which negotiates the revision of the protocol:
// node sdk_v2.mjs MODULES COMMAND [ARGUMENT ...]; prints one JSON object.
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [modules, command, ...args] = process.argv.slice(2);
const find = createRequire(`${modules}/interop.mjs`).resolve;
const load = (name) => import(pathToFileURL(find(name)));
const { Client } = await load("@modelcontextprotocol/client");
const { StdioClientTransport } = await load("@modelcontextprotocol/client/stdio");

const client = new Client(
  { name: "interop", version: "1" },
  { versionNegotiation: { mode: "auto" } },
);
await client.connect(new StdioClientTransport({ command, args }));
const { tools } = await client.listTools();
const called = await client.callTool({ name: "get_task", arguments: { id: 2 } });
const failed = await client.callTool({ name: "get_task", arguments: { id: "two" } });
const refused = await client
  .callTool({ name: "delete_task", arguments: { id: 2 } })
  .then(() => null, (error) => ({ code: error.code, message: error.message }));
const told = {
  revision: client.getNegotiatedProtocolVersion(),
  server: client.getServerVersion(),
  capabilities: client.getServerCapabilities(),
  instructions: client.getInstructions(),
  tools,
  called,
  failed,
  refused,
};
await client.close();
console.log(JSON.stringify(told));
