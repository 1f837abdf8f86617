// The official package of the tasks extension, on results of a server: node tasks.mjs MODULES FRAMES,
// a JSON list; prints for each whether it makes a task, and whether it shows one.
import { pathToFileURL } from "node:url";

const [modules, frames] = process.argv.slice(2);
const place = "@modelcontextprotocol/ext-tasks/dist/core/v2/index.js";
const { isCreateTaskResultV2, isDetailedTaskV2 } = await import(
  `${pathToFileURL(modules)}/${place}`
);
const told = JSON.parse(frames).map((frame) => [
  isCreateTaskResultV2(frame),
  isDetailedTaskV2(frame),
]);
console.log(JSON.stringify(told));
