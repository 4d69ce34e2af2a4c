"""Memory inside other frameworks: one module for each, imported only where it is used.

agent_framework, google_adk, langchain, langgraph, llama_index, openai_agents, pydantic_ai, strands
                 the framework of that name
anthropic        the memory tool of Anthropic
hooks            the hooks of coding assistants
arguments        the arguments of the tools
safe             a memory whose failures do not stop the chat
"""
