"""A plan as people and programs read it: text, JSON, and a page."""
