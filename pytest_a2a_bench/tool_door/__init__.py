"""A trial's tools as an MCP endpoint: the desk where calls wait for the conversation, and the server before it."""

SERVER = "the server of --a2a-tools mcp"
"""What it is called in messages."""
