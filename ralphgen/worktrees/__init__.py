"""Lets agents work in work trees of git of their own, and merges what they did, once it passed."""
