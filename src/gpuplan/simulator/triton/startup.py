"""Starting a Triton server in a container: its command line, its repositories, the models it loads at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from gpuplan.simulator.engine.lookup import image_by_id
from gpuplan.simulator.engine.registry import TRITON
from gpuplan.simulator.state import NodeState, SimulatedContainer, SimulatedTriton, text, texts
from gpuplan.simulator.store import Machine
from gpuplan.simulator.triton.load import LoadFailed, Serving, load
from gpuplan.simulator.triton.model_files import NeverAnswers
from gpuplan.triton.releases import TritonRelease, flag_error, flags, rejects, release_of

# The command line of `tritonserver`, as its parser reads it.

_TRUE = ("true", "on", "1")


class BadOption(Exception):
    """The server does not start: what it prints before it exits with 1."""


@dataclass(frozen=True)
class Options:
    """What the command line says; later values win, repeatable ones add up."""

    values: dict[str, list[str]] = field(default_factory=dict)

    def text(self, name: str, default: str = "") -> str:
        """The last value of a flag."""
        return self.values.get(name, [default])[-1]

    def flag(self, name: str, default: bool) -> bool:
        """A flag that is on or off; one without a value is on."""
        return self.text(name, "true" if default else "false").lower() in _TRUE

    @property
    def repositories(self) -> list[str]:
        """Directories of models, inside the container."""
        return self.values.get("model-repository", []) + self.values.get("model-store", [])

    @property
    def load(self) -> list[str]:
        """Models to load at the start."""
        return self.values.get("load-model", [])


def parse_options(words: Sequence[str], release: TritonRelease | None) -> Options:
    """Read the command line.

    Raises:
        BadOption: in the server's own words.
    """
    values: dict[str, list[str]] = {}
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if not word.startswith("--"):
            raise BadOption(f"Unrecognized option. Use '--help'. Got {word}")
        name, equals, value = word[2:].partition("=")
        objection = flag_error(name, release)
        if objection and objection.fatal:
            raise BadOption(f"tritonserver: unrecognized option '{word}'")
        takes = flags()[name].takes
        if not equals and takes != "none":
            if not rest:
                raise BadOption(f"tritonserver: option '{word}' requires an argument")
            value = rest.pop(0)
        if value and rejects(flags()[name], value):
            raise BadOption(f"Invalid option value. Got {value}")
        values.setdefault(name, []).append(value or "true")
    options = Options(values)
    mode = options.text("model-control-mode", "none")
    if mode not in ("none", "poll", "explicit"):
        raise BadOption(f"invalid argument for --model-control-mode: {mode}")
    if options.load and mode != "explicit":
        raise BadOption("Error: Use of '--load-model' requires setting '--model-control-mode=explicit' as well.")
    if not options.repositories:
        raise BadOption("Error: --model-repository must be specified")
    return options


_VERSION, _RELEASE = "2.51.0", "24.10"
_NGC_BACKENDS = [
    "dali",
    "fil",
    "identity",
    "onnxruntime",
    "openvino",
    "python",
    "pytorch",
    "repeat",
    "square",
    "tensorrt",
]
_FIRST_TRITON_IN_ENV = "TRITON_SERVER_VERSION="


def start_server(state: NodeState, container: SimulatedContainer, machine: Machine, words: Sequence[str]) -> int | None:
    """Start the server; returns the exit code where it gives up, None where it runs."""
    reference = text(container.config.get("Image"))
    release = release_of(reference)
    try:
        options = parse_options(words, release)
        server = _server(state, container, machine, options, release)
        state.servers[container.id] = server
        _load_all(Serving(state, machine, container, server), options)
    except BadOption as error:
        state.servers.pop(container.id, None)
        container.write(2, str(error))
        return 1
    container.write(2, f"Started HTTPService at 0.0.0.0:{server.http_port}")
    return None


def _server(
    state: NodeState, container: SimulatedContainer, machine: Machine, options: Options, release: TritonRelease | None
) -> SimulatedTriton:
    for path in options.repositories:
        real = machine.inside(container, path)
        if real is None or not real.is_dir():
            raise BadOption(f"error: creating server: Internal - failed to stat file {path}")
    image = image_by_id(state, container.image)
    names = [*(image.tags if image else ()), text(container.config.get("Image"))]
    ngc = any(name.startswith(TRITON) for name in names)
    versions = [one for one in texts(container.config.get("Env")) if one.startswith(_FIRST_TRITON_IN_ENV)]
    version = versions[0].partition("=")[2] if versions else (release.version if release else "")
    return SimulatedTriton(
        repositories=options.repositories,
        mode=options.text("model-control-mode", "none"),
        http_port=int(options.text("http-port", "8000")),
        strict_readiness=options.flag("strict-readiness", default=True),
        auto_complete=not options.flag("disable-auto-complete-config", default=False),
        version=version or _VERSION,
        release=release.name if release else _RELEASE,
        identity=options.text("id", "triton"),
        backends=_NGC_BACKENDS if ngc else ["python"],
    )


def _load_all(serving: Serving, options: Options) -> None:
    wanted = options.load if serving.server.mode == "explicit" else ["*"]
    names = sorted(serving.directories()) if wanted == ["*"] else wanted
    failed = False
    for name in dict.fromkeys(names):
        try:
            load(serving, name)
        except LoadFailed:
            failed = True
        except NeverAnswers:
            break
    if failed and options.flag("exit-on-error", default=True):
        raise BadOption("error: creating server: Internal - failed to load all models")
