"""A kernel for the measurement of starts: importing this module imports tilewright and traces the kernel."""

import tilewright as tw

M, N, K = tw.sizes("M N K")


@tw.kernel
def matmul(A: tw.f32[M, K], B: tw.f32[K, N]):
    i, j = tw.vars("i j")
    k = tw.rdom(k=K)
    C = tw.func("C")
    C[i, j] = 0.0
    C[i, j] += A[i, k] * B[k, j]
    return C[:M, :N]
