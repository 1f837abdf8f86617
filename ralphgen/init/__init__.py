"""What `ralphgen init` creates in a project: database, settings, default context."""
