"""Steps of the gpu room: each with all that the apply door needs, in JSON form."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from gpuplan.resources.gpu import insides, memory, whole
from gpuplan.resources.gpu.modes import Way
from gpuplan.resources.gpu.placement.solve.arrange import Arrangement, New, Standing
from gpuplan.resources.gpu.units import Unit
from gpuplan.resources.gpu.words import listed
from gpuplan.types.address import Address, parse_address
from gpuplan.types.change import Step, Verb
from gpuplan.types.value import Json, JsonObject


@dataclass(frozen=True)
class Makings:
    """Builds the steps of one GPU."""

    unit: Unit
    found: JsonObject
    """MIG mode and settings as they were before gpuplan first came."""
    gone: tuple[memory.MadeSlice, ...] = ()
    """Slices to be forgotten, since they stand no more."""
    forgets: bool = False
    """The GPU is no longer in the plan file: with the last step everything about it is forgotten."""
    lingers: bool = False
    """What is remembered of it does not go with a recorded resource: it needs a step even where nothing else does."""
    replaced: bool = False
    """It is another GPU than at the last apply."""
    seen: tuple[str, ...] = ()
    """Strangers who use the GPU, whom a guard speaks of."""

    def all(self, plan: Arrangement, turning: Way) -> tuple[Step, ...]:
        """Every step from what stands to `plan`; `turning` is what becomes of the GPU as a whole."""
        steps = [*self._remembers(plan), *self._destroys(plan)]
        steps += [self._whole(each) for each in whole.acts(self.unit, turning)]
        steps += [*self._insides(plan), *(self._create(new, plan) for new in plan.create)]
        if not steps and (self.lingers or self.replaced):
            steps.append(self._only_remembers())
        return (*steps[:-1], self._last(steps[-1])) if steps and self.forgets else tuple(steps)

    def _only_remembers(self) -> Step:
        nothing: Mapping[str, Json] = {"act": "remember", "forget": [], "remember": {}}
        name = self.unit.address.name
        if self.lingers:
            return self._step("forget", Verb.DELETE, f"forget {name}, on which nothing of ours is left", nothing)
        return self._step("remember", Verb.UPDATE, f"remember that {name} is {self.unit.gpu.uuid}", nothing)

    def _last(self, step: Step) -> Step:
        arguments: dict[str, Json] = {**step.payload, "forget_gpu": True}
        return replace(step, payload=arguments)

    def _step(
        self, name: str, verb: Verb, title: str, arguments: Mapping[str, Json], **sets: tuple[Address, ...]
    ) -> Step:
        common: dict[str, Json] = {"gpu": self.unit.gpu.uuid, "unit": str(self.unit.address), "found": self.found}
        arguments = {**common, **arguments}
        sequence = self.unit.address.name if self.unit.prefix else ""
        return Step(f"{self.unit.prefix}{name}", self.unit.resource, verb, title, arguments, sequence, "", 0, **sets)

    def _whole(self, act: whole.Act) -> Step:
        gpu = (self.unit.address,)
        sets = {"makes": gpu, "frees": gpu} if act.turns else {"uses": gpu}
        seen: dict[str, Json] = {"seen": list(self.seen)} if act.turns and self.seen else {}
        return self._step(act.name, Verb.UPDATE, act.title, {"act": act.act, **act.payload, **seen}, **sets)

    def _destroys(self, plan: Arrangement) -> Iterator[Step]:
        made = tuple(self.unit.address.part(new.name) for new in plan.create)
        taken_over = {self.unit.address.part(name) for name in plan.keep}
        for one in plan.going:
            part, instance = one.part(self.unit), one.instance
            forget = str(one.made) if one.made and one.made not in taken_over else None
            yield self._step(
                f"destroy-{part.name.rpartition('/')[2]}",
                Verb.DELETE,
                f"destroy slice {one.called(self.unit)}",
                {
                    "act": "destroy",
                    "instance": instance.id,
                    "profile_id": instance.profile_id,
                    "profile": instance.profile,
                    "start": instance.start,
                    "forget": forget,
                    "seen": list(one.users.strangers),
                },
                frees=tuple(dict.fromkeys((part, *made))),
            )

    def _create(self, new: New, plan: Arrangement) -> Step:
        part = self.unit.address.part(new.name)
        wanted = {each.name: each.profile for each in self.unit.spec.slices}
        arguments: Mapping[str, Json] = {
            "act": "create",
            "slice": str(part),
            "profile": new.profile,
            "start": new.start,
            "compute": list(new.compute),
            "wanted": [[name, profile] for name, profile in wanted.items()],
            "restore": [_restorable(one) for one in plan.going],
        }
        return self._step(
            f"create-{new.name}",
            Verb.CREATE,
            f"create slice {self.unit.called(new.name)} ({new})",
            arguments,
            makes=(part,),
        )

    def _insides(self, plan: Arrangement) -> Iterator[Step]:
        for each in insides.acts(self.unit, plan):
            yield self._step(each.name, each.verb, each.title, each.payload, makes=each.makes, frees=each.frees)

    def _remembers(self, plan: Arrangement) -> Iterator[Step]:
        """At most one step, which changes nothing of the GPU: slices under new names, and slices that are gone."""
        renamed = {name: one for name, one in renames(self.unit, plan).items() if one.made}
        facts: dict[str, Json] = {
            str(self.unit.address.part(name)): memory.slice_fact(
                self.unit.gpu.uuid, one.instance.profile, one.instance.start, one.instance.size, one.known
            )
            for name, one in renamed.items()
        }
        old = [str(one.made) for one in renamed.values()] + [str(made.part) for made in self.gone]
        if not old:
            return
        words = [f"{one.made.name} is now {name}" for name, one in renamed.items() if one.made]
        words += [f"{made.part.name} is gone" for made in self.gone]
        arguments: dict[str, Json] = {"act": "remember", "forget": old, "remember": facts}
        yield self._step(
            "remember",
            Verb.UPDATE,
            f"remember that slice {listed(words)}",
            arguments,
            makes=tuple(self.unit.address.part(name) for name in renamed),
            frees=tuple(parse_address(each) for each in old),
        )


def _restorable(one: Standing) -> Json:
    """What stood before a slice is created, to be put back where that fails."""
    instance = one.instance
    return {
        "part": str(one.made) if one.made else None,
        "profile": instance.profile,
        "profile_id": instance.profile_id,
        "start": instance.start,
        "size": instance.size,
        "compute": [each.slices for each in instance.computes],
    }


def renames(unit: Unit, plan: Arrangement) -> Mapping[str, Standing]:
    """Slices that stay as they are and have another name from now on."""
    return {name: one for name, one in plan.keep.items() if one.made and one.made != unit.address.part(name)}
