"""Algorithms: types, expressions, Funcs, the text form, the reference path and errors."""
