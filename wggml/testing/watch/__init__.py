"""Re-running the operator cases that an edited WGSL template concerns.

`files` sees edits, `worker` is the child process that owns the device, `process` starts it, gives
it a time limit and starts it again when a shader hangs or kills it, `watcher` puts them together.
"""

from wggml.testing.watch.process import Outcome
from wggml.testing.watch.watcher import Round, Watcher

__all__ = ["Outcome", "Round", "Watcher"]
