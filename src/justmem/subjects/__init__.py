"""What memory holds about one subject.

about            all cards of a subject, and the turns that name it
history          what was true when, and a profile of the subject
card_source      a card by its id, and the turns that it rests on
user_name        the name that the user gives themselves, in place of "User"
"""
