"""Moves a project's rows in and out: as lines of JSON, and from the files of other tools."""
