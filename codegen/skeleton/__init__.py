"""The account of a program from its loops alone: a tree of what it does, and a compiled engine that walks it.

    tree        what a program does without its data, and the machine's figures: the input
    parameters  a machine's figures as whole ticks
    graph       expressions as a table of nodes
    encoding    a tree as the engine's memory; `layout` says where things lie in it
    engine      `run(table, sizes)` and its result

The engine itself is simple Python on one array of integers, compiled once (`native`; `translate`, `values` and `blocks` make
LLVM's text of it):

    expressions, ranges         values, and what is known of them over a range of iterations
    geometry                    descriptors, runs and bursts of a copy
    timing, boxes, copies       channels, queues, slots; boxes that stores are writing; what a copy waits for
    sections, phases            what computation costs and waits for; rings between barriers
    state, forward              what a loop touches, kept and compared; what repeats, done many times at once
    walk, drive                 the walk through the program; steps of another program
"""
