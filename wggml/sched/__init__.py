"""The scheduler: one graph over several backends."""

from wggml.sched.sched import Sched
from wggml.sched.split import Plan, Split

__all__ = ["Plan", "Sched", "Split"]
