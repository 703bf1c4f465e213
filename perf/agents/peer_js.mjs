// An agent on @a2a-js/sdk with all three bindings and push notifications; obeys words. It prints its URL as one JSON line.
import { randomUUID } from "node:crypto";
import express from "express";
import { Server, ServerCredentials } from "@grpc/grpc-js";
import { AgentCard, Message, Task, TaskArtifactUpdateEvent, TaskStatusUpdateEvent } from "@a2a-js/sdk";
import {
  AgentEvent, DefaultPushNotificationSender, DefaultRequestHandler, InMemoryPushNotificationStore, InMemoryTaskStore,
} from "@a2a-js/sdk/server";
import { UserBuilder, agentCardHandler, jsonRpcHandler, restHandler } from "@a2a-js/sdk/server/express";
import { A2AService, grpcService } from "@a2a-js/sdk/server/grpc";

const status = (state, text) => ({
  state: `TASK_STATE_${state}`, timestamp: new Date().toISOString(),
  ...(text && { message: { messageId: randomUUID(), role: "ROLE_AGENT", parts: [{ text }] } }),
});
const stopped = new Set();

const executor = {
  async execute({ taskId, contextId, userMessage, task }, bus) {
    const said = userMessage.parts.map((part) => (part.content?.$case === "text" ? part.content.value : "")).join("\n");
    const [, word, argument] = /^(\S*) ?(.*)$/s.exec(said);
    const ids = { taskId, contextId };
    const tell = (state, text) =>
      bus.publish(AgentEvent.statusUpdate(TaskStatusUpdateEvent.fromJSON({ ...ids, status: status(state, text) })));
    const show = (parts, further = {}) =>
      bus.publish(AgentEvent.artifactUpdate(TaskArtifactUpdateEvent.fromJSON(
        { ...ids, artifact: { artifactId: "one", parts }, ...further })));
    if (word === "echo") {
      const parts = [{ text: argument }];
      bus.publish(AgentEvent.message(Message.fromJSON({ messageId: randomUUID(), contextId, role: "ROLE_AGENT", parts })));
      return bus.finished();
    }
    if (word === "crash") throw new Error(argument);
    const first = { id: taskId, contextId, status: status("SUBMITTED"), history: [Message.toJSON(userMessage)] };
    bus.publish(AgentEvent.task(task ?? Task.fromJSON(first)));
    tell("WORKING");
    if (word === "slow") {
      for (let n = 0; n < 20 && !stopped.has(taskId); n++) await new Promise((done) => setTimeout(done, 100));
    }
    const ends = { ask: "INPUT_REQUIRED", auth: "AUTH_REQUIRED", fail: "FAILED", reject: "REJECTED" };
    if (stopped.has(taskId)) tell("CANCELED");
    else if (ends[word] && !task) tell(ends[word], argument || word);
    else {
      if (word === "data") show([{ data: { a: 1 } }]);
      else if (word === "file") show([{ raw: "eA==", filename: "x.txt", mediaType: "text/plain" }]);
      else if (word === "chunks") ["a", "b", "c"].forEach((text, n) => show([{ text }], { append: n > 0, lastChunk: n === 2 }));
      else show([{ text: said }]);
      tell("COMPLETED");
    }
    bus.finished();
  },
  async cancelTask(taskId) {
    stopped.add(taskId);
  },
};

const app = express();
const listener = app.listen(Number(process.argv[2] ?? 0), "127.0.0.1", () => {
  const url = `http://127.0.0.1:${listener.address().port}`;
  const rpc = new Server();
  rpc.bindAsync("127.0.0.1:0", ServerCredentials.createInsecure(), (error, port) => {
    if (error) throw error;
    const addresses = { JSONRPC: url, "HTTP+JSON": `${url}/rest`, GRPC: `127.0.0.1:${port}` };
    const supportedInterfaces = Object.entries(addresses).map(([protocolBinding, address]) => (
      { url: address, protocolBinding, protocolVersion: "1.0" }));
    const card = AgentCard.fromJSON({
      name: "peer on a2a-js", description: "Obeys words.", version: "1", supportedInterfaces,
      capabilities: { streaming: true, pushNotifications: true },
      defaultInputModes: ["text/plain"], defaultOutputModes: ["text/plain"],
      skills: [{ id: "obey", name: "obey", description: "Obeys.", tags: ["test"] }],
    });
    const hooks = new InMemoryPushNotificationStore();
    const requestHandler = new DefaultRequestHandler(
      card, new InMemoryTaskStore(), executor, undefined, hooks, new DefaultPushNotificationSender(hooks));
    const options = { requestHandler, userBuilder: UserBuilder.noAuthentication };
    app.use("/.well-known/agent-card.json", agentCardHandler({ agentCardProvider: requestHandler }));
    app.use("/rest", restHandler(options));
    app.use("/", jsonRpcHandler(options));
    rpc.addService(A2AService, grpcService(options));
    console.log(JSON.stringify({ url }));
  });
});
process.stdin.on("end", () => process.exit(0)).resume();
