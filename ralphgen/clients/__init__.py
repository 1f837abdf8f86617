"""MCP clients: where each keeps its servers, and how it wants to be told of one."""
