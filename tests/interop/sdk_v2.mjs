// The TypeScript SDK 2.x, which negotiates the revision of the protocol:
// node sdk_v2.mjs MODULES REQUESTS COMMAND [ARGUMENT ...]; prints one JSON object.
// REQUESTS is a JSON list of a method of the client and its parameters each. COMMAND may be the URL
// of a server, which is asked with the token in RALPH_TOKEN.
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [modules, requests, command, ...args] = process.argv.slice(2);
const find = createRequire(`${modules}/interop.mjs`).resolve;
const load = (name) => import(pathToFileURL(find(name)));
const { Client, StreamableHTTPClientTransport } = await load("@modelcontextprotocol/client");
const { StdioClientTransport } = await load("@modelcontextprotocol/client/stdio");

const headers = { Authorization: `Bearer ${process.env.RALPH_TOKEN}` };
const transport = URL.canParse(command)
  ? new StreamableHTTPClientTransport(new URL(command), { requestInit: { headers } })
  : new StdioClientTransport({ command, args });
const client = new Client(
  { name: "interop", version: "1" },
  { versionNegotiation: { mode: "auto" } },
);
await client.connect(transport);
const answers = [];
for (const [method, params] of JSON.parse(requests)) {
  answers.push(
    await client[method](params).catch(({ code, message, data }) => ({ code, message, data })),
  );
}
const told = {
  revision: client.getNegotiatedProtocolVersion(),
  server: client.getServerVersion(),
  capabilities: client.getServerCapabilities(),
  instructions: client.getInstructions(),
  answers,
};
await client.close();
console.log(JSON.stringify(told));
