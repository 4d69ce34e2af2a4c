"""English: dates, statements, questions and answers."""
