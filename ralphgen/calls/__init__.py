"""Calls tools for people and scripts: the project's own servers, spoken to as any client would."""
