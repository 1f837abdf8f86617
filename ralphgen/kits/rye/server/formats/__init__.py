"""What the texts of items say: directives, tools and knowledge, read and checked."""
