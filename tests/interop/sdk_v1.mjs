// The TypeScript SDK 1.x: node sdk_v1.mjs MODULES COMMAND [ARGUMENT ...]; prints one JSON object.
import { pathToFileURL } from "node:url";

const [modules, command, ...args] = process.argv.slice(2);
const sdk = `${pathToFileURL(modules)}/@modelcontextprotocol/sdk/dist/esm/client`;
const { Client } = await import(`${sdk}/index.js`);
const { StdioClientTransport } = await import(`${sdk}/stdio.js`);

const client = new Client({ name: "interop", version: "1" });
await client.connect(new StdioClientTransport({ command, args }));
const { tools } = await client.listTools();
const called = await client.callTool({ name: "get_task", arguments: { id: 2 } });
const failed = await client.callTool({ name: "get_task", arguments: { id: "two" } });
const refused = await client
  .callTool({ name: "delete_task", arguments: { id: 2 } })
  .then(() => null, (error) => ({ code: error.code, message: error.message }));
const told = {
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
