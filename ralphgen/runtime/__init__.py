"""What every emitted server runs on: real modules, copied as they are into each project."""
