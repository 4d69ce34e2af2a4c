"""The interfaces of language models, embedders, rerankers, stores and human languages.

Any object with these methods works. Nothing has to inherit from these classes.

models           models, the stages that a model or rules can do, human languages
searches         what a search asks a store for, and what it finds
store            the store of one space
"""

from justmem.ports.models import *
from justmem.ports.searches import *
from justmem.ports.store import *
