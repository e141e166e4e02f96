"""Checked reading of the `tokenizer.ggml.*` keys of a GGUF file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from wggml.errors import TokenizerError

PREFIX = "tokenizer.ggml."

ID_KEYS: dict[str, tuple[str, ...]] = {
    "bos": ("bos_token_id",),
    "eos": ("eos_token_id",),
    "eot": ("eot_token_id",),
    "eom": ("eom_token_id",),
    "unk": ("unknown_token_id",),
    "sep": ("seperator_token_id",),  # spelt so in the format
    "pad": ("padding_token_id",),
    "mask": ("mask_token_id",),
    "cls": ("cls_token_id",),
    "fim_pre": ("fim_pre_token_id", "prefix_token_id"),
    "fim_suf": ("fim_suf_token_id", "suffix_token_id"),
    "fim_mid": ("fim_mid_token_id", "middle_token_id"),
    "fim_pad": ("fim_pad_token_id",),
    "fim_rep": ("fim_rep_token_id",),
    "fim_sep": ("fim_sep_token_id",),
}
"""Role of a special token -> the keys that may give its id, without prefix."""


def _sequence(kv: Mapping[str, Any], name: str, what: str) -> Sequence[Any] | None:
    key = PREFIX + name
    value = kv.get(key)
    if value is None:
        return None
    if isinstance(value, (str, bytes, Mapping)) or not hasattr(value, "__len__"):
        raise TokenizerError(f"{key} must be an array of {what}, not {type(value).__name__}")
    items: Sequence[Any] = value.tolist() if hasattr(value, "tolist") else list(value)
    return items


def read_strings(kv: Mapping[str, Any], name: str) -> list[str] | None:
    """The array of strings under `name`, or None. Bytes that are no UTF-8 survive as lone
    surrogates (`surrogateescape`)."""
    items = _sequence(kv, name, "strings")
    if items is None:
        return None
    if not all(map(str.__instancecheck__, items)):
        items = [_as_text(item, i, name) for i, item in enumerate(items)]
    return list(items)


def _as_text(item: Any, index: int, name: str) -> str:
    if isinstance(item, str):
        return item
    if isinstance(item, (bytes, bytearray, memoryview)):
        return bytes(item).decode("utf-8", "surrogateescape")
    raise TokenizerError(f"{PREFIX}{name}[{index}] must be a string, not {type(item).__name__}")


def read_numbers(kv: Mapping[str, Any], name: str, n_tokens: int) -> list[Any] | None:
    """The array of numbers under `name`, at least one for each token, or None."""
    items = _sequence(kv, name, "numbers")
    if items is None:
        return None
    if len(items) < n_tokens:
        raise TokenizerError(
            f"{PREFIX}{name} has {len(items)} entries for {n_tokens} tokens "
            f"({PREFIX}tokens); it needs one for each. The file is damaged or was converted wrongly"
        )
    if n_tokens and not isinstance(items[0], (int, float)):
        raise TokenizerError(
            f"{PREFIX}{name} must be an array of numbers, not of {type(items[0]).__name__}"
        )
    return list(items[:n_tokens])


def read_flag(kv: Mapping[str, Any], name: str, default: bool) -> bool:
    """The boolean under `name`, or `default`."""
    value = kv.get(PREFIX + name)
    return default if value is None else bool(value)


def read_ids(kv: Mapping[str, Any], n_tokens: int) -> dict[str, int | None]:
    """Role -> id of every special token that a key gives; None where no key does."""
    found: dict[str, int | None] = {}
    for role, names in ID_KEYS.items():
        found[role] = None
        for name in names:
            value = kv.get(PREFIX + name)
            if value is None:
                continue
            if not 0 <= int(value) < n_tokens:
                raise TokenizerError(
                    f"{PREFIX}{name} is {value}, outside the vocabulary of {n_tokens} tokens "
                    f"(0..{n_tokens - 1}). Correct the key or remove it"
                )
            found[role] = int(value)
            break
    return found


def read_merges(kv: Mapping[str, Any]) -> dict[str, int]:
    """ "left right" -> rank. Raises TokenizerError for a merge without two halves."""
    merges = read_strings(kv, "merges")
    if merges is None:
        raise TokenizerError(
            f"{PREFIX}merges is missing; a vocabulary of tokenizer.ggml.model 'gpt2' needs it. "
            f"Convert the model again"
        )
    for i, merge in enumerate(merges):
        if not 0 < merge.find(" ", 1) < len(merge) - 1:
            raise TokenizerError(
                f"{PREFIX}merges[{i}] is {merge!r}; a merge is two token texts with one space "
                f"between them"
            )
    ranks = dict(zip(merges, range(len(merges)), strict=True))
    if len(ranks) < len(merges):  # a merge listed twice counts at its first place
        ranks = {merge: i for i, merge in reversed(list(enumerate(merges)))}
    return ranks
