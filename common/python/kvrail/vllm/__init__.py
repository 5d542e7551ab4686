"""kvrail for vLLM: --kv-transfer-config names KvrailConnector and kv_connector_module_path
kvrail.vllm.

    scheduler.py  the scheduler's side, without any import of vLLM
    groups.py     KV groups from vLLM's specifications, block ids to page tables
    connector.py  the class that vLLM loads
    settings.py   the options; agents.py: the agents that they ask for
    as_nixl.py    the same class under the name NixlConnector, for routers that go by the class name

vLLM is imported only when the class is asked for.
"""

from __future__ import annotations

from typing import Any

__all__ = ["KvrailConnector"]


def __getattr__(name: str) -> Any:
    if name == "KvrailConnector":
        from .connector import KvrailConnector

        return KvrailConnector
    raise AttributeError(f"module {__name__} has no attribute {name}")
