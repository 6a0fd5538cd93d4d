"""What accounts and rooflines look like: texts for a terminal, HTML for notebooks, pictures, and traces for viewers.

Pictures need matplotlib (the extra `plot`), which is imported when one is asked for; nothing else needs more than Python.
"""
