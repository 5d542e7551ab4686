"""The scheduler of a test, asked over HTTP. SCHEDULER_TLS of the environment is the folder of the
test's CA; without it the scheduler speaks plain text."""

from __future__ import annotations

import os
import ssl
import urllib.request
from typing import Any


def ask(address: str, path: str, timeout: float) -> Any:
    """The answer, to be read and closed."""
    folder = os.environ.get("SCHEDULER_TLS")
    if not folder:
        return urllib.request.urlopen(f"http://{address}{path}", timeout=timeout)
    context = ssl.create_default_context(cafile=f"{folder}/ca.pem")
    context.load_cert_chain(f"{folder}/tests.pem", f"{folder}/tests-key.pem")
    return urllib.request.urlopen(f"https://{address}{path}", timeout=timeout, context=context)
