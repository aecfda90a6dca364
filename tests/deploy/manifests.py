"""deploy/kubernetes as `kubectl` would read it, as far as these tests need it."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import yaml

from tests.fault.server import ROOT

FOLDER = ROOT / "deploy" / "kubernetes"

Resource = dict[str, Any]


class Container(NamedTuple):
    """A container, the template of its pod, and the resource that makes such pods."""

    name: str
    made: dict[str, Any]
    pod: dict[str, Any]
    resource: Resource

    @property
    def environment(self) -> dict[str, str]:
        """What comes from the pod's own fields is that of some pod."""
        fields = {"status.podIP": "10.0.0.7"}
        found = {}
        for one in self.made.get("env", []):
            path = one.get("valueFrom", {}).get("fieldRef", {}).get("fieldPath")
            found[one["name"]] = fields[path] if path else one["value"]
        return found

    @property
    def ports(self) -> dict[str, int]:
        return {port["name"]: port["containerPort"] for port in self.made.get("ports", [])}


def kustomization() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((FOLDER / "kustomization.yaml").read_text())
    return found


def resources() -> list[Resource]:
    """Of every file that the kustomization names, in their order."""
    texts = [(FOLDER / name).read_text() for name in kustomization()["resources"]]
    return [one for text in texts for one in yaml.load_all(text, yaml.CSafeLoader)]


def containers() -> Iterator[Container]:
    for resource in resources():
        spec = resource.get("spec", {})
        spec = spec.get("jobTemplate", {}).get("spec", spec)
        if pod := spec.get("template"):
            for one in pod["spec"]["containers"]:
                yield Container(one["name"], one, pod, resource)


def selected(labels: dict[str, str]) -> list[Container]:
    """The containers of pods that have these labels."""
    return [one for one in containers() if labels.items() <= one.pod["metadata"]["labels"].items()]
