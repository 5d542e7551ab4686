"""A small router for one or more prefill servers and decode servers of vLLM: prefill first.

    python -m kvrail.proxy --prefill http://127.0.0.1:8100 --decode http://127.0.0.1:8200

It speaks the protocol of vLLM's NIXL connector, with the standard library alone.
common/docs/engines.md explains its use.

Without sockets, clocks and threads:
    message.py   heads of HTTP/1.1 messages
    bodies.py    the JSON bodies of both legs
    servers.py   which servers there are, and which is next
    route.py     the way of one request: prefill, decode, attempts, failures
    metrics.py   counters as a page of metrics
With them:
    stream.py    messages over one connection
    upstream.py  one request to one server
    relay.py     one request of a client
    listener.py  clients' connections, and the end
    secure.py    where it may listen, and its certificate
"""

from __future__ import annotations
