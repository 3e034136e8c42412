# SPDX-License-Identifier: Apache-2.0
"""`detour-p4c`: our compiler with the command line of p4c-bm2-ss, and of p4c itself, for Makefiles and harnesses.

Options that only tune p4c are taken and have no effect; the others are refused by name.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from detour.base.errors import DetourError
from detour.base.standard import open_standard
from detour.cli import reported

_HELP = """\
usage: detour-p4c [options] PROGRAM.p4

  -o FILE                          write the BMv2 JSON; into a folder under the program's name
  -I DIR, -D NAME[=VALUE]          as in `detour compile`
  -E                               print the program after preprocessing
  --arch v1model|psa|pna           the architecture
  --p4runtime-files FILES          write the P4Info to FILES, with commas between: .txt, .txtpb, .json, .bin
  --p4runtime-entries-files FILES  write the entries of the source, too
  --Wdisable[=KINDS]               no warnings, or not those of KINDS
  --Werror[=KINDS]                 warnings are errors
  --std p4-16, --target bmv2       what is the case anyway
  --version, --help
"""

_WITH_VALUE = {
    "--std": "p4-16 is the only language", "--target": "", "--arch": "", "-o": "", "-I": "", "-D": "",
    "--p4runtime-files": "", "--p4runtime-file": "", "--p4runtime-entries-files": "", "--p4runtime-entries-file": "",
    "--p4runtime-format": "", "-b": "", "--p4v": "", "-x": "", "-U": "",
}  # fmt: skip
_WITHOUT_EFFECT = frozenset(
    """
    --emit-externs --ndebug --nocpp-warnings -g -v -S -c --parser-inline-opt --doNotEmitIncludes --loopsUnroll
    --savetemps --debug
    """.split()  # noqa: SIM905
)
_TUNING_WITH_VALUE = frozenset(
    """
    -T --maxErrorCount --pp --top4 --dump --excludeFrontendPasses --excludeMidendPasses --excludeBackendPasses
    --disable-annotations --toJSON
    """.split()  # noqa: SIM905
)
_TARGETS = ("bmv2", "bmv2-ss-p4org", "simple_switch", "psa_switch", "pna_nic")


@dataclass
class _Words:
    """The command line."""

    program: Path | None = None
    values: dict[str, str] = field(default_factory=dict)
    include: list[Path] = field(default_factory=list)
    defines: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    preprocess: bool = False


def main(arguments: Sequence[str] | None = None) -> int:
    """Compile as the command line says. Exit code 2: the program has errors, or the command line is wrong."""
    if arguments is None:
        open_standard()
    words = list(sys.argv[1:] if arguments is None else arguments)
    return reported(lambda: _run(words), "detour-p4c")


def _run(arguments: list[str]) -> int:
    if "--help" in arguments or "-h" in arguments or not arguments:
        print(_HELP, end="")
        return 0
    if "--version" in arguments:
        from detour.base.version import VERSION

        print(f"detour-p4c\nVersion {VERSION} (P4_16 1.2.5, in place of p4c-bm2-ss)")
        return 0
    words = _parsed(arguments)
    if words.program is None:
        raise DetourError("give a P4 program")
    return _preprocess(words) if words.preprocess else _compile(words)


def _parsed(arguments: list[str]) -> _Words:
    words = _Words()
    rest = list(reversed(arguments))
    while rest:
        word = rest.pop()
        name, equals, value = word.partition("=")
        if word[:2] in ("-I", "-D", "-o", "-U") and len(word) > 2 and not word.startswith("--"):
            _store(words, word[:2], word[2:])
        elif name in ("--Wdisable", "--Werror", "--Wwarn", "--Winfo"):
            words.warnings += _warnings(name, value)
        elif word == "-E":
            words.preprocess = True
        elif name in _WITH_VALUE or (name in _TUNING_WITH_VALUE and not equals):
            if not equals and not rest:
                raise DetourError(f"{name} needs a value")
            _store(words, name, value if equals else rest.pop())
        elif name in _WITHOUT_EFFECT or name in _TUNING_WITH_VALUE or word.startswith("-T"):
            continue
        elif word.startswith("-"):
            raise DetourError(f"there is no option {word} (try `detour-p4c --help`)")
        elif words.program is None:
            words.program = Path(word)
        else:
            raise DetourError(f"give one program, not two: {words.program} and {word}")
    return words


def _warnings(name: str, value: str) -> list[str]:
    kinds = [kind for kind in value.split(",") if kind]
    if name == "--Wdisable":
        return [f"no-{kind}" for kind in kinds] or ["none"]
    return ["error"] if name == "--Werror" and not kinds else []


def _store(words: _Words, name: str, value: str) -> None:
    if name == "-I":
        words.include.append(Path(value))
    elif name == "-D":
        words.defines.append(value)
    elif name in ("--std", "-x", "--p4v") and value.removeprefix("p4-").removeprefix("p4_") != "16":
        raise DetourError(f"{name} {value}: only P4_16 is compiled; p4test --p4v 14 of p4c translates P4_14 to it")
    elif name in ("--target", "-b") and value not in _TARGETS:
        raise DetourError(f"{name} {value}: the targets are {', '.join(_TARGETS)}")
    else:
        words.values[name] = value


def _preprocess(words: _Words) -> int:
    from detour.cli.compile import macros
    from detour.p4.messages import CompileError, Messages, render
    from detour.p4.preprocess import Preprocessor, as_text

    messages = Messages()
    assert words.program is not None
    try:
        tokens = Preprocessor(messages, words.include, macros(words.defines)).run(words.program)
        print(as_text(tokens), end="")
    except OSError as error:
        raise DetourError(f"{words.program}: {error.strerror}") from None
    except CompileError as error:
        if error.message is not None:
            messages.errors.append(error.message)
    for message in messages.errors:
        print(render(message, "error"), file=sys.stderr)
    return 2 if messages.errors else 0


def _compile(words: _Words) -> int:
    from detour.cli.compile import macros, sort_warnings, write_results
    from detour.p4.compile import compile_file

    assert words.program is not None
    values = words.values
    p4info = _paths(values.get("--p4runtime-files") or values.get("--p4runtime-file"))
    entries = _paths(values.get("--p4runtime-entries-files") or values.get("--p4runtime-entries-file"))
    defines = macros(words.defines)
    if "--target" in values or "-b" in values:
        defines = {"__TARGET_BMV2__": "1", **defines}
    result = compile_file(
        words.program,
        _architecture(values.get("--arch")),
        words.include,
        defines,
        p4info=bool(p4info or entries),
        entries=bool(entries),
    )
    sort_warnings(result, words.warnings)
    if text := result.rendered():
        print(text, file=sys.stderr)
    if result.errors:
        return 2
    write_results(result, _output(values.get("-o"), words.program), p4info, entries, values.get("--p4runtime-format"))
    return 0


def _paths(text: str | None) -> list[Path | None]:
    return [Path(part) for part in (text or "").split(",") if part]


def _architecture(name: str | None) -> str | None:
    return None if name is None else "v1model" if name == "ss" else name


def _output(text: str | None, program: Path) -> Path | None:
    """p4c takes a folder, p4c-bm2-ss a file."""
    if text is None:
        return None
    path = Path(text)
    if path.is_dir() or text.endswith("/") or not path.suffix:
        path.mkdir(parents=True, exist_ok=True)
        return path / f"{program.stem}.json"
    return path


if __name__ == "__main__":
    sys.exit(main())
