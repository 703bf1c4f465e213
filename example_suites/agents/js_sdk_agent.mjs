// An agent on @a2a-js/sdk in JavaScript (npm install @a2a-js/sdk express, beside this file; Node 20 or newer). It prints its URL.
// OPENAI_BASE_URL, OPENAI_API_KEY and OPENAI_MODEL say which model: any server with OpenAI's chat completions.
import { randomUUID } from "node:crypto";
import express from "express";
import { AgentCard, Message } from "@a2a-js/sdk";
import { AgentEvent, DefaultRequestHandler, InMemoryTaskStore } from "@a2a-js/sdk/server";
import { UserBuilder, agentCardHandler, jsonRpcHandler } from "@a2a-js/sdk/server/express";

const talks = new Map(); // what was said in each conversation, as the model is told it

const executor = {
  async execute({ contextId, userMessage }, bus) {
    const talk = talks.get(contextId) ?? talks.set(contextId, []).get(contextId);
    const heard = Message.toJSON(userMessage).parts.map((part) => part.text ?? "").join("\n");
    talk.push({ role: "user", content: heard });
    const reply = await fetch(`${process.env.OPENAI_BASE_URL}/chat/completions`, {
      method: "POST",
      headers: { "Content-Type": "application/json", Authorization: `Bearer ${process.env.OPENAI_API_KEY}` },
      body: JSON.stringify({ model: process.env.OPENAI_MODEL ?? "gpt-4.1", messages: talk }),
    });
    if (!reply.ok) throw new Error(`the model answered ${reply.status}`);
    const said = (await reply.json()).choices[0].message.content;
    talk.push({ role: "assistant", content: said });
    const answer = { messageId: randomUUID(), contextId, role: "ROLE_AGENT", parts: [{ text: said }] };
    bus.publish(AgentEvent.message(Message.fromJSON(answer)));
    bus.finished();
  },
  async cancelTask() {}, // nothing goes on here that could be canceled
};

const app = express();
const server = app.listen(0, "127.0.0.1", () => {
  const url = `http://127.0.0.1:${server.address().port}/`;
  const card = AgentCard.fromJSON({
    name: "js sdk agent", description: "Passes on what it is told to a language model.", version: "1",
    supportedInterfaces: [{ url, protocolBinding: "JSONRPC", protocolVersion: "1.0" }],
    capabilities: {}, defaultInputModes: ["text/plain"], defaultOutputModes: ["text/plain"],
    skills: [{ id: "talk", name: "Talk", description: "Talks, and calls tools that it is told about.", tags: ["llm"] }],
  });
  const requestHandler = new DefaultRequestHandler(card, new InMemoryTaskStore(), executor);
  app.use("/.well-known/agent-card.json", agentCardHandler({ agentCardProvider: requestHandler }));
  app.use(jsonRpcHandler({ requestHandler, userBuilder: UserBuilder.noAuthentication }));
  console.log(url);
});
