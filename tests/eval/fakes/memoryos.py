"""Like MemoryOS: an exchange without a reply is thrown away when it leaves short-term memory."""

import json
from pathlib import Path

SHORT = 3


class Memoryos:
    def __init__(self, user_id, openai_api_key, openai_base_url, data_storage_path, llm_model):
        self.path = Path(data_storage_path) / "pages.json"
        self.pages = json.loads(self.path.read_text()) if self.path.exists() else []
        self.retriever = self.short_term_memory = self

    def add_memory(self, user_input, agent_response, timestamp):
        page = {"user_input": user_input, "agent_response": agent_response, "timestamp": timestamp}
        self.pages.append(page)
        self.path.write_text(json.dumps(self.pages))

    def get_all(self):
        return self.pages[-SHORT:]

    def retrieve_context(self, user_query, user_id):
        pages = [page for page in self.pages[:-SHORT] if page["agent_response"]]
        known = [{"knowledge": f"knowledge {n}"} for n in range(4)]
        return {
            "retrieved_pages": pages,
            "retrieved_user_knowledge": known,
            "retrieved_assistant_knowledge": [],
        }

    def get_user_profile_summary(self):
        return "profile"
