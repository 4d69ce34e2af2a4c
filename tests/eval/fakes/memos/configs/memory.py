class MemoryConfigFactory:
    def __init__(self, backend, config):
        self.config = config
