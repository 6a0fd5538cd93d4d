"""The graph compiler: a pipeline of many Funcs comes in, a plan comes out, and the plan is an ordinary schedule."""
