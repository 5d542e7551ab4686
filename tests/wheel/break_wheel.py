"""Writes a wheel with one fault: python3 break_wheel.py FAULT WHEEL OUTPUT LIBRARY. FAULT: changed, unrecorded,
unlicensed (without libfabric's licence), late (that library, which needs a later glibc, is in it), verbs (under
a name that only the host has)."""

import sys
import zipfile
from pathlib import Path

fault, wheel, output = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
library = Path(sys.argv[4])
with zipfile.ZipFile(wheel) as old, zipfile.ZipFile(output, "w", zipfile.ZIP_DEFLATED) as new:
    for entry in old.infolist():
        if fault == "unlicensed" and "/licenses/libfabric" in entry.filename:
            continue
        content = old.read(entry)
        if fault == "changed" and entry.filename == "kvrail/aio.py":
            content += b"\n"
        new.writestr(entry, content)
    if fault == "unrecorded":
        new.writestr("kvrail/more.py", "")
    elif fault == "late":
        new.writestr("kvrail/lib/liblate.so.1", library.read_bytes())
    elif fault == "verbs":
        new.writestr("kvrail/lib/libibverbs.so.1", library.read_bytes())
