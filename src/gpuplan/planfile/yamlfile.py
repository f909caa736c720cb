"""One YAML file, read by YAML 1.2's rules and within bounds."""

from __future__ import annotations

import codecs
from collections.abc import Collection
from pathlib import Path

import yaml
from yaml.nodes import Node

from gpuplan.planfile.document import Document
from gpuplan.planfile.yamlbuild import build, location_of
from gpuplan.planfile.yamlsyntax import INVALID, TOO_MUCH, Loader, TooMuch, sentence
from gpuplan.types.diagnostic import Diagnostic, Location, Problem

MAX_BYTES = 4 * 1024 * 1024
_UNREADABLE = "The file cannot be read"


def read_document(file: str, foreign_tags: Collection[str] = ()) -> Document:
    """Read one YAML document.

    Raises:
        Problem: the file cannot be read, is too large, is not YAML, or holds what is not plain data: all such faults.
    """
    text = read_text(file)
    root = _compose(file, text)
    if root is None:
        where = Location(file)
        raise Problem(Diagnostic("The file is empty", f"{file} holds nothing but comments or blanks.", where=where))
    result = build(file, root, foreign_tags)
    result.lines = tuple(text.split("\n"))
    return result


def _compose(file: str, text: str) -> Node | None:
    try:
        loader = Loader(text)
    except yaml.reader.ReaderError as error:
        before = text[: error.position]
        where = Location(file, before.count("\n") + 1, error.position - before.rfind("\n"))
        detail = f"The character U+{ord(text[error.position]):04X} cannot stand in a YAML file."
        raise Problem(Diagnostic(INVALID, detail, "Remove it.", where)) from None
    try:
        return loader.get_single_node()
    except yaml.MarkedYAMLError as error:
        detail, fix = sentence(error)
        raise Problem(Diagnostic(INVALID, detail, fix, location_of(file, error.problem_mark))) from None
    except TooMuch as error:
        raise Problem(Diagnostic(TOO_MUCH, error.sentence, where=location_of(file, error.mark))) from None
    except (ValueError, OverflowError):  # PyYAML converts escapes and directives without looking at their size
        detail = "An escape or a directive holds a number that is too large."
        raise Problem(Diagnostic(INVALID, detail, where=location_of(file, loader.get_mark()))) from None
    finally:
        loader.dispose()


def read_text(file: str) -> str:
    """The whole file as text.

    Raises:
        Problem: it cannot be read, is larger than 4 MiB, or is not UTF-8.
    """
    where = Location(file)
    try:
        with Path(file).open("rb") as stream:
            content = stream.read(MAX_BYTES + 1)
    except OSError as error:
        raise Problem(Diagnostic(_UNREADABLE, f"{file}: {error.strerror or error}.", where=where)) from None
    except ValueError:
        raise Problem(Diagnostic(_UNREADABLE, "A file name cannot hold a NUL character.")) from None
    if len(content) > MAX_BYTES:
        raise Problem(Diagnostic(TOO_MUCH, f"{file} is larger than {MAX_BYTES >> 20} MiB.", where=where))
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise Problem(Diagnostic(_UNREADABLE, f"{file} is UTF-16.", "Save it as UTF-8.", where))
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        detail = f"{file} is not UTF-8: byte 0x{content[error.start]:02x} in line {line}."
        raise Problem(Diagnostic(_UNREADABLE, detail, "Save it as UTF-8.", Location(file, line, 1))) from None
