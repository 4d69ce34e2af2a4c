"""The HTTP and MCP server, the chat proxy and the inspector pages.

run.py           uvicorn, and the limits on connections
middleware.py    checks each request before a route sees it: origin, key, size, time; access log
application.py   the ASGI application: routes, lifespan, health, metrics
space_routes.py, session_routes.py, card_routes.py
                 parse the request, call AsyncMemory, return the result
requests.py      what the routes share: parameters, bodies, access to a space
space_access.py  what one key does in one space: for HTTP, MCP and the proxy
problems.py      errors as application/problem+json
state.py         the parts of one running server; starting and stopping
access_keys.py   keys, rights, the spaces they open, and limits
expiry_task.py   forgets expired data
metrics.py       counts for Prometheus
mcp/             the same operations as tools, resources and prompts for agents
proxy/           chat URLs that remember
inspector/       the web pages
"""
