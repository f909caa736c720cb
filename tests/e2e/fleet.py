"""A plan file of twenty models with three ensembles that changes at random, and what a server must have then."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import yaml

SINGLES = tuple(f"m{number:02}" for number in range(17))
ENSEMBLES = ("e0", "e1", "e2")
CODE = """\
import numpy
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        answers = []
        for request in requests:
            given = pb_utils.get_input_tensor_by_name(request, "IN").as_numpy()
            told = pb_utils.Tensor("OUT", (given + {answer}).astype(numpy.int32))
            answers.append(pb_utils.InferenceResponse([told]))
        return answers
"""
TENSOR = '{{ name: "{name}" data_type: TYPE_INT32 dims: [ 1 ] }}'
CONFIG = (
    'backend: "python"\nmax_batch_size: 4\ninput [ ' + TENSOR.format(name="IN") + " ]\noutput [ "
    + TENSOR.format(name="OUT") + " ]\ninstance_group [ { kind: KIND_CPU } ]\n"
)  # fmt: skip


@dataclass
class Single:
    """A model that adds a number to what it is given; each version its own."""

    answers: dict[int, int] = field(default_factory=lambda: {1: 1})
    """Version → what it adds."""
    versions: str | list[int] | None = None
    batch: int = 4

    def served(self) -> tuple[int, ...]:
        """The versions that the policy selects; Triton's default is the latest one."""
        present = sorted(self.answers)
        if isinstance(self.versions, list):
            return tuple(self.versions)
        if self.versions == "all":
            return tuple(present)
        return tuple(present[-int((self.versions or "latest 1").split()[1]) :])


@dataclass
class Fleet:
    """What the plan file says, and the sources beside it."""

    root: Path
    head: dict[str, object]
    """The plan file without its models."""
    server: str
    rng: Random
    singles: dict[str, Single] = field(default_factory=lambda: {name: Single() for name in SINGLES})
    parts: dict[str, list[str]] = field(default_factory=dict)
    gone: set[str] = field(default_factory=set)
    order: list[str] = field(default_factory=lambda: [*SINGLES, *ENSEMBLES])

    def __post_init__(self) -> None:
        for name in ENSEMBLES:
            self.parts[name] = self.rng.sample(SINGLES, 3)
        for name in SINGLES:
            self._write_single(name)
        for name in ENSEMBLES:
            self._write_ensemble(name)
        self.write()

    def expected(self) -> dict[str, tuple[int, ...]]:
        """Model → the versions that must be READY."""
        return {name: self._served(name) for name in self.order if name not in self.gone}

    def adds(self, name: str) -> int:
        """What a model adds to what it is given."""
        if name in self.parts:
            return sum(self.adds(part) for part in self.parts[name])
        single = self.singles[name]
        return single.answers[single.served()[-1]]

    def edit(self) -> str:
        """One edit of the plan file or of a source; what was done."""
        done = self.rng.choice(_EDITS)(self)
        self.write()
        return done

    def write(self) -> None:
        """The plan file."""
        models = {name: self._stated(name) for name in self.order if name not in self.gone}
        text = yaml.safe_dump({**self.head, "models": models}, sort_keys=False)
        (self.root / "fleet.yaml").write_text(text)

    def _served(self, name: str) -> tuple[int, ...]:
        return (1,) if name in self.parts else self.singles[name].served()

    def _stated(self, name: str) -> dict[str, object]:
        stated: dict[str, object] = {"source": f"models/{name}", "containers": [self.server]}
        if name in self.singles:
            single = self.singles[name]
            stated |= {"config": {"max_batch_size": single.batch}} if single.batch != 4 else {}
            stated |= {"versions": single.versions} if single.versions is not None else {}
        return stated

    def needed(self, name: str) -> bool:
        """True where a wanted ensemble is composed of it."""
        return any(name in parts for ensemble, parts in self.parts.items() if ensemble not in self.gone)

    def _write_single(self, name: str) -> None:
        home = self.root / "models" / name
        shutil.rmtree(home, ignore_errors=True)
        for version, answer in self.singles[name].answers.items():
            (home / str(version)).mkdir(parents=True)
            (home / str(version) / "model.py").write_text(CODE.format(answer=answer))
        (home / "config.pbtxt").write_text(CONFIG)

    def _write_ensemble(self, name: str) -> None:
        home = self.root / "models" / name
        (home / "1").mkdir(parents=True, exist_ok=True)
        tensors = ["IN", *(f"t{number}" for number in range(len(self.parts[name]) - 1)), "OUT"]
        steps = ", ".join(
            f'{{ model_name: "{part}" model_version: -1 input_map {{ key: "IN" value: "{tensors[at]}" }} '
            f'output_map {{ key: "OUT" value: "{tensors[at + 1]}" }} }}'
            for at, part in enumerate(self.parts[name])
        )
        (home / "config.pbtxt").write_text(
            f'platform: "ensemble"\nmax_batch_size: 2\ninput [ {TENSOR.format(name="IN")} ]\n'
            f"output [ {TENSOR.format(name='OUT')} ]\nensemble_scheduling {{ step [ {steps} ] }}\n"
        )

    def answer_anew(self) -> str:
        """Another content of one version, its file's times as they were: only the content tells."""
        name = self.rng.choice(SINGLES)
        version = self.rng.choice(sorted(self.singles[name].answers))
        file = self.root / "models" / name / str(version) / "model.py"
        before = file.stat()
        self.singles[name].answers[version] += self.rng.choice((10, 100))
        file.write_text(CODE.format(answer=self.singles[name].answers[version]))
        os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
        return f"{name}/{version} answers anew"

    def touch(self) -> str:
        """Newer file times, and nothing else."""
        name = self.rng.choice(self.order)
        for file in (self.root / "models" / name).rglob("*"):
            file.touch()
        return f"{name} is touched"

    def add_version(self) -> str:
        """One version more."""
        name = self.rng.choice(SINGLES)
        single = self.singles[name]
        version = max(single.answers) + self.rng.choice((1, 1, 4))
        single.answers[version] = self.rng.randint(1, 9)
        self._write_single(name)
        return f"{name} gets version {version}"

    def drop_version(self) -> str:
        """One version less, where there are several and the plan file does not name it."""
        name = self.rng.choice(SINGLES)
        single = self.singles[name]
        named = single.versions if isinstance(single.versions, list) else []
        free = [version for version in single.answers if version not in named]
        if len(single.answers) < 2 or not free:
            return self.add_version()
        version = self.rng.choice(free)
        del single.answers[version]
        self._write_single(name)
        return f"{name} loses version {version}"

    def choose_versions(self) -> str:
        """Another version policy."""
        name = self.rng.choice(SINGLES)
        single = self.singles[name]
        present = sorted(single.answers)
        some = sorted(self.rng.sample(present, self.rng.randint(1, len(present))))
        single.versions = self.rng.choice((None, "all", "latest 1", "latest 2", some))
        return f"{name} serves {single.versions or 'the latest version'}"

    def batch(self) -> str:
        """Another field of the config that the plan file lays over the source's."""
        name = self.rng.choice(SINGLES)
        self.singles[name].batch = self.rng.choice((2, 4, 8, 16))
        return f"{name} takes batches of {self.singles[name].batch}"

    def drop(self) -> str:
        """A model less; a part of a wanted ensemble stays."""
        name = self.rng.choice([each for each in self.order if each not in self.gone and not self.needed(each)])
        if len(self.order) - len(self.gone) <= 8:
            return self.bring_back()
        self.gone.add(name)
        return f"{name} goes"

    def bring_back(self) -> str:
        """A model that was dropped, with its parts."""
        if not self.gone:
            return self.drop()
        name = self.rng.choice(sorted(self.gone))
        self.gone -= {name, *self.parts.get(name, ())}
        return f"{name} comes back"

    def recompose(self) -> str:
        """An ensemble of other parts."""
        name = self.rng.choice(ENSEMBLES)
        self.parts[name] = self.rng.sample(SINGLES, self.rng.choice((2, 3)))
        if name not in self.gone:
            self.gone -= set(self.parts[name])
        self._write_ensemble(name)
        return f"{name} is composed of {', '.join(self.parts[name])}"

    def reorder(self) -> str:
        """The same models in another order."""
        self.rng.shuffle(self.order)
        return "the plan file is reordered"


_EDITS: tuple[Callable[[Fleet], str], ...] = (
    Fleet.answer_anew, Fleet.answer_anew, Fleet.touch, Fleet.add_version, Fleet.add_version, Fleet.drop_version,
    Fleet.choose_versions, Fleet.choose_versions, Fleet.batch, Fleet.drop, Fleet.drop, Fleet.bring_back,
    Fleet.bring_back, Fleet.recompose, Fleet.reorder,
)  # fmt: skip
