"""Chat URLs that remember: recall before, forward, remember after.

routes.py        the URLs
chat.py          one chat: recall, budget, forward, remember
formats.py       what differs between the three chat formats
upstreams.py     the servers behind, which headers pass, and the mask for their secrets
costs.py         the tokens of a chat
"""
