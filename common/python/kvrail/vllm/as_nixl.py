"""The connector under the name NixlConnector: some routers choose their protocol by the class name.

{"kv_connector": "NixlConnector", "kv_connector_module_path": "kvrail.vllm.as_nixl", …}
"""

from __future__ import annotations

from .connector import KvrailConnector

__all__ = ["NixlConnector"]


class NixlConnector(KvrailConnector):
    """KvrailConnector, and nothing else."""
