"""The kit `rye`: five universal tools over directives, tools and knowledge."""
