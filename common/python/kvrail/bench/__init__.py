"""What the connector costs in Python: `kvrail bench connector`, or python3 -m kvrail.bench.

    library.py   stands in for libkvrail: every call is taken, and transfers end when they are told to
    request.py   stands in for vLLM's request
    engine.py    both sides of the connector, called as vLLM calls them in a step
    adapter.py   the same through the class that vLLM loads; needs vLLM
    measure.py   requests that come and go beside those in flight; the medians
"""
