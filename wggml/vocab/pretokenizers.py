r"""Pre-tokenizers: how `tokenizer.ggml.pre` cuts a text into words before BPE merges.

Each entry is a list of patterns applied one after the other: every piece of the step before is
cut into the pattern's matches and the stretches between them. No merge crosses a cut, and a
lookahead never sees beyond its piece. The patterns are those of the reference, including where it
simplifies the model's own (it cannot tell upper from lower case outside ASCII, for one).
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate

import regex

from wggml.errors import TokenizerError
from wggml.vocab.unicode_version import freeze

Cutter = Callable[[str], list[str]]
"""Cuts one piece into words whose concatenation is the piece."""


@dataclass(frozen=True, slots=True)
class PreTokenizer:
    """What one value of `tokenizer.ggml.pre` means."""

    steps: tuple[str | Cutter, ...]
    """Patterns (or functions, where a pattern would take quadratic time), in order."""
    ignore_merges: bool = False
    """A whole word that is a token is taken without looking at the merges."""
    add_bos: bool = False
    """Default of `tokenizer.ggml.add_bos_token`."""
    force_bos: bool = False
    """BOS is added whatever the file says."""
    no_default_bos: bool = False
    """There is no BOS unless the file names one."""
    byte_level: bool = True
    """Tokens are written in GPT-2's byte alphabet; otherwise in UTF-8 with `<0xXX>` byte tokens."""
    escape_spaces: bool = False
    """A space becomes U+2581 first, as in SPM."""
    whole_newlines: bool = False
    """A run of newlines that is a token is taken whole."""


# --- patterns -----------------------------------------------------------------------------------

_CONTRACTION = "(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])"
_SPACES = r"\s*[\r\n]+|\s+(?!\S)|\s+"
_GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"


def _words(
    digits: str,
    *,
    contraction: str = _CONTRACTION + "|",
    letters: str = r"[^\r\n\p{L}\p{N}]?\p{L}+",
    symbols: str = r" ?[^\s\p{L}\p{N}]+[\r\n]*",
    spaces: str = _SPACES,
) -> str:
    """The shape shared by the GPT-4 family."""
    return f"{contraction}{letters}|{digits}|{symbols}|{spaces}"


_LLAMA3 = _words(r"\p{N}{1,3}")
_QWEN2 = _words(r"\p{N}")


def _cased(letter: str, suffix: str) -> str:
    """Words that also end before an ASCII capital; `letter` is the inside of a set."""
    upper, lower = f"[[{letter}]--[a-z]]", f"[[{letter}]--[A-Z]]"
    start = r"[^\r\n\p{L}\p{N}]?"
    return f"{start}{upper}*{lower}+{suffix}|{start}{upper}+{lower}*{suffix}"


def _gpt4o(letter: str, digits: str, suffix: str) -> str:
    return "(?V1)" + _words(
        digits,
        contraction="",
        letters=_cased(letter, suffix),
        symbols=r" ?[^\s\p{L}\p{N}]+[\r\n/]*",
    )


def _marked(digits: str) -> str:
    """Letters with marks, case not told apart, contraction kept on the word."""
    return _words(
        digits,
        contraction="",
        letters=r"[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+" + _CONTRACTION + "?",
        symbols=r" ?[^\s\p{L}\p{N}]+[\r\n/]*",
    )


_PUNCTUATED = (
    r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{\|}~][A-Za-z]+"
    r"|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"
)
_DEEPSEEK3_WORDS = _PUNCTUATED + r"| ?[\p{P}\p{S}]+[\r\n]*|" + _SPACES
_SPARK_WORDS = _PUNCTUATED + r"| ?[\p{P}\p{S}]+|[\r\n]|\s+(?!\S)|\s+"
_CJK_KANA = "[一-龥぀-ゟ゠-ヿ]+"
# The set holds spaces such as U+3000, which the reference does not let match here.
_CJK_HANGUL = r"(?V1)[[一-龥ࠀ-一가-퟿]--\s]+"

# Upper and lower case letters of the scripts that DeepSeek's first tokenizer lists by hand.
_DEEPSEEK_LETTERS = (
    r"\s?["
    r"A-Za-z\u00B5\u00C0-\u00D6\u00D8-\u00F6\u00F8-\u01BA\u01BC-\u01BF\u01C4-\u0293"
    r"\u0295-\u02AF\u0370-\u0373\u0376\u0377\u037B-\u037D\u037F\u0386\u0388-\u038A\u038C"
    r"\u038E-\u03A1\u03A3-\u03F5\u03F7-\u0481\u048A-\u052F\u0531-\u0556\u10A0-\u10C5"
    r"\u13A0-\u13F5\u13F8-\u13FD\u1C90-\u1CBA\u1CBD-\u1CBF\u1D00-\u1D2B\u1D6B-\u1D77"
    r"\u1D79-\u1D9A\u1E00-\u1F15\u1F18-\u1F1D\u1F20-\u1F45\u1F48-\u1F4D\u1F50-\u1F57\u1F59"
    r"\u1F5B\u1F5D\u1F5F-\u1F7D\u1F80-\u1FB4\u1FB6-\u1FBC\u1FBE\u1FC2-\u1FC4\u1FC6-\u1FCC"
    r"\u1FD0-\u1FD3\u1FD6-\u1FDB\u1FE0-\u1FEC\u1FF2-\u1FF4\u1FF6-\u1FFC\u2102\u2107"
    r"\u210A-\u2113\u2115\u2119-\u211D\u2124\u2126\u2128\u212A-\u212D\u212F-\u2134\u2139"
    r"\u213C-\u213F\u2145-\u2149\u214E\u2183\u2184\u2C00-\u2C7B\u2C7E-\u2CE4\u2CEB-\u2CEE"
    r"\u2CF2\u2CF3\uA640-\uA66D\uA680-\uA69B\uA722-\uA76F\uA771-\uA787\uA78B-\uA78E"
    r"\uAB70-\uABBF\uFB00-\uFB06\uFB13-\uFB17\uFF21-\uFF3A\uFF41-\uFF5A\U00010400-\U0001044F"
    r"\U000104B0-\U000104D3\U000104D8-\U000104FB\U00010C80-\U00010CB2\U00010CC0-\U00010CF2"
    r"\U000118A0-\U000118DF\U0001E900-\U0001E943"
    r"]+"
)
# U+3000, where the model's own set begins, is a space to the reference and does not match.
_DEEPSEEK_PUNCTUATION = r"\s?[!-/:-~！-／：-～‘-‟\u3001-。]+"

_HAN = (
    r"[\u4E00-\u9FFF\u3400-\u4DBF\U00020000-\U0002A6DF\U0002A700-\U0002EBEF"
    r"\uF900-\uFAFF\U0002F800-\U0002FA1F]"
)
_KIMI_K2 = _words(
    r"\p{N}{1,3}",
    contraction=f"{_HAN}+|",
    letters=rf"[^\r\n\p{{L}}\p{{N}}]?(?:(?!{_HAN})\p{{L}})+{_CONTRACTION}?",
)

_YOUTU_CJK = "[가-힣ㄱ-ㆎ]+|[！…“”‘’—：；，、-〿︰-﹏]+|[ㄅ-ㄯ]+|[一-龥぀-ゟ゠-ヿ]+"
_AFMOE_SCRIPTS = "[一-鿿㐀-䶿豈-﫿぀-ゟ゠-ヿ･-ﾟ⼀-⿟เ-๿຀-໿ក-៿က-႟ꩠ-ꩿꧠ-꧿가-힯ᄀ-ᇿ]+"
_BLOOM = r" ?[^(\s|.,!?…。，、।۔،)]+"
_NEWLINES = r"[^\n]+|[\n]+"
_JAIS2_SPACES = (
    r"\s*[\r\n]+|"
    + "|".join(
        rf"\s{{{n}}}(?!\S)" for n in ("512", "256", "128", "64", "32", "16", "8", "4", "1,2")
    )
    + r"|\s{1}"
)


# --- cutters: what a pattern could do only in quadratic time --------------------------------------

_DIGIT_RUN = regex.compile(r"\p{N}+")
_ASCII_DIGIT_RUN = regex.compile(r"[0-9]+")


def _cut_at(text: str, cuts: Iterable[int]) -> list[str]:
    words, start = [], 0
    for cut in (*cuts, len(text)):
        if cut > start:
            words.append(text[start:cut])
            start = cut
    return words


def _digits_from_right(text: str) -> list[str]:
    """Threes counted from the right end of a run of digits; the text before it sticks to the
    run's first group."""
    cuts: list[int] = []
    for match in _DIGIT_RUN.finditer(text):
        start, end = match.span()
        first = start + ((end - start) % 3 or 3)
        cuts.extend(range(first, end + 1, 3))
    return _cut_at(text, cuts)


def _thousands(text: str) -> list[str]:
    """A cut wherever a multiple of three ASCII digits follows up to the end of their run."""
    cuts: list[int] = []
    for match in _ASCII_DIGIT_RUN.finditer(text):
        start, end = match.span()
        cuts.extend(range(start + (end - start) % 3, end, 3))
    return _cut_at(text, cuts)


# --- the table ------------------------------------------------------------------------------------

_llama3 = PreTokenizer((_LLAMA3,), ignore_merges=True, add_bos=True)
_gpt2 = PreTokenizer((_GPT2,))
_digits_gpt2 = PreTokenizer((r"\p{N}", _GPT2))
_qwen2 = PreTokenizer((_QWEN2,))
_deepseek3 = PreTokenizer((r"\p{N}{1,3}", _CJK_KANA, _DEEPSEEK3_WORDS))
_gpt_4o = PreTokenizer((_gpt4o(r"\p{L}", r"\p{N}{1,3}", _CONTRACTION + "?"),))
_bloom = PreTokenizer((_BLOOM,))
_spaced = PreTokenizer((_NEWLINES,), byte_level=False, escape_spaces=True)
_gemma4 = PreTokenizer(
    (_NEWLINES,), byte_level=False, escape_spaces=True, whole_newlines=True, force_bos=True
)
_tiny_aya = PreTokenizer((_digits_from_right, _marked(r"\p{N}{1,3}")))
_bailingmoe = PreTokenizer(
    (
        _words(
            r"\p{N}",
            contraction="'(?:[sSdDmMtT]|[lL][lL]|[vV][eE]|[rR][eE])|",
            spaces=r"\s*[\r\n]|\s+(?!\S)|\s+",
        ),
    )
)

_FAMILIES: tuple[tuple[str, PreTokenizer], ...] = (
    (
        "default",
        PreTokenizer((r"[\p{P}\$\+<=>\^~\|]+", _GPT2, r"\p{N}+", "[0-9][0-9][0-9]")),
    ),
    ("falcon", PreTokenizer((r"[\p{P}\$\+<=>\^~\|`]+", _GPT2, "[0-9][0-9][0-9]"))),
    (
        "gpt-2 phi-2 jina-es jina-de jina-v2-es jina-v2-de jina-v1-en jina-v2-code roberta-bpe"
        " gigachat a.x-4.0 mellum modern-bert mpt olmo jais trillion granite-docling exaone4",
        _gpt2,
    ),
    (
        "starcoder refact command-r smollm codeshell exaone minerva-7b mellum2",
        _digits_gpt2,
    ),
    (
        "llama-bpe llama3 llama-v3 falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano",
        _llama3,
    ),
    ("dbrx smaug-bpe", PreTokenizer((_LLAMA3,))),
    ("chatglm-bpe", PreTokenizer((_LLAMA3,), no_default_bos=True)),
    ("glm4 glm5", PreTokenizer((_LLAMA3,), no_default_bos=True, ignore_merges=True)),
    (
        "jais-2",
        PreTokenizer((_words(r"\p{N}{1,3}", spaces=_JAIS2_SPACES),)),
    ),
    (
        "minicpm5",
        PreTokenizer((r"\p{N}{1,3}", _words(r"\p{N}+")), ignore_merges=True),
    ),
    (
        "qwen2 deepseek-r1-qwen kormo f2llmv2 megrez stablelm2 hunyuan solar-open grok-2",
        _qwen2,
    ),
    (
        "qwen35",
        PreTokenizer(
            (
                _words(
                    r"\p{N}",
                    letters=r"[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+",
                    symbols=r" ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*",
                ),
            )
        ),
    ),
    ("ufakzeka", PreTokenizer((_words(r"\p{N}", contraction=""),))),
    ("seed-coder", PreTokenizer((_words(r"\p{N}", symbols=r" ?[^\s\p{L}\p{N}\r\n]+"),))),
    ("laguna", PreTokenizer((_NEWLINES, _QWEN2))),
    ("bailingmoe bailingmoe2 llada-moe", _bailingmoe),
    (
        "exaone-moe",
        PreTokenizer(
            (
                _words(
                    r"\p{N}",
                    letters=r"[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+",
                    symbols=r" ?[^\s\p{L}\p{N}]+[\r\n/]?",
                    spaces=r"\s*[\r\n]|\s+(?!\S)|\s+",
                ),
            )
        ),
    ),
    (
        "deepseek-llm",
        PreTokenizer(
            (
                r"[\r\n]",
                _DEEPSEEK_LETTERS,
                _DEEPSEEK_PUNCTUATION,
                r"(?<!\s)\s++\Z",
                _CJK_HANGUL,
                r"\p{N}+",
            )
        ),
    ),
    (
        "deepseek-coder",
        PreTokenizer((r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", _CJK_HANGUL, r"\p{N}")),
    ),
    ("deepseek-v3 hunyuan-dense joyai-llm hy_v4", _deepseek3),
    ("spark2_5", PreTokenizer((r"\p{N}{1,3}", _CJK_KANA, _SPARK_WORDS, r"\p{N}"))),
    ("youtu", PreTokenizer((_YOUTU_CJK, _marked(r"\p{N}")), ignore_merges=True)),
    ("afmoe", PreTokenizer((_digits_from_right, _AFMOE_SCRIPTS, _DEEPSEEK3_WORDS))),
    ("kimi-k2", PreTokenizer((_KIMI_K2,))),
    (
        "tekken",
        PreTokenizer((_gpt4o(r"\p{L}", r"\p{N}", ""),), ignore_merges=True, add_bos=True),
    ),
    ("gpt-4o llama4 kanana2 talkie minimax-m2", _gpt_4o),
    (
        "granite-embed-multi-97m",
        PreTokenizer(
            (_gpt4o(r"\p{L}\p{M}", r"\p{N}{1,3}", _CONTRACTION + "?"),), ignore_merges=True
        ),
    ),
    ("tiny_aya cohere2moe", _tiny_aya),
    ("superbpe", PreTokenizer((r"\p{N}+", _thousands))),
    ("poro-chat bloom gpt3-finnish", _bloom),
    ("viking", PreTokenizer((_BLOOM, r"\p{N}"))),
    (
        "chameleon",
        PreTokenizer(
            (
                "<sentinel:[0-9]+>",
                "(?:IMGIMG)(?:(?:A|B|C|D|E|F|G|H|I){1,4})Z",
                r"[\t\n]|    |  ",
                r"\p{N}",
                r"[\p{P}!-/:-@\[-`{-~]",
                _GPT2,
            ),
            add_bos=True,
        ),
    ),
    ("gemma4 granite-embed-multi-311m", _gemma4),
    ("sarvam-moe", _spaced),
)

PRE_TOKENIZERS: dict[str, PreTokenizer] = {
    name: pre for names, pre in _FAMILIES for name in names.split()
}
"""Every accepted value of `tokenizer.ggml.pre`."""


def find_pre_tokenizer(name: str) -> PreTokenizer:
    """The entry for `name`. Raises TokenizerError for an unknown one: a guessed pre-tokenizer
    gives plausible text of lower quality, which nobody notices."""
    found = PRE_TOKENIZERS.get(name)
    if found is not None:
        return found
    near = difflib.get_close_matches(name, PRE_TOKENIZERS, n=3)
    hint = f" (similar: {', '.join(near)})" if near else ""
    raise TokenizerError(
        f"tokenizer.ggml.pre is {name!r}, which is no known pre-tokenizer{hint}; known are "
        f"{', '.join(sorted(PRE_TOKENIZERS))}. If one of them fits, pass it as "
        f"Vocab.from_kv(kv, pre=...)"
    )


# --- cutting --------------------------------------------------------------------------------------


def _pattern_cutter(pattern: str) -> Cutter:
    compiled = regex.compile(pattern)
    if compiled.groups:
        raise ValueError(f"pattern must not capture: {pattern!r}")

    def cut(text: str) -> list[str]:
        words: list[str] = compiled.findall(text)
        if sum(map(len, words)) == len(text):
            return words
        words, start = [], 0
        for match in compiled.finditer(text):
            begin, end = match.span()
            if begin > start:
                words.append(text[start:begin])
            if end > begin:
                words.append(text[begin:end])
            start = end
        if start < len(text):
            words.append(text[start:])
        return words

    return cut


@lru_cache(maxsize=8)
def _cutters(steps: tuple[str | Cutter, ...]) -> tuple[Cutter, ...]:
    return tuple(_pattern_cutter(step) if isinstance(step, str) else step for step in steps)


def _is_literal(step: str | Cutter) -> bool:
    """Whether a step looks at code points only, never at a category."""
    return isinstance(step, str) and r"\p{" not in step


def _split_frozen(pre: PreTokenizer, text: str, frozen: str) -> list[str]:
    """`split_words` for a text with characters newer than the frozen tables: sets of plain code
    points see the text, categories see its frozen form."""
    lengths = [len(text)]
    for step, cut in zip(pre.steps, _cutters(pre.steps), strict=True):
        source = text if _is_literal(step) else frozen
        lengths = [len(word) for piece in _take(source, lengths) for word in cut(piece)]
    return _take(text, lengths)


def _take(text: str, lengths: list[int]) -> list[str]:
    ends = list(accumulate(lengths))
    return [text[end - length : end] for end, length in zip(ends, lengths, strict=True)]


def split_words(pre: PreTokenizer, text: str) -> list[str]:
    """Cut `text` into non-empty words; their concatenation is `text`."""
    frozen = freeze(text)
    if frozen != text:
        return _split_frozen(pre, text, frozen)
    pieces = [text] if text else []
    for cut in _cutters(pre.steps):
        pieces = [word for piece in pieces for word in cut(piece)]
    return pieces
