-- Actions and sign-ins: by which token or certificate, from where, and how they ended. actor is empty where that is not known.
CREATE TABLE audit (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    at_ns INTEGER NOT NULL,
    action TEXT NOT NULL,
    actor TEXT NOT NULL,
    via TEXT NOT NULL,
    object TEXT NOT NULL,
    source TEXT NOT NULL,
    outcome TEXT NOT NULL,
    detail TEXT NOT NULL
) STRICT;

CREATE INDEX audit_by_time ON audit (at_ns);
