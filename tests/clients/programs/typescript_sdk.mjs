// The Anthropic SDK for TypeScript: its tool runner. Does the same as program.py and python_sdk.py.

import { readFileSync, writeFileSync, readdirSync } from "node:fs";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";
import { join } from "node:path";

// The SDK is installed in a folder of its own, and this file is not in it.
const require = createRequire(join(process.env.CLIENT_FOLDER, "index.js"));
const load = async (name) => import(pathToFileURL(require.resolve(name)).href);
const { default: Anthropic } = await load("@anthropic-ai/sdk");
const { betaTool } = await load("@anthropic-ai/sdk/helpers/beta/json-schema");

const SYSTEM = "You are a coding agent. Work on the current folder with the tools.";
const allFiles = () =>
  readdirSync(".", { recursive: true, withFileTypes: true })
    .filter((each) => each.isFile())
    .map((each) => join(each.parentPath ?? each.path, each.name))
    .sort();
const matches = (path, pattern) => {
  const source = pattern
    .split("**/")
    .map((part) => part.replace(/[.+^${}()|[\]\\]/g, "\\$&").replaceAll("*", "[^/]*"))
    .join("(?:.*/)?");
  return new RegExp(`^${source}$`).test(path);
};
const text = { type: "string" };
const make = (name, description, properties, required, run) =>
  betaTool({ name, description, inputSchema: { type: "object", properties, required }, run });

const tools = [
  make("Read", "Read a file and return its lines with their numbers.", { file_path: text }, ["file_path"],
    ({ file_path }) => {
      const lines = readFileSync(file_path, "utf8").replace(/\n$/, "").split("\n").slice(0, 2000);
      return lines.map((line, at) => `${String(at + 1).padStart(6)}\t${line}`).join("\n");
    }),
  make("Glob", "Find files by a glob pattern and return their paths.", { pattern: text }, ["pattern"],
    ({ pattern }) => allFiles().filter((path) => matches(path, pattern)).join("\n") || "No files found"),
  make("Grep", "Find the files that contain a text and return their paths.", { pattern: text }, ["pattern"],
    ({ pattern }) => {
      const wanted = pattern.replaceAll("\\", "").toLowerCase();
      const found = allFiles().filter((path) => readFileSync(path, "utf8").toLowerCase().includes(wanted));
      return found.join("\n") || "No matches";
    }),
  make("Edit", "Replace text in a file.",
    { file_path: text, old_string: text, new_string: text, replace_all: { type: "boolean" } },
    ["file_path", "old_string", "new_string"],
    ({ file_path, old_string, new_string, replace_all }) => {
      const before = readFileSync(file_path, "utf8");
      const put = () => new_string;
      writeFileSync(file_path, replace_all ? before.replaceAll(old_string, put) : before.replace(old_string, put));
      return `The file ${file_path} has been updated.`;
    }),
  make("Write", "Write a file.", { file_path: text, content: text }, ["file_path", "content"],
    ({ file_path, content }) => {
      writeFileSync(file_path, content);
      return `The file ${file_path} has been written.`;
    }),
];

const [model, prompts] = process.argv.slice(2);
const client = new Anthropic();
const messages = [];
for (const prompt of JSON.parse(prompts)) {
  messages.push({ role: "user", content: prompt });
  const runner = client.beta.messages.toolRunner({
    model, max_tokens: 2000, system: SYSTEM, tools, messages: [...messages],
    cache_control: { type: "ephemeral" },
  });
  let last;
  for await (const reply of runner) {
    last = reply;
    messages.push({ role: "assistant", content: reply.content });
    const results = await runner.generateToolResponse();
    if (results) messages.push(results);
  }
  const answer = last.content.filter((block) => block.type === "text").map((block) => block.text).join("");
  console.log(JSON.stringify({ answer }));
}
