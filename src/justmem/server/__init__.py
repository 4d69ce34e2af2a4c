"""The HTTP and MCP server, the chat proxy and the inspector pages.

run.py           uvicorn, and the limits on connections
application.py   the ASGI application: routes, lifespan, OpenAPI
middleware.py    checks each request before a route sees it: origin, key, size, rate; access log
requests.py      what the routes share: parameters, bodies, access to a space
session_routes.py, card_routes.py
                 parse the request, call AsyncMemory, return the result
problems.py      errors as application/problem+json
state.py         the parts of one running server; starting and stopping
access_keys.py   keys, rights, the spaces they open, and limits
expiry_task.py   forgets expired data
metrics.py       counts for Prometheus
mcp/             the same operations as tools, resources and prompts for agents
proxy/           chat URLs that remember
inspector/       the web pages
"""
