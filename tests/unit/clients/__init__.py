"""Tests of the files of clients."""
