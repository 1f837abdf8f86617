"""The hooks of the plugin: programs of their own, copied into it, which Claude Code starts.

They run on the standard library, with whatever `python3` is on PATH, from 3.9 on.
"""
