"""`DynTallocr`: places blocks in memory that does not exist yet, and learns how much is needed.

Memory is a list of chunks, each to become one buffer. A chunk holds its free blocks in order of
offset and its high-water mark. The last block of a chunk is the open end that may grow it; the
blocks before it are holes.
"""

from __future__ import annotations

from wggml.errors import PlanError

MAX_CHUNKS = 16
MAX_FREE_BLOCKS = 256
ENDLESS = (2**64 - 1) // 2  # size of a chunk without a limit

Addr = tuple[int, int]  # (chunk, byte offset within it)


def pad(size: int, alignment: int) -> int:
    """`size` rounded up to a multiple of `alignment` (bytes)."""
    return -(-size // alignment) * alignment


class _Chunk:
    """Free blocks as two parallel lists in order of offset, and the high-water mark in bytes."""

    __slots__ = ("max_size", "offsets", "sizes")

    def __init__(self, size: int) -> None:
        self.offsets = [0]
        self.sizes = [size]
        self.max_size = 0


class DynTallocr:
    """Best-fit placement in at most 16 chunks.

    Args:
        alignment: every size is rounded up to it (bytes), so every offset is a multiple of it.
        max_chunk_size: bytes after which a new chunk is begun. One block larger than that gets a
            chunk of its own size, and the 16th chunk has no limit.
    """

    __slots__ = ("alignment", "chunks", "max_chunk_size")

    def __init__(self, alignment: int, max_chunk_size: int) -> None:
        self.alignment = alignment
        self.max_chunk_size = min(max_chunk_size, ENDLESS)
        self.chunks: list[_Chunk] = []

    @property
    def max_sizes(self) -> list[int]:
        """High-water mark of each chunk in bytes."""
        return [c.max_size for c in self.chunks]

    def reset(self) -> None:
        """Forget all chunks."""
        self.chunks.clear()

    def alloc(self, size: int) -> Addr:
        """Place `size` bytes; returns (chunk, offset). Raises `PlanError` when no block is
        large enough and there is no chunk left to begin."""
        size = pad(size, self.alignment)
        c, i = self._best_hole(size) or self._best_end(size) or self._new_chunk(size)
        chunk = self.chunks[c]
        offset = chunk.offsets[i]
        if chunk.sizes[i] == size:
            del chunk.offsets[i], chunk.sizes[i]
        else:
            chunk.offsets[i] += size
            chunk.sizes[i] -= size
        chunk.max_size = max(chunk.max_size, offset + size)
        return c, offset

    def _best_hole(self, size: int) -> Addr | None:
        """(chunk, block) of the smallest fitting hole. The search begins anew in each chunk and
        equal sizes go to the later block: the last chunk that has a fitting hole wins."""
        for c in range(len(self.chunks) - 1, -1, -1):
            sizes = self.chunks[c].sizes
            best, best_size = -1, ENDLESS * 2
            for i in range(len(sizes) - 1):
                if size <= sizes[i] <= best_size:
                    best, best_size = i, sizes[i]
            if best >= 0:
                return c, best
        return None

    def _best_end(self, size: int) -> Addr | None:
        """(chunk, block) of the open end to use: while all would grow their chunk, the one that
        grows least; else the one that leaves the least of what its chunk already has."""
        found, best_reuse = None, -(2**63)
        for c, chunk in enumerate(self.chunks):
            if chunk.sizes and chunk.sizes[-1] >= size:
                reuse = chunk.max_size - chunk.offsets[-1] - size
                if best_reuse < reuse if best_reuse < 0 else 0 <= reuse < best_reuse:
                    found, best_reuse = (c, len(chunk.sizes) - 1), reuse
        return found

    def _new_chunk(self, size: int) -> Addr:
        n = len(self.chunks)
        if n >= MAX_CHUNKS:
            raise PlanError(
                f"no place for {size} bytes: all {MAX_CHUNKS} chunks are in use and the last has "
                "no block of that size; use a smaller batch or context"
            )
        last = n == MAX_CHUNKS - 1
        self.chunks.append(_Chunk(ENDLESS if last else max(size, self.max_chunk_size)))
        return n, 0

    def free(self, addr: Addr, size: int) -> None:
        """Give back `size` bytes at `addr`, merging with free neighbours.

        Raises `PlanError` when a chunk would get more than 256 free blocks.
        """
        size = pad(size, self.alignment)
        c, begin = addr
        chunk = self.chunks[c]
        offsets, sizes = chunk.offsets, chunk.sizes
        end = begin + size
        for i, offset in enumerate(offsets):
            if offset + sizes[i] == begin:
                sizes[i] += size
                if i + 1 < len(offsets) and end == offsets[i + 1]:
                    sizes[i] += sizes[i + 1]
                    del offsets[i + 1], sizes[i + 1]
                return
            if end == offset:
                offsets[i] = begin
                sizes[i] += size
                if i and offsets[i - 1] + sizes[i - 1] == begin:
                    sizes[i - 1] += sizes[i]
                    del offsets[i], sizes[i]
                return
        self._insert(c, begin, size)

    def _insert(self, c: int, begin: int, size: int) -> None:
        offsets, sizes = self.chunks[c].offsets, self.chunks[c].sizes
        if len(offsets) >= MAX_FREE_BLOCKS:
            raise PlanError(
                f"chunk {c} is in too many pieces: freeing {size} bytes at {begin} would make more "
                f"than {MAX_FREE_BLOCKS} free blocks; compute the graph in several parts"
            )
        i = 0
        while i < len(offsets) and offsets[i] < begin:
            i += 1
        offsets.insert(i, begin)
        sizes.insert(i, size)
