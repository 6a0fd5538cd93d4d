"""Values of expressions, and what is known of them over a range of a loop's iterations.

In what `translate` compiles, as all modules of the engine: `m` is the memory (see layout).
"""

from tilewright.codegen.skeleton import layout as L


def product(m, a, b):
    """a * b; notes where that is beyond what is safe."""
    if b != 0:
        most = L.LARGEST // abs(b)  # -1 for the one number without a magnitude in 64 bits, which nothing is safe with
        if a > most or a < -most:
            m[L.BEYOND] = 1
    return a * b


def check(m, n):
    """Note whether a sum is beyond what is safe; its terms were not."""
    if n > L.LARGEST or n < -L.LARGEST:
        m[L.BEYOND] = 1


def grow(m, place, n):
    """Add to a number; notes where that is beyond what is safe."""
    m[place] += n
    check(m, m[place])


def floor_quotient(a, b):
    """a // b rounded down, 0 where b is 0 (as the language has it)."""
    if b == 0:
        return 0
    return a // b


def floor_remainder(a, b):
    """a % b with the sign of b, 0 where b is 0."""
    if b == 0:
        return 0
    return a % b


def right_shift(a, b):
    """a >> b; counts that 64 bits don't have, negative ones too, shift everything out (as the language has it)."""
    return a >> (b if 0 <= b < 64 else 63)


def compare(op, a, b):
    """1 or 0."""
    holds = a == b
    if op == L.NE:
        holds = a != b
    elif op == L.LT:
        holds = a < b
    elif op == L.LE:
        holds = a <= b
    elif op == L.GT:
        holds = a > b
    elif op == L.GE:
        holds = a >= b
    return 1 if holds else 0


def combine(op, a, b):
    """The value of an operation with one or two arguments."""
    if op == L.ADD:
        return a + b
    if op == L.SUB:
        return a - b
    if op == L.MUL:
        return a * b
    if op == L.FLOORDIV:
        return floor_quotient(a, b)
    if op == L.MOD:
        return floor_remainder(a, b)
    if op == L.MIN:
        return min(a, b)
    if op == L.MAX:
        return max(a, b)
    if op == L.NEG:
        return -a
    if op == L.ABS:
        return abs(a)
    if op == L.AND:
        return a & b
    if op == L.OR:
        return a | b
    if op == L.XOR:
        return a ^ b
    if op == L.NOT:
        return 1 - a
    if op == L.SHR:
        return right_shift(a, b)
    return compare(op, a, b)


def evaluate(m, k):
    """Node k from the values of its arguments."""
    at = m[L.NODES] + L.NODE_SIZE * k
    op = m[at]
    values = m[L.VALUES]
    if op == L.SELECT:
        chosen = m[at + 2] if m[values + m[at + 1]] != 0 else m[at + 3]
        m[values + k] = m[values + chosen]
    elif op == L.MUL:
        m[values + k] = product(m, m[values + m[at + 1]], m[values + m[at + 2]])
    elif op >= L.ADD:
        m[values + k] = combine(op, m[values + m[at + 1]], m[values + m[at + 2]])
        check(m, m[values + k])


def fresh(m, s):
    """The value of a sink with the present values of the loops' variables."""
    at = m[L.SINKS] + L.SINK_SIZE * s
    cone = m[L.CONES] + m[at + L.S_CONE]
    for i in range(m[at + L.S_LENGTH]):
        evaluate(m, m[cone + i])
    return m[m[L.VALUES] + m[at + L.S_NODE]]


def value(m, s):
    """The value of a sink that is the same in the whole context."""
    at = m[L.SINKS] + L.SINK_SIZE * s
    if m[at + L.S_CONTEXT] != m[L.CONTEXT]:
        m[at + L.S_VALUE] = fresh(m, s)
        m[at + L.S_CONTEXT] = m[L.CONTEXT]
    return m[at + L.S_VALUE]


def lanes_holding(m, s, lane, lanes):
    """For how many lanes 0 <= lane < lanes a condition holds, which is the same in the whole context."""
    at = m[L.SINKS] + L.SINK_SIZE * s
    if m[at + L.S_CONTEXT] != m[L.CONTEXT]:
        count = 0
        for i in range(lanes):
            m[m[L.VALUES] + lane] = i
            count += fresh(m, s)
        m[at + L.S_VALUE] = count
        m[at + L.S_CONTEXT] = m[L.CONTEXT]
    return m[at + L.S_VALUE]
