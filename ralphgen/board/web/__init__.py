"""The board as a local web application: its server, routes, access checks and events."""
