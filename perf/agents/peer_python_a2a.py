"""An agent on python-a2a, which serves by itself with Flask."""

from __future__ import annotations

from peer_alone import serve_itself
from python_a2a import A2AServer, AgentCard, AgentSkill, run_server


class TalkingAgent(A2AServer):
    def handle_task(self, task):
        from python_a2a import TaskState, TaskStatus

        message = task.message or {}
        parts = message.get("parts") or [{"text": (message.get("content") or {}).get("text", "")}]
        text = "\n".join(part.get("text", "") for part in parts)
        task.artifacts = [{"parts": [{"type": "text", "text": f"You said: {text}"}]}]
        task.status = TaskStatus(state=TaskState.COMPLETED)
        return task


def run(host: str, port: int) -> None:
    skill = AgentSkill(name="talk", description="Talks.", tags=["test"])
    card = AgentCard(
        name="peer on python-a2a", description="Talks.", url=f"http://{host}:{port}", version="1", skills=[skill]
    )
    run_server(TalkingAgent(agent_card=card), host=host, port=port)


if __name__ == "__main__":
    serve_itself(run)
