"""MCP clients: where each keeps its servers, and in which form."""
