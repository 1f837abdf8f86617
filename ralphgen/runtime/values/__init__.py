"""Values that go in and out: arguments checked, answers paged, misspelled names matched."""
