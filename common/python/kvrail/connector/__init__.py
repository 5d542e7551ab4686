"""What a connector needs to know about requests, without an engine and without kvrail.

    source.py   one publish of one rank: late or in chunks, leases, preemption, a lost agent
    target.py   one fetch of one rank: queued, loading, retried, aborted, released
    book.py     many of either, at a cost for each event only
    prefill.py  a request at the scheduler of a prefill engine
    decode.py   a request at the scheduler of a decode engine
    blocks.py   the page tables, and the pages that a failure leaves to be computed again
    handoff.py  kv_transfer_params: how one scheduler names a request to the other
    machine.py  the parts that the machines share

All state is in frozen records, and every change is a pure function `step(record, event, now)`. An
adapter turns the engine's calls and kvrail's events into events here, and the actions into calls of
kvrail and answers to the engine. Where scheduler and ranks are separate processes (vLLM),
prefill.py and decode.py run in the scheduler, and their commands are the events of the ranks'
books. Where one process does both (SGLang), source.py and target.py are enough.
"""
