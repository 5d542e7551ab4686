"""The agents of this host, for an engine: found by their sockets, or started for it.

    find.py      the sockets in the run directories, and which agent listens there
    start.py     an agent that the engine's workers start, and that ends with them
    keep.py      when it is started: what start.py carries out
    command.py   its program and command line
    certificates.py  its certificate, and the CA of this user's agents
    place.py     its files

An engine's adapter uses these modules; nothing here imports an engine.
"""
