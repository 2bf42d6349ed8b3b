"""The order of the rooms of fedmpi, which a test enforces and the documentation shows."""

# Each room imports only from rooms before it. Those on one line do not import each other.
ORDER = [
    {""},  # fedmpi/__init__.py
    {"errors", "rng", "native"},
    {"plugin", "config"},
    {"sampling", "data"},
    {"theory", "models", "network", "compression", "scale"},
    {"client", "server"},
    {"comm"},
    {"record", "federation"},
    {"report"},
    {"job"},
    {"cli"},
    {"__main__"},
]
