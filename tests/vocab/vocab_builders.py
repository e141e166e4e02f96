"""Small vocabularies built in code, as GGUF metadata. The recorded ids in `tests/data/vocab` belong
to exactly these."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from wggml.vocab.byte_level import byte_to_char, to_alphabet

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, BYTE = 1, 2, 3, 4, 6
BYTES = [f"<0x{byte:02X}>" for byte in range(256)]
KV = dict[str, Any]


def _kv(model: str, tokens: list[str], types: list[int], **keys: Any) -> KV:
    keys = {"model": model, "tokens": tokens, "token_type": types, **keys}
    return {f"tokenizer.ggml.{name}": value for name, value in keys.items()}


def _glass(path: Path) -> tuple[list[str], list[tuple[str, str]]]:
    data = json.loads(path.read_text(encoding="utf-8"))
    return data["alphabet"], [(left, right) for left, right in data["merges"]]


def glass_kv(path: Path) -> KV:
    """The vocabulary of a glassllm model: SPM without byte tokens."""
    alphabet, merges = _glass(path)
    first = ["<pad>", "<unk>", "<bos>", "<eos>", *alphabet]
    tokens = first + [left + right for left, right in merges]
    return _kv(
        "llama",
        tokens,
        [CONTROL, UNKNOWN, CONTROL, CONTROL] + [NORMAL] * (len(tokens) - 4),
        scores=[0.0] * len(first) + [-(i + 1.0) for i in range(len(merges))],
        bos_token_id=2,
        eos_token_id=3,
        unknown_token_id=1,
        padding_token_id=0,
        add_bos_token=False,
        add_space_prefix=False,
    )


def spm_kv(path: Path, **keys: Any) -> KV:
    """SPM with byte tokens, a space prefix, control and user-defined tokens."""
    alphabet, merges = _glass(path)
    marks = ["<|user|>", "<|end|>", "[x]", "  ", "   ", "<b>"]
    kinds = [CONTROL, CONTROL, USER_DEFINED, USER_DEFINED, USER_DEFINED, USER_DEFINED]
    tokens = ["<unk>", "<s>", "</s>", *BYTES, *alphabet]
    scores = [0.0] * len(tokens) + [-(i + 1.0) for i in range(len(merges))] + [0.0] * len(marks)
    types = [UNKNOWN, CONTROL, CONTROL] + [BYTE] * 256 + [NORMAL] * (len(alphabet) + len(merges))
    tokens += [left + right for left, right in merges] + marks
    keys = {"bos_token_id": 1, "eos_token_id": 2, "unknown_token_id": 0, **keys}
    return _kv("llama", tokens, types + kinds, scores=scores, **keys)


def spaced_bpe_kv(path: Path, pre: str = "gemma4") -> KV:
    """BPE on UTF-8 with U+2581 for a space and byte tokens, as in Gemma 4."""
    alphabet, merges = _glass(path)
    first = ["<pad>", "<bos>", "<eos>", "<unk>", *BYTES, *alphabet]
    tokens = first + [left + right for left, right in merges] + ["\n\n", "\n\n\n", "<x>"]
    n = len(tokens)
    return _kv(
        "gpt2",
        tokens,
        [CONTROL, CONTROL, CONTROL, UNKNOWN] + [BYTE] * 256 + [NORMAL] * (n - 261) + [USER_DEFINED],
        merges=[f"{left} {right}" for left, right in merges],
        pre=pre,
        bos_token_id=1,
        eos_token_id=2,
    )


def substring_bpe_kv(texts: Iterable[str], pre: str) -> KV:
    """Byte-level BPE in which every substring of `texts` is a token and every way to put it
    together is a merge: each word of the pre-tokenizer becomes exactly one token, so the ids show
    where it cut. Cubic in the length of a text."""
    words: set[str] = set()
    for text in texts:
        data = to_alphabet(text)
        words.update(data[i:j] for i in range(len(data)) for j in range(i + 2, len(data) + 1))
    ordered = sorted(words, key=lambda word: (len(word), word))
    merges = [f"{word[:i]} {word[i:]}" for word in ordered for i in range(1, len(word))]
    tokens = [*byte_to_char().values(), *ordered, "<s>", "</s>"]
    return _kv(
        "gpt2",
        tokens,
        [NORMAL] * (len(tokens) - 2) + [CONTROL] * 2,
        merges=merges,
        pre=pre,
        bos_token_id=len(tokens) - 2,
        eos_token_id=len(tokens) - 1,
        add_bos_token=False,
    )


def wpm_kv() -> KV:
    """WordPiece with the letters, some parts of words and some signs."""
    letters = "abcdefghijklmnopqrstuvwxyz0123456789ßαдع"
    words = ["the", "hello", "world", "un", "happi", "cafe", "naive", "token", "12", "中", "ᄒ"]
    parts = ["ing", "ness", "s", "er", "ize", "34", "llo", "a"]
    signs = [*"!?.,'-$[]#<>~", "。", "§"]
    first = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    starts = [f"▁{word}" for word in dict.fromkeys([*words, *signs, *letters])]
    inner = list(dict.fromkeys([*parts, *letters]))
    tokens = first + starts + inner
    return _kv(
        "bert",
        tokens,
        [CONTROL] * 5 + [NORMAL] * (len(tokens) - 5),
        padding_token_id=0,
        unknown_token_id=1,
        cls_token_id=2,
        bos_token_id=2,
        seperator_token_id=3,
        mask_token_id=4,
    )
