"""The rules of English.

english                      English: the implementation of `Language`
statements, sentence_types   a session -> cards: which sentences, and of what kind
speaker                      names for "I" and "my", and the name that the user gives
dates, date_phrases          "last Friday" -> a date
questions                    a question -> its plan
answers                      evidence -> an answer: the order in which the other modules are tried
quoting                      which statements fit a question, and in which order they are quoted
scores                       what a statement is worth as an answer
excerpts                     the exact words that a question asks for, in recovered turns
states                       values that a newer statement replaces: a home, an employer, a weight
descriptions                 questions such as "Who is Ines?", and cards that describe somebody
word_lists, words.toml       word lists as data
"""
