"""Whether the text of an item is what somebody signed: signatures, keys and trust."""
