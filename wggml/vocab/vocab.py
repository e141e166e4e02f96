"""The vocabulary of a model: text to token ids and back."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, Protocol

from wggml.errors import TokenizerError
from wggml.vocab.bpe import BpeEncoder
from wggml.vocab.byte_level import from_alphabet
from wggml.vocab.metadata import (
    PREFIX,
    read_flag,
    read_ids,
    read_merges,
    read_numbers,
    read_strings,
)
from wggml.vocab.missing import MissingCharacterError
from wggml.vocab.pretokenizers import PreTokenizer, find_pre_tokenizer
from wggml.vocab.special import HIDDEN, Fragment, SpecialTokens, TokenType, find_eog, find_named
from wggml.vocab.spm import SPACE_MARK, SpmEncoder
from wggml.vocab.wpm import WpmEncoder

_log = logging.getLogger("wggml.vocab")

# tokenizer.ggml.model -> (type, ids assumed where no key gives them). The ids are the reference's.
_MODELS: dict[str, tuple[str, dict[str, int]]] = {
    "llama": ("spm", {"bos": 1, "eos": 2, "unk": 0}),
    "gpt2": ("bpe", {"bos": 11, "eos": 11}),
    "gemma4": ("bpe", {}),
    "bert": ("wpm", {"bos": 101, "unk": 100, "sep": 102, "pad": 0, "mask": 103}),
    "none": ("none", {}),
    "no_vocab": ("none", {}),
}
_KNOWN_BUT_UNSUPPORTED = {
    "t5": "ugm",
    "rwkv": "rwkv",
    "plamo2": "plamo2",
    "hybriddna": "bpe",
    "whitespace": "bpe",
    "test": "test",
}
_VERBATIM = (*HIDDEN, TokenType.USER_DEFINED)


class _Encoder(Protocol):
    def encode(self, text: str) -> list[int]: ...


class Vocab:
    """Token texts, types and special ids of one model, with its tokenizer.

    Made by `from_kv`. Immutable after that; safe to share between threads.

    Attributes: `type` is 'bpe', 'spm', 'wpm' or 'none'; `pre` the pre-tokenizer's name ('' where
    there is none); `bos`, `eos`, `eot`, `eom`, `unk`, `sep`, `pad`, `mask`, `nl` and `fim_pre`,
    `fim_suf`, `fim_mid`, `fim_pad`, `fim_rep`, `fim_sep` are ids or None; `eog_ids` are all ids
    that end a generation.
    """

    type: str
    pre: str
    n_tokens: int
    bos: int | None
    eos: int | None
    eot: int | None
    eom: int | None
    unk: int | None
    sep: int | None
    pad: int | None
    mask: int | None
    nl: int | None
    fim_pre: int | None
    fim_suf: int | None
    fim_mid: int | None
    fim_pad: int | None
    fim_rep: int | None
    fim_sep: int | None
    add_bos: bool
    add_eos: bool
    add_space_prefix: bool
    eog_ids: frozenset[int]

    @classmethod
    def from_kv(cls, kv: Mapping[str, Any], *, pre: str | None = None) -> Vocab:
        """The vocabulary described by GGUF metadata.

        `kv` maps keys to plain values: str, numbers, bool, and sequences or NumPy arrays of them.
        `pre` overrides `tokenizer.ggml.pre`. Raises TokenizerError, naming the key, for a missing
        or invalid one, for an unknown `tokenizer.ggml.pre` and for a kind of tokenizer that is not
        supported. A missing `tokenizer.ggml.pre` means 'default', with a warning.
        """
        return cls(kv, pre)

    def __init__(self, kv: Mapping[str, Any], pre: str | None = None) -> None:
        self.type, defaults = _model_of(kv)
        if self.type == "none":
            self._init_none(kv)
            return
        self._texts = _read_texts(kv)
        self.n_tokens = len(self._texts)
        types = read_numbers(kv, "token_type", self.n_tokens)
        self._types: list[int] = types or [TokenType.NORMAL] * self.n_tokens
        self._scores: list[float] | None = read_numbers(kv, "scores", self.n_tokens)
        self._token_ids = _index(self._texts)
        self.pre, self._pre = self._pre_tokenizer(kv, pre)
        self._read_special_ids(kv, defaults)
        self._read_flags(kv)
        self._encoder = self._make_encoder(kv)
        self.nl = self._newline()
        lstrip, rstrip = self._strip_sets(kv)
        self._special = SpecialTokens(self._texts, self._types, lstrip=lstrip, rstrip=rstrip)

    # --- construction ---------------------------------------------------------------------------

    def _init_none(self, kv: Mapping[str, Any]) -> None:
        arch = kv.get("general.architecture", "")
        tokens = read_strings(kv, "tokens")
        self.n_tokens = int(kv.get(f"{arch}.vocab_size", 0)) if tokens is None else len(tokens)
        self._texts = tokens or [""] * self.n_tokens
        self._types = [TokenType.NORMAL] * self.n_tokens
        self._scores = None
        self._token_ids = {}
        self.pre = ""
        self._set_ids(read_ids(kv, self.n_tokens))
        self.nl = None
        self.eog_ids = frozenset(i for i in (self.eos, self.eot, self.eom) if i is not None)
        self.add_bos = read_flag(kv, "add_bos_token", False)
        self.add_eos = read_flag(kv, "add_eos_token", False)
        self.add_space_prefix = False

    def _pre_tokenizer(
        self, kv: Mapping[str, Any], override: str | None
    ) -> tuple[str, PreTokenizer | None]:
        name = override if override is not None else kv.get(f"{PREFIX}pre")
        if self.type != "bpe":
            return str(name or ""), None
        if kv.get(f"{PREFIX}model") == "gemma4" and override is None:
            name = "gemma4"
        if not name:
            _log.warning(
                "%spre is missing: text is cut by the 'default' pre-tokenizer, which may not be "
                "the one the model was trained with; the output can be worse. Convert the model "
                "again or pass pre=...",
                PREFIX,
            )
            name = "default"
        return str(name), find_pre_tokenizer(str(name))

    def _read_special_ids(self, kv: Mapping[str, Any], defaults: Mapping[str, int]) -> None:
        ids = read_ids(kv, self.n_tokens)
        if self.type == "wpm" and ids["bos"] is None:
            ids["bos"] = ids["cls"]
        for role, token in defaults.items():
            if ids[role] is None and self._may_default(role, token):
                ids[role] = token
        find_named(self._token_ids, self._types, ids)
        self._set_ids(ids)
        self.eog_ids = find_eog(self._token_ids, self._types, ids)

    def _may_default(self, role: str, token: int) -> bool:
        """Whether an assumed id is believable: a token that is special by type or by its look.
        Most GPT-2 vocabularies have ordinary text at the reference's id 11, which must not end a
        generation."""
        if token >= self.n_tokens or (role == "bos" and self._pre and self._pre.no_default_bos):
            return False
        looks_special = self._texts[token].startswith(("<", "[")) and len(self._texts[token]) > 2
        return self._types[token] in HIDDEN or looks_special

    def _set_ids(self, ids: Mapping[str, int | None]) -> None:
        for role, token in ids.items():
            if role != "cls":
                setattr(self, role, token)

    def _read_flags(self, kv: Mapping[str, Any]) -> None:
        spm, wpm = self.type == "spm", self.type == "wpm"
        pre = self._pre
        bos = spm or wpm or (pre is not None and pre.add_bos)
        self.add_bos = read_flag(kv, "add_bos_token", bos) or (pre is not None and pre.force_bos)
        self.add_eos = read_flag(kv, "add_eos_token", False)
        # BPE text is never prefixed, whatever the key says.
        self.add_space_prefix = spm and read_flag(kv, "add_space_prefix", True)
        if self.add_bos and self.bos is None:
            raise TokenizerError(
                f"{PREFIX}add_bos_token is set, but {PREFIX}bos_token_id is missing and the "
                f"tokenizer has no usual one. Add the id or clear the flag"
            )
        if self.add_eos and self.eos is None:
            raise TokenizerError(
                f"{PREFIX}add_eos_token is set, but {PREFIX}eos_token_id is missing. "
                f"Add the id or clear the flag"
            )

    def _make_encoder(self, kv: Mapping[str, Any]) -> _Encoder:
        if self.type == "bpe":
            assert self._pre is not None
            if self.pre == "kimi-k2" and f"{PREFIX}merges" not in kv:
                return BpeEncoder(self._token_ids, {}, self._pre)
            return BpeEncoder(self._token_ids, read_merges(kv), self._pre)
        if self.type == "spm":
            if self._scores is None:
                raise TokenizerError(
                    f"{PREFIX}scores is missing; a vocabulary of tokenizer.ggml.model 'llama' "
                    f"orders its merges by them. Convert the model again"
                )
            return SpmEncoder(self._token_ids, self._scores)
        for role in ("bos", "sep", "unk"):
            if getattr(self, role) is None:
                raise TokenizerError(
                    f"the {role} token id is missing ({PREFIX}*_token_id); a vocabulary of "
                    f"tokenizer.ggml.model 'bert' needs it"
                )
        assert self.unk is not None
        lowercase = read_flag(kv, "normalizer.lowercase", True)
        accents = read_flag(kv, "normalizer.strip_accents", lowercase)
        return WpmEncoder(self._token_ids, self.unk, lowercase=lowercase, strip_accents=accents)

    def _newline(self) -> int | None:
        if self.type == "spm":
            found = self._token_ids.get("<0x0A>", self._token_ids.get("\n"))
            return self.pad if found is None else found
        if self.type == "bpe":
            try:
                return self._encoder.encode("\n")[0]
            except MissingCharacterError:
                pass
        return self.pad

    def _strip_sets(self, kv: Mapping[str, Any]) -> tuple[frozenset[int], frozenset[int]]:
        """Ids of special tokens that swallow the spaces to their left and to their right. GGUF
        has no key for it; the reference goes by the model's name, and so does this."""
        ids = self._token_ids
        arch, name = str(kv.get("general.architecture", "")), str(kv.get("general.name", ""))
        if any(part in self.pre for part in ("jina-v2-de", "jina-v2-es", "jina-v2-code")) or any(
            part in arch for part in ("nomic-bert-moe", "jina-bert-v3")
        ):
            return frozenset(ids[text] for text in ("<mask>",) if text in ids), frozenset()
        if any(part in name.lower() for part in ("phi-3", "phi3")):
            kinds = frozenset(map(int, _VERBATIM))
            right = {i for i, kind in enumerate(self._types) if kind in kinds}
            right.update(ids[text] for text in ("</s>",) if text in ids)
            right.difference_update(ids.get(t, -1) for t in ("<unk>", "<s>", "<|endoftext|>"))
            return frozenset(), frozenset(right)
        if "modern-bert" in name.lower():
            return frozenset(ids[text] for text in ("[MASK]",) if text in ids), frozenset()
        return frozenset(), frozenset()

    # --- tokens ---------------------------------------------------------------------------------

    def __len__(self) -> int:
        return self.n_tokens

    def __repr__(self) -> str:
        pre = f", pre={self.pre!r}" if self.type == "bpe" else ""
        return f"Vocab({self.type!r}{pre}, n_tokens={self.n_tokens})"

    def _check(self, token: int) -> int:
        if not 0 <= token < self.n_tokens:
            raise TokenizerError(
                f"token id {token} is outside the vocabulary of {self.n_tokens} tokens "
                f"(0..{self.n_tokens - 1})"
            )
        return token

    def is_eog(self, token: int) -> bool:
        """Whether `token` ends a generation."""
        return token in self.eog_ids

    def token_text(self, token: int) -> str:
        """The text as the vocabulary writes it (U+2581 or 'Ġ' for a space)."""
        return self._texts[self._check(token)]

    def token_type(self, token: int) -> TokenType:
        """The type; CONTROL for tokens that mark an end by name, whatever the file says."""
        kind = self._types[self._check(token)]
        return TokenType(kind) if 0 <= kind <= TokenType.BYTE else TokenType.UNDEFINED

    def score(self, token: int) -> float:
        """The merge score, 0.0 where the file has none."""
        self._check(token)
        return 0.0 if self._scores is None else float(self._scores[token])

    def token_id(self, text: str) -> int | None:
        """The id of the token that is written `text`, or None."""
        return self._token_ids.get(text)

    # --- text to ids ----------------------------------------------------------------------------

    def encode(
        self, text: str, *, add_special: bool = True, parse_special: bool = False
    ) -> list[int]:
        """Token ids of `text`.

        `add_special` adds BOS and EOS (or CLS and SEP) where the model wants them; `parse_special`
        reads the text of control tokens as those tokens. Text made by a chat template is encoded
        with add_special=False, parse_special=True, since the template writes BOS itself. Lone
        surrogates count as U+FFFD. Raises TokenizerError for a character that the vocabulary can
        express neither as a token nor as bytes.
        """
        if self.type == "none":
            raise TokenizerError(
                "this model has no vocabulary (tokenizer.ggml.model is 'none'): pass token ids"
            )
        text = _without_surrogates(text)
        ids: list[int] = []
        if add_special and (self.add_bos or self.type == "wpm") and self.bos is not None:
            ids.append(self.bos)
        after_special = True
        for part in self._special.partition(text, parse_special=parse_special):
            if isinstance(part, int):
                ids.append(part)
            else:
                ids.extend(self._encode_fragment(part, self.add_space_prefix and after_special))
            after_special = isinstance(part, int)
        if add_special:
            self._finish(ids)
        return ids

    def _encode_fragment(self, part: Fragment, prefix: bool) -> list[int]:
        try:
            return self._encoder.encode(" " + part.text if prefix else part.text)
        except MissingCharacterError as missing:
            at = max(part.offset + missing.offset - prefix, 0)
            raise TokenizerError(
                f"no token for {missing.char!r} (U+{ord(missing.char):04X}) at character {at}: "
                f"this vocabulary has no byte tokens to write it with. Remove or replace it"
            ) from None

    def _finish(self, ids: list[int]) -> None:
        """Append what ends a text and warn about marks that are there twice."""
        if self.add_bos and len(ids) >= 2 and ids[1] == ids[0] == self.bos:
            _log.warning(
                "the text begins with the BOS token and the model adds one: it is there twice. "
                "Encode text made by a chat template with add_special=False"
            )
        if self.type == "wpm":
            assert self.sep is not None
            ids.append(self.sep)
        elif self.add_eos and self.eos is not None:
            if ids and ids[-1] == self.eos:
                _log.warning("the text ends with the EOS token and the model adds one")
            ids.append(self.eos)

    # --- ids to text ----------------------------------------------------------------------------

    def piece(self, token: int, *, special: bool = False) -> bytes:
        """The bytes that `token` stands for; maybe part of a character. Control and unknown tokens
        give b"" unless `special`, then their text."""
        kind = self._types[self._check(token)]
        text = self._texts[token]
        if kind in _VERBATIM:
            return b"" if kind in HIDDEN and not special else _utf8(text)
        if kind == TokenType.NORMAL:
            if self.type == "bpe" and self._is_byte_level:
                return from_alphabet(text)
            return _utf8(text.replace(SPACE_MARK, " "))
        if kind == TokenType.BYTE:
            return self._byte_of(token)
        return b""

    @cached_property
    def _is_byte_level(self) -> bool:
        return self._pre is not None and self._pre.byte_level

    def _byte_of(self, token: int) -> bytes:
        text = self._texts[token]
        try:
            return bytes((int(text[3:5], 16),))
        except ValueError:
            raise TokenizerError(
                f"{PREFIX}tokens[{token}] is {text!r} and of type BYTE; such a token is written "
                f"<0xHH>"
            ) from None

    def decode(self, ids: Iterable[int], *, special: bool = False) -> str:
        """The text of `ids`; bytes that are no UTF-8 become U+FFFD.

        Where the tokenizer prefixes text with a space, that space is removed again: at the start
        and after every special token. Nothing else is cleaned up.
        """
        pieces = []
        strip = self.add_space_prefix or self.type == "wpm"
        at_start = strip
        for token in ids:
            piece = self.piece(token, special=special)
            marks = self._types[token] in _VERBATIM
            if at_start and not marks:
                piece = piece.removeprefix(b" ")
            at_start = strip and marks
            pieces.append(piece)
        return b"".join(pieces).decode("utf-8", "replace")


def _without_surrogates(text: str) -> str:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return re.sub("[\ud800-\udfff]", "\ufffd", text)
    return text


def _utf8(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _model_of(kv: Mapping[str, Any]) -> tuple[str, dict[str, int]]:
    model = kv.get(f"{PREFIX}model")
    if model is None:
        raise TokenizerError(
            f"{PREFIX}model is missing: the file carries no tokenizer. Use a file that does, or "
            f"pass token ids"
        )
    found = _MODELS.get(str(model))
    if found is not None:
        return found
    known = "is not supported yet" if model in _KNOWN_BUT_UNSUPPORTED else "is unknown"
    kind = _KNOWN_BUT_UNSUPPORTED.get(str(model))
    raise TokenizerError(
        f"{PREFIX}model is {model!r}{f' ({kind.upper()})' if kind else ''}, which {known}; "
        f"supported are {', '.join(map(repr, _MODELS))}"
    )


def _read_texts(kv: Mapping[str, Any]) -> list[str]:
    texts = read_strings(kv, "tokens")
    if not texts:
        state = "missing" if texts is None else "empty"
        raise TokenizerError(
            f"{PREFIX}tokens is {state}; it holds the vocabulary. The file is damaged or was "
            f"converted without one"
        )
    if "" in texts:
        texts = [text or f"[EMPTY_{i}]" for i, text in enumerate(texts)]
    return texts


def _index(texts: Sequence[str]) -> dict[str, int]:
    token_ids = dict(zip(texts, range(len(texts)), strict=True))
    if len(token_ids) < len(texts):
        twice = next(text for i, text in enumerate(texts) if token_ids[text] != i)
        _log.warning(
            "%stokens lists %d texts more than once (%r for one); the last id is used",
            PREFIX,
            len(texts) - len(token_ids),
            twice,
        )
    return token_ids
