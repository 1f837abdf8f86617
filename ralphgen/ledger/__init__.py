"""ralphgen's own tables in a project's database: made, removed, counted, and kept safe."""
