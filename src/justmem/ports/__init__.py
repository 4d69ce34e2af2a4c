"""The interfaces of language models, embedders, rerankers, stores and human languages.

Any object with these methods works. Nothing has to inherit from these classes.
"""

from justmem.ports.models import *
from justmem.ports.searches import *
from justmem.ports.store import *
