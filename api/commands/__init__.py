"""What the command line does, as functions with results: everything there can be had here.

    from tilewright import commands

    commands.show("examples/matmul.py", schedule="expert").buffers
    commands.verify("examples/matmul.py", schedule="expert").ok
    commands.simulate("examples/matmul.py", machine="toy", sizes=dict(M=64, N=64, K=64)).account
    commands.account("examples/matmul.py", machine="toy", sizes=dict(M=64, N=64, K=64)).footprint
    commands.count("examples/matmul.py", sizes=dict(M=64, N=64, K=64)).evaluations
    commands.perf("examples/matmul.py", schedule="expert").explanation
    commands.tune("examples/matmul.py", sizes=dict(M=256, N=256, K=256), budget_s=10).best
    commands.plan("examples/attention.py", sizes=dict(H=8, M=1024, N=1024, D=64)).metrics
    commands.records.explain("examples/matmul.py", sizes=dict(M=64, N=64, K=64)).used
    commands.schedules.check("matmul.tw", ["examples/matmul.py"]).ok
    commands.export("examples/matmul.py", schedule="expert", to="c").files
    commands.explain("examples/matmul.py", schedule="tiled", machine="toy", sizes=dict(M=64, N=64, K=64)).steps

The demonstration is `tilewright.demo.demo`.
"""

from tilewright.commands import records, schedules
from tilewright.commands.account import account, read_lock
from tilewright.commands.bisect import Culprit, bisect, verify_plan
from tilewright.commands.cache import CacheReport, cache, cache_clear
from tilewright.commands.count import count
from tilewright.commands.doctor import Diagnosis, doctor
from tilewright.commands.export import export
from tilewright.commands.machines import machines
from tilewright.commands.perf import Performance, perf
from tilewright.commands.plan import plan
from tilewright.commands.show import Shown, show
from tilewright.commands.simulate import simulate
from tilewright.commands.targets import Target, UsageError, find_target
from tilewright.commands.tune import tune
from tilewright.commands.verify import Step, Verification, verify
from tilewright.commands.views import compare, explain, sweep

__all__ = [
    "CacheReport", "Culprit", "Diagnosis", "Performance", "Shown", "Step", "Target", "UsageError", "Verification",
    "account", "bisect", "cache", "cache_clear", "compare", "count", "doctor", "explain", "export", "find_target",
    "machines", "perf", "plan", "read_lock", "records", "schedules", "show", "simulate", "sweep", "tune", "verify",
    "verify_plan",
]  # fmt: skip
