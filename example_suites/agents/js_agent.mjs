// An agent in JavaScript without any library: JSON-RPC of A2A 1.0 on Node's own HTTP server (18 or newer). It prints its URL.
// OPENAI_BASE_URL, OPENAI_API_KEY and OPENAI_MODEL say which model: any server with OpenAI's chat completions.
import { createServer } from "node:http";
import { randomUUID } from "node:crypto";

const talks = new Map(); // what was said in each conversation, as the model is told it
let url = "";

async function answer(message) {
  const contextId = message.contextId || randomUUID();
  const talk = talks.get(contextId) ?? talks.set(contextId, []).get(contextId);
  talk.push({ role: "user", content: message.parts.map((part) => part.text ?? "").join("\n") });
  const reply = await fetch(`${process.env.OPENAI_BASE_URL}/chat/completions`, {
    method: "POST",
    headers: { "Content-Type": "application/json", Authorization: `Bearer ${process.env.OPENAI_API_KEY}` },
    body: JSON.stringify({ model: process.env.OPENAI_MODEL ?? "gpt-4.1", messages: talk }),
  });
  if (!reply.ok) throw new Error(`the model answered ${reply.status}`);
  const said = (await reply.json()).choices[0].message.content;
  talk.push({ role: "assistant", content: said });
  return { message: { messageId: randomUUID(), contextId, role: "ROLE_AGENT", parts: [{ text: said }] } };
}

const card = () => ({
  name: "js agent", description: "Passes on what it is told to a language model.", version: "1",
  supportedInterfaces: [{ url, protocolBinding: "JSONRPC", protocolVersion: "1.0" }],
  capabilities: {}, defaultInputModes: ["text/plain"], defaultOutputModes: ["text/plain"],
  skills: [{ id: "talk", name: "Talk", description: "Talks, and calls tools that it is told about.", tags: ["llm"] }],
});

const server = createServer(async (request, response) => {
  const send = (content) => {
    response.setHeader("Content-Type", "application/json");
    response.end(JSON.stringify(content));
  };
  if (request.method === "GET") return send(card());
  let id = null;
  try {
    const chunks = [];
    for await (const chunk of request) chunks.push(chunk);
    const call = JSON.parse(Buffer.concat(chunks));
    id = call.id ?? null;
    if (call.method !== "SendMessage") {
      return send({ jsonrpc: "2.0", id, error: { code: -32601, message: `no method ${call.method}` } });
    }
    send({ jsonrpc: "2.0", id, result: await answer(call.params.message) });
  } catch (error) {
    send({ jsonrpc: "2.0", id, error: { code: -32603, message: String(error) } });
  }
});
server.listen(0, "127.0.0.1", () => {
  url = `http://127.0.0.1:${server.address().port}/`;
  console.log(url);
});
