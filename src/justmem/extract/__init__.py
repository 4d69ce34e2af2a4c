"""A session becomes cards.

model            with one call of a language model
rules            without a model
drafts           the model's reply -> cards that code has checked
growth           a session that got more turns: only the new ones are extracted
"""
