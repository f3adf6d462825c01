"""Policy servers: `--policy ws://HOST:PORT`, and `envhub serve POLICY`.

`provider` runs in the host, which receives nothing from a server: it reads the URL and the
arguments. `policy` and what it imports run in the policy's process: `keys` and `pictures` make a
request of an observation, `dialects` says how each kind of server is spoken to, `links` moves
frames, and `codec` reads and writes them.
"""
