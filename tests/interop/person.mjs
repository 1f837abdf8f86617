// A person at each of the two TypeScript SDKs: node person.mjs MODULES MAJOR ANSWER REQUESTS COMMAND
// [ARGUMENT ...]; prints one JSON object. ANSWER is what the person says to every form, as the
// protocol has it, REQUESTS a JSON list of calls of tools.
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [modules, major, answer, requests, command, ...args] = process.argv.slice(2);
const find = createRequire(`${modules}/interop.mjs`).resolve;
const load = (name) => import(pathToFileURL(find(name)));
const old = `${pathToFileURL(modules)}/@modelcontextprotocol/sdk/dist/esm`;
const about = { name: "interop", version: "1" };
const capabilities = { elicitation: { form: {} } };
const asked = [];
const person = async ({ params }) => {
  asked.push(params);
  return JSON.parse(answer);
};
let client;
let transport;
if (major === "1") {
  const { Client } = await import(`${old}/client/index.js`);
  const { StdioClientTransport } = await import(`${old}/client/stdio.js`);
  const { ElicitRequestSchema } = await import(`${old}/types.js`);
  client = new Client(about, { capabilities });
  client.setRequestHandler(ElicitRequestSchema, person);
  transport = new StdioClientTransport({ command, args });
} else {
  const { Client } = await load("@modelcontextprotocol/client");
  const { StdioClientTransport } = await load("@modelcontextprotocol/client/stdio");
  client = new Client(about, { capabilities, versionNegotiation: { mode: "auto" } });
  client.setRequestHandler("elicitation/create", person);
  transport = new StdioClientTransport({ command, args });
}
await client.connect(transport);
const answers = [];
for (const params of JSON.parse(requests)) {
  answers.push(await client.callTool(params).catch(({ code, message }) => ({ code, message })));
}
await client.close();
console.log(JSON.stringify({ asked, answers }));
