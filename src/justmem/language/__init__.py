"""All code that knows a human language.

languages        picks the rules for each text
plain            the rules that fit every language
en               the rules of English
words            sentences, words and stems of a text
citing           quotations of the words that a card rests on
detection        the language of a text, and whether it is code
"""
