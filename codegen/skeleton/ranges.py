"""What is known of expressions over a range of iterations: a slope in the loop's iteration, and bounds of the rest.

For iterations t = 0 .. n - 1 of a loop, with the loops around it as they are and those inside anywhere between their ends:
value = SLOPE t + x with LOW <= x <= HIGH, x = LOW modulo STEP (STEP 0: x is LOW); VARIES is 0 if x is certainly the same for
all t wherever the loops inside are.
"""

from tilewright.codegen.skeleton import layout as L
from tilewright.codegen.skeleton.expressions import check, product, right_shift


def gcd(a, b):
    """The greatest common divisor of two numbers' magnitudes."""
    a, b = abs(a), abs(b)
    while b != 0:
        a, b = b, a % b
    return a


def put(m, r, slope, low, high, step, varies):
    """Set a range; what is one value has step 0."""
    check(m, slope)
    check(m, low)
    check(m, high)
    m[r + L.SLOPE] = slope
    m[r + L.LOW] = low
    m[r + L.HIGH] = high
    m[r + L.STEP] = step if high > low else 0
    m[r + L.VARIES] = varies if high > low else 0


def put_copy(m, r, a):
    put(m, r, m[a + L.SLOPE], m[a + L.LOW], m[a + L.HIGH], m[a + L.STEP], m[a + L.VARIES])


def lowest(m, r, n):
    """The least value over the n iterations."""
    return m[r + L.LOW] + min(0, product(m, m[r + L.SLOPE], n - 1))


def highest(m, r, n):
    return m[r + L.HIGH] + max(0, product(m, m[r + L.SLOPE], n - 1))


def moves(m, r):
    """1 if the value may differ between iterations."""
    return 1 if m[r + L.SLOPE] != 0 or m[r + L.VARIES] != 0 else 0


def put_bool(m, r, known, holds, varies):
    """The range of a condition: decided, or not."""
    if known != 0:
        put(m, r, 0, holds, holds, 0, 0)
    else:
        put(m, r, 0, 0, 1, 1, varies)


def sign(m, a, b, n):
    """What is certain of a - b: -2 (<), -1 (<=), 0 (==), 1 (>=), 2 (>), 3 (nothing), 4 (only that it is not 0)."""
    slope = m[a + L.SLOPE] - m[b + L.SLOPE]
    moved = product(m, slope, n - 1)
    low = m[a + L.LOW] - m[b + L.HIGH] + min(0, moved)
    high = m[a + L.HIGH] - m[b + L.LOW] + max(0, moved)
    if low > 0:
        return 2
    if high < 0:
        return -2
    if low == 0:
        return 0 if high == 0 else 1
    if high == 0:
        return -1
    step = gcd(gcd(m[a + L.STEP], m[b + L.STEP]), slope)
    if step != 0 and (m[a + L.LOW] - m[b + L.LOW]) % step != 0:
        return 4
    return 3


def put_comparison(m, r, op, a, b, n):
    s = sign(m, a, b, n)
    known, holds = 0, 0
    if op == L.EQ or op == L.NE:
        if s == 0:
            known, holds = 1, 1
        elif s == 2 or s == -2 or s == 4:
            known, holds = 1, 0
        if op == L.NE:
            holds = 1 - holds
    elif op == L.LT or op == L.GE:
        if s == -2:
            known, holds = 1, 1
        elif s == 0 or s == 1 or s == 2:
            known, holds = 1, 0
        if op == L.GE:
            holds = 1 - holds
    else:
        if s == 2:
            known, holds = 1, 1
        elif s == 0 or s == -1 or s == -2:
            known, holds = 1, 0
        if op == L.LE:
            holds = 1 - holds
    varies = 1 if m[a + L.SLOPE] != m[b + L.SLOPE] or m[a + L.VARIES] != 0 or m[b + L.VARIES] != 0 else 0
    put_bool(m, r, known, holds, varies)


def put_extreme(m, r, op, a, b, n):
    s = sign(m, a, b, n)
    if s == -2 or s == -1 or s == 0:
        put_copy(m, r, a if op == L.MIN else b)
    elif s == 1 or s == 2:
        put_copy(m, r, b if op == L.MIN else a)
    else:
        together = m[a + L.SLOPE] == m[b + L.SLOPE]
        slope = m[a + L.SLOPE] if together else 0
        a0 = m[a + L.LOW] if together else lowest(m, a, n)
        a1 = m[a + L.HIGH] if together else highest(m, a, n)
        b0 = m[b + L.LOW] if together else lowest(m, b, n)
        b1 = m[b + L.HIGH] if together else highest(m, b, n)
        step = gcd(gcd(m[a + L.STEP], m[b + L.STEP]), a0 - b0)
        if not together:
            step = gcd(step, gcd(m[a + L.SLOPE], m[b + L.SLOPE]))
        varies = 1 if not together or m[a + L.VARIES] != 0 or m[b + L.VARIES] != 0 else 0
        if op == L.MIN:
            put(m, r, slope, min(a0, b0), min(a1, b1), step, varies)
        else:
            put(m, r, slope, max(a0, b0), max(a1, b1), step, varies)


def put_product(m, r, a, b, n):
    if m[a + L.SLOPE] == 0 and m[a + L.STEP] == 0 and m[a + L.VARIES] == 0:
        a, b = b, a
    if m[b + L.SLOPE] == 0 and m[b + L.STEP] == 0 and m[b + L.VARIES] == 0:
        c = m[b + L.LOW]
        x, y = product(m, m[a + L.LOW], c), product(m, m[a + L.HIGH], c)
        slope, step = product(m, m[a + L.SLOPE], c), abs(product(m, m[a + L.STEP], c))
        put(m, r, slope, min(x, y), max(x, y), step, m[a + L.VARIES])
        return
    a0, a1, b0, b1 = lowest(m, a, n), highest(m, a, n), lowest(m, b, n), highest(m, b, n)
    s, t = gcd(m[a + L.STEP], m[a + L.SLOPE]), gcd(m[b + L.STEP], m[b + L.SLOPE])
    step = gcd(gcd(product(m, s, b0), product(m, t, a0)), product(m, s, t))
    w, x, y, z = product(m, a0, b0), product(m, a0, b1), product(m, a1, b0), product(m, a1, b1)
    varies = 1 if moves(m, a) != 0 or moves(m, b) != 0 else 0
    put(m, r, 0, min(min(w, x), min(y, z)), max(max(w, x), max(y, z)), step, varies)


def put_quotient(m, r, a, b, n):
    varies = 1 if moves(m, a) != 0 or moves(m, b) != 0 else 0
    if m[b + L.SLOPE] == 0 and m[b + L.STEP] == 0 and m[b + L.LOW] > 0:
        c = m[b + L.LOW]
        step = m[a + L.STEP] // c if m[a + L.STEP] % c == 0 else 1
        if m[a + L.SLOPE] % c == 0:
            put(m, r, m[a + L.SLOPE] // c, m[a + L.LOW] // c, m[a + L.HIGH] // c, step, m[a + L.VARIES])
        else:
            put(m, r, 0, lowest(m, a, n) // c, highest(m, a, n) // c, 1, 1)
        return
    a0, a1, b0, b1 = lowest(m, a, n), highest(m, a, n), lowest(m, b, n), highest(m, b, n)
    if b0 > 0:
        w, x, y, z = a0 // b0, a0 // b1, a1 // b0, a1 // b1
        put(m, r, 0, min(min(w, x), min(y, z)), max(max(w, x), max(y, z)), 1, varies)
    else:
        large = max(abs(a0), abs(a1))  # magnitudes do not grow; 0 where the divisor is 0
        put(m, r, 0, -large - 1, large + 1, 1, varies)


def put_remainder(m, r, a, b, n):
    if m[b + L.SLOPE] == 0 and m[b + L.STEP] == 0 and m[b + L.LOW] > 0:
        c = m[b + L.LOW]
        low, high = lowest(m, a, n), highest(m, a, n)
        if low // c == high // c:  # never wraps
            shift = low // c * c
            put(m, r, m[a + L.SLOPE], m[a + L.LOW] - shift, m[a + L.HIGH] - shift, m[a + L.STEP], m[a + L.VARIES])
            return
        varies = 0 if m[a + L.SLOPE] % c == 0 and m[a + L.VARIES] == 0 else 1
        step = gcd(gcd(m[a + L.STEP], c), m[a + L.SLOPE])
        first = m[a + L.LOW] % step
        put(m, r, 0, first, first + (c - 1 - first) // step * step, step, varies)
        return
    varies = 1 if moves(m, a) != 0 or moves(m, b) != 0 else 0
    large = max(abs(lowest(m, b, n)), abs(highest(m, b, n)))
    put(m, r, 0, -large, large, 1, varies)


def put_shift(m, r, a, b, n):
    """Shifting brings a number nearer to 0, or to -1 from below."""
    varies = 1 if moves(m, a) != 0 or moves(m, b) != 0 else 0
    low, high = lowest(m, a, n), highest(m, a, n)
    least, most = lowest(m, b, n), highest(m, b, n)
    if least < 0:
        least, most = 0, 63
    w, x, y, z = right_shift(low, least), right_shift(low, most), right_shift(high, least), right_shift(high, most)
    put(m, r, 0, min(w, x), max(y, z), 1, varies)


def put_logic(m, r, op, a, b):
    varies = 1 if moves(m, a) != 0 or moves(m, b) != 0 else 0
    one, other = m[a + L.LOW] == m[a + L.HIGH], m[b + L.LOW] == m[b + L.HIGH]
    if op == L.AND:
        if (one and m[a + L.LOW] == 0) or (other and m[b + L.LOW] == 0):
            put_bool(m, r, 1, 0, 0)
        else:
            put_bool(m, r, 1 if one and other else 0, 1, varies)
    elif op == L.OR:
        if (one and m[a + L.LOW] == 1) or (other and m[b + L.LOW] == 1):
            put_bool(m, r, 1, 1, 0)
        else:
            put_bool(m, r, 1 if one and other else 0, 0, varies)
    else:
        put_bool(m, r, 1 if one and other else 0, m[a + L.LOW] ^ m[b + L.LOW], varies)


def put_choice(m, r, c, a, b, n):
    if m[c + L.LOW] == m[c + L.HIGH]:
        put_copy(m, r, a if m[c + L.LOW] != 0 else b)
    elif m[a + L.SLOPE] == m[b + L.SLOPE]:
        step = gcd(gcd(m[a + L.STEP], m[b + L.STEP]), m[a + L.LOW] - m[b + L.LOW])
        varies = 1 if m[c + L.VARIES] != 0 or m[a + L.VARIES] != 0 or m[b + L.VARIES] != 0 else 0
        low, high = min(m[a + L.LOW], m[b + L.LOW]), max(m[a + L.HIGH], m[b + L.HIGH])
        put(m, r, m[a + L.SLOPE], low, high, step, varies)
    else:
        low = min(lowest(m, a, n), lowest(m, b, n))
        put(m, r, 0, low, max(highest(m, a, n), highest(m, b, n)), 1, 1)


def put_magnitude(m, r, a, n):
    if lowest(m, a, n) >= 0:
        put_copy(m, r, a)
    elif highest(m, a, n) <= 0:
        put(m, r, -m[a + L.SLOPE], -m[a + L.HIGH], -m[a + L.LOW], m[a + L.STEP], m[a + L.VARIES])
    else:
        put(m, r, 0, 0, max(-lowest(m, a, n), highest(m, a, n)), 1, moves(m, a))


def put_variable(m, r, k, loop, owner):
    """The variable of a loop: this one's, one of a loop around it (as it is), or one inside (all its iterations)."""
    if owner < loop:
        x = m[m[L.VALUES] + k]
        put(m, r, 0, x, x, 0, 0)
    elif owner == loop:
        put(m, r, 1, m[m[L.LOOPS] + L.LOOP_SIZE * loop + L.L_V], m[m[L.LOOPS] + L.LOOP_SIZE * loop + L.L_V], 0, 0)
    else:
        inner = m[L.LOOPS] + L.LOOP_SIZE * owner
        start = m[L.RANGES] + L.RANGE_SIZE * m[inner + L.L_START_NODE]
        stop = m[L.RANGES] + L.RANGE_SIZE * m[inner + L.L_STOP_NODE]
        # The last iteration, relative to the start: their difference has the slopes' difference, which CHECK_SAME of the
        # trip count keeps 0 where it matters.
        trips = m[stop + L.HIGH] - m[start + L.LOW]
        high = m[start + L.HIGH] + max(0, trips - 1)
        put(m, r, m[start + L.SLOPE], m[start + L.LOW], high, 1, m[start + L.VARIES])


def analyse(m, k, loop, n):
    """Set the range of node k, whose arguments have theirs."""
    at = m[L.NODES] + L.NODE_SIZE * k
    op = m[at]
    r = m[L.RANGES] + L.RANGE_SIZE * k
    if op == L.VAR:
        put_variable(m, r, k, loop, m[at + 1])
    elif op == L.LANE:
        put(m, r, 0, 0, m[at + 1] - 1, 1, 0)
    else:
        a = m[L.RANGES] + L.RANGE_SIZE * m[at + 1]
        b = m[L.RANGES] + L.RANGE_SIZE * m[at + 2]
        if op == L.ADD:
            put(m, r, m[a + L.SLOPE] + m[b + L.SLOPE], m[a + L.LOW] + m[b + L.LOW], m[a + L.HIGH] + m[b + L.HIGH],
                gcd(m[a + L.STEP], m[b + L.STEP]), max(m[a + L.VARIES], m[b + L.VARIES]))  # fmt: skip
        elif op == L.SUB:
            put(m, r, m[a + L.SLOPE] - m[b + L.SLOPE], m[a + L.LOW] - m[b + L.HIGH], m[a + L.HIGH] - m[b + L.LOW],
                gcd(m[a + L.STEP], m[b + L.STEP]), max(m[a + L.VARIES], m[b + L.VARIES]))  # fmt: skip
        elif op == L.MUL:
            put_product(m, r, a, b, n)
        elif op == L.FLOORDIV:
            put_quotient(m, r, a, b, n)
        elif op == L.MOD:
            put_remainder(m, r, a, b, n)
        elif op == L.MIN or op == L.MAX:
            put_extreme(m, r, op, a, b, n)
        elif op == L.NEG:
            put(m, r, -m[a + L.SLOPE], -m[a + L.HIGH], -m[a + L.LOW], m[a + L.STEP], m[a + L.VARIES])
        elif op == L.ABS:
            put_magnitude(m, r, a, n)
        elif op == L.AND or op == L.OR or op == L.XOR:
            put_logic(m, r, op, a, b)
        elif op == L.NOT:
            put_bool(m, r, 1 if m[a + L.LOW] == m[a + L.HIGH] else 0, 1 - m[a + L.LOW], m[a + L.VARIES])
        elif op == L.SHR:
            put_shift(m, r, a, b, n)
        elif op == L.SELECT:
            put_choice(m, r, a, b, m[L.RANGES] + L.RANGE_SIZE * m[at + 3], n)
        else:
            put_comparison(m, r, op, a, b, n)


def uniform(m, loop, n):
    """Whether the next n iterations of a loop cost the same, given the same state: 1 or 0.

    Sets how far the slots of rings turn with an iteration (L_ROTATIONS, a number for each buffer; -1: not said).
    """
    record = m[L.LOOPS] + L.LOOP_SIZE * loop
    for i in range(m[record + L.L_N_KNOWN]):
        analyse(m, m[m[record + L.L_KNOWN] + i], loop, n)
    for i in range(m[record + L.L_N_CHECKS]):
        at = m[record + L.L_CHECKS] + L.CHECK_SIZE * i
        r = m[L.RANGES] + L.RANGE_SIZE * m[at + 1]
        if m[r + L.VARIES] != 0:
            return 0
        kind = m[at]
        slope = m[r + L.SLOPE]
        if kind == L.CHECK_SAME:
            if slope != 0:
                return 0
        elif kind == L.CHECK_MODULO:
            if slope % m[at + 3] * m[at + 2] % m[at + 3] != 0:
                return 0
        else:
            rotation = m[record + L.L_ROTATIONS] + m[at + 2]
            turn = slope % m[at + 3]
            if m[rotation] == -1:
                m[rotation] = turn
            elif m[rotation] != turn:
                return 0
    return 1
