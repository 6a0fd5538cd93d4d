"""Measuring: candidates are compiled side by side, checked, and timed alone, in processes that may crash or hang.

with LocalMeasurer() as measurer:
    task = Task.of(matmul, dict(M=1024, N=1024, K=1024))
    for outcome in measurer.run(task, [str(schedule), ...]):
        print(outcome.status, outcome.figure)
"""

from tilewright.autotune.measure.cluster import DaskMeasurer
from tilewright.autotune.measure.local import LocalMeasurer, ranked
from tilewright.autotune.measure.task import OBJECTIVES, STATUSES, Limits, Measurer, Outcome, Task

__all__ = ["OBJECTIVES", "STATUSES", "DaskMeasurer", "Limits", "LocalMeasurer", "Measurer", "Outcome", "Task", "ranked"]
