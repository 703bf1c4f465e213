"""An agent of Google's ADK, served over A2A. It prints its URL.

OPENAI_BASE_URL, OPENAI_API_KEY and OPENAI_MODEL say which model (through LiteLLM; drop LiteLlm for Gemini's own).
"""

from __future__ import annotations

import os
import socket

import uvicorn
from google.adk.a2a.utils.agent_to_a2a import to_a2a
from google.adk.agents import LlmAgent
from google.adk.models.lite_llm import LiteLlm

model = LiteLlm(f"openai/{os.environ.get('OPENAI_MODEL', 'gpt-4.1')}", api_base=os.environ["OPENAI_BASE_URL"])
agent = LlmAgent(
    name="adk_agent",
    model=model,
    description="Talks, and calls tools that it is told about.",
    instruction="Do what the messages say, in the form that they ask for.",
)
listener = socket.create_server(("127.0.0.1", 0))
port = listener.getsockname()[1]
app = to_a2a(agent, host="127.0.0.1", port=port)
if __name__ == "__main__":
    print(f"http://127.0.0.1:{port}/", flush=True)
    uvicorn.Server(uvicorn.Config(app, log_level="error")).run([listener])
