"""Generates the code of the contract before the package is built."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class GenerateHook(BuildHookInterface):  # type: ignore[type-arg]
    """Generates from the repository. A source distribution has the generated code already."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Runs before each build."""
        root = Path(self.root)
        repository = root.parents[1]
        if (repository / "proto").is_dir():
            import sys

            sys.path.insert(0, str(root))
            from generate import main

            main(repository, root / "src/kith_client/v1")
