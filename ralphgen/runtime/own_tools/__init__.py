"""Tools that a project has written itself: run in processes of their own, which ask the server."""
