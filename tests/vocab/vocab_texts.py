"""Texts for which ids were recorded: short ones that show where a pre-tokenizer cuts, and longer
ones for whole tokenizers."""

from __future__ import annotations

CUTS = (
    " ", "  ", "   ", "\n", "\n\n", " \n ", "\t\n a", "a  b", " a", "  a", "a \n", "a\r\nb",
    " \r\n x", "\u00a0a", "a\u3000。b", "\u2028x", "\u0085y", "\x1cz", "a\x00b", "\u200bq", "1",
    "12", "123", "1234", "1234567", " 12345", "3.14159", "a1234b", "  1234", "1,234", "²³½",
    "٣٤٥٦", "x²", "'s", "'S", "it's", "IT'S", "we'll", "I'VE x", "'RE'd", "'ſ", "o'clock",
    "l'eau", "HelloWorld", "HTTPServer", "camelCase", "éÈ", "ÀBc", "ǅx", "straße", "foo/bar/",
    "a/\n/b", "!!\n\n", "...", "?!x", " -x", "(a)", "[b]{c}", "<|x|>", "#tag", "@me", "$5",
    "a_b", "+=", "`~^|", "¿qué?", "“q”", "…", "— x", "x—y", "€9", "a.b,c",
    "你好", "你好a", "日本語かな",
    "カナ。", "한국어", "中文1中", "ไทย", "ကာ", "ខ្មែរ", "ㄅㄆ", "｡ﾟ", "e\u0301x", "नमस्ते", "\u0301a",
    "שָׁל", "عربي", "😀", "👩\u200d👧", "a😀b", "🇩🇪", "\u0378", "\u0897", "\U0001fbfa",
    "\U000e0041", "\ue000x", "\ufffe", "IMGIMGABZ", "<sentinel:1>", "a b c", "x\u2581y",
)  # fmt: skip
"""At most 14 UTF-8 bytes or so each, see `substring_bpe_kv`."""

TEXTS = (
    "", " ", "  ", "    x", "\n", "\n\n\n\n", "a\n\n\nb", "Hello world", " Hello  world ",
    "Olá, o que é isto?", "def f(x):\n    return x + 1\n", "<s>", "<s> Hello</s>",
    "<|user|>Hi<|end|>", "<|user|> Hi <|end|> there", "[x]", " [x] y", "a<b>c", "a <b> c",
    "<unk>", "[MASK] the [SEP]", "x<|user|><|user|>y", "<0x41>", "<|us er|>",
    "Straße ÀÉÎ café naïve Ünïcödé", "e\u0301 cafe\u0301",
    "unhappiness tokenizers the hello-world", "1234 12 0.5 $3", "中文 is 中",
    "한국어", "Привет дом",
    "\u200bzero\u00adwidth", "\x00\x01\ufffd", "😀 emoji 👩\u200d👩\u200d👧", "\u2028\ua3e4",
    "tab\tand\rcr", "a\u3000b\u00a0c", "İstanbul ΑΣ", "\u2581a \u2581", "§ 。!?",
    "o mar e a terra, o mar e a terra", "x" * 300, " " * 40, "ab" * 90, "<x>", "\n<x>\n\n",
)  # fmt: skip
"""For whole tokenizers."""
