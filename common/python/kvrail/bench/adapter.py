"""The class that vLLM loads, once as the scheduler's and once as the worker's. Needs vLLM."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from vllm import __version__
from vllm.distributed.kv_transfer.kv_connector.v1.base import KVConnectorRole

from ..vllm.connector import KvrailConnector, KvrailHandshake
from .engine import SOURCES, Session
from .request import Cache, Request

__all__ = ["Adapter"]

LAYERS = 32  # for each, vLLM calls the worker's side twice


def _connector() -> KvrailConnector:
    transfer = SimpleNamespace(kv_role="kv_both", engine_id="bench", kv_connector_extra_config={})
    config: Any = SimpleNamespace(
        kv_transfer_config=transfer,
        parallel_config=None,
        device_config=SimpleNamespace(device_type="cpu"),
    )
    cache: Any = Cache()
    return KvrailConnector(config, KVConnectorRole.SCHEDULER, cache)


class Adapter:
    """As Engine."""

    driven = f"KvrailConnector, as vLLM {__version__} calls it for {LAYERS} layers"

    def __init__(self, session: Session) -> None:
        self._scheduler, self._worker = _connector(), _connector()
        worker: Any = self._worker
        worker._session = session  # in place of register_kv_caches, which wants tensors and agents
        [source] = SOURCES
        shake = KvrailHandshake(source.agent, source.engine, source.generation)
        self._scheduler.set_xfer_handshake_metadata_pp_aware({(source.pp, source.tp): shake})

    # ---- the scheduler --------------------------------------------------------------------------

    def queue(self, request: Any) -> None:
        self._scheduler.on_new_request(request)

    def allocate(self, request: Any) -> None:
        tokens, _ = self._scheduler.get_num_new_matched_tokens(request, 0)
        self._scheduler.update_state_after_alloc(request, request, tokens or 0)

    def metadata(self, computed: Any) -> Any:
        return self._scheduler.build_connector_meta(computed)

    def finish(self, request: Any) -> dict[str, Any] | None:
        return self._scheduler.request_finished_all_groups(request, request.get_block_ids())[1]

    def update(self, output: Any) -> None:
        self._scheduler.update_connector_output(output)

    # ---- the worker -----------------------------------------------------------------------------

    def work(self, metadata: Any) -> Any:
        worker = self._worker
        worker.bind_connector_metadata(metadata)
        worker.start_load_kv(None)
        for _ in range(LAYERS):
            worker.wait_for_layer_load("layer")
            worker.save_kv_layer("layer", None, None)
        worker.wait_for_save()
        results = worker.get_transfer_results(set())
        worker.get_block_ids_with_load_errors()
        worker.get_kv_connector_stats()
        meta = worker.build_connector_worker_meta()
        worker.clear_connector_metadata()
        return SimpleNamespace(
            finished_sending=results.finished_sending,
            finished_recving=results.finished_recving,
            kv_connector_worker_meta=meta,
        )
