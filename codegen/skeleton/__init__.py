"""The account of a program from its loops alone: a tree of what it does, and a compiled engine that walks it."""
