"""The Model Context Protocol, in its handshake versions and in the stateless one."""
