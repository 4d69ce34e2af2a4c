"""Memory where assistants live: HTTP, MCP, a chat proxy, and pages to look inside.

edge.py        lets requests in: key, origin, size, rate; writes the log
http.py        the application: routes, lifespan, OpenAPI
routes/        parse, call AsyncMemory, translate
problems.py    the one error tree -> problem+json
spaces.py      memories, opened on demand, sharing one set of models
ingestion.py   sessions on their way to becoming cards
keys.py        who may do what
mcp.py         the same verbs as tools for agents
proxy.py       a chat URL that remembers
"""
