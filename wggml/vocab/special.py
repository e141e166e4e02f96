"""Which tokens are special, found by key and by name, and where they occur in a text."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, MutableSequence, Sequence
from dataclasses import dataclass
from enum import IntEnum
from itertools import pairwise


class TokenType(IntEnum):
    """`tokenizer.ggml.token_type`."""

    UNDEFINED = 0
    NORMAL = 1
    UNKNOWN = 2
    CONTROL = 3
    USER_DEFINED = 4
    UNUSED = 5
    BYTE = 6


HIDDEN = (TokenType.CONTROL, TokenType.UNKNOWN)
"""Types whose text is no part of the output and is read as a token only on request."""

# Texts by which the reference recognises a token whose id no key gives.
_EOT = (
    "<|eot_id|>", "<|im_end|>", "<|end|>", "<end_of_turn>", "<|endoftext|>", "<|end_of_text|>",
    "<EOT>", "_<EOT>", "[EOT]", "<｜end▁of▁sentence｜>", "<end_of_utterance>",
)  # fmt: skip
NAMED: dict[str, tuple[str, ...]] = {
    "eot": _EOT,
    "eom": ("<|eom_id|>",),
    "fim_pre": (
        "<|fim_prefix|>", "<fim-prefix>", "<fim_prefix>", "<｜fim▁begin｜>", "<PRE>", "▁<PRE>",
        "<|code_prefix|>", "<|prefix|>",
    ),
    "fim_suf": (
        "<|fim_suffix|>", "<fim-suffix>", "<fim_suffix>", "<｜fim▁hole｜>", "<SUF>", "▁<SUF>",
        "<|code_suffix|>", "<|suffix|>",
    ),
    "fim_mid": (
        "<|fim_middle|>", "<fim-middle>", "<fim_middle>", "<｜fim▁end｜>", "<MID>", "▁<MID>",
        "<|code_middle|>", "<|middle|>",
    ),
    "fim_pad": ("<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>", "[PAD]"),
    "fim_rep": ("<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<REPO>", "<reponame>"),
    "fim_sep": ("<|file_sep|>",),
}  # fmt: skip
_EOG = (
    "<|eot_id|>", "<|im_end|>", "<|end|>", "<|return|>", "<|call|>", "<|flush|>", "<|calls|>",
    "<end_of_turn>", "<|endoftext|>", "</s>", "<|eom_id|>", "<EOT>", "_<EOT>", "[EOT]", "[EOS]",
    "<|end_of_text|>", "<end_of_utterance>", "<eos>", "<turn|>", "<|tool_response>",
    "<｜end▁of▁sentence｜>", "[e~[",
)  # fmt: skip
_SHOWN = ("<|channel|>", "<|message|>", "<|start|>", "<|constrain|>")
"""gpt-oss marks its channels with these; they must be rendered, so they are user-defined."""


def find_named(
    token_ids: Mapping[str, int], types: MutableSequence[int], known: dict[str, int | None]
) -> None:
    """Fill the missing entries of `known` from token texts and make the tokens found CONTROL.

    Of several candidates the first listed is taken; for `eot`, the first that is not EOS: where a
    vocabulary ends turns and texts with different tokens, EOS names one and EOT the other.
    """
    for role, texts in NAMED.items():
        if known.get(role) is not None:
            continue
        found = [token_ids[text] for text in texts if text in token_ids]
        if role == "eot":
            found.sort(key=lambda token: token == known.get("eos"))
        if found:
            known[role] = found[0]
            types[found[0]] = TokenType.CONTROL


def find_eog(
    token_ids: Mapping[str, int], types: MutableSequence[int], known: Mapping[str, int | None]
) -> frozenset[int]:
    """Ids that end generation. Changes `types` where a token's name contradicts its type."""
    named = {text: token_ids[text] for text in _EOG if text in token_ids}
    for end in named.values():
        types[end] = TokenType.CONTROL
    for text in _SHOWN:
        if text in token_ids:
            types[token_ids[text]] = TokenType.USER_DEFINED
    roles = ("eos", "eot", "eom", "fim_pad", "fim_rep", "fim_sep")
    eog = {token for role in roles if (token := known.get(role)) is not None}
    eog.update(named.values())

    # gpt-oss and solar-open: <|end|> only ends a message of several.
    calls = not named.keys().isdisjoint({"<|call|>", "<|calls|>"})
    if calls and "<|end|>" in named and not named.keys().isdisjoint({"<|return|>", "<|flush|>"}):
        eog.discard(named["<|end|>"])
        types[named["<|end|>"]] = TokenType.USER_DEFINED
    # gemma4 has an ordinary </s> besides its own end marks.
    if "<|tool_response>" in named and "</s>" in named:
        eog.discard(named["</s>"])
        types[named["</s>"]] = TokenType.NORMAL
    return frozenset(eog)


@dataclass(frozen=True, slots=True)
class Fragment:
    """A stretch of ordinary text, starting at `offset` of the whole text, in characters."""

    text: str
    offset: int


_C_SPACES = " \t\n\v\f\r"


class SpecialTokens:
    """Cuts a text at special tokens: longer tokens first, each at its leftmost occurrences.

    A longer token wins even where a shorter one begins earlier. To stay fast with thousands of
    special tokens, only those whose first two characters occur in the text are searched for.
    """

    def __init__(
        self,
        texts: Sequence[str],
        types: Sequence[int],
        *,
        lstrip: frozenset[int] = frozenset(),
        rstrip: frozenset[int] = frozenset(),
    ) -> None:
        kinds = frozenset(map(int, (*HIDDEN, TokenType.USER_DEFINED)))
        special = [i for i, kind in enumerate(types) if kind in kinds]
        self._all = _by_start((i, texts[i]) for i in special)
        self._user_defined = _by_start(
            (i, texts[i]) for i in special if types[i] == TokenType.USER_DEFINED
        )
        self._lstrip = lstrip
        self._rstrip = rstrip

    def partition(self, text: str, *, parse_special: bool) -> list[int | Fragment]:
        """`text` as a list of token ids and non-empty fragments. Without `parse_special` only
        USER_DEFINED tokens are recognised."""
        if not text:
            return []
        parts: list[int | Fragment] = [Fragment(text, 0)]
        by_start = self._all if parse_special else self._user_defined
        for token, form in _candidates(text, by_start):
            parts = [piece for part in parts for piece in self._cut(part, token, form)]
        return parts

    def _cut(self, part: int | Fragment, token: int, form: str) -> Iterable[int | Fragment]:
        if isinstance(part, int) or form not in part.text:
            return (part,)
        text = part.text
        pieces: list[int | Fragment] = []
        start = 0
        while (at := text.find(form, start)) >= 0:
            left = text[start:at]
            if token in self._lstrip:
                left = left.rstrip(_C_SPACES)
            if left:
                pieces.append(Fragment(left, part.offset + start))
            pieces.append(token)
            start = at + len(form)
            if token in self._rstrip:
                while text[start : start + 1] in _C_SPACES and start < len(text):
                    start += 1
        if start < len(text):
            pieces.append(Fragment(text[start:], part.offset + start))
        return pieces


def _by_start(tokens: Iterable[tuple[int, str]]) -> dict[str, list[tuple[int, str]]]:
    """Tokens under their first two characters (one, for tokens of one character)."""
    table: dict[str, list[tuple[int, str]]] = defaultdict(list)
    for token, form in tokens:
        table[form[:2]].append((token, form))
    return dict(table)


def _candidates(text: str, by_start: Mapping[str, list[tuple[int, str]]]) -> list[tuple[int, str]]:
    """The tokens that occur in `text`, longest first (in bytes), lower ids first among equals."""
    if not by_start:
        return []
    starts = set(map("".join, pairwise(text)))
    starts.update(text)
    found = [
        (token, form)
        for start in starts.intersection(by_start)
        for token, form in by_start[start]
        if form in text
    ]
    found.sort(key=lambda item: (-len(item[1].encode("utf-8", "surrogateescape")), item[0]))
    return found
