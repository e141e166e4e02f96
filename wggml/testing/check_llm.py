"""`check.py llm DIR`: tokens, teacher-forced logits and greedy texts against recorded ones."""

from __future__ import annotations

import argparse
import contextlib
import json
import re
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from wggml.llama import Llama
from wggml.models.architecture import ARCHITECTURES
from wggml.runtime.batch import Batch
from wggml.testing.llm_oracle import Case, Golden, MultiSeq, model_file, read_golden

# Where the reference's best two tokens are closer than this, either may win.
MARGIN = 0.01
# Gates of a f16 KV cache against the f32 route: what the format notes saw, times two.
F16_MEAN, F16_MAX = 1e-2, 5e-2
# Logits held at once: rows of all outputs are reduced in pieces of about this many bytes.
CHUNK_BYTES = 32 << 20


@dataclass(slots=True)
class Row:
    """The outcome of one prompt on one setting."""

    model: str
    prompt: str
    n_tokens: int
    max_diff: float
    mean_diff: float
    lse_diff: float
    same_best: int
    judged: int
    greedy_equal: int
    greedy_judged: int
    tokens_ok: bool
    passed: bool
    why: str = ""


def add_arguments(p: argparse.ArgumentParser) -> None:
    """Declare the flags of this sub-command."""
    p.add_argument("directory", help="in the format of llm/FORMAT.md")
    p.add_argument("--models", default="", help="regular expression a model's whole name matches")
    p.add_argument("--prompts", default="", help="regular expression a prompt's whole name matches")
    p.add_argument("--device", default="cpu", help="index or part of a name; several with commas")
    p.add_argument("-ngl", default="-1", help="layers on the device: N, or A..B for every count")
    p.add_argument("--kv", choices=("f32", "f16"), default="f32", help="type of the KV cache")
    p.add_argument("--copies", type=int, choices=(1, 4), default=1, help="copies of the inputs")
    p.add_argument("-fa", choices=("on", "off"), default="on", help="fused attention")
    p.add_argument("--ubatch", type=int, default=0, help="tokens a graph; default by vocabulary")
    p.add_argument("--cpu-cache-mb", type=int, default=None)
    p.add_argument("--no-greedy", action="store_true", help="teacher-forced logits only")
    p.add_argument("--json", help="write all rows to this file")


def main(args: argparse.Namespace) -> int:
    """Run the checks; 0 when every judged prompt passed and at least one was judged."""
    rows: list[Row] = []
    seen = 0
    for golden in read_golden(args.directory, args.models):
        seen += 1
        if golden.arch not in ARCHITECTURES:
            print(f"{golden.name}: skipped, architecture {golden.arch} is not supported")
            continue
        for n_gpu_layers in _layer_counts(args.ngl):
            rows += _check_model(golden, args, n_gpu_layers)
    if args.json:
        Path(args.json).write_text(json.dumps([asdict(r) for r in rows], indent=1))
    failed = [r for r in rows if not r.passed]
    print(f"{len(rows)} prompts judged, {len(rows) - len(failed)} passed, {len(failed)} failed")
    if not seen:
        print(f"no model in {args.directory} matches {args.models!r}")
    return 0 if rows and not failed else 1


def _layer_counts(text: str) -> range:
    first, dots, last = text.partition("..")
    return range(int(first), int(last if dots else first) + 1)


def _check_model(golden: Golden, args: argparse.Namespace, n_gpu_layers: int) -> list[Row]:
    wanted = re.compile(args.prompts or ".*")
    cases = [c for c in golden.cases if wanted.fullmatch(c.name)]
    if not cases:
        return []
    label = f"{golden.name} ({args.device}, ngl {n_gpu_layers}, kv {args.kv}, fa {args.fa})"
    start = time.perf_counter()
    rows = []
    with _open(golden, args, n_gpu_layers, max(len(c.tokens) for c in cases)) as llama:
        for case in cases:
            rows.append(_check_case(golden, case, llama, args))
            print(_line(rows[-1]), flush=True)
        if golden.multi_seq is not None and not args.prompts:
            rows.append(_check_multi(golden, golden.multi_seq, llama, args.kv))
            print(_line(rows[-1]), flush=True)
        if golden.tokenize and not args.prompts:
            rows.append(_check_strings(golden, llama))
            print(_line(rows[-1]), flush=True)
        for note in llama.model.notes:
            print(f"  note: {note}")
    ok = sum(r.passed for r in rows)
    print(f"{label}: {ok}/{len(rows)} passed in {time.perf_counter() - start:.1f} s", flush=True)
    return rows


@contextlib.contextmanager
def _open(
    golden: Golden, args: argparse.Namespace, n_gpu_layers: int, longest: int
) -> Iterator[Llama]:
    with tempfile.TemporaryDirectory() as folder:
        path = model_file(golden, Path(folder))
        n_ctx = max(256, -(-(longest + 64) // 256) * 256)
        llama = Llama(
            path, device=args.device, n_gpu_layers=n_gpu_layers, n_ctx=n_ctx,
            n_ubatch=args.ubatch or 128, n_seq_max=4, flash_attn=args.fa == "on",
            type_k=args.kv, type_v=args.kv, parallel_copies=args.copies > 1,
            cpu_cache_mb=args.cpu_cache_mb,
        )  # fmt: skip
        try:
            yield llama
        finally:
            llama.close()


def _line(r: Row) -> str:
    state = "ok  " if r.passed else "FAIL"
    return (
        f"  {state} {r.model}/{r.prompt}: {r.n_tokens} tokens, logits max {r.max_diff:.2e} mean "
        f"{r.mean_diff:.2e}, lse {r.lse_diff:.2e}, best {r.same_best}/{r.judged}, greedy "
        f"{r.greedy_equal}/{r.greedy_judged}{', ' + r.why if r.why else ''}"
    )


# ---- one prompt ----------------------------------------------------------------------------------


def _check_case(golden: Golden, case: Case, llama: Llama, args: argparse.Namespace) -> Row:
    llama.context.kv.clear()
    top, lse, best = _teacher_forced(llama, case)
    diff = np.abs(top - case.top_logits).astype(np.float64)
    margin = case.top_logits[:, 0] - case.top_logits[:, 1]
    judged = margin > MARGIN
    same = (best == case.top_ids[:, 0]) & judged
    greedy_equal, greedy_judged = (0, 0) if args.no_greedy else _greedy(llama, case)
    row = Row(
        golden.name, case.name, len(case.tokens), float(diff.max()), float(diff.mean()),
        float(np.abs(lse - case.lse).max()), int(same.sum()), int(judged.sum()),
        greedy_equal, greedy_judged, _tokens_ok(llama, case), True,
    )  # fmt: skip
    row.why = "; ".join(_faults(row, golden.tolerance, args.kv))
    row.passed = not row.why
    return row


def _faults(r: Row, tolerance: float, kv: str) -> list[str]:
    out = []
    if not np.isfinite(r.max_diff):
        out.append("logits are not finite")
    if kv == "f32":
        if r.max_diff > tolerance or r.lse_diff > tolerance:
            out.append(f"logits differ by more than {tolerance}")
        if r.same_best < r.judged:
            out.append("another best token")
        if r.greedy_equal < r.greedy_judged:
            out.append("another greedy text")
    elif r.max_diff > F16_MAX or r.mean_diff > F16_MEAN:
        out.append(f"logits differ by more than mean {F16_MEAN}, max {F16_MAX}")
    if not r.tokens_ok:
        out.append("other token ids or pieces")
    return out


def _teacher_forced(
    llama: Llama, case: Case
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float64], npt.NDArray[np.int64]]:
    """Our logits at the reference's top ids, log-sum-exp and best ids, at the positions judged
    (golden data of some prompts covers the last positions only)."""
    first = len(case.tokens) - len(case.top_ids)
    step = max(1, min(llama.context.n_ubatch, CHUNK_BYTES // (4 * llama.model.hp.n_vocab)))
    tops, lses, bests = [], [], []
    for i in range(0, len(case.tokens), step):
        part = case.tokens[i : i + step]
        logits = llama.context.decode(Batch.of(part, i, all_outputs=True))
        rows = np.arange(i, i + len(part)) - first
        logits, rows = logits[rows >= 0], rows[rows >= 0]
        tops.append(np.take_along_axis(logits, case.top_ids[rows].astype(np.int64), 1))
        peak = logits.max(axis=1, keepdims=True) if len(logits) else logits[:, :1]
        sums = np.exp(logits - peak).sum(axis=1, dtype=np.float64)
        lses.append(peak[:, 0].astype(np.float64) + np.log(sums))
        bests.append(logits.argmax(axis=1))
    return np.concatenate(tops), np.concatenate(lses), np.concatenate(bests)


def _greedy(llama: Llama, case: Case) -> tuple[int, int]:
    """(equal, judged) greedy tokens; judged up to the first step with a near tie."""
    judged = next(
        (i for i, m in enumerate(case.greedy_margin) if m < MARGIN), len(case.greedy_margin)
    )
    llama.context.kv.clear()
    logits = llama.eval(case.tokens[: case.n_prompt])[-1]
    for i in range(judged):
        token = int(np.argmax(logits))
        if token != case.greedy_ids[i]:
            return i, judged
        if i + 1 < judged:
            logits = llama.eval([token], position=case.n_prompt + i)[-1]
    return judged, judged


def _tokens_ok(llama: Llama, case: Case) -> bool:
    if case.text is None:
        return True
    vocab = llama.model.vocab
    special = vocab.encode(case.text, add_special=True, parse_special=True)
    plain = vocab.encode(case.text, add_special=False, parse_special=False)
    pieces = [vocab.piece(t, special=True) for t in special]
    return special == case.ids_special and plain == case.ids_plain and pieces == case.pieces


# ---- other checks --------------------------------------------------------------------------------


def _check_multi(golden: Golden, m: MultiSeq, llama: Llama, kv: str) -> Row:
    """All sequences in one batch, then one step of each, against each alone."""
    llama.context.kv.clear()
    batch = Batch()
    for s, tokens in enumerate(m.seqs):
        for i, t in enumerate(tokens):
            batch.add(t, i, (s,), output=True)
    got = llama.context.decode(batch)
    step = Batch()
    for s, t in enumerate(m.next_ids):
        step.add(t, len(m.seqs[s]), (s,), output=True)
    got_next = llama.context.decode(step)
    llama.context.kv.clear()
    diffs = [np.abs(got - np.concatenate(m.logits)), np.abs(got_next - np.stack(m.next_logits))]
    worst = max(float(d.max()) for d in diffs)
    row = Row(
        golden.name, "multi_seq", len(batch), worst, float(diffs[0].mean()), 0.0, 0, 0, 0, 0, True,
        True,
    )  # fmt: skip
    row.why = "; ".join(_faults(row, golden.tolerance, kv))
    row.passed = not row.why
    return row


# key of tokenize.json -> (add_special, parse_special)
_ENCODINGS = {
    "ids_plain": (False, False), "ids_parse": (False, True),
    "ids_add": (True, False), "ids_special": (True, True),
}  # fmt: skip


def _check_strings(golden: Golden, llama: Llama) -> Row:
    bad: list[str] = []
    vocab = llama.model.vocab
    for case in golden.tokenize:
        for key, (add, parse) in _ENCODINGS.items():
            ids = vocab.encode(case["text"], add_special=add, parse_special=parse)
            if key in case and ids != case[key]:
                bad.append(f"{key} of {case['text']!r:.40}")
        if "pieces_hex" in case:
            pieces = [vocab.piece(t, special=True).hex() for t in case["ids_plain"]]
            if pieces != case["pieces_hex"]:
                bad.append(f"pieces of {case['text']!r:.40}")
    row = Row(
        golden.name, "tokenize", len(golden.tokenize), 0.0, 0.0, 0.0, 0, 0, 0, 0, not bad, not bad
    )
    row.why = f"{len(bad)} wrong, first: {bad[0]}" if bad else ""
    return row


def run(argv: list[str] | None = None) -> int:
    """Entry for tests and `python -m`: parse `argv` and run."""
    parser = argparse.ArgumentParser(description=__doc__)
    add_arguments(parser)
    return main(parser.parse_args(argv))
