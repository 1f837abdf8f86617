"""The server of a project without tasks: the shared code of its tools."""
