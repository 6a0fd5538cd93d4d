"""Where things lie in the engine's memory: one array of int64, a header of scalars and offsets, and arrays of records.

The names are places in a record (or in the header), the `..._SIZE` the sizes of records. Everything is an int64 and every
reference an offset or a number, so that the same functions run in Python on a list and compiled on a pointer.
"""

# Header: the clock of the core that runs, ...
CLOCK = 0
CONTEXT = 1  # number of the innermost uniform range of iterations; what costs the same has the same number
CONTEXTS = 2  # numbers given so far
FAST = 3  # 1: fast forward
LIMIT = 4  # how many intervals are wanted
RECORDED = 5
STAMP = 6  # counts touches of the state
ACTIVE = 7  # how many cores or elements share engines and ports
PARALLEL = 8  # inside of a parallel loop
FRAME = 9  # the ring loop whose phases run (barrier), or -1
UNIT_LATENCY = 10  # of the units that the section has called
TOTAL_DRAIN = 11  # waited for at the end of the program
LAST_BUFFER = 12  # what was waited for then
# ... figures of the machine, ...
CORES = 13
SYNC = 14  # 0 decoupled, 1 barrier
BARRIER = 15
LATENCY = 16
# ... numbers of things, ...
N_RESOURCES = 17
N_CHANNELS = 18
N_BUFFERS = 19
N_COUNTERS = 20
N_SLOTS = 21
N_FIRST = 22  # nodes of sizes only
# ... and where the arrays start.
NODES = 23
VALUES = 24
RANGES = 25
CONES = 26
SINKS = 27
CODE = 28
LOOPS = 29
SECTIONS = 30
COPIES = 31
BUFFERS = 32
SLOTS = 33
CHANNELS = 34
ENGINES = 35
UNITS = 36
RESOURCES = 37
COUNTERS = 38
LAST = 39  # counters as they were when the current section last looked
SUMS = 40  # what adds up over cores
PATH = 41  # what belongs to the core that takes longest
USED = 42  # busy ticks of resources (of that core)
COST = 43  # of the section so far, by resource
ARGUMENTS = 45
BINS = 46  # two histograms of addresses
INTERVALS = 47
FIRST_NODES = 48
N_PATH = 49
N_ENGINES = 50
SECTION = 44  # the one under way
TURNING = 51  # room for the slots of a ring that turns
BEYOND = 52  # 1: a number has come near to what 64 bits hold, so nothing here is to be relied on
HEADER_SIZE = 64

LARGEST = 1 << 58  # up to here sums of some numbers are safe in 64 bits

# Nodes: operation and arguments.
NODE_SIZE = 4
# What is known of a node over a range of iterations t = 0, 1, ...: value = SLOPE t + x, LOW <= x <= HIGH, x = LOW modulo
# STEP; VARIES says whether x may depend on t too.
SLOPE, LOW, HIGH, STEP, VARIES = range(5)
RANGE_SIZE = 5
# Sinks: expressions at a place: node, the loop-dependent nodes below it in order, and the value in a context.
S_NODE, S_CONE, S_LENGTH, S_CONTEXT, S_VALUE = range(5)
SINK_SIZE = 5

# Loops
(
    L_VAR, L_START, L_STOP, L_MODE, L_EVENTS, L_CORES, L_VISITS, L_TRIPS, L_BODY, L_EXIT, L_RING, L_COSTS,
    L_C0, L_C1, L_S0, L_S1, L_P0, L_P1, L_KNOWN, L_N_KNOWN, L_CHECKS, L_N_CHECKS,
    L_CHANNELS, L_N_CHANNELS, L_ENGINES, L_N_ENGINES, L_BUFFERS, L_N_BUFFERS, L_WAITS,
    L_V, L_FIRST, L_END, L_RANGE_END, L_OUTER, L_KEY, L_N_RANGES, L_RANGES, L_ROTATIONS,
    L_SNAP, L_SNAP_SIZE, L_POWER, L_STEPS, L_FORK, L_CHUNK, L_POSITION, L_INERT, L_FRAME, L_OUTER_FRAME,
    L_START_NODE, L_STOP_NODE, L_BEGAN, L_OUTER_ACTIVE, L_FORKED, L_COPIES, L_N_COPIES, L_N_TURNS,
    L_RECORDS, L_RECORDED,
) = range(58)  # fmt: skip
LOOP_SIZE = 58
MAX_RANGES = 6  # ranges of iterations that a loop remembers for one context around it

# Checks of a loop: kind, node, parameters
CHECK_SAME, CHECK_MODULO, CHECK_SLOT = range(3)
CHECK_SIZE = 4

# Sections that compute; M_: memory of the last time, C_NAME: the number that the program has for it
(
    C_C0, C_C1, C_WEIGHTS, C_N_WEIGHTS, C_USES, C_N_USES, C_SUMS, C_PATH, C_SLOTS, C_END, M_CONTEXT, M_BUSY, M_BANK,
    M_LATENCY, M_COSTS, M_COUNTS, C_NAME,
) = range(17)  # fmt: skip
SECTION_SIZE = 17
# Uses of a section: buffer, slot (sink or -1), reads, writes
USE_SIZE = 4
# What a section has on the path: busy, bank, latency, and three waits (load, store, issue) a use
P_BUSY, P_BANK, P_LATENCY, P_USES = range(4)
W_LOAD, W_STORE, W_ISSUE = range(3)
# Weights: counter, resource, ticks
WEIGHT_SIZE = 3

# Copies: what they are, where the expressions are, G_: the last geometry, and P_: ticks of the channel and bytes of an
# iteration between barriers, of the one before and of the one before that (for who shows them)
(
    D_ENGINE, D_CHANNEL, D_ASYNC, D_INWARD, D_RATE, D_UNIT, D_ALIGNMENT, D_RANK, D_SOURCE, D_TARGET, D_BYTES, D_SINKS,
    D_SUMS, D_PATH, D_SECTION, D_BOXES, G_CONTEXT, G_DESCRIPTORS, G_BYTES, G_RUNS, G_BURST, G_SPLIT, G_ISSUE, G_DATA,
    P_TICKS, P_BYTES, P_TICKS_1, P_BYTES_1, P_TICKS_2, P_BYTES_2,
) = range(30)  # fmt: skip
COPY_SIZE = 30
# What a copy adds up: copies, descriptors, bytes, runs, bytes on the bus, split runs, ticks of the channel, of them of data
A_COPIES, A_DESCRIPTORS, A_BYTES, A_RUNS, A_BURST, A_SPLIT, A_TRANSFER, A_DATA = range(8)
SUM_SIZE = 8

# Buffers: slots, the first of them, place of the drains on the path, and boxes being written
B_SLOTS, B_FIRST, B_PATH, B_BOXES = range(4)
BUFFER_SIZE = 4
# Slots. READY: last written as a tile (a copy from further out, a section). FREE: last used as a tile. OUTER_READY: last
# written by a copy from further in. OUTER_FREE: last read by a copy to further in. With the cause of a wait for each (0: no
# copy) and its issue ticks. PENDING_*: stores that are not placed in time yet, out of or into the slot.
# BOX_FLOOR, of a buffer's first slot: when the stores into it are done whose boxes are forgotten.
(
    READY, READY_CAUSE, READY_ISSUE, FREE, FREE_CAUSE, FREE_ISSUE, OUTER_READY, OUTER_READY_ISSUE, OUTER_FREE,
    OUTER_FREE_ISSUE, PENDING_OUT, PENDING_IN, BOX_FLOOR, TOUCHED,
) = range(14)  # fmt: skip
SLOT_SIZE = 14
NO_COPY, LOAD, STORE = range(3)

# What a loop touches of buffers: buffer, and whether its slots decide when copies start (1 as targets, 2 as sources)
TOUCH_SIZE = 2

# Channels: end, touched, stores that wait: how many, and each: when ready, copy, source slot, target slot, issue, data, box,
# bytes (for who shows them)
MAX_PENDING = 8
H_END, H_TOUCHED, H_COUNT, H_PENDING = range(4)
E_READY, E_COPY, E_SOURCE, E_TARGET, E_ISSUE, E_DATA, E_BOX, E_BYTES = range(8)
ENTRY_SIZE = 8
CHANNEL_SIZE = H_PENDING + MAX_PENDING * ENTRY_SIZE

# Engines: issue, latency, contention, channels, queue, ..., then the ends of the last `queue` copies
(
    N_ISSUE, N_LATENCY, N_CONTENTION, N_COUNT, N_QUEUE, N_DIMS, N_TRANSPOSE, N_BUS, N_TOUCHED, N_POSITION, N_DONE,
) = range(11)  # fmt: skip
ENGINE_SIZE = 11
INDEPENDENT, FIFO, PARTITIONED = range(3)

# Units: resource, latency, roles, first role node, cone of the interval
U_RESOURCE, U_LATENCY, U_N_ROLES, U_ROLES, U_SINK = range(5)
UNIT_SIZE = 5

# Resources: scope and kind
# AXES: bits of the axes of the array along which there is one next to the other
R_SCOPE, R_KIND, R_AXES = range(3)
RESOURCE_SIZE = 3
OF_MACHINE, OF_CORE, OF_ELEMENT = range(3)

MODE_SERIAL, MODE_PARALLEL, MODE_SPATIAL = range(3)  # ... and from there on, by the number of the axis

# Boxes of a buffer that stores write: how many, and each (one more for who asks): done
# (-1: not placed yet), copy, rank, first, and an extent and a stride an axis
BOXES_COUNT, BOXES_FIRST = range(2)
MAX_BOXES = 64
MAX_RANK = 12
X_DONE, X_COPY, X_RANK, X_FIRST, X_DIMS = range(5)
BOX_SIZE = X_DIMS + 2 * MAX_RANK
BOXES_SIZE = BOXES_FIRST + (MAX_BOXES + 1) * BOX_SIZE

# Phases of a ring loop: begun, how many, the work of the iteration before, intervals recorded when this iteration began and
# when the one before did; for each channel (and then each engine) ticks of this iteration's loads and stores, of all that
# the loop's copies took of it before the iteration, of what the work of the iteration before took of it, and of the stores
# of the one before and of the one before that
F_BEGAN, F_COUNT, F_WORK, F_MARK, F_MARK_1, F_LINES = range(6)
F_LOADS, F_STORES, F_TOTAL, F_TAKEN, F_STORES_1, F_STORES_2, F_LATENCY = range(7)
F_LINE_SIZE = 7
PHASE_BARRIER, PHASE_LOAD, PHASE_STORE = range(3)

# Intervals: track (compute, wait, or a channel's number from 2), section, start, end; of a wait its cause (in the order of
# hw.timing.CAUSES) and the buffer that came last; of a copy its bytes. What there is none of is -1.
I_TRACK, I_SECTION, I_START, I_END, I_CAUSE, I_BUFFER, I_BYTES = range(7)
INTERVAL_SIZE = 7
TRACK_COMPUTE, TRACK_WAIT, TRACK_CHANNEL = range(3)
WHY_LOAD, WHY_STORE, WHY_ISSUE, WHY_BANK, WHY_LATENCY, WHY_BARRIER, WHY_DRAIN = range(7)

# Instructions: operation and up to five operands
CODE_SIZE = 6
HALT, LOOP, NEXT, BRANCH, JUMP, CHARGE, LANES, PRODUCT, BEGIN, END, UNIT, COPY, LIFE_BEGIN, LIFE_END = range(14)

# Operations of expressions
(
    CONST, LEAF, VAR, LANE, ROLE, ADD, SUB, MUL, FLOORDIV, MOD, MIN, MAX, NEG, ABS, EQ, NE, LT, LE, GT, GE, AND, OR, XOR,
    NOT, SHR, SELECT,
) = range(26)  # fmt: skip

# Steps of a program that drives the engine: a whole walk, the values of sizes, the end; sections; copies; buffers' lives;
# loops that run at once (begun with so many trips, an iteration over, over); rings at barriers (likewise)
(
    STEP_WALK, STEP_START, STEP_FINISH, STEP_BEGIN, STEP_END, STEP_UNIT, STEP_COPY, STEP_LIFE, STEP_DEATH, STEP_FORK,
    STEP_NEXT, STEP_JOIN, STEP_RING, STEP_TURN, STEP_RINGS_END,
) = range(15)  # fmt: skip
