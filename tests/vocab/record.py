"""Record expected ids from llama.cpp for the vocabularies of `vocab_builders`.

Run by hand: `python -m tests.vocab.record PATH`, where PATH is the shared object of the
`xllamacpp` wheel (recorded with 2026.10.11549); needs the `gguf` package. Not used by the tests.
"""

from __future__ import annotations

import ctypes
import json
import lzma
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import gguf

from tests.vocab.vocab_builders import KV, glass_kv, spaced_bpe_kv, spm_kv, substring_bpe_kv, wpm_kv
from tests.vocab.vocab_texts import CUTS, TEXTS
from wggml.vocab.pretokenizers import PRE_TOKENIZERS

DATA = Path(__file__).resolve().parent.parent / "data" / "vocab"
_VOCAB_ONLY = 72  # offset of the flag in llama_model_params


class _Params(ctypes.Structure):
    _fields_ = (("bytes", ctypes.c_uint8 * 160),)  # more than the struct has: passed on the stack


class Reference:
    """llama.cpp's tokenizer for one vocabulary."""

    def __init__(self, library: str, kv: KV) -> None:
        self._lib = ctypes.CDLL(library)
        self._lib.llama_model_default_params.restype = _Params
        self._lib.llama_model_load_from_file.restype = ctypes.c_void_p
        self._lib.llama_model_load_from_file.argtypes = (ctypes.c_char_p, _Params)
        self._lib.llama_model_get_vocab.restype = ctypes.c_void_p
        self._lib.llama_model_get_vocab.argtypes = (ctypes.c_void_p,)
        self._lib.llama_tokenize.argtypes = (
            *(ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int, ctypes.c_void_p, ctypes.c_int),
            *(ctypes.c_bool, ctypes.c_bool),
        )
        params = self._lib.llama_model_default_params()
        params.bytes[_VOCAB_ONLY] = 1
        with tempfile.TemporaryDirectory() as folder:
            path = f"{folder}/vocab.gguf"
            write_vocab(path, kv)
            model = self._lib.llama_model_load_from_file(path.encode(), params)
        if not model:
            raise RuntimeError("the reference refuses the vocabulary")
        self._vocab = self._lib.llama_model_get_vocab(model)
        self._ids = (ctypes.c_int32 * 100_000)()

    def encode(self, text: str, add_special: bool, parse_special: bool) -> list[int]:
        data = text.encode("utf-8")
        n = self._lib.llama_tokenize(
            self._vocab, data, len(data), self._ids, len(self._ids), add_special, parse_special
        )
        return list(self._ids[:n])


def write_vocab(path: str, kv: KV) -> None:
    """A GGUF file with a vocabulary and the hyperparameters the reference insists on."""
    writer = gguf.GGUFWriter(path, "llama")
    for name in ("block_count", "context_length", "embedding_length", "feed_forward_length"):
        writer.add_uint32(f"llama.{name}", 64)
    writer.add_uint32("llama.attention.head_count", 1)
    writer.add_float32("llama.attention.layer_norm_rms_epsilon", 1e-5)
    for key, value in kv.items():
        if isinstance(value, list):
            writer.add_array(key, value)
        elif isinstance(value, bool):
            writer.add_bool(key, value)
        elif isinstance(value, int):
            writer.add_uint32(key, value)
        else:
            writer.add_string(key, value)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()


def _cases(reference: Reference, texts: Iterable[str]) -> list[dict[str, Any]]:
    flags = {"plain": (0, 0), "parse": (0, 1), "special": (1, 1)}
    return [
        {"text": text}
        | {name: reference.encode(text, bool(a), bool(p)) for name, (a, p) in flags.items()}
        for text in texts
    ]


def main(library: str) -> None:
    glass = DATA / "glass-pt.tokenizer.json"
    alphabet = set(glass_kv(glass)["tokenizer.ggml.tokens"]) | {" "}
    vocabularies = {
        "spm": spm_kv(glass),
        "spm_no_prefix": spm_kv(glass, add_space_prefix=False, add_eos_token=True),
        "gemma4": spaced_bpe_kv(glass),
        "sarvam-moe": spaced_bpe_kv(glass, "sarvam-moe"),
        "wpm": wpm_kv(),
    }
    whole = {name: _cases(Reference(library, kv), TEXTS) for name, kv in vocabularies.items()}
    whole["glass"] = _cases(
        Reference(library, glass_kv(glass)), [text for text in TEXTS if set(text) <= alphabet]
    )
    cuts = {}
    for name, pre in PRE_TOKENIZERS.items():
        if pre.byte_level:
            reference = Reference(library, substring_bpe_kv(CUTS, name))
            cuts[name] = [reference.encode(text, False, False) for text in CUTS]
    data = json.dumps({"texts": whole, "cuts": cuts}, ensure_ascii=True, separators=(",", ":"))
    with lzma.open(DATA / "recorded.json.xz", "wt") as file:
        file.write(data)


if __name__ == "__main__":
    main(sys.argv[1])
