"""The configuration files of MCP clients, and the entries for servers in them."""
