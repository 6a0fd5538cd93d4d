"""What this processor has, as code is made for it."""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping

AVX512 = "TILEWRIGHT_AVX512"  # set to 0: code as for a processor without AVX-512


@functools.cache
def host_features() -> Mapping[str, bool]:
    """The features of this processor by LLVM's names. With TILEWRIGHT_AVX512=0 in the environment, which counts when it
    is first asked for, those of AVX-512 are not there."""
    from llvmlite import binding

    has: dict[str, bool] = dict(binding.get_host_cpu_features())
    if os.environ.get(AVX512) == "0":
        has |= dict.fromkeys((n for n in has if "avx512" in n or n.startswith(("evex", "avx10"))), False)
    return has


@functools.cache
def is_x86() -> bool:
    """Whether this processor is one of x86."""
    from llvmlite import binding

    return binding.get_process_triple().startswith(("x86_64", "i386", "i686"))
