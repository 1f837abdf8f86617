"""Names that stand for something of the server's own, whatever a project has under them."""

SUBPROCESS, HTTP_CLIENT = "rye/core/primitives/subprocess", "rye/core/primitives/http_client"
PRIMITIVES = (SUBPROCESS, HTTP_CLIENT)
PYTHON_RUNTIME = "rye/core/runtimes/python_runtime"
# As executors, these bare names always are the system's own.
EXECUTORS = {
    "subprocess": SUBPROCESS,
    "http_client": HTTP_CLIENT,
    "python_runtime": PYTHON_RUNTIME,
}
# What the server gives to a tool's author itself; these win over parameters of the same name.
BUILT_IN = ("params_json", "project_path", "shim", "tool_dir", "tool_path", "tool_sha256")
