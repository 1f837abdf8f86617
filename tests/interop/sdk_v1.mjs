// The TypeScript SDK 1.x: node sdk_v1.mjs MODULES REQUESTS COMMAND [ARGUMENT ...]; prints one JSON
// object. REQUESTS is a JSON list of a method of the client and its parameters each. COMMAND may be
// the URL of a server, which is asked with the token in RALPH_TOKEN.
import { pathToFileURL } from "node:url";

const [modules, requests, command, ...args] = process.argv.slice(2);
const sdk = `${pathToFileURL(modules)}/@modelcontextprotocol/sdk/dist/esm/client`;
const { Client } = await import(`${sdk}/index.js`);
const { StdioClientTransport } = await import(`${sdk}/stdio.js`);
const { StreamableHTTPClientTransport } = await import(`${sdk}/streamableHttp.js`);

const headers = { Authorization: `Bearer ${process.env.RALPH_TOKEN}` };
const transport = URL.canParse(command)
  ? new StreamableHTTPClientTransport(new URL(command), { requestInit: { headers } })
  : new StdioClientTransport({ command, args });
const client = new Client({ name: "interop", version: "1" });
await client.connect(transport);
const answers = [];
for (const [method, params] of JSON.parse(requests)) {
  answers.push(
    await client[method](params).catch(({ code, message, data }) => ({ code, message, data })),
  );
}
const told = {
  server: client.getServerVersion(),
  capabilities: client.getServerCapabilities(),
  instructions: client.getInstructions(),
  answers,
};
await client.close();
console.log(JSON.stringify(told));
