"""Chat URLs that remember: recall before, forward, remember after.

Whatever happens to memory, the chat goes on: the answer then says so in `X-JustMem-Error`. All of
a request but the memory note passes byte for byte, and so does the answer.

routes.py        the URLs
passage.py       one chat on its way: recall, budget, forward, remember
upstreams.py     the servers behind, and which headers pass
wire.py          what differs between the formats; completions.py, responses.py, messages.py
splice.py        adds a text to JSON without touching the rest
"""

from justmem.server.proxy.passage import ERROR, RECEIPT
from justmem.server.proxy.routes import router
from justmem.server.proxy.upstreams import connected

__all__ = ["ERROR", "RECEIPT", "connected", "router"]
