"""Configs of mig-parted as YAML, in the style of its own files."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence

from gpuplan.convert.mig_parted.read_files.form import Entry


def as_text(plan: str, configs: Mapping[str, Sequence[Entry]], hosts: Mapping[str, Sequence[str]] | None = None) -> str:
    """The whole file."""
    rows = [f"# The MIG slices of gpuplan's plan {json.dumps(plan)}.", "version: v1", "mig-configs:"]
    for name, entries in configs.items():
        if nodes := (hosts or {}).get(name):
            rows.append(f"  # {', '.join(nodes)}")
        rows.append(f"  {json.dumps(name)}:")
        for entry in entries:
            rows.extend(_entry(entry))
    return "\n".join(rows) + "\n"


def _entry(entry: Entry) -> Iterator[str]:
    rows = [f"device-filter: {json.dumps(list(entry.filters))}"] if entry.filters else []
    rows.append(f"devices: {'all' if entry.devices == 'all' else json.dumps(list(entry.devices))}")
    rows.append(f"mig-enabled: {'true' if entry.mig_enabled else 'false'}")
    rows.append("mig-devices:" if entry.slices else "mig-devices: {}")
    rows.extend(f"  {json.dumps(profile)}: {count}" for profile, count in entry.slices.items())
    yield f"    - {rows[0]}"
    yield from (f"      {row}" for row in rows[1:])
